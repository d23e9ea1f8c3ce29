// SPDX-License-Identifier: Apache-2.0
//! A network in numbers: its tensors, operators, weights and the files next to it. Pure.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Serialize;

use super::onnx_proto::{self, Graph, Model, Node, Weight};
use super::producer::Producers;
use super::quantization::{self, Quantization};

/// What an ONNX file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Network {
    /// Length of the file in bytes.
    pub bytes: usize,
    /// Program that wrote it, with its version.
    pub producer: String,
    /// Version of the file format.
    pub ir_version: i64,
    /// Name of the graph.
    pub name: String,
    /// Operator sets that it asks for.
    pub opsets: Vec<Opset>,
    /// Inputs, without weights.
    pub inputs: Vec<Tensor>,
    /// Outputs.
    pub outputs: Vec<Tensor>,
    /// Weights that are listed as inputs too.
    pub listed_weights: usize,
    /// Numbers in all weights.
    pub parameters: u64,
    /// Weights in 16-bit floats.
    pub half_weights: usize,
    /// Names of the weights, which often have those of the layers in training.
    #[serde(skip)]
    pub weight_names: Vec<String>,
    /// Weights whose stored bytes are not those of their shape, by name.
    pub torn_weights: Vec<String>,
    /// Operators, most frequent first.
    pub operators: Vec<Operator>,
    /// ONNX's own operators that ONNX Runtime's optimizer fused with others, and how often.
    #[serde(skip)]
    pub fused: BTreeMap<String, usize>,
    /// How it is quantized.
    pub quantization: Quantization,
    /// Files next to it that hold weights.
    pub external: Vec<ExternalFile>,
    /// What the exporter noted.
    pub metadata: Vec<(String, String)>,
}

/// A version of a set of operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Opset {
    /// `ai.onnx` for ONNX's own.
    pub domain: String,
    /// Its version.
    pub version: i64,
}

/// Distance of numbers above which they are no scores.
const MAX_SCORE_STEP: f64 = 0.1;

/// An input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Type of its elements; `None` for what is no tensor.
    pub element: Option<Element>,
    /// Its axes; `None` when the file does not state them.
    pub axes: Option<Vec<Axis>>,
    /// Of an output: the operator that makes its numbers; those behind it only shape or store them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
    /// Of an output: the convolutions in which it ends, joined along the channels in this order; empty where it ends in something else.
    #[serde(skip)]
    pub convolutions: Vec<Convolution>,
    /// Of an output: the operators that make the first parts that it joins; empty where it joins none.
    #[serde(skip)]
    pub joined: Vec<String>,
    /// Of an output: whether it is quantized in steps between which no scores are left, as those of boxes in pixels.
    #[serde(skip)]
    pub is_coarse: bool,
    /// Of an input: which pixels it takes, where the network itself normalizes them.
    #[serde(skip)]
    pub takes: Option<PixelRange>,
    /// Of an output: whether a run gave boxes by their corners, which the shape does not show; `None` without a run.
    #[serde(skip)]
    pub has_corners: Option<bool>,
    /// Of an output: whether a run gave whole numbers only, and not only zeros.
    #[serde(skip)]
    pub is_whole: bool,
}

/// Which pixels a network takes that normalizes them itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelRange {
    /// 0 to 255.
    Bytes,
    /// 0 to 1.
    Unit,
}

/// A convolution at the end of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convolution {
    /// Name of its weights.
    pub name: String,
    /// Of its output.
    pub channels: u64,
}

/// One axis of a tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Axis {
    /// So many.
    Fixed(u64),
    /// Left open, by its name.
    Open(String),
}

/// Type of the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Element(pub i64);

/// An operator and how often it occurs, in bodies of loops and branches too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operator {
    /// `ai.onnx` for ONNX's own.
    pub domain: String,
    /// Its name.
    pub name: String,
    /// How often it occurs.
    pub count: usize,
    /// Whether the file states itself what it does.
    pub is_defined: bool,
    /// Name of the first node with it.
    pub first_node: String,
}

/// A file that holds weights of the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalFile {
    /// Its path as the network gives it.
    pub location: String,
    /// Weights in it.
    pub weights: usize,
    /// Bytes that it must have.
    pub needed_bytes: u64,
    /// Bytes that it has; `None` when it is not there.
    pub found_bytes: Option<u64>,
}

