// SPDX-License-Identifier: Apache-2.0
//! The raw grids of YOLOv3 and YOLOv4, as boxes in input pixels. Pure.
//!
//! Each grid is `[anchors · (5 + classes), h, w]`: for each anchor the planes of x, y, w, h, objectness and every class, all of
//! them before any sigmoid. For the cell in column `gx` and row `gy` of the grid with stride `s` and the anchor of
//! `aw` by `ah` input pixels, where `σ` is the sigmoid and `k` the factor that Darknet calls `scale_x_y`:
//!
//! ```text
//! center = ((k·σ(x) - (k-1)/2 + gx)·s, (k·σ(y) - (k-1)/2 + gy)·s)     size = (eʷ·aw, eʰ·ah)
//! score  = σ(objectness) · σ(best class)
//! ```
//!
//! The sigmoid is computed only for what can reach the threshold: objectness is compared as a logit.

use super::super::OutputLayout;
use crate::decoders::activation::{min_logit, sigmoid};
use crate::decoders::candidates::CandidateCollector;
use crate::decoders::grids::Grid;
use crate::decoders::rows::{BEFORE_CLASSES, first_non_finite, from_center};
use crate::decoders::tensors::{check_axes, floats};
use crate::decoders::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::{Candidate, ClassFilter};
use jetwatch_pixels::argmax::argmax;
use jetwatch_types::Size;

/// Plane of the objectness among those of an anchor.
const OBJECTNESS: usize = 4;

/// The grids as `model.yaml` specifies them.
#[derive(Debug, Clone, PartialEq)]
pub struct DarknetGridsParameters {
    /// Width and height of the anchors of each grid, in input pixels, in the order of the tensors.
    pub anchors: Vec<Vec<[f32; 2]>>,
    /// How far centers reach beyond their cell: one factor per grid, 1 for not at all.
    pub scale_x_y: Vec<f32>,
}

