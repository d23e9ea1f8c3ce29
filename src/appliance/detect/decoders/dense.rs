// SPDX-License-Identifier: Apache-2.0
//! Boxes with one score for each class and without objectness. Pure; layouts differ only in where the numbers are, in the
//! activation of the scores, and in the format of the boxes.

use std::slice::ChunksExact;

use super::activation::{min_logit, sigmoid};
use super::boxes::{first_unbounded, from_center, from_corners};
use super::candidates::{CandidateCollector, is_valid};
use super::tensors::floats;
use super::{ElementIndex, OutputDecoder, TensorView};

use jetwatch_pixels::argmax::{BLOCK, Block, Span, argmax};
use jetwatch_types::Xyxy;

/// Where the numbers of each cell are in a tensor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Index of the tensor in the layout's order.
    pub tensor: usize,
    /// Numbers of the tensor.
    len: usize,
    /// Index of the first number of the first cell.
    first: usize,
    /// From a number of a cell to the same of the next cell.
    cell: usize,
    /// From a number of a cell to its next.
    number: usize,
}

impl Place {
    /// Behind the first `before` numbers of rows, one row of `row_len` numbers for each of `cells`.
    pub fn rows(tensor: usize, cells: usize, row_len: usize, before: usize) -> Self {
        Self {
            tensor,
            len: cells * row_len,
            first: before,
            cell: row_len,
            number: 1,
        }
    }

    /// Behind the first `before` of `planes` planes, each with a number for each of `cells`.
    pub fn planes(tensor: usize, cells: usize, planes: usize, before: usize) -> Self {
        Self {
            tensor,
            len: cells * planes,
            first: before * cells,
            cell: 1,
            number: cells,
        }
    }

    /// Whether the numbers of a cell are side by side.
    pub fn are_rows(&self) -> bool {
        self.number == 1
    }

    /// The rows of these numbers, where the first number of a cell is that of its row; `None` for planes.
    pub fn rows_of<'n>(&self, numbers: &'n [f32]) -> Option<ChunksExact<'n, f32>> {
        (self.are_rows()).then(|| numbers[self.first..].chunks_exact(self.cell))
    }

    /// Index in the tensor.
    pub fn index(&self, cell: usize, number: usize) -> usize {
        self.first + cell * self.cell + number * self.number
    }

    /// Copies numbers of a cell, from number `first` on, out of the tensor's.
    pub fn copy(&self, numbers: &[f32], cell: usize, first: usize, into: &mut [f32]) {
        let start = self.index(cell, first);
        match self.number {
            1 => into.copy_from_slice(&numbers[start..][..into.len()]),
            step => {
                let found = numbers[start..].iter().step_by(step);
                into.iter_mut()
                    .zip(found)
                    .for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// All numbers of the tensor.
    pub fn numbers<'t>(&self, tensors: &[TensorView<'t>]) -> &'t [f32] {
        floats(tensors, self.tensor, self.len)
    }

    /// The element, for a report.
    pub fn element(&self, cell: usize, number: usize) -> ElementIndex {
        ElementIndex {
            tensor: self.tensor,
            index: self.index(cell, number),
        }
    }
}

/// What turns the numbers of the classes into scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// They are 0 to 1.
    None,
    /// The sigmoid of each.
    Sigmoid,
    /// The softmax over the classes and the number for no object, if there is one.
    Softmax,
}

/// The scores of all classes for each cell.
#[derive(Debug, Clone)]
pub(crate) struct Scores {
    pub place: Place,
    pub cells: usize,
    pub classes: usize,
    pub activation: Activation,
    /// The number for no object, of some networks. Only a softmax reads it.
    pub background: Option<Place>,
}

impl Scores {
    /// Finished scores without a number for no object.
    pub fn finished(place: Place, cells: usize, classes: usize) -> Self {
        Self {
            place,
            cells,
            classes,
            activation: Activation::None,
            background: None,
        }
    }

