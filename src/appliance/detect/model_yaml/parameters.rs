// SPDX-License-Identifier: Apache-2.0
//! The keys of `output` that only some layouts have: what cannot be learned from the tensors.
//!
//! Called by [`output`](super::output) with the tensors that were named, since some parameters have one value for each grid.

use std::ops::RangeInclusive;

use super::declaration::GflKeys;
use super::output::{Family, Tensors};
use super::ssd::read_ssd;
pub(super) use super::ssd::{MAPS_FORM, RATIOS_FORM, SCALES_FORM, STEPS_FORM, VARIANCES_FORM};
use super::{FileReader, invalid};
use crate::decoders::boxes::BoxUnit;
use crate::decoders::classifier::ClassifierScores;
use crate::decoders::darknet_grids::DarknetGridsParameters;
use crate::decoders::detectnet_v2::DetectNetParameters;
use crate::decoders::detr::{DetrActivation, DetrParameters};
use crate::decoders::fcos::{FcosParameters, FcosScore};
use crate::decoders::gfl::{CellCenter, GflParameters, GflTensors};
use crate::decoders::nms_plugin::{NmsPlugin, NmsPluginParameters};
use crate::decoders::spec::OutputLayout;
use jetwatch_config::{Map, Node, Section};

/// The layout with its parameters. Without `tensors`, whose errors are reported already, what depends on them is not checked.
pub(super) fn read_parameters(
    map: &Map<'_>,
    family: Family,
    tensors: Option<&Tensors>,
    read_text: FileReader<'_>,
) -> Option<OutputLayout> {
    match family {
        Family::Yolox if tensors?.is_name() => Some(OutputLayout::Yolox),
        Family::Yolox => Some(OutputLayout::YoloxGrids),
        Family::Yolov5 => Some(OutputLayout::Yolov5),
        Family::Yolov8 => Some(OutputLayout::Yolov8),
        Family::Yolov3 | Family::Yolov4 => darknet(map, family, tensors?),
        Family::Fcos => tensors.map(fcos),
        Family::Detr => detr(map, tensors),
        Family::EfficientNms | Family::BatchedNms => nms_plugin(map, family),
        Family::NanoDet | Family::PicoDet => gfl(map, family, tensors),
        Family::DetectNetV2 => DetectNetParameters::from_map(map).map(OutputLayout::DetectNetV2),
        Family::FastestDet => Some(OutputLayout::FastestDet),
        Family::Ssd => read_ssd(map, read_text).map(OutputLayout::Ssd),
        Family::Softmax => Some(OutputLayout::Classifier(ClassifierScores::Softmax)),
        Family::Logits => Some(OutputLayout::Classifier(ClassifierScores::Logits)),
        Family::Sigmoid => Some(OutputLayout::Classifier(ClassifierScores::Sigmoid)),
        Family::Embedding => Some(OutputLayout::Embedding),
    }
}

fn fcos(tensors: &Tensors) -> OutputLayout {
    OutputLayout::Fcos(FcosParameters {
        grids: tensors.grids,
        score: if tensors.has("centerness") {
            FcosScore::Centerness
        } else {
            FcosScore::Class
        },
    })
}

fn detr(map: &Map<'_>, tensors: Option<&Tensors>) -> Option<OutputLayout> {
    let activation = match map.get("activation") {
        Some(node) => {
            let found = node.one_of(&[
                ("sigmoid", DetrActivation::Sigmoid),
                ("none", DetrActivation::None),
            ]);
            if tensors.is_some_and(|tensors| tensors.is_name() || tensors.has("labels")) {
                let what = "given for scores that the network has finished";
                return invalid(&node, what, "only together with tensors {scores, boxes}");
            }
            found?
        }
        None => DetrActivation::Sigmoid,
    };
    let tensors = tensors?;
    Some(OutputLayout::Detr(if tensors.is_name() {
        DetrParameters::Joined
    } else if tensors.has("labels") {
        DetrParameters::Ranked
    } else {
        DetrParameters::Queries { activation }
    }))
}

