//! FastestDet: one grid, one box per cell. Pure; the only code that knows this layout.
//!
//! `[5 + classes, h, w]`: planes of the objectness after its sigmoid, of four raw numbers for the box, and of the classes
//! after their softmax. For the cell in column `gx` and row `gy` of a grid of `w` by `h` cells:
//!
//! ```text
//! center = ((gx + tanh x)/w, (gy + tanh y)/h)     size = (sigmoid of the width, sigmoid of the height)
//! score = objectness^0.6 · best class^0.4
//! ```
//!
//! Center and size are fractions of the input. The exponents are those of the author's inference programs.

use super::activation::sigmoid;
use super::boxes::{BoxUnit, first_unbounded, from_center};
use super::candidates::{CandidateCollector, is_valid};
use super::tensors::{check_axes, check_count, floats};
use super::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::{Candidate, ClassFilter};
use jetwatch_pixels::argmax::{BLOCK, Block, argmax};
use jetwatch_types::Size;

/// Planes before the classes: objectness, x, y, width, height.
const BEFORE_CLASSES: usize = 5;

/// Weight of the objectness in the score.
const OBJECTNESS_POWER: f32 = 0.6;

/// Weight of the class in the score.
const CLASS_POWER: f32 = 0.4;

/// The grid of one network.
#[derive(Debug, Clone)]
pub struct FastestDet {
    columns: usize,
    rows: usize,
    classes: usize,
    unit: [f32; 2],
}

impl FastestDet {
    /// A decoder for the tensor `shapes`; the size of the grid is its.
    ///
    /// # Errors
    /// There is not exactly one tensor, or it does not have five planes and one for each of `classes`.
    pub fn new(input: Size, classes: usize, shapes: &[TensorShape<'_>]) -> Result<Self, Mismatch> {
        check_count(shapes, 1, "objectness, box and classes in one")?;
        let advice =
            "the layout fastestdet has five planes and one for each label: check the labels";
        let wanted = [
            (Some(BEFORE_CLASSES + classes), "planes"),
            (None, "h"),
            (None, "w"),
        ];
        check_axes(shapes, 0, DType::F32, &wanted, advice)?;
        Ok(Self {
            columns: shapes[0].axes[2],
            rows: shapes[0].axes[1],
            classes,
            unit: BoxUnit::Normalized.pixels(input),
        })
    }

    /// Decodes the cell with this index, whose score may reach the threshold.
    fn decode_cell(
        &self,
        planes: &[f32],
        cell: usize,
        block: &Block,
        collector: &mut CandidateCollector<'_>,
    ) {
        let cells = self.columns * self.rows;
        let span = block.span(cell % BLOCK);
        let classes = (BEFORE_CLASSES * cells + cell..planes.len()).step_by(cells);
        let classes = classes.map(|index| (index, planes[index]));
        let objectness = planes[cell];
        if !is_valid(objectness) || !span.is_valid() {
            collector.report_invalid(0, [(cell, objectness)].into_iter().chain(classes));
            return;
        }
        // A value rounded below 0 has no real power.
        let power = |value: f32, power| value.clamp(0.0, 1.0).powf(power);
        let score = power(objectness, OBJECTNESS_POWER) * power(span.max, CLASS_POWER);
        if score < collector.threshold {
            return;
        }
        let place = |number: usize| (1 + number) * cells + cell;
        let raw = [0, 1, 2, 3].map(|number| planes[place(number)]);
        let (column, row) = (cell % self.columns, cell / self.columns);
        let xyxy = from_center(
            [
                (column as f32 + raw[0].tanh()) / self.columns as f32,
                (row as f32 + raw[1].tanh()) / self.rows as f32,
                sigmoid(raw[2]),
                sigmoid(raw[3]),
            ],
            self.unit,
        );
        if let Some(number) = first_unbounded(&raw, &xyxy) {
            collector.report_non_finite(0, place(number));
            return;
        }
        let class = argmax(classes.map(|(_, score)| score), span.max);
        collector.push(cell, class, score, xyxy);
    }
}

impl OutputDecoder for FastestDet {
    /// Of cells whose objectness cannot reach the threshold nothing else is read.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        let cells = self.columns * self.rows;
        let planes = floats(tensors, 0, (BEFORE_CLASSES + self.classes) * cells);
        let (objectness, classes) = (&planes[..cells], &planes[BEFORE_CLASSES * cells..]);
        // For a best class of 1; slightly less, because rounding must not lose the threshold itself.
        let least = threshold.powf(1.0 / OBJECTNESS_POWER) * 0.999;
        let passes = |value: f32| value >= least || !is_valid(value);
        let mut block = Block::new();
        for first in (0..cells).step_by(BLOCK) {
            let count = BLOCK.min(cells - first);
            let part = &objectness[first..first + count];
            if !part.iter().copied().any(passes) {
                continue;
            }
            block.read(classes, cells, first, count);
            for (offset, value) in part.iter().copied().enumerate() {
                if passes(value) {
                    self.decode_cell(planes, first + offset, &block, &mut collector);
                }
            }
        }
        collector.decoded
    }
}

