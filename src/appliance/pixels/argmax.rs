// SPDX-License-Identifier: Apache-2.0
//! The best score of all classes of a box, and whether all scores are valid. Pure.
//!
//! Most boxes are background, so the decoders first compare the maximum score of all boxes, in loops that the compiler turns
//! into vector instructions, and process only the few that pass. [`Block`] does so where each class has a plane,
//! [`Span::from_row`] where each box has a row. Independent of boxes and thresholds of a layout.

/// Maximum score: 1, plus a tolerance for rounding in 8-bit networks.
pub const MAX_SCORE: f32 = 1.05;

/// Scores are at least 0, with the tolerance of [`MAX_SCORE`] for 8-bit networks.
pub const MIN_SCORE: f32 = -0.05;

/// Boxes per block where classes lie in planes: their working memory fits into the L1 cache.
pub const BLOCK: usize = 128;

/// Classes that are compared in parallel where they lie in rows.
const LANES: usize = 8;

/// The scores of all classes of one box.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The highest score.
    pub max: f32,
    /// The lowest score.
    pub min: f32,
    /// Sum of all scores, finite only if each of them is.
    pub sum: f32,
}

impl Span {
    /// The span of one row, which holds one score per class.
    pub fn from_row(row: &[f32]) -> Self {
        // Three passes over a row in the L1 cache: for a single pass the compiler does not emit vector
        // maxima and minima, and it takes twice as long.
        Self {
            max: reduce(row, f32::NEG_INFINITY, greater),
            min: reduce(row, f32::INFINITY, lesser),
            sum: reduce(row, 0.0, |value, sum| sum + value),
        }
    }

    /// Whether all scores are within [`MIN_SCORE`] and [`MAX_SCORE`].
    pub fn is_valid(&self) -> bool {
        self.sum.is_finite() && self.max <= MAX_SCORE && self.min >= MIN_SCORE
    }
}

/// The spans of up to [`BLOCK`] neighboring boxes whose classes lie in consecutive planes.
#[derive(Debug)]
pub struct Block {
    max: [f32; BLOCK],
    min: [f32; BLOCK],
    sum: [f32; BLOCK],
}

impl Block {
    /// An empty block.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "an empty block is working memory"
    )]
    pub fn new() -> Self {
        Self {
            max: [f32::NEG_INFINITY; BLOCK],
            min: [f32::INFINITY; BLOCK],
            sum: [0.0; BLOCK],
        }
    }

    /// Replaces the spans by those of `count` boxes from `first` on. `planes` holds whole planes of `plane_len` boxes.
    ///
    /// The classes are the outer loop, so that memory is read sequentially, one part of each plane.
    pub fn read(&mut self, planes: &[f32], plane_len: usize, first: usize, count: usize) {
        let (max, min, sum) = (
            &mut self.max[..count],
            &mut self.min[..count],
            &mut self.sum[..count],
        );
        max.fill(f32::NEG_INFINITY);
        min.fill(f32::INFINITY);
        sum.fill(0.0);
        for plane in planes.chunks_exact(plane_len) {
            let values = &plane[first..first + count];
            for (((value, max), min), sum) in
                values.iter().zip(&mut *max).zip(&mut *min).zip(&mut *sum)
            {
                *max = greater(*value, *max);
                *min = lesser(*value, *min);
                *sum += *value;
            }
        }
    }

    /// Span of box number `index` of the block.
    pub fn span(&self, index: usize) -> Span {
        Span {
            max: self.max[index],
            min: self.min[index],
            sum: self.sum[index],
        }
    }
}

/// Reduces `row` with `join` from `start`, in no particular order.
#[inline(always)]
fn reduce(row: &[f32], start: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [start; LANES];
    let (full, rest) = row.as_chunks::<LANES>();
    for chunk in full {
        for lane in 0..LANES {
            lanes[lane] = join(chunk[lane], lanes[lane]);
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        lanes[lane] = join(*value, lanes[lane]);
    }
    // Pairwise: a sequential fold over all SIMD lanes would wait for each result.
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = join(lanes[lane + width], lanes[lane]);
        }
        width /= 2;
    }
    lanes[0]
}

/// The maximum of two numbers, `b` if one is NaN: one instruction, where `f32::max` takes three. The sum reveals the NaN.
#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The minimum of two numbers, `b` if one is NaN.
#[inline(always)]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Index of the first of `scores` that equals `max`, their maximum.
pub fn argmax(scores: impl IntoIterator<Item = f32>, max: f32) -> u16 {
    let found = scores.into_iter().position(|score| score == max);
    // Not found only if all scores are NaN, which is reported before. There are at most 10 000 labels.
    found.unwrap_or(0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i * 37 % 101) as f32 * 0.009).collect()
    }

    fn reference(scores: &[f32]) -> (f32, f32) {
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let min = scores.iter().copied().fold(f32::INFINITY, f32::min);
        (max, min)
    }

    #[test]
    fn a_row_and_its_column_have_the_same_span_at_every_count() {
        for classes in [1, 2, 7, 8, 9, 17, 80] {
            let boxes = 131;
            let planes = values(classes * boxes);
            let mut block = Block::new();
            for (first, count) in [(0, BLOCK), (BLOCK, 3)] {
                block.read(&planes, boxes, first, count);
                for lane in 0..count {
                    let row: Vec<f32> = planes
                        .iter()
                        .skip(first + lane)
                        .step_by(boxes)
                        .copied()
                        .collect();
                    assert_eq!(row.len(), classes);
                    let (of_row, of_column) = (Span::from_row(&row), block.span(lane));
                    assert_eq!((of_row.max, of_row.min), reference(&row));
                    assert_eq!((of_column.max, of_column.min), reference(&row));
                    assert!((of_row.sum - of_column.sum).abs() < 1e-4);
                }
            }
        }
    }

    #[test]
    fn one_bad_score_makes_a_span_invalid_wherever_it_is() {
        let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.06, -0.06];
        for (place, bad) in (0..19).flat_map(|place| bad.map(|bad| (place, bad))) {
            let mut row = values(19);
            assert!(Span::from_row(&row).is_valid());
            row[place] = bad;
            assert!(!Span::from_row(&row).is_valid(), "{bad} at {place}");
            // As planes of one box each.
            let mut block = Block::new();
            block.read(&row, 1, 0, 1);
            assert!(!block.span(0).is_valid(), "{bad} at {place}");
        }
    }

    #[test]
    fn scores_within_rounding_are_valid() {
        assert!(Span::from_row(&[-0.04, 1.04, 0.0, -0.0]).is_valid());
    }

    #[test]
    fn equal_scores_select_first_class() {
        assert_eq!(argmax([0.1, 0.7, 0.7], 0.7), 1);
    }
}
