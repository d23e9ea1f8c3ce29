// SPDX-License-Identifier: Apache-2.0
//! Checks that a network has the tensors that its `model.yaml` lists. Pure; called when a session was created, and again
//! after its first run.

use std::path::Path;

use super::DetectError;
use super::decoders::{DType, NetworkShape, OutputDecoder, TensorShape};
use super::model::{InputElement, ModelSpec};
use super::ort_session::RunShape;

/// A tensor of the network as the runtime reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorInfo {
    /// Its name.
    pub(super) name: String,
    /// Element type and shape; `None` for a value that is not a tensor.
    pub(super) tensor: Option<(Element, Vec<i64>)>,
}

/// Type of the elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Element {
    /// A supported type.
    Supported(DType),
    /// Unsigned bytes, which only images may be.
    Uint8,
    /// An unsupported type, by its name.
    Other(String),
}

/// How many images the network takes in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchAxis {
    /// Exactly one.
    One,
    /// Any number.
    Dynamic,
    /// Exactly so many, more than one. ONNX Runtime computes as many in each run; the others refuse it.
    Fixed(usize),
}

impl BatchAxis {
    /// Fails for a fixed number of images.
    ///
    /// # Errors
    /// It is fixed.
    pub(super) fn refuse_fixed(self, spec: &ModelSpec, path: &Path) -> Result<(), DetectError> {
        let Self::Fixed(images) = self else {
            return Ok(());
        };
        let side = IoSide {
            path,
            kind: "input",
            key: "",
        };
        let found = format!("a batch of exactly {images}");
        Err(side.error(&spec.input.name, found, "[1 or N, …]", BATCH_ADVICE))
    }
}

/// Checks the inputs, and the presence of the outputs, against `spec`. Types and shapes of the outputs are checked when the
/// decoder is created.
///
/// # Errors
/// The first mismatch.
pub(super) fn check_signature(
    spec: &ModelSpec,
    path: &Path,
    inputs: &[TensorInfo],
    outputs: &[TensorInfo],
) -> Result<BatchAxis, DetectError> {
    let side = |kind: &'static str, key: &'static str| IoSide { path, kind, key };
    let names: Vec<&String> = [&spec.input.name]
        .into_iter()
        .chain(&spec.input.sizes_name)
        .chain(&spec.input.scales_name)
        .collect();
    let input = side("input", "input.name").find(inputs, &spec.input.name)?;
    let (width, height) = (
        i64::from(spec.input.size.width),
        i64::from(spec.input.size.height),
    );
    let colors_last =
        |(_, shape): &(Element, Vec<i64>)| shape.len() == 4 && shape[1] != 3 && shape[3] == 3;
    let advice = if input.tensor.as_ref().is_some_and(colors_last) {
        "colors come last here, where jetwatch gives three planes: export it for [N, 3, height, width]"
    } else {
        "set input.width and input.height in model.yaml to the network's, or export it again"
    };
    let element = match spec.input.element {
        InputElement::Float32 => Element::Supported(DType::F32),
        InputElement::Uint8 => Element::Uint8,
    };
    let shape = [3, height, width];
    let images = side("input", "").shape(input, &element, &shape, advice)?;
    let mut batch = vec![images];
    let further = [
        (&spec.input.sizes_name, "input.sizes_name", DType::I64),
        (&spec.input.scales_name, "input.scales_name", DType::F32),
    ];
    for (name, key, element) in further {
        if let Some(name) = name {
            let tensor = side("input", key).find(inputs, name)?;
            let advice = format!(
                "{key} names an input with two numbers for every image; leave it out if this is another"
            );
            let element = Element::Supported(element);
            batch.push(side("input", "").shape(tensor, &element, &[2], &advice)?);
        }
    }
    if let Some(other) = inputs.iter().find(|info| !names.contains(&&info.name)) {
        let found = format!("another input `{}`", other.name);
        return Err(side("input", "").error(
            &spec.input.name,
            found,
            "no other",
            "export the network with one input, or set input.sizes_name or input.scales_name in model.yaml if it wants size or scale of the images",
        ));
    }
    let key = match spec.output.tensors.as_slice() {
        [_] => "output.name",
        _ => "output.tensors",
    };
    for name in &spec.output.tensors {
        let output = side("output", key).find(outputs, name)?;
        let axis = side("output", "").batch(output)?;
        // The rows of one image, with or without a batch axis.
        let one = spec.output.layout.rows_vary().then_some(BatchAxis::One);
        match one.or(axis) {
            Some(axis @ BatchAxis::Fixed(_)) if axis != images => {
                return Err(side("output", "").no_batch(output));
            }
            Some(axis) => batch.push(axis),
            None => return Err(side("output", "").no_batch(output)),
        }
    }
    match (images, batch.contains(&BatchAxis::One)) {
        (BatchAxis::Fixed(_), true) => images.refuse_fixed(spec, path).map(|()| images),
        (BatchAxis::Fixed(_), false) => Ok(images),
        (_, true) => Ok(BatchAxis::One),
        (_, false) => Ok(BatchAxis::Dynamic),
    }
}

