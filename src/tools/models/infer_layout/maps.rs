// SPDX-License-Identifier: Apache-2.0
//! The rules for outputs that are maps `[channels, height, width]`. Pure; called by [`rules`](super::rules).

use super::rules::{FOUR, THREE, TINY, list, role};
use super::{InferredLayout, Output, OutputsView};

/// One output `[channels, height, width]` for each grid.
pub(super) fn grids(view: &OutputsView<'_>, found: &mut Vec<InferredLayout>) {
    let strides: &[u32] = match view.outputs.len() {
        1 => &[16],
        2 => &TINY,
        3 => &THREE,
        _ => return,
    };
    let Some((channels, outputs)) = outputs_of_strides(view, strides, None) else {
        return;
    };
    let is_darknet = |layout| matches!(layout, "yolov3" | "yolov4") && strides.len() == 3;
    let mut add = |layout, classes: Option<u64>, tensors, why: String| {
        let Some(classes) = classes.filter(|classes| *classes > 0) else {
            return;
        };
        found.push(InferredLayout {
            layout,
            reason: format!(
                "{channels} channels at stride {strides:?}: {why}{}",
                view.agrees(classes)
            ),
            classes: classes as usize,
            tensors,
            parameters: if is_darknet(layout) {
                anchors(layout)
            } else {
                Vec::new()
            },
            sizes_name: None,
            scales_name: None,
        });
    };
    if let [output] = outputs.as_slice() {
        let why = "5 numbers before the classes".to_owned();
        add(
            "fastestdet",
            channels.checked_sub(5),
            vec![role("name", output)],
            why,
        );
        return;
    }
    // Darknet lists its coarsest grid first.
    let coarse_first: Vec<&Output<'_>> = outputs.iter().rev().copied().collect();
    if channels.is_multiple_of(3) && channels / 3 > 5 {
        for layout in ["yolov4", "yolov3"] {
            let why = "three anchors with 5 numbers before the classes".to_owned();
            let tensors = vec![list("grids", &coarse_first)];
            add(layout, (channels / 3).checked_sub(5), tensors, why);
        }
    }
    if strides.len() == 3 {
        let why = "one box in each cell, with 5 numbers before the classes".to_owned();
        add(
            "yolox",
            channels.checked_sub(5),
            vec![list("grids", &outputs)],
            why,
        );
    }
}

/// The published anchors of the networks with three grids, the coarsest first, and the factors of their centers.
fn anchors(layout: &str) -> Vec<(&'static str, String)> {
    if layout == "yolov3" {
        let anchors =
            "[[116, 90, 156, 198, 373, 326], [30, 61, 62, 45, 59, 119], [10, 13, 16, 30, 33, 23]]";
        return vec![("anchors", anchors.to_owned())];
    }
    let anchors =
        "[[142, 110, 192, 243, 459, 401], [36, 75, 76, 55, 72, 146], [12, 16, 19, 36, 40, 28]]";
    vec![
        ("anchors", anchors.to_owned()),
        ("scale_x_y", "[1.05, 1.1, 1.2]".to_owned()),
    ]
}

/// Scores and boxes in outputs `[channels, height, width]` of their own.
pub(super) fn scores_and_boxes(view: &OutputsView<'_>, found: &mut Vec<InferredLayout>) {
    if let [first, second] = view.outputs.as_slice() {
        for (scores, boxes) in [(first, second), (second, first)] {
            let (Some(classes), Some(channels)) =
                (at_stride(view, scores, 16), at_stride(view, boxes, 16))
            else {
                continue;
            };
            if channels == 4 * classes {
                found.push(InferredLayout {
                    layout: "detectnet_v2",
                    reason: format!(
                        "scores {} and four times as many numbers of boxes at stride 16",
                        scores.shape()
                    ),
                    classes: classes as usize,
                    tensors: vec![role("scores", scores), role("boxes", boxes)],
                    parameters: Vec::new(),
                    sizes_name: None,
                    scales_name: None,
                });
            }
        }
    }
    for strides in [
        &FOUR[..],
        &THREE,
        &[8, 16, 32, 64, 128],
        &[16, 32],
        &[8, 16],
        &[4],
        &[8],
        &[16],
        &[32],
        &[64],
    ] {
        let kinds = view.outputs.len() / strides.len();
        if kinds * strides.len() != view.outputs.len() || !(2..=3).contains(&kinds) {
            continue;
        }
        let Some((_, boxes)) = outputs_of_strides(view, strides, Some(4)) else {
            continue;
        };
        let rest: Vec<&Output<'_>> = view
            .outputs
            .iter()
            .filter(|output| boxes.iter().all(|other| other.name != output.name))
            .collect();
        let centerness = (kinds == 3)
            .then(|| centers(view, &rest, strides))
            .flatten();
        let is_score = |output: &&&Output<'_>| {
            centerness
                .as_ref()
                .is_none_or(|centers| centers.iter().all(|other| other.name != output.name))
        };
        let scores: Vec<&Output<'_>> = rest.iter().filter(is_score).copied().collect();
        let channels = scores.first().and_then(|output| output.axes[0]);
        let fits = scores.iter().zip(strides).all(|(output, stride)| {
            at_stride(view, output, *stride) == channels && channels.is_some()
        });
        let (Some(classes), true) = (channels, fits && scores.len() == strides.len()) else {
            continue;
        };
        let mut tensors = vec![list("scores", &scores), list("boxes", &boxes)];
        tensors.extend(
            centerness
                .as_ref()
                .map(|centers| list("centerness", centers)),
        );
        found.push(InferredLayout {
            layout: "fcos",
            reason: format!(
                "scores of {classes} classes and 4 distances at strides {strides:?}{}",
                view.agrees(classes)
            ),
            classes: classes as usize,
            tensors,
            parameters: Vec::new(),
            sizes_name: None,
            scales_name: None,
        });
    }
}

/// Outputs of one channel, one for each of `strides`; outputs with such names come first, since those of a single class have the same shape.
fn centers<'v, 'a>(
    view: &OutputsView<'_>,
    outputs: &[&'v Output<'a>],
    strides: &[u32],
) -> Option<Vec<&'v Output<'a>>> {
    strides
        .iter()
        .map(|stride| {
            let fits = |output: &&&'v Output<'a>| at_stride(view, output, *stride) == Some(1);
            let named = outputs
                .iter()
                .filter(fits)
                .find(|output| output.name.contains("center"));
            named.or_else(|| outputs.iter().find(fits)).copied()
        })
        .collect()
}

/// The outputs at `strides`, all with the same number of channels, which is `wanted` if given.
fn outputs_of_strides<'v, 'a>(
    view: &'v OutputsView<'a>,
    strides: &[u32],
    wanted: Option<u64>,
) -> Option<(u64, Vec<&'v Output<'a>>)> {
    let mut channels = wanted;
    let mut found = Vec::new();
    for stride in strides {
        let output = view.outputs.iter().find(|output| {
            at_stride(view, output, *stride)
                .is_some_and(|len| channels.is_none_or(|channels| channels == len))
        })?;
        channels = output.axes[0];
        found.push(output);
    }
    Some((channels?, found))
}

/// Channels of `output` if it is a float map of the grid of `stride`.
fn at_stride(view: &OutputsView<'_>, output: &Output<'_>, stride: u32) -> Option<u64> {
    let (width, height) = view.grid(stride);
    match *output.axes.as_slice() {
        [Some(channels), Some(h), Some(w)] if (w, h) == (width, height) && output.is_float() => {
            Some(channels)
        }
        _ => None,
    }
}
