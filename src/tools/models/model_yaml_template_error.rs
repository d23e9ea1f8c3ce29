//! Why no `model.yaml` can be drafted for a network.

use jetwatch_types::Size;

use crate::families::{self, FAMILIES};

/// Why no `model.yaml` can be drafted.
#[derive(Debug, thiserror::Error)]
pub enum ModelYamlTemplateError {
    /// No layout fits.
    #[error("{}", none_fits(outputs, *size, wanted.as_deref()))]
    NoLayout {
        /// The network's outputs as text.
        outputs: String,
        /// Its input size.
        size: Size,
        /// The layout that was asked for.
        wanted: Option<String>,
    },
    /// A layout that does not exist.
    #[error("found the layout `{wanted}`, expected one of {}", layouts())]
    UnknownLayout {
        /// What was asked for.
        wanted: String,
    },
    /// No input takes images.
    #[error(
        "no input takes images: found {found}, expected float32 [1 or N, 3, height, width]; export the network again"
    )]
    NoInput {
        /// The inputs as text.
        found: String,
    },
    /// The input takes images in another form.
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
    /// The file leaves the size of the input open.
    #[error(
        "the network leaves the size of its input `{input}` open ({found}): give the size to use, such as --size 640x640"
    )]
    NoSize {
        /// Name of the input.
        input: String,
        /// Its shape as text.
        found: String,
    },
    /// The size that was asked for is not the network's.
    #[error("found --size {wanted}, expected {size}, which is fixed in the network")]
    OtherSize {
        /// What was asked for.
        wanted: Size,
        /// What the network has.
        size: Size,
    },
    /// The labels are not as many as the classes.
    #[error(
        "{labels} labels were given, but the network has {classes} classes (as layout {layout}, {reason}): give one label a line, in \
         the order of the classes"
    )]
    LabelCount {
        /// Labels given.
        labels: usize,
        /// Classes of the network.
        classes: usize,
        /// The layout.
        layout: &'static str,
        /// Why it was guessed.
        reason: String,
    },
    /// The number of classes cannot be seen in the network.
    #[error(
        "the outputs of layout {layout} do not contain the number of classes: give their names with --labels FILE"
    )]
    NoLabels {
        /// The layout.
        layout: &'static str,
    },
    /// A label that occurs twice.
    #[error("the label `{label}` is given twice, expected names that differ")]
    SameLabel {
        /// The label.
        label: String,
    },
}

fn none_fits(outputs: &str, size: Size, wanted: Option<&str>) -> String {
    let needs = |family: &families::Family| {
        format!(
            "\n  {}: {} ({})",
            family.layout, family.needs, family.networks
        )
    };
    match wanted.and_then(families::find) {
        Some(family) => format!(
            "the outputs do not fit the layout {} at an input of {size}: found {outputs}; it needs {}; leave --layout away to \
             see which fits",
            family.layout, family.needs
        ),
        None => format!(
            "no layout fits the outputs at an input of {size}: found {outputs}; expected one of{}\nExport the network as one of \
             these, or give its layout with --layout if the shapes are left open",
            FAMILIES.iter().map(needs).collect::<String>()
        ),
    }
}

fn layouts() -> String {
    let names: Vec<&str> = FAMILIES.iter().map(|family| family.layout).collect();
    names.join(", ")
}
