// SPDX-License-Identifier: Apache-2.0
//! Networks that keep weights in other files, and networks that take images as bytes: with the real library, on tiny
//! networks that the tests write themselves.
//!
//! ```text
//!   images [1, 3, H, W] ── (Cast) ── ReduceMean ── Reshape [1, 1, 1] ── Mul mask ── Add rows ── output [1, 126, 7]
//! ```
//!
//! Needs `ORT_DYLIB_PATH`; without it the tests are skipped with a message.

use crate::detect_onnx::frame;
use crate::support::onnx_file::onnx_graph::{Attribute, FLOAT, Graph, INT64, UINT8};
use crate::support::onnx_file::{CELLS, ROW, TinyNetwork};

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::onnx_message::external_tensor;
use crate::support::onnx_runtime::{config, write_model};
use jetwatch_detect::model::ModelSpec;
use jetwatch_detect::{DetectError, load};
use jetwatch_files::Sha256Digest;
use jetwatch_telemetry::Recorder;

const ROWS_FILE: &str = "tiny.onnx.data";
const MASK_FILE: &str = "parts/mask";
/// Offset of the rows in their file.
const OFFSET: usize = 64;

/// One box of class 1, score 0.72, 4,4 to 20,20 of the input for a black image. It moves right by a tenth of a cell of 8 pixels for
/// each unit of the image's mean.
fn one_box() -> TinyNetwork {
    let cell = [0.5, 0.5, 2.0_f32.ln(), 2.0_f32.ln(), 0.9, 0.1, 0.8];
    let mut network = TinyNetwork::yolox(Some(1), &[(13, cell)]);
    network.mask[13 * ROW] = 0.1;
    network
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// Where the weights of a network are.
#[derive(Clone, Copy, PartialEq)]
enum Weights<'a> {
    Inside,
    /// The rows in this file, the mask in [`MASK_FILE`].
    Elsewhere(&'a str),
}

fn network(element: u64, shape: [i64; 4], weights: Weights<'_>) -> Vec<u8> {
    let mut graph = Graph::default();
    let floats = if element == FLOAT {
        "images"
    } else {
        graph.node(
            "Cast",
            &["images"],
            "floats",
            &[Attribute::Int("to", FLOAT)],
        );
        "floats"
    };
    graph.mean(floats, &[1, 2, 3]);
    graph.node("Reshape", &["mean", "column"], "mean3", &[]);
    graph.node("Mul", &["mean3", "mask"], "shift", &[]);
    graph.node("Add", &["rows", "shift"], "output", &[]);
    graph.constant("column", INT64, &[3], &[-1_i64, 1, 1], i64::to_le_bytes);
    let axes = [1, CELLS as i64, ROW as i64];
    match weights {
        Weights::Inside => {
            graph.constant("rows", FLOAT, &axes, &one_box().rows, f32::to_le_bytes);
            graph.constant("mask", FLOAT, &axes, &one_box().mask, f32::to_le_bytes);
        }
        Weights::Elsewhere(file) => {
            let len = Some(CELLS * ROW * 4);
            graph.weight(external_tensor("rows", FLOAT, &axes, file, OFFSET, len));
            graph.weight(external_tensor("mask", FLOAT, &axes, MASK_FILE, 0, None));
        }
    }
    graph.input("images", element, &shape.map(Some));
    graph.output("output", FLOAT, &axes.map(Some));
    graph.bytes()
}

const PLANES: [i64; 4] = [1, 3, 64, 96];

fn digest(bytes: &[u8]) -> String {
    Sha256Digest::of(bytes).to_string()
}

/// A model folder with this network; `input` goes into the input's keys, `file` into those of the file.
fn folder_with(network: &[u8], input: &str, file: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = format!(
        "{input} width: 96, height: 64, color: bgr, letterbox: {{value: 0, placement: top_left}}"
    );
    let output = "{layout: yolox, name: output}\nlabels: [person, car]";
    write_model(folder.path(), network, &input, output, file);
    folder
}

/// The bytes of the file with the rows.
fn rows_file() -> Vec<u8> {
    [vec![0xff; OFFSET], bytes_of(&one_box().rows)].concat()
}

/// Writes both files of weights.
fn write_weights(folder: &Path) {
    fs::create_dir_all(folder.join("parts")).expect("made");
    fs::write(folder.join(ROWS_FILE), rows_file()).expect("written");
    fs::write(folder.join(MASK_FILE), bytes_of(&one_box().mask)).expect("written");
}

/// Left edge of the one box that the network in `folder` finds in an image of this gray, in input pixels.
fn left_of_box(folder: &Path, gray: u8) -> Result<f32, DetectError> {
    let prepared = load(&config(folder), &Recorder::default())?;
    let mut results = Vec::new();
    prepared
        .create(0)?
        .detect(&[frame(0, gray)], &mut results)?;
    let [found] = results[0].as_slice() else {
        panic!("one box was expected, found {results:?}");
    };
    assert_eq!(found.class, 1);
    assert!((found.score - 0.72).abs() < 1e-5, "{found:?}");
    Ok(found.xyxy[0] / 4.0)
}

/// The expected value by arithmetic: the mean is that of the whole input, with the padding below the image.
fn expected_left(gray: u8, padding: u8) -> f32 {
    let mean = (f32::from(gray) * 54.0 + f32::from(padding) * 10.0) / 64.0;
    4.0 + mean * 0.1 * 8.0
}

fn assert_boxes(folder: &Path) {
    let padding = ModelSpec::load(folder).expect("it is right").input.padding;
    for gray in [0, 10, 40] {
        let left = left_of_box(folder, gray).expect("it runs");
        let expected = expected_left(gray, padding);
        assert!(
            (left - expected).abs() < 1e-2,
            "{gray}: {left}, not {expected}"
        );
    }
}

/// The error of loading or of running.
fn error_of(folder: &Path) -> String {
    left_of_box(folder, 0)
        .expect_err("it cannot work")
        .to_string()
}

fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{error}\nlacks\n{part}");
    }
}

