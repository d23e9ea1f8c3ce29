// SPDX-License-Identifier: Apache-2.0
//! `jetwatch eval`: the binary on images, annotations and networks that the tests write.
//!
//! Needs `ORT_DYLIB_PATH`; without it the tests are skipped with a message. One more needs the data below `JETWATCH_TEST_DATA`.

use crate::support;
use crate::support::onnx_file;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jetwatch_files::Sha256Digest;
use onnx_file::TinyNetwork;
use serde_json::{Value, json};
use support::daemon::{Printed, exits, jetwatch};
use support::picture::write_flat;

/// A network for 96×64 pixels that sees one car around 12,12 of `width`×16 pixels, whatever the image shows.
fn network(width: f32) -> Vec<u8> {
    let (log_width, log_height) = ((width / 8.0).ln(), 2.0_f32.ln());
    let cell = [0.5, 0.5, log_width, log_height, 0.9, 0.1, 1.0];
    TinyNetwork::yolox(Some(1), &[(13, cell)]).bytes()
}

/// A folder with a model in two precisions, three images, and annotations.
struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        let case = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        case.write_model();
        fs::create_dir(case.path("images")).expect("made");
        for (name, width, height) in [("a.png", 96, 64), ("b.jpg", 192, 128), ("c.png", 48, 32)] {
            write_flat(
                &case.path("images").join(name),
                width,
                height,
                [90, 120, 30],
            );
        }
        case.annotate(&annotations());
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_model(&self) {
        let folder = self.path("model");
        fs::create_dir(&folder).expect("made");
        let mut files = String::new();
        for (precision, width) in [("fp32", 32.0), ("int8", 26.0)] {
            let bytes = network(width);
            let digest = Sha256Digest::of(&bytes);
            fs::write(folder.join(format!("{precision}.onnx")), bytes).expect("written");
            writeln!(
                files,
                "  {precision}: {{file: {precision}.onnx, sha256: '{digest}'}}"
            )
            .expect("a string takes it");
        }
        let yaml = format!(
            "name: tiny\ninput: {{name: images, width: 96, height: 64, color: bgr, letterbox: {{value: 0, placement: top_left}}}}\n\
             output: {{layout: yolox, name: output}}\nlabels: [person, car]\nscore_threshold: 0.5\n\
             license: {{spdx: Apache-2.0, source: made by the test}}\nfiles:\n{files}"
        );
        fs::write(folder.join("model.yaml"), yaml).expect("written");
    }

    /// Gives the model's `covers`.
    fn cover(&self, covers: &str) {
        let path = self.path("model/model.yaml");
        let yaml = fs::read_to_string(&path).expect("it was written");
        fs::write(&path, format!("covers: {covers}\n{yaml}")).expect("written");
    }

    fn annotate(&self, annotations: &Value) {
        fs::write(self.path("truth.json"), annotations.to_string()).expect("written");
    }

    /// `jetwatch eval`, which ends with this exit code.
    fn eval(&self, code: i32, arguments: &[&str]) -> Printed {
        let mut command = jetwatch();
        command.arg("eval");
        for (option, name) in [
            ("--model", "model"),
            ("--images", "images"),
            ("--annotations", "truth.json"),
            ("--out", "out.json"),
        ] {
            command.arg(option).arg(self.path(name));
        }
        exits(code, command.args(arguments))
    }

    fn report(&self) -> Value {
        read(&self.path("out.json"))
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it was written")).expect("JSON")
}

/// The car is where the network detects it in the first two images, and elsewhere in the third.
fn annotations() -> Value {
    let object = |id, image, [x, y, w, h]: [f64; 4]| json!({"id": id, "image_id": image, "category_id": 3, "bbox": [x, y, w, h], "area": w * h, "iscrowd": 0});
    json!({
        "images": [
            {"id": 30, "file_name": "c.png", "width": 48, "height": 32},
            {"id": 10, "file_name": "a.png", "width": 96, "height": 64},
            {"id": 20, "file_name": "b.jpg", "width": 192, "height": 128},
        ],
        "categories": [{"id": 3, "name": "Car"}, {"id": 5, "name": "person"}, {"id": 9, "name": "tram"}],
        "annotations": [
            object(1, 10, [0.0, 4.0, 28.0, 16.0]),
            object(2, 20, [0.0, 8.0, 56.0, 32.0]),
            object(3, 30, [30.0, 20.0, 10.0, 10.0]),
        ],
    })
}

fn assert_near(found: &Value, expected: f64) {
    let found = found
        .as_f64()
        .unwrap_or_else(|| panic!("no number: {found}"));
    assert!(
        (found - expected).abs() < 1e-9,
        "{found}, expected {expected}"
    );
}

