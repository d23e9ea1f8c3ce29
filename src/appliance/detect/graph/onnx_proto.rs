// SPDX-License-Identifier: Apache-2.0
//! ONNX's messages, as far as they are looked at, by the field numbers of `onnx.proto`. Pure.
//!
//! Everything borrows from the file's bytes. Lists have a fixed greatest length, so that a file of empty messages is an
//! error instead of a heap a hundred times its size. [`summary`](super::summary) sums up what is read here.

use super::protobuf::{Malformed, Message};

/// Most nodes, weights or other parts of one kind. The largest detectors have some thousands.
const MAX_ELEMENTS: usize = 200_000;
/// Most axes of a tensor.
const MAX_AXES: usize = 64;
/// Deepest nesting of graphs in the bodies of loops and branches.
const MAX_DEPTH: usize = 16;

/// The outermost message.
#[derive(Debug, Default)]
pub(super) struct Model<'a> {
    pub(super) ir_version: i64,
    pub(super) producer: &'a str,
    pub(super) producer_version: &'a str,
    /// Domain and version of each operator set.
    pub(super) opsets: Vec<(&'a str, i64)>,
    pub(super) metadata: Vec<(&'a str, &'a str)>,
    /// Domain and name of functions that the file defines itself.
    pub(super) functions: Vec<(&'a str, &'a str)>,
    pub(super) graph: Option<Graph<'a>>,
}

/// A network or the body of a loop or branch.
#[derive(Debug, Default)]
pub(super) struct Graph<'a> {
    pub(super) name: &'a str,
    /// Those of bodies follow those of the graph.
    pub(super) nodes: Vec<Node<'a>>,
    pub(super) weights: Vec<Weight<'a>>,
    pub(super) inputs: Vec<ValueInfo<'a>>,
    pub(super) outputs: Vec<ValueInfo<'a>>,
}

/// One operator at work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) name: &'a str,
    pub(super) operator: &'a str,
    pub(super) domain: &'a str,
    /// The operator behind it that ONNX Runtime's optimizer fused with it; empty without.
    pub(super) activation: &'a str,
    message: Message<'a>,
}

/// A tensor that the file holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Weight<'a> {
    pub(super) name: &'a str,
    /// Number of the element type.
    pub(super) element: i64,
    pub(super) axes: Vec<i64>,
    /// Bytes of the values; `None` when they are not stored as such.
    pub(super) raw: Option<&'a [u8]>,
    /// Bytes of 32-bit floats that are stored as such.
    pub(super) floats: Option<&'a [u8]>,
    /// Whether one of the values that are stored as numbers is not 0.
    pub(super) has_nonzero: bool,
    /// Where the values lie, if not in this file.
    pub(super) external: Option<ExternalDataRef<'a>>,
}

/// Bytes in a file next to the network's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExternalDataRef<'a> {
    /// The file's path as the network gives it.
    pub(super) location: &'a str,
    /// Where they begin.
    pub(super) offset: u64,
    /// How many there are; `None` for as many as type and shape need.
    pub(super) len: Option<u64>,
}

/// An input or output of the graph.
#[derive(Debug, Clone)]
pub(super) struct ValueInfo<'a> {
    pub(super) name: &'a str,
    /// Number of the element type; `None` for what is no tensor.
    pub(super) element: Option<i64>,
    /// `None` when the file does not state it.
    pub(super) axes: Option<Vec<Axis<'a>>>,
}

/// One axis of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis<'a> {
    /// So many.
    Fixed(i64),
    /// Left open; the name may be empty.
    Open(&'a str),
}

impl Weight<'_> {
    /// The values of floats of 16, 32 or 64 bits, where there is one or one for each plane of an image.
    pub(super) fn few_values(&self) -> Option<Vec<f64>> {
        let bytes = self.raw.or(self.floats)?;
        let width = match self.element {
            1 => 4,
            10 => 2,
            11 => 8,
            _ => return None,
        };
        let value = |bytes: &[u8]| match *bytes {
            [a, b] => Some(half(u16::from_le_bytes([a, b]))),
            [a, b, c, d] => Some(f32::from_le_bytes([a, b, c, d]).into()),
            _ => bytes.try_into().ok().map(f64::from_le_bytes),
        };
        let few = matches!(bytes.len() / width, 1 | 3).then(|| bytes.chunks(width))?;
        few.map(value).collect()
    }
}