#[test]
fn external_weights_are_embedded() {
    needs_onnx_runtime!();
    let network = network(FLOAT, PLANES, Weights::Elsewhere(ROWS_FILE));
    // Without hashes, with one, and with both.
    let (rows, mask) = (digest(&rows_file()), digest(&bytes_of(&one_box().mask)));
    for hashes in [
        String::new(),
        format!(", weights: {{{ROWS_FILE}: {rows}}}"),
        format!(", weights: {{{MASK_FILE}: {mask}, {ROWS_FILE}: {rows}}}"),
    ] {
        let folder = folder_with(&network, "", &hashes);
        write_weights(folder.path());
        assert_boxes(folder.path());
    }
}

#[test]
fn embedded_network_equals_self_contained_network() {
    let folder = folder_with(
        &network(FLOAT, PLANES, Weights::Elsewhere(ROWS_FILE)),
        "",
        "",
    );
    write_weights(folder.path());
    let spec = ModelSpec::load(folder.path()).expect("it is right");
    let joined = spec
        .file(None)
        .and_then(|file| file.read())
        .expect("all is there");
    assert_eq!(joined, network(FLOAT, PLANES, Weights::Inside));
}

#[test]
fn missing_external_weights_are_reported() {
    needs_onnx_runtime!();
    let plain = network(FLOAT, PLANES, Weights::Elsewhere(ROWS_FILE));
    let folder = folder_with(&plain, "", "");
    write_weights(folder.path());
    let data = folder.path().join(ROWS_FILE);

    fs::remove_file(&data).expect("it was there");
    let missing = error_of(folder.path());
    let start = format!("cannot read {}, in which ", data.display());
    assert_says(
        &missing,
        &[
            &start,
            "tiny.onnx keeps weights: No such file",
            "put it there",
        ],
    );

    fs::create_dir(&data).expect("made");
    assert_says(&error_of(folder.path()), &[&start, "it is not a file"]);
    fs::remove_dir(&data).expect("it was there");

    let whole = rows_file();
    fs::write(&data, &whole[..whole.len() - 1]).expect("written");
    let (found, needed) = (whole.len() - 1, whole.len());
    let found = format!("tiny.onnx.data has {found} bytes, but ");
    let needed = format!("keeps weights in it up to byte {needed}: it is cut off");
    assert_says(&error_of(folder.path()), &[&found, &needed]);

    for location in ["../tiny.onnx.data", "/etc/hostname", ""] {
        let folder = folder_with(
            &network(FLOAT, PLANES, Weights::Elsewhere(location)),
            "",
            "",
        );
        write_weights(folder.path());
        let named = format!("keeps weights in `{location}`, expected a path below its own folder");
        assert_says(&error_of(folder.path()), &[&named]);
    }
}

