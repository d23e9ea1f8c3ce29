// SPDX-License-Identifier: Apache-2.0
//! The head of YOLOv8 and its relatives before its decoding: distances to the four sides and scores of the classes, in maps for
//! each stride. Pure.
//!
//! ```text
//! separate  scores [C, h, w]   boxes [4·bins, h, w]      Rockchip's model zoo; its third map, a sum of scores, is not needed
//! joined    [4·bins + C, h, w]                           the maps that Ultralytics' head joins
//!           [C + 4·bins, h, w]                           MMYOLO's, without its post-processing (--model-only)
//!           [4 + 1 + C, h, w]                            Luxonis's, whose maximum of the scores, or 1, is not needed
//! thrice    [C, h, w]  [16, 4, h, w]  [4, h, w]          MultimediaTechLab's YOLO: the second has the distributions of the third, and
//!                                                        all come again for its auxiliary branch
//! ```
//!
//! A side has 16 bins of a distribution before its softmax, or, in YOLO26 and RTMDet, one number. Cells have their center in the
//! middle; see [`distances`](crate::decoders::distances). RTMDet's distances are from the corner of the cell: in pixels by
//! MMDetection, whose head multiplies them by the stride, and in strides by MMYOLO. Maps may have their channels last.

use std::sync::Arc;

use jetwatch_config::{Map, Section, ValueType};

use super::keys::{ActivationKey, TensorForm, per_grid};
use super::recognize::{self, Certainty, HEADS, Output, Outputs, Recognized};
use super::yolo_nas::{PPYOLOE_PLUS, RTMDET_ORIGIN, RTMDET_WEIGHT};
use super::yolov8::COCO;
use super::{CENTERED, DETECTOR, IMAGENET, Layout, OutputLayout, Preprocessing};
use crate::decoders::dense::{Activation, Place, Scores};
use crate::decoders::distances::{DistanceGrid, Distances, MAX_BINS};
use crate::decoders::grids::Grid;
use crate::decoders::objects::BEFORE_CLASSES;
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape, TensorShape};
use crate::yaml_values::elsewhere;
use jetwatch_types::{Placement, Size};

/// The layout.
pub(crate) const YOLOV8_RAW: Layout = Layout {
    name: "yolov8_raw",
    networks: "YOLOv8, YOLO11, YOLO26, RTMDet without their decoding",
    needs: "scores [C, height, width] and boxes [4 * bins, height, width], or one output [4 * bins + C, height, width], for \
            each stride",
    input: CENTERED,
    tensors: &[
        TensorForm::Roles(&[per_grid("scores"), per_grid("boxes")]),
        TensorForm::Roles(&[per_grid("grids")]),
    ],
    keys: &[ActivationKey::KEYS, RawHeadKeys::KEYS],
    read: |map, tensors, _| {
        Some(Arc::new(RawHead {
            activation: activation(map)?,
            distances: match map.get(DISTANCES_ARE) {
                Some(node) => node.one_of(&[
                    ("strides", DistancesAre::Strides),
                    (PIXELS, DistancesAre::Pixels),
                    (CORNER_STRIDES, DistancesAre::CornerStrides),
                ])?,
                None => DistancesAre::Strides,
            },
            grids_begin_with: match map.get(BEGIN_WITH) {
                Some(node) => node.one_of(&[
                    ("boxes", GridsBeginWith::Boxes),
                    (BOXES_AND_MAXIMUM, GridsBeginWith::BoxesAndMaximum),
                    ("scores", GridsBeginWith::Scores),
                ])?,
                None => GridsBeginWith::Boxes,
            },
            are_joined: tensors?.has("grids"),
        }))
    },
    recognize: |outputs| {
        let found = HEADS.iter().find_map(|strides| separate(outputs, strides));
        let found = found.into_iter().flatten();
        found.chain(joined(outputs).into_iter().flatten()).collect()
    },
    ..DETECTOR
};

/// Of the layout `yolov8_raw`.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct RawHeadKeys {
    /// Layout yolov8_raw: unit of the distances to a box's sides: strides from the middle of a cell, or for RTMDet pixels (MMDetection) or strides (MMYOLO) from its upper left corner. Default: strides.
    #[key(value = ValueType::Words(&["strides", PIXELS, CORNER_STRIDES]), read = elsewhere)]
    distances_are: Option<()>,
    /// Layout yolov8_raw: what is first in the tensors `grids`: boxes, in Luxonis's with the maximum of the scores, or in MMYOLO's scores. Default: boxes.
    #[key(value = ValueType::Words(&["boxes", BOXES_AND_MAXIMUM, "scores"]), read = elsewhere)]
    grids_begin_with: Option<()>,
}

