// SPDX-License-Identifier: Apache-2.0
//! How finished detections are recognized: rows, or boxes with scores and classes of their own. Pure.
//!
//! Shapes, types, operators and names show what a tensor is. Unit, order of the edges and number of the first class are not in
//! the file: they are those of the exporter that the outputs look like, see [`Family`].

use super::super::detr::{AUTHORS, BACKBONES, SCORE_WEIGHT};
use super::super::recognize::{
    self as shared, Certainty, MAX_OBJECTS, Output, Outputs, Recognized, THREE,
};
use super::super::ssd::SSD;
use super::super::yolo_nas::{
    DAMO, EFFICIENTDET, RTMDET_ORIGIN, RTMDET_WEIGHT, of_libreyolo, of_paddle,
};
use super::super::yolox::{YOLOX, YOLOX_WEIGHT};
use super::super::{CENTERED, IMAGENET, Preprocessing, RAW, UNIT};
use super::keys::{CLASS, CORNERS, IGNORED, PADDLE, SCORE, ULTRALYTICS, YOLOV7};
use super::{BOXES, CLASSES, COUNT, SCORES};
use crate::graph::{Axis, Element, Network, Tensor};
use jetwatch_types::Placement;

/// What exports of one origin have in common.
#[derive(Clone, Copy)]
struct Family {
    columns: &'static [&'static str],
    boxes_are: &'static str,
    first_class: u32,
    suppressed: bool,
    origin: Option<(&'static str, Preprocessing)>,
    /// Part of the reason.
    why: &'static str,
}

