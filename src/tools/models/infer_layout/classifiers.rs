// SPDX-License-Identifier: Apache-2.0
//! The rules for classifiers, one score for each label and no box, and for embeddings. Pure; called by [`rules`](super::rules).
//!
//! All of them have the same shape. Classifiers differ only in the operator that computes the scores, embeddings in the form of
//! their input and in their length.

use jetwatch_detect::graph::Axis;

use super::rules::role;
use super::{InferredLayout, Output, OutputsView, image_input};

/// Operators whose outputs are not scores yet. A `LogSoftmax` is one of them: a softmax of its outputs gives the
/// probabilities.
const RAW: [&str; 11] = [
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Conv",
    "Gemm",
    "GlobalAveragePool",
    "LogSoftmax",
    "MatMul",
    "QGemm",
    "ReduceMean",
    "Sub",
];

/// Operators whose outputs are scores and no embedding.
const SCORES: [&str; 4] = ["HardSigmoid", "LogSoftmax", "Sigmoid", "Softmax"];

/// Numbers of an embedding of an object.
const EMBEDDING: std::ops::RangeInclusive<u64> = 64..=4096;

/// Networks that tell persons or vehicles apart have inputs of 256×128, 128×64 or 160×60: at least this much higher than wide.
const MIN_HEIGHT_SHARE: f64 = 1.5;

/// One output `[classes]`, perhaps with further axes of length 1.
pub(super) fn scores(view: &OutputsView<'_>, found: &mut Vec<InferredLayout>) {
    let [output] = view.outputs.as_slice() else {
        return;
    };
    let [classes, rest @ ..] = output.axes.as_slice() else {
        return;
    };
    // Rows of boxes behind a suppression have no batch axis, so that their columns look like classes.
    let is_list = rest.iter().all(|axis| *axis == Some(1));
    if !is_list || !output.is_float() || suppresses(view) || !is_per_image(view) {
        return;
    }
    let noted = view.names.as_ref().map(|names| names.len() as u64);
    let embedding = embedding(view, output);
    let is_high = f64::from(view.size.height) >= MIN_HEIGHT_SHARE * f64::from(view.size.width);
    if is_high {
        found.extend(embedding.clone());
    }
    let count = classes.or(noted).unwrap_or(0);
    let one_is_enough = *classes == Some(1);
    let mut add = |layout, why: String| {
        // The probability of a single label is always 1.
        if *classes == Some(0) || one_is_enough && layout != "sigmoid" {
            return;
        }
        found.push(InferredLayout {
            layout,
            reason: format!(
                "output {}: one number for each label, {why}{}",
                output.shape(),
                view.agrees(count)
            ),
            classes: count as usize,
            tensors: vec![role("name", output)],
            parameters: Vec::new(),
            sizes_name: None,
            scales_name: None,
        });
    };
    let behind = |operator: &str| format!("from the operator {operator}");
    match output.made_by {
        Some("Softmax") => {
            add("softmax", behind("Softmax"));
            add("sigmoid", behind("Softmax"));
        }
        Some(operator @ ("Sigmoid" | "HardSigmoid")) => {
            add("sigmoid", behind(operator));
            add("softmax", behind(operator));
        }
        Some(operator) if RAW.contains(&operator) => {
            let why = "and no Softmax or Sigmoid comes behind it";
            add("logits", format!("{}, {why}", behind(operator)));
        }
        other => {
            let operator = other.unwrap_or("that makes them, which was not found");
            let why = "which does not show what they are; if they are not probabilities, the daemon reports it: use --layout logits then";
            for layout in ["softmax", "logits", "sigmoid"] {
                add(layout, format!("{}, {why}", behind(operator)));
            }
        }
    }
    // Where the input is not high, last; one that is there already is not added again.
    found.extend(embedding);
}

/// The output as an embedding: a vector of the usual length, without names of classes and without an operator that makes scores.
fn embedding(view: &OutputsView<'_>, output: &Output<'_>) -> Option<InferredLayout> {
    let length = (*output.axes.first()?)?;
    let makes_scores = output.made_by.is_some_and(|by| SCORES.contains(&by));
    if !EMBEDDING.contains(&length) || makes_scores || view.names.is_some() {
        return None;
    }
    Some(InferredLayout {
        layout: "embedding",
        reason: format!(
            "output {} of an input of {}: one vector for each image, as networks have that tell objects apart (ReID)",
            output.shape(),
            view.size
        ),
        classes: 0,
        tensors: vec![role("name", output)],
        parameters: Vec::new(),
        sizes_name: None,
        scales_name: None,
    })
}

/// Whether the network contains non-maximum suppression.
fn suppresses(view: &OutputsView<'_>) -> bool {
    let operators = [
        "NonMaxSuppression",
        "EfficientNMS_TRT",
        "BatchedNMS_TRT",
        "BatchedNMSDynamic_TRT",
        "NMS_TRT",
    ];
    view.has_operator(&operators)
}

/// Whether the first axis of the output can be that of the images.
fn is_per_image(view: &OutputsView<'_>) -> bool {
    let first = |axes: Option<&Vec<Axis>>| match axes.and_then(|axes| axes.first()) {
        Some(Axis::Fixed(len)) => Some(*len),
        _ => None,
    };
    let images = first(image_input(view.network).and_then(|input| input.axes.as_ref()));
    let outputs = &view.network.outputs;
    let rows = first(outputs.first().and_then(|output| output.axes.as_ref()));
    match (images, rows) {
        (Some(images), Some(rows)) => images == rows,
        _ => true,
    }
}
