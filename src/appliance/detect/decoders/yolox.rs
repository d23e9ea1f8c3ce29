//! The raw output of YOLOX in one tensor, as boxes in input pixels. Pure; [`grids`] reads the same with one tensor per grid.
//!
//! The output holds one row for each cell of three grids over the input, of strides 8, 16 and 32 pixels, each row by
//! row. A row is `[x, y, w, h, objectness, class 0, class 1, …]`; objectness and classes are after a sigmoid in the
//! network. For the cell in column `gx` and row `gy` of the grid with stride `s`:
//!
//! ```text
//! center = ((x + gx)·s, (y + gy)·s)     size = (eʷ·s, eʰ·s)     score = objectness · best class
//! ```
//!
//! [`grids`]: super::yolox_grids

use super::candidates::CandidateCollector;
use super::rows::{self, BEFORE_CLASSES};
use super::tensors::{check_axes, check_count, floats};
use super::{
    Candidate, ClassFilter, DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape,
    TensorView,
};
use jetwatch_types::{Size, Xyxy};

/// Strides of the three grids in pixels.
const STRIDES: [u32; 3] = [8, 16, 32];

/// The grids over one input size for one number of classes.
#[derive(Debug, Clone)]
pub struct Yolox {
    /// Column, row and stride of each cell, in the order of the output.
    cells: Box<[[f32; 3]]>,
    classes: usize,
}

impl Yolox {
    /// The grids over `input`, whose sides are multiples of 32, with at least one class, for `[cells, 5 + classes]`.
    ///
    /// # Errors
    /// There is not exactly one tensor, or it does not have a row of 5 numbers and `classes` for each cell of the grids over `input`.
    pub fn new(input: Size, classes: usize, shapes: &[TensorShape<'_>]) -> Result<Self, Mismatch> {
        let grid = |stride: u32| {
            let columns = input.width / stride;
            (0..input.height / stride)
                .flat_map(move |y| (0..columns).map(move |x| [x as f32, y as f32, stride as f32]))
        };
        let yolox = Self {
            cells: STRIDES.into_iter().flat_map(grid).collect(),
            classes,
        };
        let advice = format!(
            "YOLOX has {} rows for an input of {input} and 5 numbers before the classes; check input size and labels \
             ({classes}) in model.yaml",
            yolox.cells.len()
        );
        let axes = [
            (Some(yolox.cells.len()), "rows"),
            (Some(yolox.row_len()), "numbers"),
        ];
        check_count(shapes, 1, "rows")?;
        check_axes(shapes, 0, DType::F32, &axes, &advice)?;
        Ok(yolox)
    }

    fn row_len(&self) -> usize {
        BEFORE_CLASSES + self.classes
    }
}

impl OutputDecoder for Yolox {
    /// Of rows whose objectness is below `threshold` nothing else is read.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let row_len = self.row_len();
        let output = floats(tensors, 0, self.cells.len() * row_len);
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        rows::decode(output, row_len, &mut collector, |index, raw| {
            decode_box(raw, self.cells[index])
        });
        collector.decoded
    }
}

/// The box of a cell in input pixels, from its four numbers and its column, row and stride.
pub(super) fn decode_box([x, y, w, h]: [f32; 4], [column, line, stride]: [f32; 3]) -> Xyxy {
    let (x, y) = ((x + column) * stride, (y + line) * stride);
    let (half_w, half_h) = (w.exp() * stride * 0.5, h.exp() * stride * 0.5);
    [x - half_w, y - half_h, x + half_w, y + half_h]
}

#[cfg(test)]
mod tests {
    use super::super::ElementIndex;
    use super::*;

    const INPUT: Size = Size::new(64, 32);
    /// 8·4 + 4·2 + 2·1 cells.
    const CELLS: usize = 42;

    fn shaped(input: Size, classes: usize, axes: &[usize]) -> Result<Yolox, Mismatch> {
        let element = DType::F32;
        Yolox::new(input, classes, &[TensorShape { element, axes }])
    }

