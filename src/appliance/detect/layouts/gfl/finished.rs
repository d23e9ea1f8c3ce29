// SPDX-License-Identifier: Apache-2.0
//! PicoDet exported with its postprocessing: final boxes, one per row. Pure; the only code that knows this layout.
//!
//! `[K, 6]` with rows `[class, score, left, top, right, bottom]`, suppressed in the network. How many rows there are
//! may change from image to image; padding rows have a class below 0. The boxes are in input
//! pixels, since the network gets a scale of 1 for its input.

use super::super::OutputLayout;
use crate::decoders::boxes::{BoxUnit, first_unbounded, from_corners};
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::{Candidate, ClassFilter};
use jetwatch_types::Size;

/// One tensor of finished boxes, which needs no parameters.
#[derive(Debug)]
pub struct FinishedRows;

impl OutputLayout for FinishedRows {
    fn create_decoder(
        &self,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Box<dyn OutputDecoder>, Mismatch> {
        Ok(Box::new(PicoDetNms::new(input, classes, shapes)?))
    }

    fn rows_vary(&self) -> bool {
        true
    }
}

/// Numbers of a row.
const ROW: usize = 6;

/// Final boxes, one per row.
#[derive(Debug, Clone)]
pub struct PicoDetNms {
    classes: usize,
    unit: [f32; 2],
}

impl PicoDetNms {
    /// A decoder for the tensor `shapes`.
    ///
    /// # Errors
    /// There is not exactly one tensor `[rows, 6]`.
    pub fn new(input: Size, classes: usize, shapes: &[TensorShape<'_>]) -> Result<Self, Mismatch> {
        check_count(shapes, 1, "finished boxes")?;
        let advice = "PicoDet with its post-processing gives [class, score, left, top, right, bottom] in each row; without \
                      it, name the tensors of scores and boxes in output";
        let wanted = [(None, "boxes"), (Some(ROW), "numbers")];
        check_axes(shapes, 0, DType::F32, &wanted, advice)?;
        Ok(Self {
            classes,
            unit: BoxUnit::Pixels.pixels(input),
        })
    }
}

impl OutputDecoder for PicoDetNms {
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        let TensorView::F32(numbers) = tensors[0] else {
            panic!("the tensor was checked to hold 32-bit floats");
        };
        let (rows, rest) = numbers.as_chunks::<ROW>();
        assert!(rest.is_empty(), "rows of {ROW} numbers");
        for (index, row) in rows.iter().enumerate() {
            let [class, score, box_of @ ..] = *row;
            // Padding rows have no valid score either.
            if class < 0.0 && class.is_finite() {
                continue;
            }
            let first = index * ROW;
            if !is_valid(score) {
                collector.report_invalid(0, [(first + 1, score)].into_iter());
                continue;
            }
            if score < collector.threshold {
                continue;
            }
            // A fractional class is invalid. NaN becomes 0 here, and is unequal to it.
            let whole = class as usize;
            if whole as f32 != class || whole >= self.classes {
                collector.report_unknown_class(0, first);
                continue;
            }
            let xyxy = from_corners(box_of, self.unit);
            if let Some(place) = first_unbounded(&box_of, &xyxy) {
                collector.report_non_finite(0, first + 2 + place);
                continue;
            }
            // There are at most 10 000 labels.
            collector.push(index, whole as u16, score, xyxy);
        }
        collector.decoded
    }

    fn needs_suppression(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused, place};

    const INPUT: Size = Size::new(64, 32);

    fn make(shapes: &[TensorShape<'_>]) -> Result<PicoDetNms, Mismatch> {
        PicoDetNms::new(INPUT, 2, shapes)
    }

    fn fixture(rows: &[[f32; ROW]]) -> DecoderFixture<PicoDetNms> {
        let mut fixture = DecoderFixture::new(vec![vec![100, ROW]], make);
        fixture.floats = vec![rows.concat()];
        fixture
    }

    #[test]
    fn picodet_rows_end_at_padding() {
        let fixture_of_four = fixture(&[
            [1.0, 1.02, 1.0, 2.0, 3.0, 4.0],
            [0.0, 0.3, 5.0, 6.0, 7.0, 80.0],
            [0.0, 0.299_999, 5.0, 6.0, 7.0, 8.0],
            [-1.0, 0.9, 5.0, 6.0, 7.0, 8.0],
        ]);
        let wanted = [
            candidate(0, 1, 1.0, [1.0, 2.0, 3.0, 4.0]),
            candidate(1, 0, 0.3, [5.0, 6.0, 7.0, 80.0]),
        ];
        let fine = DecodeDiagnostics::default();
        assert_eq!(fixture_of_four.decode(0.3), (wanted.to_vec(), fine));
        let of_a = fixture_of_four.decode_with_labels(0.3, &["a", "b"], &["a"]);
        assert_eq!(of_a.0, wanted[1..]);
        assert_eq!(fixture(&[]).decode(0.3), (Vec::new(), fine));
        let shape = TensorShape {
            element: DType::F32,
            axes: &[100, ROW],
        };
        assert!(!make(&[shape]).expect("it fits").needs_suppression());
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let good = [1.0, 0.9, 1.0, 2.0, 3.0, 4.0];
        let mut rows = fixture(&[good; 2]);
        rows.check_non_finite(0.3, (1..ROW).map(|index| (0, ROW + index)));
        rows.check_beyond_one(0.3, &[(0, ROW + 1, 1.2), (0, ROW + 1, -0.2)]);
        for class in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.0, 0.5] {
            rows.floats[0][ROW] = class;
            let (candidates, decoded) = rows.decode(0.3);
            let found = (candidates.len(), decoded.first_unknown_class);
            assert_eq!(found, (1, place(0, ROW)), "{class}");
        }
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let (f32, i64, expected) = (DType::F32, DType::I64, "float32 [boxes, 6]");
        #[rustfmt::skip]
        check_refused(make, "", &[
            (&[&[100, 6]], i64, 0, expected),
            (&[&[100, 7]], f32, 0, expected),
            (&[&[6]], f32, 0, expected),
        ]);
    }
}
