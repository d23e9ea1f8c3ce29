// SPDX-License-Identifier: Apache-2.0
//! FCOS: one box per cell, as distances from the cell's center to the four sides. Pure; the only code that knows
//! this layout.
//!
//! There is a pair of tensors for each stride, first all scores, then all boxes, then, in some exports, all centernesses:
//!
//! ```text
//! scores      [classes, h, w]   after a sigmoid
//! boxes       [4, h, w]         left, top, right, bottom in units of the stride, at least 0
//! centerness  [1, h, w]         after a sigmoid
//! ```
//!
//! For the cell in column `gx` and row `gy` of the grid with stride `s`:
//!
//! ```text
//! center = ((gx + ½)·s, (gy + ½)·s)     box = center - (left, top)·s … center + (right, bottom)·s
//! score = best class,  or  √(best class · centerness)
//! ```
//!
//! The layout is that of Tian et al., "FCOS: Fully Convolutional One-Stage Object Detection" (2019), with the root over the
//! product that later versions of the authors' code take.

use std::sync::Arc;

use super::keys::{TensorForm, Tensors, optional_per_grid, per_grid};
use super::recognize::{self, Certainty, FOUR, Output, Outputs, Recognized, THREE};
use super::{CENTERED, DETECTOR, Layout, OutputLayout, Preprocessing};
use crate::decoders::dense::{Place, Scores};
use crate::decoders::distances::{DistanceGrid, Distances};
use crate::decoders::grids::Grid;
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape};

/// The layout.
pub const FCOS: Layout = Layout {
    name: "fcos",
    networks: "FCOS-like networks without anchors",
    needs: "scores [C, height, width] and boxes [4, height, width] for each stride, perhaps centerness [1, height, width]",
    tensors: &[TensorForm::Roles(&[
        per_grid("scores"),
        per_grid("boxes"),
        optional_per_grid("centerness"),
    ])],
    read: |_, tensors, _| Some(Arc::new(FcosParameters::new(tensors?))),
    recognize,
    ..DETECTOR
};

/// Its smaller networks in Rockchip's model zoo, with sums of their scores.
const YOLOV6: (&str, Preprocessing) = ("YOLOv6", CENTERED);

/// Strides of the networks that are recognized.
const STRIDES: [&[u32]; 10] = [
    &FOUR,
    &THREE,
    &[8, 16, 32, 64, 128],
    &[16, 32],
    &[8, 16],
    &[4],
    &[8],
    &[16],
    &[32],
    &[64],
];

fn recognize(outputs: &Outputs<'_>) -> Vec<Recognized> {
    let recognized = STRIDES
        .into_iter()
        .find_map(|strides| at_strides(outputs, strides));
    recognized.into_iter().collect()
}

fn at_strides(outputs: &Outputs<'_>, strides: &[u32]) -> Option<Recognized> {
    let kinds = outputs.list.len() / strides.len();
    if kinds * strides.len() != outputs.list.len() || !(2..=3).contains(&kinds) {
        return None;
    }
    let (_, boxes) = outputs.maps_among(strides, Some(4))?;
    let without = |list: &[&Output<'_>], output: &Output<'_>| {
        list.iter().all(|other| other.name != output.name)
    };
    let rest: Vec<&Output<'_>> = outputs
        .list
        .iter()
        .filter(|output| without(&boxes, output))
        .collect();
    let centerness = match kinds {
        3 => centerness(outputs, &rest, strides).unwrap_or_default(),
        _ => Vec::new(),
    };
    let scores: Vec<&Output<'_>> = rest
        .iter()
        .copied()
        .filter(|output| without(&centerness, output))
        .collect();
    let classes = scores.first().and_then(|output| output.axes[0])?;
    let fits = scores.len() == strides.len()
        && scores
            .iter()
            .zip(strides)
            .all(|(output, stride)| outputs.channels_at(output, *stride) == Some(classes));
    // Logits are other networks'. Beside a certainty of objects, numbers below 0 are centers and powers of YOLOX.
    let is_raw = |output: &Output<'_>| output.made_by == Some("Conv");
    if !fits || is_raw(scores[0]) || kinds == 3 && is_raw(boxes[0]) {
        return None;
    }
    let reason = format!(
        "scores of {classes} classes and 4 distances at strides {strides:?}{}",
        outputs.agrees(classes)
    );
    let mut tensors = vec![
        recognize::per_grid("scores", &scores),
        recognize::per_grid("boxes", &boxes),
    ];
    if !centerness.is_empty() {
        tensors.push(recognize::per_grid("centerness", &centerness));
    }
    let is_sum = |output: &Output<'_>| output.made_by == Some("Clip");
    Some(Recognized {
        origin: outputs.further.iter().any(is_sum).then_some(YOLOV6),
        ..Recognized::new(Certainty::Likely, classes, tensors, reason)
    })
}

/// Outputs of one channel, one for each of `strides`; outputs with such names come first, since those of a single class have the same shape.
fn centerness<'v, 'a>(
    outputs: &Outputs<'_>,
    among: &[&'v Output<'a>],
    strides: &[u32],
) -> Option<Vec<&'v Output<'a>>> {
    strides
        .iter()
        .map(|stride| {
            let fits = |output: &&&'v Output<'a>| outputs.channels_at(output, *stride) == Some(1);
            let named = among
                .iter()
                .filter(fits)
                .find(|output| output.name.contains("center"));
            named.or_else(|| among.iter().find(fits)).copied()
        })
        .collect()
}

impl FcosParameters {
    fn new(tensors: &Tensors) -> Self {
        Self {
            grids: tensors.grids,
            score: match tensors.has("centerness") {
                true => FcosScore::Centerness,
                false => FcosScore::Class,
            },
        }
    }
}

impl OutputLayout for FcosParameters {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(self.decoder(network)?))
    }
}

