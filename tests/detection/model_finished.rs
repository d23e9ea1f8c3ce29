// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model init` for a network whose number of rows differs from image to image, in the real ONNX Runtime. Other networks that
//! suppress their boxes are among the exports.
//!
//! Needs `ORT_DYLIB_PATH`; without it what runs a network is skipped with a message.

use crate::support::onnx_graph::{Attribute, FLOAT, Graph, INT64};
use crate::support::onnx_runtime::{config, frame, gray_pixels};

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use jetwatch_detect::load;
use jetwatch_detect::model::ModelSpec;
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Detection, Letterbox, Size};

const INPUT: Size = Size::new(96, 64);
/// Size of the sources: four times the input's, so that nothing is padded.
const SOURCE: Size = Size::new(384, 256);

/// A model folder that `model init` wrote.
struct Created {
    folder: tempfile::TempDir,
    /// What it printed.
    printed: String,
    is_well: bool,
}

impl Created {
    fn new(network: Graph) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("net.onnx"), network.bytes()).expect("written");
        fs::write(path("names"), "person\ncar\nbus\n").expect("written");
        let output = Command::new(env!("CARGO_BIN_EXE_jetwatch"))
            .args(["model", "init", "--out"])
            .args([path("net"), path("net.onnx")])
            .arg("--labels")
            .arg(path("names"))
            .env_remove("RUST_LOG")
            .output()
            .expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        Self {
            folder,
            printed: String::from_utf8(text).expect("UTF-8"),
            is_well: output.status.success(),
        }
    }

    fn path(&self) -> PathBuf {
        assert!(self.is_well, "{}", self.printed);
        self.folder.path().join("net")
    }

    fn yaml(&self) -> String {
        fs::read_to_string(self.path().join("model.yaml")).expect("written")
    }

    /// Detections in an image of each of these grays, one run after the other.
    fn detect(&self, grays: &[u8]) -> Vec<Vec<Detection>> {
        let path = self.path();
        let placement = ModelSpec::load(&path)
            .expect("it was checked")
            .input
            .placement;
        let prepared = load(&config(&path), &Recorder::default()).expect("it loads");
        let mut detector = prepared.create(0).expect("it runs");
        let inner = Letterbox::new(SOURCE, INPUT, placement).inner;
        let detect = |gray: &u8| {
            let frame = frame(2, 0, SOURCE, inner, gray_pixels(inner, *gray));
            let mut results = Vec::new();
            detector.detect(&[frame], &mut results).expect("it runs");
            results.remove(0)
        };
        grays.iter().map(detect).collect()
    }
}

fn found(class: u16, score: f32, xyxy: [f32; 4]) -> Detection {
    Detection { class, score, xyxy }
}

/// The end of a torchvision network: boxes whose score is above 0.5 are gathered by the indices of a suppression. Brighter images
/// have higher scores.
fn gathered() -> Graph {
    let mut graph = Graph::default();
    // The mean of the image, 0 to 1, as a number without axes.
    graph.mean("images", &[0, 1, 2, 3]);
    graph.node("Add", &["scores0", "mean"], "scores1", &[]);
    let inputs = ["boxes0", "scores1", "most", "iou", "least"];
    graph.node("NonMaxSuppression", &inputs, "selected", &[]);
    graph.node(
        "Gather",
        &["selected", "two"],
        "kept",
        &[Attribute::Int("axis", 1)],
    );
    graph.node("Reshape", &["boxes0", "four"], "boxes1", &[]);
    graph.node("Reshape", &["scores1", "flat"], "scores2", &[]);
    for (from, to) in [
        ("boxes1", "boxes"),
        ("scores2", "scores"),
        ("labels0", "labels"),
    ] {
        graph.node("Gather", &[from, "kept"], to, &[Attribute::Int("axis", 0)]);
    }
    let boxes = [
        [24.0_f32, 16.0, 48.0, 32.0],
        [24.0, 16.0, 48.0, 31.0],
        [0.0, 0.0, 12.0, 8.0],
        [48.0, 32.0, 96.0, 64.0],
    ]
    .concat();
    let scores = [0.6875_f32, 0.625, 0.5625, 0.25];
    graph.constant("boxes0", FLOAT, &[1, 4, 4], &boxes, f32::to_le_bytes);
    graph.constant("scores0", FLOAT, &[1, 1, 4], &scores, f32::to_le_bytes);
    graph.constant("labels0", INT64, &[4], &[3_i64, 1, 1, 2], i64::to_le_bytes);
    graph.constant("most", INT64, &[1], &[100_i64], i64::to_le_bytes);
    graph.constant("iou", FLOAT, &[1], &[0.5_f32], f32::to_le_bytes);
    graph.constant("least", FLOAT, &[1], &[0.5_f32], f32::to_le_bytes);
    graph.constant("two", INT64, &[], &[2_i64], i64::to_le_bytes);
    graph.constant("four", INT64, &[2], &[-1_i64, 4], i64::to_le_bytes);
    graph.constant("flat", INT64, &[1], &[-1_i64], i64::to_le_bytes);
    graph.input("images", FLOAT, &[Some(1), Some(3), Some(64), Some(96)]);
    graph.output("boxes", FLOAT, &[None, Some(4)]);
    graph.output("labels", INT64, &[None]);
    graph.output("scores", FLOAT, &[None]);
    graph
}

#[test]
fn torchvision_runs_without_batch_axis_and_with_as_many_rows_as_it_finds() {
    let created = Created::new(gathered());
    assert_has!(created.yaml() =>
        "layout: finished", "boxes: boxes\n    scores: scores\n    classes: labels",
        "columns: [left, top, right, bottom]   # GUESS", "first_class: 1   # GUESS", "boxes_are: pixels   # GUESS",
        "as of torchvision, whose classes begin with 1");
    needs_onnx_runtime!();
    let both = [
        found(2, 0.6875, [96.0, 64.0, 192.0, 128.0]),
        found(0, 0.5625, [0.0, 0.0, 48.0, 32.0]),
    ];
    let [black, gray, again] = created.detect(&[0, 77, 0]).try_into().expect("three");
    assert_eq!((black.as_slice(), again.as_slice()), (&both[..], &both[..]));
    let boxes: Vec<(u16, [f32; 4])> = gray.iter().map(|found| (found.class, found.xyxy)).collect();
    assert_eq!(boxes.len(), 3, "the fourth box is above 0.5 now: {boxes:?}");
    assert_eq!(boxes[2], (1, [192.0, 128.0, 384.0, 256.0]));
}