    fn yolox() -> Yolox {
        shaped(INPUT, 2, &[CELLS, 7]).expect("the shape is right")
    }

    fn at(index: usize) -> Option<ElementIndex> {
        Some(ElementIndex { tensor: 0, index })
    }

    fn keep_all() -> ClassFilter {
        ClassFilter::new(&[], &[]).expect("nothing to look up")
    }

    /// An output of which every number is 0.
    fn blank(yolox: &Yolox) -> Vec<f32> {
        vec![0.0; yolox.cells.len() * yolox.row_len()]
    }

    fn set(output: &mut [f32], yolox: &Yolox, cell: usize, row: &[f32]) {
        let start = cell * yolox.row_len();
        output[start..start + row.len()].copy_from_slice(row);
    }

    fn decode(
        yolox: &Yolox,
        output: &[f32],
        threshold: f32,
    ) -> (Vec<Candidate>, DecodeDiagnostics) {
        let mut candidates = vec![Candidate {
            cell: 99,
            class: 9,
            score: 9.0,
            xyxy: [9.0; 4],
        }];
        let decoded = yolox.decode(
            &[TensorView::F32(output)],
            threshold,
            &keep_all(),
            &mut candidates,
        );
        (candidates, decoded)
    }

    #[test]
    fn cells_are_the_sum_of_the_three_grids() {
        for (side, classes, axes) in [
            (416, 80, [3549, 85]),
            (640, 80, [8400, 85]),
            (64, 2, [84, 7]),
        ] {
            let made = shaped(Size::new(side, side), classes, &axes);
            assert!(made.is_ok(), "{made:?}");
        }
        for axes in [
            &[3549, 84][..],
            &[3548, 85],
            &[85, 3549],
            &[3549 * 85],
            &[1, 3549, 85],
        ] {
            let mismatch = shaped(Size::new(416, 416), 80, axes).expect_err("another shape");
            assert_eq!(
                (mismatch.tensor, mismatch.expected.as_str()),
                (0, "float32 [3549, 85]")
            );
            assert!(
                mismatch.advice.contains("labels (80)"),
                "{}",
                mismatch.advice
            );
        }
    }

    #[test]
    fn one_cell_per_grid_decodes_to_its_box() {
        let yolox = yolox();
        let mut output = blank(&yolox);
        let log2 = 2.0_f32.ln();
        // Stride 8, column 3, row 1: center 28, 12; size 16 × 8.
        set(
            &mut output,
            &yolox,
            8 + 3,
            &[0.5, 0.5, log2, 0.0, 0.5, 0.2, 0.8],
        );
        // Stride 16, column 1, row 1: center 8, 16; size 16 × 32.
        set(
            &mut output,
            &yolox,
            32 + 5,
            &[-0.5, 0.0, 0.0, log2, 1.0, 0.75, 0.5],
        );
        // Stride 32, column 1, row 0: center 64, 32; size 32 × 32.
        set(
            &mut output,
            &yolox,
            41,
            &[1.0, 1.0, 0.0, 0.0, 0.9, 1.0, 1.0],
        );
        let (candidates, decoded) = decode(&yolox, &output, 0.3);
        let wanted = [
            Candidate {
                cell: 11,
                class: 1,
                score: 0.4,
                xyxy: [20.0, 8.0, 36.0, 16.0],
            },
            Candidate {
                cell: 37,
                class: 0,
                score: 0.75,
                xyxy: [0.0, 0.0, 16.0, 32.0],
            },
            Candidate {
                cell: 41,
                class: 0,
                score: 0.9,
                xyxy: [48.0, 16.0, 80.0, 48.0],
            },
        ];
        assert_eq!(candidates.len(), wanted.len());
        for (found, wanted) in candidates.iter().zip(wanted) {
            assert_eq!((found.cell, found.class), (wanted.cell, wanted.class));
            assert!((found.score - wanted.score).abs() < 1e-6, "{found:?}");
            assert!(
                found
                    .xyxy
                    .iter()
                    .zip(wanted.xyxy)
                    .all(|(a, b)| (a - b).abs() < 1e-4),
                "{found:?}"
            );
        }
        assert_eq!(decoded, DecodeDiagnostics::default());
    }

