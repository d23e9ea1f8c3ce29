// SPDX-License-Identifier: Apache-2.0
//! Writes a network again for a fixed number of images. Pure.
//!
//! A provider that records its work as a graph needs fixed shapes, and a network that was exported for one image cannot take
//! several in one run. The number of images stands in the first axis of the inputs and, in some networks, in the constant
//! shapes of `Reshape` operators. Shapes of outputs and of intermediate tensors are left out: the runtime infers them. Whether
//! the result computes the same for every image is for the caller to check ([`onnx_cuda`](crate::onnx)): an operator that
//! mixes the images would go unnoticed here.

use std::collections::HashSet;

use super::onnx_proto::{self, Axis};
use super::protobuf::{self, Field, Malformed, Message};

/// Whether the network leaves the first axis of input `name` open; `false` when there is no such input.
///
/// # Errors
/// The bytes are no network.
pub fn has_open_batch(network: &[u8], name: &str) -> Result<bool, Malformed> {
    Ok(matches!(first_axis_of(network, name)?, Some(Axis::Open(_))))
}

fn first_axis_of<'a>(network: &'a [u8], name: &str) -> Result<Option<Axis<'a>>, Malformed> {
    let model = onnx_proto::model(network)?;
    let inputs = model.graph.iter().flat_map(|graph| &graph.inputs);
    let mut named = inputs.filter(|input| input.name == name);
    let axes = named.next().and_then(|input| input.axes.as_ref());
    Ok(axes.and_then(|axes| axes.first()).copied())
}

/// `network` for `batch` images, at least 1: the first axis of each of `inputs` gets that length.
///
/// # Errors
/// The bytes are no network.
pub fn with_batch(network: &[u8], inputs: &[&str], batch: usize) -> Result<Vec<u8>, Malformed> {
    let shapes = reshape_shapes(network)?;
    let batch = batch as u64;
    rewrite(Message::new(network), |field| match field.number {
        7 => with(rewrite(field.message()?, |field| {
            graph_field(field, inputs, &shapes, batch)
        })?),
        _ => Ok(Change::Keep),
    })
}

/// Names of the tensors that `Reshape` operators of the outermost graph take as shapes.
fn reshape_shapes(network: &[u8]) -> Result<HashSet<String>, Malformed> {
    let model = onnx_proto::model(network)?;
    let nodes = model.graph.iter().flat_map(|graph| &graph.nodes);
    let reshapes = nodes.filter(|node| node.operator == "Reshape" && node.domain.is_empty());
    Ok(reshapes.map(|node| node.input(1).to_owned()).collect())
}

/// What becomes of a field.
pub(super) enum Change {
    Keep,
    Drop,
    /// The same field with another message.
    Replace(Vec<u8>),
}

pub(super) fn with(message: Vec<u8>) -> Result<Change, Malformed> {
    Ok(Change::Replace(message))
}

/// Copies `message`, with a change for each field.
pub(super) fn rewrite<'a>(
    message: Message<'a>,
    mut change: impl FnMut(Field<'a>) -> Result<Change, Malformed>,
) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Vec::new();
    for field in message.fields() {
        let field = field?;
        match change(field)? {
            Change::Keep => bytes.extend_from_slice(field.encoded),
            Change::Drop => {}
            Change::Replace(message) => {
                bytes.extend(protobuf::field_header(field.number, message.len()));
                bytes.extend(message);
            }
        }
    }
    Ok(bytes)
}

/// A field of the graph: node, weight, input, output or shape of an intermediate tensor.
fn graph_field(
    field: Field<'_>,
    inputs: &[&str],
    shapes: &HashSet<String>,
    batch: u64,
) -> Result<Change, Malformed> {
    match field.number {
        1 => constant_node(field.message()?, shapes, batch),
        5 => {
            let message = field.message()?;
            match shapes.contains(onnx_proto::weight(message)?.name) {
                true => shape_tensor(message, batch),
                false => Ok(Change::Keep),
            }
        }
        11 => {
            let message = field.message()?;
            match inputs.contains(&value_name(message)?) {
                true => with(tensor_shape(message, |shape| {
                    with(first_axis(shape, batch)?)
                })?),
                false => Ok(Change::Keep),
            }
        }
        12 => with(tensor_shape(field.message()?, |_| Ok(Change::Drop))?),
        13 => Ok(Change::Drop),
        _ => Ok(Change::Keep),
    }
}