/// The decoder for outputs that have the types and shapes `shapes` after a run of `slots` images.
///
/// # Errors
/// The first mismatch.
pub(super) fn create_decoder(
    spec: &ModelSpec,
    path: &Path,
    shapes: &[RunShape],
    slots: usize,
) -> Result<Box<dyn OutputDecoder>, DetectError> {
    let side = IoSide {
        path,
        kind: "output",
        key: "",
    };
    let axes_of_run: Vec<&[usize]> = shapes.iter().map(|shape| shape.axes.as_slice()).collect();
    let axes_of_image = spec.output.axes_of_image(&axes_of_run, slots);
    let axes_of_image = axes_of_image.map_err(|tensor| {
        let found = format!("{:?} in a run", axes_of_run[tensor]);
        let expected = format!("[{slots}, …]");
        side.error(&spec.output.tensors[tensor], found, &expected, BATCH_ADVICE)
    })?;
    let shapes: Vec<TensorShape<'_>> = shapes
        .iter()
        .zip(axes_of_image)
        .map(|(shape, axes)| TensorShape {
            element: shape.element,
            axes,
        })
        .collect();
    let network = NetworkShape::new(spec.input.size, spec.labels.len(), &shapes);
    let output_decoder = spec.output.layout.create_decoder(&network);
    output_decoder.map_err(|mismatch| {
        let tensor = mismatch.tensor;
        let found = shapes
            .get(tensor)
            .map_or("none".to_owned(), |shape| format!("{shape} for each image"));
        let name = spec.output.tensors.get(tensor).map_or("", String::as_str);
        side.error(name, found, &mismatch.expected, &mismatch.advice)
    })
}

/// Supported outputs.
const READABLE: &str = "float32, int32 or int64 [1 or N, …]";

const BATCH_ADVICE: &str = "export the network for a batch of 1, or with a dynamic batch axis, which comes first in every tensor";

/// Inputs or outputs of the network, for errors.
struct IoSide<'a> {
    path: &'a Path,
    kind: &'static str,
    /// Key of the tensor's name in `model.yaml`.
    key: &'static str,
}