const ULTRALYTICS_ROWS: Family = Family {
    columns: &ULTRALYTICS,
    boxes_are: "pixels",
    first_class: 0,
    suppressed: true,
    origin: None,
    why: "",
};
/// With the coefficients of its mask behind each box.
const SEGMENT_ROWS: Family = Family {
    columns: &SEGMENT,
    why: ", whose masks are not used",
    ..ULTRALYTICS_ROWS
};
const SEGMENT: [&str; 38] = {
    let mut columns = [IGNORED; 38];
    let mut index = 0;
    while index < ULTRALYTICS.len() {
        columns[index] = ULTRALYTICS[index];
        index += 1;
    }
    columns
};
/// Its images are stretched.
const RTDETR_ROWS: Family = Family {
    columns: &["center_x", "center_y", "width", "height", SCORE, CLASS],
    boxes_are: "normalized",
    origin: Some(("RT-DETR by Ultralytics", UNIT)),
    why: ", whose boxes are centers and sizes, as of RT-DETR by Ultralytics",
    ..ULTRALYTICS_ROWS
};
const PADDLE_ROWS: Family = Family {
    columns: &PADDLE,
    ..ULTRALYTICS_ROWS
};
const YOLOV7_ROWS: Family = Family {
    columns: &YOLOV7,
    ..ULTRALYTICS_ROWS
};
const YOLO_NAS_ROWS: Family = Family {
    columns: &[IGNORED, "left", "top", "right", "bottom", SCORE, CLASS],
    why: ", named as of YOLO-NAS",
    ..ULTRALYTICS_ROWS
};
const ONE_CLASS_ROWS: Family = Family {
    columns: &["left", "top", "right", "bottom", SCORE],
    ..ULTRALYTICS_ROWS
};
const TAO: Option<(&str, Preprocessing)> = Some((
    "NVIDIA's TAO",
    Preprocessing {
        mean: [103.939, 116.779, 123.68],
        ..RAW
    },
));
/// Of the plug-in `BatchedNMS_TRT`.
const TAO_PARTS: Family = Family {
    boxes_are: "normalized",
    origin: TAO,
    why: ", named as of TAO's YOLOv3, YOLOv4 and RetinaNet",
    ..PARTS
};
/// Of the plug-in `GenerateDetection_TRT`.
const MASK_RCNN_ROWS: Family = Family {
    columns: &["top", "left", "bottom", "right", CLASS, SCORE],
    boxes_are: "normalized",
    first_class: 1,
    origin: Some(("TAO's Mask R-CNN", IMAGENET)),
    why: ", as of TAO's Mask R-CNN, whose masks are not used",
    ..ULTRALYTICS_ROWS
};
/// Its background is the last class.
const FASTER_RCNN_ROWS: Family = Family {
    first_class: 0,
    why: ", as of TAO's Faster R-CNN, whose background is the last class",
    ..SSD_ROWS
};
/// Of the plug-in `NMS_TRT`.
const SSD_ROWS: Family = Family {
    columns: &[IGNORED, CLASS, SCORE, "left", "top", "right", "bottom"],
    boxes_are: "normalized",
    first_class: 1,
    origin: TAO,
    why: ", as TensorRT's NMS_TRT has them: class 0 is the background",
    ..ULTRALYTICS_ROWS
};
const EFFICIENTDET_ROWS: Family = Family {
    columns: &[IGNORED, "top", "left", "bottom", "right", SCORE, CLASS],
    first_class: 1,
    origin: Some(EFFICIENTDET),
    why: ", with a batch axis as of EfficientDet, whose classes begin with 1",
    ..ULTRALYTICS_ROWS
};
const EFFDET_ROWS: Family = Family {
    first_class: 1,
    origin: Some(EFFICIENTDET),
    why: ", 100 and without names of classes, as of EfficientDet, whose classes begin with 1, and whose older exports have width and \
          height instead of right and bottom; classes of most others begin with 0",
    ..ULTRALYTICS_ROWS
};
const DEEPSTREAM_ROWS: Family = Family {
    suppressed: false,
    why: ", as many as a network has cells, with the best class of each: DeepStream-Yolo, which leaves suppression to the caller",
    ..ULTRALYTICS_ROWS
};
const PARTS: Family = Family {
    columns: &CORNERS,
    ..ULTRALYTICS_ROWS
};
const DEEPSTREAM_PARTS: Family = Family {
    columns: &CORNERS,
    ..DEEPSTREAM_ROWS
};
const TORCHVISION: Family = Family {
    first_class: 1,
    origin: Some(("torchvision", CENTERED)),
    why: ", without a batch axis and with classes in int64, as of torchvision, whose classes begin with 1; if yours begin with 0, set first_class",
    ..PARTS
};
const TENSORFLOW: Family = Family {
    columns: &["top", "left", "bottom", "right"],
    boxes_are: "normalized",
    first_class: 1,
    origin: Some(("TensorFlow's Object Detection API", SSD.input)),
    why: ", as of TensorFlow, whose edges begin with the top and whose classes begin with 1",
    ..PARTS
};
const TENSORFLOW_LITE: Family = Family {
    first_class: 0,
    why: ", as of TensorFlow Lite, whose edges begin with the top and whose classes begin with 0",
    ..TENSORFLOW
};
/// Producers of what comes from Keras and TensorFlow.
const CONVERTERS: [&str; 3] = ["tf2onnx", "keras2onnx", "tflite2onnx"];
/// Of `tf.image.combined_non_max_suppression`.
const COMBINED: Family = Family {
    origin: Some(("Keras and TensorFlow", UNIT)),
    why: ", as of TensorFlow's suppression, whose edges begin with the top and whose classes begin with 0",
    ..TENSORFLOW_LITE
};
/// Of Azure's Custom Vision.
const CUSTOM_VISION: Family = Family {
    boxes_are: "normalized",
    origin: Some(("Azure's Custom Vision", RAW)),
    why: ", named as of Azure's Custom Vision",
    ..PARTS
};
/// Normalizes the image itself.
const DETECTRON2: Family = Family {
    origin: Some((
        "Detectron2",
        Preprocessing {
            placement: Placement::TopLeft,
            ..RAW
        },
    )),
    why: ", with the size of the image, as of Detectron2",
    ..PARTS
};
/// Networks by a part of the names of their weights: MMDetection, MMYOLO and DeepStream-Yolo give those of several families one form.
const BY_WEIGHTS: [(&str, (&str, Preprocessing)); 7] = [
    (RTMDET_WEIGHT, RTMDET_ORIGIN),
    ("multi_level_conv_obj", YOLOX_ORIGIN),
    (YOLOX_WEIGHT, ("YOLOX", YOLOX.input)),
    ("gfl_cls", DAMO),
    BACKBONES[2],
    BACKBONES[3],
    (SCORE_WEIGHT, AUTHORS),
];
const YOLOX_ORIGIN: (&str, Preprocessing) = ("YOLOX of MMDetection", YOLOX.input);
/// Of the networks with SiLU, RTMDet is the most frequent one.
const RTMDET: Family = Family {
    origin: Some(RTMDET_ORIGIN),
    why: ", as of MMDetection, whose scores stand behind the edges, with SiLU inside as in RTMDet; its YOLOX has mean 0 and scale 1",
    ..MMDETECTION
};
const MMDETECTION: Family = Family {
    columns: ONE_CLASS_ROWS.columns,
    origin: Some((
        "MMDetection",
        Preprocessing {
            placement: Placement::TopLeft,
            ..IMAGENET
        },
    )),
    why: ", as of MMDetection, whose scores stand behind the edges",
    ..PARTS
};

