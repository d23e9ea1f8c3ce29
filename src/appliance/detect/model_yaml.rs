//! The keys of `model.yaml`: which there are, what they accept, what they default to.
//!
//! Every part is read before the first absence ends the reading, so that one report names all problems. Only
//! [`model`](super::model) calls this; the located values are those of [`Document`](jetwatch_config::Document), as for
//! the configuration itself, and what is not one plain YAML document is refused there.

mod output;
mod parameters;
mod ssd;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};

use super::external_data::{self, WeightsFile};
use super::model::{
    ColorOrder, InputElement, InputSpec, License, ModelFile, ModelSpec, OutputSpec,
};
use jetwatch_config::{Node, Unit, mask_secrets};
use jetwatch_types::{Placement, Size};

/// Sides of the networks that jetwatch runs, in pixels.
const SIDES: RangeInclusive<i64> = 32..=4096;

/// Sides of classifiers, which look at small crops.
const CLASSIFIER_SIDES: RangeInclusive<i64> = 8..=4096;

/// Most labels: classes travel as `u16`, and no detector of this family has more.
const MAX_LABELS: usize = 10_000;

/// Gives the text of a file in the model's folder; `None` when it cannot be read, which is told elsewhere.
type FileReader<'a> = &'a mut dyn FnMut(&Path) -> Option<String>;

/// Reads the outermost map of a `model.yaml` in `folder`; `read_text` gives the text of the labels file and of others.
pub(super) fn read_spec(
    root: &Node<'_>,
    folder: &Path,
    read_text: FileReader<'_>,
) -> Option<ModelSpec> {
    let map = root.with_keys(&[
        "name",
        "input",
        "output",
        "labels",
        "labels_file",
        "covers",
        "score_threshold",
        "nms_iou",
        "max_detections",
        "crop_margin",
        "license",
        "files",
    ])?;
    // Every part is read before the first `?`, so that one report names the problems of all of them.
    let name = text(&map, "name", "the model's name");
    let output = map
        .required("output", "a map that describes the output tensors")
        .and_then(|node| output::read_output(&node, read_text));
    // A layout that is not known yet asks nothing of the input.
    let multiple = output
        .as_ref()
        .map_or(1, |output| output.layout.side_multiple());
    let is_classifier = |output: &OutputSpec| output.layout.classifier().is_some();
    let sides = match &output {
        Some(output) if is_classifier(output) => CLASSIFIER_SIDES,
        _ => SIDES,
    };
    let input = map
        .required("input", "a map that describes the input tensor")
        .and_then(|node| read_input(&node, multiple, &sides));
    let labels = labels_of(&map, read_text);
    let covers = match (map.optional("covers"), &labels) {
        (None, _) => Some(Vec::new()),
        (Some(node), Some(labels)) => read_covers(&node, labels),
        // What is wrong with the labels is told already.
        (Some(_), None) => None,
    };
    let score_threshold = unit_interval(&map, "score_threshold", 0.3);
    let nms_iou = unit_interval(&map, "nms_iou", 0.45);
    let max_detections = match map.optional("max_detections") {
        Some(node) => node.integer(1..=10_000, Unit::None),
        None => Some(300),
    };
    let crop_margin = unit_interval(&map, "crop_margin", 0.0);
    let license = map
        .required("license", "a map with spdx and source")
        .and_then(|node| read_license(&node));
    let files = map
        .required("files", "a map of precisions")
        .and_then(|node| read_files(&node, folder));
    Some(ModelSpec {
        folder: folder.to_owned(),
        name: name?,
        input: input?,
        output: output?,
        labels: labels?,
        covers: covers?,
        score_threshold: score_threshold?,
        nms_iou: nms_iou?,
        max_detections: usize::try_from(max_detections?).ok()?,
        crop_margin: crop_margin?,
        license: license?,
        files: files?,
    })
}