#[test]
fn external_weight_hashes_are_verified() {
    needs_onnx_runtime!();
    let plain = network(FLOAT, PLANES, Weights::Elsewhere(ROWS_FILE));
    let rows = digest(&rows_file());
    let folder = folder_with(&plain, "", &format!(", weights: {{{ROWS_FILE}: {rows}}}"));
    write_weights(folder.path());
    let data = folder.path().join(ROWS_FILE);
    let mut changed = rows_file();
    changed[OFFSET] ^= 1;
    fs::write(&data, &changed).expect("written");
    let start = format!("{} has SHA-256 {}", data.display(), digest(&changed));
    assert_says(
        &error_of(folder.path()),
        &[&start, &format!("but model.yaml says {rows}")],
    );

    let folder = folder_with(&plain, "", &format!(", weights: {{other.data: {rows}}}"));
    write_weights(folder.path());
    let named = format!("in `other.data`, but the network names `{MASK_FILE}`, `{ROWS_FILE}`");
    assert_says(&error_of(folder.path()), &[&named]);

    let inside = network(FLOAT, PLANES, Weights::Inside);
    let folder = folder_with(&inside, "", &format!(", weights: {{{ROWS_FILE}: {rows}}}"));
    assert_says(
        &error_of(folder.path()),
        &["but the network names no such file"],
    );
}

#[test]
fn init_copies_weights_and_records_hashes() {
    needs_onnx_runtime!();
    let source = folder_with(
        &network(FLOAT, PLANES, Weights::Elsewhere(ROWS_FILE)),
        "",
        "",
    );
    write_weights(source.path());
    let made = tempfile::tempdir().expect("a temporary folder");
    // Into another folder, and in the folder of the file.
    for out in [&made.path().join("model"), source.path()] {
        let output = Command::new(env!("CARGO_BIN_EXE_jetwatch"))
            .args(["model", "init", "--force", "--layout", "yolox", "--out"])
            .args([out, &source.path().join("tiny.onnx")])
            .output()
            .expect("the binary starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let yaml = fs::read_to_string(out.join("model.yaml")).expect("it was written");
        let (rows, mask) = (digest(&rows_file()), digest(&bytes_of(&one_box().mask)));
        assert_says(&yaml, &["weights: {", &rows, &mask]);
        assert_boxes(out);
        let zeros = vec![0.0; CELLS * ROW];
        fs::write(out.join(MASK_FILE), bytes_of(&zeros)).expect("written");
        assert_says(&error_of(out), &["mask has SHA-256", &mask]);
    }
}

#[test]
fn byte_input_network_receives_bytes() {
    needs_onnx_runtime!();
    let bytes = network(UINT8, PLANES, Weights::Inside);
    assert_boxes(folder_with(&bytes, "type: uint8,", "").path());
    let floats = network(FLOAT, PLANES, Weights::Inside);
    assert_boxes(folder_with(&floats, "type: float32,", "").path());
}

#[test]
fn unsupported_input_type_or_layout_is_rejected() {
    needs_onnx_runtime!();
    let colors_last = [1, 64, 96, 3];
    let unlike_yaml = [
        "input `images`: found uint8 [1, 3, 64, 96], expected float32 [1 or N, 3, 64, 96]",
        "set input.type in model.yaml to uint8",
    ];
    let unlike_file = [
        "found float32 [1, 3, 64, 96], expected uint8",
        "set input.type in model.yaml to float32",
    ];
    let other_order = ["[1, 64, 96, 3], expected", "colors come last here"];
    let normalized = ["with `type: uint8`: bytes are given as they are"];
    let cases: [(u64, [i64; 4], &str, &[&str]); 7] = [
        (UINT8, PLANES, "", &unlike_yaml),
        (FLOAT, PLANES, "type: uint8,", &unlike_file),
        (FLOAT, colors_last, "", &other_order),
        (UINT8, colors_last, "type: uint8,", &other_order),
        (UINT8, PLANES, "type: uint8, mean: 1,", &normalized),
        (UINT8, PLANES, "type: uint8, scale: 0.5,", &normalized),
        (UINT8, PLANES, "type: uint8, scale: 1,", &normalized),
    ];
    for (element, shape, input, wanted) in cases {
        let network = network(element, shape, Weights::Inside);
        let error = error_of(folder_with(&network, input, "").path());
        assert_says(&error, wanted);
    }
}
