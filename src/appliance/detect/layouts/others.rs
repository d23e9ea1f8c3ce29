// SPDX-License-Identifier: Apache-2.0
//! Networks that jetwatch does not run, by their inputs and outputs: for the reason of a refusal. Pure.

use super::recognize::{FOUR, Output, Outputs, Pair, THREE, image_input};
use crate::graph::{Axis, Network};
use jetwatch_types::Size;

/// Parts of the names of inputs for text.
const TEXT: [&str; 5] = ["input_ids", "token", "text", "txt", "prompt"];

/// Numbers of a box with distributions over 0 to 7.
const GFL_NUMBERS: u64 = 32;

/// Parts of the names of points in faces.
const LANDMARKS: [&str; 2] = ["kps", "landm"];

const FACES: &str = "faces with landmarks, as of YuNet, SCRFD, RetinaFace or BlazeFace, have outputs of their own: export a detection network \
                     that was trained for faces";
const HEATMAPS: &str =
    "these are heatmaps of centers, as of CenterNet: export the network with its boxes decoded";
const ANCHORS: &str = "these are deltas of anchors, which are not in the file, as of EfficientDet or RetinaNet: export the network with its \
                       boxes decoded";
const POSES: &str = "each row has numbers behind its class, as of poses or of rotated boxes (OBB), or of masks without their prototypes: export \
                     a detection network (such as yolo export model=yolo11n.pt format=onnx)";
const CENTERS: &str = "the boxes that have a tensor of their own are centers and sizes: export them as corners, or together with the scores in \
                       one tensor";
const JOINED: &str = "these maps join scores, boxes and the certainty of an object in an order of their own, as MMYOLO's YOLOX with --model-only: \
                      export it without --model-only";
const LEVELS: &str = "each row has the number of its grid between the box and its scores, as LibreYOLO's FCOS: export another network";
const APART: &str = "the maps of boxes, objects and scores are apart, as those of a YOLOX that was cut for an accelerator: export the whole network";
const NANODET: &str = "each of these maps is one convolution without anchors, as of a NanoDet that was cut for an accelerator: export it by its own \
                       tools/export_onnx.py";
const NO_BATCH: &str = "the rows of all cells have no axis of the batch, as of FreeYOLO: export them as [1, N, 4 + C], such as by unsqueeze(0) behind \
                        the network";
const CHANNELS_LAST: &str = "these maps have their channels last, as of Keras and TensorFlow: convert the network with --outputs-as-nchw and the names of the \
                             outputs by tf2onnx";
const SHARES: &str = "this map has shares of classes and no boxes, as of Edge Impulse's FOMO, which finds centers only: train a network with boxes, \
                      such as YOLO or SSD";
const BINS: &str = "these boxes are distributions of all cells before their decoding, as of KerasCV's YOLOV8Detector or DAMO-YOLO: export the network with its boxes \
                    decoded";
const PLANES: &str = "boxes and scores have a tensor each with a column for each box: export both in one tensor, or with a row for each box";
const YOLOV2: &str =
    "five anchors in each cell of one grid are YOLOv2's: jetwatch reads YOLOv3 and later";

/// Name of an input for text, which networks for any class have.
pub fn text_input(network: &Network) -> Option<&str> {
    let image = image_input(network).map(|input| &input.name);
    let is_text = |name: &&str| TEXT.iter().any(|part| name.to_lowercase().contains(part));
    let names = network.inputs.iter().map(|input| &input.name);
    let others = names.filter(|name| image != Some(*name));
    others.map(String::as_str).find(is_text)
}

/// Whether the boxes are rotated: their corners are computed by sine and cosine of an angle, which transformers use for positions.
pub fn has_angles(network: &Network, size: Size) -> bool {
    let has = |name: &str| network.count(name) > 0;
    let is_list = |outputs: Outputs<'_>| match outputs.list.as_slice() {
        [output] => match *output.axes.as_slice() {
            [Some(rows), Some(columns)] => {
                let is_dense = |cells| outputs.strides_with(cells, 1).is_some();
                columns == 7 || is_dense(rows) || is_dense(columns)
            }
            _ => false,
        },
        _ => false,
    };
    let is_transformer = has("GridSample") || has("LayerNormalization");
    has("Sin")
        && has("Cos")
        && !is_transformer
        && Outputs::new(network, Some(size)).is_some_and(is_list)
}

