// SPDX-License-Identifier: Apache-2.0
//! How a network is quantized, read from the nodes that quantize and dequantize. Pure.

use std::collections::HashMap;

use serde::Serialize;

use super::onnx_proto::{Graph, Node, Weight};
use super::summary::Element;

/// What is quantized, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Quantization {
    /// `QuantizeLinear` nodes.
    pub quantize: usize,
    /// `DequantizeLinear` nodes.
    pub dequantize: usize,
    /// Activations in signed bytes.
    pub signed_activations: usize,
    /// Activations in unsigned bytes.
    pub unsigned_activations: usize,
    /// Weights with one scale.
    pub per_tensor_weights: usize,
    /// Weights with a scale for each channel.
    pub per_channel_weights: usize,
    /// Weights kept as floats before a `QuantizeLinear`, as TensorRT's parser wants them.
    pub float_weights: usize,
    /// Zero points other than 0, which TensorRT refuses.
    pub asymmetric: usize,
    /// Convolutions and matrix products.
    pub layers: usize,
    /// Those of them whose input and weights are quantized.
    pub quantized_layers: usize,
    /// Those of them whose bias is quantized, which TensorRT's parser refuses.
    pub quantized_biases: usize,
    /// Nodes of the older form that compute in integers: `QLinearConv`, `ConvInteger` and the like.
    pub integer_nodes: usize,
}

impl Quantization {
    /// Whether anything is quantized.
    pub fn is_any(&self) -> bool {
        self.quantize + self.dequantize + self.integer_nodes > 0
    }
}

const LAYERS: [&str; 4] = ["Conv", "ConvTranspose", "MatMul", "Gemm"];

/// Reads the nodes of `graph`.
pub(super) fn summarize(graph: &Graph<'_>) -> Quantization {
    let weights: HashMap<&str, &Weight<'_>> = graph
        .weights
        .iter()
        .map(|weight| (weight.name, weight))
        .collect();
    let made_by: HashMap<&str, Node<'_>> = graph
        .nodes
        .iter()
        .filter(|node| matches!(node.operator, "QuantizeLinear" | "DequantizeLinear"))
        .map(|node| (node.output(), *node))
        .collect();
    let is_dequantized = |name: &str| {
        made_by
            .get(name)
            .is_some_and(|node| node.operator == "DequantizeLinear")
    };
    let mut sum = Quantization::default();
    for node in graph
        .nodes
        .iter()
        .filter(|node| is_onnx_domain(node.domain))
    {
        match node.operator {
            "QuantizeLinear" => sum.quantize += 1,
            "DequantizeLinear" => {
                sum.dequantize += 1;
                count_dequantize(*node, &weights, &made_by, &mut sum);
            }
            layer if LAYERS.contains(&layer) => {
                sum.layers += 1;
                let is_quantized = is_dequantized(node.input(0)) && is_dequantized(node.input(1));
                sum.quantized_layers += usize::from(is_quantized);
                sum.quantized_biases += usize::from(is_dequantized(node.input(2)));
            }
            other if is_integer(other) => sum.integer_nodes += 1,
            _ => {}
        }
    }
    sum
}

/// Vendors' dequantizers, such as those of `com.microsoft`, are the same thing under another domain.
fn is_onnx_domain(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx" | "com.microsoft")
}

fn is_integer(operator: &str) -> bool {
    operator.starts_with("QLinear")
        || matches!(
            operator,
            "ConvInteger" | "MatMulInteger" | "DynamicQuantizeLinear" | "QGemm"
        )
}

fn count_dequantize(
    node: Node<'_>,
    weights: &HashMap<&str, &Weight<'_>>,
    made_by: &HashMap<&str, Node<'_>>,
    sum: &mut Quantization,
) {
    let zero_point = weights.get(node.input(2));
    sum.asymmetric += usize::from(zero_point.is_some_and(|weight| has_value(weight)));
    let quantizer = made_by
        .get(node.input(0))
        .filter(|node| node.operator == "QuantizeLinear");
    let float_weight = quantizer.filter(|node| weights.contains_key(node.input(0)));
    let stored = weights.get(node.input(0));
    if float_weight.is_some() || stored.is_some() {
        // A bias is stored in 32 bits and counted with its layer.
        if stored.is_some_and(|weight| Element(weight.element) == Element::INT32) {
            return;
        }
        sum.float_weights += usize::from(float_weight.is_some());
        let scales = weights.get(node.input(1));
        let is_per_channel = scales.is_some_and(|weight| weight.axes.iter().any(|axis| *axis > 1));
        sum.per_channel_weights += usize::from(is_per_channel);
        sum.per_tensor_weights += usize::from(!is_per_channel);
        return;
    }
    // Without a zero point the type is unsigned bytes, states ONNX.
    let element = zero_point.map_or(Element::UINT8, |weight| Element(weight.element));
    sum.signed_activations += usize::from(element == Element::INT8);
    sum.unsigned_activations += usize::from(element == Element::UINT8);
}

fn has_value(weight: &Weight<'_>) -> bool {
    weight.has_nonzero
        || weight
            .raw
            .is_some_and(|raw| raw.iter().any(|byte| *byte != 0))
}