/// A `Constant` operator that gives the shape of a `Reshape`.
fn constant_node(
    message: Message<'_>,
    shapes: &HashSet<String>,
    batch: u64,
) -> Result<Change, Malformed> {
    let (mut operator, mut output) = ("", "");
    for field in message.fields() {
        let field = field?;
        match field.number {
            2 => output = field.text()?,
            4 => operator = field.text()?,
            _ => {}
        }
    }
    if operator != "Constant" || !shapes.contains(output) {
        return Ok(Change::Keep);
    }
    with(rewrite(message, |field| match field.number {
        // The attribute, and in it the tensor.
        5 => with(rewrite(field.message()?, |field| match field.number {
            5 => shape_tensor(field.message()?, batch),
            _ => Ok(Change::Keep),
        })?),
        _ => Ok(Change::Keep),
    })?)
}

/// The constant shape of a `Reshape` for one image, written for `batch`; others stay as they are.
fn shape_tensor(message: Message<'_>, batch: u64) -> Result<Change, Malformed> {
    const INT64: i64 = 7;
    let weight = onnx_proto::weight(message)?;
    let [len] = weight.axes[..] else {
        return Ok(Change::Keep);
    };
    if len < 2 || weight.element != INT64 || weight.external.is_some() {
        return Ok(Change::Keep);
    }
    let mut numbers = Vec::new();
    match weight.raw {
        Some(raw) => numbers.extend(
            raw.as_chunks::<8>()
                .0
                .iter()
                .map(|b| i64::from_le_bytes(*b)),
        ),
        None => {
            for field in message.fields() {
                let field = field?;
                if field.number == 7 {
                    field.numbers(|number| {
                        numbers.push(number);
                        Ok(())
                    })?;
                }
            }
        }
    }
    if numbers.first() != Some(&1) || numbers.len() as i64 != len {
        return Ok(Change::Keep);
    }
    numbers[0] = batch.cast_signed();
    let raw: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let mut bytes = rewrite(message, |field| match field.number {
        7 | 9 => Ok(Change::Drop),
        _ => Ok(Change::Keep),
    })?;
    bytes.extend(protobuf::field_header(9, raw.len()));
    bytes.extend(raw);
    with(bytes)
}

pub(super) fn value_name(message: Message<'_>) -> Result<&str, Malformed> {
    let mut name = "";
    for field in message.fields() {
        let field = field?;
        if field.number == 1 {
            name = field.text()?;
        }
    }
    Ok(name)
}

/// An input or output whose shape is changed by `change`.
fn tensor_shape<'a>(
    message: Message<'a>,
    mut change: impl FnMut(Message<'a>) -> Result<Change, Malformed>,
) -> Result<Vec<u8>, Malformed> {
    rewrite(message, |field| match field.number {
        // The type, in it that of a tensor, and in it the shape.
        2 => with(rewrite(field.message()?, |field| match field.number {
            1 => with(rewrite(field.message()?, |field| match field.number {
                2 => change(field.message()?),
                _ => Ok(Change::Keep),
            })?),
            _ => Ok(Change::Keep),
        })?),
        _ => Ok(Change::Keep),
    })
}