/// What the outputs of a network that has no layout are, and what to export instead.
pub fn likely_reason(network: &Network, size: Size) -> Option<&'static str> {
    let outputs = Outputs::new(network, Some(size))?;
    let named = |parts: &[&str]| {
        let has = |name: &str| parts.iter().any(|part| name.to_lowercase().contains(part));
        network.outputs.iter().any(|output| has(&output.name))
    };
    let all = || outputs.list.iter().map(|output| output.axes.as_slice());
    let last = |len| all().any(|axes| axes.last() == Some(&Some(len)));
    let map = |channels: &dyn Fn(u64) -> bool| {
        let is_map = |output: &Output<'_>| {
            let mut strides = [4, 8, 16, 32, 64, 128].into_iter();
            strides.any(|stride| outputs.channels_at(output, stride).is_some_and(channels))
        };
        outputs.list.iter().any(is_map)
    };
    let has_last = |axes: &[Option<u64>]| {
        let is_grid = |stride| matches!(*axes, [Some(height), Some(width), _, ..] if (width, height) == outputs.grid(stride));
        [8, 16, 32].into_iter().any(is_grid)
    };
    let are_faces =
        named(&LANDMARKS) || last(10) && last(4) || last(16) && last(1) || last(1) && last(4);
    let single = match all().collect::<Vec<_>>().as_slice() {
        [axes] if outputs.list[0].is_float() => Some(*axes),
        _ => None,
    };
    let has_maps = |channels| outputs.maps_among(&THREE, Some(channels)).is_some();
    let is_raw = |output: &&Output<'_>| output.made_by == Some("Conv");
    let are_nanodet = [&THREE[..], &FOUR]
        .into_iter()
        .filter_map(|strides| outputs.maps(strides))
        .any(|(channels, maps)| channels > GFL_NUMBERS && maps.iter().all(is_raw));
    let has_centers = |pair: &Pair<'_>| pair.boxes.tensor.has_corners == Some(false);
    let first = outputs.list.first();
    let is_without_batch = network
        .outputs
        .iter()
        .any(|output| match output.axes.as_deref() {
            Some([Axis::Fixed(rows), Axis::Fixed(_)]) => outputs.strides_with(*rows, 1).is_some(),
            _ => false,
        });
    if outputs.family() == "fcos" {
        Some(LEVELS)
    } else if outputs.list.len() == 9 && has_maps(4) && has_maps(1) {
        Some(APART)
    } else if are_nanodet {
        Some(NANODET)
    } else if first.is_some_and(|map| map.joined_channels().len() > 2) {
        Some(JOINED)
    } else if all().all(has_last) {
        let is_share = first.is_some_and(|map| map.made_by == Some("Softmax"));
        Some(if is_share { SHARES } else { CHANNELS_LAST })
    } else if all().any(|axes| matches!(axes, [Some(_), Some(64 | 68)])) && outputs.list.len() == 2
    {
        Some(BINS)
    } else if all().any(|axes| matches!(axes, [Some(4), Some(_)])) && outputs.list.len() == 2 {
        Some(PLANES)
    } else if outputs.pairs().iter().any(has_centers) {
        Some(CENTERS)
    } else if are_faces {
        Some(FACES)
    } else if map(&|count| count == 2)
        && outputs
            .list
            .iter()
            .any(|output| outputs.channels_at(output, 4).is_some())
    {
        Some(HEATMAPS)
    } else if named(&["anchor"])
        || map(&|count| {
            count > 4
                && count.is_multiple_of(4)
                && map(&|other| other > count && other.is_multiple_of(count / 4))
        })
    {
        Some(ANCHORS)
    } else if is_without_batch {
        Some(NO_BATCH)
    } else if matches!(single, Some([Some(20..=1000), Some(7..=1000)])) {
        Some(POSES)
    } else if matches!(single, Some([Some(count), _, _]) if count.is_multiple_of(5) && outputs.channels_at(&outputs.list[0], 32).is_some())
    {
        Some(YOLOV2)
    } else {
        None
    }
}
