// SPDX-License-Identifier: Apache-2.0
//! The raw output of YOLOX in one tensor, or in one tensor per grid, as boxes in input pixels. Pure; decoded as
//! [Darknet's grids](super::darknet::grids).
//!
//! The output holds one row for each cell of three grids over the input, of strides 8, 16 and 32 pixels, each row by
//! row. A row is `[x, y, w, h, objectness, class 0, class 1, …]`; objectness and classes are after a sigmoid in the
//! network. For the cell in column `gx` and row `gy` of the grid with stride `s`:
//!
//! ```text
//! center = ((x + gx)·s, (y + gy)·s)     size = (eʷ·s, eʰ·s)     score = objectness · best class
//! ```
//!
//! The tensors of grids are `[5 + classes, h, w]`: a plane each for x, y, w, h, objectness and every class.

use std::sync::Arc;

use super::darknet::grids::{AnchoredGrid, DarknetGrids, SizeFormula};
use super::keys::{TensorForm, per_grid};
use super::recognize::{self, Certainty, Matrix, Outputs, Recognized, THREE};
use super::yolov8_raw::joins_maximum;
use super::{DETECTOR, Layout, OutputLayout, Preprocessing, RAW};
use crate::decoders::dense::{Activation, Place};
use crate::decoders::grids::Grid;
use crate::decoders::objects::{BEFORE_CLASSES, Objects};
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape};

use jetwatch_types::Placement;

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
        Some(Arc::new(match tensors?.is_name() {
            true => YoloxForm::Rows,
            false => YoloxForm::Grids,
        }))
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
    if maps[0].made_by == Some("Conv")
        || joins_maximum(maps[0])
        || !joined.is_empty() && joined[..2] != [4, 1]
    {
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

/// Number of tensors; there are no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YoloxForm {
    /// One with a row for each cell.
    Rows,
    /// One with planes for each grid.
    Grids,
}

impl OutputLayout for YoloxForm {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(self.decoder(network)?))
    }

    fn side_multiple(&self) -> u32 {
        32
    }
}

impl YoloxForm {
    /// The grids over the input, whose sides are multiples of 32. Their boxes are Darknet's with one anchor of the stride's size and
    /// without sigmoids.
    ///
    /// # Errors
    /// The tensors are not those of the grids, with 5 numbers and one for each class.
    fn decoder(self, network: &NetworkShape<'_>) -> Result<DarknetGrids, Mismatch> {
        let numbers = BEFORE_CLASSES + network.classes;
        let grids = match self {
            Self::Rows => check_rows(network, numbers)?,
            Self::Grids => check_grids(network, numbers)?,
        };
        let all = grids.iter().map(Grid::cells).sum();
        let mut before = 0;
        let of_grid = |(tensor, grid): (usize, &Grid)| {
            let (cells, stride) = (grid.cells(), grid.stride as f32);
            let place = match self {
                Self::Rows => Place::rows(0, all, numbers, before * numbers),
                Self::Grids => Place::planes(tensor, cells, numbers, 0),
            };
            before += cells;
            AnchoredGrid {
                grid: *grid,
                objects: Objects {
                    place,
                    cells,
                    classes: network.classes,
                    activation: Activation::None,
                },
                anchor: [stride; 2],
                scale_x_y: 1.0,
            }
        };
        Ok(DarknetGrids {
            grids: grids.iter().enumerate().map(of_grid).collect(),
            sizes: SizeFormula::Exponential,
        })
    }
}

/// The grids of `[cells, numbers]`.
fn check_rows(network: &NetworkShape<'_>, numbers: usize) -> Result<Vec<Grid>, Mismatch> {
    let (input, classes, shapes) = network.parts();
    let grids = THREE.map(|stride| Grid::new(input, stride));
    let rows: usize = grids.iter().map(Grid::cells).sum();
    let advice = format!(
        "YOLOX has {rows} rows for an input of {input} and 5 numbers before the classes; check input size and labels \
         ({classes}) in model.yaml"
    );
    let axes = [(Some(rows), "rows"), (Some(numbers), "numbers")];
    check_count(shapes, 1, "rows")?;
    check_axes(shapes, 0, DType::F32, &axes, &advice)?;
    Ok(grids.to_vec())
}

/// The grids of tensors `[planes, h, w]` in the order of growing strides, which follow from the sizes.
fn check_grids(network: &NetworkShape<'_>, planes: usize) -> Result<Vec<Grid>, Mismatch> {
    let (input, classes, shapes) = network.parts();
    let advice = format!(
        "YOLOX has 5 planes before those of the classes in every grid; check labels ({classes}), input size and the \
         order of output.tensors.grids, which is that of growing strides, in model.yaml"
    );
    let axes = [(Some(planes), "planes"), (None, "h"), (None, "w")];
    let mut grids: Vec<Grid> = Vec::with_capacity(shapes.len());
    for (tensor, shape) in shapes.iter().enumerate() {
        check_axes(shapes, tensor, DType::F32, &axes, &advice)?;
        let above = grids.last().map_or(1, |grid| grid.stride);
        let grid = Grid::from_size(input, above, shape.axes[2], shape.axes[1]);
        grids.push(grid.ok_or_else(|| Mismatch {
            tensor,
            expected: format!(
                "float32 [{planes}, h, w] with h and w those of the input, {input}, divided by a stride of 8, 16 or 32"
            ),
            advice: advice.clone(),
        })?);
    }
    Ok(grids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::TensorShape;
    use crate::decoders::fixture::{DecoderFixture, check_refused};
    use jetwatch_types::Size;

    fn make(
        form: YoloxForm,
        input: Size,
        classes: usize,
    ) -> impl Fn(&[TensorShape<'_>]) -> Result<DarknetGrids, Mismatch> {
        move |shapes| form.decoder(&NetworkShape::new(input, classes, shapes))
    }

    #[test]
    fn cells_are_the_sum_of_the_three_grids() {
        let make = |side, classes| make(YoloxForm::Rows, Size::new(side, side), classes);
        for (side, classes, rows) in [(416, 80, 3549), (640, 80, 8400), (64, 2, 84)] {
            DecoderFixture::new(vec![vec![rows, 5 + classes]], make(side, classes));
        }
        let (f32, expected) = (DType::F32, "float32 [3549, 85]");
        #[rustfmt::skip]
        check_refused(make(416, 80), "labels (80)", &[
            (&[&[3549, 84]], f32, 0, expected),
            (&[&[3548, 85]], f32, 0, expected),
            (&[&[85, 3549]], f32, 0, expected),
            (&[&[3549 * 85]], f32, 0, expected),
            (&[&[1, 3549, 85]], f32, 0, expected),
        ]);
    }

    #[test]
    fn other_grids_are_rejected_with_expected_shape() {
        const PLANES: usize = 5 + 3;
        let make = make(YoloxForm::Grids, Size::new(96, 64), 3);
        let f32 = DType::F32;
        let stride = "with h and w those of the input, 96×64, divided by a stride of 8, 16 or 32";
        let (planes, stride) = ("float32 [8, h, w]", format!("float32 [8, h, w] {stride}"));
        #[rustfmt::skip]
        check_refused(make, "labels (3)", &[
            (&[&[PLANES, 8, 12], &[PLANES, 4, 6], &[PLANES + 1, 2, 3]], f32, 2, planes),
            (&[&[PLANES, 12, 8], &[PLANES, 4, 6], &[PLANES, 2, 3]], f32, 0, &stride),
            (&[&[PLANES, 8, 12], &[PLANES, 2, 3], &[PLANES, 4, 6]], f32, 2, &stride),
        ]);
    }
}