/// The tensors as `model.yaml` specifies them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FcosParameters {
    /// Number of grids: tensors for `scores`, and as many for `boxes`.
    pub grids: usize,
    /// Formula of the score of a box.
    pub score: FcosScore,
}

/// Formula of the score of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FcosScore {
    /// The score of the best class.
    Class,
    /// The root of the best class times the centerness, which has a tensor for each grid.
    Centerness,
}

impl FcosParameters {
    /// A decoder for the tensors `shapes`, whose strides follow from `input`, in the order of growing strides.
    ///
    /// # Errors
    /// The tensors are not as many as the grids need, do not have the planes of `classes`, or are no grids over `input` in
    /// the order of growing strides.
    fn decoder(&self, network: &NetworkShape<'_>) -> Result<Distances, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let count = self.grids;
        let (kinds, roles) = match self.score {
            FcosScore::Class => (2, "scores of each grid, then boxes of each grid"),
            FcosScore::Centerness => (
                3,
                "scores of each grid, then boxes of each grid, then centerness of each grid",
            ),
        };
        check_count(shapes, count * kinds, roles)?;
        let mut grids = Vec::with_capacity(count);
        let mut above = 1;
        for level in 0..count {
            let advice = "scores of the layout fcos have one plane for each label, and their grids come in the order \
                          of growing strides, each of which halves the one before";
            let wanted = [(Some(classes), "classes"), (None, "h"), (None, "w")];
            check_axes(shapes, level, DType::F32, &wanted, advice)?;
            let [rows, columns] = [shapes[level].axes[1], shapes[level].axes[2]];
            let grid = Grid::from_size(input, above, columns, rows).ok_or_else(|| Mismatch {
                tensor: level,
                expected: format!(
                    "float32 [{classes}, h, w] with h and w those of the input, {input}, divided by a stride of 4, 8, 16 …"
                ),
                advice: advice.to_owned(),
            })?;
            above = grid.stride;
            for (kind, planes) in (1..kinds).zip([4, 1]) {
                let wanted = [
                    (Some(planes), "planes"),
                    (Some(rows), "h"),
                    (Some(columns), "w"),
                ];
                let advice = "boxes and centerness of the layout fcos have the grids of scores, in the same order";
                check_axes(shapes, kind * count + level, DType::F32, &wanted, advice)?;
            }
            let (cells, tensor_of) = (grid.cells(), |kind| kind * count + level);
            grids.push(DistanceGrid {
                scores: Scores::finished(Place::planes(level, cells, classes, 0), cells, classes),
                sides: Place::planes(tensor_of(1), cells, 4, 0),
                centerness: (kinds == 3).then(|| Place::planes(tensor_of(2), cells, 1, 0)),
                bins: 1,
                unit: grid.stride as f32,
                grid,
            });
        }
        Ok(Distances {
            grids: grids.into(),
            offset: 0.5,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoders::TensorShape;
    use crate::decoders::fixture::{DecoderFixture, check_refused};
    use jetwatch_types::Size;

    /// Grids of 8 × 4, 4 × 2 and 2 × 1 cells: 42 cells.
    const INPUT: Size = Size::new(64, 32);

    #[test]
    fn other_tensors_are_rejected_with_expected_tensors() {
        let make = |score| {
            move |shapes: &[TensorShape<'_>]| {
                FcosParameters { grids: 2, score }.decoder(&NetworkShape::new(INPUT, 2, shapes))
            }
        };
        let (f32, i64) = (DType::F32, DType::I64);
        let (class, center) = (FcosScore::Class, FcosScore::Centerness);
        let good: [&[usize]; 6] = [
            &[2, 4, 8],
            &[2, 2, 4],
            &[4, 4, 8],
            &[4, 2, 4],
            &[1, 4, 8],
            &[1, 2, 4],
        ];
        DecoderFixture::new(
            good[..4].iter().map(|axes| axes.to_vec()).collect(),
            make(class),
        );
        DecoderFixture::new(
            good.iter().map(|axes| axes.to_vec()).collect(),
            make(center),
        );
        // A grid that no stride gives, and grids in falling order.
        let stride = "with h and w those of the input, 64×32, divided by a stride of 4, 8, 16 …";
        let stride = format!("float32 [2, h, w] {stride}");
        #[rustfmt::skip]
        check_refused(make(class), "", &[
            (&good[..4], i64, 0, "float32 [2, h, w]"),
            (&good[..3], f32, 3, "4 tensors (scores of each grid, then boxes of each grid) instead of 3"),
            (&[&[2, 4, 8], &[2, 3, 4], &[4, 4, 8], &[4, 3, 4]], f32, 1, &stride),
            (&[&[2, 2, 4], &[2, 4, 8], &[4, 2, 4], &[4, 4, 8]], f32, 1, &stride),
        ]);
        #[rustfmt::skip]
        let cases: [(usize, &[usize], &str); 4] = [
            (1, &[3, 2, 4], "float32 [2, h, w]"),
            (2, &[4, 8, 4], "float32 [4, 4, 8]"),
            (3, &[2, 2, 4], "float32 [4, 2, 4]"),
            (4, &[2, 4, 8], "float32 [1, 4, 8]"),
        ];
        for (tensor, axes, expected) in cases {
            let mut all = good;
            all[tensor] = axes;
            check_refused(make(center), "", &[(&all, f32, tensor, expected)]);
        }
    }
}
