//! The rules by which layouts are guessed: one function for each number of outputs. Pure; called by [`guesses`](super::guesses).

use super::super::network::Element;
use super::{Guess, Output, Role, View};

/// Numbers of one box in NanoDet and PicoDet: four distributions over 0 to 7.
const DISTRIBUTIONS: u64 = 32;
/// Strides of most families.
const THREE: [u32; 3] = [8, 16, 32];
/// Strides of NanoDet-Plus and PicoDet.
const FOUR: [u32; 4] = [8, 16, 32, 64];
/// Strides of the tiny networks of Darknet.
const TINY: [u32; 2] = [16, 32];
/// Most queries of the DETR family; SSD has thousands of anchors.
const MOST_QUERIES: u64 = 1000;

/// Every guess, the most likely first.
pub(super) fn all(view: &View<'_>) -> Vec<Guess> {
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
    grids(view, &mut found);
    maps(view, &mut found);
    found
}

/// Count, boxes, scores and classes, as TensorRT's plug-ins and their imitations give them.
fn suppressed(view: &View<'_>) -> Option<Guess> {
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
    Some(Guess {
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
    })
}

/// Labels, boxes and scores of queries, with the size of the pictures as a second input.
fn queries_with_labels(view: &View<'_>) -> Option<Guess> {
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
    let sizes = view.network.inputs.iter().find(|input| {
        input.element == Some(Element::INT64)
            && input.axes.as_ref().is_some_and(|axes| axes.len() == 2)
    });
    let given = sizes.map_or("", |_| "; a second input takes the size of the pictures");
    Some(Guess {
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
        sizes_name: sizes.map(|input| input.name.clone()),
    })
}

