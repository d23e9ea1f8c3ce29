// SPDX-License-Identifier: Apache-2.0
//! Recipes: which file, which key, which command.

use super::*;
use crate::model_yaml::tests::FULL;

/// A spec for a Xavier NX with JetPack 5.
pub(in crate::engines) fn engine_spec() -> EngineSpec {
    EngineSpec {
        model: "tiny".to_owned(),
        folder: "models/tiny".into(),
        file: ModelFile {
            precision: "int8".to_owned(),
            path: "models/tiny/tiny_int8.onnx".into(),
            sha256: [0xaa; 32].into(),
            weights: Vec::new(),
        },
        precision: Precision::Int8,
        calibration: None,
        batch: 4,
        contexts: 2,
        dla: None,
        gpu_fallback: true,
        workspace_mib: None,
        flavor: Flavor::Full,
        version: Version::new(8, 5, 2),
        gpu: Gpu {
            name: Some("Xavier".to_owned()),
            capability: (7, 2),
        },
    }
}

/// A model folder with the precisions `int8` and `fp32`.
fn model_spec() -> ModelSpec {
    ModelSpec::from_text(Path::new("m"), FULL, |_| {
        unreachable!("no other file is named")
    })
    .expect("it is right")
}

fn without(spec: &ModelSpec, precision: &str) -> ModelSpec {
    let mut spec = spec.clone();
    spec.files.retain(|file| file.precision != precision);
    spec
}

#[test]
fn the_file_of_the_precision_is_selected_else_fp32_where_possible() {
    let spec = model_spec();
    let chosen = |spec: &ModelSpec, wanted, calibrated| {
        let (file, precision) =
            select_model_file(spec, wanted, calibrated).map_err(|error| error.to_string())?;
        Ok::<_, String>((file.precision, precision))
    };
    let is = |file: &str, precision| Ok((file.to_owned(), precision));
    assert_eq!(chosen(&spec, None, false), is("int8", Precision::Int8));
    let found = chosen(&spec, Some("int8"), false);
    assert_eq!(found, is("int8", Precision::Int8));
    let found = chosen(&spec, Some("fp32"), false);
    assert_eq!(found, is("fp32", Precision::Fp32));
    let found = chosen(&spec, Some("fp16"), false);
    assert_eq!(found, is("fp32", Precision::Fp16));
    // A calibration is for the float network, also where there is a quantized one: a DLA takes no other.
    let found = chosen(&spec, Some("int8"), true);
    assert_eq!(found, is("fp32", Precision::Int8));
    let found = chosen(&spec, Some("fp16"), true);
    assert_eq!(found, is("fp32", Precision::Fp16));

    let float = without(&spec, "int8");
    let found = chosen(&float, Some("int8"), true);
    assert_eq!(found, is("fp32", Precision::Int8));
    let error = chosen(&float, Some("int8"), false).expect_err("nothing is quantized");
    assert!(error.contains("--calibration-images"), "{error}");
    let quantized = without(&spec, "fp32");
    let error = chosen(&quantized, Some("int8"), true).expect_err("nothing can be calibrated");
    assert!(error.contains("has no fp32 network"), "{error}");
    let error = chosen(&quantized, Some("fp16"), false).expect_err("nothing to make it of");
    assert!(error.contains("set detector.precision to int8"), "{error}");
    let error = chosen(&spec, Some("best"), false).expect_err("no numbers");
    assert!(error.contains("begins with fp32, fp16 or int8"), "{error}");
}

#[test]
fn variants_of_a_precision_use_that_precision() {
    let mut spec = model_spec();
    spec.files[0].precision = "int8-small".to_owned();
    let (file, precision) =
        select_model_file(&spec, Some("int8-small"), false).expect("it is there");
    let found = (file.precision.as_str(), precision);
    assert_eq!(found, ("int8-small", Precision::Int8));
    let spec = EngineSpec {
        file,
        ..engine_spec()
    };
    assert!(
        spec.command(Path::new("e"))
            .contains("--precision int8-small")
    );
}

