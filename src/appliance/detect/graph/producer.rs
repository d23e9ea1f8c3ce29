// SPDX-License-Identifier: Apache-2.0
//! Which operator and which convolutions compute an output. Pure; called when a network is summarized.
//!
//! A classifier's last operator shows what its shape does not: whether the output is a softmax, a sigmoid, or raw logits. A detector's
//! last convolutions show in which order its head joins boxes and scores, and, by the names of their weights, whose head it is.

use std::collections::HashMap;

use super::onnx_proto::{Graph, Node, Weight};
use super::summary::{Convolution, PixelRange};

/// Operators that change only shape or storage, not the meaning of the numbers.
const SHAPING: [&str; 11] = [
    "Cast",
    "DequantizeLinear",
    "Dropout",
    "Flatten",
    "Identity",
    "QuantizeLinear",
    "Reshape",
    "Slice",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
];

/// Operators between the last convolution of a head and its output, which keep the channels.
const OF_HEADS: [&str; 6] = ["Clip", "Exp", "Mul", "Relu", "Sigmoid", "Softplus"];

/// Longest way back: exporters leave a few such operators behind one another, and damaged files may lead in circles.
const MAX_STEPS: usize = 32;

/// Parts that a head joins: of boxes, objects, classes, and perhaps masks.
const MAX_JOINED: usize = 4;

/// What makes the tensors of a graph.
pub(super) struct Producers<'g, 'a> {
    nodes: HashMap<&'a str, Node<'a>>,
    weights: HashMap<&'a str, &'g Weight<'a>>,
}

impl<'g, 'a> Producers<'g, 'a> {
    pub(super) fn new(graph: &'g Graph<'a>) -> Self {
        let mut nodes = HashMap::new();
        for node in graph.nodes.iter().filter(|node| !node.output().is_empty()) {
            nodes.entry(node.output()).or_insert(*node);
        }
        let weights = graph.weights.iter().map(|weight| (weight.name, weight));
        Self {
            nodes,
            weights: weights.collect(),
        }
    }

