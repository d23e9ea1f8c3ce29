// SPDX-License-Identifier: Apache-2.0
//! YOLOv3 and YOLOv4 as the common converters from Darknet to ONNX write them: decoded boxes and class scores. Pure.
//!
//! `boxes` is `[boxes, 1, 4]` or `[boxes, 4]`, corners as fractions of the input's width and height; `scores` is
//! `[boxes, classes]`, each already objectness times class. [`grids`] decodes networks that end before
//! that.

use std::ops::Range;
use std::sync::Arc;

use jetwatch_config::{Map, Node, Section, ValueType};

use self::grids::{DarknetGridsParameters, SizeFormula};
use super::keys::{TensorForm, Tensors, per_grid, single};
use super::recognize::{self, Certainty, Output, Outputs, Recognized, THREE, TINY};
use super::{DETECTOR, Layout, OutputLayout};
use crate::decoders::boxes::BoxUnit;
use crate::decoders::dense::{Activation, Boxes, Dense, Place, Scores};
use crate::decoders::objects::BEFORE_CLASSES;
use crate::decoders::tensors::{check_axes, check_count};
use crate::decoders::{BoxedDecoder, DType, Mismatch, NetworkShape};
use crate::yaml_values::{elsewhere, invalid, numbers_of};

pub mod grids;

/// The layout of YOLOv3.
pub(crate) const YOLOV3: Layout = Layout {
    name: "yolov3",
    networks: "YOLOv3, YOLOv3-tiny",
    needs: "boxes [N, 1, 4] or [N, 4] and scores [N, C], or one output [3 * (5 + C), height, width] for each grid",
    tensors: &[
        TensorForm::Roles(&[single("boxes"), single("scores")]),
        TensorForm::Roles(&[per_grid("grids")]),
    ],
    keys: &[AnchorsKey::KEYS],
    read: |map, tensors, _| read(map, tensors?, 0, 1.0),
    recognize: |outputs| recognize(outputs, Certainty::Possible, &[("anchors", YOLOV3_ANCHORS)]),
    ..DETECTOR
};

/// The layout of YOLOv4, which came with the common converters.
pub(crate) const YOLOV4: Layout = Layout {
    name: "yolov4",
    networks: "YOLOv4, YOLOv4-tiny",
    keys: &[AnchorsKey::KEYS, ScaleKey::KEYS],
    read: |map, tensors, _| read(map, tensors?, 1, 1.05),
    recognize: |outputs| {
        let parameters = [
            ("anchors", YOLOV4_ANCHORS),
            ("scale_x_y", "[1.05, 1.1, 1.2]"),
        ];
        recognize(outputs, Certainty::Likely, &parameters)
    },
    ..YOLOV3
};

/// The published anchors of networks with three grids, the coarsest first.
const YOLOV3_ANCHORS: &str =
    "[[116, 90, 156, 198, 373, 326], [30, 61, 62, 45, 59, 119], [10, 13, 16, 30, 33, 23]]";
const YOLOV4_ANCHORS: &str =
    "[[142, 110, 192, 243, 459, 401], [36, 75, 76, 55, 72, 146], [12, 16, 19, 36, 40, 28]]";