impl IoSide<'_> {
    fn find<'t>(
        &self,
        tensors: &'t [TensorInfo],
        name: &str,
    ) -> Result<&'t TensorInfo, DetectError> {
        tensors
            .iter()
            .find(|info| info.name == name)
            .ok_or_else(|| {
                let names: Vec<String> = tensors
                    .iter()
                    .map(|info| format!("`{}`", info.name))
                    .collect();
                let found = if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                };
                self.error(
                    name,
                    found,
                    "this name",
                    &format!("set {} in model.yaml to the network's name", self.key),
                )
            })
    }

    /// Compares element type, rank and all axes but the first, and returns the kind of the first. Axes that the network
    /// leaves undefined fit.
    fn shape(
        &self,
        info: &TensorInfo,
        element: &Element,
        wanted: &[i64],
        advice: &str,
    ) -> Result<BatchAxis, DetectError> {
        let expected = format!("{} [1 or N, {}]", element.name(), list(wanted));
        let (found_element, shape) = self.tensor(info, &expected)?;
        let found = || format!("{} [{}]", found_element.name(), list(shape));
        if found_element != element {
            let advice = match (found_element, element) {
                (Element::Uint8, Element::Supported(DType::F32))
                | (Element::Supported(DType::F32), Element::Uint8) => format!(
                    "set input.type in model.yaml to {} if this input takes the images",
                    found_element.name()
                ),
                _ => format!(
                    "export the network with {} at its ends; it may be reduced inside",
                    element.name()
                ),
            };
            return Err(self.error(&info.name, found(), &expected, &advice));
        }
        let fits = shape.len() == wanted.len() + 1
            && shape[1..]
                .iter()
                .zip(wanted)
                .all(|(found, wanted)| *found < 0 || found == wanted);
        if !fits {
            return Err(self.error(&info.name, found(), &expected, advice));
        }
        batch_axis(shape).ok_or_else(|| self.error(&info.name, found(), &expected, BATCH_ADVICE))
    }

    /// The kind of the first axis of a tensor of a supported type, if it is a batch axis.
    fn batch(&self, info: &TensorInfo) -> Result<Option<BatchAxis>, DetectError> {
        let (element, shape) = self.tensor(info, READABLE)?;
        if !matches!(element, Element::Supported(_)) {
            let advice = "export the network with float32 at its ends; it may be reduced inside";
            let found = format!("{} [{}]", element.name(), list(shape));
            return Err(self.error(&info.name, found, READABLE, advice));
        }
        Ok(batch_axis(shape))
    }

    fn no_batch(&self, info: &TensorInfo) -> DetectError {
        let found = info
            .tensor
            .as_ref()
            .map_or_else(String::new, |(element, shape)| {
                format!("{} [{}]", element.name(), list(shape))
            });
        self.error(&info.name, found, READABLE, BATCH_ADVICE)
    }

    fn tensor<'t>(
        &self,
        info: &'t TensorInfo,
        expected: &str,
    ) -> Result<(&'t Element, &'t [i64]), DetectError> {
        match &info.tensor {
            Some((element, shape)) => Ok((element, shape)),
            None => Err(self.error(
                &info.name,
                "no tensor".to_owned(),
                expected,
                "export the network with tensors",
            )),
        }
    }

    fn error(&self, name: &str, found: String, expected: &str, advice: &str) -> DetectError {
        DetectError::Tensor {
            path: self.path.to_owned(),
            tensor: format!("{} `{name}`", self.kind),
            found,
            expected: expected.to_owned(),
            advice: advice.to_owned(),
        }
    }
}

/// The kind of the first axis; `None` when there is none, or it has no length.
fn batch_axis(shape: &[i64]) -> Option<BatchAxis> {
    match shape.first() {
        Some(1) => Some(BatchAxis::One),
        Some(axis) if *axis < 0 => Some(BatchAxis::Dynamic),
        Some(axis) => usize::try_from(*axis)
            .ok()
            .filter(|images| *images > 1)
            .map(BatchAxis::Fixed),
        None => None,
    }
}

impl Element {
    fn name(&self) -> &str {
        match self {
            Self::Supported(element) => element.name(),
            Self::Uint8 => "uint8",
            Self::Other(name) => name,
        }
    }
}

/// Axes as text; `N` for those that the network leaves undefined.
fn list(axes: &[i64]) -> String {
    let axes: Vec<String> = axes
        .iter()
        .map(|axis| {
            if *axis < 0 {
                "N".to_owned()
            } else {
                axis.to_string()
            }
        })
        .collect();
    axes.join(", ")
}

#[cfg(test)]
mod tests;
