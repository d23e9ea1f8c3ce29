// SPDX-License-Identifier: Apache-2.0
//! One run of a network, for what its file does not say: the lengths of open axes, and the range of its numbers.
//!
//! Called by `jetwatch model init`, before the output layout is inferred. The image is made up, so that only what holds for
//! every image may be concluded from the numbers.

use std::path::Path;

use ort::session::builder::GraphOptimizationLevel;
use ort::session::{Session, SessionInputValue};
use ort::value::{PrimitiveTensorElementType, Tensor};

use super::decoders::TensorView;
use super::graph::{Axis, Element, Network, Tensor as Port};
use super::layouts::image_input;
use super::ort_session::tensor_view;
use super::self_check::made_up_pixel;
use super::{DetectError, ort_library};
use jetwatch_types::Size;

/// Operators after which a length depends on the image.
const COUNTING: [&str; 3] = ["NonMaxSuppression", "NonZero", "Unique"];

/// Fewer boxes say nothing about their form.
const MIN_BOXES: usize = 20;

/// The outputs of one run.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    outputs: Vec<ProbedOutput>,
}

/// One output of the run.
#[derive(Debug, Clone)]
struct ProbedOutput {
    name: String,
    axes: Vec<u64>,
    /// Empty where the elements are neither floats nor integers.
    values: Vec<f32>,
}

