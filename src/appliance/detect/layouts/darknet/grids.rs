// SPDX-License-Identifier: Apache-2.0
//! The raw grids of YOLOv3 and YOLOv4, and of YOLOv5 and YOLOv7, as boxes in input pixels. Pure.
//!
//! Each grid is `[anchors · (5 + classes), h, w]`: for each anchor the planes of x, y, w, h, objectness and every class, all of
//! them before any sigmoid. For the cell in column `gx` and row `gy` of the grid with stride `s` and the anchor of
//! `aw` by `ah` input pixels, where `σ` is the sigmoid and `k` the factor that Darknet calls `scale_x_y`:
//!
//! ```text
//! center = ((k·σ(x) - (k-1)/2 + gx)·s, (k·σ(y) - (k-1)/2 + gy)·s)
//! size   = (eʷ·aw, eʰ·ah)    or    ((2·σ(w))²·aw, (2·σ(h))²·ah)
//! score  = σ(objectness) · σ(best class)
//! ```
//!
//! A grid may also be `[anchors, h, w, 5 + classes]`, and networks may contain the sigmoid.
//!
//! The sigmoid is computed only for what can reach the threshold: objectness is compared as a logit.

use super::super::OutputLayout;
use crate::decoders::activation::{min_logit, sigmoid};
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::dense::{Activation, Place};
use crate::decoders::grids::Grid;
use crate::decoders::rows::{BEFORE_CLASSES, first_non_finite, from_center};
use crate::decoders::tensors::check_axes;
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};

use jetwatch_pixels::argmax::argmax;

/// Plane of the objectness among those of an anchor.
const OBJECTNESS: usize = 4;

/// The grids as `model.yaml` specifies them.
#[derive(Debug, Clone, PartialEq)]
pub struct DarknetGridsParameters {
    /// Width and height of the anchors of each grid, in input pixels, in the order of the tensors.
    pub anchors: Vec<Vec<[f32; 2]>>,
    /// How far centers reach beyond their cell: one factor per grid, 1 for not at all.
    pub scale_x_y: Vec<f32>,
    /// How sizes follow from the anchors.
    pub sizes: SizeFormula,
    /// What is left to do with all numbers: nothing or the sigmoid.
    pub activation: Activation,
}

/// How the size of a box follows from its number and the anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeFormula {
    /// The exponential times the anchor: Darknet.
    Exponential,
    /// The square of twice the sigmoid, times the anchor: YOLOv5 and YOLOv7.
    Square,
}

impl OutputLayout for DarknetGridsParameters {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(DarknetGrids::new(self, network)?))
    }

    fn side_multiple(&self) -> u32 {
        32
    }
}

/// The grids over one input size for one number of classes.
#[derive(Debug, Clone)]
pub struct DarknetGrids {
    grids: Box<[AnchoredGrid]>,
    classes: usize,
    sizes: SizeFormula,
    activation: Activation,
}

#[derive(Debug, Clone)]
struct AnchoredGrid {
    grid: Grid,
    anchors: Box<[[f32; 2]]>,
    scale_x_y: f32,
    /// Whether the numbers of a cell are consecutive instead of in planes.
    are_rows: bool,
}

