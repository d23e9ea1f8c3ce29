// SPDX-License-Identifier: Apache-2.0
//! The figures of `jetwatch eval` against pycocotools, on a committed case and on new random ones.
//!
//! The random ones need python3 with pycocotools; without it the test is skipped with a message.

use std::path::Path;
use std::process::{Command, Output};

use jetwatch_eval::{Accuracy, Evaluation, Prediction, Truth, coco};
use serde_json::Value;

const SCRIPT: &str = "tests/reference/accuracy.py";

/// Maximum difference: sums are computed in another order.
const TOLERANCE: f64 = 1e-9;

/// COCO results as detections on `truth`.
fn found(truth: &Truth, results: &Value) -> Vec<Prediction> {
    let number = |value: &Value| value.as_f64().expect("a number");
    let results = results.as_array().expect("a list");
    results
        .iter()
        .map(|result| {
            let id = |key: &str| result[key].as_i64().expect("an id");
            let bbox = result["bbox"].as_array().expect("a box");
            let place = truth
                .images
                .binary_search_by_key(&id("image_id"), |image| image.id);
            let category = truth
                .categories
                .binary_search_by_key(&id("category_id"), |category| category.id);
            Prediction {
                image: place.expect("a known picture"),
                category: category.expect("a known category"),
                score: number(&result["score"]),
                xywh: [0, 1, 2, 3].map(|side| number(&bbox[side])),
            }
        })
        .collect()
}

fn assert_close(what: &str, found: Option<f64>, expected: &Value) {
    match (found, expected.as_f64()) {
        (Some(found), Some(expected)) => assert!(
            (found - expected).abs() <= TOLERANCE,
            "{what}: {found}, expected {expected}"
        ),
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

/// Compares every number with the output of the script.
fn compare(truth: &Value, detections: &Value, expected: &Value) {
    let bytes = serde_json::to_vec(truth).expect("JSON");
    let truth = coco::parse(&bytes).expect("sound annotations");
    let judged = Evaluation::new(&truth, &found(&truth, detections), 0.5);
    let Accuracy {
        ap,
        ap50,
        ap75,
        ap_small,
        ap_medium,
        ap_large,
        ar_1,
        ar_10,
        ar_100,
        ar_small,
        ar_medium,
        ar_large,
    } = judged.accuracy;
    let numbers = [
        ("ap", ap),
        ("ap50", ap50),
        ("ap75", ap75),
        ("ap_small", ap_small),
        ("ap_medium", ap_medium),
        ("ap_large", ap_large),
        ("ar_1", ar_1),
        ("ar_10", ar_10),
        ("ar_100", ar_100),
        ("ar_small", ar_small),
        ("ar_medium", ar_medium),
        ("ar_large", ar_large),
    ];
    for (name, number) in numbers {
        assert_close(name, number, &expected[name]);
    }
    let classes = expected["classes"].as_array().expect("a list");
    assert_eq!(classes.len(), judged.classes.len());
    for (class, expected) in judged.classes.iter().zip(classes) {
        let name = &class.name;
        assert_close(&format!("{name} ap"), class.ap, &expected["ap"]);
        assert_close(&format!("{name} ap50"), class.ap50, &expected["ap50"]);
        let counts = ["right", "wrong", "missed"].map(|key| expected[key].as_u64());
        let operating = &class.operating;
        let own = [operating.right, operating.wrong, operating.missed];
        assert_eq!(own.map(Some), counts, "{name}");
    }
}

#[test]
fn committed_accuracy_case_is_reproduced() {
    let text = include_str!("../golden/accuracy/random.json");
    let case: Value = serde_json::from_str(text).expect("JSON");
    // All kinds of boxes, so that agreement is significant.
    let annotations = case["truth"]["annotations"].as_array().expect("a list");
    assert!(annotations.iter().any(|object| object["iscrowd"] == 1));
    assert!(case["detections"].as_array().expect("a list").len() > 300);
    assert!(case["expected"]["ap_small"].as_f64().expect("a number") > 0.05);
    compare(&case["truth"], &case["detections"], &case["expected"]);
}

fn python(arguments: &[&str]) -> Output {
    Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(SCRIPT))
        .args(arguments)
        .output()
        .expect("python3 starts")
}

#[test]
fn random_cases_match_pycocotools() {
    let there = Command::new("python3")
        .args(["-c", "import pycocotools.cocoeval, numpy"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !there {
        eprintln!("skipped: python3 has no pycocotools");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (truth, detections) = (path("truth.json"), path("detections.json"));
    let read = |path: &str| -> Value {
        serde_json::from_slice(&std::fs::read(path).expect("it was written")).expect("JSON")
    };
    for seed in ["1", "2", "3", "4"] {
        let made = python(&["random", seed, &truth, &detections]);
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let judged = python(&["judge", &truth, &detections, "0.5"]);
        assert!(
            judged.status.success(),
            "{}",
            String::from_utf8_lossy(&judged.stderr)
        );
        let expected = serde_json::from_slice(&judged.stdout).expect("JSON");
        compare(&read(&truth), &read(&detections), &expected);
    }
}
