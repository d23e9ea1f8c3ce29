// SPDX-License-Identifier: Apache-2.0
//! YOLOv3 and YOLOv4 as the common converters from Darknet to ONNX write them: decoded boxes and class scores. Pure.
//!
//! `boxes` is `[boxes, 1, 4]` or `[boxes, 4]`, corners as fractions of the input's width and height; `scores` is
//! `[boxes, classes]`, each already objectness times class. [`darknet_grids`](super::darknet_grids) decodes networks that
//! end before that.

use super::candidates::CandidateCollector;
use super::tensors::{check_axes, check_count, floats};
use super::{
    Candidate, ClassFilter, DType, DecodeDiagnostics, Mismatch, OutputDecoder, TensorShape,
    TensorView,
};
use jetwatch_pixels::argmax::{Span, argmax};
use jetwatch_types::Size;

/// The tensors in their order.
const BOXES: usize = 0;
const SCORES: usize = 1;

/// Decoded boxes over one input size for one number of classes.
#[derive(Debug, Clone)]
pub struct Darknet {
    boxes: usize,
    classes: usize,
    /// Of the input, for the four edges of a box.
    sides: [f32; 4],
}

impl Darknet {
    /// For boxes and scores over `input`, whatever the number of boxes.
    ///
    /// # Errors
    /// There are not two tensors, boxes and scores, with the same number of rows, or scores do not have one column for each of `classes`.
    pub fn new(input: Size, classes: usize, shapes: &[TensorShape<'_>]) -> Result<Self, Mismatch> {
        check_count(shapes, 2, "boxes, then scores")?;
        let advice =
            format!("scores have a number for each label; check labels ({classes}) in model.yaml");
        let axes = [(None, "boxes"), (Some(classes), "classes")];
        check_axes(shapes, SCORES, DType::F32, &axes, &advice)?;
        let boxes = shapes[SCORES].axes[0];
        let advice =
            "boxes have four corners for each row of scores; check output.tensors in model.yaml";
        let long = [(Some(boxes), "boxes"), (Some(1), "1"), (Some(4), "edges")];
        let short = [long[0], long[2]];
        let axes = if shapes[BOXES].axes.len() == 2 {
            &short[..]
        } else {
            &long
        };
        check_axes(shapes, BOXES, DType::F32, axes, advice)?;
        let (width, height) = (input.width as f32, input.height as f32);
        Ok(Self {
            boxes,
            classes,
            sides: [width, height, width, height],
        })
    }
}

impl OutputDecoder for Darknet {
    /// Of boxes whose best class is below `threshold` only the scores are read.
    fn decode(
        &self,
        tensors: &[TensorView<'_>],
        threshold: f32,
        filter: &ClassFilter,
        candidates: &mut Vec<Candidate>,
    ) -> DecodeDiagnostics {
        let (boxes, _) = floats(tensors, BOXES, self.boxes * 4).as_chunks::<4>();
        let scores = floats(tensors, SCORES, self.boxes * self.classes);
        let mut collector = CandidateCollector::new(threshold, filter, candidates);
        for (index, (scores, edges)) in scores.chunks_exact(self.classes).zip(boxes).enumerate() {
            let span = Span::from_row(scores);
            if span.max < threshold && span.is_valid() {
                continue;
            }
            let xyxy = [0, 1, 2, 3].map(|edge| edges[edge] * self.sides[edge]);
            if !span.is_valid() {
                let start = index * self.classes;
                let placed = scores.iter().enumerate();
                collector
                    .report_invalid(SCORES, placed.map(|(class, score)| (start + class, *score)));
            } else if let Some(edge) = xyxy.iter().position(|edge| !edge.is_finite()) {
                collector.report_non_finite(BOXES, index * 4 + edge);
            } else {
                let class = argmax(scores.iter().copied(), span.max);
                collector.push(index, class, span.max, xyxy);
            }
        }
        collector.decoded
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{DecoderFixture, candidate, check_refused};
    use super::*;

    const INPUT: Size = Size::new(100, 200);

    fn fixture(boxes: &[[f32; 4]], scores: &[[f32; 2]]) -> DecoderFixture<Darknet> {
        let axes = vec![vec![boxes.len(), 1, 4], vec![scores.len(), 2]];
        let mut fixture = DecoderFixture::new(axes, |shapes| Darknet::new(INPUT, 2, shapes));
        fixture.floats = vec![boxes.concat(), scores.concat()];
        fixture
    }

    #[test]
    fn darknet_corners_are_relative_to_input() {
        let boxes = [[0.5, 0.25, 1.0, 0.5], [f32::NAN; 4], [-0.5, 0.0, 0.5, 1.5]];
        let fixture = fixture(&boxes, &[[0.1, 0.25], [0.24, 0.24], [1.03, 0.9]]);
        let wanted = [
            candidate(0, 1, 0.25, [50.0, 50.0, 100.0, 100.0]),
            candidate(2, 0, 1.0, [-50.0, 0.0, 50.0, 300.0]),
        ];
        let found = fixture.decode(0.25);
        assert_eq!(found, (wanted.to_vec(), DecodeDiagnostics::default()));
        let of_a = fixture.decode_with_labels(0.25, &["a", "b"], &["a"]).0;
        assert_eq!(of_a, wanted[1..], "the other class is filtered");
    }

    #[test]
    fn invalid_numbers_are_reported_with_their_index() {
        let mut fixture = fixture(&[[0.1, 0.2, 0.3, 0.4]; 3], &[[0.9, 0.1]; 3]);
        let edges = (4..8).map(|index| (BOXES, index));
        fixture.check_non_finite(0.25, edges.chain([(SCORES, 4), (SCORES, 5)]));
        fixture.check_beyond_one(0.25, &[(SCORES, 3, 7.0)]);
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        DecoderFixture::new(vec![vec![9, 4], vec![9, 2]], |shapes| {
            Darknet::new(INPUT, 2, shapes)
        });
        let f32 = DType::F32;
        #[rustfmt::skip]
        check_refused(|shapes| Darknet::new(INPUT, 2, shapes), "", &[
            (&[&[9, 1, 4], &[9, 3]], f32, 1, "float32 [boxes, 2]"),
            (&[&[9, 1, 4], &[1, 9, 2]], f32, 1, "float32 [boxes, 2]"),
            (&[&[8, 1, 4], &[9, 2]], f32, 0, "float32 [9, 1, 4]"),
            (&[&[9, 2, 4], &[9, 2]], f32, 0, "float32 [9, 1, 4]"),
            (&[&[9, 5], &[9, 2]], f32, 0, "float32 [9, 4]"),
        ]);
    }
}
