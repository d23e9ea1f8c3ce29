// SPDX-License-Identifier: Apache-2.0
//! NanoDet, NanoDet-Plus and PicoDet: distances to the four sides as distributions ("generalized focal loss"). Pure; the
//! only code that knows these layouts.
//!
//! A side's distance is not one number but `reg_max + 1` of them: how probable each distance from 0 to `reg_max` is, in
//! units of the stride, before a softmax. The network has applied the sigmoid to the class scores. The cells of
//! all grids are consecutive rows of one tensor, or each grid has its own tensors:
//!
//! ```text
//! joined      [N, classes + 4·(reg_max + 1)]                    NanoDet-Plus
//! separate    [n, classes] of each grid, then [n, 4·(reg_max + 1)] of each grid    NanoDet, PicoDet
//! ```
//!
//! The center of a cell is its corner for NanoDet-Plus and its middle for the others; see [`distances`](crate::decoders::distances).
//!
//! The distributions are those of Li et al., "Generalized Focal Loss" (2020).

use std::sync::Arc;

use jetwatch_config::{Map, Section};

use super::keys::{TensorForm, Tensors, per_grid};
use super::recognize::{self, Certainty, FOUR, Outputs, Recognized};
use super::{DETECTOR, IMAGENET, Layout, OutputLayout, Preprocessing, RAW};
use crate::decoders::dense::{Place, Scores};
use crate::decoders::distances::{DistanceGrid, Distances};
use crate::decoders::grids::Grid;
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, TensorShape};
use jetwatch_types::Size;

/// The layout of NanoDet.
pub(crate) const NANODET: Layout = Layout {
    name: "nanodet",
    networks: "NanoDet-Plus, NanoDet",
    needs: "one output [N, C + 32] with a row for every cell of the grids of strides 8, 16, 32 and 64, or scores [n, C] \
            and boxes [n, 32] for each stride",
    // Blue, green and red as ImageNet's mean and deviation.
    input: Preprocessing {
        mean: [103.53, 116.28, 123.675],
        scale: [0.017_429_2, 0.017_507, 0.017_124_8],
        ..RAW
    },
    tensors: &[
        TensorForm::Name,
        TensorForm::Roles(&[per_grid("scores"), per_grid("boxes")]),
    ],
    keys: &[GflKeys::KEYS],
    read: |map, tensors, _| {
        let parameters = GflParameters::read(map, tensors?)?;
        Some(Arc::new(parameters))
    },
    recognize: |outputs| {
        let certainty = match outputs.is_paddle() {
            true => Certainty::Possible,
            false => Certainty::Likely,
        };
        let maps = per_stride(outputs, certainty, "");
        rows(outputs).into_iter().chain(maps).collect()
    },
    ..DETECTOR
};

/// The layout of PicoDet.
pub const PICODET: Layout = Layout {
    name: "picodet",
    networks: "PicoDet",
    needs: "scores [n, C] and boxes [n, 32] for each of the strides 8, 16, 32 and 64",
    input: IMAGENET,
    tensors: &[TensorForm::Roles(&[per_grid("scores"), per_grid("boxes")])],
    recognize: |outputs| {
        let (certainty, why) = match outputs.is_paddle() {
            true => (Certainty::Likely, ", from PaddlePaddle"),
            false => (Certainty::Possible, ""),
        };
        per_stride(outputs, certainty, why).into_iter().collect()
    },
    ..NANODET
};

/// Numbers of one box: four distributions over 0 to 7.
const DISTRIBUTIONS: u64 = 32;

/// Of the layouts with generalized focal loss.
#[derive(Section)]
pub(crate) struct GflKeys {
    /// Layouts nanodet and picodet with tensors by role: last bin of the distances' distribution.
    #[key(range = 1..=64, default = 7)]
    reg_max: usize,
}

fn rows(outputs: &Outputs<'_>) -> Option<Recognized> {
    let matrix = outputs.matrix()?;
    let rows = matrix.rows;
    if rows != outputs.cells(&FOUR) {
        return None;
    }
    let why =
        format!("{rows} cells, with {DISTRIBUTIONS} numbers of distributions behind the classes");
    // Networks that decode their boxes have no distributions at the end.
    let certainty = match outputs.has_operator(&["Exp"]) || outputs.has_distances() {
        true => Certainty::Possible,
        false => Certainty::Likely,
    };
    let classes = matrix.columns.checked_sub(DISTRIBUTIONS);
    matrix.recognized(outputs, certainty, classes, &why)
}