/// In which unit boxes are; the unit of those that go into a plug-in is the exporter's.
pub(super) const UNITS: [(&str, BoxUnit); 2] = [
    ("pixels", BoxUnit::Pixels),
    ("normalized", BoxUnit::Normalized),
];

fn nms_plugin(map: &Map<'_>, family: Family) -> Option<OutputLayout> {
    let (plugin, default) = match family {
        Family::EfficientNms => (NmsPlugin::Efficient, Some(BoxUnit::Pixels)),
        _ => (NmsPlugin::Batched, None),
    };
    let boxes_are = match (map.get("boxes_are"), default) {
        (Some(node), _) => node.one_of(&UNITS)?,
        (None, Some(unit)) => unit,
        (None, None) => {
            map.missing("boxes_are", "one of pixels, normalized");
            return None;
        }
    };
    Some(OutputLayout::NmsPlugin(NmsPluginParameters {
        plugin,
        box_unit: boxes_are,
    }))
}

fn gfl(map: &Map<'_>, family: Family, tensors: Option<&Tensors>) -> Option<OutputLayout> {
    let given = map.get("reg_max");
    let keys = GflKeys::from_map(map);
    let tensors = tensors?;
    if family == Family::PicoDet && tensors.is_name() {
        return match given {
            Some(node) => invalid(
                &node,
                "given for finished boxes",
                "only together with tensors",
            ),
            None => Some(OutputLayout::PicoDetNms),
        };
    }
    let (tensors, center) = if tensors.is_name() {
        (GflTensors::Joined, CellCenter::Corner)
    } else {
        let grids = tensors.grids;
        (GflTensors::Separate { grids }, CellCenter::Middle)
    };
    Some(OutputLayout::Gfl(GflParameters {
        tensors,
        reg_max: keys?.reg_max,
        center,
    }))
}

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

/// What YOLOv4-tiny was trained with.
const TINY_SCALE_X_Y: f32 = 1.05;

fn darknet(map: &Map<'_>, family: Family, tensors: &Tensors) -> Option<OutputLayout> {
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
        return anchors.and(scale).map(|()| OutputLayout::Darknet);
    }
    let anchors = match given {
        Some(node) => anchors_of(&node, grids),
        None if grids == 2 => {
            let first = usize::from(family == Family::Yolov4);
            let of = |range: std::ops::Range<usize>| TINY_ANCHORS[range].to_vec();
            Some(vec![of(3..6), of(first..first + 3)])
        }
        None => {
            map.missing("anchors", &anchors_form(grids));
            None
        }
    };
    let scale_x_y = match scale {
        Some(node) => factors_of(&node, grids),
        None if family == Family::Yolov4 => Some(vec![TINY_SCALE_X_Y; grids]),
        None => Some(vec![1.0; grids]),
    };
    Some(OutputLayout::DarknetGrids(DarknetGridsParameters {
        anchors: anchors?,
        scale_x_y: scale_x_y?,
    }))
}

fn anchors_form(grids: usize) -> String {
    format!(
        "{grids} lists such as [81, 82, 135, 169], width and height of each anchor of a grid in input pixels"
    )
}

/// Anchors of each grid, which are describe one behind the other as in Darknet's files.
fn anchors_of(node: &Node<'_>, grids: usize) -> Option<Vec<Vec<[f32; 2]>>> {
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

/// The numbers of a list, each within `range`.
pub(super) fn numbers_of(
    node: &Node<'_>,
    range: RangeInclusive<f64>,
    form: &str,
) -> Option<Vec<f32>> {
    let items = node.items(form)?;
    let numbers: Vec<Option<f64>> = items
        .iter()
        .map(|item| item.number(range.clone()))
        .collect();
    let numbers = numbers.into_iter().map(|number| Some(number? as f32));
    numbers.collect()
}