/// `parameters` are those of networks with three grids.
fn recognize(
    outputs: &Outputs<'_>,
    certainty: Certainty,
    parameters: &[(&'static str, &str)],
) -> Vec<Recognized> {
    let pairs = outputs.pairs();
    let boxes = pairs.iter().find(|pair| pair.has_three_per_cell);
    let boxes = boxes.filter(|pair| pair.columns > 0).map(|pair| {
        let why = "a row for each anchor of Darknet's grids";
        pair.recognized(outputs, certainty, pair.columns, why)
    });
    let grids = [&TINY[..], &THREE]
        .into_iter()
        .find_map(|strides| maps(outputs, certainty, strides, parameters));
    boxes.into_iter().chain(grids).collect()
}

fn maps(
    outputs: &Outputs<'_>,
    certainty: Certainty,
    strides: &[u32],
    parameters: &[(&'static str, &str)],
) -> Option<Recognized> {
    let (channels, maps) = outputs.maps(strides)?;
    // YOLOv5 and YOLOv7 have the same maps.
    let is_other = outputs.has_silu();
    if !channels.is_multiple_of(3) || channels / 3 <= BEFORE_CLASSES as u64 || is_other {
        return None;
    }
    let classes = channels / 3 - BEFORE_CLASSES as u64;
    let reason = format!(
        "{channels} channels at stride {strides:?}: three anchors with 5 numbers before the classes{}",
        outputs.agrees(classes)
    );
    // Darknet lists its coarsest grid first.
    let coarse_first: Vec<&Output<'_>> = maps.into_iter().rev().collect();
    let tensors = vec![recognize::per_grid("grids", &coarse_first)];
    let mut recognized = Recognized::new(certainty, classes, tensors, reason);
    if strides.len() == 3 {
        let parameters = parameters.iter();
        recognized.parameters = parameters
            .map(|(key, value)| (*key, (*value).to_owned()))
            .collect();
    }
    Some(recognized)
}

/// Of darknet's layouts.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(crate) struct AnchorsKey {
    /// Layouts yolov3 and yolov4 with grids, and yolov5_raw: width and height of each anchor in input pixels, by grid. Default: those of the tiny networks, for yolov3 and yolov4 with two grids.
    #[key(value = ANCHORS, read = elsewhere)]
    anchors: Option<()>,
}

const ANCHORS: ValueType = ValueType::Other {
    form: "for each grid a list such as [81, 82, 135, 169]",
    schema: r#"{"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "number", "minimum": 1, "maximum": 8192}}}"#,
};

/// Of YOLOv4.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(crate) struct ScaleKey {
    /// Layout yolov4 with grids: factor of the box centers' range. Default: 1.05.
    #[key(value = SCALE, read = elsewhere)]
    scale_x_y: Option<()>,
}

const SCALE: ValueType = ValueType::Other {
    form: "a number from 1 to 2, or one for each grid",
    schema: r#"{"anyOf": [{"type": "number", "minimum": 1, "maximum": 2}, {"type": "array", "items": {"type": "number", "minimum": 1, "maximum": 2}}]}"#,
};

/// The published anchors of the tiny networks, of strides 32 and 16. The second grid of YOLOv4's begins with the second
/// anchor, not with the first.
const TINY_ANCHORS: [[f32; 2]; 6] = [
    [10.0, 14.0],
    [23.0, 27.0],
    [37.0, 58.0],
    [81.0, 82.0],
    [135.0, 169.0],
    [344.0, 319.0],
];

/// `first_anchor` and `default_scale` are those of the tiny network of the same version.
fn read(
    map: &Map<'_>,
    tensors: &Tensors,
    first_anchor: usize,
    default_scale: f32,
) -> Option<Arc<dyn OutputLayout>> {
    let grids = tensors.grids;
    let (given, scale) = (map.get("anchors"), map.get("scale_x_y"));
    if grids == 0 {
        let of_grids = |node: Option<Node<'_>>| match node {
            Some(node) => invalid(
                &node,
                "given for decoded boxes",
                "only together with tensors.grids",
            ),
            None => Some(()),
        };
        let (anchors, scale) = (of_grids(given), of_grids(scale));
        anchors.and(scale)?;
        return Some(Arc::new(DecodedBoxes));
    }
    let anchors = match given {
        Some(node) => anchors_of(&node, grids),
        None if grids == 2 => {
            let of = |range: Range<usize>| TINY_ANCHORS[range].to_vec();
            Some(vec![of(3..6), of(first_anchor..first_anchor + 3)])
        }
        None => {
            map.missing("anchors", &anchors_form(grids));
            None
        }
    };
    let scale_x_y = match scale {
        Some(node) => factors_of(&node, grids),
        None => Some(vec![default_scale; grids]),
    };
    Some(Arc::new(DarknetGridsParameters {
        anchors: anchors?,
        scale_x_y: scale_x_y?,
        sizes: SizeFormula::Exponential,
        activation: Activation::Sigmoid,
    }))
}

pub(super) fn anchors_form(grids: usize) -> String {
    format!(
        "{grids} lists such as [81, 82, 135, 169], width and height of each anchor of a grid in input pixels"
    )
}

/// Anchors of each grid, which are written one behind the other as in Darknet's files.
pub(super) fn anchors_of(node: &Node<'_>, grids: usize) -> Option<Vec<Vec<[f32; 2]>>> {
    let form = anchors_form(grids);
    let lists = node.items(&form)?;
    if lists.len() != grids {
        return invalid(node, &format!("{} lists", lists.len()), &form);
    }
    let anchors: Vec<Option<Vec<[f32; 2]>>> = lists
        .iter()
        .map(|list| {
            let numbers = numbers_of(list, 1.0..=8192.0, &form)?;
            match numbers.as_chunks::<2>() {
                (pairs, []) if !pairs.is_empty() => Some(pairs.to_vec()),
                _ => list.type_error(&form),
            }
        })
        .collect();
    anchors.into_iter().collect()
}

/// One number for all grids, or a list with one for each.
fn factors_of(node: &Node<'_>, grids: usize) -> Option<Vec<f32>> {
    let range = 1.0..=2.0;
    if !node.is_list() {
        return node.number(range).map(|value| vec![value as f32; grids]);
    }
    let form = format!("one number or a list of {grids}");
    let numbers = numbers_of(node, range, &form)?;
    if numbers.len() == grids {
        Some(numbers)
    } else {
        node.type_error(&form)
    }
}

/// Decoded boxes, which need no parameters.
#[derive(Debug)]
pub struct DecodedBoxes;

impl OutputLayout for DecodedBoxes {
    fn create_decoder(&self, network: &NetworkShape<'_>) -> Result<BoxedDecoder, Mismatch> {
        Ok(Box::new(decoder(network)?))
    }
}

/// The tensors in their order.
const BOXES: usize = 0;
const SCORES: usize = 1;

/// The decoder for boxes and scores over `input`, whatever the number of boxes.
///
/// # Errors
/// There are not two tensors, boxes and scores, with the same number of rows, or scores do not have one column for each of `classes`.
fn decoder(network: &NetworkShape<'_>) -> Result<Dense, Mismatch> {
    let (input, classes, shapes) = network.parts();
    check_count(shapes, 2, "boxes, then scores")?;
    let advice =
        format!("scores have a number for each label; check labels ({classes}) in model.yaml");
    let axes = [(None, "boxes"), (Some(classes), "classes")];
    check_axes(shapes, SCORES, DType::F32, &axes, &advice)?;
    let cells = shapes[SCORES].axes[0];
    let advice =
        "boxes have four corners for each row of scores; check output.tensors in model.yaml";
    let long = [(Some(cells), "boxes"), (Some(1), "1"), (Some(4), "edges")];
    let short = [long[0], long[2]];
    let axes = if shapes[BOXES].axes.len() == 2 {
        &short[..]
    } else {
        &long
    };
    check_axes(shapes, BOXES, DType::F32, axes, advice)?;
    Ok(Dense {
        boxes: Boxes {
            place: Place::rows(BOXES, cells, 4, 0),
            are_centers: false,
            unit: BoxUnit::Normalized.pixels(input),
        },
        scores: Scores::finished(Place::rows(SCORES, cells, classes, 0), cells, classes),
        needs_suppression: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::decoders::fixture::{DecoderFixture, check_refused};
    use jetwatch_types::Size;

    const INPUT: Size = Size::new(100, 200);

    #[test]
    fn other_shapes_are_rejected_with_expected_shape() {
        DecoderFixture::new(vec![vec![9, 4], vec![9, 2]], |shapes| {
            decoder(&NetworkShape::new(INPUT, 2, shapes))
        });
        let f32 = DType::F32;
        #[rustfmt::skip]
        check_refused(|shapes| decoder(&NetworkShape::new(INPUT, 2, shapes)), "", &[
            (&[&[9, 1, 4], &[9, 3]], f32, 1, "float32 [boxes, 2]"),
            (&[&[9, 1, 4], &[1, 9, 2]], f32, 1, "float32 [boxes, 2]"),
            (&[&[8, 1, 4], &[9, 2]], f32, 0, "float32 [9, 1, 4]"),
            (&[&[9, 2, 4], &[9, 2]], f32, 0, "float32 [9, 1, 4]"),
            (&[&[9, 5], &[9, 2]], f32, 0, "float32 [9, 4]"),
        ]);
    }
}
