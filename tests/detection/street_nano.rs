// SPDX-License-Identifier: Apache-2.0
//! Our own network, from the committed files: its accuracy on scenes that it was not trained on, in each precision, and
//! the demo with its score.
//!
//! Needs `ORT_DYLIB_PATH`; without it the tests are skipped with a message.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use jetwatch_detect::model::ModelSpec;
use serde_json::Value;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

fn jetwatch(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}

#[test]
fn committed_model_files_match_model_yaml_and_are_small() {
    let spec = ModelSpec::load(Path::new(MODEL)).expect("it is right");
    let precisions: Vec<&str> = spec
        .files
        .iter()
        .map(|file| file.precision.as_str())
        .collect();
    assert_eq!(precisions, ["fp32", "int8", "int8_cpu"]);
    let mut bytes = 0;
    for file in &spec.files {
        file.verify().expect("the hash is right");
        bytes += fs::metadata(&file.path).expect("it is there").len();
    }
    assert!(bytes <= 10_000_000, "{bytes} bytes");
    assert_eq!(spec.class_index("truck"), spec.class_index("vehicle"));
}

#[test]
fn detections_match_golden_on_this_machine() {
    needs_onnx_runtime!();
    for precision in ["fp32", "int8"] {
        let output = jetwatch(&[
            "doctor",
            "--detector",
            "--model",
            MODEL,
            "--precision",
            precision,
        ]);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed}");
        assert_has!(printed => "ok     onnx detections: ");
        assert!(!printed.contains("images differ from"), "{printed}");
    }
}

#[test]
fn unseen_scenes_are_detected_in_every_precision() {
    needs_onnx_runtime!();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (scenes, report) = (
        folder.path().join("scenes"),
        folder.path().join("report.json"),
    );
    let drawn = jetwatch(&[
        "dataset",
        "--out",
        text(&scenes),
        "--seed",
        "9000000",
        "--scenes",
        "24",
        "--size",
        "640x360",
        "--merge",
        "vehicle=car,bus,truck",
        "--merge",
        "two-wheeler=bicycle,motorcycle",
    ]);
    assert!(drawn.status.success(), "{drawn:?}");
    let judged = jetwatch(&[
        "eval",
        "--model",
        MODEL,
        "--images",
        text(&scenes.join("images")),
        "--annotations",
        text(&scenes.join("annotations.json")),
        "--precision",
        "fp32,int8,int8_cpu",
        "--out",
        text(&report),
    ]);
    assert!(judged.status.success(), "{judged:?}");
    let report: Value = serde_json::from_slice(&fs::read(&report).expect("written")).expect("JSON");
    let results = report["networks"].as_array().expect("one a precision");
    assert_eq!(results.len(), 3);
    let of = |index: usize, key: &str| results[index][key].as_f64().expect("a number");
    for (index, name) in ["fp32", "int8", "int8_cpu"].into_iter().enumerate() {
        assert_eq!(results[index]["name"], name);
        // Of 200 such scenes 0.76 and 0.96; 24 scatter.
        assert!(
            of(index, "ap") > 0.65 && of(index, "ap50") > 0.9,
            "{}",
            results[index]
        );
        assert!(
            of(index, "ap") > of(0, "ap") - 0.02,
            "{} loses too much",
            results[index]
        );
    }
}

#[test]
fn demo_detects_its_scene() {
    needs_onnx_runtime!();
    let scene = "synthetic://traffic?seed=1&objects=8&width=640&height=360&fps=30&frames=120&realtime=false";
    let demo = jetwatch(&[
        "demo",
        "--model",
        MODEL,
        "--source",
        scene,
        "--duration",
        "60s",
    ]);
    let printed = String::from_utf8_lossy(&demo.stdout);
    assert!(demo.status.success(), "{demo:?}");
    assert_has!(printed => "the fastest here");
    let share = |name: &str| -> f64 {
        let after = printed.split(name).nth(1).expect(name);
        let number = after.split(" %").next().expect("a number");
        number.trim().parse().expect(name)
    };
    assert_has!(printed => "120 frames with");
    assert!(
        share("recall") > 80.0 && share(", precision") > 80.0,
        "{printed}"
    );
    assert!(share("MOTA") > 70.0, "{printed}");
}
