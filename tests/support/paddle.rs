//! A small network in PaddlePaddle's format, and a wheel with it: by the field numbers of Paddle's `framework.proto`.

use super::onnx_message::Message;

/// Value of an attribute.
pub enum Value<'a> {
    Whole(u64),
    Float(f32),
    Text(&'a str),
    Wholes(&'a [u64]),
    Floats(&'a [f32]),
    Flag(bool),
}

/// A network that grows, operator by operator.
#[derive(Default)]
pub struct PaddleNetwork {
    operators: Vec<Message>,
    /// Name, axes and values.
    weights: Vec<(String, Vec<u64>, Vec<f32>)>,
}

impl PaddleNetwork {
    /// Adds an operator: parameters and variables that it reads, the one that it writes, and its attributes.
    pub fn operator(
        &mut self,
        kind: &str,
        inputs: &[(&str, &[&str])],
        output: (&str, &str),
        attributes: &[(&str, Value<'_>)],
    ) {
        let mut operator = Message::default();
        for (parameter, variables) in inputs {
            operator.message(1, named(parameter, variables));
        }
        operator.message(2, named(output.0, &[output.1]));
        operator.text(3, kind);
        for (name, value) in attributes {
            let mut attribute = Message::default();
            attribute.text(1, name);
            match value {
                Value::Whole(value) => attribute.number(3, *value),
                Value::Float(value) => float(&mut attribute, 4, *value),
                Value::Text(value) => attribute.text(5, value),
                Value::Wholes(values) => {
                    values.iter().for_each(|value| attribute.number(6, *value))
                }
                Value::Floats(values) => {
                    values
                        .iter()
                        .for_each(|value| float(&mut attribute, 7, *value));
                }
                Value::Flag(value) => attribute.number(10, u64::from(*value)),
            }
            operator.message(4, attribute);
        }
        self.operators.push(operator);
    }

    /// Adds a weight.
    pub fn weight(&mut self, name: &str, axes: &[u64], values: &[f32]) {
        assert_eq!(axes.iter().product::<u64>(), values.len() as u64, "{name}");
        self.weights
            .push((name.to_owned(), axes.to_vec(), values.to_vec()));
    }

    /// The bytes of `model.pdmodel`.
    pub fn program(&self) -> Vec<u8> {
        let mut block = Message::default();
        for (name, ..) in &self.weights {
            let mut kind = Message::default();
            kind.number(1, 7);
            let mut variable = Message::default();
            variable.text(1, name);
            variable.message(2, kind);
            variable.number(3, 1);
            block.message(3, variable);
        }
        for operator in &self.operators {
            block.message(4, operator.clone());
        }
        let mut program = Message::default();
        program.message(1, block);
        program.0
    }

    /// The bytes of `model.pdiparams`: the weights in the order of their sorted names.
    pub fn parameters(&self) -> Vec<u8> {
        let mut weights: Vec<_> = self.weights.iter().collect();
        weights.sort_by_key(|(name, ..)| name.clone());
        let mut bytes = Vec::new();
        for (_, axes, values) in weights {
            let mut description = Message::default();
            description.number(1, 5);
            axes.iter().for_each(|axis| description.number(2, *axis));
            bytes.extend([0; 16]);
            bytes.extend((description.0.len() as u32).to_le_bytes());
            bytes.extend(&description.0);
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes
    }
}

fn named(parameter: &str, variables: &[&str]) -> Message {
    let mut message = Message::default();
    message.text(1, parameter);
    variables
        .iter()
        .for_each(|variable| message.text(2, variable));
    message
}

fn float(message: &mut Message, field: u8, value: f32) {
    message.0.push(field << 3 | 5);
    message.0.extend(value.to_le_bytes());
}

/// A wheel with these files: stored in blocks of deflate, as far as 65,535 bytes each.
pub fn wheel(files: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let mut packed = Vec::new();
        let blocks: Vec<&[u8]> = bytes.chunks(0xffff).collect();
        for (index, block) in blocks.iter().enumerate() {
            let len = block.len() as u16;
            packed.push(u8::from(index + 1 == blocks.len()));
            packed.extend(len.to_le_bytes());
            packed.extend((!len).to_le_bytes());
            packed.extend(*block);
        }
        let offset = archive.len() as u32;
        let lengths = [
            &(packed.len() as u32).to_le_bytes()[..],
            &(bytes.len() as u32).to_le_bytes(),
            &(name.len() as u16).to_le_bytes(),
        ]
        .concat();
        // Version, flags, method 8 (deflate), time, date, checksum (unused), lengths, and an extra field of four bytes.
        archive.extend(b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0");
        archive.extend(&lengths);
        archive.extend([4, 0]);
        archive.extend(name.as_bytes());
        archive.extend([0; 4]);
        archive.extend(packed);
        directory.extend(b"PK\x01\x02\x14\0\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0");
        directory.extend(&lengths);
        directory.extend([0; 12]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let start = archive.len() as u32;
    let count = (files.len() as u16).to_le_bytes();
    archive.extend(&directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(count);
    archive.extend(count);
    archive.extend((directory.len() as u32).to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0, 0]);
    archive
}
