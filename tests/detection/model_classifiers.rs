// SPDX-License-Identifier: Apache-2.0
//! `jetwatch model init` for classifiers: networks that the test writes become model folders, which the daemon runs as
//! secondary networks.
//!
//! What runs a network needs `ORT_DYLIB_PATH`; without it that part is skipped with a message.

use crate::support;
use crate::support::onnx_file;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jetwatch_detect::model::ModelSpec;
use jetwatch_types::Size;
use onnx_file::onnx_graph::{FLOAT, Graph, INT64};
use support::daemon::{Setup, finish, stderr, stdout};

/// A brightness classifier for images normalized by ImageNet's mean and deviation: `dark`, and `bright` above the mean. `end` is
/// its last operator, `shape` that of its output without the batch.
fn network(end: Option<&str>, shape: &[i64], side: Option<i64>) -> Vec<u8> {
    let mut graph = Graph::default();
    graph.mean("images", &[2, 3]);
    let sum = match end {
        None if shape.len() == 1 => "scores",
        _ => "sum",
    };
    graph.node("MatMul", &["mean", "weights"], sum, &[]);
    let mut last = sum;
    if let Some(end) = end {
        let to = if shape.len() == 1 { "scores" } else { "ended" };
        graph.node(end, &[last], to, &[]);
        last = to;
    }
    if shape.len() > 1 {
        // Operators that only reshape do not identify the layout.
        graph.node("Reshape", &[last, "shape"], "scores", &[]);
        let whole: Vec<i64> = [-1].into_iter().chain(shape.iter().copied()).collect();
        let axes = [whole.len() as i64];
        graph.constant("shape", INT64, &axes, &whole, i64::to_le_bytes);
    }
    let weights = [-10.0_f32, 10.0].repeat(3);
    graph.constant("weights", FLOAT, &[3, 2], &weights, f32::to_le_bytes);
    graph.input("images", FLOAT, &[None, Some(3), side, side]);
    let output: Vec<Option<i64>> = [None]
        .into_iter()
        .chain(shape.iter().copied().map(Some))
        .collect();
    graph.output("scores", FLOAT, &output);
    graph.bytes()
}

/// `jetwatch model init` for this file into the folder: whether it succeeds, and its output.
fn init(file: &Path, folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_jetwatch"))
        .args(["model", "init", "--out"])
        .args([folder, file])
        .args(arguments)
        .env_remove("RUST_LOG")
        .output()
        .expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8(text).expect("UTF-8"),
    )
}

/// A folder with the network and the labels of it.
struct ModelFolder {
    folder: tempfile::TempDir,
}

impl ModelFolder {
    fn new(network: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("light.onnx"), network).expect("written");
        fs::write(folder.path().join("names"), "dark\nbright\n").expect("written");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The resulting description, and the output.
    fn create(&self, arguments: &[&str]) -> (ModelSpec, String) {
        let out = self.path("light");
        let (is_well, printed) = init(&self.path("light.onnx"), &out, arguments);
        assert!(is_well, "{printed}");
        (ModelSpec::load(&out).expect("it was checked"), printed)
    }

    /// The error of a refused network.
    fn create_error(&self, arguments: &[&str]) -> String {
        let out = self.path("light");
        let (is_well, printed) = init(&self.path("light.onnx"), &out, arguments);
        assert!(!is_well && !out.exists(), "{printed}");
        printed
    }

    fn names(&self) -> String {
        self.path("names").display().to_string()
    }
}

#[test]
fn classifier_mismatch_is_reported() {
    let workshop = ModelFolder::new(&network(Some("Softmax"), &[2], Some(16)));
    fs::write(workshop.path("names"), "dark\nbright\ngray\n").expect("written");
    let text = workshop.create_error(&["--labels", &workshop.names()]);
    assert_has!(text =>
        "3 labels were given, but the network has 2 classes (as layout softmax, output [2]: one number for each label, from the operator Softmax)",
        "give one label per line");
    let text = workshop.create_error(&["--layout", "logits"]);
    assert_has!(text => "do not fit the layout logits", "it needs one output [C] without a Softmax or Sigmoid");
    let text = workshop.create_error(&["--size", "32x32"]);
    assert_has!(text => "found --size 32×32, expected 16×16");

    let workshop = ModelFolder::new(&network(None, &[2], Some(16)));
    let text = workshop.create_error(&["--layout", "sigmoid"]);
    assert_has!(text => "it needs one output [C], behind the network's own Sigmoid");

    let workshop = ModelFolder::new(&network(None, &[2], None));
    let text = workshop.create_error(&[]);
    assert_has!(text => "input `images` has a dynamic size", "such as --size");
    let (spec, _) = workshop.create(&["--size", "24x24"]);
    assert_eq!(spec.input.size, Size::new(24, 24));
}

#[test]
fn classifier_folder_runs_as_secondary_network() {
    needs_onnx_runtime!();
    for (end, shape, layout) in [
        (None, &[2][..], "logits"),
        (Some("Softmax"), &[2], "softmax"),
        (Some("Sigmoid"), &[2, 1, 1], "sigmoid"),
    ] {
        let setup = Setup::new(
            "sources: [{name: cam, uri: 'synthetic://traffic?seed=5&objects=12&width=320&height=180&fps=30&frames=20'}]\n\
             detector: {backend: scripted, scripted: {min_visible: 0.3}}\n\
             publish: {mqtt: off, stats_interval_s: 60, json_lines: {path: events.jsonl}}\n\
             secondary: [{name: light, model: light, min_object: 6x6, vote_frames: 1}]\n",
        );
        let workshop = ModelFolder::new(&network(end, shape, Some(16)));
        let (is_well, printed) = init(
            &workshop.path("light.onnx"),
            &setup.path("light"),
            &["--labels", &workshop.names()],
        );
        assert!(is_well, "{printed}");
        assert_has!(printed => &format!("layout {layout} (a guess"));
        let output = finish(&mut setup.command("run"));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let lines = setup.lines();
        let attributes = lines
            .iter()
            .filter(|line| line["kind"] == "event")
            .flat_map(|event| {
                event["after"]["attributes"]
                    .as_array()
                    .into_iter()
                    .flatten()
            });
        let output: BTreeSet<&str> = attributes
            .map(|attribute| attribute["label"].as_str().expect("text"))
            .collect();
        assert_eq!(output, BTreeSet::from(["bright", "dark"]), "{end:?}");
    }
}

#[test]
fn a_classifier_is_refused_as_the_detector() {
    needs_onnx_runtime!();
    let setup = Setup::new(
        "sources: [{name: cam, uri: 'synthetic://traffic?width=320&height=180&frames=5'}]\n\
         detector: {backend: onnx, model: light}\n\
         publish: {mqtt: off, json_lines: {path: events.jsonl}}\n",
    );
    let workshop = ModelFolder::new(&network(Some("Softmax"), &[2], Some(16)));
    let (is_well, printed) = init(&workshop.path("light.onnx"), &setup.path("light"), &[]);
    assert!(is_well, "{printed}");
    let wanted = "gives labels of whole images and no boxes; add it to the list `secondary`";
    let output = finish(&mut setup.command("run"));
    assert_eq!(output.status.code(), Some(78), "{}", stderr(&output));
    assert_has!(stderr(&output) => wanted);
    let output = finish(setup.command("check").arg("--models"));
    assert!(!output.status.success());
    assert_has!(stdout(&output) => wanted);
}