const DISTANCES_ARE: &str = "distances_are";
const BEGIN_WITH: &str = "grids_begin_with";
const BOXES_AND_MAXIMUM: &str = "boxes_and_maximum";
const PIXELS: &str = "pixels";
const CORNER_STRIDES: &str = "strides_from_corner";

/// Unit of the distances, and where in a cell they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DistancesAre {
    /// From the middle.
    Strides,
    /// From the upper left corner.
    Pixels,
    /// From the upper left corner.
    CornerStrides,
}

/// What is first in maps that join boxes and scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GridsBeginWith {
    /// The scores are behind them.
    Boxes,
    /// The maximum of the scores, which is not read, is between them.
    BoxesAndMaximum,
    /// The boxes are behind them.
    Scores,
}

/// What is left to do with the scores of a raw head.
pub(super) fn activation(map: &Map<'_>) -> Option<Activation> {
    match map.get("activation") {
        Some(node) => node.one_of(&[("sigmoid", Activation::Sigmoid), ("none", Activation::None)]),
        None => Some(Activation::Sigmoid),
    }
}

/// The key for outputs that this operator makes. Without its name, they are taken for finished if `are_finished`.
pub(super) fn activation_of(
    output: &Output<'_>,
    are_finished: bool,
) -> (&'static str, &'static str) {
    let is_sigmoid = output
        .made_by
        .map_or(are_finished, |operator| operator == "Sigmoid");
    let word = match is_sigmoid {
        true => "none",
        false => "sigmoid",
    };
    ("activation", word)
}

/// Numbers of the distributions of the four sides.
const DISTRIBUTIONS: u64 = 4 * 16;

/// The same with the 17 bins of PP-YOLOE and of the larger YOLOv6.
const PPYOLOE_SIDES: u64 = 4 * 17;
/// Of all networks; some have one number for a side.
const SIDES: [u64; 3] = [DISTRIBUTIONS, PPYOLOE_SIDES, 4];

/// A map of boxes and one of scores for each stride, perhaps with a further one of a single channel.
fn separate(outputs: &Outputs<'_>, strides: &'static [u32]) -> Option<Vec<Recognized>> {
    if let Some((scores, boxes)) = thrice(outputs, strides) {
        return Some(vec![of_maps(outputs, strides, 1, &scores, &boxes)?]);
    }
    if ![2, 3]
        .map(|kinds| kinds * strides.len())
        .contains(&outputs.list.len())
    {
        return None;
    }
    let of_channels = |channels| outputs.maps_among(strides, Some(channels));
    let of_sides = |sides: &u64| Some((sides / 4, of_channels(*sides)?.1));
    let (bins, boxes) = SIDES.iter().find_map(of_sides)?;
    let is_rest = |output: &&Output<'_>| boxes.iter().all(|other| other.name != output.name);
    let score = |stride: &u32| {
        let mut rest = outputs.list.iter().filter(is_rest);
        // The sum comes behind the scores.
        rest.find(|output| outputs.channels_at(output, *stride).is_some())
    };
    let scores: Vec<&Output<'_>> = strides.iter().map(score).collect::<Option<_>>()?;
    let (_, word) = activation_of(scores[0], true);
    // MMDetection's RTMDet multiplies its distances by the stride.
    let are_pixels = bins == 1 && boxes[0].made_by == Some("Mul");
    // Distances with finished scores, or with a centerness, are FCOS's, too, which reads them.
    let is_other = word == "none"
        || outputs.list.len() > 2 * strides.len()
        || !are_pixels && boxes[0].made_by != Some("Conv");
    if bins == 1 && is_other {
        return None;
    }
    let found = of_maps(outputs, strides, bins, &scores, &boxes)?;
    Some(match (bins, are_pixels) {
        (1, true) => vec![of_rtmdet(found, PIXELS)],
        (1, false) => of_one_number(outputs, found),
        (17, _) if outputs.is_paddle() => vec![Recognized {
            origin: Some(PPYOLOE_PLUS),
            ..found
        }],
        _ => vec![found],
    })
}

