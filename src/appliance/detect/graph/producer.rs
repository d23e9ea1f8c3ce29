// SPDX-License-Identifier: Apache-2.0
//! Which operator and which convolutions compute an output. Pure; called when a network is summarized.
//!
//! A classifier's last operator shows what its shape does not: whether the output is a softmax, a sigmoid, or raw logits. A detector's
//! last convolutions show in which order its head joins boxes and scores, and, by the names of their weights, whose head it is.

use std::collections::HashMap;

use super::onnx_proto::{Graph, Node, Weight};
use super::summary::Convolution;

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

/// Convolutions that a head joins: of boxes, objects, classes, and perhaps masks.
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
        Some(
            node.operator
                .strip_prefix("QLinear")
                .unwrap_or(node.operator),
        )
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
            self.weight_of(node).filter(|_| node.operator == "Conv")
        };
        let found: Option<Vec<Convolution>> = match last.operator {
            "Concat" => last.inputs().take(MAX_JOINED).map(convolution).collect(),
            _ => convolution(output).map(|only| vec![only]),
        };
        found.unwrap_or_default()
    }

    /// Of a convolution. A weight that is shared or quantized is behind nodes.
    fn weight_of(&self, node: Node<'a>) -> Option<Convolution> {
        let mut name = node.input(1);
        for _ in 0..MAX_STEPS {
            name = match self.nodes.get(name) {
                Some(node) if SHAPING.contains(&node.operator) => node.input(0),
                _ => break,
            };
        }
        let channels = self.weights.get(name)?.axes.first()?.unsigned_abs();
        Some(Convolution {
            name: name.to_owned(),
            channels,
        })
    }
}
