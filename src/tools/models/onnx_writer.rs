//! Writes a converted network as an ONNX file, by the field numbers of `onnx.proto`. Pure; the same network gives the same bytes.
//!
//! The converter of [`darknet`](crate::darknet) calls it.

use jetwatch_types::Size;

/// A network to write.
pub(crate) struct Network<'a> {
    /// The program that the network comes from; the inference of layouts tells PicoDet from NanoDet by it.
    pub(crate) producer: &'a str,
    /// Names and texts for the metadata of the file, such as its origin and licence.
    pub(crate) metadata: &'a [(String, String)],
    /// Name of the input `[batch, 3, height, width]`.
    pub(crate) input: &'a str,
    /// Width and height of the input.
    pub(crate) size: Size,
    /// In an order in which each input exists before it is read.
    pub(crate) nodes: &'a [Node],
    /// The constant tensors.
    pub(crate) initializers: &'a [Initializer],
    /// The outputs.
    pub(crate) outputs: &'a [Output],
}

/// One ONNX operator with one output.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) operator: &'static str,
    /// Empty for an optional input that is not given.
    pub(crate) inputs: Vec<String>,
    pub(crate) output: String,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
}

/// Value of an attribute.
#[derive(Debug)]
pub(crate) enum Attribute {
    Float(f32),
    Whole(i64),
    Wholes(Vec<i64>),
    Text(&'static str),
}

/// A constant tensor.
#[derive(Debug)]
pub(crate) struct Initializer {
    pub(crate) name: String,
    pub(crate) axes: Vec<usize>,
    pub(crate) values: Values,
}

/// Values of a constant tensor.
#[derive(Debug)]
pub(crate) enum Values {
    Floats(Vec<f32>),
    Wholes(Vec<i64>),
}

/// An output `[batch, axes…]`.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) axes: Vec<usize>,
}

/// Version of the file format that came with operator set 13.
const IR_VERSION: u64 = 7;

/// The operator set: the newest that TensorRT 8.5 reads completely.
const OPSET: u64 = 13;

/// Name of the first axis of inputs and outputs.
const BATCH: &str = "batch";

/// `TensorProto.DataType`.
const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// A protobuf message that grows.
#[derive(Default)]
struct Encoder(Vec<u8>);

impl Encoder {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }
}

/// The bytes of the ONNX file.
pub(crate) fn write(network: &Network<'_>) -> Vec<u8> {
    let mut model = Encoder::default();
    model.number(1, IR_VERSION);
    model.text(2, network.producer);
    model.text(3, "converted by jetwatch");
    model.message(7, |graph| write_graph(graph, network));
    model.message(8, |opset| {
        opset.text(1, "");
        opset.number(2, OPSET);
    });
    for (key, value) in network.metadata {
        model.message(14, |entry| {
            entry.text(1, key);
            entry.text(2, value);
        });
    }
    model.0
}

fn write_graph(graph: &mut Encoder, network: &Network<'_>) {
    for node in network.nodes {
        graph.message(1, |message| write_node(message, node));
    }
    graph.text(2, "network");
    for initializer in network.initializers {
        graph.message(5, |tensor| write_initializer(tensor, initializer));
    }
    let size = network.size;
    let input = [3, u64::from(size.height), u64::from(size.width)];
    graph.message(11, |info| write_value(info, network.input, &input));
    for output in network.outputs {
        let axes: Vec<u64> = output.axes.iter().map(|axis| *axis as u64).collect();
        graph.message(12, |info| write_value(info, &output.name, &axes));
    }
}

fn write_node(message: &mut Encoder, node: &Node) {
    for input in &node.inputs {
        message.text(1, input);
    }
    message.text(2, &node.output);
    // The name of its output is unique, and names the layer in messages of the runtimes.
    message.text(3, &node.output);
    message.text(4, node.operator);
    for (name, attribute) in &node.attributes {
        message.message(5, |message| {
            message.text(1, name);
            match attribute {
                Attribute::Float(value) => {
                    message.float(2, *value);
                    message.number(20, 1);
                }
                Attribute::Whole(value) => {
                    message.number(3, value.cast_unsigned());
                    message.number(20, 2);
                }
                Attribute::Text(value) => {
                    message.text(4, value);
                    message.number(20, 3);
                }
                Attribute::Wholes(values) => {
                    for value in values {
                        message.number(8, value.cast_unsigned());
                    }
                    message.number(20, 7);
                }
            }
        });
    }
}

fn write_initializer(tensor: &mut Encoder, initializer: &Initializer) {
    for axis in &initializer.axes {
        tensor.number(1, *axis as u64);
    }
    let (element, raw): (u64, Vec<u8>) = match &initializer.values {
        Values::Floats(values) => (
            FLOAT,
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        ),
        Values::Wholes(values) => (
            INT64,
            values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect(),
        ),
    };
    tensor.number(2, element);
    tensor.text(8, &initializer.name);
    tensor.bytes(9, &raw);
}

/// An input or output `[batch, axes…]` of floats.
fn write_value(info: &mut Encoder, name: &str, axes: &[u64]) {
    info.text(1, name);
    info.message(2, |kind| {
        kind.message(1, |tensor| {
            tensor.number(1, FLOAT);
            tensor.message(2, |shape| {
                shape.message(1, |axis| axis.text(2, BATCH));
                for length in axes {
                    shape.message(1, |axis| axis.number(1, *length));
                }
            });
        });
    });
}
