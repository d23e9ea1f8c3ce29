// SPDX-License-Identifier: Apache-2.0
//! The rules for outputs that are lists of boxes: one function for each number of outputs. Those for maps are in
//! [`maps`]. Pure; called by [`candidate_layouts`](super::candidate_layouts).

use jetwatch_detect::graph::Element;

use super::{InferredLayout, Output, OutputsView, TensorRole, classifiers, maps};
use crate::background::{BACKGROUND_KEY, Background};

/// Numbers of one box in NanoDet and PicoDet: four distributions over 0 to 7.
const DISTRIBUTIONS: u64 = 32;
/// Strides of most families.
pub(super) const THREE: [u32; 3] = [8, 16, 32];
/// Strides of NanoDet-Plus and PicoDet.
pub(super) const FOUR: [u32; 4] = [8, 16, 32, 64];
/// Strides of the tiny networks of Darknet.
pub(super) const TINY: [u32; 2] = [16, 32];
/// Maximum number of queries of the DETR family; SSD has thousands of anchors.
const MAX_QUERIES: u64 = 1000;

/// Every guess, the most likely first.
pub(super) fn all(view: &OutputsView<'_>) -> Vec<InferredLayout> {
    let mut found = Vec::new();
    found.extend(suppressed(view));
    found.extend(queries_with_labels(view));
    match view.outputs.as_slice() {
        [output] => one(view, output, &mut found),
        [first, second] => {
            pair(view, first, second, &mut found);
            pair(view, second, first, &mut found);
        }
        _ => {}
    }
    distributions(view, &mut found);
    maps::grids(view, &mut found);
    maps::scores_and_boxes(view, &mut found);
    classifiers::scores(view, &mut found);
    found
}

/// Count, boxes, scores and classes, as TensorRT's plug-ins and compatible exporters output them.
fn suppressed(view: &OutputsView<'_>) -> Option<InferredLayout> {
    let outputs = &view.outputs;
    if outputs.len() != 4 {
        return None;
    }
    let count = outputs.iter().find(|output| {
        output.element == Element::INT32 && matches!(output.axes.as_slice(), [] | [Some(1)])
    })?;
    let boxes = outputs.iter().find(|output| is_boxes(output))?;
    let is_list = |output: &&Output<'_>| output.axes.len() == 1 && output.name != count.name;
    let lists: Vec<&Output<'_>> = outputs.iter().filter(is_list).collect();
    let [first, second] = lists.as_slice() else {
        return None;
    };
    let (scores, classes) = if first.element == Element::INT32 || first.name.contains("class") {
        (*second, *first)
    } else {
        (*first, *second)
    };
    if !scores.is_float() {
        return None;
    }
    let layout = match classes.element {
        Element::INT32 => "efficient_nms",
        Element::FLOAT => "batched_nms",
        _ => return None,
    };
    let plugin = view.has_operator(&[
        "EfficientNMS_TRT",
        "BatchedNMS_TRT",
        "BatchedNMSDynamic_TRT",
    ]);
    let ends = if plugin {
        "; it ends with TensorRT's plug-in"
    } else {
        ""
    };
    Some(InferredLayout {
        layout,
        reason: format!("a count, boxes {}, scores and classes{ends}", boxes.shape()),
        classes: view.names.as_ref().map_or(0, Vec::len),
        tensors: vec![
            role("count", count),
            role("boxes", boxes),
            role("scores", scores),
            role("classes", classes),
        ],
        parameters: if layout == "batched_nms" {
            vec![("boxes_are", "pixels".to_owned())]
        } else {
            Vec::new()
        },
        sizes_name: None,
        scales_name: None,
    })
}

