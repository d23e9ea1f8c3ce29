//! The raw output of YOLOX as boxes in input pixels. Pure; the only place that knows this layout.
//!
//! The output holds one row for each cell of three grids over the input, of strides 8, 16 and 32 pixels, each row by
//! row. A row is `[x, y, w, h, objectness, class 0, class 1, …]`; objectness and classes went through a sigmoid in the
//! network. For the cell in column `gx` and row `gy` of the grid with stride `s`:
//!
//! ```text
//! center = ((x + gx)·s, (y + gy)·s)     size = (eʷ·s, eʰ·s)     score = objectness · best class
//! ```

use super::{Candidate, ClassFilter};
use crate::types::Size;

/// Pixels from cell to cell in the three grids.
const STRIDES: [u32; 3] = [8, 16, 32];

/// Numbers of a row before the classes.
const BEFORE_CLASSES: usize = 5;

/// Classes that one step of the search compares side by side; two AVX registers, four of NEON or SSE.
const LANES: usize = 16;

/// Objectness and classes are at most 1; 8-bit networks round a little beyond.
const HIGHEST: f32 = 1.05;

/// The grids over one input size for one number of classes.
#[derive(Debug, Clone)]
pub struct Yolox {
    /// Column, row and stride of each cell, in the order of the output.
    cells: Box<[[f32; 3]]>,
    classes: usize,
}

/// What one output holds besides candidates.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Decoded {
    /// Rows that were looked at and hold a NaN, an infinity or a box beyond all bounds. They are no candidates.
    pub non_finite: usize,
    /// Place of the first such number in the output.
    pub first_non_finite: Option<usize>,
    /// Place of the first objectness or class above 1: a network that was exported without its sigmoid.
    pub first_beyond_one: Option<usize>,
}

impl Yolox {
    /// The grids over `input`, whose sides are multiples of 32, with at least one class.
    #[must_use]
    pub fn new(input: Size, classes: usize) -> Self {
        let grid = |stride: u32| {
            let columns = input.width / stride;
            (0..input.height / stride)
                .flat_map(move |y| (0..columns).map(move |x| [x as f32, y as f32, stride as f32]))
        };
        Self {
            cells: STRIDES.into_iter().flat_map(grid).collect(),
            classes,
        }
    }

    /// Rows of the output for one picture.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Numbers in a row of the output.
    #[must_use]
    pub fn row_len(&self) -> usize {
        BEFORE_CLASSES + self.classes
    }