/// The guess for these maps, where all have scores of as many classes.
fn of_maps(
    outputs: &Outputs<'_>,
    strides: &[u32],
    bins: u64,
    scores: &[&Output<'_>],
    boxes: &[&Output<'_>],
) -> Option<Recognized> {
    let classes = scores[0].axes[0]?;
    if scores.iter().any(|output| output.axes[0] != Some(classes)) {
        return None;
    }
    let (key, word) = activation_of(scores[0], true);
    let reason = format!(
        "scores of {classes} classes and distances with {bins} bins at strides {strides:?}{}",
        outputs.agrees(classes)
    );
    let tensors = vec![
        recognize::per_grid("scores", scores),
        recognize::per_grid("boxes", boxes),
    ];
    let certainty = outputs.limited(Certainty::Likely, classes);
    Some(Recognized {
        parameters: vec![(key, word.to_owned())],
        ..Recognized::new(certainty, classes, tensors, reason)
    })
}

/// Scores and distances of each stride, with the distributions of the distances between them.
fn thrice<'o, 'a>(
    outputs: &'o Outputs<'a>,
    strides: &[u32],
) -> Option<(Vec<&'o Output<'a>>, Vec<&'o Output<'a>>)> {
    if ![3, 6]
        .map(|kinds| kinds * strides.len())
        .contains(&outputs.list.len())
    {
        return None;
    }
    let level = |(stride, level): (&u32, &'o [Output<'a>])| {
        let [scores, bins, sides] = level else {
            return None;
        };
        let fits = matches!(bins.axes.as_slice(), [_, Some(4), _, _])
            && outputs.channels_at(scores, *stride).is_some()
            && outputs.channels_at(sides, *stride) == Some(4);
        fits.then_some((scores, sides))
    };
    strides
        .iter()
        .zip(outputs.list.chunks(3))
        .map(level)
        .collect()
}

/// RTMDet, whose distances begin in the corner.
fn of_rtmdet(mut found: Recognized, unit: &str) -> Recognized {
    found.parameters.push((DISTANCES_ARE, unit.to_owned()));
    found.origin = Some(RTMDET_ORIGIN);
    found
}

/// Sides of one number in strides: YOLO26 has them from the middle of a cell, MMYOLO's RTMDet from its corner. Only names of weights
/// differ; without the names of either, it may be both.
fn of_one_number(outputs: &Outputs<'_>, found: Recognized) -> Vec<Recognized> {
    let middle = Recognized {
        origin: Some(("YOLO26", CENTERED)),
        ..found.clone()
    };
    let corner = of_rtmdet(found, CORNER_STRIDES);
    match (outputs.has_weight(RTMDET_WEIGHT), outputs.has_weight("cv2")) {
        (true, _) => vec![corner],
        (false, true) => vec![middle],
        (false, false) => vec![middle, corner],
    }
}

/// One map for each stride, which joins boxes and logits.
fn joined(outputs: &Outputs<'_>) -> Option<Vec<Recognized>> {
    let maps = |strides: &&'static [u32]| Some((*strides, outputs.maps(strides)?));
    let (strides, (channels, maps)) = HEADS.iter().find_map(maps)?;
    if maps.iter().any(|map| map.made_by != Some("Concat")) {
        return None;
    }
    if joins_maximum(maps[0]) {
        return Some(vec![with_maximum(outputs, channels, &maps)?]);
    }
    let parts = maps[0].joined_channels();
    let is_sides = |part: u64| SIDES.contains(&part);
    let is_named =
        |place: usize, part: &str| maps[0].tensor.convolutions[place].name.contains(part);
    let (sides, scores_first) = match *parts.as_slice() {
        // Two of the same number.
        [first, last] if is_sides(first) && is_sides(last) => {
            let scores_first = is_named(0, "cls") || is_named(1, "reg");
            (if scores_first { last } else { first }, scores_first)
        }
        [first, _] if is_sides(first) => (first, false),
        [_, last] if is_sides(last) => (last, true),
        [] => (DISTRIBUTIONS, false),
        _ => return None,
    };
    let classes = channels.checked_sub(sides).filter(|classes| *classes > 0)?;
    let order = match scores_first {
        true => format!("the scores of {classes} classes and then {sides} of distances"),
        false => format!("{sides} of distances and then the classes"),
    };
    let reason = format!(
        "{channels} channels at strides {strides:?}: {order}{}",
        outputs.agrees(classes)
    );
    // YOLOX joins its maps as well, of 5 + C channels, and YOLOv5 of three times as many.
    let of_others = [
        BEFORE_CLASSES as u64 + COCO,
        3 * (BEFORE_CLASSES as u64 + COCO),
    ];
    let certainty = match parts.is_empty() && of_others.contains(&channels) {
        true => Certainty::Possible,
        false => outputs.limited(Certainty::Likely, classes),
    };
    let mut parameters = vec![("activation", "sigmoid".to_owned())];
    parameters.extend(scores_first.then(|| (BEGIN_WITH, "scores".to_owned())));
    let tensors = vec![recognize::per_grid("grids", &maps)];
    let found = Recognized {
        parameters,
        ..Recognized::new(certainty, classes, tensors, reason)
    };
    Some(match sides {
        4 => of_one_number(outputs, found),
        PPYOLOE_SIDES => vec![Recognized {
            origin: Some(PPYOLOE_PLUS),
            ..found
        }],
        _ => vec![found],
    })
}

/// Whether `map` joins boxes and scores with the maximum of the scores between them, or with constants in its place.
pub(super) fn joins_maximum(map: &Output<'_>) -> bool {
    let between = [
        "ReduceMax",
        "TopK",
        "",
        "Constant",
        "ConstantOfShape",
        "Expand",
    ];
    matches!(&map.tensor.joined[..], [_, maximum, scores] if scores == "Sigmoid" && between.contains(&maximum.as_str()))
}

/// Finished boxes and scores of Luxonis's exporters for their cameras: luxonis-train, and its tools for other networks.
fn with_maximum(outputs: &Outputs<'_>, channels: u64, maps: &[&Output<'_>]) -> Option<Recognized> {
    let classes = channels.checked_sub(BEFORE_CLASSES as u64)?;
    let reason = format!(
        "{channels} channels: 4 distances, the maximum of the scores, and the scores of {classes} classes{}",
        outputs.agrees(classes)
    );
    let tensors = vec![recognize::per_grid("grids", maps)];
    let own = outputs
        .has_weight("regression_branch")
        .then_some(LUXONIS_TRAIN);
    Some(Recognized {
        parameters: vec![
            ("activation", "none".to_owned()),
            (BEGIN_WITH, BOXES_AND_MAXIMUM.to_owned()),
        ],
        origin: own,
        ..Recognized::new(Certainty::Likely, classes, tensors, reason)
    })
}