fn read_input(node: &Node<'_>, multiple: u32, sides: &RangeInclusive<i64>) -> Option<InputSpec> {
    let map = node.with_keys(&[
        "name",
        "sizes_name",
        "scales_name",
        "width",
        "height",
        "color",
        "layout",
        "type",
        "mean",
        "scale",
        "letterbox",
    ])?;
    let name = text(&map, "name", "the tensor's name in the network");
    let further = |key| match map.optional(key) {
        Some(node) => non_empty(&node, "a further input's name in the network").map(Some),
        None => Some(None),
    };
    let (sizes_name, scales_name) = (further("sizes_name"), further("scales_name"));
    let width = side(&map, "width", multiple, sides);
    let height = side(&map, "height", multiple, sides);
    let color = map
        .required("color", "bgr or rgb")
        .and_then(|node| node.one_of(&[("bgr", ColorOrder::Bgr), ("rgb", ColorOrder::Rgb)]));
    let layout = map
        .optional("layout")
        .map_or(Some(()), |node| node.one_of(&[("nchw", ())]));
    let elements = [
        ("float32", InputElement::Float32),
        ("uint8", InputElement::Uint8),
    ];
    let element = map
        .optional("type")
        .map_or(Some(elements[0].1), |node| node.one_of(&elements));
    let normalization = |key, default: f32, range| match (map.optional(key), element) {
        (None, _) => Some([default; 3]),
        (Some(node), Some(InputElement::Uint8)) => {
            let expected = format!(
                "no {key} beside `type: uint8`: bytes are given as they are, and the network normalizes them itself"
            );
            invalid(&node, &format!("a {key} for bytes"), &expected)
        }
        (Some(node), _) => three(&node, range),
    };
    let mean = normalization("mean", 0.0, -1e6..=1e6);
    let scale = normalization("scale", 1.0, 1e-9..=1e6);
    let letterbox = map
        .required("letterbox", "a map with value and placement")
        .and_then(|node| read_letterbox(&node));
    layout?;
    let (padding, placement) = letterbox?;
    Some(InputSpec {
        name: name?,
        element: element?,
        sizes_name: sizes_name?.map(str::to_owned),
        scales_name: scales_name?.map(str::to_owned),
        size: Size::new(width?, height?),
        color: color?,
        mean: mean?,
        scale: scale?,
        placement,
        padding,
    })
}

fn read_letterbox(node: &Node<'_>) -> Option<(u8, Placement)> {
    let map = node.with_keys(&["value", "placement"])?;
    let value = map
        .required("value", "a whole number from 0 to 255")
        .and_then(|node| node.integer(0..=255, Unit::None));
    let placement = map
        .required("placement", "top_left, center or stretch")
        .and_then(|node| {
            node.one_of(&[
                ("top_left", Placement::TopLeft),
                ("center", Placement::Center),
                ("stretch", Placement::Stretch),
            ])
        });
    Some((u8::try_from(value?).ok()?, placement?))
}

fn read_license(node: &Node<'_>) -> Option<License> {
    let map = node.with_keys(&["spdx", "source"])?;
    let spdx = text(&map, "spdx", "an SPDX identifier such as Apache-2.0");
    let source = text(&map, "source", "where the files come from");
    Some(License {
        spdx: spdx?,
        source: source?,
    })
}

fn read_files(node: &Node<'_>, folder: &Path) -> Option<Vec<ModelFile>> {
    let expected = "a map of precisions such as `fp32: {file: NAME, sha256: DIGITS}`";
    let entries = node.entries(expected)?;
    if entries.is_empty() {
        return node.expect(expected);
    }
    if entries.iter().any(|(name, _)| name.trim().is_empty()) {
        return invalid(node, "a precision without a name", expected);
    }
    let files: Vec<Option<ModelFile>> = entries
        .iter()
        .map(|(precision, node)| {
            let map = node.with_keys(&["file", "sha256", "weights"])?;
            let path = map
                .required("file", "a file in the model's folder")
                .and_then(|node| relative_path(&node));
            let sha256 = map
                .required("sha256", "what `sha256sum FILE` prints")
                .and_then(|node| digest(&node));
            let weights = map
                .optional("weights")
                .map_or(Some(Vec::new()), |node| read_weights(&node));
            Some(ModelFile {
                precision: (*precision).to_owned(),
                path: folder.join(path?),
                sha256: sha256?,
                weights: weights?,
            })
        })
        .collect();
    files.into_iter().collect()
}

/// Hashes of the files beside the network's in which it keeps weights.
fn read_weights(node: &Node<'_>) -> Option<Vec<WeightsFile>> {
    let expected = "a map such as `NAME.onnx.data: DIGITS`: files in which the network keeps weights, by the paths that it \
        gives, with what `sha256sum` prints";
    let weights: Vec<Option<WeightsFile>> = node
        .entries(expected)?
        .iter()
        .map(|(location, node)| {
            if !external_data::is_inside(location) {
                let what = format!("the path `{}`", mask_secrets(location));
                return invalid(
                    node,
                    &what,
                    "a path below the network's folder, without `..`",
                );
            }
            Some(WeightsFile {
                location: (*location).to_owned(),
                sha256: digest(node)?,
            })
        })
        .collect();
    weights.into_iter().collect()
}

