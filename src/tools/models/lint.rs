// SPDX-License-Identifier: Apache-2.0
//! Diagnostics of a network: what the runtimes reject or run inefficiently, and the remedy. Pure.
//!
//! [`graph::check`] covers files, operators and versions; added here are the tensors, for which the output layout is inferred,
//! and the quantization. Called by `jetwatch model inspect` and `jetwatch model init`.

use jetwatch_detect::class_names::unused_names;
use jetwatch_detect::graph::{self, Axis, Diagnostic, Element, Network};
use jetwatch_detect::layouts::ssd::BACKGROUND_KEY;
use jetwatch_detect::layouts::{InferredLayout, image_input, infer_layout};

/// All diagnostics, the most severe first.
#[must_use]
pub fn lint(network: &Network) -> Vec<Diagnostic> {
    let mut found = graph::check(network);
    tensors(network, &mut found);
    quantization(network, &mut found);
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

fn tensors(network: &Network, found: &mut Vec<Diagnostic>) {
    if network.outputs.is_empty() {
        found.push(Diagnostic::error(
            "the network has no output: the file is a part of another one; export it again"
                .to_owned(),
        ));
    }
    let Some(input) = image_input(network) else {
        let inputs: Vec<String> = network
            .inputs
            .iter()
            .map(|input| format!("`{}` {input}", input.name))
            .collect();
        found.push(Diagnostic::error(format!(
            "no input takes images: found {}, expected float32 [1 or N, 3, height, width]; export the network with its \
             input's shape",
            if inputs.is_empty() { "none".to_owned() } else { inputs.join(", ") }
        )));
        return;
    };
    let axes = input.axes.as_deref().unwrap_or(&[]);
    if axes[1] != Axis::Fixed(3) && !matches!(axes[1], Axis::Open(_)) {
        let is_last = axes[3] == Axis::Fixed(3);
        found.push(Diagnostic::error(format!(
            "input `{}`: found {input}, expected three planes on the second axis; {}",
            input.name,
            if is_last {
                "colors come last here: export it for [N, 3, height, width] (tf2onnx: --inputs-as-nchw)"
            } else {
                "jetwatch runs networks of color images"
            }
        )));
    }
    if !matches!(input.element, Some(Element::FLOAT | Element::UINT8)) {
        found.push(Diagnostic::error(format!(
            "input `{}`: found {input}, expected float32 or uint8: export the network with 32-bit floats at its ends; they may \
             be reduced inside",
            input.name
        )));
    }
    let guess = infer_layout(network, None);
    let takes_background = |guess: &InferredLayout| {
        let mut parameters = guess.found.parameters.iter();
        parameters.any(|(key, _)| *key == BACKGROUND_KEY)
    };
    // Whether one of an SSD's names is the background's is decided by their number.
    if let Some(guess) = guess.as_ref().filter(|guess| !takes_background(guess))
        && let Some(unused) = unused_names(network, guess.found.classes)
    {
        found.push(Diagnostic::warning(unused));
    }
    let is_known = |name: &String| {
        guess.as_ref().is_some_and(|guess| {
            guess.sizes_name.as_ref() == Some(name) || guess.scales_name.as_ref() == Some(name)
        })
    };
    let others: Vec<String> = network
        .inputs
        .iter()
        .filter(|other| other.name != input.name && !is_known(&other.name))
        .map(|other| format!("`{}` {other}", other.name))
        .collect();
    if !others.is_empty() {
        found.push(Diagnostic::error(format!(
            "another input {}: jetwatch supplies images, and their size or scale to networks like RT-DETR; export the network \
             with one input",
            others.join(" and ")
        )));
    }
    for output in &network.outputs {
        if output.element == Some(Element::FLOAT16) {
            found.push(Diagnostic::error(format!(
                "output `{}`: found {output}, expected float32: export the network with 32-bit floats at its ends; they may be \
                 reduced inside",
                output.name
            )));
        }
    }
    if network.count("NonMaxSuppression") > 0 {
        found.push(Diagnostic::warning(
            "the network contains `NonMaxSuppression`, so its output has no fixed shape: jetwatch's \
             own suppression is faster, export without it"
                .to_owned(),
        ));
    }
}

fn quantization(network: &Network, found: &mut Vec<Diagnostic>) {
    let quantized = &network.quantization;
    if network.half_weights > 0 {
        found.push(Diagnostic::note(format!(
            "{} weight(s) are 16-bit floats: ONNX Runtime computes most of them in 32 bits on a CPU; TensorRT makes 16 bits \
             of a 32-bit network itself",
            network.half_weights
        )));
    }
    if !quantized.is_any() {
        return;
    }
    if quantized.quantized_biases > 0 {
        found.push(Diagnostic::warning(format!(
            "{} of {} layers have quantized biases, which TensorRT's parser refuses: quantize again with models/quantize.py, or \
             with onnxruntime's QuantizeBias=False",
            quantized.quantized_biases, quantized.layers
        )));
    }
    if quantized.unsigned_activations > 0 {
        found.push(Diagnostic::warning(format!(
            "{} activations are unsigned bytes, which suits CPUs; TensorRT takes signed ones only: \
             models/quantize.py --target tensorrt",
            quantized.unsigned_activations
        )));
    }
    if quantized.asymmetric > 0 {
        found.push(Diagnostic::warning(format!(
            "{} zero points are not 0, which TensorRT refuses: quantize symmetrically (models/quantize.py --target tensorrt)",
            quantized.asymmetric
        )));
    }
    if quantized.per_tensor_weights > quantized.per_channel_weights {
        found.push(Diagnostic::warning(format!(
            "{} weights have one scale for all channels, {} one for each: accuracy suffers, above all in depthwise \
             convolutions; quantize with a scale for each channel",
            quantized.per_tensor_weights, quantized.per_channel_weights
        )));
    }
    if quantized.integer_nodes > 0 {
        found.push(Diagnostic::warning(format!(
            "{} nodes compute in integers (`QLinearConv` and the like), which TensorRT's parser refuses: quantize with \
             QuantizeLinear and DequantizeLinear (QuantFormat.QDQ)",
            quantized.integer_nodes
        )));
    }
}