/// Scores and distributions for each of the strides 8, 16, 32 and 64.
fn per_stride(outputs: &Outputs<'_>, certainty: Certainty, why: &str) -> Option<Recognized> {
    let strides = FOUR.get(..outputs.list.len() / 2)?;
    if strides.len() < 3 || outputs.list.len() != 2 * strides.len() {
        return None;
    }
    let mut scores = Vec::new();
    let mut boxes = Vec::new();
    let mut classes = None;
    for stride in strides {
        let cells = outputs.cells(&[*stride]);
        for output in &outputs.list {
            match *output.axes.as_slice() {
                [Some(rows), Some(DISTRIBUTIONS)] if rows == cells => boxes.push(output),
                [Some(rows), Some(columns)]
                    if rows == cells && *classes.get_or_insert(columns) == columns =>
                {
                    scores.push(output);
                }
                _ => {}
            }
        }
    }
    let classes =
        classes.filter(|_| scores.len() == strides.len() && boxes.len() == strides.len())?;
    let reason = format!(
        "scores of {classes} classes and {DISTRIBUTIONS} numbers of distributions for each of {} strides{why}{}",
        strides.len(),
        outputs.agrees(classes)
    );
    let tensors = vec![
        recognize::per_grid("scores", &scores),
        recognize::per_grid("boxes", &boxes),
    ];
    Some(Recognized::new(certainty, classes, tensors, reason))
}

impl GflParameters {
    fn read(map: &Map<'_>, tensors: &Tensors) -> Option<Self> {
        let (tensors, center) = match tensors.is_name() {
            true => (GflTensors::Joined, CellCenter::Corner),
            false => {
                let grids = tensors.grids;
                (GflTensors::Separate { grids }, CellCenter::Middle)
            }
        };
        Some(Self {
            tensors,
            reg_max: GflKeys::from_map(map)?.reg_max,
            center,
        })
    }
}

impl OutputLayout for GflParameters {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(self.decoder(network)?))
    }
}

/// Strides of the grids in one tensor; exports may lack the last.
const STRIDES: [u32; 4] = [8, 16, 32, 64];

/// The tensors as `model.yaml` specifies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GflParameters {
    /// Number of tensors.
    pub tensors: GflTensors,
    /// Greatest distance in units of the stride: 7 unless the network was trained otherwise.
    pub reg_max: usize,
    /// Position of the center of a cell.
    pub center: CellCenter,
}

/// Number of tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GflTensors {
    /// One for all.
    Joined,
    /// The scores of each of that many grids, then the distributions of each, in the order of growing strides.
    Separate {
        /// Number of grids.
        grids: usize,
    },
}

/// Where the center of a cell lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellCenter {
    /// In its upper left corner: NanoDet-Plus.
    Corner,
    /// In its middle: NanoDet and PicoDet.
    Middle,
}

impl GflParameters {
    /// A decoder for the tensors `shapes`, whose strides follow from `input`.
    ///
    /// # Errors
    /// The tensors are not those of the form in the parameters, or do not have the cells of the grids over `input`, or not `classes`.
    fn decoder(&self, network: &NetworkShape<'_>) -> Result<Distances, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let bins = self.reg_max + 1;
        let sides = 4 * bins;
        let grids = match self.tensors {
            GflTensors::Joined => joined(input, classes + sides, shapes)?,
            GflTensors::Separate { grids } => separate(input, grids, classes, sides, shapes)?,
        };
        let all: usize = grids.iter().map(Grid::cells).sum();
        let mut before = 0;
        let mut of_grid = |(level, grid): (usize, &Grid)| {
            let row_len = classes + sides;
            let (scores, sides) = match self.tensors {
                GflTensors::Joined => {
                    let place = |first| Place::rows(0, all, row_len, before * row_len + first);
                    (place(0), place(classes))
                }
                GflTensors::Separate { grids } => {
                    let place = |tensor, len| Place::rows(tensor, grid.cells(), len, 0);
                    (place(level, classes), place(grids + level, sides))
                }
            };
            before += grid.cells();
            DistanceGrid {
                grid: *grid,
                scores: Scores::finished(scores, grid.cells(), classes),
                centerness: None,
                sides,
                bins,
                unit: grid.stride as f32,
            }
        };
        Ok(Distances {
            grids: grids.iter().enumerate().map(&mut of_grid).collect(),
            offset: match self.center {
                CellCenter::Corner => 0.0,
                CellCenter::Middle => 0.5,
            },
        })
    }
}