    /// The node behind `tensor` that is not one of those that `is_passed`.
    fn behind(&self, tensor: &str, is_passed: impl Fn(&str) -> bool) -> Option<Node<'a>> {
        let mut node = *self.nodes.get(tensor)?;
        for _ in 0..MAX_STEPS {
            if !is_passed(node.operator) {
                return Some(node);
            }
            node = *self.nodes.get(node.input(0))?;
        }
        None
    }

    /// The operator that makes the numbers of `output`, in its kind for floats; `None` when no node gives it.
    pub(super) fn operator(&self, output: &str) -> Option<&'a str> {
        let node = self.behind(output, |operator| SHAPING.contains(&operator))?;
        Some(match node.activation {
            "" => node
                .operator
                .strip_prefix("QLinear")
                .unwrap_or(node.operator),
            fused => fused,
        })
    }

    /// Distance of the numbers that `output` can have, where its last operator makes them from integers with one scale.
    pub(super) fn step(&self, output: &str) -> Option<f64> {
        let is_passed =
            |operator: &str| SHAPING.contains(&operator) && operator != "DequantizeLinear";
        let node = self.behind(output, is_passed)?;
        let scale = self.weights.get(node.input(1))?.few_values()?;
        (node.operator == "DequantizeLinear").then(|| scale[0])
    }

    /// The operators that make the parts that `output` joins; empty where it joins none.
    pub(super) fn joined(&self, output: &str) -> Vec<String> {
        let last = self.behind(output, |operator| SHAPING.contains(&operator));
        let parts = last.filter(|last| last.operator == "Concat");
        let parts = parts.into_iter().flat_map(Node::inputs).take(MAX_JOINED);
        parts
            .map(|part| self.operator(part).unwrap_or_default().to_owned())
            .collect()
    }

    /// The convolutions in which `output` ends, in the order in which it joins them; empty where it ends in something else.
    pub(super) fn convolutions(&self, output: &str) -> Vec<Convolution> {
        let is_passed =
            |operator: &str| SHAPING.contains(&operator) || OF_HEADS.contains(&operator);
        let Some(last) = self.behind(output, is_passed) else {
            return Vec::new();
        };
        let convolution = |tensor| {
            let node = self.behind(tensor, is_passed)?;
            self.weight_of(node)
                .filter(|_| matches!(node.operator, "Conv" | "FusedConv"))
        };
        let found: Option<Vec<Convolution>> = match last.operator {
            "Concat" => last.inputs().take(MAX_JOINED).map(convolution).collect(),
            _ => convolution(output).map(|only| vec![only]),
        };
        found.unwrap_or_default()
    }

    /// Which pixels the image `input` of `graph` takes, where the network itself normalizes them; `None` where its first operator is no
    /// such one.
    pub(super) fn takes(&self, graph: &Graph<'a>, input: &str) -> Option<PixelRange> {
        let mut tensor = input;
        for _ in 0..MAX_STEPS {
            let takes_it = |node: &&Node<'a>| node.inputs().any(|taken| taken == tensor);
            let mut users = graph
                .nodes
                .iter()
                .filter(takes_it)
                .filter(|node| node.operator != "Shape");
            let (node, None) = (*users.next()?, users.next()) else {
                return None;
            };
            let other = node.inputs().find(|taken| *taken != tensor);
            let is_shaping = SHAPING.contains(&node.operator) || node.operator == "Resize";
            match (node.operator, other) {
                _ if is_shaping => {}
                ("Div" | "Mul" | "Sub" | "Add", Some(other)) => {
                    let values = self.weights.get(self.stored(other))?.few_values()?;
                    if let Some(range) = range_of(node.operator, &values) {
                        return range;
                    }
                }
                _ => return None,
            }
            tensor = node.output();
        }
        None
    }

    /// The weight behind `tensor`: one that is shared or quantized is behind nodes.
    fn stored(&self, mut tensor: &'a str) -> &'a str {
        for _ in 0..MAX_STEPS {
            match self.nodes.get(tensor) {
                Some(node) if SHAPING.contains(&node.operator) => tensor = node.input(0),
                _ => break,
            }
        }
        tensor
    }

    fn weight_of(&self, node: Node<'a>) -> Option<Convolution> {
        let name = self.stored(node.input(1));
        let channels = self.weights.get(name)?.axes.first()?.unsigned_abs();
        Some(Convolution {
            name: name.to_owned(),
            channels,
        })
    }
}

/// What an image is that `operator` normalizes first by `values`: means and deviations of 0 to 1, or of 0 to 255. `None`: they change
/// nothing; `Some(None)`: they are no normalization.
fn range_of(operator: &str, values: &[f64]) -> Option<Option<PixelRange>> {
    let all = |is: &dyn Fn(f64) -> bool| values.iter().all(|value| is(*value));
    let is_neutral = match operator {
        "Div" | "Mul" => all(&|value| value == 1.0),
        _ => all(&|value| value == 0.0),
    };
    let (is_bytes, is_unit) = match operator {
        "Div" => (
            all(&|value| value >= 16.0),
            all(&|value| value > 0.0 && value < 16.0),
        ),
        "Mul" => (
            all(&|value| value > 0.0 && value <= 0.1),
            all(&|value| value > 0.1),
        ),
        "Sub" => (
            all(&|value| value > 2.0),
            all(&|value| value > 0.0 && value <= 2.0),
        ),
        _ => (
            all(&|value| value < -2.0),
            all(&|value| (-2.0..0.0).contains(&value)),
        ),
    };
    match (is_neutral, is_bytes, is_unit) {
        (true, ..) => None,
        (_, true, _) => Some(Some(PixelRange::Bytes)),
        (_, _, true) => Some(Some(PixelRange::Unit)),
        _ => Some(None),
    }
}