impl Family {
    /// The guess for these tensors; `rows` is the number of rows where it is fixed.
    fn recognized(
        &self,
        outputs: &Outputs<'_>,
        certainty: Certainty,
        tensors: Vec<shared::TensorRole>,
        rows: Option<u64>,
        reason: String,
    ) -> Recognized {
        let has_class =
            self.columns.contains(&CLASS) || tensors.iter().any(|role| role.key == CLASSES);
        let classes = if has_class {
            outputs.noted_classes()
        } else {
            1
        };
        let first_name = outputs.names.as_ref().and_then(|names| names.first());
        let is_background = first_name.is_some_and(|name| name.contains("background"));
        let (first_class, named) = match is_background {
            true => (
                0,
                "; the first of the noted class names is that of the background",
            ),
            false => (self.first_class, ""),
        };
        let mut by_weights = BY_WEIGHTS.iter();
        let (origin, shown) = match by_weights.find(|(part, _)| outputs.has_weight(part)) {
            Some((_, origin)) => (Some(*origin), "; names of weights show whose network it is"),
            None => (of_libreyolo(outputs).or(self.origin), ""),
        };
        let mut parameters = vec![
            ("columns", format!("[{}]", self.columns.join(", "))),
            ("boxes_are", self.boxes_are.to_owned()),
        ];
        parameters.extend(has_class.then(|| ("first_class", first_class.to_string())));
        parameters.extend(rows.map(|rows| ("rows", rows.to_string())));
        parameters.extend((!self.suppressed).then(|| ("suppressed", "false".to_owned())));
        Recognized {
            parameters,
            origin,
            ..Recognized::new(
                certainty,
                classes,
                tensors,
                reason + self.why + named + shown,
            )
        }
    }
}

/// The most likely way, and the same for other networks of MMDetection and PaddleDetection.
pub(super) fn recognize(outputs: &Outputs<'_>) -> Vec<Recognized> {
    let Some(found) = parts(outputs).or_else(|| rows(outputs)) else {
        return Vec::new();
    };
    if outputs.is_paddle() && found.origin.is_none() {
        return of_paddle(outputs, &found);
    }
    // YOLOX's sizes are powers; so are some of RTMDet's distances.
    let may_be_yolox = found.origin == Some(RTMDET_ORIGIN)
        && outputs.has_operator(&["Exp"])
        && !outputs.has_weight(RTMDET_WEIGHT);
    let yolox = may_be_yolox.then(|| Recognized {
        certainty: Certainty::Possible,
        origin: Some(YOLOX_ORIGIN),
        ..found.clone()
    });
    [Some(found), yolox].into_iter().flatten().collect()
}

/// Name of the output that has only the indices of boxes that a suppression kept: without boxes and scores these have no meaning.
pub fn only_indices(network: &Network) -> Option<&str> {
    let ends_with = |axes: &Option<Vec<Axis>>, len| {
        axes.as_ref()
            .is_some_and(|axes| axes.last() == Some(&Axis::Fixed(len)))
    };
    // Four numbers, or five with the score.
    let is_box = |output: &Tensor| {
        output.element == Some(Element::FLOAT)
            && (ends_with(&output.axes, 4) || ends_with(&output.axes, 5))
    };
    let is_suppressed = network
        .operators
        .iter()
        .any(|operator| operator.name == "NonMaxSuppression");
    let has_boxes = network.outputs.iter().any(is_box);
    let is_whole = |element| matches!(element, Some(Element::INT32 | Element::INT64));
    let is_index = |output: &&Tensor| {
        let is_made = output.made_by.as_deref() == Some("NonMaxSuppression");
        let has_three = ends_with(&output.axes, 3);
        // Those of Keras have a further axis, and boxes beside them, which are those before the suppression.
        let is_keras = has_three && output.axes.as_ref().is_some_and(|axes| axes.len() == 3);
        is_whole(output.element) && (is_keras || !has_boxes && (is_made || has_three))
    };
    let indices = network.outputs.iter().find(is_index)?;
    is_suppressed.then_some(&indices.name)
}

