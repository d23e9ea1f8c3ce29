// SPDX-License-Identifier: Apache-2.0
//! ONNX's protobuf messages, as far as the tests need them: by field number, as ONNX's `onnx.proto` defines them.
#![allow(dead_code)]

/// One operator at work.
pub fn node(operator: &str, inputs: &[&str], output: &str, attributes: &[Message]) -> Message {
    let mut node = Message::default();
    inputs.iter().for_each(|input| node.text(1, input));
    node.text(2, output);
    node.text(4, operator);
    attributes
        .iter()
        .for_each(|attribute| node.bytes(5, &attribute.0));
    node
}

/// A weight with its stored bytes.
pub fn tensor(name: &str, element: u64, shape: &[i64], raw: Vec<u8>) -> Message {
    let mut tensor = Message::default();
    shape
        .iter()
        .for_each(|axis| tensor.number(1, axis.unsigned_abs()));
    tensor.number(2, element);
    tensor.text(8, name);
    tensor.bytes(9, &raw);
    tensor
}

/// A weight whose bytes lie in the file `location`: from `offset` on, `len` of them or as many as the shape needs.
pub fn external_tensor(
    name: &str,
    element: u64,
    shape: &[i64],
    location: &str,
    offset: usize,
    len: Option<usize>,
) -> Message {
    let mut tensor = Message::default();
    shape
        .iter()
        .for_each(|axis| tensor.number(1, axis.unsigned_abs()));
    tensor.number(2, element);
    tensor.text(8, name);
    let mut entry = |key: &str, value: &str| {
        let mut pair = Message::default();
        pair.text(1, key);
        pair.text(2, value);
        tensor.message(13, pair);
    };
    entry("location", location);
    entry("offset", &offset.to_string());
    if let Some(len) = len {
        entry("length", &len.to_string());
    }
    tensor.number(14, 1);
    tensor
}

/// A protobuf message under construction.
#[derive(Default, Clone)]
pub struct Message(pub Vec<u8>);

impl Message {
    /// Adds a whole number.
    pub fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// Adds bytes.
    pub fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// Adds text.
    pub fn text(&mut self, field: u64, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Adds a message within this one.
    pub fn message(&mut self, field: u64, value: Message) {
        self.bytes(field, &value.0);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
