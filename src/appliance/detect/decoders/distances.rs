// SPDX-License-Identifier: Apache-2.0
//! Boxes of the cells of grids as distances to the four sides, and one score for each class. Pure.
//!
//! A side's distance is in units `u` of the stride or of a pixel: one number, or a distribution of which each number is how probable
//! its place is, before a softmax. For the cell in column `gx` and row `gy` of the grid with stride `s`, and the center's offset `o`:
//!
//! ```text
//! center = ((gx + o)·s, (gy + o)·s)      distance = u · Σ k·softmax(side)ₖ      score = best class,  or  √(best class · centerness)
//! box = center - (left, top) … center + (right, bottom)
//! ```

use super::candidates::CandidateCollector;
use super::dense::{Place, Scores};
use super::grids::Grid;
use super::{ElementIndex, OutputDecoder, TensorView};

use jetwatch_types::Xyxy;

/// Maximum numbers of one side.
pub(crate) const MAX_BINS: usize = 65;

/// The cells of one grid.
#[derive(Debug, Clone)]
pub(crate) struct DistanceGrid {
    pub grid: Grid,
    pub scores: Scores,
    /// A number for each cell, of some networks.
    pub centerness: Option<Place>,
    pub sides: Place,
    /// Numbers of one side, at most [`MAX_BINS`]; 1 for a distance without distribution.
    pub bins: usize,
    /// Pixels of a distance of 1.
    pub unit: f32,
}

/// Decodes the cells of all grids.
#[derive(Debug, Clone)]
pub(crate) struct Distances {
    pub grids: Box<[DistanceGrid]>,
    /// From the upper left corner of a cell to its center, in units of the stride.
    pub offset: f32,
}

impl OutputDecoder for Distances {
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let mut before = 0;
        for grid in &self.grids {
            let sides = grid.sides.numbers(tensors);
            let decode_box = |cell| grid.decode_box(sides, cell, self.offset);
            (grid.scores).decode(tensors, before, grid.centerness, collector, decode_box);
            before += grid.grid.cells();
        }
    }
}

impl DistanceGrid {
    fn decode_box(&self, sides: &[f32], cell: usize, offset: f32) -> Result<Xyxy, ElementIndex> {
        let stride = self.grid.stride as f32;
        let mut distances = [0.0; 4];
        let mut logits = [0.0; MAX_BINS];
        for (side, distance) in distances.iter_mut().enumerate() {
            let (first, logits) = (side * self.bins, &mut logits[..self.bins]);
            self.sides.copy(sides, cell, first, logits);
            if let Some(bin) = logits.iter().position(|logit| !logit.is_finite()) {
                return Err(self.sides.element(cell, first + bin));
            }
            *distance = self.unit
                * match logits {
                    [distance] => *distance,
                    logits => expected(logits),
                };
            if !distance.is_finite() {
                return Err(self.sides.element(cell, first));
            }
        }
        let [left, top, right, bottom] = distances;
        let [x, y] = self
            .grid
            .cell(cell)
            .map(|number| (number + offset) * stride);
        Ok([x - left, y - top, x + right, y + bottom])
    }
}

/// The expected distance of a distribution before its softmax.
fn expected(logits: &[f32]) -> f32 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (mut sum, mut weighted) = (0.0, 0.0);
    for (distance, logit) in logits.iter().enumerate() {
        let weight = (logit - most).exp();
        sum += weight;
        weighted += weight * distance as f32;
    }
    weighted / sum
}
