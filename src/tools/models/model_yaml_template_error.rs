// SPDX-License-Identifier: Apache-2.0
//! Errors of a `model.yaml` template.

use jetwatch_types::Size;

use jetwatch_detect::layouts::{self, LAYOUTS, Layout};

/// Why there is no template for a network.
#[derive(Debug, thiserror::Error)]
pub enum ModelYamlTemplateError {
    /// No layout fits.
    #[error("{}", none_fits(outputs, *size, wanted.as_deref(), *reason))]
    NoLayout {
        /// The network's outputs as text.
        outputs: String,
        /// Its input size.
        size: Size,
        /// The requested layout.
        wanted: Option<String>,
        /// What the outputs are likely.
        reason: Option<&'static str>,
    },
    /// The network looks for what a text names.
    #[error(
        "the input `{input}` takes text, so that the network finds any class, and jetwatch runs networks of a fixed list of classes: \
         export it for these (such as model.set_classes of Ultralytics before the export)"
    )]
    Text {
        /// Name of the input.
        input: String,
    },
    /// A layout that does not exist.
    #[error("found the layout `{wanted}`, expected one of {}", names())]
    UnknownLayout {
        /// The requested value.
        wanted: String,
    },
    /// The network does not give boxes along the image's edges.
    #[error(
        "the network is for {}, and jetwatch finds objects by boxes along the edges of the image: export a \
         detection network (such as yolo export model=yolo11n.pt format=onnx)",
        match task.as_str() {
            "obb" => "rotated boxes (task obb)",
            _ => "poses (task pose)",
        }
    )]
    OtherTask {
        /// As the exporter noted it, or as sine and cosine of angles show.
        task: String,
    },
    /// What a suppression kept is there only as indices of boxes that are not.
    #[error(
        "output `{output}` has only the numbers of the boxes that NonMaxSuppression kept, and boxes and scores are not among the \
         outputs: export the network with boxes, scores and classes gathered by them (such as with nms=True or --end2end), or \
         without suppression"
    )]
    OnlyIndices {
        /// Name of the output.
        output: String,
    },
    /// The boxes refer to anchors.
    #[error(
        "a run gave boxes in the output `{output}` that are no corners: those of an SSD are deltas of its anchors, which are not in the \
         file; export the network with its boxes decoded, or write model.yaml with layout ssd, boxes_are deltas and the anchors"
    )]
    RawBoxes {
        /// Name of the output.
        output: String,
    },
    /// No input takes images.
    #[error(
        "no input takes images: found {found}, expected float32 [1 or N, 3, height, width]; export the network again"
    )]
    NoInput {
        /// The inputs as text.
        found: String,
    },
    /// The input takes images in another format.
    #[error(
        "the input `{input}` is {found}, expected [1 or N, 3, height, width]; {}",
        if *is_last {
            "colors come last here: export it with planes first (tf2onnx: --inputs-as-nchw)"
        } else {
            "jetwatch runs networks of color images, in three planes: train or export it for these"
        }
    )]
    NoPlanes {
        /// Name of the input.
        input: String,
        /// Its shape as text.
        found: String,
        /// Whether three colors are on the last axis.
        is_last: bool,
    },
    /// The input size is dynamic.
    #[error(
        "the input `{input}` has a dynamic size ({found}): give the size to use, such as --size 640x640"
    )]
    NoSize {
        /// Name of the input.
        input: String,
        /// Its shape as text.
        found: String,
    },
    /// The requested size is not the network's.
    #[error("found --size {wanted}, expected {size}, the fixed size of the network")]
    OtherSize {
        /// The requested value.
        wanted: Size,
        /// The network's size.
        size: Size,
    },
    /// The number of labels is not the number of classes.
    #[error(
        "{labels} labels were given, but the network has {classes} classes (as layout {layout}, {reason}): give one label per line, in \
         the order of the classes"
    )]
    LabelCount {
        /// Number of labels.
        labels: usize,
        /// Number of classes of the network.
        classes: usize,
        /// The layout.
        layout: &'static str,
        /// Why it was guessed.
        reason: String,
    },
    /// The outputs do not contain the number of classes.
    #[error(
        "the outputs of layout {layout} do not contain the number of classes: give their names with --labels FILE"
    )]
    NoLabels {
        /// The layout.
        layout: &'static str,
    },
    /// The place of a background is requested for a layout without one.
    #[error(
        "--background is given, but the layout is {layout}, and only ssd has a background class: leave the option out, or \
         add --layout ssd"
    )]
    NoBackground {
        /// The layout.
        layout: &'static str,
    },
    /// The only score of an anchor would be that of the background.
    #[error(
        "found --background {background}, expected none: the network has one score for each anchor, which is that of its class"
    )]
    OnlyBackground {
        /// The requested value.
        background: &'static str,
    },
    /// Labels for a network without classes.
    #[error(
        "labels are given for the layout embedding, expected none: its network gives a vector and no classes; if it is a classifier, \
         give its layout with --layout"
    )]
    LabelsOfEmbedding,
    /// A label that occurs twice.
    #[error("the label `{label}` is given twice, expected names that differ")]
    SameLabel {
        /// The label.
        label: String,
    },
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