/// The value of a float of 16 bits: sign, 5 bits of exponent, 10 of mantissa.
fn half(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 => f64::NAN,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

impl<'a> Node<'a> {
    /// The tensor that it takes in place `index`; empty when it takes none.
    pub(super) fn input(self, index: usize) -> &'a str {
        self.texts(1).nth(index).unwrap_or("")
    }

    /// The tensors that it takes.
    pub(super) fn inputs(self) -> impl Iterator<Item = &'a str> {
        self.texts(1)
    }

    /// The tensor that it gives first; empty when it gives none.
    pub(super) fn output(self) -> &'a str {
        self.texts(2).next().unwrap_or("")
    }

    /// What damage there is was found when the node was read.
    fn texts(self, number: u64) -> impl Iterator<Item = &'a str> {
        self.message
            .fields()
            .filter_map(Result::ok)
            .filter(move |field| field.number == number)
            .filter_map(|field| field.text().ok())
    }
}

/// Reads the outermost message.
pub(super) fn model(bytes: &[u8]) -> Result<Model<'_>, Malformed> {
    let mut model = Model::default();
    for field in Message::new(bytes).fields() {
        let field = field?;
        match field.number {
            1 => model.ir_version = field.number()?,
            2 => model.producer = field.text()?,
            3 => model.producer_version = field.text()?,
            7 => {
                let mut graph = Graph::default();
                read_graph(field.message()?, 0, &mut graph)?;
                model.graph = Some(graph);
            }
            8 => push(&mut model.opsets, opset(field.message()?)?, field.at)?,
            14 => push(
                &mut model.metadata,
                pair(field.message()?, [1, 2])?,
                field.at,
            )?,
            25 => push(
                &mut model.functions,
                pair(field.message()?, [10, 1])?,
                field.at,
            )?,
            _ => {}
        }
    }
    Ok(model)
}

/// Adds what `message` holds to `graph`. Bodies give their nodes and weights; their ports are theirs alone.
fn read_graph<'a>(
    message: Message<'a>,
    level: usize,
    graph: &mut Graph<'a>,
) -> Result<(), Malformed> {
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => {
                if level > MAX_DEPTH {
                    return Err(field.malformed("graphs nested too deep"));
                }
                read_node(field.message()?, field.at, level, graph)?;
            }
            2 if level == 0 => graph.name = field.text()?,
            5 => push(&mut graph.weights, weight(field.message()?)?, field.at)?,
            11 if level == 0 => push(&mut graph.inputs, value_info(field.message()?)?, field.at)?,
            12 if level == 0 => push(&mut graph.outputs, value_info(field.message()?)?, field.at)?,
            _ => {}
        }
    }
    Ok(())
}

fn read_node<'a>(
    message: Message<'a>,
    at: usize,
    level: usize,
    graph: &mut Graph<'a>,
) -> Result<(), Malformed> {
    let mut node = Node {
        name: "",
        operator: "",
        domain: "",
        activation: "",
        message,
    };
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 | 2 => drop(field.text()?),
            3 => node.name = field.text()?,
            4 => node.operator = field.text()?,
            5 => node.activation = activation(field.message()?)?.unwrap_or(node.activation),
            7 => node.domain = field.text()?,
            _ => {}
        }
    }
    push(&mut graph.nodes, node, at)?;
    for field in message.fields() {
        let field = field?;
        if field.number == 5 {
            read_attribute(field.message()?, node, level, graph)?;
        }
    }
    Ok(())
}

/// The text of an attribute of this name.
fn activation(message: Message<'_>) -> Result<Option<&str>, Malformed> {
    let [name, value] = [1, 4].map(|number| {
        let mut fields = message.fields().filter_map(Result::ok);
        fields.find(|field| field.number == number)
    });
    match name.map(|name| name.text()).transpose()? {
        Some("activation") => value.map(|value| value.text()).transpose(),
        _ => Ok(None),
    }
}