const LUXONIS_TRAIN: (&str, Preprocessing) = (
    "luxonis-train",
    Preprocessing {
        placement: Placement::Center,
        ..IMAGENET
    },
);

/// The maps as `model.yaml` specifies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawHead {
    /// Whether boxes and scores of a stride are in one map; otherwise the scores of all come first.
    pub are_joined: bool,
    /// Activation to apply to the scores: none or the sigmoid.
    pub activation: Activation,
    /// Unit and origin of the distances.
    pub distances: DistancesAre,
    /// Of joined maps.
    pub grids_begin_with: GridsBeginWith,
}

impl RawHead {
    /// A decoder for the tensors `shapes`, whose strides follow from `input`, in the order of growing strides.
    ///
    /// # Errors
    /// A tensor does not have the shape of a grid over `input` in this order, or its channels are not those of `classes` or of four sides.
    fn decoder(&self, network: &NetworkShape<'_>) -> Result<Distances, Mismatch> {
        let (input, classes, shapes) = network.parts();
        let count = match self.are_joined {
            true => shapes.len(),
            false => shapes.len() / 2,
        };
        let mismatch = |tensor, channels: &str| Mismatch {
            tensor,
            expected: format!(
                "float32 [{channels}, h, w] with h and w those of the input, {input}, divided by a stride of 4 to 64"
            ),
            advice: format!(
                "maps come in the order of growing strides, with a channel for each label and four times as many as a side \
                 has bins; check labels ({classes}), input size and the order of the tensors in model.yaml"
            ),
        };
        let (others, scores_first) = match (self.are_joined, self.grids_begin_with) {
            (false, _) => (0, false),
            (true, GridsBeginWith::BoxesAndMaximum) => (1 + classes, false),
            (true, begin_with) => (classes, begin_with == GridsBeginWith::Scores),
        };
        let mut above = 1;
        let mut grids = Vec::with_capacity(count);
        for level in 0..count {
            let of_sides = match self.are_joined {
                true => level,
                false => count + level,
            };
            let maps = |tensor| ChannelMap::both(input, above, shapes, tensor);
            let with_bins = |sides: ChannelMap| {
                let numbers = sides.channels.checked_sub(others)?;
                let fits = numbers.is_multiple_of(4) && (1..=MAX_BINS).contains(&(numbers / 4));
                fits.then_some((sides, numbers / 4))
            };
            let with_scores = |(sides, bins): (ChannelMap, usize)| {
                let scores = match self.are_joined {
                    true if scores_first => Some(sides.place(0)),
                    true => Some(sides.place(4 * bins + others - classes)),
                    false => {
                        let fits = |scores: &ChannelMap| {
                            scores.channels == classes && scores.grid == sides.grid
                        };
                        maps(level).find(fits).map(|scores| scores.place(0))
                    }
                };
                Some((sides, bins, scores?))
            };
            let mut fitting = maps(of_sides).filter_map(with_bins).peekable();
            if fitting.peek().is_none() {
                return Err(match self.are_joined {
                    true => mismatch(of_sides, &format!("4 * bins + {others}")),
                    false => mismatch(of_sides, "4 * bins"),
                });
            }
            let found = fitting.find_map(with_scores);
            let (sides, bins, scores) =
                found.ok_or_else(|| mismatch(level, &classes.to_string()))?;
            above = sides.grid.stride;
            grids.push(DistanceGrid {
                grid: sides.grid,
                scores: Scores {
                    activation: self.activation,
                    ..Scores::finished(scores, sides.grid.cells(), classes)
                },
                centerness: None,
                sides: sides.place(if scores_first { classes } else { 0 }),
                bins,
                unit: match self.distances {
                    DistancesAre::Pixels => 1.0,
                    _ => sides.grid.stride as f32,
                },
            });
        }
        Ok(Distances {
            grids: grids.into(),
            offset: match self.distances {
                DistancesAre::Strides => 0.5,
                _ => 0.0,
            },
        })
    }
}

