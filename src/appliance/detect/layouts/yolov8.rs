// SPDX-License-Identifier: Apache-2.0
//! The output of YOLOv8 and YOLO11: planes of boxes and class scores, without objectness. Pure.
//!
//! `[4 + classes, boxes]`: four planes with center x and y, width and height in input pixels, then one plane for each class
//! with its scores after the sigmoid. The numbers of one box are far apart, so the planes are searched in parallel.

use std::sync::Arc;

use super::recognize::{Certainty, Outputs, Recognized, THREE};
use super::{CENTERED, DETECTOR, Layout, OutputLayout};
use crate::decoders::candidates::CandidateCollector;
use crate::decoders::rows::{first_non_finite, from_center};
use crate::decoders::tensors::{check_axes, check_count, floats};
use crate::decoders::{DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape, TensorView};
use crate::{Candidate, ClassFilter};
use jetwatch_pixels::argmax::{BLOCK, Block, argmax};
use jetwatch_types::Size;

/// The layout.
pub const YOLOV8: Layout = Layout {
    name: "yolov8",
    networks: "YOLOv8, YOLO11",
    needs: "one output [4 + C, N] with a column for every cell of the grids of strides 8, 16 and 32",
    input: CENTERED,
    read: |_, _, _| Some(Arc::new(Planes)),
    recognize,
    ..DETECTOR
};

fn recognize(outputs: &Outputs<'_>) -> Vec<Recognized> {
    let cells = outputs.cells(&THREE);
    let recognized = outputs
        .matrix()
        .filter(|matrix| matrix.columns == cells)
        .and_then(|matrix| {
            let why =
                format!("a column for each of {cells} cells, with 4 numbers before the classes");
            let classes = matrix.rows.checked_sub(4);
            matrix.recognized(outputs, Certainty::Likely, classes, &why)
        });
    recognized.into_iter().collect()
}

/// Its parameters: none.
#[derive(Debug)]
pub struct Planes;

impl OutputLayout for Planes {
    fn create_decoder(
        &self,
        input: Size,
        classes: usize,
        shapes: &[TensorShape<'_>],
    ) -> Result<Box<dyn OutputDecoder>, Mismatch> {
        Ok(Box::new(Yolov8::new(input, classes, shapes)?))
    }
}

/// Planes before the classes.
const BEFORE_CLASSES: usize = 4;

/// Planes of boxes in input pixels for one number of classes.
#[derive(Debug, Clone)]
pub struct Yolov8 {
    boxes: usize,
    classes: usize,
}

impl Yolov8 {
    /// For `[4 + classes, boxes]` with any number of boxes and any input size.
    ///
    /// # Errors
    /// There is not exactly one tensor, or it does not have 4 planes and one for each of `classes`.
    pub fn new(_input: Size, classes: usize, shapes: &[TensorShape<'_>]) -> Result<Self, Mismatch> {
        let advice = format!(
            "YOLOv8 has 4 planes before those of the classes; check labels ({classes}) in model.yaml, and export without \
             suppression (nms) in the network"
        );
        let axes = [(Some(BEFORE_CLASSES + classes), "planes"), (None, "boxes")];
        check_count(shapes, 1, "planes")?;
        check_axes(shapes, 0, DType::F32, &axes, &advice)?;
        Ok(Self {
            boxes: shapes[0].axes[1],
            classes,
        })
    }
}

impl OutputDecoder for Yolov8 {
    /// Of boxes whose best class is below `threshold` only the scores are read.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let planes = BEFORE_CLASSES + self.classes;
        let output = floats(tensors, 0, planes * self.boxes);
        let (_, scores) = output.split_at(BEFORE_CLASSES * self.boxes);
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        let mut block = Block::new();
        for first in (0..self.boxes).step_by(BLOCK) {
            let count = BLOCK.min(self.boxes - first);
            block.read(scores, self.boxes, first, count);
            for offset in 0..count {
                let (span, cell) = (block.span(offset), first + offset);
                if span.max < threshold && span.is_valid() {
                    continue;
                }
                let at = |plane: usize| plane * self.boxes + cell;
                let scores = (BEFORE_CLASSES..planes).map(|plane| (at(plane), output[at(plane)]));
                let raw = [0, 1, 2, 3].map(|plane| output[at(plane)]);
                let xyxy = from_center(raw);
                if !span.is_valid() {
                    collector.report_invalid(0, scores);
                } else if let Some(plane) = first_non_finite(&raw, &xyxy) {
                    collector.report_non_finite(0, at(plane));
                } else {
                    let class = argmax(scores.map(|(_, score)| score), span.max);
                    collector.push(cell, class, span.max, xyxy);
                }
            }
        }
        collector.decoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_refused};

