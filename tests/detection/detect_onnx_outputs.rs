// SPDX-License-Identifier: Apache-2.0
//! Networks with several outputs, whole numbers among them, and with inputs next to the images: with the real library, on
//! tiny networks that the tests write themselves.
//!
//! Needs `ORT_DYLIB_PATH`; without it the tests are skipped with a message.

use crate::support::onnx_graph;
use crate::support::onnx_runtime::{config, frame, gray_pixels, write_model};

use std::path::Path;

use jetwatch_config::DetectorConfig;
use jetwatch_detect::{DetectError, load};
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Detection, Frame, Letterbox, Placement, Size};
use onnx_graph::{Attribute, FLOAT, Graph, INT64};

const INPUT: Size = Size::new(96, 64);
/// Size of the sources: four times the input's width, placed at its top left.
const SOURCE: Size = Size::new(384, 216);

/// A model folder with this network. `further` goes into `input`, `output` behind `output:`.
fn folder_with(bytes: &[u8], further: &str, output: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = format!(
        "{further} width: 96, height: 64, color: bgr, letterbox: {{value: 0, placement: top_left}}"
    );
    let output = format!("{output}\nlabels: [person, car, bus]");
    write_model(folder.path(), bytes, &input, &output, "");
    folder
}

/// Detections of the network in `folder` for `count` black images in one batch.
fn detect(folder: &Path, count: usize) -> Result<Vec<Vec<Detection>>, DetectError> {
    detect_gray(folder, count, 0)
}

/// The same in images of this gray.
fn detect_gray(folder: &Path, count: usize, gray: u8) -> Result<Vec<Vec<Detection>>, DetectError> {
    let config = DetectorConfig {
        batch_size: count,
        ..config(folder)
    };
    let prepared = load(&config, &Recorder::default())?;
    let inner = Letterbox::new(SOURCE, INPUT, Placement::TopLeft).inner;
    let frame = |seq| frame(2, seq, SOURCE, inner, gray_pixels(inner, gray));
    let batch: Vec<Frame> = (0..count as u64).map(frame).collect();
    let mut results = Vec::new();
    prepared.create(0)?.detect(&batch, &mut results)?;
    Ok(results)
}

fn found(class: u16, score: f32, xyxy: [f32; 4]) -> Detection {
    Detection { class, score, xyxy }
}

/// A transformer as its authors export it: three queries with the given labels, whose boxes are shares of what the
/// second input has. Labels are 64-bit integers, and the batch axis is open.
fn ranked(labels: &[i64; 3], boxes: &[[f32; 4]; 3], scores: &[f32; 3]) -> Vec<u8> {
    let mut graph = Graph::default();
    // Zeros of the batch, to which the constants are added.
    graph.mean("images", &[1, 2, 3]);
    graph.node("Sub", &["mean", "mean"], "zero", &[]);
    graph.node("Reshape", &["zero", "column"], "zeros", &[]);
    graph.node("Add", &["zeros", "scores0"], "scores", &[]);
    graph.node(
        "Cast",
        &["zeros"],
        "zeros64",
        &[Attribute::Int("to", INT64)],
    );
    graph.node("Add", &["zeros64", "labels0"], "labels", &[]);
    graph.node(
        "Cast",
        &["sizes"],
        "sizes32",
        &[Attribute::Int("to", FLOAT)],
    );
    graph.node(
        "Concat",
        &["sizes32", "sizes32"],
        "sides",
        &[Attribute::Int("axis", 1)],
    );
    graph.node("Reshape", &["sides", "rows"], "sides3", &[]);
    graph.node("Mul", &["sides3", "boxes0"], "boxes", &[]);
    graph.constant("column", INT64, &[2], &[-1_i64, 1], i64::to_le_bytes);
    graph.constant("rows", INT64, &[3], &[-1_i64, 1, 4], i64::to_le_bytes);
    graph.constant("scores0", FLOAT, &[1, 3], scores, f32::to_le_bytes);
    graph.constant("labels0", INT64, &[1, 3], labels, i64::to_le_bytes);
    let flat = boxes.concat();
    graph.constant("boxes0", FLOAT, &[1, 3, 4], &flat, f32::to_le_bytes);
    // The sizes come first, against the order in model.yaml.
    graph.input("sizes", INT64, &[None, Some(2)]);
    graph.input("images", FLOAT, &[None, Some(3), Some(64), Some(96)]);
    graph.output("labels", INT64, &[None, Some(3)]);
    graph.output("boxes", FLOAT, &[None, Some(3), Some(4)]);
    graph.output("scores", FLOAT, &[None, Some(3)]);
    graph.bytes()
}

const BOXES: [[f32; 4]; 3] = [
    [0.25, 0.25, 0.5, 0.5],
    [0.5, 0.0, 0.75, 0.5],
    [0.25, 0.25, 0.5, 0.5],
];
const RANKED: &str = "{layout: detr, tensors: {labels: labels, boxes: boxes, scores: scores}}";

