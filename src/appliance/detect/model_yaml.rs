// SPDX-License-Identifier: Apache-2.0
//! The keys of `model.yaml`: [`declaration`] lists them; here are their readers and the rules between them.
//!
//! Every part is read before the first absence ends the reading, so that one report names all problems. Only
//! [`model`](super::model) calls this; the located values are those of [`Document`](jetwatch_config::Document), as for
//! the configuration itself, and what is not one plain YAML document is refused there.

mod declaration;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::path::Path;

pub use self::declaration::ModelKeys;
use self::declaration::{AxisOrder, FileKeys, InputKeys, PLANES_FORM, WEIGHTS_FORM};
use super::class_names;
use super::external_data::{self, WeightsFile};
use super::label_file::{self, LabelFileProblem};
use super::layouts::{LayoutKind, OutputSpec, keys};
use super::model::{InputElement, InputSpec, ModelFile, ModelSpec};
use super::yaml_values::{FileReader, invalid, non_empty, relative_path};
use jetwatch_config::{KeyValue, Map, Node, Section, Unit, redact};
use jetwatch_files::Sha256Digest;
use jetwatch_types::{Size, renamed_label};

/// Sides of the networks that jetwatch runs, in pixels.
const SIDES: RangeInclusive<i64> = 32..=4096;

/// Sides of classifiers and of networks for embeddings, which look at small crops.
const CLASSIFIER_SIDES: RangeInclusive<i64> = 8..=4096;

/// Maximum number of labels: classes travel as `u16`, and no detector of this family has more.
const MAX_LABELS: usize = 10_000;

/// Reads the outermost map of a `model.yaml` in `folder`; `read_text` gives the text of the labels file and of others.
pub(super) fn read_spec(
    root: &Node<'_>,
    folder: &Path,
    read_text: FileReader<'_>,
) -> Option<ModelSpec> {
    let map = root.map(ModelKeys::KEYS)?;
    // Every part is read before the first `?`, so that one report names the problems of all of them.
    let keys = ModelKeys::from_map(&map);
    let output = map
        .get("output")
        .and_then(|node| keys::read_output(&node, read_text));
    let input = map
        .get("input")
        .and_then(|node| node.map(InputKeys::KEYS))
        .and_then(|map| read_input(&map, output.as_ref()));
    let gives_labels = output
        .as_ref()
        .is_none_or(|output| output.layout.kind() != LayoutKind::Embedding);
    let labels = match gives_labels {
        true => labels_of(&map, read_text),
        false => no_labels(&map),
    };
    // What is wrong with the labels is reported already.
    let covers = labels.as_ref().and_then(|labels| {
        let given = match map.get("covers") {
            None => Vec::new(),
            Some(node) => read_covers(&node, labels)?,
        };
        Some(with_renamed(given, labels))
    });
    let files = map.get("files").and_then(|node| read_files(&node, folder));
    let ModelKeys {
        name,
        input: (),
        output: (),
        score_threshold,
        nms_iou,
        max_detections,
        crop_margin,
        license,
        files: (),
        ..
    } = keys?;
    Some(ModelSpec {
        folder: folder.to_owned(),
        name,
        input: input?,
        output: output?,
        labels: labels?,
        covers: covers?,
        score_threshold,
        nms_iou,
        max_detections,
        crop_margin,
        license,
        files: files?,
    })
}

fn read_input(map: &Map<'_>, output: Option<&OutputSpec>) -> Option<InputSpec> {
    let keys = InputKeys::from_map(map);
    let (width, height) = (side(map, "width", output), side(map, "height", output));
    let element = InputElement::read(map, "type");
    let normalization = |key, default: f32, range| match (map.get(key), element) {
        (None, _) => Some([default; 3]),
        (Some(node), Some(InputElement::Uint8)) => {
            let expected = format!(
                "no {key} with `type: uint8`: bytes are given as they are, and the network normalizes them itself"
            );
            invalid(&node, &format!("a {key} for bytes"), &expected)
        }
        (Some(node), _) => three(&node, range),
    };
    let mean = normalization("mean", 0.0, -1e6..=1e6);
    let scale = normalization("scale", 1.0, 1e-9..=1e6);
    let InputKeys {
        name,
        sizes_name,
        scales_name,
        width: (),
        height: (),
        color,
        layout: AxisOrder::Nchw,
        element,
        letterbox,
        ..
    } = keys?;
    Some(InputSpec {
        name,
        element,
        sizes_name,
        scales_name,
        size: Size::new(width?, height?),
        color,
        mean: mean?,
        scale: scale?,
        placement: letterbox.placement,
        padding: letterbox.value,
    })
}

fn read_files(node: &Node<'_>, folder: &Path) -> Option<Vec<ModelFile>> {
    let expected = "a map of precisions such as `fp32: {file: NAME, sha256: DIGITS}`";
    let entries = node.entries(expected)?;
    if entries.is_empty() {
        return node.type_error(expected);
    }
    if entries.iter().any(|(name, _)| name.trim().is_empty()) {
        return invalid(node, "a precision without a name", expected);
    }
    let files: Vec<Option<ModelFile>> = entries
        .iter()
        .map(|(precision, node)| {
            let map = node.map(FileKeys::KEYS)?;
            let keys = FileKeys::from_map(&map);
            let weights = map
                .get("weights")
                .map_or(Some(Vec::new()), |node| read_weights(&node));
            let FileKeys { file, sha256, .. } = keys?;
            Some(ModelFile {
                precision: (*precision).to_owned(),
                path: folder.join(file),
                sha256,
                weights: weights?,
            })
        })
        .collect();
    files.into_iter().collect()
}

