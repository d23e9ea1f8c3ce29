//! The output of YOLOv5, of YOLOv7 exported with its grid, and of other networks with the same rows. Pure.
//!
//! A row is `[x, y, w, h, objectness, class 0, class 1, …]`: center and size in input pixels, objectness and classes after
//! their sigmoid. The network has applied grids and anchors, so the number of rows depends on the export.
//!
//! ```text
//! box = (x ∓ w/2, y ∓ h/2)     score = objectness · best class
//! ```

use super::candidates::CandidateCollector;
use super::rows::{self, BEFORE_CLASSES, from_center};
use super::tensors::{check_axes, check_count, floats};
use super::{
    Candidate, ClassFilter, DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape,
    TensorView,
};
use jetwatch_types::Size;

/// Rows of boxes in input pixels for one number of classes.
#[derive(Debug, Clone)]
pub struct Yolov5 {
    rows: usize,
    row_len: usize,
}

impl Yolov5 {
    /// For `[rows, 5 + classes]` with any number of rows and any input size.
    ///
    /// # Errors
    /// There is not exactly one tensor, or its rows do not have 5 numbers and one for each of `classes`.
    pub fn new(_input: Size, classes: usize, shapes: &[TensorShape<'_>]) -> Result<Self, Mismatch> {
        let row_len = BEFORE_CLASSES + classes;
        let advice = format!(
            "a row has 5 numbers before the classes; check labels ({classes}) in model.yaml, or set output.layout to \
             yolov8 if there is no objectness"
        );
        let axes = [(None, "rows"), (Some(row_len), "numbers")];
        check_count(shapes, 1, "rows")?;
        check_axes(shapes, 0, DType::F32, &axes, &advice)?;
        let rows = shapes[0].axes[0];
        Ok(Self { rows, row_len })
    }
}

impl OutputDecoder for Yolov5 {
    /// Of rows whose objectness is below `threshold` nothing else is read.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let output = floats(tensors, 0, self.rows * self.row_len);
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        rows::decode(output, self.row_len, &mut collector, |_, raw| {
            from_center(raw)
        });
        collector.decoded
    }
}

#[cfg(test)]
mod tests {
    use super::super::ElementIndex;
    use super::super::fixture::{self, candidate, names};
    use super::*;

    const INPUT: Size = Size::new(64, 64);
    const ROW: usize = 7;

    fn shaped(element: DType, axes: &[usize]) -> Result<Yolov5, Mismatch> {
        Yolov5::new(INPUT, 2, &[TensorShape { element, axes }])
    }

    fn decode(
        rows: &[[f32; ROW]],
        threshold: f32,
        kept: &[&str],
    ) -> (Vec<Candidate>, DecodeDiagnostics) {
        let decoder = shaped(DType::F32, &[rows.len(), ROW]).expect("the shape is right");
        let output = rows.concat();
        let labels = names(&["a", "b"]);
        fixture::decode(
            &decoder,
            &[TensorView::F32(&output)],
            threshold,
            &labels,
            &names(kept),
        )
    }

    #[test]
    fn a_row_is_a_box_around_its_center() {
        let rows = [
            [0.0; ROW],
            [20.0, 30.0, 8.0, 4.0, 0.5, 0.25, 0.5],
            [20.0, 30.0, 8.0, 4.0, 0.5, 0.49, 0.1],
            [1.0, 2.0, 6.0, 8.0, 1.0, 1.0, 1.0],
        ];
        let (candidates, decoded) = decode(&rows, 0.25, &[]);
        let wanted = [
            candidate(1, 1, 0.25, [16.0, 28.0, 24.0, 32.0]),
            candidate(3, 0, 1.0, [-2.0, -2.0, 4.0, 6.0]),
        ];
        assert_eq!(candidates, wanted, "the threshold is included");
        assert_eq!(decoded, DecodeDiagnostics::default());
        let (candidates, _) = decode(&rows, 0.25, &["b"]);
        assert_eq!(candidates, wanted[..1], "the other class is filtered");
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let good = [20.0, 30.0, 8.0, 4.0, 0.9, 0.8, 0.1];
        for place in 0..ROW {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut rows = [good; 3];
                rows[2][place] = bad;
                let (candidates, decoded) = decode(&rows, 0.3, &[]);
                assert_eq!(
                    (candidates.len(), decoded.non_finite),
                    (2, 1),
                    "{bad} at {place}"
                );
                let wanted = ElementIndex {
                    tensor: 0,
                    index: 2 * ROW + place,
                };
                assert_eq!(decoded.first_non_finite, Some(wanted));
            }
        }
        let mut rows = [good; 2];
        rows[1][6] = 1.2;
        let (candidates, decoded) = decode(&rows, 0.3, &[]);
        let wanted = ElementIndex {
            tensor: 0,
            index: ROW + 6,
        };
        assert_eq!(
            (candidates.len(), decoded.first_beyond_one),
            (1, Some(wanted))
        );
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        for axes in [&[100, 8][..], &[100, 6], &[7, 100], &[700], &[1, 100, 7]] {
            let mismatch = shaped(DType::F32, axes).expect_err("another shape");
            assert_eq!(mismatch.expected, "float32 [rows, 7]", "{axes:?}");
            assert!(
                mismatch.advice.contains("labels (2)"),
                "{}",
                mismatch.advice
            );
        }
        let mismatch = shaped(DType::I64, &[100, 7]).expect_err("another type");
        assert_eq!(mismatch.expected, "float32 [rows, 7]");
    }
}