impl OutputLayout for DarknetGridsParameters {
    fn create_decoder(
        &self,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Box<dyn OutputDecoder>, Mismatch> {
        Ok(Box::new(DarknetGrids::new(self, input, classes, shapes)?))
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
}

#[derive(Debug, Clone)]
struct AnchoredGrid {
    grid: Grid,
    anchors: Box<[[f32; 2]]>,
    scale_x_y: f32,
}

impl DarknetGrids {
    /// For one tensor a grid over `input`, in any order; strides follow from the sizes. `parameters` has anchors and a
    /// factor for each of them.
    ///
    /// # Errors
    /// The tensors are not as many as the grids of `parameters`, or one is no grid over `input` with `classes` for each anchor.
    pub fn new(
        parameters: &DarknetGridsParameters,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Self, Mismatch> {
        let mut grids = Vec::with_capacity(shapes.len());
        let settings = parameters.anchors.iter().zip(&parameters.scale_x_y);
        for ((tensor, shape), (anchors, scale_x_y)) in shapes.iter().enumerate().zip(settings) {
            let planes = anchors.len() * (BEFORE_CLASSES + classes);
            let advice = format!(
                "a grid with {} anchors has as many times 5 planes and those of the classes; check labels ({classes}), \
                 output.anchors and input size in model.yaml",
                anchors.len()
            );
            let axes = [(Some(planes), "planes"), (None, "h"), (None, "w")];
            check_axes(shapes, tensor, DType::F32, &axes, &advice)?;
            let grid = Grid::from_size(input, 1, shape.axes[2], shape.axes[1]).ok_or_else(|| {
                Mismatch {
                    tensor,
                    expected: format!(
                        "float32 [{planes}, h, w] with h and w those of the input, {input}, divided by a stride of 8, 16 or 32"
                    ),
                    advice,
                }
            })?;
            grids.push(AnchoredGrid {
                grid,
                anchors: anchors.as_slice().into(),
                scale_x_y: *scale_x_y,
            });
        }
        Ok(Self {
            grids: grids.into(),
            classes,
        })
    }
}

impl OutputDecoder for DarknetGrids {
    /// Of cells whose objectness is below `threshold` nothing else is read.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let planes = BEFORE_CLASSES + self.classes;
        let least = min_logit(threshold);
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        let mut before = 0;
        for (tensor, anchored) in self.grids.iter().enumerate() {
            let cells = anchored.grid.cells();
            let output = floats(tensors, tensor, anchored.anchors.len() * planes * cells);
            let first = before;
            for (anchor, output) in anchored
                .anchors
                .iter()
                .zip(output.chunks_exact(planes * cells))
            {
                let objectness = &output[OBJECTNESS * cells..][..cells];
                for (cell, objectness) in objectness.iter().enumerate() {
                    // Written so that NaN and both infinities are not skipped.
                    if *objectness < least && *objectness > f32::NEG_INFINITY {
                        continue;
                    }
                    let number = |plane: usize| output[plane * cells + cell];
                    let raw = [0, 1, 2, 3].map(number);
                    let xyxy = anchored.decode_box(raw, cell, *anchor);
                    let wrong = (OBJECTNESS..planes).find(|plane| !number(*plane).is_finite());
                    if let Some(plane) = first_non_finite(&raw, &xyxy).or(wrong) {
                        // Anchors of a grid are consecutive, as `before` counts them.
                        let index = (before - first) * planes + plane * cells + cell;
                        collector.report_non_finite(tensor, index);
                        continue;
                    }
                    let classes = (BEFORE_CLASSES..planes).map(number);
                    let best = classes.clone().fold(f32::NEG_INFINITY, f32::max);
                    let score = sigmoid(*objectness) * sigmoid(best);
                    collector.push(before + cell, argmax(classes, best), score, xyxy);
                }
                before += cells;
            }
        }
        collector.decoded
    }
}

impl AnchoredGrid {
    /// The box of a cell and an anchor in input pixels.
    fn decode_box(&self, [x, y, w, h]: [f32; 4], cell: usize, anchor: [f32; 2]) -> [f32; 4] {
        let [column, line] = self.grid.cell(cell);
        let stride = self.grid.stride as f32;
        let inside = |number: f32| self.scale_x_y * sigmoid(number) - (self.scale_x_y - 1.0) * 0.5;
        from_center([
            (inside(x) + column) * stride,
            (inside(y) + line) * stride,
            w.exp() * anchor[0],
            h.exp() * anchor[1],
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_near, check_refused, place};

    const INPUT: Size = Size::new(64, 32);
    const PLANES: usize = 5 + 2;
    /// Two cells of stride 32 with two anchors, and eight of stride 16 with one.
    const CELLS: [usize; 2] = [2, 8];

    fn decoder(shapes: &[TensorShape<'_>]) -> Result<DarknetGrids, Mismatch> {
        let parameters = DarknetGridsParameters {
            anchors: vec![vec![[40.0, 20.0], [10.0, 12.0]], vec![[6.0, 8.0]]],
            scale_x_y: vec![1.0, 1.2],
        };
        DarknetGrids::new(&parameters, INPUT, 2, shapes)
    }

    /// The objectness of all cells is low.
    fn fixture() -> DecoderFixture<DarknetGrids> {
        let axes = vec![vec![2 * PLANES, 1, 2], vec![PLANES, 2, 4]];
        let mut fixture = DecoderFixture::new(axes, decoder);
        for (grid, anchors) in [(0, 2), (1, 1)] {
            for cell in 0..CELLS[grid] {
                fixture.put(
                    grid,
                    4 * CELLS[grid] + cell,
                    PLANES * CELLS[grid],
                    &[-9.0, -9.0][..anchors],
                );
            }
        }
        fixture
    }

    impl DecoderFixture<DarknetGrids> {
        fn set(&mut self, grid: usize, anchor: usize, cell: usize, numbers: [f32; PLANES]) {
            let cells = CELLS[grid];
            self.put(grid, anchor * PLANES * cells + cell, cells, &numbers);
        }
    }

    #[test]
    fn each_anchor_of_each_grid_gives_its_box() {
        let mut fixture = fixture();
        let (log2, log3) = (2.0_f32.ln(), 3.0_f32.ln());
        // σ(0) is a half and σ(ln 3) three quarters.
        fixture.set(0, 1, 1, [0.0, 0.0, log2, 0.0, log3, 0.0, log3]);
        fixture.set(1, 0, 6, [log3, 0.0, 0.0, log2, 20.0, 20.0, 0.0]);
        let (candidates, decoded) = fixture.decode(0.3);
        assert_eq!(decoded, DecodeDiagnostics::default());
        let wanted = [
            // Anchor 10×12 at 1.5, 0.5 cells of 32: 20×12 around 48, 16.
            candidate(3, 1, 0.5625, [38.0, 10.0, 58.0, 22.0]),
            // Anchor 6×8 in column 2, row 1: x at 1.2·0.75 - 0.1 of its cell, so 6×16 around 44.8, 24.
            candidate(10, 0, 1.0, [41.8, 16.0, 47.8, 32.0]),
        ];
        check_near(&candidates, &wanted);
        let of_a = fixture.decode_with_labels(0.3, &["a", "b"], &["a"]).0;
        assert_eq!(of_a, candidates[1..], "the other class is filtered");
    }

    #[test]
    fn the_threshold_is_included_wherever_it_is() {
        let mut fixture = fixture();
        let count = |fixture: &DecoderFixture<_>, threshold| fixture.decode(threshold).0.len();
        // σ of both is exactly one half: a quarter.
        fixture.set(0, 0, 0, [0.0; PLANES]);
        assert_eq!((count(&fixture, 0.25), count(&fixture, 0.250_01)), (1, 0));
        fixture.set(0, 0, 0, [0.0, 0.0, 0.0, 0.0, 40.0, 40.0, 0.0]);
        assert_eq!((count(&fixture, 1.0), count(&fixture, 0.0)), (1, 2 * 2 + 8));
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let mut fixture = fixture();
        fixture.set(0, 1, 1, [0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 0.0]);
        fixture.check_non_finite(0.3, (0..PLANES).map(|plane| (0, (PLANES + plane) * 2 + 1)));
        fixture.set(1, 0, 2, [0.0, 0.0, 3.0, 100.0, 5.0, 5.0, 0.0]);
        assert_eq!(fixture.decode(0.3).1.first_non_finite, place(1, 3 * 8 + 2));
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
}