#[test]
fn ranked_outputs_of_every_image_map_to_source_pixels() {
    needs_onnx_runtime!();
    let network = ranked(&[2, 0, 1], &BOXES, &[0.5, 0.9, 0.1]);
    let folder = folder_with(&network, "sizes_name: sizes,", RANKED);
    // 24, 16 to 48, 32 of the input, which is a quarter of the source.
    let wanted = vec![
        found(0, 0.9, [192.0, 0.0, 288.0, 128.0]),
        found(2, 0.5, [96.0, 64.0, 192.0, 128.0]),
    ];
    let results = detect(folder.path(), 3).expect("it works");
    assert_eq!(results, [wanted.clone(), wanted.clone(), wanted]);
}

#[test]
fn overlapping_boxes_are_kept_without_nms() {
    needs_onnx_runtime!();
    let network = ranked(&[1, 0, 1], &BOXES, &[0.8, 0.2, 0.6]);
    let folder = folder_with(&network, "sizes_name: sizes,", RANKED);
    let results = detect(folder.path(), 1).expect("it works");
    let scores: Vec<f32> = results[0].iter().map(|found| found.score).collect();
    assert_eq!(scores, [0.8, 0.6]);
}

#[test]
fn label_index_out_of_range_error_names_tensor_and_index() {
    needs_onnx_runtime!();
    let network = ranked(&[2, 80, 1], &BOXES, &[0.5, 0.9, 0.1]);
    let from_one = RANKED
        .replace("detr", "finished")
        .replace("labels:", "classes:");
    let from_one = from_one.replace("}}", "}, boxes_are: normalized, first_class: 1}");
    for (output, range) in [(RANKED, "0 to 2"), (from_one.as_str(), "1 to 3")] {
        let folder = folder_with(&network, "sizes_name: sizes,", output);
        let error = detect(folder.path(), 2)
            .expect_err("there are three labels")
            .to_string();
        let wanted = format!(
            "frame 0 of source 2: output `labels` holds the class 80 at index 1, expected {range}: labels in model.yaml"
        );
        assert!(error.contains(&wanted), "{error}");
    }
}

/// Final rows without a batch axis, as PaddlePaddle exports them.
#[test]
fn decoded_rows_need_no_batch_axis() {
    needs_onnx_runtime!();
    let mut graph = Graph::default();
    graph.mean("images", &[0, 1, 2, 3]);
    // Rows whose class, score and corners are multiplied by the scale, which must be 1.
    graph.node(
        "ReduceMean",
        &["scales"],
        "scale",
        &[
            Attribute::Ints("axes", &[0, 1]),
            Attribute::Int("keepdims", 0),
        ],
    );
    graph.node("Mul", &["rows0", "scale"], "scaled", &[]);
    graph.node("Add", &["scaled", "mean"], "rows", &[]);
    let rows = [
        [2.0, 0.9, 10.0, 20.0, 30.0, 40.0],
        [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ];
    let flat = rows.concat();
    graph.constant("rows0", FLOAT, &[2, 6], &flat, f32::to_le_bytes);
    graph.input("images", FLOAT, &[Some(1), Some(3), Some(64), Some(96)]);
    graph.input("scales", FLOAT, &[Some(1), Some(2)]);
    graph.output("rows", FLOAT, &[None, Some(6)]);
    let folder = folder_with(
        &graph.bytes(),
        "scales_name: scales,",
        "{layout: finished, name: rows, columns: [class, score, left, top, right, bottom]}",
    );
    let wanted = vec![found(2, 0.9, [40.0, 80.0, 120.0, 160.0])];
    let results = detect(folder.path(), 2).expect("it works");
    assert_eq!(results, [wanted.clone(), wanted]);
}

#[test]
fn an_output_that_differs_from_the_first_run_is_an_error() {
    needs_onnx_runtime!();
    let mut graph = Graph::default();
    // One row for a black image, as in the first run, and all four for a brighter one.
    graph.mean("images", &[1, 2, 3]);
    graph.node("Cast", &["mean"], "mean64", &[Attribute::Int("to", INT64)]);
    graph.node("Add", &["mean64", "one"], "end", &[]);
    graph.node("Slice", &["rows0", "zero", "end", "one"], "rows", &[]);
    graph.constant("zero", INT64, &[1], &[0_i64], i64::to_le_bytes);
    graph.constant("one", INT64, &[1], &[1_i64], i64::to_le_bytes);
    graph.constant("rows0", FLOAT, &[1, 4, 8], &[0.0_f32; 32], f32::to_le_bytes);
    graph.input("images", FLOAT, &[Some(1), Some(3), Some(64), Some(96)]);
    graph.output("rows", FLOAT, &[Some(1), None, Some(8)]);
    let folder = folder_with(&graph.bytes(), "", "{layout: yolov5, name: rows}");
    // It is found when the network is loaded, which runs it on a made-up image, too.
    let error = detect(folder.path(), 1)
        .expect_err("three rows more")
        .to_string();
    let wanted = "output `rows` has 32 numbers for 1 images, but had 8 for each in the first run";
    assert!(error.contains(wanted), "{error}");
}