/// One output.
fn one(view: &View<'_>, output: &Output<'_>, found: &mut Vec<Guess>) {
    let [Some(rows), Some(columns)] = *output.axes.as_slice() else {
        return;
    };
    let mut add = |layout, classes: Option<u64>, why: String| {
        let Some(classes) = classes.filter(|classes| *classes > 0 && output.is_float()) else {
            return;
        };
        found.push(Guess {
            layout,
            reason: format!("output {}: {why}{}", output.shape(), view.agrees(classes)),
            classes: classes as usize,
            tensors: vec![role("name", output)],
            parameters: Vec::new(),
            sizes_name: None,
        });
    };
    let cells = view.cells(&THREE);
    if view.has_operator(&["NonMaxSuppression"]) || (columns == 6 && rows <= MOST_QUERIES) {
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
        // The raw head has neither: both come with the decoding of boxes in the network.
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
    if rows <= MOST_QUERIES && rows < cells && columns > 4 {
        let why = format!("{rows} queries, with 4 numbers before the classes");
        add("detr", Some(columns - 4), why);
    }
}

/// Boxes in one output, scores in the other.
fn pair(view: &View<'_>, boxes: &Output<'_>, scores: &Output<'_>, found: &mut Vec<Guess>) {
    let [rows, Some(columns)] = *scores.axes.as_slice() else {
        return;
    };
    let is_single = matches!(boxes.axes.as_slice(), [_, Some(1), Some(4)]);
    let is_fit = (is_boxes(boxes) || is_single) && boxes.axes[0] == rows && scores.is_float();
    // A score tensor of four columns could be either; the names tell then.
    if !is_fit || columns == 4 && boxes.name.contains("score") {
        return;
    }
    let mut add = |layout, classes: u64, parameters, why: String| {
        found.push(Guess {
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
    if rows.is_none_or(|rows| rows <= MOST_QUERIES) {
        let is_logit = scores.name.contains("logit");
        let activation = if is_logit { "sigmoid" } else { "none" };
        let why = if is_logit {
            "queries, and the name says that the sigmoid is missing"
        } else {
            "queries"
        };
        let parameters = vec![("activation", activation.to_owned())];
        add("detr", columns, parameters, why.to_owned());
    } else if columns > 1 {
        let why = "as many as anchors that the file does not tell".to_owned();
        add("ssd", columns - 1, Vec::new(), why);
    }
}

/// Scores and distributions for each of the strides 8, 16, 32 and 64.
fn distributions(view: &View<'_>, found: &mut Vec<Guess>) {
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
    let words = if is_paddle(view) {
        [("picodet", ", from PaddlePaddle"), ("nanodet", "")]
    } else {
        [("nanodet", ""), ("picodet", "")]
    };
    for (layout, why) in words {
        found.push(Guess {
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
        });
    }
}

/// One output `[channels, height, width]` for each grid.
fn grids(view: &View<'_>, found: &mut Vec<Guess>) {
    let strides: &[u32] = match view.outputs.len() {
        1 => &[16],
        2 => &TINY,
        3 => &THREE,
        _ => return,
    };
    let Some((channels, outputs)) = of_strides(view, strides, None) else {
        return;
    };
    let mut add = |layout, classes: Option<u64>, tensors, why: String| {
        let Some(classes) = classes.filter(|classes| *classes > 0) else {
            return;
        };
        found.push(Guess {
            layout,
            reason: format!(
                "{channels} channels at stride {strides:?}: {why}{}",
                view.agrees(classes)
            ),
            classes: classes as usize,
            tensors,
            parameters: Vec::new(),
            sizes_name: None,
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

/// Scores and boxes in outputs `[channels, height, width]` of their own.
fn maps(view: &View<'_>, found: &mut Vec<Guess>) {
    if let [first, second] = view.outputs.as_slice() {
        for (scores, boxes) in [(first, second), (second, first)] {
            let (Some(classes), Some(channels)) =
                (at_stride(view, scores, 16), at_stride(view, boxes, 16))
            else {
                continue;
            };
            if channels == 4 * classes {
                found.push(Guess {
                    layout: "detectnet_v2",
                    reason: format!(
                        "scores {} and four times as many numbers of boxes at stride 16",
                        scores.shape()
                    ),
                    classes: classes as usize,
                    tensors: vec![role("scores", scores), role("boxes", boxes)],
                    parameters: Vec::new(),
                    sizes_name: None,
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
    ] {
        let kinds = view.outputs.len() / strides.len();
        if kinds * strides.len() != view.outputs.len() || !(2..=3).contains(&kinds) {
            continue;
        }
        let Some((_, boxes)) = of_strides(view, strides, Some(4)) else {
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
        found.push(Guess {
            layout: "fcos",
            reason: format!(
                "scores of {classes} classes and 4 distances at strides {strides:?}{}",
                view.agrees(classes)
            ),
            classes: classes as usize,
            tensors,
            parameters: Vec::new(),
            sizes_name: None,
        });
    }
}

/// Outputs of one channel, one for each of `strides`; those named so come first, since a single class looks alike.
fn centers<'v, 'a>(
    view: &View<'_>,
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
fn of_strides<'v, 'a>(
    view: &'v View<'a>,
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
fn at_stride(view: &View<'_>, output: &Output<'_>, stride: u32) -> Option<u64> {
    let (width, height) = view.grid(stride);
    match *output.axes.as_slice() {
        [Some(channels), Some(h), Some(w)] if (w, h) == (width, height) && output.is_float() => {
            Some(channels)
        }
        _ => None,
    }
}

fn is_boxes(output: &Output<'_>) -> bool {
    output.is_float() && matches!(output.axes.as_slice(), [_, Some(4)])
}

fn is_paddle(view: &View<'_>) -> bool {
    view.network.producer.to_lowercase().contains("paddle")
}

fn role(key: &'static str, output: &Output<'_>) -> Role {
    Role {
        key,
        names: vec![output.name.to_owned()],
        is_list: false,
    }
}

fn list(key: &'static str, outputs: &[&Output<'_>]) -> Role {
    Role {
        key,
        names: outputs
            .iter()
            .map(|output| output.name.to_owned())
            .collect(),
        is_list: true,
    }
}
