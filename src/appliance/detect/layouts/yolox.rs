// SPDX-License-Identifier: Apache-2.0
//! The raw output of YOLOX in one tensor, as boxes in input pixels. Pure; [`grids`] reads the same with one tensor per grid.
//!
//! The output holds one row for each cell of three grids over the input, of strides 8, 16 and 32 pixels, each row by
//! row. A row is `[x, y, w, h, objectness, class 0, class 1, …]`; objectness and classes are after a sigmoid in the
//! network. For the cell in column `gx` and row `gy` of the grid with stride `s`:
//!
//! ```text
//! center = ((x + gx)·s, (y + gy)·s)     size = (eʷ·s, eʰ·s)     score = objectness · best class
//! ```
//!
//! [`grids`]: self::grids

use std::sync::Arc;

use super::keys::{TensorForm, per_grid};
use super::recognize::{self, Certainty, Matrix, Outputs, Recognized, THREE};
use super::{DETECTOR, Layout, OutputLayout, Preprocessing, RAW};
use crate::decoders::candidates::CandidateCollector;
use crate::decoders::rows::{self, BEFORE_CLASSES};
use crate::decoders::tensors::{check_axes, check_count, floats};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, OutputDecoder, TensorView};

use jetwatch_types::{Placement, Xyxy};

pub mod grids;

/// The layout.
pub const YOLOX: Layout = Layout {
    name: "yolox",
    networks: "YOLOX",
    needs: "one output [cells, 5 + C] with a row for every cell of the grids of strides 8, 16 and 32, or one output \
            [5 + C, height, width] for each stride",
    input: Preprocessing {
        placement: Placement::TopLeft,
        ..RAW
    },
    tensors: &[TensorForm::Name, TensorForm::Roles(&[per_grid("grids")])],
    read: |_, tensors, _| {
        Some(match tensors?.is_name() {
            true => Arc::new(RawRows),
            false => Arc::new(grids::RawGrids),
        })
    },
    recognize: |outputs| rows(outputs).into_iter().chain(maps(outputs)).collect(),
    ..DETECTOR
};

/// Part of the names of weights for the certainty of an object.
pub(super) const YOLOX_WEIGHT: &str = "obj_preds";

/// Networks that decode their boxes have the same rows.
fn rows(outputs: &Outputs<'_>) -> Option<Recognized> {
    let cells = outputs.cells(&THREE);
    let is_decoded = outputs.has_operator(&["Exp", "Softmax"]) || outputs.network.count("Sub") > 1;
    let fits = |matrix: &Matrix<'_>| matrix.rows == cells && !is_decoded;
    let matrix = outputs.matrix().filter(fits)?;
    let why = format!("{cells} cells of strides 8, 16 and 32, with 5 numbers before the classes");
    let classes = matrix.columns.checked_sub(BEFORE_CLASSES as u64);
    matrix.recognized(outputs, Certainty::Likely, classes, &why)
}

fn maps(outputs: &Outputs<'_>) -> Option<Recognized> {
    let (channels, maps) = outputs.maps(&THREE)?;
    // Others join as many channels in another order, or have one convolution for all.
    let joined = maps[0].joined_channels();
    if maps[0].made_by == Some("Conv") || !joined.is_empty() && joined[..2] != [4, 1] {
        return None;
    }
    let classes = channels
        .checked_sub(BEFORE_CLASSES as u64)
        .filter(|classes| *classes > 0)?;
    let reason = format!(
        "{channels} channels at stride {THREE:?}: one box in each cell, with 5 numbers before the classes{}",
        outputs.agrees(classes)
    );
    // Three anchors in each cell are as likely for a multiple of three.
    let certainty = match channels.is_multiple_of(3) {
        true => Certainty::Possible,
        false => outputs.limited(Certainty::Likely, classes),
    };
    let tensors = vec![recognize::per_grid("grids", &maps)];
    Some(Recognized::new(certainty, classes, tensors, reason))
}

