// SPDX-License-Identifier: Apache-2.0
//! The raw output of YOLOX with one tensor per grid, as boxes in input pixels. Pure.
//!
//! The numbers are those of [`yolox`](super) before their concatenation: `[5 + classes, h, w]` for each
//! stride, a plane each for x, y, w, h, objectness and every class, the last two after their sigmoid.

use super::super::OutputLayout;
use super::decode_box;
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::grids::Grid;
use crate::decoders::rows::{BEFORE_CLASSES, first_non_finite};
use crate::decoders::tensors::{check_axes, floats};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};

use jetwatch_pixels::argmax::argmax;

/// One tensor for each grid, which needs no parameters.
#[derive(Debug)]
pub struct RawGrids;

impl OutputLayout for RawGrids {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(YoloxGrids::new(network)?))
    }

    fn side_multiple(&self) -> u32 {
        32
    }
}

/// Plane of the objectness.
const OBJECTNESS: usize = 4;

/// The grids over one input size for one number of classes.
#[derive(Debug, Clone)]
pub struct YoloxGrids {
    grids: Box<[Grid]>,
    classes: usize,
}

impl YoloxGrids {
    /// For one tensor a grid over `input`, in the order of growing strides, which follow from the sizes.
    ///
    /// # Errors
    /// A tensor is no grid over `input` in the order of growing strides, or does not have 5 planes and one for each of `classes`.
    pub fn new(network: &NetworkShape<'_>) -> Result<Self, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let planes = BEFORE_CLASSES + classes;
        let advice = format!(
            "YOLOX has 5 planes before those of the classes in every grid; check labels ({classes}), input size and the \
             order of output.tensors.grids, which is that of growing strides, in model.yaml"
        );
        let axes = [(Some(planes), "planes"), (None, "h"), (None, "w")];
        let mut grids: Vec<Grid> = Vec::with_capacity(shapes.len());
        for (tensor, shape) in shapes.iter().enumerate() {
            check_axes(shapes, tensor, DType::F32, &axes, &advice)?;
            let above = grids.last().map_or(1, |grid| grid.stride);
            let grid = Grid::from_size(input, above, shape.axes[2], shape.axes[1]);
            grids.push(grid.ok_or_else(|| Mismatch {
                tensor,
                expected: format!(
                    "float32 [{planes}, h, w] with h and w those of the input, {input}, divided by a stride of 8, 16 or 32"
                ),
                advice: advice.clone(),
            })?);
        }
        Ok(Self {
            grids: grids.into(),
            classes,
        })
    }
}

impl OutputDecoder for YoloxGrids {
    /// Of cells whose objectness is below `threshold` nothing else is read.
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let planes = BEFORE_CLASSES + self.classes;
        let mut before = 0;
        for (tensor, grid) in self.grids.iter().enumerate() {
            let cells = grid.cells();
            let output = floats(tensors, tensor, planes * cells);
            let objectness = &output[OBJECTNESS * cells..][..cells];
            for (cell, objectness) in objectness.iter().enumerate() {
                // Written so that NaN and both infinities are not skipped.
                if *objectness < collector.threshold && *objectness > f32::NEG_INFINITY {
                    continue;
                }
                let at = |plane: usize| plane * cells + cell;
                let scores = (OBJECTNESS..planes).map(|plane| (at(plane), output[at(plane)]));
                let [column, line] = grid.cell(cell);
                let raw = [0, 1, 2, 3].map(|plane| output[at(plane)]);
                let xyxy = decode_box(raw, [column, line, grid.stride as f32]);
                if let Some(plane) = first_non_finite(&raw, &xyxy) {
                    collector.report_non_finite(tensor, at(plane));
                } else if !scores.clone().all(|(_, score)| is_valid(score)) {
                    collector.report_invalid(tensor, scores);
                } else {
                    let classes = scores.skip(1).map(|(_, score)| score);
                    let best = classes.clone().fold(f32::NEG_INFINITY, f32::max);
                    collector.push(
                        before + cell,
                        argmax(classes, best),
                        objectness * best,
                        xyxy,
                    );
                }
            }
            before += cells;
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::decoders::TensorShape;
    use crate::decoders::fixture::check_refused;
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(96, 64);
    const CLASSES: usize = 3;
    const PLANES: usize = 5 + CLASSES;

    fn make(shapes: &[TensorShape<'_>]) -> Result<YoloxGrids, Mismatch> {
        YoloxGrids::new(&NetworkShape::new(INPUT, CLASSES, shapes))
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let f32 = DType::F32;
        let stride = "with h and w those of the input, 96×64, divided by a stride of 8, 16 or 32";
        let (planes, stride) = ("float32 [8, h, w]", format!("float32 [8, h, w] {stride}"));
        #[rustfmt::skip]
        check_refused(make, "labels (3)", &[
            (&[&[PLANES, 8, 12], &[PLANES, 4, 6], &[PLANES + 1, 2, 3]], f32, 2, planes),
            (&[&[PLANES, 12, 8], &[PLANES, 4, 6], &[PLANES, 2, 3]], f32, 0, &stride),
            (&[&[PLANES, 8, 12], &[PLANES, 2, 3], &[PLANES, 4, 6]], f32, 2, &stride),
        ]);
    }
}