    /// Collects the cells whose best class passes, or, with `centerness`, the root of its product with that. `decode_box` gives the
    /// box of a cell, or its invalid number; the candidates count cells from `before` on.
    ///
    /// Of cells whose best class is below the threshold only the scores are read.
    #[inline(always)]
    pub fn decode(
        &self,
        tensors: &[TensorView<'_>],
        before: usize,
        centerness: Option<Place>,
        collector: &mut CandidateCollector<'_>,
        decode_box: impl Fn(usize) -> Result<Xyxy, ElementIndex>,
    ) {
        // Compiled for each, since the loop over the cells is short.
        match self.place.are_rows() {
            true => self.decode_cells::<true>(tensors, before, centerness, collector, decode_box),
            false => self.decode_cells::<false>(tensors, before, centerness, collector, decode_box),
        }
    }

    /// With `ROWS`, the numbers of a cell are side by side.
    #[inline(always)]
    fn decode_cells<const ROWS: bool>(
        &self,
        tensors: &[TensorView<'_>],
        before: usize,
        centerness: Option<Place>,
        collector: &mut CandidateCollector<'_>,
        decode_box: impl Fn(usize) -> Result<Xyxy, ElementIndex>,
    ) {
        let centerness = centerness.map(|place| (place, place.numbers(tensors)));
        let (place, classes) = (&self.place, self.classes);
        let numbers = place.numbers(tensors);
        let least = match self.activation {
            // A centerness is at most 1, so a class below this cannot reach the threshold.
            Activation::None if centerness.is_some() => collector.threshold * collector.threshold,
            Activation::None => collector.threshold,
            Activation::Sigmoid | Activation::Softmax => min_logit(collector.threshold),
        };
        let mut block = Block::new();
        for first in (0..self.cells).step_by(BLOCK) {
            let count = BLOCK.min(self.cells - first);
            if !ROWS {
                let planes = &numbers[place.first..][..classes * self.cells];
                block.read(planes, self.cells, first, count);
            }
            for offset in 0..count {
                let cell = first + offset;
                let at = |class: usize| place.index(cell, class);
                let row = if ROWS {
                    &numbers[at(0)..][..classes]
                } else {
                    &[]
                };
                let span = match ROWS {
                    true => Span::from_row(row),
                    false => block.span(offset),
                };
                // Most cells end here.
                let is_below = match self.activation {
                    Activation::None => span.max < least && span.is_valid(),
                    Activation::Sigmoid => span.max < least && span.sum.is_finite(),
                    Activation::Softmax => false,
                };
                if is_below {
                    continue;
                }
                let background = match self.activation {
                    Activation::Softmax => self.background.map(|place| place.index(cell, 0)),
                    Activation::None | Activation::Sigmoid => None,
                };
                let is_number = match (self.activation, background) {
                    (Activation::None, _) => span.is_valid(),
                    (_, Some(at)) => span.sum.is_finite() && numbers[at].is_finite(),
                    (_, None) => span.sum.is_finite(),
                };
                let may_pass = match (self.activation, background) {
                    // The softmax of two numbers is the sigmoid of their difference, and further numbers only lower it.
                    (_, Some(at)) => span.max - numbers[at] >= least,
                    // The sum of the exponentials is at least what it would be if all logits were equal to their mean. Rounding is
                    // far less than 0.001.
                    (Activation::Softmax, None) => {
                        let count = classes as f32;
                        let mean = span.sum / count;
                        mean - span.max <= -(count * collector.threshold).ln() + 0.001
                    }
                    (Activation::None | Activation::Sigmoid, None) => true,
                };
                if !may_pass && is_number {
                    continue;
                }
                let scores = (0..classes).map(|class| (at(class), numbers[at(class)]));
                let other = background.map(|at| (at, numbers[at]));
                if !is_number {
                    let first = other.filter(|(other, _)| *other < at(0));
                    let all = first.into_iter().chain(scores).chain(other);
                    collector.report_invalid(place.tensor, all);
                    continue;
                }
                let mut score = match self.activation {
                    Activation::None => span.max,
                    Activation::Sigmoid => sigmoid(span.max),
                    Activation::Softmax => {
                        let other = other.map(|(_, number)| number);
                        match ROWS {
                            true => softmax(span.max, row.iter().copied(), other),
                            false => softmax(span.max, scores.clone().map(|it| it.1), other),
                        }
                    }
                };
                if let Some((place, numbers)) = centerness {
                    let at = place.index(cell, 0);
                    if !is_valid(numbers[at]) {
                        let found = [(at, numbers[at])];
                        collector.report_invalid(place.tensor, found.into_iter());
                        continue;
                    }
                    score = (score.min(1.0) * numbers[at].clamp(0.0, 1.0)).sqrt();
                }
                if score < collector.threshold {
                    continue;
                }
                match decode_box(cell) {
                    Ok(xyxy) => {
                        let class = match ROWS {
                            true => argmax(row.iter().copied(), span.max),
                            false => argmax(scores.map(|(_, score)| score), span.max),
                        };
                        collector.push(before + cell, class, score, xyxy);
                    }
                    Err(at) => collector.report_non_finite(at.tensor, at.index),
                }
            }
        }
    }
}

/// Share of `max`, the greatest of `scores`, in the softmax of these and the `other`.
fn softmax(max: f32, scores: impl Iterator<Item = f32>, other: Option<f32>) -> f32 {
    let greatest = other.map_or(max, |other| other.max(max));
    let all = scores.chain(other);
    let sum: f32 = all.map(|logit| (logit - greatest).exp()).sum();
    (max - greatest).exp() / sum
}

/// Four numbers of each cell that are its box.
#[derive(Debug, Clone)]
pub(crate) struct Boxes {
    pub place: Place,
    /// Whether they are center and size; otherwise they are the corners.
    pub are_centers: bool,
    /// Input pixels in one unit, horizontally and vertically.
    pub unit: [f32; 2],
}

impl Boxes {
    /// The box of `cell` in input pixels, from the numbers of its tensor.
    fn decode(&self, numbers: &[f32], cell: usize) -> Result<Xyxy, ElementIndex> {
        let raw = [0, 1, 2, 3].map(|number| numbers[self.place.index(cell, number)]);
        let xyxy = match self.are_centers {
            true => from_center(raw, self.unit),
            false => from_corners(raw, self.unit),
        };
        match first_unbounded(&raw, &xyxy) {
            Some(number) => Err(self.place.element(cell, number)),
            None => Ok(xyxy),
        }
    }
}

/// Decodes boxes and scores that are side by side.
#[derive(Debug, Clone)]
pub(crate) struct Dense {
    pub boxes: Boxes,
    pub scores: Scores,
    /// Whether boxes of one object overlap.
    pub needs_suppression: bool,
}

impl OutputDecoder for Dense {
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let boxes = self.boxes.place.numbers(tensors);
        self.scores.decode(tensors, 0, None, collector, |cell| {
            self.boxes.decode(boxes, cell)
        });
    }

    fn needs_suppression(&self) -> bool {
        self.needs_suppression
    }
}