/// Labels, boxes and scores of queries, with the size of the images as a second input.
fn queries_with_labels(view: &OutputsView<'_>) -> Option<InferredLayout> {
    let outputs = &view.outputs;
    if outputs.len() != 3 {
        return None;
    }
    let labels = outputs
        .iter()
        .find(|output| output.element == Element::INT64 && output.axes.len() == 1)?;
    let boxes = outputs.iter().find(|output| is_boxes(output))?;
    let scores = outputs
        .iter()
        .find(|output| output.is_float() && output.axes.len() == 1)?;
    let sizes = view.extra_input(Element::INT64);
    let given = sizes.map_or("", |_| "; a further input takes the size of the images");
    Some(InferredLayout {
        layout: "detr",
        reason: format!(
            "labels in int64, boxes {} and scores of queries{given}",
            boxes.shape()
        ),
        classes: view.names.as_ref().map_or(0, Vec::len),
        tensors: vec![
            role("labels", labels),
            role("boxes", boxes),
            role("scores", scores),
        ],
        parameters: Vec::new(),
        sizes_name: None,
        scales_name: None,
    })
}

/// One output.
fn one(view: &OutputsView<'_>, output: &Output<'_>, found: &mut Vec<InferredLayout>) {
    let [Some(rows), Some(columns)] = *output.axes.as_slice() else {
        return;
    };
    let mut add = |layout, classes: Option<u64>, why: String| {
        let Some(classes) = classes.filter(|classes| *classes > 0 && output.is_float()) else {
            return;
        };
        found.push(InferredLayout {
            layout,
            reason: format!("output {}: {why}{}", output.shape(), view.agrees(classes)),
            classes: classes as usize,
            tensors: vec![role("name", output)],
            parameters: Vec::new(),
            sizes_name: None,
            scales_name: None,
        });
    };
    let cells = view.cells(&THREE);
    if view.has_operator(&["NonMaxSuppression"]) || (columns == 6 && rows <= MAX_QUERIES) {
        if columns == 6 && is_paddle(view) {
            let why = format!("{rows} rows of 6, from PaddlePaddle: boxes after suppression");
            add(
                "picodet",
                view.names.as_ref().map(|names| names.len() as u64),
                why,
            );
        }
        return;
    }
    if rows == cells {
        let five = columns.checked_sub(5);
        // The raw head has neither: both are part of the decoding of boxes in the network.
        if view.has_operator(&["Exp", "Softmax"]) {
            let why = format!(
                "{cells} cells of strides 8, 16 and 32, and the network decodes the boxes itself, as YOLOX does when it is \
                 exported with its decoding, and YOLOv6"
            );
            add("yolov5", five, why);
        }
        let why =
            format!("{cells} cells of strides 8, 16 and 32, with 5 numbers before the classes");
        add("yolox", five, why);
    }
    if rows == 3 * cells || rows == 3 * view.cells(&[8, 16, 32, 64]) {
        let why = format!("{rows} = three anchors in each cell, with 5 numbers before the classes");
        add("yolov5", columns.checked_sub(5), why);
    }
    if columns == cells {
        let why = format!("a column for each of {cells} cells, with 4 numbers before the classes");
        add("yolov8", rows.checked_sub(4), why);
    }
    let four = view.cells(&FOUR);
    if rows == four || rows == cells {
        let why = format!(
            "{rows} cells, with {DISTRIBUTIONS} numbers of distributions behind the classes"
        );
        let classes = columns.checked_sub(DISTRIBUTIONS);
        add("nanodet", classes.filter(|_| rows == four), why);
    }
    if rows <= MAX_QUERIES && rows < cells && columns > 4 {
        let why = format!("{rows} queries, with 4 numbers before the classes");
        add("detr", Some(columns - 4), why);
    }
}