impl DarknetGrids {
    /// For one tensor a grid over `input`, in any order; strides follow from the sizes. `parameters` has anchors and a
    /// factor for each of them.
    ///
    /// # Errors
    /// The tensors are not as many as the grids of `parameters`, or one is no grid over `input` with `classes` for each anchor.
    pub fn new(
        parameters: &DarknetGridsParameters,
        network: &NetworkShape<'_>,
    ) -> Result<Self, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let mut grids = Vec::with_capacity(shapes.len());
        let settings = parameters.anchors.iter().zip(&parameters.scale_x_y);
        for ((tensor, shape), (anchors, scale_x_y)) in shapes.iter().enumerate().zip(settings) {
            let numbers = BEFORE_CLASSES + classes;
            let planes = anchors.len() * numbers;
            let advice = format!(
                "a grid with {} anchors has as many times 5 planes and those of the classes; check labels ({classes}), \
                 output.anchors and input size in model.yaml",
                anchors.len()
            );
            let are_rows = shape.axes.len() == 4;
            let (h, w) = ((None, "h"), (None, "w"));
            let whole = [(Some(planes), "planes"), h, w];
            let divided = [
                (Some(anchors.len()), "anchors"),
                h,
                w,
                (Some(numbers), "numbers"),
            ];
            let axes = if are_rows { &divided[..] } else { &whole };
            check_axes(shapes, tensor, DType::F32, axes, &advice)?;
            let [rows, columns] = [1, 2].map(|axis| shape.axes[axis]);
            let grid = Grid::from_size(input, 1, columns, rows).ok_or_else(|| Mismatch {
                tensor,
                expected: format!(
                    "float32 [{planes}, h, w] with h and w those of the input, {input}, divided by a stride of 8, 16 or 32"
                ),
                advice,
            })?;
            grids.push(AnchoredGrid {
                grid,
                anchors: anchors.as_slice().into(),
                scale_x_y: *scale_x_y,
                are_rows,
            });
        }
        Ok(Self {
            grids: grids.into(),
            classes,
            sizes: parameters.sizes,
            activation: parameters.activation,
        })
    }
}

impl OutputDecoder for DarknetGrids {
    /// Of cells whose objectness is below `threshold` nothing else is read.
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let planes = BEFORE_CLASSES + self.classes;
        let is_finished = self.activation == Activation::None;
        let least = if is_finished {
            collector.threshold
        } else {
            min_logit(collector.threshold)
        };
        let mut before = 0;
        for (tensor, anchored) in self.grids.iter().enumerate() {
            let cells = anchored.grid.cells();
            let count = anchored.anchors.len();
            let place = |anchor| match anchored.are_rows {
                true => Place::rows(tensor, count * cells, planes, anchor * cells * planes),
                false => Place::planes(tensor, cells, count * planes, anchor * planes),
            };
            for (anchor, size) in anchored.anchors.iter().enumerate() {
                let place = place(anchor);
                let output = place.numbers(tensors);
                for cell in 0..cells {
                    let number = |plane: usize| output[place.index(cell, plane)];
                    let objectness = number(OBJECTNESS);
                    // Written so that NaN and both infinities are not skipped.
                    if objectness < least && objectness > f32::NEG_INFINITY {
                        continue;
                    }
                    let raw = [0, 1, 2, 3].map(number);
                    let xyxy = anchored.decode_box(raw, cell, *size, self);
                    if let Some(plane) = first_non_finite(&raw, &xyxy) {
                        collector.report_non_finite(tensor, place.index(cell, plane));
                        continue;
                    }
                    let mut scores = (OBJECTNESS..planes).map(number);
                    let is_sound = |score: f32| match is_finished {
                        true => is_valid(score),
                        false => score.is_finite(),
                    };
                    if !scores.all(is_sound) {
                        let scores = (OBJECTNESS..planes).map(|plane| place.index(cell, plane));
                        let scores = scores.map(|index| (index, output[index]));
                        collector.report_invalid(tensor, scores);
                        continue;
                    }
                    let classes = (BEFORE_CLASSES..planes).map(number);
                    let best = classes.clone().fold(f32::NEG_INFINITY, f32::max);
                    let score = self.sigmoid(objectness) * self.sigmoid(best);
                    collector.push(before + cell, argmax(classes, best), score, xyxy);
                }
                // Anchors of a grid are consecutive.
                before += cells;
            }
        }
    }
}

impl DarknetGrids {
    /// Of a number, unless the network has computed it.
    fn sigmoid(&self, number: f32) -> f32 {
        match self.activation {
            Activation::None => number,
            Activation::Sigmoid | Activation::Softmax => sigmoid(number),
        }
    }
}