impl Element {
    /// 32-bit floats.
    pub const FLOAT: Self = Self(1);
    /// Unsigned bytes.
    pub const UINT8: Self = Self(2);
    /// Signed bytes.
    pub const INT8: Self = Self(3);
    /// 32-bit integers.
    pub const INT32: Self = Self(6);
    /// 64-bit integers.
    pub const INT64: Self = Self(7);
    /// 16-bit floats.
    pub const FLOAT16: Self = Self(10);

    /// Name and bits of one element.
    fn name_and_bits(self) -> (&'static str, u64) {
        match self.0 {
            1 => ("float32", 32),
            2 => ("uint8", 8),
            3 => ("int8", 8),
            4 => ("uint16", 16),
            5 => ("int16", 16),
            6 => ("int32", 32),
            7 => ("int64", 64),
            8 => ("string", 0),
            9 => ("bool", 8),
            10 => ("float16", 16),
            11 => ("float64", 64),
            12 => ("uint32", 32),
            13 => ("uint64", 64),
            14 => ("complex64", 64),
            15 => ("complex128", 128),
            16 => ("bfloat16", 16),
            17..=20 => ("float8", 8),
            21 => ("uint4", 4),
            22 => ("int4", 4),
            23 => ("float4", 4),
            _ => ("unknown", 0),
        }
    }
}

impl From<Element> for String {
    fn from(element: Element) -> Self {
        element.to_string()
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name_and_bits().0)
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(len) => write!(f, "{len}"),
            Self::Open(name) if name.is_empty() => f.write_str("?"),
            Self::Open(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Tensor {
    /// Type and shape, as `float32 [1, 3, 416, 416]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.element {
            Some(element) => write!(f, "{element} ")?,
            None => return f.write_str("no tensor"),
        }
        let Some(axes) = &self.axes else {
            return f.write_str("of unknown shape");
        };
        let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", axes.join(", "))
    }
}