/// Boxes in one output, scores in the other.
fn pair(
    view: &OutputsView<'_>,
    boxes: &Output<'_>,
    scores: &Output<'_>,
    found: &mut Vec<InferredLayout>,
) {
    let [rows, Some(columns)] = *scores.axes.as_slice() else {
        return;
    };
    let is_single = matches!(boxes.axes.as_slice(), [_, Some(1), Some(4)]);
    let is_fit = (is_boxes(boxes) || is_single) && boxes.axes[0] == rows && scores.is_float();
    // A score tensor of four columns could be either; the names decide then.
    if !is_fit || columns == 4 && boxes.name.contains("score") {
        return;
    }
    let mut add = |layout, classes: u64, parameters, why: String| {
        found.push(InferredLayout {
            layout,
            reason: format!(
                "boxes {} and scores {}: {why}{}",
                boxes.shape(),
                scores.shape(),
                view.agrees(classes)
            ),
            classes: classes as usize,
            tensors: vec![role("boxes", boxes), role("scores", scores)],
            parameters,
            sizes_name: None,
            scales_name: None,
        });
    };
    let three_each = |strides: &[u32]| Some(3 * view.cells(strides));
    let is_tiny = rows == three_each(&TINY);
    if is_single || is_tiny || rows == three_each(&THREE) {
        let why = "a row for each anchor of Darknet's grids".to_owned();
        add("yolov4", columns, Vec::new(), why.clone());
        add("yolov3", columns, Vec::new(), why);
        return;
    }
    if rows.is_none_or(|rows| rows <= MAX_QUERIES) {
        let is_logit = scores.name.contains("logit");
        let activation = if is_logit { "sigmoid" } else { "none" };
        let why = if is_logit {
            "queries, and the name indicates that the sigmoid is missing"
        } else {
            "queries"
        };
        let parameters = vec![("activation", activation.to_owned())];
        add("detr", columns, parameters, why.to_owned());
    } else if columns > 0 {
        let why = "as many as anchors, which the file does not contain".to_owned();
        let noted = view.names.as_ref().map(Vec::len);
        let background = Background::likely(columns as usize, noted);
        // Deltas would need the anchors; finished boxes do not.
        let parameters = vec![
            ("boxes_are", "normalized".to_owned()),
            (BACKGROUND_KEY, background.word().to_owned()),
            ("activation", "none".to_owned()),
        ];
        let classes = background.classes(columns as usize) as u64;
        add("ssd", classes, parameters, why);
    }
}

/// Scores and distributions for each of the strides 8, 16, 32 and 64.
fn distributions(view: &OutputsView<'_>, found: &mut Vec<InferredLayout>) {
    let strides: Vec<u32> = FOUR.into_iter().take(view.outputs.len() / 2).collect();
    if strides.len() < 3 || view.outputs.len() != 2 * strides.len() {
        return;
    }
    let mut scores = Vec::new();
    let mut boxes = Vec::new();
    let mut classes = None;
    for stride in &strides {
        let cells = view.cells(&[*stride]);
        for output in &view.outputs {
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
    let Some(classes) =
        classes.filter(|_| scores.len() == strides.len() && boxes.len() == strides.len())
    else {
        return;
    };
    let reasons = if is_paddle(view) {
        [("picodet", ", from PaddlePaddle"), ("nanodet", "")]
    } else {
        [("nanodet", ""), ("picodet", "")]
    };
    for (layout, why) in reasons {
        found.push(InferredLayout {
            layout,
            reason: format!(
                "scores of {classes} classes and {DISTRIBUTIONS} numbers of distributions for each of {} strides{why}{}",
                strides.len(),
                view.agrees(classes)
            ),
            classes: classes as usize,
            tensors: vec![list("scores", &scores), list("boxes", &boxes)],
            parameters: Vec::new(),
            sizes_name: None,
            scales_name: None,
        });
    }
}

fn is_boxes(output: &Output<'_>) -> bool {
    output.is_float() && matches!(output.axes.as_slice(), [_, Some(4)])
}

fn is_paddle(view: &OutputsView<'_>) -> bool {
    view.network.producer.to_lowercase().contains("paddle")
}

/// One output of a kind.
pub(super) fn role(key: &'static str, output: &Output<'_>) -> TensorRole {
    TensorRole {
        key,
        names: vec![output.name.to_owned()],
        is_list: false,
    }
}

/// One output of a kind for each grid.
pub(super) fn list(key: &'static str, outputs: &[&Output<'_>]) -> TensorRole {
    TensorRole {
        key,
        names: outputs
            .iter()
            .map(|output| output.name.to_owned())
            .collect(),
        is_list: true,
    }
}