/// Whether the name has one of these words.
fn is_named(output: &Output<'_>, words: &[&str]) -> bool {
    let name = output.name.to_lowercase();
    words.iter().any(|word| name.contains(word))
}

/// The output with its first axis, which is that of the batch in most.
fn whole<'a>(outputs: &Outputs<'a>, output: &Output<'_>) -> &'a Tensor {
    let mut tensors = outputs.network.outputs.iter();
    let found = tensors.find(|tensor| tensor.name == output.name);
    found.expect("the list was made from these")
}

fn first_axis(outputs: &Outputs<'_>, output: &Output<'_>) -> Option<u64> {
    match whole(outputs, output).axes.as_ref()?.first()? {
        Axis::Fixed(len) => Some(*len),
        Axis::Open(_) => None,
    }
}

/// Whether an output is the height and width of the image.
fn has_image_size(outputs: &Outputs<'_>) -> bool {
    let is_pair = |output: &Output<'_>| !output.is_float() && output.axes.is_empty();
    let mut list = outputs.list.iter();
    list.any(|output| is_pair(output) && first_axis(outputs, output) == Some(2))
}

/// Whether each cell of the grids has the same number of rows.
fn is_grid(outputs: &Outputs<'_>, rows: Option<u64>) -> bool {
    rows.is_some_and(|rows| rows % outputs.cells(&THREE).max(1) == 0)
}

/// Whether the rows are those of all cells, with the best class of each.
fn is_dense(outputs: &Outputs<'_>, rows: Option<u64>) -> bool {
    let are_many = rows.is_some_and(|rows| rows > MAX_OBJECTS) || is_grid(outputs, rows);
    are_many && outputs.has_best_class() && !outputs.is_behind_suppression()
}

/// Outputs beside the detections: other heads, and what led to the boxes.
const FURTHER: [&str; 6] = [
    "raw_",
    "anchor",
    "multiclass",
    "mask",
    "keypoint",
    "indices",
];
const BOX_NAMES: [&str; 2] = ["box", "det"];
const SCORE_NAMES: [&str; 3] = ["score", "conf", "prob"];
const CLASS_NAMES: [&str; 3] = ["class", "label", "categ"];

/// Boxes `[N, 4]`, scores and classes, perhaps with a count; or boxes and scores in `[N, 5]`, and classes.
fn parts(outputs: &Outputs<'_>) -> Option<Recognized> {
    let is_box = |output: &&Output<'_>| {
        output.is_float()
            && matches!(output.axes.as_slice(), [Some(4 | 5)] | [_, Some(4 | 5)])
            && !is_named(output, &SCORE_NAMES)
    };
    let list: Vec<&Output<'_>> = outputs
        .list
        .iter()
        .filter(|output| !is_named(output, &FURTHER))
        .collect();
    let mut boxes: Vec<&Output<'_>> = list.iter().copied().filter(is_box).collect();
    boxes.sort_by_key(|output| !is_named(output, &BOX_NAMES));
    boxes
        .into_iter()
        .find_map(|boxes| parts_with(outputs, &list, boxes))
}

