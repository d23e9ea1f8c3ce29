// SPDX-License-Identifier: Apache-2.0
//! DetectNet_v2 of NVIDIA's TAO and DeepStream: one grid with a score and a box per class. Pure; the only
//! code that knows this layout.
//!
//! ```text
//! scores  [classes, h, w]      the "coverage", after its sigmoid
//! boxes   [4·classes, h, w]    left, top, right, bottom of each class, as distances in units of `box_norm` pixels
//! ```
//!
//! For the cell in column `gx` and row `gy` of the grid, whose stride `s` is 16 in NVIDIA's networks:
//!
//! ```text
//! point = (gx·s + offset, gy·s + offset)
//! box = point - box_norm·(left, top) … point + box_norm·(right, bottom)
//! ```
//!
//! The offset is half a pixel, not half a cell, as in training. A cell may have objects of several classes, each a separate
//! candidate. Candidates come class by class, in the order of the tensor.

use std::sync::Arc;

use super::keys::{TensorForm, single};
use super::recognize::{self, Certainty, Outputs, Recognized};
use super::{DETECTOR, Layout, OutputLayout};
use crate::decoders::boxes::first_unbounded;
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::grids::Grid;
use crate::decoders::tensors::{check_axes, check_count, floats};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};

use jetwatch_config::Section;
use jetwatch_pixels::argmax::Span;

/// The layout.
pub(crate) const DETECTNET_V2: Layout = Layout {
    name: "detectnet_v2",
    networks: "NVIDIA TAO's DetectNet_v2",
    needs: "scores [C, height, width] and boxes [4 * C, height, width] at stride 16",
    tensors: &[TensorForm::Roles(&[single("scores"), single("boxes")])],
    keys: &[DetectNetParameters::KEYS],
    read: |map, _, _| Some(Arc::new(DetectNetParameters::from_map(map)?)),
    recognize,
    ..DETECTOR
};

fn recognize(outputs: &Outputs<'_>) -> Vec<Recognized> {
    let [first, second] = outputs.list.as_slice() else {
        return Vec::new();
    };
    let recognized = [(first, second), (second, first)]
        .into_iter()
        .find_map(|(scores, boxes)| {
            let classes = outputs.channels_at(scores, 16)?;
            (outputs.channels_at(boxes, 16)? == 4 * classes).then(|| {
                let reason = format!(
                    "scores {} and four times as many numbers of boxes at stride 16",
                    scores.shape()
                );
                let tensors = vec![
                    recognize::single("scores", scores),
                    recognize::single("boxes", boxes),
                ];
                Recognized::new(Certainty::Certain, classes, tensors, reason)
            })
        });
    recognized.into_iter().collect()
}

impl OutputLayout for DetectNetParameters {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(DetectNetV2::new(self, network)?))
    }

    fn side_multiple(&self) -> u32 {
        16
    }
}

/// Scores that are compared with the threshold at once.
const PART: usize = 64;

/// The parameters in `model.yaml`; the defaults are those of NVIDIA's training.
#[derive(Debug, Clone, Copy, PartialEq, Section)]
#[section(default)]
pub struct DetectNetParameters {
    /// Layout detectnet_v2: pixels in one unit of the distances.
    #[key(range = 0.01..=1000.0, default = 35.0)]
    pub box_norm: f32,
    /// Layout detectnet_v2: pixels from a cell's corner to the point that its distances start from.
    #[key(range = -64.0..=64.0, default = 0.5)]
    pub offset: f32,
}

/// The grid over one input size for one number of classes.
#[derive(Debug, Clone)]
pub struct DetectNetV2 {
    parameters: DetectNetParameters,
    grid: Grid,
    classes: usize,
}