fn labels_of(map: &Node<'_>, read_text: FileReader<'_>) -> Option<Vec<String>> {
    let (node, labels) = match (map.optional("labels"), map.optional("labels_file")) {
        (Some(node), None) => {
            let items = node.items("a list of names")?;
            let names: Vec<Option<&str>> = items
                .iter()
                .map(|item| non_empty(item, "a name; quote it if it is a number"))
                .collect();
            let labels: Vec<String> = names
                .into_iter()
                .map(|name| name.map(|name| name.trim().to_owned()))
                .collect::<Option<_>>()?;
            (node, labels)
        }
        (None, Some(node)) => {
            let text = read_text(&relative_path(&node)?)?;
            let labels: Vec<String> = text
                .lines()
                .map(|line| line.trim().to_owned())
                .filter(|line| !line.is_empty())
                .collect();
            (node, labels)
        }
        (Some(_), Some(node)) => {
            return invalid(&node, "given beside labels", "only one of them");
        }
        (None, None) => {
            let expected = "labels (a list of names) or labels_file";
            return map.required("labels", expected).and(None);
        }
    };
    if labels.is_empty() || labels.len() > MAX_LABELS {
        let what = format!("{} names", labels.len());
        return invalid(&node, &what, &format!("1 to {MAX_LABELS} names"));
    }
    let mut seen = HashSet::with_capacity(labels.len());
    if let Some(twice) = labels.iter().find(|label| !seen.insert(label.as_str())) {
        // The labels file may be any file that the key names by mistake.
        let what = format!("`{}` given twice", mask_secrets(twice));
        return invalid(&node, &what, "names that differ");
    }
    Some(labels)
}

/// What other sets of labels call the things of a class: a map of lists by label.
fn read_covers(node: &Node<'_>, labels: &[String]) -> Option<Vec<(u16, String)>> {
    let expected = "a map such as `vehicle: [car, bus]` with labels of this model";
    let mut covers: Vec<(u16, String)> = Vec::new();
    let mut sound = true;
    for (label, names) in node.entries(expected)? {
        let Some(class) = labels.iter().position(|known| known == label) else {
            let what = format!("`{}`, which is no label", mask_secrets(label));
            sound = invalid::<()>(&names, &what, expected).is_some();
            continue;
        };
        for name in names.items("a list of names")? {
            let text = non_empty(&name, "a name; quote it if it is a number")?.trim();
            if labels.iter().any(|known| known == text)
                || covers.iter().any(|(_, known)| known == text)
            {
                let what = format!("`{}` given twice", mask_secrets(text));
                sound = invalid::<()>(&name, &what, "a name that no other class has").is_some();
                continue;
            }
            // At most MAX_LABELS, which fits.
            covers.push((class as u16, text.to_owned()));
        }
    }
    sound.then_some(covers)
}

/// Records what is wrong with a value that has the right form.
fn invalid<T>(node: &Node<'_>, what: &str, expected: &str) -> Option<T> {
    node.report(what, Some(expected.to_owned()), None);
    None
}

/// A path below the model's folder.
fn relative_path(node: &Node<'_>) -> Option<PathBuf> {
    let expected = "a path inside the model's folder, without `..`";
    let path = Path::new(non_empty(node, expected)?);
    if path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return Some(path.to_owned());
    }
    node.expect(expected)
}

fn digest(node: &Node<'_>) -> Option<String> {
    let expected = "64 hexadecimal digits, as `sha256sum FILE` prints";
    let text = node.text(expected)?;
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(text.to_ascii_lowercase());
    }
    node.expect(expected)
}

fn text(map: &Node<'_>, key: &str, expected: &str) -> Option<String> {
    non_empty(&map.required(key, expected)?, expected).map(str::to_owned)
}

/// Text of more than blanks: names are compared, and a blank one could not be seen in any message.
fn non_empty<'d>(node: &Node<'d>, expected: &str) -> Option<&'d str> {
    let text = node.text(expected)?;
    if text.trim().is_empty() {
        return node.expect(expected);
    }
    Some(text)
}

fn unit_interval(map: &Node<'_>, key: &str, default: f32) -> Option<f32> {
    match map.optional(key) {
        Some(node) => node.number(0.0..=1.0).map(|value| value as f32),
        None => Some(default),
    }
}

/// A side of the input, a multiple of what the layout asks for.
fn side(map: &Node<'_>, key: &str, multiple: u32, sides: &RangeInclusive<i64>) -> Option<u32> {
    let (least, most) = (sides.start(), sides.end());
    let expected = match multiple {
        1 => format!("a number of pixels from {least} to {most}"),
        multiple => format!("a multiple of {multiple} from {least} to {most}"),
    };
    let node = map.required(key, &expected)?;
    let pixels = u32::try_from(node.integer(sides.clone(), Unit::None)?).ok()?;
    if pixels.is_multiple_of(multiple) {
        Some(pixels)
    } else {
        node.expect(&expected)
    }
}

/// One number for all planes or a list of three.
fn three(node: &Node<'_>, range: RangeInclusive<f64>) -> Option<[f32; 3]> {
    if !node.is_list() {
        return node.number(range).map(|value| [value as f32; 3]);
    }
    let expected = "one number or a list of three";
    let items = node.items(expected)?;
    let values: Vec<Option<f64>> = items
        .iter()
        .map(|item| item.number(range.clone()))
        .collect();
    match values.as_slice() {
        [a, b, c] => Some([(*a)? as f32, (*b)? as f32, (*c)? as f32]),
        _ => node.expect(expected),
    }
}

#[cfg(test)]
pub(super) mod tests;