/// One tensor of rows, which needs no parameters.
#[derive(Debug)]
pub struct RawRows;

impl OutputLayout for RawRows {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(Yolox::new(network)?))
    }

    fn side_multiple(&self) -> u32 {
        32
    }
}

/// Strides of the three grids in pixels.
const STRIDES: [u32; 3] = [8, 16, 32];

/// The grids over one input size for one number of classes.
#[derive(Debug, Clone)]
pub struct Yolox {
    /// Column, row and stride of each cell, in the order of the output.
    cells: Box<[[f32; 3]]>,
    classes: usize,
}

impl Yolox {
    /// The grids over `input`, whose sides are multiples of 32, with at least one class, for `[cells, 5 + classes]`.
    ///
    /// # Errors
    /// There is not exactly one tensor, or it does not have a row of 5 numbers and `classes` for each cell of the grids over `input`.
    pub fn new(network: &NetworkShape<'_>) -> Result<Self, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let grid = |stride: u32| {
            let columns = input.width / stride;
            (0..input.height / stride)
                .flat_map(move |y| (0..columns).map(move |x| [x as f32, y as f32, stride as f32]))
        };
        let yolox = Self {
            cells: STRIDES.into_iter().flat_map(grid).collect(),
            classes,
        };
        let advice = format!(
            "YOLOX has {} rows for an input of {input} and 5 numbers before the classes; check input size and labels \
             ({classes}) in model.yaml",
            yolox.cells.len()
        );
        let axes = [
            (Some(yolox.cells.len()), "rows"),
            (Some(yolox.row_len()), "numbers"),
        ];
        check_count(shapes, 1, "rows")?;
        check_axes(shapes, 0, DType::F32, &axes, &advice)?;
        Ok(yolox)
    }

    fn row_len(&self) -> usize {
        BEFORE_CLASSES + self.classes
    }
}

impl OutputDecoder for Yolox {
    /// Of rows whose objectness is below `threshold` nothing else is read.
    fn collect(&self, tensors: &[TensorView<'_>], collector: &mut CandidateCollector<'_>) {
        let row_len = self.row_len();
        let output = floats(tensors, 0, self.cells.len() * row_len);
        rows::decode(output, row_len, self.classes, collector, |index, raw| {
            decode_box(raw, self.cells[index])
        });
    }
}

/// The box of a cell in input pixels, from its four numbers and its column, row and stride.
pub(super) fn decode_box([x, y, w, h]: [f32; 4], [column, line, stride]: [f32; 3]) -> Xyxy {
    let (x, y) = ((x + column) * stride, (y + line) * stride);
    let (half_w, half_h) = (w.exp() * stride * 0.5, h.exp() * stride * 0.5);
    [x - half_w, y - half_h, x + half_w, y + half_h]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::TensorShape;
    use crate::decoders::fixture::{DecoderFixture, check_refused};
    use jetwatch_types::Size;

    fn make(
        side: [u32; 2],
        classes: usize,
    ) -> impl Fn(&[TensorShape<'_>]) -> Result<Yolox, Mismatch> {
        move |shapes| {
            Yolox::new(&NetworkShape::new(
                Size::new(side[0], side[1]),
                classes,
                shapes,
            ))
        }
    }

    #[test]
    fn cells_are_the_sum_of_the_three_grids() {
        for (side, classes, rows) in [(416, 80, 3549), (640, 80, 8400), (64, 2, 84)] {
            DecoderFixture::new(vec![vec![rows, 5 + classes]], make([side, side], classes));
        }
        let (f32, expected) = (DType::F32, "float32 [3549, 85]");
        #[rustfmt::skip]
        check_refused(make([416, 416], 80), "labels (80)", &[
            (&[&[3549, 84]], f32, 0, expected),
            (&[&[3548, 85]], f32, 0, expected),
            (&[&[85, 3549]], f32, 0, expected),
            (&[&[3549 * 85]], f32, 0, expected),
            (&[&[1, 3549, 85]], f32, 0, expected),
        ]);
    }
}
