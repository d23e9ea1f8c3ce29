// SPDX-License-Identifier: Apache-2.0
//! NVIDIA's TensorRT libraries through our vtables: TensorRT-RTX's builder, parser and runtime, and the lean and dispatch runtimes, on a
//! machine without a GPU.
//!
//! `JETWATCH_TENSORRT` names the folder with NVIDIA's libraries (`.ci/setup tensorrt` fetches them into `.cache/tensorrt`);
//! without it these tests are skipped with a message.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use jetwatch_nvidia::tensorrt::{
    BuildRequest, Flavor, Generation, Library, Precision, Progress, Runtime, TensorRtError, Version,
};

/// The library whose name begins with `stem`; `None`, with a message, when there is none.
fn library(stem: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("JETWATCH_TENSORRT") else {
        eprintln!("skipped: JETWATCH_TENSORRT names no folder with NVIDIA's libraries");
        return None;
    };
    let entries = std::fs::read_dir(&folder).expect("JETWATCH_TENSORRT names a folder");
    let mut names: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(stem)
        })
        .collect();
    names.sort();
    Some(
        names
            .pop()
            .unwrap_or_else(|| panic!("no {stem}* in {}", folder.display())),
    )
}

/// TensorRT-RTX, opened once for all tests of this process.
fn rtx() -> Option<Arc<Library>> {
    static OPEN: OnceLock<Option<Arc<Library>>> = OnceLock::new();
    OPEN.get_or_init(|| {
        let path = library("libtensorrt_rtx.so")?;
        Some(Library::open(Some(&path)).expect("it opens"))
    })
    .clone()
}

const ELEVEN: (Generation, Version) = (Generation::Eleven, Version::new(11, 4, 0));
const TEN: (Generation, Version) = (Generation::Ten, Version::new(10, 16, 1));

/// TensorRT's lean and dispatch runtimes: their names, generations of vtables, and versions.
const RUNTIMES: [(&str, (Generation, Version)); 4] = [
    ("libnvinfer_lean.so.11", ELEVEN),
    ("libnvinfer_lean.so.10", TEN),
    ("libnvinfer_dispatch.so.11", ELEVEN),
    ("libnvinfer_dispatch.so.10", TEN),
];

fn runtime(name: &str) -> Arc<Library> {
    let path = library(name).expect("JETWATCH_TENSORRT names a folder");
    Library::open(Some(&path)).expect("it opens")
}

fn street_nano(precision: &str) -> Vec<u8> {
    let name = format!("models/street-nano/street-nano_{precision}.onnx");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read(path).expect("our network")
}

fn request(onnx: &[u8], precision: Precision) -> BuildRequest<'_> {
    BuildRequest {
        batch: 4,
        compute_capability: Some((8, 6)),
        ..BuildRequest::new(onnx, precision)
    }
}

#[test]
fn versions_are_read() {
    let Some(rtx) = rtx() else { return };
    let found = (rtx.flavor(), rtx.generation(), rtx.version().major);
    assert_eq!(found, (Flavor::Rtx, Generation::Rtx, 1));
    assert!(rtx.can_build());
    for (name, (generation, version)) in RUNTIMES {
        let lean = runtime(name);
        let found = (lean.flavor(), lean.generation(), lean.version());
        assert_eq!(found, (Flavor::Lean, generation, version), "{name}");
        let onnx = street_nano("fp32");
        let error = request(&onnx, Precision::Fp32)
            .build(&lean)
            .expect_err("it has no builder");
        assert_has!(error.to_string() => "cannot build engines; install the full TensorRT");
    }
}

#[test]
fn network_builds_with_progress() {
    let Some(rtx) = rtx() else { return };
    let onnx = street_nano("int8");
    let steps = AtomicUsize::new(0);
    let tell = |progress: &Progress| {
        assert!(
            progress.done <= progress.steps && !progress.phase.is_empty(),
            "{progress:?}"
        );
        steps.fetch_add(1, Ordering::Relaxed);
        true
    };
    let request = BuildRequest {
        progress: Some(&tell),
        workspace_bytes: Some(256 << 20),
        ..request(&onnx, Precision::Int8)
    };
    let built = request.build(&rtx).expect("it builds");
    assert!(built.is_quantized);
    assert!(built.plan.len() > 500_000, "{} bytes", built.plan.len());
    assert!(steps.load(Ordering::Relaxed) > 0, "no step was reported");

    let onnx = street_nano("fp32");
    let built = self::request(&onnx, Precision::Fp32)
        .build(&rtx)
        .expect("it builds");
    assert!(!built.is_quantized);
}