#[test]
fn two_precisions_are_evaluated_and_compared() {
    needs_onnx_runtime!();
    let case = Case::new();
    let detections = case.path("found.json").display().to_string();
    let mut arguments = vec!["--precision", "fp32,int8", "--workers", "3"];
    arguments.extend(["--detections-out", &detections]);
    let text = case.eval(0, &arguments).out;
    let report = case.report();
    let networks = report["networks"].as_array().expect("a list");
    let (first, second) = (&networks[0], &networks[1]);
    // Two of three are found with the same score, in the order of their ids: right up to a recall of 2/3.
    assert_near(&first["ap"], 67.0 / 101.0);
    assert_near(&first["ap50"], 67.0 / 101.0);
    assert_eq!(first["name"], "fp32");
    assert_near(&first["precision"], 2.0 / 3.0);
    assert_eq!(
        ["right", "wrong", "missed"].map(|key| first[key].as_u64()),
        [Some(2), Some(1), Some(1)]
    );
    // A box of 25 of the 28 pixels' width is right up to an overlap of 0.89: at eight of the ten overlaps.
    assert_near(&second["ap"], 67.0 / 101.0 * 0.8);
    let difference = &second["against_first"];
    assert_near(&difference["ap"], -67.0 / 101.0 * 0.2);
    let (low, high) = (
        &difference["interval"]["ap"]["low"],
        &difference["interval"]["ap"]["high"],
    );
    assert!(
        low.as_f64() < high.as_f64() && high.as_f64() <= Some(0.0),
        "{difference}"
    );
    assert!(first["against_first"].is_null());

    assert_eq!(report["matched_by"], "name");
    let classes = report["classes"].as_array().expect("a list");
    assert_eq!(classes.len(), 3);
    let wanted = json!({"label": "car", "category": "Car", "category_id": 3, "covers": []});
    assert_eq!(classes[1], wanted);
    let wanted = json!({"label": null, "category": "tram", "category_id": 9, "covers": []});
    assert_eq!(classes[2], wanted);
    assert_has!(text =>
        "3 images with 3 objects", "Unknown to the model, not evaluated: tram", "int8 minus fp32: AP -0.1327", "Car");

    let found = read(&case.path("found.fp32.json"));
    let entry = |id: i64| {
        let all = found.as_array().expect("a list");
        all.iter()
            .find(|entry| entry["image_id"] == id)
            .unwrap_or_else(|| panic!("picture {id} in {found}"))
    };
    assert_eq!(entry(20)["category_id"], 3);
    for (side, expected) in [0.0, 8.0, 56.0, 32.0].into_iter().enumerate() {
        let side = entry(20)["bbox"][side].as_f64().expect("a number");
        assert!((side - expected).abs() < 1e-3, "{found}");
    }
    assert!(case.path("found.int8.json").exists());
}

#[test]
fn categories_that_a_label_covers_are_evaluated_as_one() {
    needs_onnx_runtime!();
    let case = Case::new();
    case.cover("{car: [lorry, tram]}");
    let mut truth = annotations();
    truth["categories"][0]["name"] = "lorry".into();
    truth["annotations"][1]["category_id"] = 9.into();
    case.annotate(&truth);
    let found = case.path("found.json").display().to_string();
    let text = case.eval(0, &["--detections-out", &found]).out;
    let report = case.report();
    let network = &report["networks"][0];
    // As with one category for all three objects: two of them are found.
    assert_near(&network["ap"], 67.0 / 101.0);
    assert_eq!(
        ["right", "wrong", "missed"].map(|key| network[key].as_u64()),
        [Some(2), Some(1), Some(1)]
    );
    let classes = report["classes"].as_array().expect("a list");
    assert_eq!(classes.len(), 2, "{report}");
    assert_eq!(
        classes[1],
        json!({"label": "car", "category": "car", "category_id": 3, "covers": ["lorry", "tram"]})
    );
    assert_has!(text => "Covered by a label of the model: car = lorry + tram");
    let found = read(&case.path("found.json"));
    let mut found = found.as_array().expect("a list").iter();
    assert!(found.all(|entry| entry["category_id"] == 3));
}

#[test]
fn older_and_newer_names_of_coco_match() {
    needs_onnx_runtime!();
    for (label, category) in [("motorbike", "motorcycle"), ("motorcycle", "motorbike")] {
        let case = Case::new();
        let path = case.path("model/model.yaml");
        let yaml = fs::read_to_string(&path).expect("it was written");
        fs::write(&path, yaml.replace("car]", &format!("{label}]"))).expect("written");
        let mut truth = annotations();
        truth["categories"][0]["name"] = category.into();
        case.annotate(&truth);
        case.eval(0, &[]);
        let report = case.report();
        assert_near(&report["networks"][0]["ap"], 67.0 / 101.0);
        assert_eq!(report["matched_by"], "name");
    }
}