    #[test]
    fn yolox_score_threshold_is_inclusive() {
        let yolox = yolox();
        let mut output = blank(&yolox);
        set(&mut output, &yolox, 0, &[0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.0]);
        set(
            &mut output,
            &yolox,
            1,
            &[0.0, 0.0, 0.0, 0.0, 0.5, 0.499, 0.0],
        );
        set(&mut output, &yolox, 2, &[0.0, 0.0, 0.0, 0.0, 0.2, 1.0, 1.0]);
        let (candidates, _) = decode(&yolox, &output, 0.25);
        assert_eq!(
            candidates
                .iter()
                .map(|candidate| candidate.cell)
                .collect::<Vec<_>>(),
            [0]
        );
    }

    #[test]
    fn only_selected_classes_become_candidates() {
        let yolox = yolox();
        let mut output = blank(&yolox);
        set(&mut output, &yolox, 0, &[0.0, 0.0, 0.0, 0.0, 1.0, 0.9, 0.1]);
        set(&mut output, &yolox, 1, &[0.0, 0.0, 0.0, 0.0, 1.0, 0.1, 0.8]);
        let labels = ["a".to_owned(), "b".to_owned()];
        let filter = ClassFilter::new(&labels, &labels[1..]).expect("it is known");
        let mut candidates = Vec::new();
        yolox.decode(&[TensorView::F32(&output)], 0.3, &filter, &mut candidates);
        assert_eq!(
            candidates
                .iter()
                .map(|candidate| candidate.class)
                .collect::<Vec<_>>(),
            [1]
        );
    }

    #[test]
    fn non_finite_values_are_dropped_and_counted() {
        let row = [0.0, 0.0, 0.0, 0.0, 0.9, 0.8, 0.1];
        for place in 0..row.len() {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let yolox = yolox();
                let mut output = blank(&yolox);
                set(&mut output, &yolox, 3, &row);
                set(&mut output, &yolox, 20, &row);
                output[20 * 7 + place] = bad;
                let (candidates, decoded) = decode(&yolox, &output, 0.3);
                assert_eq!(candidates.len(), 1, "{bad} at {place}");
                assert_eq!(
                    (decoded.non_finite, decoded.first_non_finite),
                    (1, at(20 * 7 + place))
                );
            }
        }
    }

    #[test]
    fn overflowing_width_counts_as_non_finite() {
        let yolox = yolox();
        let mut output = blank(&yolox);
        set(
            &mut output,
            &yolox,
            2,
            &[0.0, 0.0, 0.0, 200.0, 0.9, 0.8, 0.1],
        );
        let (candidates, decoded) = decode(&yolox, &output, 0.3);
        assert_eq!(
            (candidates.len(), decoded.first_non_finite),
            (0, at(2 * 7 + 3))
        );
    }

    #[test]
    fn missing_sigmoid_is_detected_and_rounding_tolerated() {
        let yolox = yolox();
        let mut output = blank(&yolox);
        set(
            &mut output,
            &yolox,
            0,
            &[0.0, 0.0, 0.0, 0.0, 1.004, 1.004, 0.0],
        );
        let (candidates, decoded) = decode(&yolox, &output, 0.3);
        assert_eq!((candidates[0].score, decoded.first_beyond_one), (1.0, None));
        set(&mut output, &yolox, 1, &[0.0, 0.0, 0.0, 0.0, 0.9, 0.0, 3.5]);
        set(&mut output, &yolox, 2, &[0.0, 0.0, 0.0, 0.0, 4.5, 0.0, 0.5]);
        let (candidates, decoded) = decode(&yolox, &output, 0.3);
        assert_eq!((candidates.len(), decoded.first_beyond_one), (1, at(7 + 6)));
    }
}
