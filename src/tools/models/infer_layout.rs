// SPDX-License-Identifier: Apache-2.0
//! Infers the output layout of a network from its shapes, names and metadata. Pure.
//!
//! An ONNX file does not define the meaning of its outputs, so every answer is a guess with a reason. The rules go from the
//! specific to the general; the first match is the guess, [`candidate_layouts`] returns all.

use serde::Serialize;

use jetwatch_detect::graph::{Axis, Element, Network, Tensor};
use jetwatch_types::Size;

use crate::class_names;
use crate::families::{self, FAMILIES, Family};

mod classifiers;
mod maps;
mod rules;

/// A layout that fits a network, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferredLayout {
    /// Value of `output.layout`.
    pub layout: &'static str,
    /// Evidence for it.
    pub reason: String,
    /// Number of classes.
    pub classes: usize,
    /// The outputs that hold the boxes.
    pub tensors: Vec<TensorRole>,
    /// Other keys of `output`, with their values as YAML.
    pub parameters: Vec<(&'static str, String)>,
    /// Name of a further input that takes the size of the images.
    pub sizes_name: Option<String>,
    /// Name of a further input that takes their scale.
    pub scales_name: Option<String>,
}

/// Outputs of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TensorRole {
    /// `name` for a single output, or the key below `output.tensors`.
    pub key: &'static str,
    /// Names of the outputs.
    pub names: Vec<String>,
    /// Whether each grid has one.
    pub is_list: bool,
}

/// The most likely layout.
#[must_use]
pub fn infer_layout(network: &Network, size: Option<Size>) -> Option<InferredLayout> {
    candidate_layouts(network, size).into_iter().next()
}

/// Every layout that fits the network, the most likely first. `size` is the input size of a network with a dynamic one.
#[must_use]
pub fn candidate_layouts(network: &Network, size: Option<Size>) -> Vec<InferredLayout> {
    let Some(view) = OutputsView::new(network, size) else {
        return Vec::new();
    };
    let mut found: Vec<InferredLayout> = Vec::new();
    for guess in rules::all(&view) {
        if found.iter().all(|other| other.layout != guess.layout) {
            found.push(InferredLayout {
                sizes_name: view.extra_input(Element::INT64),
                scales_name: view.extra_input(Element::FLOAT),
                ..guess
            });
        }
    }
    found
}

impl InferredLayout {
    /// The family that the layout belongs to.
    #[must_use]
    pub fn family(&self) -> &'static Family {
        // Rules name only families of the table; a test checks it.
        families::find(self.layout).unwrap_or(&FAMILIES[0])
    }
}

/// The input that takes images: float or byte tensors of four axes.
#[must_use]
pub(crate) fn image_input(network: &Network) -> Option<&Tensor> {
    let has_four = |tensor: &&Tensor| tensor.axes.as_ref().is_some_and(|axes| axes.len() == 4);
    network.inputs.iter().find(has_four)
}

/// Width and height of the input, as far as the file contains them: in its shape, or in the exporter's metadata.
#[must_use]
pub(crate) fn input_size(network: &Network) -> Option<Size> {
    let axes = image_input(network)?.axes.as_ref()?;
    let side = |axis: &Axis| match axis {
        Axis::Fixed(len) => u32::try_from(*len).ok(),
        Axis::Open(_) => None,
    };
    if let (Some(height), Some(width)) = (side(&axes[2]), side(&axes[3])) {
        return Some(Size::new(width, height));
    }
    let noted = network.metadata_value("imgsz")?;
    let sides: Vec<u32> = noted
        .trim_matches(['[', ']', '(', ')'])
        .split(',')
        .map_while(|side| side.trim().parse().ok())
        .collect();
    match sides.as_slice() {
        [side] => Some(Size::new(*side, *side)),
        [height, width] => Some(Size::new(*width, *height)),
        _ => None,
    }
}

/// Class names in the exporter's metadata.
#[must_use]
pub(crate) fn names_from_metadata(network: &Network) -> Option<Vec<String>> {
    ["names", "classes", "labels"]
        .into_iter()
        .find_map(|key| class_names::parse(network.metadata_value(key)?))
}

/// Input of the rules.
struct OutputsView<'a> {
    network: &'a Network,
    outputs: Vec<Output<'a>>,
    size: Size,
    names: Option<Vec<String>>,
}

/// An output without its batch axis.
struct Output<'a> {
    name: &'a str,
    element: Element,
    /// `None` for dynamic ones.
    axes: Vec<Option<u64>>,
    /// The operator that computes it.
    made_by: Option<&'a str>,
}

impl<'a> OutputsView<'a> {
    fn new(network: &'a Network, size: Option<Size>) -> Option<Self> {
        let outputs: Option<Vec<Output<'a>>> = network.outputs.iter().map(Output::new).collect();
        Some(Self {
            network,
            outputs: outputs?,
            size: size.or_else(|| input_size(network))?,
            names: names_from_metadata(network),
        })
    }

    /// Width and height of the grid of `stride`.
    fn grid(&self, stride: u32) -> (u64, u64) {
        let side = |pixels: u32| u64::from(pixels.div_ceil(stride));
        (side(self.size.width), side(self.size.height))
    }

    /// Cells of the grids of `strides`.
    fn cells(&self, strides: &[u32]) -> u64 {
        let cells = |stride: &u32| {
            let (width, height) = self.grid(*stride);
            width * height
        };
        strides.iter().map(cells).sum()
    }

    /// A second input with two numbers per image: sizes are integers, scales are not.
    fn extra_input(&self, element: Element) -> Option<String> {
        let is_pair = |axes: &Vec<Axis>| matches!(axes.as_slice(), [_, Axis::Fixed(2)]);
        let inputs = &self.network.inputs;
        let found = inputs.iter().find(|input| {
            input.element == Some(element) && input.axes.as_ref().is_some_and(is_pair)
        });
        found.map(|input| input.name.clone())
    }

    /// Whether one of `class_names` is an operator of a vendor in the network.
    fn has_operator(&self, names: &[&str]) -> bool {
        let operators = &self.network.operators;
        operators
            .iter()
            .any(|operator| names.contains(&operator.name.as_str()))
    }

    /// A phrase on whether the number of class names is `classes`.
    fn agrees(&self, classes: u64) -> &'static str {
        match &self.names {
            Some(names) if names.len() as u64 == classes => "; the noted class names are as many",
            Some(_) => "; but the noted class names are not as many",
            None => "",
        }
    }
}

impl<'a> Output<'a> {
    fn new(tensor: &'a Tensor) -> Option<Self> {
        let axes = tensor.axes.as_ref()?;
        Some(Self {
            name: &tensor.name,
            element: tensor.element?,
            axes: axes
                .iter()
                .skip(1)
                .map(|axis| match axis {
                    Axis::Fixed(len) => Some(*len),
                    Axis::Open(_) => None,
                })
                .collect(),
            made_by: tensor.made_by.as_deref(),
        })
    }

    fn is_float(&self) -> bool {
        matches!(self.element, Element::FLOAT | Element::FLOAT16)
    }

    /// The shape as text, for a reason.
    fn shape(&self) -> String {
        let axes: Vec<String> = self
            .axes
            .iter()
            .map(|axis| axis.map_or_else(|| "?".to_owned(), |len| len.to_string()))
            .collect();
        format!("[{}]", axes.join(", "))
    }
}