/// As [`parts`], with these boxes among the outputs `list`.
fn parts_with(
    outputs: &Outputs<'_>,
    list: &[&Output<'_>],
    boxes: &Output<'_>,
) -> Option<Recognized> {
    let has_batch = boxes.axes.len() == 2;
    let has_scores = boxes.axes.last() == Some(&Some(5));
    let rows = match has_batch {
        true => boxes.axes[0],
        false => first_axis(outputs, boxes),
    };
    let axes_of = |output: &Output<'_>| {
        let first = (!has_batch).then(|| first_axis(outputs, output));
        let axes: Vec<Option<u64>> = first
            .into_iter()
            .chain(output.axes.iter().copied())
            .collect();
        axes
    };
    let is_one = |output: &Output<'_>| axes_of(output).iter().all(|axis| *axis == Some(1));
    let is_list = |output: &&Output<'_>| match *axes_of(output).as_slice() {
        [len] | [len, Some(1)] => {
            !is_one(output) && (rows == len || rows.is_none() || len.is_none())
        }
        _ => false,
    };
    let lists: Vec<&Output<'_>> = list.iter().copied().filter(is_list).collect();
    let count = list.iter().copied().find(|output| {
        is_one(output)
            && (!output.is_float() || lists.len() == 2 || is_named(output, &["num", "count"]))
    });
    let classes = classes_of(&lists, count.is_some());
    let scores = lists
        .iter()
        .copied()
        .filter(|output| {
            output.is_float() && classes.is_none_or(|classes| classes.name != output.name)
        })
        .min_by_key(|output| !is_named(output, &SCORE_NAMES))
        .filter(|_| !has_scores);
    let is_behind = outputs.is_behind_suppression();
    // Boxes with nothing but scores may be those before the suppression.
    if scores.is_none() && !has_scores || classes.is_none() && !is_behind {
        return None;
    }
    // NVIDIA's TAO has TensorFlow's names.
    let is_tensorflow =
        is_named(boxes, &["detection_boxes"]) && !outputs.has_operator(&["EfficientNMS_TRT"]);
    let is_lite = is_named(boxes, &["tflite_detection"])
        || outputs.has_operator(&["TFLite_Detection_PostProcess"]);
    let names_fit = is_named(boxes, &BOX_NAMES)
        && scores.is_none_or(|scores| is_named(scores, &SCORE_NAMES))
        && classes.is_some_and(|classes| is_named(classes, &CLASS_NAMES));
    let are_whole = classes.is_some_and(|classes| !classes.is_float());
    let is_dense = is_dense(outputs, rows);
    if !is_behind && rows.is_some_and(|rows| rows > MAX_OBJECTS) && !(is_dense && names_fit) {
        return None;
    }
    let family = if is_lite {
        TENSORFLOW_LITE
    } else if is_tensorflow || count.is_some_and(Output::is_float) {
        TENSORFLOW
    } else if count.is_some() && CONVERTERS.contains(&outputs.network.producer.as_str()) {
        COMBINED
    } else if has_scores {
        match outputs.has_silu() {
            true => RTMDET,
            false => MMDETECTION,
        }
    } else if is_named(boxes, &["detected_boxes"]) {
        CUSTOM_VISION
    } else if is_named(boxes, &["batchednms"]) {
        TAO_PARTS
    } else if !has_batch && has_image_size(outputs) {
        DETECTRON2
    } else if !has_batch && classes.is_some_and(|classes| classes.element == Element::INT64) {
        TORCHVISION
    } else if is_dense {
        DEEPSTREAM_PARTS
    } else {
        PARTS
    };
    let certainty = if is_tensorflow || is_lite || is_behind && (names_fit || are_whole) {
        Certainty::Certain
    } else if names_fit || are_whole {
        Certainty::Likely
    } else {
        Certainty::Possible
    };
    let roles = [
        (BOXES, Some(boxes)),
        (SCORES, scores),
        (CLASSES, classes),
        (COUNT, count),
    ];
    let roles: Vec<_> = roles
        .into_iter()
        .filter_map(|(key, output)| Some((key, output?)))
        .collect();
    let found: Vec<String> = roles
        .iter()
        .map(|(key, output)| format!("{key} {}", whole(outputs, output)))
        .collect();
    let ends = if is_behind {
        ", behind a suppression"
    } else {
        ""
    };
    let is_found = classes.is_none_or(|classes| classes.tensor.is_whole);
    let order = match names_fit || are_whole || is_found {
        true => "",
        false => "; which of two tensors has the scores, only their order shows",
    };
    let reason = format!("{}{ends}{order}", found.join(", "));
    let tensors = roles
        .iter()
        .map(|(key, output)| shared::single(key, output))
        .collect();
    Some(family.recognized(
        outputs,
        certainty,
        tensors,
        rows.filter(|_| has_batch),
        reason,
    ))
}