    const INPUT: Size = Size::new(640, 640);
    /// More than one block, and not a multiple of it.
    const BOXES: usize = 2 * BLOCK + 9;
    const PLANES: usize = 4 + 3;

    /// Planes of which the given boxes have these numbers and all others zeros.
    fn fixture(boxes: &[(usize, [f32; PLANES])]) -> DecoderFixture<Yolov8> {
        let mut fixture = DecoderFixture::new(vec![vec![PLANES, BOXES]], |shapes| {
            Yolov8::new(INPUT, 3, shapes)
        });
        for (place, numbers) in boxes {
            fixture.put(0, *place, BOXES, numbers);
        }
        fixture
    }

    #[test]
    fn boxes_of_every_block_come_in_their_order() {
        let last = BOXES - 1;
        let fixture = fixture(&[
            (last, [300.0, 200.0, 20.0, 10.0, 0.1, 0.2, 0.9]),
            (0, [20.0, 30.0, 8.0, 4.0, 0.25, 0.2, 0.25]),
            (BLOCK, [20.0, 30.0, 8.0, 4.0, 0.2499, 0.1, 0.0]),
            (BLOCK + 1, [5.0, 5.0, 2.0, 2.0, 0.0, 1.02, 0.0]),
            // Of boxes below the threshold only scores are read.
            (3, [f32::NAN, 1.0, 1.0, 1.0, 0.1, 0.2, 0.1]),
        ]);
        let wanted = [
            candidate(0, 0, 0.25, [16.0, 28.0, 24.0, 32.0]),
            candidate(BLOCK as u32 + 1, 1, 1.0, [4.0, 4.0, 6.0, 6.0]),
            candidate(last as u32, 2, 0.9, [290.0, 195.0, 310.0, 205.0]),
        ];
        let found = fixture.decode(0.25);
        assert_eq!(found, (wanted.to_vec(), DecodeDiagnostics::default()));
        let others = fixture.decode_with_labels(0.25, &["a", "b", "c"], &["b", "c"]);
        assert_eq!(others.0, wanted[1..], "the first class is filtered");
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let good = [20.0, 30.0, 8.0, 4.0, 0.9, 0.8, 0.1];
        let mut fixture = fixture(&[(4, good), (BLOCK + 3, good)]);
        let at = |plane: usize| plane * BOXES + BLOCK + 3;
        fixture.check_non_finite(0.3, (0..PLANES).map(|plane| (0, at(plane))));
        fixture.check_beyond_one(0.3, &[(0, at(5), 3.5)]);
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let (f32, i32, expected) = (DType::F32, DType::I32, "float32 [7, boxes]");
        #[rustfmt::skip]
        check_refused(|shapes| Yolov8::new(INPUT, 3, shapes), "labels (3)", &[
            (&[&[8, 100]], f32, 0, expected),
            (&[&[100, 7]], f32, 0, expected),
            (&[&[7]], f32, 0, expected),
            (&[&[1, 7, 100]], f32, 0, expected),
            (&[&[7, 100]], i32, 0, expected),
        ]);
    }
}
