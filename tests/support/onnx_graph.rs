// SPDX-License-Identifier: Apache-2.0
//! Writes tiny ONNX files, operator by operator.
//!
//! The messages themselves are written in `onnx_message.rs`. Each test binary uses a part of it.
#![allow(dead_code)]

use super::onnx_message::{Message, node, tensor};

/// Element types by their numbers in ONNX.
pub const FLOAT: u64 = 1;
/// See [`FLOAT`].
pub const UINT8: u64 = 2;
/// See [`FLOAT`].
pub const INT8: u64 = 3;
/// See [`FLOAT`].
pub const FLOAT16: u64 = 10;
/// See [`FLOAT`].
pub const INT32: u64 = 6;
/// See [`FLOAT`].
pub const INT64: u64 = 7;

/// A graph under construction.
#[derive(Default)]
pub struct Graph(Message);

/// An attribute of an operator.
pub enum Attribute<'a> {
    /// Whole numbers, none negative.
    Ints(&'a str, &'a [u64]),
    /// One whole number, not negative.
    Int(&'a str, u64),
    /// A text.
    Text(&'a str, &'a str),
}

impl Graph {
    /// Adds an operator with one output.
    pub fn node(
        &mut self,
        operator: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[Attribute<'_>],
    ) {
        self.nodes(operator, inputs, &[output], attributes);
    }

    /// Adds an operator with several outputs. `DOMAIN::NAME` is one that is not ONNX's own.
    pub fn nodes(
        &mut self,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[Attribute<'_>],
    ) {
        let attributes: Vec<Message> = attributes.iter().map(Attribute::message).collect();
        let (domain, operator) = operator.split_once("::").unwrap_or(("", operator));
        let mut node = node(operator, inputs, outputs[0], &attributes);
        outputs[1..].iter().for_each(|output| node.text(2, output));
        node.text(7, domain);
        self.0.message(1, node);
    }

    /// Adds `mean`: the mean of `input` over these axes, which it does not have.
    pub fn mean(&mut self, input: &str, axes: &[u64]) {
        let attributes = [Attribute::Ints("axes", axes), Attribute::Int("keepdims", 0)];
        self.node("ReduceMean", &[input], "mean", &attributes);
    }

    /// Adds numbers that are always the same; `to_bytes` writes one of them, lowest byte first.
    pub fn constant<T: Copy, const N: usize>(
        &mut self,
        name: &str,
        element: u64,
        shape: &[i64],
        numbers: &[T],
        to_bytes: impl Fn(T) -> [u8; N],
    ) {
        let raw = numbers
            .iter()
            .flat_map(|number| to_bytes(*number))
            .collect();
        self.0.message(5, tensor(name, element, shape, raw));
    }

    /// Adds a weight that was built elsewhere.
    pub fn weight(&mut self, tensor: Message) {
        self.0.message(5, tensor);
    }

    /// Adds an input; an axis of `None` is left open.
    pub fn input(&mut self, name: &str, element: u64, shape: &[Option<i64>]) {
        self.input_of(name, element, &axes_of(shape));
    }

    /// Adds an input whose axes are words; those that are not numbers are left open, under this name.
    pub fn input_of(&mut self, name: &str, element: u64, axes: &str) {
        self.0.message(11, value_info(name, element, axes));
    }

    /// Adds an output, as [`input`](Self::input).
    pub fn output(&mut self, name: &str, element: u64, shape: &[Option<i64>]) {
        self.output_of(name, element, &axes_of(shape));
    }

    /// Adds an output, as [`input_of`](Self::input_of).
    pub fn output_of(&mut self, name: &str, element: u64, axes: &str) {
        self.0.message(12, value_info(name, element, axes));
    }

    /// The bytes of a file with this graph.
    pub fn bytes(self) -> Vec<u8> {
        self.bytes_by(13, "", &[])
    }

    /// The same with this operator set, the program that wrote it and what it noted.
    pub fn bytes_by(
        mut self,
        operators: u64,
        producer: &str,
        metadata: &[(&str, String)],
    ) -> Vec<u8> {
        self.0.text(2, "tiny");
        let mut model = Message::default();
        for (domain, version) in [("", operators), ("com.microsoft", 1)] {
            let mut opset = Message::default();
            opset.text(1, domain);
            opset.number(2, version);
            model.message(8, opset);
        }
        model.number(1, 7);
        model.text(2, producer);
        model.message(7, self.0);
        for (key, value) in metadata {
            let mut entry = Message::default();
            entry.text(1, key);
            entry.text(2, value);
            model.message(14, entry);
        }
        model.0
    }
}

impl Attribute<'_> {
    fn message(&self) -> Message {
        let mut attribute = Message::default();
        match self {
            Self::Ints(name, values) => {
                attribute.text(1, name);
                values.iter().for_each(|value| attribute.number(8, *value));
                attribute.number(20, 7);
            }
            Self::Int(name, value) => {
                attribute.text(1, name);
                attribute.number(3, *value);
                attribute.number(20, 2);
            }
            Self::Text(name, value) => {
                attribute.text(1, name);
                attribute.text(4, value);
                attribute.number(20, 3);
            }
        }
        attribute
    }
}

fn axes_of(shape: &[Option<i64>]) -> String {
    let axis = |axis: &Option<i64>| axis.map_or("batch".to_owned(), |axis| axis.to_string());
    shape.iter().map(axis).collect::<Vec<_>>().join(" ")
}

fn value_info(name: &str, element: u64, shape: &str) -> Message {
    let mut axes = Message::default();
    for axis in shape.split_whitespace() {
        let mut dimension = Message::default();
        match axis.parse() {
            Ok(len) => dimension.number(1, len),
            // A length in quotes is the name of an open axis.
            Err(_) => dimension.text(2, axis.trim_matches('\'')),
        }
        axes.message(1, dimension);
    }
    let mut tensor_type = Message::default();
    tensor_type.number(1, element);
    tensor_type.message(2, axes);
    let mut kind = Message::default();
    kind.message(1, tensor_type);
    let mut info = Message::default();
    info.text(1, name);
    info.message(2, kind);
    info
}
