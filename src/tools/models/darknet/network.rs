//! The network behind a `.cfg` file: its layers as ONNX operators, with their shapes and weights. Pure.

use jetwatch_types::Size;

use super::config::Section;
use super::weights::WeightReader;
use super::{DarknetError, Grid, INPUT};
use crate::onnx_writer::{Attribute, Initializer, Node, Output, Values};

/// Channels, height and width of a result.
pub(super) type Shape = [usize; 3];

/// Most channels of a result: routes of routes must not overflow.
const MAX_CHANNELS: usize = 1 << 20;

/// Greatest stride of a grid; strides are powers of two.
const MAX_STRIDE: usize = 256;

/// Numbers of an anchor before those of the classes.
const BEFORE_CLASSES: usize = 5;

/// What the ONNX file holds.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) size: Size,
    pub(super) nodes: Vec<Node>,
    pub(super) initializers: Vec<Initializer>,
    pub(super) outputs: Vec<Output>,
    pub(super) grids: Vec<Grid>,
    pub(super) classes: usize,
    pub(super) letter_box: bool,
}

/// The result of a layer.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// Name of the tensor; `None` for `[yolo]`, whose result no other layer may read.
    name: Option<String>,
    pub(super) shape: Shape,
}

/// A network that grows, layer by layer.
pub(super) struct Builder<'a> {
    pub(super) weights: WeightReader<'a>,
    size: Size,
    layers: Vec<Layer>,
    nodes: Vec<Node>,
    initializers: Vec<Initializer>,
    outputs: Vec<Output>,
    grids: Vec<Grid>,
    classes: Option<usize>,
}

impl Network {
    /// Reads the layers in their order, with their weights.
    pub(super) fn build(sections: &[Section<'_>], weights: &[u8]) -> Result<Self, DarknetError> {
        let Some((net, layers)) = sections.split_first() else {
            return Err(DarknetError::at(1, "found no section, expected [net]"));
        };
        if !matches!(net.name, "net" | "network") {
            let reason = format!("found [{}] as the first section, expected [net]", net.name);
            return Err(DarknetError::at(net.line, reason));
        }
        let side = |key| {
            let length = net.length(key, 416)?;
            u32::try_from(length).map_err(|_| net.error(key, "it is too large"))
        };
        let size = Size::new(side("width")?, side("height")?);
        let channels = net.length("channels", 3)?;
        if channels != 3 {
            let reason = format!("found channels={channels}, expected 3: images have three planes");
            return Err(net.error("channels", reason));
        }
        let mut builder = Builder {
            weights: WeightReader::new(weights)?,
            size,
            layers: Vec::with_capacity(layers.len()),
            nodes: Vec::new(),
            initializers: Vec::new(),
            outputs: Vec::new(),
            grids: Vec::new(),
            classes: None,
        };
        for section in layers {
            builder.add(section)?;
        }
        builder.weights.finish()?;
        let Some(classes) = builder.classes else {
            return Err(DarknetError::at(
                net.line,
                "found no [yolo] layer, expected a detector of the kind of YOLOv3 or YOLOv4",
            ));
        };
        Ok(Self {
            size,
            nodes: builder.nodes,
            initializers: builder.initializers,
            outputs: builder.outputs,
            grids: builder.grids,
            classes,
            letter_box: net.whole("letter_box", 0)? != 0,
        })
    }
}

impl Builder<'_> {
    /// The number of the next layer, as the file counts them.
    pub(super) fn index(&self) -> usize {
        self.layers.len()
    }

    /// Name and shape of what the layer before gives, or of the input.
    pub(super) fn previous(&self, section: &Section<'_>) -> Result<(String, Shape), DarknetError> {
        match self.layers.len() {
            0 => {
                let (height, width) = (self.size.height as usize, self.size.width as usize);
                Ok((INPUT.to_owned(), [3, height, width]))
            }
            layers => self.result(section, section.line, layers - 1),
        }
    }

    /// Name and shape of the result of a layer by its number, which `line` asks for.
    fn result(
        &self,
        section: &Section<'_>,
        line: usize,
        index: usize,
    ) -> Result<(String, Shape), DarknetError> {
        let layer = &self.layers[index];
        let name = layer.name.clone().ok_or_else(|| {
            let reason = format!(
                "[{}] reads the result of the [yolo] layer {index}, expected a [route] to a layer before it",
                section.name
            );
            DarknetError::at(line, reason)
        })?;
        Ok((name, layer.shape))
    }

    /// The results of the layers that a key lists: numbers from 0 on, or negative ones, which count from this layer.
    pub(super) fn listed(
        &self,
        section: &Section<'_>,
        key: &str,
    ) -> Result<Vec<(String, Shape)>, DarknetError> {
        let numbers: Vec<i64> = section.list(key)?.unwrap_or_default();
        if numbers.is_empty() {
            let reason = format!(
                "[{}] has no {key}, expected numbers of layers",
                section.name
            );
            return Err(section.error(key, reason));
        }
        let line = match section.error(key, "") {
            DarknetError::Config { line, .. } => line,
            DarknetError::Weights(_) => section.line,
        };
        let here = self.index();
        let resolve = |number: i64| {
            let index = match number {
                0.. => usize::try_from(number).ok(),
                _ => usize::try_from(number.unsigned_abs())
                    .ok()
                    .and_then(|back| here.checked_sub(back)),
            };
            let index = index.filter(|index| *index < here).ok_or_else(|| {
                let reason = format!(
                    "{key} of [{}]: found {number} in layer {here}, expected a layer before it",
                    section.name
                );
                DarknetError::at(line, reason)
            })?;
            self.result(section, line, index)
        };
        numbers.into_iter().map(resolve).collect()
    }