    /// Replaces `candidates` by the rows of `output` whose score is at least `threshold` and whose class `filter`
    /// keeps, in the order of the output, boxes as `xyxy` in input pixels, unclipped.
    ///
    /// Rows whose objectness is below `threshold` are not looked at any further: neither their classes nor their boxes
    /// can become a detection. Panics when `output` does not hold [`cells`](Self::cells) rows of
    /// [`row_len`](Self::row_len) numbers.
    pub fn decode(
        &self,
        output: &[f32],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> Decoded {
        let row_len = self.row_len();
        assert_eq!(
            output.len(),
            self.cells.len() * row_len,
            "numbers in the output of one picture"
        );
        candidates.clear();
        let mut decoded = Decoded::default();
        for (index, (row, cell)) in output.chunks_exact(row_len).zip(&self.cells).enumerate() {
            let objectness = row[4];
            // Written so that NaN and both infinities are looked at.
            if objectness < threshold && objectness > f32::NEG_INFINITY {
                continue;
            }
            let (class, best, sum) = best_class(&row[BEFORE_CLASSES..]);
            let xyxy = place(row, cell);
            // The raw box too: a width of -∞ would give a box that is finite and empty.
            let finite = objectness.is_finite()
                && sum.is_finite()
                && row[..4]
                    .iter()
                    .chain(&xyxy)
                    .all(|number| number.is_finite());
            if !finite {
                decoded.non_finite += 1;
                decoded
                    .first_non_finite
                    .get_or_insert_with(|| index * row_len + first_non_finite(row));
                continue;
            }
            if objectness > HIGHEST || best > HIGHEST {
                let within = if objectness > HIGHEST {
                    4
                } else {
                    BEFORE_CLASSES + usize::from(class)
                };
                decoded
                    .first_beyond_one
                    .get_or_insert(index * row_len + within);
                continue;
            }
            let score = (objectness * best).min(1.0);
            if score >= threshold && filter.keeps(class) {
                // At most 3 · (4096 / 8)² cells.
                candidates.push(Candidate {
                    cell: index as u32,
                    class,
                    score,
                    xyxy,
                });
            }
        }
        decoded
    }
}

/// The box of a row in input pixels.
fn place(row: &[f32], [column, line, stride]: &[f32; 3]) -> [f32; 4] {
    let (x, y) = ((row[0] + column) * stride, (row[1] + line) * stride);
    let (half_w, half_h) = (row[2].exp() * stride * 0.5, row[3].exp() * stride * 0.5);
    [x - half_w, y - half_h, x + half_w, y + half_h]
}

/// The first best class with its value, and the sum of all, which is finite only if each of them is.
///
/// Two passes, the first without branches: the compiler turns it into vector instructions, which a search that carries
/// the index along would prevent.
fn best_class(classes: &[f32]) -> (u16, f32, f32) {
    let mut most = [f32::NEG_INFINITY; LANES];
    let mut sums = [0.0_f32; LANES];
    let (full, rest) = classes.as_chunks::<LANES>();
    for chunk in full {
        for lane in 0..LANES {
            most[lane] = if chunk[lane] > most[lane] {
                chunk[lane]
            } else {
                most[lane]
            };
            sums[lane] += chunk[lane];
        }
    }
    let best = rest
        .iter()
        .chain(&most)
        .copied()
        .fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = rest.iter().chain(&sums).sum();
    // Not found only if every class is NaN, and then the sum says so.
    let class = classes.iter().position(|value| *value == best).unwrap_or(0);
    // The labels, and with them the classes, are at most 10 000.
    (class as u16, best, sum)
}

/// Place in `row` of the first number that is not finite, or of the width or height that is beyond all bounds.
fn first_non_finite(row: &[f32]) -> usize {
    let found = row.iter().position(|value| !value.is_finite());
    found.unwrap_or(if row[2] > row[3] { 2 } else { 3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: Size = Size::new(64, 32);
    /// 8·4 + 4·2 + 2·1 cells.
    const CELLS: usize = 42;

    fn keep_all() -> ClassFilter {
        ClassFilter::new(&[], &[]).expect("nothing to look up")
    }

    /// An output of which every number is 0.
    fn blank(yolox: &Yolox) -> Vec<f32> {
        vec![0.0; yolox.cells() * yolox.row_len()]
    }

    fn set(output: &mut [f32], yolox: &Yolox, cell: usize, row: &[f32]) {
        let start = cell * yolox.row_len();
        output[start..start + row.len()].copy_from_slice(row);
    }

    fn decode(yolox: &Yolox, output: &[f32], threshold: f32) -> (Vec<Candidate>, Decoded) {
        let mut candidates = vec![Candidate {
            cell: 99,
            class: 9,
            score: 9.0,
            xyxy: [9.0; 4],
        }];
        let decoded = yolox.decode(output, threshold, &keep_all(), &mut candidates);
        (candidates, decoded)
    }

    #[test]
    fn cells_are_the_sum_of_the_three_grids() {
        assert_eq!(Yolox::new(INPUT, 2).cells(), CELLS);
        assert_eq!(Yolox::new(Size::new(416, 416), 80).cells(), 3549);
        assert_eq!(Yolox::new(Size::new(640, 640), 80).cells(), 8400);
        assert_eq!(Yolox::new(Size::new(640, 384), 80).row_len(), 85);
    }

    #[test]
    fn a_cell_of_each_grid_gives_its_box() {
        let yolox = Yolox::new(INPUT, 2);
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
        assert_eq!(decoded, Decoded::default());
    }

    #[test]
    fn the_score_decides_and_its_threshold_is_included() {
        let yolox = Yolox::new(INPUT, 2);
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
    fn only_kept_classes_become_candidates() {
        let yolox = Yolox::new(INPUT, 2);
        let mut output = blank(&yolox);
        set(&mut output, &yolox, 0, &[0.0, 0.0, 0.0, 0.0, 1.0, 0.9, 0.1]);
        set(&mut output, &yolox, 1, &[0.0, 0.0, 0.0, 0.0, 1.0, 0.1, 0.8]);
        let labels = ["a".to_owned(), "b".to_owned()];
        let filter = ClassFilter::new(&labels, &labels[1..]).expect("it is known");
        let mut candidates = Vec::new();
        yolox.decode(&output, 0.3, &filter, &mut candidates);
        assert_eq!(
            candidates
                .iter()
                .map(|candidate| candidate.class)
                .collect::<Vec<_>>(),
            [1]
        );
    }

    #[test]
    fn the_best_class_is_the_first_of_the_greatest_at_every_count() {
        for count in [1, 2, 15, 16, 17, 33, 80, 85] {
            for best in [0, count / 2, count - 1] {
                let mut classes: Vec<f32> =
                    (0..count).map(|i| (i * 7 % 11) as f32 * 0.01).collect();
                classes[best] = 0.9;
                *classes.last_mut().expect("at least one") = 0.9;
                let sum: f32 = classes.iter().sum();
                let found = best_class(&classes);
                assert_eq!(
                    (usize::from(found.0), found.1),
                    (best, 0.9),
                    "{count} classes"
                );
                assert!((found.2 - sum).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_no_detections_and_counted() {
        let row = [0.0, 0.0, 0.0, 0.0, 0.9, 0.8, 0.1];
        for place in 0..row.len() {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let yolox = Yolox::new(INPUT, 2);
                let mut output = blank(&yolox);
                set(&mut output, &yolox, 3, &row);
                set(&mut output, &yolox, 20, &row);
                output[20 * 7 + place] = bad;
                let (candidates, decoded) = decode(&yolox, &output, 0.3);
                assert_eq!(candidates.len(), 1, "{bad} at {place}");
                assert_eq!(
                    (decoded.non_finite, decoded.first_non_finite),
                    (1, Some(20 * 7 + place))
                );
            }
        }
    }

    #[test]
    fn a_width_beyond_all_bounds_counts_as_not_finite() {
        let yolox = Yolox::new(INPUT, 2);
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
            (0, Some(2 * 7 + 3))
        );
    }

    #[test]
    fn scores_without_sigmoid_are_found_and_rounding_is_not() {
        let yolox = Yolox::new(INPUT, 2);
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
        assert_eq!(
            (candidates.len(), decoded.first_beyond_one),
            (1, Some(7 + 6))
        );
    }
}