impl AnchoredGrid {
    /// The box of a cell and an anchor in input pixels.
    fn decode_box(
        &self,
        [x, y, w, h]: [f32; 4],
        cell: usize,
        anchor: [f32; 2],
        decoder: &DarknetGrids,
    ) -> [f32; 4] {
        let [column, line] = self.grid.cell(cell);
        let stride = self.grid.stride as f32;
        let inside =
            |number: f32| self.scale_x_y * decoder.sigmoid(number) - (self.scale_x_y - 1.0) * 0.5;
        let factor = |number: f32| match decoder.sizes {
            SizeFormula::Exponential => number.exp(),
            SizeFormula::Square => (2.0 * decoder.sigmoid(number)).powi(2),
        };
        from_center([
            (inside(x) + column) * stride,
            (inside(y) + line) * stride,
            factor(w) * anchor[0],
            factor(h) * anchor[1],
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_near, check_refused};
    use crate::decoders::{DecodeDiagnostics, TensorShape};
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(64, 32);
    const PLANES: usize = 5 + 2;

    fn decoder(shapes: &[TensorShape<'_>]) -> Result<DarknetGrids, Mismatch> {
        let parameters = DarknetGridsParameters {
            anchors: vec![vec![[40.0, 20.0], [10.0, 12.0]], vec![[6.0, 8.0]]],
            scale_x_y: vec![1.0, 1.2],
            sizes: SizeFormula::Exponential,
            activation: Activation::Sigmoid,
        };
        DarknetGrids::new(&parameters, &NetworkShape::new(INPUT, 2, shapes))
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let (f32, right) = (DType::F32, [PLANES, 2, 4]);
        let stride = "with h and w those of the input, 64×32, divided by a stride of 8, 16 or 32";
        #[rustfmt::skip]
        check_refused(decoder, "labels (2)", &[
            (&[&[PLANES, 1, 2], &right], f32, 0, "float32 [14, h, w]"),
            (&[&[2 * PLANES, 2], &right], f32, 0, "float32 [14, h, w]"),
            (&[&[2 * PLANES, 1, 2], &[PLANES, 4, 2]], f32, 1, &format!("float32 [7, h, w] {stride}")),
        ]);
    }

    #[test]
    fn squares_and_finished_numbers_are_read_from_planes_and_rows() {
        let log3 = 3.0_f32.ln();
        // Anchor 40×20 in column 1 of two cells of 32: centers at 2·σ - ½, sizes (2·σ)² times the anchor.
        let raw = [log3, 0.0, 0.0, log3, log3, 0.0, log3];
        let finished = raw.map(sigmoid);
        let wanted = [candidate(1, 1, 0.5625, [44.0, -6.5, 84.0, 38.5])];
        for (activation, numbers) in [(Activation::Sigmoid, raw), (Activation::None, finished)] {
            let parameters = DarknetGridsParameters {
                anchors: vec![vec![[40.0, 20.0], [10.0, 12.0]]],
                scale_x_y: vec![2.0],
                sizes: SizeFormula::Square,
                activation,
            };
            for (axes, first, step) in [
                (vec![2 * PLANES, 1, 2], 1, 2),
                (vec![2, 1, 2, PLANES], PLANES, 1),
            ] {
                let make = |shapes: &[TensorShape<'_>]| {
                    DarknetGrids::new(&parameters, &NetworkShape::new(INPUT, 2, shapes))
                };
                let mut fixture = DecoderFixture::new(vec![axes], make);
                fixture.floats[0].fill(if activation == Activation::None {
                    0.0
                } else {
                    -9.0
                });
                fixture.put(0, first, step, &numbers);
                let (found, decoded) = fixture.decode(0.3);
                check_near(&found, &wanted);
                assert_eq!(decoded, DecodeDiagnostics::default());
                fixture.check_non_finite(0.3, (0..PLANES).map(|plane| (0, first + plane * step)));
            }
        }
    }
}
