// SPDX-License-Identifier: Apache-2.0
//! FastestDet: one grid, one box per cell. Pure; the only code that knows this layout.
//!
//! `[5 + classes, h, w]`: planes of the objectness after its sigmoid, of four raw numbers for the box, and of the classes
//! after their softmax. For the cell in column `gx` and row `gy` of a grid of `w` by `h` cells:
//!
//! ```text
//! center = ((gx + tanh x)/w, (gy + tanh y)/h)     size = (sigmoid of the width, sigmoid of the height)
//! score = objectness^0.6 · best class^0.4
//! ```
//!
//! Center and size are fractions of the input. The exponents are those of the author's inference programs.

use std::sync::Arc;

use super::recognize::{self, Certainty, Outputs, Recognized};
use super::{DETECTOR, Layout, OutputLayout, Preprocessing, RAW, UNIT};
use crate::decoders::activation::sigmoid;
use crate::decoders::boxes::{BoxUnit, first_unbounded, from_center};
use crate::decoders::candidates::{CandidateCollector, is_valid};
use crate::decoders::tensors::{check_axes, check_count, floats};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};

use jetwatch_pixels::argmax::{BLOCK, Block, argmax};

/// The layout.
pub(crate) const FASTESTDET: Layout = Layout {
    name: "fastestdet",
    networks: "FastestDet",
    needs: "one output [5 + C, height, width] at stride 16",
    input: Preprocessing {
        scale: UNIT.scale,
        ..RAW
    },
    read: |_, _, _| Some(Arc::new(Planes)),
    recognize: |outputs| recognize(outputs).into_iter().collect(),
    ..DETECTOR
};

fn recognize(outputs: &Outputs<'_>) -> Option<Recognized> {
    let (channels, maps) = outputs.maps(&[16])?;
    let classes = channels
        .checked_sub(BEFORE_CLASSES as u64)
        .filter(|classes| *classes > 0)?;
    let reason = format!(
        "{channels} channels at stride [16]: 5 numbers before the classes{}",
        outputs.agrees(classes)
    );
    let tensors = vec![recognize::single("name", maps[0])];
    Some(Recognized::new(Certainty::Likely, classes, tensors, reason))
}

/// Its parameters: none.
#[derive(Debug)]
pub struct Planes;

impl OutputLayout for Planes {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(FastestDet::new(network)?))
    }

    fn side_multiple(&self) -> u32 {
        16
    }
}

/// Planes before the classes: objectness, x, y, width, height.
const BEFORE_CLASSES: usize = 5;

/// Weight of the objectness in the score.
const OBJECTNESS_POWER: f32 = 0.6;

/// Weight of the class in the score.
const CLASS_POWER: f32 = 0.4;

/// The grid of one network.
#[derive(Debug, Clone)]
pub struct FastestDet {
    columns: usize,
    rows: usize,
    classes: usize,
    unit: [f32; 2],
}

impl FastestDet {
    /// A decoder for the tensor `shapes`; the size of the grid is its.
    ///
    /// # Errors
    /// There is not exactly one tensor, or it does not have five planes and one for each of `classes`.
    pub fn new(network: &NetworkShape<'_>) -> Result<Self, Mismatch> {
        let (input, classes, shapes) = network.parts();
        check_count(shapes, 1, "objectness, box and classes in one")?;
        let advice =
            "the layout fastestdet has five planes and one for each label: check the labels";
        let wanted = [
            (Some(BEFORE_CLASSES + classes), "planes"),
            (None, "h"),
            (None, "w"),
        ];
        check_axes(shapes, 0, DType::F32, &wanted, advice)?;
        Ok(Self {
            columns: shapes[0].axes[2],
            rows: shapes[0].axes[1],
            classes,
            unit: BoxUnit::Normalized.pixels(input),
        })
    }

    /// Decodes the cell with this index, whose score may reach the threshold.
    fn decode_cell(
        &self,
        planes: &[f32],
        cell: usize,
        block: &Block,
        collector: &mut CandidateCollector<'_>,
    ) {
        let cells = self.columns * self.rows;
        let span = block.span(cell % BLOCK);
        let classes = (BEFORE_CLASSES * cells + cell..planes.len()).step_by(cells);
        let classes = classes.map(|index| (index, planes[index]));
        let objectness = planes[cell];
        if !is_valid(objectness) || !span.is_valid() {
            collector.report_invalid(0, [(cell, objectness)].into_iter().chain(classes));
            return;
        }
        // A value rounded below 0 has no real power.
        let power = |value: f32, power| value.clamp(0.0, 1.0).powf(power);
        let score = power(objectness, OBJECTNESS_POWER) * power(span.max, CLASS_POWER);
        if score < collector.threshold {
            return;
        }
        let place = |number: usize| (1 + number) * cells + cell;
        let raw = [0, 1, 2, 3].map(|number| planes[place(number)]);
        let (column, row) = (cell % self.columns, cell / self.columns);
        let xyxy = from_center(
            [
                (column as f32 + raw[0].tanh()) / self.columns as f32,
                (row as f32 + raw[1].tanh()) / self.rows as f32,
                sigmoid(raw[2]),
                sigmoid(raw[3]),
            ],
            self.unit,
        );
        if let Some(number) = first_unbounded(&raw, &xyxy) {
            collector.report_non_finite(0, place(number));
            return;
        }
        let class = argmax(classes.map(|(_, score)| score), span.max);
        collector.push(cell, class, score, xyxy);
    }
}

impl OutputDecoder for FastestDet {
    /// Of cells whose objectness cannot reach the threshold nothing else is read.
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let cells = self.columns * self.rows;
        let planes = floats(tensors, 0, (BEFORE_CLASSES + self.classes) * cells);
        let (objectness, classes) = (&planes[..cells], &planes[BEFORE_CLASSES * cells..]);
        // For a best class of 1; slightly less, because rounding must not lose the threshold itself.
        let least = collector.threshold.powf(1.0 / OBJECTNESS_POWER) * 0.999;
        let passes = |value: f32| value >= least || !is_valid(value);
        let mut block = Block::new();
        for first in (0..cells).step_by(BLOCK) {
            let count = BLOCK.min(cells - first);
            let part = &objectness[first..first + count];
            if !part.iter().copied().any(passes) {
                continue;
            }
            block.read(classes, cells, first, count);
            for (offset, value) in part.iter().copied().enumerate() {
                if passes(value) {
                    self.decode_cell(planes, first + offset, &block, collector);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::decoders::fixture::check_refused;
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(384, 128);

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let (f32, i64, expected) = (DType::F32, DType::I64, "float32 [7, h, w]");
        #[rustfmt::skip]
        check_refused(|shapes| FastestDet::new(&NetworkShape::new(INPUT, 2, shapes)), "check the labels", &[
            (&[&[8, 8, 24]], f32, 0, expected),
            (&[&[7, 192]], f32, 0, expected),
            (&[&[7, 8, 24]], i64, 0, expected),
        ]);
    }
}
