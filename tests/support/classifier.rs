// SPDX-License-Identifier: Apache-2.0
//! A classifier that distinguishes bright images from dark ones, as a tiny ONNX file in a model folder.
//!
//! ```text
//!   images [B, 3, H, W] ── ReduceMean ── [B, 3] ── MatMul [3, 2] ── Add [2] ── scores [B, 2]
//! ```
#![allow(dead_code)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::onnx_file::onnx_graph::{FLOAT, Graph};

/// Mean of all colors that separates `dark` from `bright`.
pub const BRIGHTNESS_THRESHOLD: f32 = 100.0;

/// The network for inputs of `side`×`side` pixels; an axis of `None` takes any batch.
pub fn network(batch: Option<i64>, side: i64) -> Vec<u8> {
    let mut graph = Graph::default();
    graph.mean("images", &[2, 3]);
    graph.node("MatMul", &["mean", "weights"], "sum", &[]);
    graph.node("Add", &["sum", "bias"], "scores", &[]);
    // Ten levels from the threshold, the score is nearly 1.
    let weight = 0.2 / 3.0;
    let weights = [-weight, weight].repeat(3);
    graph.constant("weights", FLOAT, &[3, 2], &weights, f32::to_le_bytes);
    let bias = [0.2 * BRIGHTNESS_THRESHOLD, -0.2 * BRIGHTNESS_THRESHOLD];
    graph.constant("bias", FLOAT, &[2], &bias, f32::to_le_bytes);
    graph.input("images", FLOAT, &[batch, Some(3), Some(side), Some(side)]);
    graph.output("scores", FLOAT, &[batch, Some(2)]);
    graph.bytes()
}

/// Writes a model folder whose `model.yaml` holds `keys` besides name, license and files.
pub fn write_model(folder: &Path, network: &[u8], keys: &str) {
    write_folder(folder, network, &format!("name: tiny\n{keys}"), "");
}

/// Writes a model folder whose `model.yaml` holds `keys` besides license and files, and `file` in the keys of the file.
pub fn write_folder(folder: &Path, network: &[u8], keys: &str, file: &str) {
    fs::create_dir_all(folder).expect("the folder is writable");
    fs::write(folder.join("tiny.onnx"), network).expect("the folder is writable");
    let mut digest = String::new();
    for byte in Sha256::digest(network) {
        write!(digest, "{byte:02x}").expect("a string takes it");
    }
    let yaml = format!(
        "{keys}license: {{spdx: Apache-2.0, source: made by the test}}\n\
         files: {{fp32: {{file: tiny.onnx, sha256: '{digest}'{file}}}}}\n"
    );
    fs::write(folder.join("model.yaml"), yaml).expect("the folder is writable");
}

/// The keys of the brightness classifier.
pub fn keys(side: i64) -> String {
    format!(
        "input: {{name: images, width: {side}, height: {side}, color: rgb, letterbox: {{value: 0, placement: stretch}}}}\n\
         output: {{layout: logits, name: scores}}\nlabels: [dark, bright]\nscore_threshold: 0.6\n"
    )
}