/// The grids whose cells are rows of one tensor.
fn joined(
    input: Size,
    row_len: usize,
    shapes: &[TensorShape<'_>],
) -> Result<Box<[Grid]>, Mismatch> {
    check_count(shapes, 1, "scores and distributions in one")?;
    let grids = STRIDES.map(|stride| Grid::new(input, stride));
    let rows = |grids: &[Grid]| grids.iter().map(Grid::cells).sum::<usize>();
    let found = shapes[0].axes.first().copied().unwrap_or(0);
    let grids = if found == rows(&grids[..3]) {
        &grids[..3]
    } else {
        &grids
    };
    let wanted = [
        (Some(rows(grids)), "cells"),
        (Some(row_len), "classes and sides"),
    ];
    let advice = "a network with one tensor has a row for each cell of strides 8, 16, 32 and mostly 64: check the labels, \
                  reg_max and the size of the input";
    check_axes(shapes, 0, DType::F32, &wanted, advice)?;
    Ok(grids.into())
}

/// The grids that have their own tensors.
fn separate(
    input: Size,
    count: usize,
    classes: usize,
    sides: usize,
    shapes: &[TensorShape<'_>],
) -> Result<Box<[Grid]>, Mismatch> {
    check_count(
        shapes,
        2 * count,
        "scores of each grid, then boxes of each grid",
    )?;
    let advice = "scores and boxes have a row for each cell, and their grids come in the order of growing strides: check \
                  the labels, reg_max, the size of the input and the order of the tensors";
    let mut above = 1;
    let mut grids = Vec::with_capacity(count);
    for level in 0..count {
        let wanted = [(None, "cells"), (Some(classes), "classes")];
        check_axes(shapes, level, DType::F32, &wanted, advice)?;
        let cells = shapes[level].axes[0];
        let grid = Grid::from_cells(input, above, cells).ok_or_else(|| Mismatch {
            tensor: level,
            expected: format!(
                "float32 [cells, {classes}] with as many cells as {input} has at a stride of 8, 16, 32 or 64"
            ),
            advice: advice.to_owned(),
        })?;
        let wanted = [(Some(cells), "cells"), (Some(sides), "sides")];
        check_axes(shapes, count + level, DType::F32, &wanted, advice)?;
        above = grid.stride;
        grids.push(grid);
    }
    Ok(grids.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::decoders::fixture::{DecoderFixture, check_refused};

    /// Grids of 8 × 4, 4 × 2, 2 × 1 and 1 × 1 cells: 43 cells.
    const INPUT: Size = Size::new(64, 32);

    fn make(
        tensors: GflTensors,
        center: CellCenter,
    ) -> impl Fn(&[TensorShape<'_>]) -> Result<Distances, Mismatch> {
        let parameters = GflParameters {
            tensors,
            reg_max: 3,
            center,
        };
        move |shapes| parameters.decoder(&NetworkShape::new(INPUT, 2, shapes))
    }

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let joined = make(GflTensors::Joined, CellCenter::Middle);
        let grids = |rows| {
            let fixture = DecoderFixture::new(vec![vec![rows, 18]], &joined);
            fixture.decoder.grids.len()
        };
        assert_eq!((grids(43), grids(42)), (4, 3), "without a stride of 64");
        let (f32, i64) = (DType::F32, DType::I64);
        #[rustfmt::skip]
        check_refused(&joined, "", &[
            (&[&[41, 18]], f32, 0, "float32 [43, 18]"),
            (&[&[42, 34]], f32, 0, "float32 [42, 18]"),
            (&[&[43, 18]], i64, 0, "float32 [43, 18]"),
        ]);
        let two = make(GflTensors::Separate { grids: 2 }, CellCenter::Middle);
        let good: [&[usize]; 4] = [&[32, 2], &[8, 2], &[32, 16], &[8, 16]];
        DecoderFixture::new(good.map(Vec::from).to_vec(), &two);
        let stride = "with as many cells as 64×32 has at a stride of 8, 16, 32 or 64";
        #[rustfmt::skip]
        check_refused(&two, "", &[
            (&[good[0], &[8, 3], good[2], good[3]], f32, 1, "float32 [cells, 2]"),
            (&[good[0], good[1], &[32, 32], good[3]], f32, 2, "float32 [32, 16]"),
            (&[good[0], good[1], good[2], &[4, 16]], f32, 3, "float32 [8, 16]"),
            (&[good[0], &[7, 2], good[2], &[7, 16]], f32, 1, &format!("float32 [cells, 2] {stride}")),
            (&good[..3], f32, 3, "4 tensors (scores of each grid, then boxes of each grid) instead of 3"),
        ]);
    }
}
