//! Writes tiny ONNX files, operator by operator.
//!
//! Only what the tests need of ONNX's protobuf messages is written, by field number, as ONNX's `onnx.proto` defines them.

/// Element types by their numbers in ONNX.
pub const FLOAT: u64 = 1;
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
        let mut node = Message::default();
        inputs.iter().for_each(|input| node.text(1, input));
        node.text(2, output);
        node.text(4, operator);
        attributes
            .iter()
            .for_each(|attribute| node.message(5, attribute.message()));
        self.0.message(1, node);
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
        let mut tensor = Message::default();
        shape
            .iter()
            .for_each(|axis| tensor.number(1, axis.unsigned_abs()));
        tensor.number(2, element);
        tensor.text(8, name);
        let raw: Vec<u8> = numbers
            .iter()
            .flat_map(|number| to_bytes(*number))
            .collect();
        tensor.bytes(9, &raw);
        self.0.message(5, tensor);
    }

    /// Adds an input; an axis of `None` is left open.
    pub fn input(&mut self, name: &str, element: u64, shape: &[Option<i64>]) {
        self.0.message(11, value_info(name, element, shape));
    }

    /// Adds an output, as [`input`](Self::input).
    pub fn output(&mut self, name: &str, element: u64, shape: &[Option<i64>]) {
        self.0.message(12, value_info(name, element, shape));
    }

    /// The bytes of a file with this graph.
    pub fn bytes(mut self) -> Vec<u8> {
        self.0.text(2, "tiny");
        let mut opset = Message::default();
        opset.text(1, "");
        opset.number(2, 13);
        let mut model = Message::default();
        model.number(1, 7);
        model.message(7, self.0);
        model.message(8, opset);
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
        }
        attribute
    }
}

fn value_info(name: &str, element: u64, shape: &[Option<i64>]) -> Message {
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
    tensor_type.number(1, element);
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