impl DetectNetV2 {
    /// A decoder for the tensors `shapes`, whose stride follows from `input`.
    ///
    /// # Errors
    /// There are not two tensors over the same grid of `input`, or they do not have the planes of `classes`.
    pub fn new(
        parameters: &DetectNetParameters,
        network: &NetworkShape<'_>,
    ) -> Result<Self, Mismatch> {
        let (input, classes, shapes) = network.parts();
        check_count(shapes, 2, "scores, boxes")?;
        let advice = "scores of the layout detectnet_v2 have one plane for each label, boxes have four: check the labels, \
                      the size of the input and the order of the tensors";
        let wanted = [(Some(classes), "classes"), (None, "h"), (None, "w")];
        check_axes(shapes, 0, DType::F32, &wanted, advice)?;
        let [rows, columns] = [shapes[0].axes[1], shapes[0].axes[2]];
        let grid = Grid::from_size(input, 1, columns, rows).ok_or_else(|| Mismatch {
            tensor: 0,
            expected: format!(
                "float32 [{classes}, h, w] with h and w those of the input, {input}, divided by 16"
            ),
            advice: advice.to_owned(),
        })?;
        let wanted = [
            (Some(4 * classes), "planes"),
            (Some(rows), "h"),
            (Some(columns), "w"),
        ];
        check_axes(shapes, 1, DType::F32, &wanted, advice)?;
        Ok(Self {
            parameters: *parameters,
            grid,
            classes,
        })
    }

    /// Decodes the box that belongs to score number `index`.
    fn decode_score(
        &self,
        index: usize,
        score: f32,
        boxes: &[f32],
        collector: &mut CandidateCollector<'_>,
    ) {
        if !is_valid(score) {
            collector.report_invalid(0, [(index, score)].into_iter());
            return;
        }
        if score < collector.threshold {
            return;
        }
        let DetectNetParameters { box_norm, offset } = self.parameters;
        let (cells, stride) = (self.grid.cells(), self.grid.stride as f32);
        let (class, cell) = (index / cells, index % cells);
        let plane = |side: usize| (4 * class + side) * cells + cell;
        let raw = [0, 1, 2, 3].map(|side| boxes[plane(side)]);
        let [left, top, right, bottom] = raw.map(|distance| distance * box_norm);
        let [x, y] = self.grid.cell(cell).map(|number| number * stride + offset);
        let xyxy = [x - left, y - top, x + right, y + bottom];
        if let Some(side) = first_unbounded(&raw, &xyxy) {
            collector.report_non_finite(1, plane(side));
            return;
        }
        // There are at most 10 000 labels.
        collector.push(index, class as u16, score, xyxy);
    }
}

impl OutputDecoder for DetectNetV2 {
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let cells = self.grid.cells();
        let scores = floats(tensors, 0, self.classes * cells);
        let boxes = floats(tensors, 1, 4 * self.classes * cells);
        // Most parts of the tensor hold only background, which one comparison of the whole part detects.
        for (number, part) in scores.chunks(PART).enumerate() {
            let span = Span::from_row(part);
            if span.max < collector.threshold && span.is_valid() {
                continue;
            }
            for (place, score) in part.iter().copied().enumerate() {
                self.decode_score(number * PART + place, score, boxes, collector);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::decoders::fixture::check_refused;
    use jetwatch_types::Size;

    /// A grid of 4 × 2 cells of stride 16.
    const INPUT: Size = Size::new(64, 32);

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let parameters = DetectNetParameters::default();
        let (f32, i64) = (DType::F32, DType::I64);
        let stride = "with h and w those of the input, 64×32, divided by 16";
        #[rustfmt::skip]
        check_refused(|shapes| DetectNetV2::new(&parameters, &NetworkShape::new(INPUT, 2, shapes)), "check the labels", &[
            (&[&[3, 2, 4], &[8, 2, 4]], f32, 0, "float32 [2, h, w]"),
            (&[&[2, 2, 4], &[8, 2, 4]], i64, 0, "float32 [2, h, w]"),
            (&[&[2, 2, 4], &[4, 2, 4]], f32, 1, "float32 [8, 2, 4]"),
            (&[&[2, 3, 4], &[8, 3, 4]], f32, 0, &format!("float32 [2, h, w] {stride}")),
            (&[&[2, 2, 4]], f32, 1, "2 tensors (scores, boxes) instead of 1"),
        ]);
    }
}