#[test]
fn unreadable_images_are_listed_and_excluded() {
    needs_onnx_runtime!();
    let case = Case::new();
    let whole = fs::read(case.path("images/b.jpg")).expect("it was written");
    fs::write(case.path("images/b.jpg"), &whole[..whole.len() / 2]).expect("written");
    let mut truth = annotations();
    truth["images"][0]["width"] = 47.into();
    let gone = json!({"id": 40, "file_name": "sub/gone.png", "width": 9, "height": 9});
    truth["images"].as_array_mut().expect("a list").push(gone);
    case.annotate(&truth);
    let text = case.eval(1, &[]).err;
    let report = case.report();
    let left_out = report["unreadable"].as_array().expect("a list");
    let ids: Vec<_> = left_out
        .iter()
        .map(|entry| entry["image_id"].as_i64())
        .collect();
    assert_eq!(ids, [Some(20), Some(30), Some(40)]);
    assert_has!(text =>
        "images/b.jpg: the file is cut off", "c.png: it has 48×32 pixels, but was annotated with 47×32",
        "sub/gone.png: No such file");
    // What is left is the first image, whose car is found.
    let wanted = (&1.into(), &1.into());
    assert_eq!((&report["images"], &report["objects"]), wanted);
    assert_near(&report["networks"][0]["ap"], 1.0);
}

#[test]
fn eval_errors_give_reason() {
    needs_onnx_runtime!();
    let case = Case::new();
    assert_has!(case.eval(78, &["--precision", "fp16"]).err => "no precision `fp16`");
    fs::rename(case.path("images"), case.path("moved")).expect("moved");
    assert_has!(case.eval(1, &[]).err => "none of the 3 images can be read", "check --images");
    let mut truth = annotations();
    truth["categories"][0]["name"] = "lorry".into();
    case.annotate(&truth);
    assert_has!(case.eval(1, &[]).err =>
        "labels without a category: car", "categories without a label: lorry, tram");
}

/// Average precision of YOLOX nano on the 128 images of the data, as measured with other programs.
const EXPECTED_AP: f64 = 0.330;

#[test]
fn eval_matches_published_accuracy_and_pycocotools() {
    let Some(data) = std::env::var_os("JETWATCH_TEST_DATA").map(PathBuf::from) else {
        eprintln!("skipped: JETWATCH_TEST_DATA is not set");
        return;
    };
    needs_onnx_runtime!();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name);
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (from, to) in [
        (project.join("tests/support/yolox_nano.yaml"), "model.yaml"),
        (data.join("models/yolox_nano.onnx"), "yolox_nano.onnx"),
    ] {
        fs::copy(from, path(to)).expect("copied");
    }
    let truth = data.join("images/instances_train2017_128.json");
    let images = data.join("images/train2017");
    let mut eval = jetwatch();
    eval.arg("eval").arg("--model").arg(folder.path());
    eval.arg("--images").arg(images);
    eval.arg("--annotations").arg(&truth);
    eval.arg("--out").arg(path("out.json"));
    exits(0, eval.arg("--detections-out").arg(path("found.json")));
    let report = read(&path("out.json"));
    let network = &report["networks"][0];
    let ap = network["ap"].as_f64().expect("a number");
    assert!((ap - EXPECTED_AP).abs() < 0.01, "{ap}");
    let wanted = (&128.into(), &"name".into());
    assert_eq!((&report["images"], &report["matched_by"]), wanted);

    let judged = Command::new("python3")
        .arg(project.join("tests/reference/accuracy.py"))
        .arg("judge")
        .arg(&truth)
        .arg(path("found.json"))
        .arg(report["score_threshold"].to_string())
        .output();
    let judged = match judged {
        Ok(judged) if judged.status.success() => judged,
        _ => {
            eprintln!("skipped in part: python3 has no pycocotools");
            return;
        }
    };
    let expected: Value = serde_json::from_slice(&judged.stdout).expect("JSON");
    let precisions = ["ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large"];
    let recalls = [
        "ar_1",
        "ar_10",
        "ar_100",
        "ar_small",
        "ar_medium",
        "ar_large",
    ];
    for name in [precisions, recalls].concat() {
        assert_near(&network[name], expected[name].as_f64().expect("a number"));
    }
}