#[test]
fn the_file_name_has_the_readable_fields_and_the_key_the_rest() {
    let spec = engine_spec();
    let name = spec.file_name();
    assert!(name.starts_with("tiny-int8-b4-trt8.5.2-"), "{name}");
    assert!(is_engine_name(&name), "{name}");
    assert_eq!(name, spec.clone().file_name());
    let rtx = EngineSpec {
        model: "../a b".to_owned(),
        dla: Some(1),
        flavor: Flavor::Rtx,
        version: Version::new(1, 7, 1),
        ..spec
    };
    let name = rtx.file_name();
    assert!(name.starts_with(".._a_b-int8-dla-b4-rtx1.7.1-"), "{name}");
    for other in [
        "a.engine",
        "a-0123.engine",
        "a-0123456789abcdeg.engine",
        "a-0123456789abcdef.onnx",
    ] {
        assert!(!is_engine_name(other), "{other}");
    }
}

#[test]
fn workers_are_in_cache_key_when_each_needs_profile() {
    let of = |version, contexts| {
        let spec = EngineSpec {
            version,
            contexts,
            ..engine_spec()
        };
        spec.cache_key_fields().key()
    };
    let (eight, ten) = (Version::new(8, 6, 1), Version::new(10, 3, 0));
    assert_ne!(of(eight, 1), of(eight, 2));
    assert_eq!(of(ten, 1), of(ten, 2));
}

#[test]
fn irrelevant_settings_are_not_in_cache_key() {
    let plain = engine_spec();
    let other = EngineSpec {
        folder: "/elsewhere".into(),
        gpu_fallback: false,
        ..plain.clone()
    };
    assert_eq!(plain.cache_key_fields(), other.cache_key_fields());
    // The number of the core is chosen again when the engine is loaded.
    let on = |dla| {
        EngineSpec {
            dla,
            ..plain.clone()
        }
        .cache_key_fields()
    };
    assert_eq!(on(Some(0)), on(Some(1)));
    assert_ne!(on(Some(0)), on(None));
}

#[test]
fn the_command_is_quoted_for_a_shell() {
    let spec = engine_spec();
    let found = spec.command(Path::new(jetwatch_config::ENGINES_FOLDER));
    let wanted = "jetwatch engine build --model models/tiny --precision int8 --batch 4 --workers 2";
    assert_eq!(found, wanted);
    let other = EngineSpec {
        folder: "my models/it's".into(),
        file: ModelFile {
            precision: "fp32".to_owned(),
            ..spec.file.clone()
        },
        calibration: Some(Calibration {
            path: "c".into(),
            sha256: None,
        }),
        dla: Some(0),
        gpu_fallback: false,
        workspace_mib: Some(256),
        gpu: Gpu {
            name: None,
            capability: (8, 6),
        },
        ..spec
    };
    assert_eq!(
        other.command(Path::new("e")),
        "jetwatch engine build --model 'my models/it'\\''s' --precision int8 --batch 4 --workers 2 --dla 0 --no-gpu-fallback \
         --workspace 256 --calibration c --compute-capability 8.6 --engines e"
    );
}

#[test]
fn calibration_cache_is_recognized_by_first_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("cache");
    let error = Calibration::read(&path)
        .expect_err("it is missing")
        .to_string();
    assert!(error.contains("--calibration-images"), "{error}");
    std::fs::write(&path, "something else").expect("written");
    let error = Calibration::read(&path).expect_err("no cache").to_string();
    assert!(error.contains("begins with `TRT-`"), "{error}");
    std::fs::write(&path, "TRT-8502-EntropyCalibration2\nimages: 3c010a14\n").expect("written");
    let calibration = Calibration::read(&path).expect("a cache");
    let mut calibrated = engine_spec();
    calibrated.calibration = Some(calibration);
    let other = calibrated.with_calibration(b"TRT-8502-EntropyCalibration2\n");
    let found = calibrated.cache_key_fields().key();
    assert_ne!(found, other.cache_key_fields().key());
}
