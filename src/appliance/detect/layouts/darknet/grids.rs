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
use crate::decoders::boxes::from_center;
use crate::decoders::candidates::CandidateCollector;
use crate::decoders::dense::{Activation, Place};
use crate::decoders::grids::Grid;
use crate::decoders::objects::{BEFORE_CLASSES, Objects};
use crate::decoders::tensors::check_axes;
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};
use jetwatch_types::Xyxy;

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
    pub(in super::super) grids: Vec<AnchoredGrid>,
    pub(in super::super) sizes: SizeFormula,
}

/// The boxes of one anchor of a grid.
#[derive(Debug, Clone)]
pub(in super::super) struct AnchoredGrid {
    pub grid: Grid,
    pub objects: Objects,
    /// Width and height in input pixels.
    pub anchor: [f32; 2],
    pub scale_x_y: f32,
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
            let cells = grid.cells();
            let place = |anchor| match are_rows {
                true => Place::rows(
                    tensor,
                    anchors.len() * cells,
                    numbers,
                    anchor * cells * numbers,
                ),
                false => Place::planes(tensor, cells, planes, anchor * numbers),
            };
            grids.extend(
                anchors
                    .iter()
                    .enumerate()
                    .map(|(anchor, size)| AnchoredGrid {
                        grid,
                        objects: Objects {
                            place: place(anchor),
                            cells,
                            classes,
                            activation: parameters.activation,
                        },
                        anchor: *size,
                        scale_x_y: *scale_x_y,
                    }),
            );
        }
        Ok(Self {
            grids,
            sizes: parameters.sizes,
        })
    }
}

impl OutputDecoder for DarknetGrids {
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let mut before = 0;
        for anchored in &self.grids {
            let decode_box = |cell, raw| anchored.decode_box(raw, cell, self.sizes);
            (anchored.objects).decode(tensors, before, collector, decode_box);
            before += anchored.grid.cells();
        }
    }
}

impl AnchoredGrid {
    /// The box of a cell in input pixels.
    fn decode_box(&self, [x, y, w, h]: [f32; 4], cell: usize, sizes: SizeFormula) -> Xyxy {
        let [column, line] = self.grid.cell(cell);
        let stride = self.grid.stride as f32;
        let sigmoid = |number| self.objects.activated(number);
        let inside = |number| self.scale_x_y * sigmoid(number) - (self.scale_x_y - 1.0) * 0.5;
        let factor = |number: f32| match sizes {
            SizeFormula::Exponential => number.exp(),
            SizeFormula::Square => (2.0 * sigmoid(number)).powi(2),
        };
        let raw = [
            (inside(x) + column) * stride,
            (inside(y) + line) * stride,
            factor(w) * self.anchor[0],
            factor(h) * self.anchor[1],
        ];
        from_center(raw, [1.0; 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::activation::sigmoid;
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