impl OutputLayout for RawHead {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(self.decoder(network)?))
    }
}

/// A tensor that is a map of a grid, `[channels, h, w]` or `[h, w, channels]`.
#[derive(Clone, Copy)]
struct ChannelMap {
    tensor: usize,
    grid: Grid,
    channels: usize,
    are_last: bool,
}

impl ChannelMap {
    /// The ways in which the tensor is one, each with the least stride above `above`: a few shapes fit both.
    fn both(
        input: Size,
        above: u32,
        shapes: &[TensorShape<'_>],
        tensor: usize,
    ) -> impl Iterator<Item = Self> {
        let shape = shapes
            .get(tensor)
            .filter(|shape| shape.element == DType::F32);
        let of = |channels, columns, rows, are_last| {
            Some(Self {
                tensor,
                grid: Grid::from_size(input, above, columns, rows)?,
                channels,
                are_last,
            })
        };
        let found = match shape.map(|shape| shape.axes) {
            Some(&[first, second, third]) => [
                of(first, third, second, false),
                of(third, second, first, true),
            ],
            _ => [None, None],
        };
        found.into_iter().flatten()
    }

    /// Behind the first `before` channels.
    fn place(&self, before: usize) -> Place {
        let place = match self.are_last {
            true => Place::rows,
            false => Place::planes,
        };
        place(self.tensor, self.grid.cells(), self.channels, before)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recognize::tests::{Guess, guesses, network, tensors};
    use super::*;
    use crate::decoders::DecodeDiagnostics;
    use crate::decoders::fixture::{DecoderFixture, candidate, check_near, check_refused};

    const INPUT: Size = Size::new(64, 32);
    /// Width and height of the grids of strides 8, 16 and 32.
    const GRIDS: [[usize; 2]; 3] = [[8, 4], [4, 2], [2, 1]];
    const CLASSES: usize = 2;

    fn make(
        are_joined: bool,
        activation: Activation,
    ) -> impl Fn(&[TensorShape<'_>]) -> Result<Distances, Mismatch> {
        let head = RawHead {
            are_joined,
            activation,
            distances: DistancesAre::Strides,
            grids_begin_with: GridsBeginWith::Boxes,
        };
        move |shapes| head.decoder(&NetworkShape::new(INPUT, CLASSES, shapes))
    }

    /// `[channels, h, w]` or `[h, w, channels]` of the three grids.
    fn maps(channels: usize, are_last: bool) -> Vec<Vec<usize>> {
        let map = |[columns, rows]: [usize; 2]| match are_last {
            true => vec![rows, columns, channels],
            false => vec![channels, rows, columns],
        };
        GRIDS.map(map).to_vec()
    }

    /// Four bins that are sure of these distances.
    fn sides(distances: [usize; 4]) -> Vec<f32> {
        let mut sides = vec![0.0; 16];
        for (side, distance) in distances.into_iter().enumerate() {
            sides[side * 4 + distance] = 200.0;
        }
        sides
    }

    #[test]
    fn the_same_boxes_are_read_in_every_form() {
        let log3 = 3.0_f32.ln();
        let distances = [1, 0, 2, 3];
        let wanted = [
            // Stride 16, column 2, row 1: center 40, 24.
            candidate(32 + 6, 1, 0.75, [24.0, 24.0, 72.0, 72.0]),
            // Stride 32, column 1, row 0: center 48, 16.
            candidate(41, 0, 0.75, [16.0, 16.0, 112.0, 112.0]),
        ];
        for (are_joined, are_last, bins, activation) in [
            (false, false, 4, Activation::None),
            (false, true, 4, Activation::Sigmoid),
            (true, false, 4, Activation::Sigmoid),
            (true, true, 4, Activation::Sigmoid),
            (false, false, 1, Activation::Sigmoid),
        ] {
            let axes = match are_joined {
                true => maps(4 * bins + CLASSES, are_last),
                false => [maps(CLASSES, are_last), maps(4 * bins, are_last)].concat(),
            };
            let mut fixture = DecoderFixture::new(axes, make(are_joined, activation));
            let (high, low) = match activation {
                Activation::None => (0.75, 0.2),
                _ => (log3, -9.0),
            };
            let sides = match bins {
                1 => distances.map(|distance| distance as f32).to_vec(),
                _ => sides(distances),
            };
            for (level, [columns, rows]) in GRIDS.into_iter().enumerate() {
                let cells = columns * rows;
                let mut put = |tensor: usize, cell: usize, before: usize, numbers: &[f32]| {
                    let len = fixture.floats[tensor].len() / cells;
                    let (first, step) = match are_last {
                        true => (cell * len + before, 1),
                        false => (before * cells + cell, cells),
                    };
                    fixture.put(tensor, first, step, numbers);
                };
                let (of_sides, before) = match are_joined {
                    true => (level, sides.len()),
                    false => (3 + level, 0),
                };
                for cell in 0..cells {
                    let scores = match (level, cell) {
                        (1, 6) => [low, high],
                        (2, 1) => [high, low],
                        _ => [low, low],
                    };
                    put(level, cell, before, &scores);
                    put(of_sides, cell, 0, &sides);
                }
            }
            let (found, decoded) = fixture.decode(0.5);
            check_near(&found, &wanted);
            assert_eq!(decoded, DecodeDiagnostics::default());
            let places: Vec<(usize, usize)> = match (are_joined, are_last) {
                (false, false) => vec![(1, 6), (4, 6), (4, (4 * bins - 1) * 8 + 6)],
                (false, true) => vec![(1, 12), (4, 6 * 16 + 3)],
                (true, false) => vec![(1, 6), (1, 17 * 8 + 6)],
                (true, true) => vec![(1, 6 * 18), (1, 6 * 18 + 16)],
            };
            fixture.check_non_finite(0.5, places);
        }
    }

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        let end = "with h and w those of the input, 64×32, divided by a stride of 4 to 64";
        let (scores, sides) = (maps(2, false), maps(16, false));
        let (a, b): ([&[usize]; 3], [&[usize]; 3]) = (
            [&scores[0], &scores[1], &scores[2]],
            [&sides[0], &sides[1], &sides[2]],
        );
        let (f32, i64) = (DType::F32, DType::I64);
        #[rustfmt::skip]
        check_refused(make(false, Activation::None), "labels (2)", &[
            (&[a[0], a[1], b[0], &[18, 2, 4]], f32, 3, &format!("float32 [4 * bins, h, w] {end}")),
            (&[a[0], &[3, 2, 4], b[0], b[1]], f32, 1, &format!("float32 [2, h, w] {end}")),
            (&[a[1], a[0], b[1], b[0]], f32, 3, &format!("float32 [4 * bins, h, w] {end}")),
            (&[a[0], a[1], b[0], b[1]], i64, 2, &format!("float32 [4 * bins, h, w] {end}")),
        ]);
        #[rustfmt::skip]
        check_refused(make(true, Activation::None), "labels (2)", &[
            (&[&[17, 4, 8]], f32, 0, &format!("float32 [4 * bins + 2, h, w] {end}")),
            (&[&[2, 4, 8]], f32, 0, &format!("float32 [4 * bins + 2, h, w] {end}")),
        ]);
    }

    #[test]
    fn heads_are_recognized_with_sums_and_in_one_map() {
        let (likely, possible) = (Certainty::Likely, Certainty::Possible);
        let (finished, raw) = (
            &[("activation", "none")][..],
            &[("activation", "sigmoid")][..],
        );
        let pixels = &[("activation", "sigmoid"), ("distances_are", "pixels")][..];
        let corner = [raw[0], (DISTANCES_ARE, CORNER_STRIDES)];
        let corner = &corner[..];
        // Kinds of maps: operator, name, and channels.
        type Case<'a> = (&'a [(&'a str, &'a str, i64)], &'a [Guess<'a>]);
        #[rustfmt::skip]
        let cases: [Case<'_>; 11] = [
            (&[("Conv", "b", 64), ("Sigmoid", "c", 80), ("Clip", "s", 1)], &[(likely, 80, finished)]),
            (&[("", "b", 64), ("", "c", 1), ("", "s", 1)], &[(likely, 1, finished)]),
            (&[("Conv", "b", 64), ("Conv", "c", 80)], &[(likely, 80, raw)]),
            // YOLO26, or MMYOLO's RTMDet.
            (&[("Conv", "b", 4), ("Conv", "c", 80)], &[(likely, 80, raw), (likely, 80, corner)]),
            // FCOS reads them.
            (&[("Conv", "b", 4), ("Sigmoid", "c", 80)], &[]),
            (&[("Conv", "b", 4), ("Conv", "c", 80), ("Conv", "s", 1)], &[]),
            (&[("Exp", "b", 4), ("Conv", "c", 80)], &[]),
            // RTMDet.
            (&[("Mul", "b", 4), ("Conv", "c", 80)], &[(likely, 80, pixels)]),
            (&[("Concat", "o", 144)], &[(likely, 80, raw)]),
            (&[("Concat", "o", 85)], &[(possible, 21, raw)]),
            (&[("Conv", "o", 144)], &[]),
        ];
        for (kinds, wanted) in cases {
            let of_kind = |(operator, name, channels): &(&str, &str, i64)| {
                let map = |side: i64| {
                    let name = format!("{name}{side}/{operator}");
                    let name = name.trim_end_matches('/').to_owned();
                    (name, [1, *channels, side, side])
                };
                [80, 40, 20].map(map)
            };
            let maps: Vec<(String, [i64; 4])> = kinds.iter().flat_map(of_kind).collect();
            let outputs = maps.iter().map(|(name, axes)| (name.as_str(), &axes[..]));
            let outputs: Vec<(&str, &[i64])> = outputs.collect();
            let network = network(&outputs, &["Sigmoid"], 0);
            guesses(&network, "yolov8_raw", wanted);
            if !wanted.is_empty() && kinds.len() > 1 {
                let names = |kind: &str| [80, 40, 20].map(|side| format!("{kind}{side}")).to_vec();
                assert_eq!(tensors(&network, "yolov8_raw"), [names("c"), names("b")]);
            }
        }
    }

    #[test]
    fn heads_of_other_strides_are_recognized() {
        let finished = &[("activation", "none")][..];
        for sides in [&[160, 80, 40, 20][..], &[80, 40, 20, 10], &[40, 20]] {
            let maps = sides.iter().flat_map(|side| {
                [("b/Conv", 64), ("c/Sigmoid", 3), ("s/Clip", 1)].map(|(name, channels)| {
                    let (kind, operator) = name.split_once('/').expect("both");
                    (
                        format!("{kind}{side}/{operator}"),
                        [1, channels, *side, *side],
                    )
                })
            });
            let maps: Vec<(String, [i64; 4])> = maps.collect();
            let outputs = maps.iter().map(|(name, axes)| (name.as_str(), &axes[..]));
            let network = network(&Vec::from_iter(outputs), &[], 0);
            guesses(&network, "yolov8_raw", &[(Certainty::Likely, 3, finished)]);
        }
    }
}
