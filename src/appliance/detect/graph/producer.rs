// SPDX-License-Identifier: Apache-2.0
//! Which operator computes an output. Pure; called when a network is summarized.
//!
//! A classifier's last operator shows what its shape does not: whether the output is a softmax, a sigmoid, or raw logits.

use super::onnx_proto::{Graph, Node};

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

/// Longest way back: exporters leave a few such operators behind one another, and damaged files may lead in circles.
const MAX_STEPS: usize = 32;

/// Upper limit, since a damaged file may have as many outputs as nodes.
const MAX_OUTPUTS: usize = 32;

/// The operator that makes the numbers of `output`, in its kind for floats; `None` when no node gives it.
pub(super) fn producer_of<'a>(graph: &Graph<'a>, output: &'a str) -> Option<&'a str> {
    if graph.outputs.len() > MAX_OUTPUTS {
        return None;
    }
    let mut wanted = output;
    for _ in 0..MAX_STEPS {
        let gives = |node: &&Node<'a>| node.output() == wanted;
        let node = graph
            .nodes
            .iter()
            .find(gives)
            .filter(|_| !wanted.is_empty())?;
        if !SHAPING.contains(&node.operator) {
            let of_floats = node.operator.strip_prefix("QLinear");
            return Some(of_floats.unwrap_or(node.operator));
        }
        wanted = node.input(0);
    }
    None
}