/// Runs the network in `path`, of which `network` is the summary, once with ONNX Runtime on an image of `size`; `bytes`
/// replace those of the file, if given.
///
/// # Errors
/// ONNX Runtime is not found, refuses the network, or fails in the run.
pub fn probe(
    path: &Path,
    bytes: Option<&[u8]>,
    network: &Network,
    size: Size,
) -> Result<Probe, DetectError> {
    let library = ort_library::find(None)?;
    let environment = ort_library::open(&library)?;
    let failed = |error: ort::Error| DetectError::Load {
        path: path.to_owned(),
        library: library.clone(),
        reason: error.to_string(),
    };
    let open = || -> ort::Result<Session> {
        let builder = Session::builder(&environment)?;
        let mut builder = builder.with_optimization_level(GraphOptimizationLevel::Disable)?;
        match bytes {
            Some(bytes) => builder.commit_from_memory(bytes),
            None => builder.commit_from_file(path),
        }
    };
    let mut session = open().map_err(failed)?;
    let mut inputs: Vec<(String, SessionInputValue<'_>)> = Vec::new();
    let image = image_input(network).map(|input| input.name.as_str());
    for input in &network.inputs {
        let shape = lengths(input, Some(input.name.as_str()) == image, size);
        let value = match input.element {
            Some(Element::UINT8) => filled::<u8>(&shape, made_up_pixel),
            // Sizes of the image.
            Some(Element::INT64) if shape.len() < 4 => filled(&shape, |at| match at % 2 {
                0 => i64::from(size.width),
                _ => i64::from(size.height),
            }),
            Some(Element::INT64) => filled(&shape, |at| i64::from(made_up_pixel(at))),
            Some(Element::FLOAT) if shape.len() < 4 => filled(&shape, |_| 1.0_f32),
            // Between 0 and 1, as the smaller of the usual ranges.
            _ => filled(&shape, |at| f32::from(made_up_pixel(at)) / 251.0),
        };
        inputs.push((input.name.clone(), value.map_err(failed)?));
    }
    let outputs = session.run(inputs).map_err(|error| DetectError::Infer {
        batch: 1,
        reason: error.to_string(),
    })?;
    let outputs = outputs.iter().map(|(name, value)| {
        let values = match tensor_view(name, &value) {
            Ok(TensorView::F32(values)) => values.to_vec(),
            Ok(TensorView::I32(values)) => values.iter().map(|number| *number as f32).collect(),
            Ok(TensorView::I64(values)) => values.iter().map(|number| *number as f32).collect(),
            // Other elements are no boxes.
            Err(_) => Vec::new(),
        };
        ProbedOutput {
            name: name.to_owned(),
            axes: value
                .shape()
                .iter()
                .map(|axis| axis.unsigned_abs())
                .collect(),
            values,
        }
    });
    Ok(Probe {
        outputs: outputs.collect(),
    })
}

/// The lengths of an input's axes: open ones are 1, and height and width those of `size`.
fn lengths(input: &Port, is_image: bool, size: Size) -> Vec<usize> {
    let axes = input.axes.as_deref().unwrap_or_default();
    // Colors come last in some networks.
    let colors = match axes.last() {
        Some(Axis::Fixed(3)) => 1,
        _ => 3,
    };
    let length = |(at, axis): (usize, &Axis)| match axis {
        Axis::Fixed(len) => *len as usize,
        Axis::Open(_) if is_image => match (axes.len() - at, colors) {
            (3, 3) => 3,
            (2, 3) | (3, 1) => size.height as usize,
            (1, 3) | (2, 1) => size.width as usize,
            _ => 1,
        },
        Axis::Open(_) if axes.len() == 2 && at == 1 => 2,
        Axis::Open(_) => 1,
    };
    axes.iter().enumerate().map(length).collect()
}

fn filled<T>(shape: &[usize], value: impl Fn(usize) -> T) -> ort::Result<SessionInputValue<'static>>
where
    T: PrimitiveTensorElementType + std::fmt::Debug + Clone + 'static,
{
    let len = shape.iter().product();
    let values: Vec<T> = (0..len).map(value).collect();
    Ok(Tensor::from_array((shape.to_vec(), values))?.into())
}

impl Probe {
    /// Fixes the open axes of the outputs of `network` at the lengths of the run: all but the first, which is that of the
    /// images, and those that may depend on the image. Notes which outputs have boxes by their corners, and which whole numbers.
    pub fn complete(&self, network: &mut Network) {
        let counts = network.operators.iter();
        let is_counting = counts
            .clone()
            .any(|operator| COUNTING.contains(&operator.name.as_str()));
        for output in &mut network.outputs {
            let Some(found) = self.outputs.iter().find(|found| found.name == output.name) else {
                continue;
            };
            let open = || vec![Axis::Open(String::new()); found.axes.len()];
            let axes = output.axes.get_or_insert_with(open);
            if axes.len() != found.axes.len() {
                continue;
            }
            output.has_corners = found.has_corners();
            output.is_whole = found.values.iter().all(|value| value.fract() == 0.0)
                && found.values.iter().any(|value| *value != 0.0);
            let last = axes.len().saturating_sub(1);
            for (at, (axis, len)) in axes.iter_mut().zip(&found.axes).enumerate() {
                let is_fixed = match is_counting {
                    true => at == last,
                    false => *len > 0,
                };
                if at > 0 && is_fixed && matches!(axis, Axis::Open(_)) {
                    *axis = Axis::Fixed(*len);
                }
            }
        }
    }
}

impl ProbedOutput {
    /// Whether the first four numbers of the boxes are left, top, right and bottom: the third is above the first and the fourth
    /// above the second in nearly all. Of centers and sizes that is not so in the right and lower parts of the image. `None` where
    /// there are few boxes, or only some ascend.
    fn has_corners(&self) -> Option<bool> {
        let [.., rows, columns] = *self.axes.as_slice() else {
            return None;
        };
        let (rows, columns) = (rows as usize, columns as usize);
        // Boxes are more than the numbers of one.
        let (count, numbers, step, next) = match rows >= columns {
            true => (rows, columns, columns, 1),
            false => (columns, rows, 1, columns),
        };
        if numbers < 4 || self.values.len() < rows * columns {
            return None;
        }
        let numbers_of =
            |index| [0, 1, 2, 3].map(|number| self.values[index * step + number * next]);
        // Rows of zeros only fill the tensor.
        let boxes = (0..count)
            .map(numbers_of)
            .filter(|numbers| *numbers != [0.0; 4]);
        // Distances to the sides may be 0.
        let ascends = |[left, top, right, bottom]: &[f32; 4]| right >= left && bottom >= top;
        let (all, ascending) = (boxes.clone().count(), boxes.filter(ascends).count());
        match (all >= MIN_BOXES, ascending * 100) {
            (true, share) if share >= all * 90 => Some(true),
            (true, share) if share < all * 50 => Some(false),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_ascend_in_rows_and_in_planes() {
        let of = |numbers: [f32; 4]| numbers.into_iter().chain([0.5, 0.1]);
        let centers = |index: u16| of([f32::from(index * 10), f32::from(index * 5), 30.0, 20.0]);
        let corners = |index: u16| {
            of([
                f32::from(index * 10),
                f32::from(index * 5),
                f32::from(index * 10 + 30),
                f32::from(index * 5 + 20),
            ])
        };
        for (values, wanted) in [
            ((0..50).flat_map(centers).collect::<Vec<f32>>(), false),
            ((0..50).flat_map(corners).collect(), true),
        ] {
            let rows = ProbedOutput {
                name: "boxes".to_owned(),
                axes: vec![1, 50, 6],
                values,
            };
            assert_eq!(rows.has_corners(), Some(wanted));
            let planes = (0..6).flat_map(|number| (0..50).map(move |index| index * 6 + number));
            let values = planes.map(|at| rows.values[at]).collect();
            let planes = ProbedOutput {
                axes: vec![1, 6, 50],
                values,
                ..rows
            };
            assert_eq!(planes.has_corners(), Some(wanted));
            let few = ProbedOutput {
                axes: vec![1, 10, 6],
                ..planes
            };
            assert_eq!(few.has_corners(), None);
        }
    }
}
