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

use super::activation::{min_logit, sigmoid};
use super::candidates::CandidateCollector;
use super::grids::Grid;
use super::rows::{BEFORE_CLASSES, first_non_finite, from_center};
use super::tensors::{check_axes, floats};
use super::{
    Candidate, ClassFilter, DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape,
    TensorView,
};
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
    use super::super::ElementIndex;
    use super::super::fixture::{self, names};
    use super::*;

    const INPUT: Size = Size::new(64, 32);
    const PLANES: usize = 5 + 2;

    fn parameters() -> DarknetGridsParameters {
        DarknetGridsParameters {
            anchors: vec![vec![[40.0, 20.0], [10.0, 12.0]], vec![[6.0, 8.0]]],
            scale_x_y: vec![1.0, 1.2],
        }
    }

    fn shaped(first: &[usize], second: &[usize]) -> Result<DarknetGrids, Mismatch> {
        let shape = |axes| TensorShape {
            element: DType::F32,
            axes,
        };
        DarknetGrids::new(&parameters(), INPUT, 2, &[shape(first), shape(second)])
    }

    /// Two cells of stride 32 with two anchors, and eight of stride 16 with one. Objectness of all is low.
    fn outputs() -> [Vec<f32>; 2] {
        [(2, 2), (8, 1)].map(|(cells, anchors): (usize, usize)| {
            let plane = |plane: usize| vec![if plane % PLANES == 4 { -9.0 } else { 0.0 }; cells];
            (0..anchors * PLANES).flat_map(plane).collect()
        })
    }

    fn set(output: &mut [f32], cells: usize, anchor: usize, cell: usize, numbers: [f32; PLANES]) {
        for (plane, number) in numbers.into_iter().enumerate() {
            output[(anchor * PLANES + plane) * cells + cell] = number;
        }
    }

    fn decode(
        outputs: &[Vec<f32>; 2],
        threshold: f32,
        kept: &[&str],
    ) -> (Vec<Candidate>, DecodeDiagnostics) {
        let decoder = shaped(&[2 * PLANES, 1, 2], &[PLANES, 2, 4]).expect("the shapes are right");
        let tensors = outputs.each_ref().map(|output| TensorView::F32(output));
        fixture::decode(
            &decoder,
            &tensors,
            threshold,
            &names(&["a", "b"]),
            &names(kept),
        )
    }

    #[test]
    fn each_anchor_of_each_grid_gives_its_box() {
        let mut outputs = outputs();
        let (log2, log3) = (2.0_f32.ln(), 3.0_f32.ln());
        // σ(0) is a half and σ(ln 3) three quarters.
        set(
            &mut outputs[0],
            2,
            1,
            1,
            [0.0, 0.0, log2, 0.0, log3, 0.0, log3],
        );
        set(
            &mut outputs[1],
            8,
            0,
            6,
            [log3, 0.0, 0.0, log2, 20.0, 20.0, 0.0],
        );
        let (candidates, decoded) = decode(&outputs, 0.3, &[]);
        assert_eq!(decoded, DecodeDiagnostics::default());
        assert_eq!(candidates.len(), 2);
        let wanted = [
            // Anchor 10×12 at 1.5, 0.5 cells of 32: 20×12 around 48, 16.
            (3, 1, 0.5625, [38.0, 10.0, 58.0, 22.0]),
            // Anchor 6×8 in column 2, row 1: x at 1.2·0.75 - 0.1 of its cell, so 6×16 around 44.8, 24.
            (10, 0, 1.0, [41.8, 16.0, 47.8, 32.0]),
        ];
        for (found, (cell, class, score, xyxy)) in candidates.iter().zip(wanted) {
            assert_eq!((found.cell, found.class), (cell, class));
            assert!((found.score - score).abs() < 1e-6, "{found:?}");
            let near = found
                .xyxy
                .iter()
                .zip(xyxy)
                .all(|(a, b)| (a - b).abs() < 1e-4);
            assert!(near, "{found:?} instead of {xyxy:?}");
        }
        let (candidates, _) = decode(&outputs, 0.3, &["a"]);
        assert_eq!(candidates.len(), 1, "the other class is filtered");
    }

    #[test]
    fn the_threshold_is_included_wherever_it_is() {
        let mut outputs = outputs();
        // σ of both is exactly one half: a quarter.
        set(&mut outputs[0], 2, 0, 0, [0.0; PLANES]);
        assert_eq!(decode(&outputs, 0.25, &[]).0.len(), 1);
        assert_eq!(decode(&outputs, 0.250_01, &[]).0.len(), 0);
        set(
            &mut outputs[0],
            2,
            0,
            0,
            [0.0, 0.0, 0.0, 0.0, 40.0, 40.0, 0.0],
        );
        assert_eq!(decode(&outputs, 1.0, &[]).0.len(), 1);
        assert_eq!(decode(&outputs, 0.0, &[]).0.len(), 2 * 2 + 8);
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        for plane in 0..PLANES {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut outputs = outputs();
                let mut numbers = [0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 0.0];
                numbers[plane] = bad;
                set(&mut outputs[0], 2, 1, 1, numbers);
                let (candidates, decoded) = decode(&outputs, 0.3, &[]);
                let wanted = ElementIndex {
                    tensor: 0,
                    index: (PLANES + plane) * 2 + 1,
                };
                let expected_decoded = (
                    candidates.len(),
                    decoded.non_finite,
                    decoded.first_non_finite,
                );
                assert_eq!(
                    expected_decoded,
                    (0, 1, Some(wanted)),
                    "{bad} in plane {plane}"
                );
            }
        }
        let mut outputs = outputs();
        set(
            &mut outputs[1],
            8,
            0,
            2,
            [0.0, 0.0, 3.0, 100.0, 5.0, 5.0, 0.0],
        );
        let wanted = ElementIndex {
            tensor: 1,
            index: 3 * 8 + 2,
        };
        assert_eq!(decode(&outputs, 0.3, &[]).1.first_non_finite, Some(wanted));
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let right = [PLANES, 2, 4];
        let cases = [
            (&[PLANES, 1, 2][..], &right[..], 0, "float32 [14, h, w]"),
            (&[2 * PLANES, 2], &right, 0, "float32 [14, h, w]"),
            (
                &[2 * PLANES, 1, 2],
                &[PLANES, 4, 2],
                1,
                "float32 [7, h, w] with h and w those of the input, 64×32",
            ),
        ];
        for (first, second, tensor, expected) in cases {
            let mismatch = shaped(first, second).expect_err(expected);
            assert_eq!(mismatch.tensor, tensor);
            assert!(
                mismatch.expected.starts_with(expected),
                "{}",
                mismatch.expected
            );
            assert!(
                mismatch.advice.contains("labels (2)"),
                "{}",
                mismatch.advice
            );
        }
    }
}
