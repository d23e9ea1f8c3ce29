// SPDX-License-Identifier: Apache-2.0
//! Layers of a network: `jetwatch bench --only layers` with ONNX Runtime, and its file in `jetwatch report`.

use crate::support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::classifier::{keys, network, write_model};
use support::daemon::{finish, jetwatch, success};

/// Standard output of the program in `folder`.
fn run(folder: &Path, arguments: &[&str]) -> String {
    success(&finish(jetwatch().current_dir(folder).args(arguments)))
}

/// Arguments of a benchmark of the layers of the model in `model`.
const BENCH: [&str; 13] = [
    "bench",
    "--source",
    "synthetic://traffic?width=64&height=64&frames=20&realtime=false",
    "--model",
    "model",
    "--only",
    "layers",
    "--frames",
    "4",
    "--preload",
    "2",
    "--set",
    "detector.backend=onnx",
];

#[test]
fn layers_of_onnx_runtime_are_written_and_reported() {
    needs_onnx_runtime!();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_model(&folder.join("model"), &network(None, 16), &keys(16));
    let printed = run(folder, &BENCH);
    assert_has!(printed => "mean of 4 runs", "Layers by type, precision and device");
    let written = folder.join("benchmark/layers.json");
    let document: Value =
        serde_json::from_slice(&fs::read(&written).expect("it is written")).expect("JSON");
    let layers = document["layers"].as_array().expect("layers");
    assert!(!layers.is_empty());
    for layer in layers {
        assert_eq!(layer["runs"], 4, "{layer}");
        assert_eq!(layer["device"], "CPU", "{layer}");
        assert!(
            layer["type"].as_str().is_some_and(|kind| !kind.is_empty()),
            "{layer}"
        );
    }
    // The runtime's own file is removed.
    let left: Vec<_> = fs::read_dir(folder.join("benchmark"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["layers.json"]);

    let csv = run(
        folder,
        &["report", "--format", "csv", "benchmark/layers.json"],
    );
    assert_has!(csv => "layers.json: layers\nTime (%),Avg (ns),Precision,Device,Type,Layer\n", "layers.json: layer_types\n");
    let page = run(
        folder,
        &["report", "--html", "page.html", "benchmark/layers.json"],
    );
    assert_has!(page => "Layers of the network, for one frame");
    assert!(folder.join("page.html").exists());
}
