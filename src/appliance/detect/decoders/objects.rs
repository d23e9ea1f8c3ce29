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
        let output = self.place.numbers(tensors);
        let is_finished = self.activation == Activation::None;
        let least = match is_finished {
            true => collector.threshold,
            false => min_logit(collector.threshold),
        };
        let mut block = Block::new();
        for cell in 0..self.cells {
            let at = |number: usize| self.place.index(cell, number);
            let objectness = output[at(OBJECTNESS)];
            // Written so that NaN and both infinities are not skipped.
            if objectness < least && objectness > f32::NEG_INFINITY {
                continue;
            }
            let raw = [0, 1, 2, 3].map(|number| output[at(number)]);
            let xyxy = decode_box(cell, raw);
            let row = match self.place.are_rows() {
                true => Some(&output[at(BEFORE_CLASSES)..][..self.classes]),
                false => None,
            };
            let span = row.map_or_else(
                || {
                    let planes = &output[self.place.index(0, BEFORE_CLASSES)..];
                    block.read(&planes[..self.classes * self.cells], self.cells, cell, 1);
                    block.span(0)
                },
                Span::from_row,
            );
            let numbers = OBJECTNESS..BEFORE_CLASSES + self.classes;
            let scores = numbers.map(|number| (at(number), output[at(number)]));
            let is_sound = match is_finished {
                true => is_valid(objectness) && span.is_valid(),
                false => objectness.is_finite() && span.sum.is_finite(),
            };
            if let Some(number) = first_non_finite(&raw, &xyxy) {
                collector.report_non_finite(self.place.tensor, at(number));
            } else if !is_sound {
                collector.report_invalid(self.place.tensor, scores);
            } else {
                let class = match row {
                    Some(row) => argmax(row.iter().copied(), span.max),
                    None => argmax(scores.skip(1).map(|(_, score)| score), span.max),
                };
                let score = self.activated(objectness) * self.activated(span.max);
                collector.push(before + cell, class, score, xyxy);
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
