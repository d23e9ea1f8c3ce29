// SPDX-License-Identifier: Apache-2.0
//! The output of YOLOv5, of YOLOv7 exported with its grid, and of other networks with the same rows. Pure.
//!
//! A row is `[x, y, w, h, objectness, class 0, class 1, …]`: center and size in input pixels, objectness and classes after
//! their sigmoid. The network has applied grids and anchors, so the number of rows depends on the export.
//!
//! ```text
//! box = (x ∓ w/2, y ∓ h/2)     score = objectness · best class
//! ```

use std::sync::Arc;

use super::recognize::{Certainty, FOUR, Outputs, Recognized, THREE};
use super::{CENTERED, DETECTOR, Layout, OutputLayout};
use crate::decoders::candidates::CandidateCollector;
use crate::decoders::rows::{self, BEFORE_CLASSES, from_center};
use crate::decoders::tensors::{check_axes, check_count, floats};
use crate::decoders::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::{Candidate, ClassFilter};
use jetwatch_types::Size;

/// The layout.
pub const YOLOV5: Layout = Layout {
    name: "yolov5",
    networks: "Ultralytics YOLOv5, YOLOv7 with its grid",
    needs: "one output [N, 5 + C] with three rows for every cell of the grids of strides 8, 16 and 32",
    input: CENTERED,
    read: |_, _, _| Some(Arc::new(Rows)),
    recognize,
    ..DETECTOR
};

fn recognize(outputs: &Outputs<'_>) -> Vec<Recognized> {
    let Some(matrix) = outputs.matrix() else {
        return Vec::new();
    };
    let (rows, cells) = (matrix.rows, outputs.cells(&THREE));
    // A raw head has neither: both are part of the decoding of boxes in the network.
    let decodes = outputs.has_operator(&["Exp", "Softmax"]);
    let why = if rows == cells && decodes {
        format!(
            "{cells} cells of strides 8, 16 and 32, and the network decodes the boxes itself, as YOLOX does when it is \
             exported with its decoding, and YOLOv6"
        )
    } else if rows == 3 * cells || rows == 3 * outputs.cells(&FOUR) {
        format!("{rows} = three anchors in each cell, with 5 numbers before the classes")
    } else {
        return Vec::new();
    };
    let classes = matrix.columns.checked_sub(BEFORE_CLASSES as u64);
    let recognized = matrix.recognized(outputs, Certainty::Likely, classes, &why);
    recognized.into_iter().collect()
}

/// Its parameters: none.
#[derive(Debug)]
pub struct Rows;

impl OutputLayout for Rows {
    fn create_decoder(
        &self,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Box<dyn OutputDecoder>, Mismatch> {
        Ok(Box::new(Yolov5::new(input, classes, shapes)?))
    }
}

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
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused};

    const INPUT: Size = Size::new(64, 64);
    const ROW: usize = 7;

    fn fixture(rows: &[[f32; ROW]]) -> DecoderFixture<Yolov5> {
        let mut fixture = DecoderFixture::new(vec![vec![rows.len(), ROW]], |shapes| {
            Yolov5::new(INPUT, 2, shapes)
        });
        fixture.floats = vec![rows.concat()];
        fixture
    }

    #[test]
    fn a_row_is_a_box_around_its_center() {
        let fixture = fixture(&[
            [0.0; ROW],
            [20.0, 30.0, 8.0, 4.0, 0.5, 0.25, 0.5],
            [20.0, 30.0, 8.0, 4.0, 0.5, 0.49, 0.1],
            [1.0, 2.0, 6.0, 8.0, 1.0, 1.0, 1.0],
        ]);
        let (candidates, decoded) = fixture.decode(0.25);
        let wanted = [
            candidate(1, 1, 0.25, [16.0, 28.0, 24.0, 32.0]),
            candidate(3, 0, 1.0, [-2.0, -2.0, 4.0, 6.0]),
        ];
        assert_eq!(candidates, wanted, "the threshold is included");
        assert_eq!(decoded, DecodeDiagnostics::default());
        let of_b = fixture.decode_with_labels(0.25, &["a", "b"], &["b"]).0;
        assert_eq!(of_b, wanted[..1], "the other class is filtered");
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let mut fixture = fixture(&[[20.0, 30.0, 8.0, 4.0, 0.9, 0.8, 0.1]; 3]);
        fixture.check_non_finite(0.3, (0..ROW).map(|index| (0, 2 * ROW + index)));
        fixture.check_beyond_one(0.3, &[(0, ROW + 6, 1.2)]);
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let (f32, i64, expected) = (DType::F32, DType::I64, "float32 [rows, 7]");
        #[rustfmt::skip]
        check_refused(|shapes| Yolov5::new(INPUT, 2, shapes), "labels (2)", &[
            (&[&[100, 8]], f32, 0, expected),
            (&[&[100, 6]], f32, 0, expected),
            (&[&[7, 100]], f32, 0, expected),
            (&[&[700]], f32, 0, expected),
            (&[&[1, 100, 7]], f32, 0, expected),
            (&[&[100, 7]], i64, 0, expected),
        ]);
    }
}
