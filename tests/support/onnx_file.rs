//! Writes tiny ONNX files: a network that gives fixed rows, shifted by the mean of its input.
//!
//! ```text
//!   images [B, 3, H, W] ── ReduceMean ── Reshape [B, 1, 1] ── Mul mask ── Add rows ── output [B, cells, row_len]
//! ```
//!
//! Only what these need of ONNX's protobuf messages is written, by field number, as ONNX's `onnx.proto` defines them.

/// A network to write.
#[derive(Clone)]
pub struct TinyNetwork {
    /// Name of the input.
    pub input: &'static str,
    /// Its shape; an axis of `None` is left open.
    pub input_shape: [Option<i64>; 4],
    /// Name of the output.
    pub output: &'static str,
    /// Rows and row length of the output.
    pub output_shape: [i64; 2],
    /// The output where the input's mean is 0.
    pub rows: Vec<f32>,
    /// What is added to the output for each unit of the input's mean.
    pub mask: Vec<f32>,
    /// An input that nothing uses.
    pub second_input: bool,
}

const FLOAT: u64 = 1;
const INT64: u64 = 7;

impl TinyNetwork {
    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let [rows, row_len] = self.output_shape;
        let mean_attributes = [
            ints_attribute("axes", &[1, 2, 3]),
            int_attribute("keepdims", 0),
        ];
        let mut graph = Message::default();
        graph.message(
            1,
            node("ReduceMean", &[self.input], "mean", &mean_attributes),
        );
        graph.message(1, node("Reshape", &["mean", "column"], "mean3", &[]));
        graph.message(1, node("Mul", &["mean3", "mask"], "shift", &[]));
        graph.message(1, node("Add", &["rows", "shift"], self.output, &[]));
        graph.text(2, "tiny");
        let floats = |numbers: &[f32]| {
            numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect()
        };
        let column = [-1_i64, 1, 1]
            .iter()
            .flat_map(|axis| axis.to_le_bytes())
            .collect();
        graph.message(
            5,
            tensor("rows", FLOAT, &[1, rows, row_len], floats(&self.rows)),
        );
        graph.message(
            5,
            tensor("mask", FLOAT, &[1, rows, row_len], floats(&self.mask)),
        );
        graph.message(5, tensor("column", INT64, &[3], column));
        graph.message(11, value_info(self.input, &self.input_shape));
        if self.second_input {
            graph.message(11, value_info("unused", &[Some(1)]));
        }
        graph.message(
            12,
            value_info(
                self.output,
                &[self.input_shape[0], Some(rows), Some(row_len)],
            ),
        );

        let mut opset = Message::default();
        opset.text(1, "");
        opset.number(2, 13);
        let mut model = Message::default();
        model.number(1, 7);
        model.message(7, graph);
        model.message(8, opset);
        model.0
    }
}

fn node(operator: &str, inputs: &[&str], output: &str, attributes: &[Message]) -> Message {
    let mut node = Message::default();
    inputs.iter().for_each(|input| node.text(1, input));
    node.text(2, output);
    node.text(4, operator);
    attributes
        .iter()
        .for_each(|attribute| node.bytes(5, &attribute.0));
    node
}

fn ints_attribute(name: &str, values: &[u64]) -> Message {
    let mut attribute = Message::default();
    attribute.text(1, name);
    values.iter().for_each(|value| attribute.number(8, *value));
    attribute.number(20, 7);
    attribute
}

fn int_attribute(name: &str, value: u64) -> Message {
    let mut attribute = Message::default();
    attribute.text(1, name);
    attribute.number(3, value);
    attribute.number(20, 2);
    attribute
}

fn tensor(name: &str, element: u64, shape: &[i64], raw: Vec<u8>) -> Message {
    let mut tensor = Message::default();
    shape
        .iter()
        .for_each(|axis| tensor.number(1, axis.unsigned_abs()));
    tensor.number(2, element);
    tensor.text(8, name);
    tensor.bytes(9, &raw);
    tensor
}

fn value_info(name: &str, shape: &[Option<i64>]) -> Message {
    let mut axes = Message::default();
    for axis in shape {
        let mut dimension = Message::default();
        match axis {
            Some(axis) => dimension.number(1, axis.unsigned_abs()),
            None => dimension.text(2, "batch"),
        }
        axes.message(1, dimension);
    }
    let mut tensor_type = Message::default();
    tensor_type.number(1, FLOAT);
    tensor_type.message(2, axes);
    let mut kind = Message::default();
    kind.message(1, tensor_type);
    let mut info = Message::default();
    info.text(1, name);
    info.message(2, kind);
    info
}

/// A protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, field: u64, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    fn message(&mut self, field: u64, value: Message) {
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