/// A shape whose first axis has the length `batch`.
fn first_axis(shape: Message<'_>, batch: u64) -> Result<Vec<u8>, Malformed> {
    let mut is_first = true;
    rewrite(shape, |field| match field.number {
        1 if std::mem::take(&mut is_first) => with(protobuf::number_field(1, batch)),
        _ => Ok(Change::Keep),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u64, value: &[u8]) -> Vec<u8> {
        [&protobuf::field_header(number, value.len()), value].concat()
    }

    /// An input or output of floats whose axes are these messages.
    fn value(name: &str, axes: &[Vec<u8>]) -> Vec<u8> {
        let shape: Vec<u8> = axes.iter().flat_map(|axis| field(1, axis)).collect();
        let tensor = [vec![0x08, 1], field(2, &shape)].concat();
        [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
    }

    fn fixed(len: u64) -> Vec<u8> {
        protobuf::number_field(1, len)
    }

    /// Weight `name` of 64-bit integers, stored as raw bytes or as packed numbers.
    fn shape_weight(name: &str, numbers: &[i64], is_raw: bool) -> Vec<u8> {
        let head = [
            protobuf::number_field(1, numbers.len() as u64),
            vec![0x10, 7],
        ]
        .concat();
        let values = match is_raw {
            true => field(
                9,
                &numbers
                    .iter()
                    .flat_map(|n| n.to_le_bytes())
                    .collect::<Vec<_>>(),
            ),
            false => field(7, &numbers.iter().map(|n| *n as u8).collect::<Vec<_>>()),
        };
        [head, field(8, name.as_bytes()), values].concat()
    }

    fn node(operator: &str, inputs: &[&str], output: &str, rest: &[u8]) -> Vec<u8> {
        let inputs: Vec<u8> = inputs
            .iter()
            .flat_map(|name| field(1, name.as_bytes()))
            .collect();
        let names = [field(2, output.as_bytes()), field(4, operator.as_bytes())].concat();
        [inputs, names, rest.to_vec()].concat()
    }

    fn network(axis: &[u8]) -> Vec<u8> {
        let constant = field(
            5,
            &[
                field(1, b"value"),
                field(5, &shape_weight("", &[1, 6], true)),
            ]
            .concat(),
        );
        let graph = [
            field(1, &node("Constant", &[], "inner", &constant)),
            field(1, &node("Reshape", &["images", "listed"], "a", &[])),
            field(1, &node("Reshape", &["a", "inner"], "b", &[])),
            field(5, &shape_weight("listed", &[1, 2, 3], false)),
            field(5, &shape_weight("other", &[1, 2, 3], true)),
            field(11, &value("images", &[axis.to_vec(), fixed(6)])),
            field(11, &value("listed", &[fixed(3)])),
            field(12, &value("b", &[fixed(1), fixed(6)])),
            field(13, &value("a", &[fixed(1), fixed(2), fixed(3)])),
        ];
        [vec![0x08, 8], field(7, &graph.concat())].concat()
    }

    #[test]
    fn inputs_and_constant_shapes_get_the_number_of_images() {
        for (axis, is_open) in [(fixed(1), false), (field(2, b"batch"), true)] {
            let network = network(&axis);
            assert_eq!(has_open_batch(&network, "images"), Ok(is_open));
            assert_eq!(has_open_batch(&network, "none"), Ok(false));
            let bytes = with_batch(&network, &["images"], 300).expect("it is whole");
            assert_eq!(first_axis_of(&bytes, "images"), Ok(Some(Axis::Fixed(300))));
            assert_eq!(first_axis_of(&bytes, "listed"), Ok(Some(Axis::Fixed(3))));
            let model = onnx_proto::model(&bytes).expect("it is whole");
            let graph = model.graph.expect("a graph");
            assert_eq!(graph.inputs[0].axes.as_ref().map(Vec::len), Some(2));
            assert_eq!(graph.outputs[0].axes, None);
            let numbers = |name: &str| -> Vec<i64> {
                let weight = graph.weights.iter().find(|weight| weight.name == name);
                let raw = weight.and_then(|weight| weight.raw).expect("raw bytes");
                raw.as_chunks::<8>()
                    .0
                    .iter()
                    .map(|b| i64::from_le_bytes(*b))
                    .collect()
            };
            assert_eq!(numbers("inner"), [300, 6]);
            assert_eq!(numbers("listed"), [300, 2, 3]);
            assert_eq!(numbers("other"), [1, 2, 3], "no Reshape takes it");
        }
    }

    #[test]
    fn damaged_networks_are_errors() {
        let network = network(&fixed(1));
        assert!(with_batch(&network[..network.len() - 1], &["images"], 2).is_err());
        assert!(has_open_batch(&network[..network.len() - 1], "images").is_err());
    }
}