#[test]
fn a_build_can_be_canceled() {
    let Some(rtx) = rtx() else { return };
    let onnx = street_nano("int8");
    let request = BuildRequest {
        progress: Some(&|_| false),
        ..request(&onnx, Precision::Int8)
    };
    let error = request.build(&rtx).expect_err("it was canceled");
    assert!(matches!(error, TensorRtError::Canceled), "{error}");
}

#[test]
fn parser_rejection_is_reported() {
    let Some(rtx) = rtx() else { return };
    let error = request(b"this is no network", Precision::Fp32)
        .build(&rtx)
        .expect_err("it is no network");
    assert!(
        error
            .to_string()
            .starts_with("TensorRT's parser refuses the network: "),
        "{error}"
    );
    let Some(data) = std::env::var_os("JETWATCH_TEST_DATA") else {
        eprintln!("the rest is skipped: JETWATCH_TEST_DATA names no folder");
        return;
    };
    let onnx =
        std::fs::read(Path::new(&data).join("models/yolox_nano_int8_s8_bias_quantized.onnx"))
            .expect("a network whose biases are quantized");
    let error = request(&onnx, Precision::Int8)
        .build(&rtx)
        .expect_err("it is refused");
    let TensorRtError::Parse { nodes } = &error else {
        panic!("refused elsewhere: {error}");
    };
    assert_eq!(nodes[0].operator, "DequantizeLinear", "{error}");
    assert!(
        !nodes[0].name.is_empty() && nodes[0].node.is_some(),
        "{error}"
    );

    let onnx =
        std::fs::read(Path::new(&data).join("models/yolox_nano_int8_s8.onnx")).expect("yolox_nano");
    let built = request(&onnx, Precision::Int8)
        .build(&rtx)
        .expect("it builds");
    assert!(built.is_quantized);
}

#[test]
fn int8_without_calibration_is_rejected() {
    let Some(rtx) = rtx() else { return };
    let onnx = street_nano("fp32");
    for (precision, advice) in [
        (Precision::Int8, "give a network with Q/DQ nodes"),
        (Precision::Fp16, "export it with 16-bit weights"),
    ] {
        let error = request(&onnx, precision)
            .build(&rtx)
            .expect_err("there is no such way");
        assert!(error.to_string().contains(advice), "{error}");
    }
    let onnx = street_nano("int8");
    let request = BuildRequest {
        dla: Some(0),
        ..request(&onnx, Precision::Int8)
    };
    let error = request.build(&rtx).expect_err("DLA takes no Q/DQ");
    assert_has!(error.to_string() => "DLA supports implicit quantization only");
}

#[test]
fn incompatible_plans_are_rejected_with_tensorrt_message() {
    let Some(rtx) = rtx() else { return };
    let refused = |library: &Arc<Library>, plan: &[u8]| {
        let runtime = match Runtime::new(library, None) {
            Ok(runtime) => runtime,
            Err(error) => return error.to_string(),
        };
        runtime
            .deserialize(plan)
            .expect_err("it cannot run")
            .to_string()
    };
    let runtimes = RUNTIMES.map(|(name, _)| runtime(name));
    for library in runtimes.iter().chain([&rtx]) {
        for plan in [
            &b""[..],
            b"garbage that is no plan, long enough to have a header in it",
        ] {
            let printed = refused(library, plan);
            assert!(
                printed.starts_with("TensorRT failed at ") && !printed.ends_with("no reason"),
                "{printed}"
            );
        }
    }
    let onnx = street_nano("int8");
    let built = request(&onnx, Precision::Int8)
        .build(&rtx)
        .expect("it builds");
    let printed = refused(&rtx, &built.plan[..built.plan.len() / 2]);
    assert!(printed.starts_with("TensorRT failed at "), "{printed}");
}

#[test]
fn non_libraries_are_rejected() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("libnvinfer.so.8");
    let missing = Library::open(Some(&path))
        .expect_err("there is none")
        .to_string();
    assert_has!(missing => "cannot be opened", "libnvinfer.so.8");
    std::fs::write(&path, "no library").expect("written");
    let text = Library::open(Some(&path))
        .expect_err("it is a text")
        .to_string();
    assert!(
        text.contains("file too short") || text.contains("invalid ELF header"),
        "{text}"
    );
    let other = Library::open(Some(Path::new("libz.so.1"))).map(|_| ());
    if let Err(error @ TensorRtError::NotTensorRt { .. }) = other {
        assert_has!(error.to_string() => "is not a TensorRT library: it has no function `getInferLibVersion`");
    } else {
        panic!("zlib was taken for TensorRT, or is not there: {other:?}");
    }
}
