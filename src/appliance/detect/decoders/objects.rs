// SPDX-License-Identifier: Apache-2.0
//! Boxes with an objectness and one score for each class, as YOLOX, YOLOv5 and Darknet have them. Pure; layouts differ only in where
//! the numbers are, in the activation of the scores, and in the format of the boxes.

use super::TensorView;
use super::activation::{min_logit, sigmoid};
use super::candidates::{CandidateCollector, is_valid};
use super::dense::{Activation, Place};
use jetwatch_pixels::argmax::{Block, Span, argmax};
use jetwatch_types::Xyxy;

/// Numbers before the classes: four of the box, and the objectness.
pub(crate) const BEFORE_CLASSES: usize = 5;

/// The objectness among the numbers of a cell.
const OBJECTNESS: usize = 4;

/// The numbers of each cell: box, objectness, class 0, class 1, … Those behind the classes are not read.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    pub place: Place,
    pub cells: usize,
    pub classes: usize,
    /// What is left to do with objectness and scores: nothing or the sigmoid.
    pub activation: Activation,
}

impl Objects {
    /// Collects the cells whose objectness times best class passes. `decode_box` gives the box from the index of its cell and its four
    /// numbers; the candidates count cells from `before` on.
    ///
    /// Of cells whose objectness is below the threshold nothing else is read, because none of their classes can reach it.
    #[inline(always)]
    pub fn decode(
        &self,
        tensors: &[TensorView<'_>],
        before: usize,
        collector: &mut CandidateCollector<'_>,
        decode_box: impl Fn(usize, [f32; 4]) -> Xyxy,
    ) {
        let (place, end) = (self.place, BEFORE_CLASSES + self.classes);
        let output = place.numbers(tensors);
        let is_finished = self.activation == Activation::None;
        let least = match is_finished {
            true => collector.threshold,
            false => min_logit(collector.threshold),
        };
        // Written so that NaN and both infinities are not below it.
        let is_below = |objectness: f32| objectness < least && objectness > f32::NEG_INFINITY;
        let mut keep =
            |cell, raw: [f32; 4], objectness: f32, span: Span, class: &dyn Fn() -> u16| {
                let at = |number: usize| place.index(cell, number);
                let xyxy = decode_box(cell, raw);
                let is_sound = match is_finished {
                    true => is_valid(objectness) && span.is_valid(),
                    false => objectness.is_finite() && span.sum.is_finite(),
                };
                if let Some(number) = first_non_finite(&raw, &xyxy) {
                    collector.report_non_finite(place.tensor, at(number));
                } else if is_sound {
                    let score = self.activated(objectness) * self.activated(span.max);
                    collector.push(before + cell, class(), score, xyxy);
                } else {
                    let scores = (OBJECTNESS..end).map(|number| (at(number), output[at(number)]));
                    collector.report_invalid(place.tensor, scores);
                }
            };
        if let Some(rows) = place.rows_of(output) {
            for (cell, row) in rows.take(self.cells).enumerate() {
                let row = &row[..end];
                if !is_below(row[OBJECTNESS]) {
                    let (raw, scores) = ([row[0], row[1], row[2], row[3]], &row[BEFORE_CLASSES..]);
                    let span = Span::from_row(scores);
                    let class = || argmax(scores.iter().copied(), span.max);
                    keep(cell, raw, row[OBJECTNESS], span, &class);
                }
            }
        } else {
            let mut block = Block::new();
            let planes = &output[place.index(0, BEFORE_CLASSES)..place.index(0, end)];
            for cell in 0..self.cells {
                let of = |number: usize| output[place.index(cell, number)];
                if !is_below(of(OBJECTNESS)) {
                    block.read(planes, self.cells, cell, 1);
                    let span = block.span(0);
                    let class = || argmax((BEFORE_CLASSES..end).map(of), span.max);
                    keep(cell, [0, 1, 2, 3].map(of), of(OBJECTNESS), span, &class);
                }
            }
        }
    }

    /// A number behind the activation.
    pub fn activated(&self, number: f32) -> f32 {
        match self.activation {
            Activation::None => number,
            Activation::Sigmoid | Activation::Softmax => sigmoid(number),
        }
    }
}

/// Index of the number of a box that is not finite, or that makes an edge infinite. Checks numbers and box: a
/// logarithm of -∞ gives a box that is finite and empty.
fn first_non_finite(raw: &[f32; 4], xyxy: &Xyxy) -> Option<usize> {
    if raw.iter().chain(xyxy).all(|number| number.is_finite()) {
        return None;
    }
    let found = raw.iter().position(|number| !number.is_finite());
    // Otherwise the width or height overflows.
    Some(found.unwrap_or(if raw[2] > raw[3] { 2 } else { 3 }))
}
