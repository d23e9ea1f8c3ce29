//! PicoDet exported with its postprocessing: final boxes, one per row. Pure; the only code that knows this layout.
//!
//! `[K, 6]` with rows `[class, score, left, top, right, bottom]`, suppressed in the network. How many rows there are
//! may change from image to image; padding rows have a class below 0. The boxes are in input
//! pixels, since the network gets a scale of 1 for its input.

use super::boxes::{BoxUnit, first_unbounded, from_corners};
use super::candidates::{CandidateCollector, is_valid};
use super::tensors::{check_axes, check_count};
use super::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::{Candidate, ClassFilter};
use jetwatch_types::Size;

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
    use super::super::ElementIndex;
    use super::super::fixture::{candidate, decode, names};
    use super::*;

    const INPUT: Size = Size::new(64, 32);

    fn decoder(element: DType, axes: &[usize]) -> Result<PicoDetNms, Mismatch> {
        PicoDetNms::new(INPUT, 2, &[TensorShape { element, axes }])
    }

    fn found(rows: &[[f32; ROW]], kept: &[&str]) -> (Vec<Candidate>, DecodeDiagnostics) {
        let decoder = decoder(DType::F32, &[100, ROW]).expect("it fits");
        assert!(!decoder.needs_suppression());
        let numbers = rows.concat();
        let (labels, kept) = (names(&["a", "b"]), names(kept));
        decode(&decoder, &[TensorView::F32(&numbers)], 0.3, &labels, &kept)
    }

    #[test]
    fn picodet_rows_end_at_padding() {
        let rows = [
            [1.0, 1.02, 1.0, 2.0, 3.0, 4.0],
            [0.0, 0.3, 5.0, 6.0, 7.0, 80.0],
            [0.0, 0.299_999, 5.0, 6.0, 7.0, 8.0],
            [-1.0, 0.9, 5.0, 6.0, 7.0, 8.0],
        ];
        let wanted = [
            candidate(0, 1, 1.0, [1.0, 2.0, 3.0, 4.0]),
            candidate(1, 0, 0.3, [5.0, 6.0, 7.0, 80.0]),
        ];
        assert_eq!(
            found(&rows, &[]),
            (wanted.to_vec(), DecodeDiagnostics::default())
        );
        assert_eq!(found(&rows, &["a"]).0, wanted[1..]);
        assert_eq!(found(&[], &[]), (Vec::new(), DecodeDiagnostics::default()));
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let good = [1.0, 0.9, 1.0, 2.0, 3.0, 4.0];
        for (place, bad) in (0..ROW)
            .flat_map(|place| [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|bad| (place, bad)))
        {
            let mut rows = [good; 2];
            rows[1][place] = bad;
            let (candidates, decoded) = found(&rows, &[]);
            assert_eq!(candidates.len(), 1, "{bad} at {place}");
            let expected_decoded = match place {
                0 => decoded.first_unknown_class,
                _ => decoded.first_non_finite,
            };
            let index = ROW + place;
            assert_eq!(
                expected_decoded,
                Some(ElementIndex { tensor: 0, index }),
                "{bad} at {place}"
            );
        }
        for class in [2.0, 0.5] {
            let mut rows = [good; 2];
            rows[1][0] = class;
            let place = ElementIndex {
                tensor: 0,
                index: ROW,
            };
            assert_eq!(found(&rows, &[]).1.first_unknown_class, Some(place));
        }
        for score in [1.2, -0.2] {
            let mut rows = [good; 2];
            rows[1][1] = score;
            let place = ElementIndex {
                tensor: 0,
                index: ROW + 1,
            };
            assert_eq!(found(&rows, &[]).1.first_beyond_one, Some(place));
        }
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        for (element, axes) in [
            (DType::I64, &[100, 6][..]),
            (DType::F32, &[100, 7]),
            (DType::F32, &[6]),
        ] {
            let mismatch = decoder(element, axes).expect_err("it does not fit");
            assert_eq!(
                (mismatch.tensor, mismatch.expected.as_str()),
                (0, "float32 [boxes, 6]")
            );
        }
    }
}