/// Hashes of the files beside the network's in which it keeps weights.
fn read_weights(node: &Node<'_>) -> Option<Vec<WeightsFile>> {
    let weights: Vec<Option<WeightsFile>> = node
        .entries(WEIGHTS_FORM)?
        .iter()
        .map(|(location, node)| {
            if !external_data::is_inside(location) {
                let what = format!("the path `{}`", redact(location));
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

/// The empty list; recorded where labels are given.
fn no_labels(map: &Map<'_>) -> Option<Vec<String>> {
    for key in ["labels", "labels_file", "covers"] {
        if let Some(node) = map.get(key) {
            return invalid(
                &node,
                "given with the layout embedding",
                "no labels: the network gives a vector",
            );
        }
    }
    Some(Vec::new())
}

fn labels_of(map: &Map<'_>, read_text: FileReader<'_>) -> Option<Vec<String>> {
    let (node, mut labels) = match (map.get("labels"), map.get("labels_file")) {
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
            match label_file::parse(&text) {
                Ok(file) => (node, file.names),
                Err(problem) => return invalid(&node, &problem.what, LabelFileProblem::EXPECTED),
            }
        }
        (Some(_), Some(node)) => {
            return invalid(&node, "given together with labels", "only one of them");
        }
        (None, None) => {
            let expected = "labels (a list of names) or labels_file";
            map.missing("labels", expected);
            return None;
        }
    };
    if labels.is_empty() || labels.len() > MAX_LABELS {
        let what = format!("{} names", labels.len());
        return invalid(&node, &what, &format!("1 to {MAX_LABELS} names"));
    }
    class_names::number_placeholders(&mut labels, 0);
    let mut seen = HashSet::with_capacity(labels.len());
    if let Some(twice) = labels.iter().find(|label| !seen.insert(label.as_str())) {
        // The labels file may be any file that the key names by mistake.
        let what = format!("`{}` given twice", redact(twice));
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
            let what = format!("`{}`, which is no label", redact(label));
            sound = invalid::<()>(&names, &what, expected).is_some();
            continue;
        };
        for name in names.items("a list of names")? {
            let text = non_empty(&name, "a name; quote it if it is a number")?.trim();
            if labels.iter().any(|known| known == text)
                || covers.iter().any(|(_, known)| known == text)
            {
                let what = format!("`{}` given twice", redact(text));
                sound = invalid::<()>(&name, &what, "a name that no other class has").is_some();
                continue;
            }
            // At most MAX_LABELS, which fits.
            covers.push((class as u16, text.to_owned()));
        }
    }
    sound.then_some(covers)
}

/// `covers` with the other names of `labels` that have one, as far as they are neither labels nor covered.
fn with_renamed(mut covers: Vec<(u16, String)>, labels: &[String]) -> Vec<(u16, String)> {
    for (class, label) in (0..).zip(labels) {
        if let Some(other) = renamed_label(label)
            && !labels.iter().any(|known| known == other)
            && !covers.iter().any(|(_, known)| known == other)
        {
            covers.push((class, other.to_owned()));
        }
    }
    covers
}

/// A hash of digits in both cases.
fn sha256(text: &str) -> Option<Sha256Digest> {
    text.parse().ok()
}

fn digest(node: &Node<'_>) -> Option<Sha256Digest> {
    let expected = "64 hexadecimal digits, as `sha256sum FILE` prints";
    sha256(node.text(expected)?).or_else(|| node.type_error(expected))
}

/// A side of the input, a multiple of what the layout demands. A layout that is not known yet demands nothing.
fn side(map: &Map<'_>, key: &str, output: Option<&OutputSpec>) -> Option<u32> {
    let multiple = output.map_or(1, |output| output.layout.side_multiple());
    let has_no_boxes = output.is_some_and(|output| output.layout.kind() != LayoutKind::Detector);
    let sides = if has_no_boxes {
        CLASSIFIER_SIDES
    } else {
        SIDES
    };
    let (min, max) = (sides.start(), sides.end());
    let node = map.get(key)?;
    let pixels = u32::try_from(node.integer(sides.clone(), Unit::None)?).ok()?;
    if pixels.is_multiple_of(multiple) {
        Some(pixels)
    } else {
        node.type_error(&format!("a multiple of {multiple} from {min} to {max}"))
    }
}

/// One number for all planes or a list of three.
fn three(node: &Node<'_>, range: RangeInclusive<f64>) -> Option<[f32; 3]> {
    if !node.is_list() {
        return node.number(range).map(|value| [value as f32; 3]);
    }
    let items = node.items(PLANES_FORM)?;
    let values: Vec<Option<f64>> = items
        .iter()
        .map(|item| item.number(range.clone()))
        .collect();
    match values.as_slice() {
        [a, b, c] => Some([(*a)? as f32, (*b)? as f32, (*c)? as f32]),
        _ => node.type_error(PLANES_FORM),
    }
}

#[cfg(test)]
pub(super) mod tests;
