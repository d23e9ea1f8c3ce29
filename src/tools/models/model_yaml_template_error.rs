// SPDX-License-Identifier: Apache-2.0
//! Errors of a `model.yaml` template.

use jetwatch_types::Size;

use jetwatch_detect::layouts::{self, LAYOUTS, Layout};

/// Why there is no template for a network.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum ModelYamlTemplateError {
    #[error("{}", none_fits(outputs, *size, wanted.as_deref(), *reason))]
    NoLayout {
        outputs: String,
        size: Size,
        wanted: Option<String>,
        reason: Option<&'static str>,
    },
    #[error(
        "the input `{input}` takes text, so that the network finds any class, and jetwatch runs networks of a fixed list of classes: \
         export it for these (such as model.set_classes of Ultralytics before the export)"
    )]
    Text { input: String },
    #[error("found the layout `{wanted}`, expected one of {}", names())]
    UnknownLayout { wanted: String },
    #[error(
        "the network is for {}, and jetwatch finds objects by boxes along the edges of the image: export a \
         detection network (such as yolo export model=yolo11n.pt format=onnx)",
        match task.as_str() {
            "obb" => "rotated boxes (task obb)",
            "semantic" => "the class of each pixel (task semantic)",
            "depth" => "distances (task depth)",
            _ => "poses (task pose)",
        }
    )]
    OtherTask { task: String },
    #[error(
        "output `{output}` has only the numbers of the boxes that NonMaxSuppression kept, and no output has these boxes: \
         export the network with boxes, scores and classes gathered by them (such as with nms=True or --end2end), or without \
         suppression"
    )]
    OnlyIndices { output: String },
    #[error(
        "a run gave boxes in the output `{output}` that are no corners: those of an SSD are deltas of its anchors, which are not in the \
         file; export the network with its boxes decoded, or write model.yaml with layout ssd, boxes_are deltas and the anchors"
    )]
    RawBoxes { output: String },
    #[error(
        "no input takes images: found {found}, expected float32 [1 or N, 3, height, width]; export the network again"
    )]
    NoInput { found: String },
    #[error(
        "the input `{input}` is {found}, expected [1 or N, 3, height, width]; {}",
        if *is_last {
            "colors come last here: export it with planes first (tf2onnx: --inputs-as-nchw)"
        } else {
            "jetwatch runs networks of color images, in three planes: train or export it for these"
        }
    )]
    NoPlanes {
        input: String,
        found: String,
        is_last: bool,
    },
    #[error(
        "the input `{input}` has a dynamic size ({found}): give the size to use, such as --size 640x640"
    )]
    NoSize { input: String, found: String },
    #[error("found --size {wanted}, expected {size}, the fixed size of the network")]
    OtherSize { wanted: Size, size: Size },
    #[error(
        "{labels} labels were given, but the network has {classes} classes (as layout {layout}, {reason}): give one label per line, in \
         the order of the classes"
    )]
    LabelCount {
        labels: usize,
        classes: usize,
        layout: &'static str,
        reason: String,
    },
    #[error(
        "the outputs of layout {layout} do not contain the number of classes: give their names with --labels FILE"
    )]
    NoLabels { layout: &'static str },
    #[error(
        "--background is given, but the layout is {layout}, and only ssd has a background class: leave the option out, or \
         add --layout ssd"
    )]
    NoBackground { layout: &'static str },
    #[error(
        "found --background {background}, expected none: the network has one score for each anchor, which is that of its class"
    )]
    OnlyBackground { background: &'static str },
    #[error(
        "labels are given for the layout embedding, expected none: its network gives a vector and no classes; if it is a classifier, \
         give its layout with --layout"
    )]
    LabelsOfEmbedding,
    #[error("the label `{label}` is given twice, expected names that differ")]
    SameLabel { label: String },
}

fn none_fits(outputs: &str, size: Size, wanted: Option<&str>, reason: Option<&str>) -> String {
    let needs = |layout: &&Layout| {
        format!(
            "\n  {}: {} ({})",
            layout.name, layout.needs, layout.networks
        )
    };
    match (wanted.and_then(layouts::find), reason) {
        (Some(layout), _) => format!(
            "the outputs do not fit the layout {} at an input of {size}: found {outputs}; it needs {}; omit --layout to \
             see which fits",
            layout.name, layout.needs
        ),
        (None, Some(reason)) => {
            format!("no layout fits the outputs at an input of {size}: found {outputs}; {reason}")
        }
        (None, None) => format!(
            "no layout fits the outputs at an input of {size}: found {outputs}; expected one of{}\nExport the network as one of \
             these, or give its layout with --layout if the shapes are left open",
            LAYOUTS.iter().map(needs).collect::<String>()
        ),
    }
}

fn names() -> String {
    let names: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name).collect();
    names.join(", ")
}