impl Network {
    /// What the exporter noted under `key`.
    pub fn metadata_value(&self, key: &str) -> Option<&str> {
        let found = self.metadata.iter().find(|(found, _)| found == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Version of ONNX's own operators.
    pub fn opset(&self) -> Option<i64> {
        let own = self.opsets.iter().find(|opset| opset.domain == ONNX_DOMAIN);
        own.map(|opset| opset.version)
    }

    /// How often ONNX's own operator `name` occurs.
    pub fn count(&self, name: &str) -> usize {
        let is_it = |operator: &&Operator| operator.domain == ONNX_DOMAIN && operator.name == name;
        let own = self.operators.iter().find(is_it);
        own.map_or(0, |found| found.count) + self.fused.get(name).unwrap_or(&0)
    }
}

/// The name of ONNX's own domain, which files mostly leave empty.
pub(super) const ONNX_DOMAIN: &str = "ai.onnx";

fn domain(name: &str) -> String {
    if name.is_empty() { ONNX_DOMAIN } else { name }.to_owned()
}

/// Sums up `graph` of `model`, a file of `bytes` bytes; `length` gives the length of a file next to it, if it is there.
pub(super) fn summarize(
    bytes: usize,
    model: &Model<'_>,
    graph: &Graph<'_>,
    length: impl Fn(&str) -> Option<u64>,
) -> Network {
    let weights: HashSet<&str> = graph.weights.iter().map(|weight| weight.name).collect();
    let is_weight = |port: &&onnx_proto::ValueInfo<'_>| weights.contains(port.name);
    let producer = [model.producer, model.producer_version].map(str::trim);
    let producers = Producers::new(graph);
    Network {
        bytes,
        producer: producer.join(" ").trim().to_owned(),
        ir_version: model.ir_version,
        name: graph.name.to_owned(),
        opsets: model
            .opsets
            .iter()
            .map(|(name, version)| Opset {
                domain: domain(name),
                version: *version,
            })
            .collect(),
        inputs: graph
            .inputs
            .iter()
            .filter(|port| !is_weight(port))
            .map(|port| Tensor {
                takes: producers.takes(graph, port.name),
                ..tensor(port)
            })
            .collect(),
        outputs: graph
            .outputs
            .iter()
            .map(|port| Tensor {
                made_by: producers.operator(port.name).map(str::to_owned),
                is_coarse: producers
                    .step(port.name)
                    .is_some_and(|step| step > MAX_SCORE_STEP),
                convolutions: producers.convolutions(port.name),
                joined: producers.joined(port.name),
                ..tensor(port)
            })
            .collect(),
        listed_weights: graph.inputs.iter().filter(is_weight).count(),
        parameters: graph
            .weights
            .iter()
            .map(element_count)
            .fold(0, u64::saturating_add),
        half_weights: graph
            .weights
            .iter()
            .filter(|weight| Element(weight.element) == Element::FLOAT16)
            .count(),
        weight_names: graph
            .weights
            .iter()
            .map(|weight| weight.name.to_owned())
            .collect(),
        torn_weights: graph
            .weights
            .iter()
            .filter(|weight| is_torn(weight))
            .map(|weight| weight.name.to_owned())
            .collect(),
        operators: operators(model, graph),
        fused: fused(graph),
        quantization: quantization::summarize(graph),
        external: external(graph, length),
        metadata: model
            .metadata
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

fn tensor(port: &onnx_proto::ValueInfo<'_>) -> Tensor {
    let axis = |axis: &onnx_proto::Axis<'_>| match axis {
        onnx_proto::Axis::Fixed(len) => Axis::Fixed(len.unsigned_abs()),
        // The scripts of YOLOv6, YOLOv7 and DAMO-YOLO write lengths as names.
        onnx_proto::Axis::Open(name) => match name.parse() {
            Ok(len) if len > 0 => Axis::Fixed(len),
            _ => Axis::Open((*name).to_owned()),
        },
    };
    Tensor {
        name: port.name.to_owned(),
        element: port.element.map(Element),
        axes: port
            .axes
            .as_ref()
            .map(|axes| axes.iter().map(axis).collect()),
        made_by: None,
        joined: Vec::new(),
        is_coarse: false,
        convolutions: Vec::new(),
        takes: None,
        has_corners: None,
        is_whole: false,
    }
}

fn element_count(weight: &Weight<'_>) -> u64 {
    weight.axes.iter().fold(1, |product: u64, axis| {
        product.saturating_mul(axis.unsigned_abs())
    })
}

/// Bytes that type and shape need; 0 for types whose elements differ in length or are not known.
pub(super) fn stored_len(weight: &Weight<'_>) -> u64 {
    let (_, bits) = Element(weight.element).name_and_bits();
    element_count(weight).saturating_mul(bits).div_ceil(8)
}

/// Whether the bytes that are stored are not those that type and shape need.
fn is_torn(weight: &Weight<'_>) -> bool {
    let (_, bits) = Element(weight.element).name_and_bits();
    let needed = stored_len(weight);
    bits > 0 && weight.raw.is_some_and(|raw| raw.len() as u64 != needed)
}

fn operators(model: &Model<'_>, graph: &Graph<'_>) -> Vec<Operator> {
    let defined: HashSet<(&str, &str)> = model.functions.iter().copied().collect();
    let mut counts: BTreeMap<(&str, &str), (usize, &str)> = BTreeMap::new();
    for node in &graph.nodes {
        let entry = counts.entry((node.domain, node.operator));
        let (count, _) = entry.or_insert((0, node.name));
        *count += 1;
    }
    let mut operators: Vec<Operator> = counts
        .into_iter()
        .map(|((own, name), (count, first_node))| Operator {
            domain: domain(own),
            name: name.to_owned(),
            count,
            is_defined: defined.contains(&(own, name)),
            first_node: first_node.to_owned(),
        })
        .collect();
    // The sort keeps the order of names among equals.
    operators.sort_by_key(|operator| std::cmp::Reverse(operator.count));
    operators
}

fn fused(graph: &Graph<'_>) -> BTreeMap<String, usize> {
    let parts = |node: &Node<'_>| match (node.domain, node.operator) {
        (_, "FusedConv") => ["Conv", node.activation].map(str::to_owned),
        ("com.microsoft.nchwc", operator) => [operator, node.activation].map(str::to_owned),
        (_, "QuickGelu") => ["Sigmoid", "Mul"].map(str::to_owned),
        _ => Default::default(),
    };
    let mut counts = BTreeMap::new();
    for part in graph.nodes.iter().flat_map(parts) {
        *counts.entry(part).or_insert(0) += 1;
    }
    counts
}

fn external(graph: &Graph<'_>, length: impl Fn(&str) -> Option<u64>) -> Vec<ExternalFile> {
    let mut files: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for weight in &graph.weights {
        let Some(elsewhere) = weight.external else {
            continue;
        };
        let len = elsewhere.len.unwrap_or_else(|| stored_len(weight));
        let end = elsewhere.offset.saturating_add(len);
        let (weights, needed) = files.entry(elsewhere.location).or_default();
        *weights += 1;
        *needed = end.max(*needed);
    }
    files
        .into_iter()
        .map(|(location, (weights, needed_bytes))| ExternalFile {
            location: location.to_owned(),
            weights,
            needed_bytes,
            found_bytes: length(location),
        })
        .collect()
}