    /// Adds an operator.
    pub(super) fn node(
        &mut self,
        operator: &'static str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<(&'static str, Attribute)>,
    ) {
        self.nodes.push(Node {
            operator,
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
            output: output.to_owned(),
            attributes,
        });
    }

    /// Adds a constant tensor.
    pub(super) fn constant(&mut self, name: &str, axes: &[usize], values: Values) {
        self.initializers.push(Initializer {
            name: name.to_owned(),
            axes: axes.to_vec(),
            values,
        });
    }

    /// Ends a layer, whose result is the tensor `name`.
    pub(super) fn push(
        &mut self,
        section: &Section<'_>,
        name: String,
        shape: Shape,
    ) -> Result<(), DarknetError> {
        if shape[0] > MAX_CHANNELS {
            let reason = format!(
                "[{}] gives {} channels, expected at most {MAX_CHANNELS}",
                section.name, shape[0]
            );
            return Err(DarknetError::at(section.line, reason));
        }
        self.layers.push(Layer {
            name: Some(name),
            shape,
        });
        Ok(())
    }

    /// `[yolo]`: the result of the layer before becomes an output.
    pub(super) fn grid(&mut self, section: &Section<'_>) -> Result<(), DarknetError> {
        section.reject(&[("new_coords", "0")])?;
        let (input, shape) = self.previous(section)?;
        let classes = section.length("classes", 20)?;
        if let Some(other) = self.classes.filter(|other| *other != classes) {
            let reason =
                format!("found classes={classes}, and {other} in the [yolo] layer before it");
            return Err(section.error("classes", reason));
        }
        let numbers: Vec<f32> = section.list("anchors")?.unwrap_or_default();
        let (all, rest) = numbers.as_chunks::<2>();
        if all.is_empty() || !rest.is_empty() || !numbers.iter().all(|side| *side >= 1.0) {
            let reason = format!(
                "anchors of [yolo]: found {} numbers, expected width and height in pixels for each anchor",
                numbers.len()
            );
            return Err(section.error("anchors", reason));
        }
        let mask: Vec<usize> = match section.list("mask")? {
            Some(mask) => mask,
            None => (0..all.len()).collect(),
        };
        let anchors: Option<Vec<[f32; 2]>> =
            mask.iter().map(|index| all.get(*index).copied()).collect();
        let Some(anchors) = anchors.filter(|anchors| !anchors.is_empty()) else {
            let reason = format!(
                "mask of [yolo]: found {mask:?}, expected numbers from 0 to {}, one for each anchor of the grid",
                all.len() - 1
            );
            return Err(section.error("mask", reason));
        };
        let planes = anchors.len() * (BEFORE_CLASSES + classes);
        if shape[0] != planes {
            let reason = format!(
                "[yolo] with {} anchors and {classes} classes needs {planes} channels, and the layer before it has {}: its filters must be {planes}",
                anchors.len(),
                shape[0]
            );
            return Err(DarknetError::at(section.line, reason));
        }
        let stride = self.stride(section, shape)?;
        let name = match self.outputs.len() {
            used if self
                .outputs
                .iter()
                .any(|output| output.name == format!("grid_{stride}")) =>
            {
                format!("grid_{stride}_{used}")
            }
            _ => format!("grid_{stride}"),
        };
        self.rename(&input, &name);
        self.outputs.push(Output {
            name: name.clone(),
            axes: shape.to_vec(),
        });
        self.grids.push(Grid {
            name,
            stride,
            anchors,
            scale_x_y: section.float("scale_x_y", 1.0)?,
        });
        self.classes = Some(classes);
        self.layers.push(Layer { name: None, shape });
        Ok(())
    }

    /// Pixels of the input for each cell of a grid.
    fn stride(
        &self,
        section: &Section<'_>,
        [_, height, width]: Shape,
    ) -> Result<usize, DarknetError> {
        let (all_width, all_height) = (self.size.width as usize, self.size.height as usize);
        let stride = all_width / width.max(1);
        let fits = stride.is_power_of_two()
            && (2..=MAX_STRIDE).contains(&stride)
            && stride * width == all_width
            && stride * height == all_height;
        if fits {
            return Ok(stride);
        }
        let reason = format!(
            "[yolo] has {width}×{height} cells over an input of {all_width}×{all_height}, expected a stride that is a power of two; \
             width and height of [net] must be multiples of the greatest stride, mostly 32"
        );
        Err(DarknetError::at(section.line, reason))
    }

    /// Gives a tensor the name of an output; one that is an output already, or the input, is copied.
    fn rename(&mut self, from: &str, to: &str) {
        if from == INPUT || self.outputs.iter().any(|output| output.name == from) {
            self.node("Identity", &[from], to, Vec::new());
            return;
        }
        for node in &mut self.nodes {
            let names = node.inputs.iter_mut().chain([&mut node.output]);
            for name in names.filter(|name| *name == from) {
                to.clone_into(name);
            }
        }
        for name in self
            .layers
            .iter_mut()
            .filter_map(|layer| layer.name.as_mut())
        {
            if name == from {
                to.clone_into(name);
            }
        }
    }
}