/// The classes among tensors with one number for each box: the type, the name, the operator or whole numbers of a run show them. Where a count shows
/// that the boxes are suppressed, the first of two, as TensorFlow has them.
fn classes_of<'o, 'a>(lists: &[&'o Output<'a>], has_count: bool) -> Option<&'o Output<'a>> {
    let find =
        |is_it: &dyn Fn(&Output<'_>) -> bool| lists.iter().copied().find(|output| is_it(output));
    find(&|output| !output.is_float())
        .or_else(|| {
            find(&|output| is_named(output, &CLASS_NAMES) && !is_named(output, &SCORE_NAMES))
        })
        .or_else(|| find(&|output| output.made_by == Some("ArgMax")))
        .or_else(|| find(&|output| output.tensor.is_whole && !is_named(output, &SCORE_NAMES)))
        .or_else(|| {
            find(&|output| has_count && lists.len() == 2 && !is_named(output, &SCORE_NAMES))
        })
}

/// One output of rows, beside which there are at most their count, and prototypes of masks.
fn rows(outputs: &Outputs<'_>) -> Option<Recognized> {
    let is_segment = outputs.network.metadata_value("task") == Some("segment");
    let is_rows = |output: &&Output<'_>| match output.axes.as_slice() {
        [_] | [_, _] | [Some(1), _, _] => output.is_float(),
        _ => false,
    };
    let is_short = |output: &Output<'_>| matches!(*output.axes.as_slice(), [Some(rows), Some(6 | 7)] if rows <= MAX_OBJECTS);
    let has_short = outputs.list.iter().any(is_short);
    let is_further = |output: &Output<'_>| {
        // The head before the suppression.
        let is_head = has_short
            && output
                .axes
                .iter()
                .any(|axis| axis.is_some_and(|len| len > MAX_OBJECTS));
        !output.is_float() && output.axes.iter().all(|axis| *axis == Some(1))
            || is_segment && output.axes.len() == 3
            || is_head
    };
    let rest: Vec<_> = outputs
        .list
        .iter()
        .filter(|output| !is_further(output))
        .collect();
    let [output] = rest.as_slice() else {
        return None;
    };
    if !is_rows(output) {
        return None;
    }
    let is_behind = outputs.is_behind_suppression();
    // A score for each class, as of RT-DETR.
    if !is_behind && output.joins_scores() {
        return None;
    }
    let (rows, width) = match *output.axes.as_slice() {
        [Some(1), Some(rows), Some(width)] if is_behind => (Some(rows), width),
        [Some(rows), Some(width)]
            if is_behind || rows <= MAX_OBJECTS || width == 6 && is_dense(outputs, Some(rows)) =>
        {
            (Some(rows), width)
        }
        // The number of rows varies; where there is no batch axis, it is the first. PaddleDetection's RT-DETR needs no suppression.
        [None, Some(width)] | [Some(width)]
            if is_behind || outputs.is_paddle() && outputs.has_operator(&["TopK"]) =>
        {
            (None, width)
        }
        _ => return None,
    };
    let has_names = outputs.names.is_some();
    let noted = |key| outputs.network.metadata_value(key).unwrap_or_default();
    let is_rtdetr = noted("head") == "RTDETRDecoder" || noted("description").contains("rtdetr");
    let family = match width {
        6 if is_named(output, &["generate_detections"]) => MASK_RCNN_ROWS,
        6 if outputs.is_paddle() && outputs.has_best_of_all() => Family {
            columns: &ULTRALYTICS,
            suppressed: !is_dense(outputs, rows),
            why: ", with the best class of each: DeepStream-Yolo",
            ..PADDLE_ROWS
        },
        6 if outputs.is_paddle() => PADDLE_ROWS,
        6 if is_dense(outputs, rows) => DEEPSTREAM_ROWS,
        6 if is_rtdetr => RTDETR_ROWS,
        6 if rows == Some(100) && !has_names => EFFDET_ROWS,
        6 => ULTRALYTICS_ROWS,
        7 if outputs.has_operator(&["CropAndResize", "CropAndResizeDynamic"]) => FASTER_RCNN_ROWS,
        7 if outputs.has_operator(&["NMS_TRT", "NMSDynamic_TRT"]) => SSD_ROWS,
        7 if is_behind && is_named(output, &["flat"]) => YOLO_NAS_ROWS,
        7 if is_behind && output.axes.len() == 2 => EFFICIENTDET_ROWS,
        7 if is_behind => YOLOV7_ROWS,
        5 if is_behind => ONE_CLASS_ROWS,
        _ if is_segment && width == SEGMENT.len() as u64 => SEGMENT_ROWS,
        _ => return None,
    };
    let is_unsure = is_grid(outputs, rows) || outputs.noted_classes() == width - 4;
    let is_doubtful = is_unsure && family.suppressed && !is_behind;
    let (certainty, why) = match (is_behind, is_doubtful) {
        (true, false) => (Certainty::Certain, ", behind a suppression"),
        (false, false) if !family.suppressed => (Certainty::Certain, ""),
        (false, false) => (Certainty::Likely, ""),
        (_, true) => (Certainty::Possible, ""),
    };
    let reason = format!("output {}: rows of {width} numbers{why}", output.shape());
    let tensors = vec![shared::single("name", output)];
    Some(family.recognized(outputs, certainty, tensors, rows, reason))
}