#[cfg(test)]
mod tests {
    use super::super::ElementIndex;
    use super::super::fixture::{DecoderFixture, candidate, names};
    use super::*;

    /// 24 × 8 cells: more than a block.
    const CELLS: usize = 192;
    const INPUT: Size = Size::new(384, 128);

    fn fixture() -> DecoderFixture<FastestDet> {
        DecoderFixture::new(vec![vec![7, 8, 24]], |shapes| {
            FastestDet::new(INPUT, 2, shapes)
        })
    }

    /// Objectness, x, y, width, height and two classes of one cell.
    fn set(fixture: &mut DecoderFixture<FastestDet>, cell: usize, numbers: [f32; 7]) {
        for (plane, number) in numbers.into_iter().enumerate() {
            fixture.floats[0][plane * CELLS + cell] = number;
        }
    }

    #[test]
    fn a_cell_gives_its_box_and_the_threshold_is_included() {
        let mut fixture = fixture();
        // Column 2, row 1: 32, 16; half of the input in both directions.
        set(&mut fixture, 26, [0.5, 0.0, 0.0, 0.0, 0.0, 0.2, 0.8]);
        // The last cell, in the second block, moved by almost a cell: column 23, row 7.
        set(&mut fixture, 191, [1.01, 9.0, -9.0, -40.0, 0.0, 1.0, 0.0]);
        set(&mut fixture, 27, [0.5, 0.0, 0.0, 0.0, 0.0, 0.2, 0.799]);
        // The objectness alone would pass.
        set(&mut fixture, 28, [0.99, 0.0, 0.0, 0.0, 0.0, 0.1, -0.01]);
        let score = 0.5_f32.powf(0.6) * 0.8_f32.powf(0.4);
        let (candidates, decoded) = fixture.decode(score);
        let wanted = [
            candidate(26, 1, score, [-64.0, -16.0, 128.0, 48.0]),
            candidate(191, 0, 1.0, [384.0, 64.0, 384.0, 128.0]),
        ];
        assert_eq!(candidates.len(), 2);
        for (found, wanted) in candidates.iter().zip(&wanted) {
            assert_eq!(
                (found.cell, found.class, found.score),
                (wanted.cell, wanted.class, wanted.score)
            );
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-3;
            assert!(found.xyxy.iter().zip(&wanted.xyxy).all(near), "{found:?}");
        }
        assert_eq!(decoded, DecodeDiagnostics::default());
        let (candidates, _) =
            fixture.decode_with_labels(score, &names(&["a", "b"]), &names(&["a"]));
        assert_eq!(candidates.len(), 1);
        assert_eq!(candidates[0].cell, 191);
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let good = [0.9, 0.0, 0.0, 0.0, 0.0, 0.8, 0.1];
        for plane in 0..7 {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut fixture = fixture();
                set(&mut fixture, 3, good);
                set(&mut fixture, 150, good);
                let index = plane * CELLS + 150;
                fixture.floats[0][index] = bad;
                let (candidates, decoded) = fixture.decode(0.3);
                assert_eq!(
                    (candidates.len(), decoded.non_finite),
                    (1, 1),
                    "{bad} in {plane}"
                );
                assert_eq!(
                    decoded.first_non_finite,
                    Some(ElementIndex { tensor: 0, index })
                );
            }
        }
        for (plane, bad) in [(0, 5.0), (0, -5.0), (5, 5.0), (6, -5.0)] {
            let mut fixture = fixture();
            set(&mut fixture, 150, good);
            let index = plane * CELLS + 150;
            fixture.floats[0][index] = bad;
            let (candidates, decoded) = fixture.decode(0.3);
            let place = Some(ElementIndex { tensor: 0, index });
            assert_eq!((candidates, decoded.first_beyond_one), (Vec::new(), place));
        }
        // What does not pass is not looked at.
        let mut fixture = fixture();
        set(
            &mut fixture,
            150,
            [0.05, f32::NAN, 0.0, 0.0, 0.0, f32::NAN, 9.0],
        );
        assert_eq!(
            fixture.decode(0.3),
            (Vec::new(), DecodeDiagnostics::default())
        );
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        for (element, axes) in [
            (DType::F32, &[8, 8, 24][..]),
            (DType::F32, &[7, 192]),
            (DType::I64, &[7, 8, 24]),
        ] {
            let mismatch = FastestDet::new(INPUT, 2, &[TensorShape { element, axes }]);
            let mismatch = mismatch.expect_err("it does not fit");
            assert_eq!(
                (mismatch.tensor, mismatch.expected.as_str()),
                (0, "float32 [7, h, w]")
            );
        }
    }
}