/// Of attributes, the tensor of a `Constant` is a weight, and graphs are bodies.
fn read_attribute<'a>(
    message: Message<'a>,
    node: Node<'a>,
    level: usize,
    graph: &mut Graph<'a>,
) -> Result<(), Malformed> {
    for field in message.fields() {
        let field = field?;
        match field.number {
            5 if node.operator == "Constant" => {
                let mut constant = weight(field.message()?)?;
                constant.name = node.output();
                push(&mut graph.weights, constant, field.at)?;
            }
            6 | 11 => read_graph(field.message()?, level + 1, graph)?,
            _ => {}
        }
    }
    Ok(())
}

/// Reads a weight.
pub(super) fn weight(message: Message<'_>) -> Result<Weight<'_>, Malformed> {
    let mut weight = Weight::default();
    let mut elsewhere = ExternalDataRef {
        location: "",
        offset: 0,
        len: None,
    };
    let mut is_external = false;
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => field.numbers(|axis| {
                if axis < 0 || weight.axes.len() == MAX_AXES {
                    return Err(field.malformed("a shape that no tensor has"));
                }
                weight.axes.push(axis);
                Ok(())
            })?,
            2 => weight.element = field.number()?,
            4 => weight.floats = field.bytes().ok(),
            // Small whole numbers and 64-bit ones may be stored one by one.
            5 | 7 => field.numbers(|number| {
                weight.has_nonzero |= number != 0;
                Ok(())
            })?,
            8 => weight.name = field.text()?,
            9 => weight.raw = Some(field.bytes()?),
            13 => {
                let (key, value) = pair(field.message()?, [1, 2])?;
                let number = || {
                    let read = value.parse::<u64>();
                    read.map_err(|_| {
                        field.malformed("a place of weights in another file that is no number")
                    })
                };
                match key {
                    "location" => elsewhere.location = value,
                    "offset" => elsewhere.offset = number()?,
                    "length" => elsewhere.len = Some(number()?),
                    _ => {}
                }
            }
            14 => is_external = field.number()? == 1,
            _ => {}
        }
    }
    if is_external {
        weight.external = Some(elsewhere);
    }
    Ok(weight)
}

fn value_info(message: Message<'_>) -> Result<ValueInfo<'_>, Malformed> {
    let mut port = ValueInfo {
        name: "",
        element: None,
        axes: None,
    };
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => port.name = field.text()?,
            2 => {
                for kind in field.message()?.fields() {
                    let kind = kind?;
                    if kind.number == 1 {
                        read_tensor_type(kind.message()?, &mut port)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(port)
}

fn read_tensor_type<'a>(message: Message<'a>, port: &mut ValueInfo<'a>) -> Result<(), Malformed> {
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => port.element = Some(field.number()?),
            2 => {
                let axes = port.axes.insert(Vec::new());
                for dimension in field.message()?.fields() {
                    let dimension = dimension?;
                    if dimension.number == 1 {
                        if axes.len() == MAX_AXES {
                            return Err(dimension.malformed("a shape that no tensor has"));
                        }
                        axes.push(axis(dimension.message()?)?);
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn axis(message: Message<'_>) -> Result<Axis<'_>, Malformed> {
    let mut axis = Axis::Open("");
    for field in message.fields() {
        let field = field?;
        match field.number {
            // Some exporters write -1 or 0 where the axis is left open.
            1 if field.number()? > 0 => axis = Axis::Fixed(field.number()?),
            2 => axis = Axis::Open(field.text()?),
            _ => {}
        }
    }
    Ok(axis)
}

fn opset(message: Message<'_>) -> Result<(&str, i64), Malformed> {
    let (mut domain, mut version) = ("", 0);
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => domain = field.text()?,
            2 => version = field.number()?,
            _ => {}
        }
    }
    Ok((domain, version))
}

/// The texts of the fields with these numbers.
fn pair(message: Message<'_>, numbers: [u64; 2]) -> Result<(&str, &str), Malformed> {
    let mut texts = [""; 2];
    for field in message.fields() {
        let field = field?;
        if let Some(place) = numbers.iter().position(|number| *number == field.number) {
            texts[place] = field.text()?;
        }
    }
    Ok(texts.into())
}

fn push<T>(parts: &mut Vec<T>, part: T, at: usize) -> Result<(), Malformed> {
    if parts.len() == MAX_ELEMENTS {
        let what = "more parts than a network that jetwatch runs has";
        return Err(Malformed { at, what });
    }
    parts.push(part);
    Ok(())
}
