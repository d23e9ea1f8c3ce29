// SPDX-License-Identifier: Apache-2.0
//! The keys of the layout `ssd`: what its boxes are relative to, and what is left to do with its scores.
//!
//! Its anchors are not in the network. They are computed from the keys `feature_maps`, `scales` and `aspect_ratios`, or
//! read from a file beside the network.

use super::super::keys::UNITS;
use super::anchors::{self, Anchor, AnchorGrid, AnchorLimit};
use super::{SsdActivation, SsdBackground, SsdBoxes, SsdParameters};
use crate::decoders::boxes::BoxUnit;
use crate::yaml_values::{FileReader, elsewhere, invalid, numbers_of, relative_path};
use jetwatch_config::{KeySpec, Map, Node, Section, Unit, ValueType};

/// What most networks were trained with.
const VARIANCES: [f32; 4] = [0.1, 0.1, 0.2, 0.2];

/// Most cells of a feature map in one direction.
const MAX_CELLS: i64 = 1024;

/// Most anchors that are computed. The published networks have up to 25 000; a slip in a list must not fill the memory
/// before it is told.
const MAX_ANCHORS: usize = 1_000_000;

/// Of the layout `ssd`.
#[derive(Section)]
#[section(also = DeltaKeys)]
pub(crate) struct SsdKeys {
    /// Layout ssd: place of the background among the scores.
    #[key(default = "first")]
    background: SsdBackground,
}

/// How deltas become boxes.
#[derive(Section)]
#[section(also = GridKeys)]
#[expect(dead_code, reason = "declares the keys only")]
struct DeltaKeys {
    /// Layout ssd: factors of the deltas of x, y, width and height. Default: 0.1, 0.1, 0.2, 0.2.
    #[key(value = numbers(VARIANCES_FORM), read = elsewhere)]
    variances: Option<()>,
    /// Layout ssd: file with an anchor a line: x, y, width and height as parts of the input. Default: anchors are computed from the following keys.
    #[key(value = ValueType::Path, read = elsewhere)]
    anchors_file: Option<()>,
}

/// How anchors are computed.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
struct GridKeys {
    /// Layout ssd: cells of each feature map.
    #[key(value = FEATURE_MAPS, read = elsewhere)]
    feature_maps: Option<()>,
    /// Layout ssd: size of the anchors of each feature map, and one more.
    #[key(value = numbers(SCALES_FORM), read = elsewhere)]
    scales: Option<()>,
    /// Layout ssd: shapes of the anchors.
    #[key(value = RATIOS, read = elsewhere)]
    aspect_ratios: Option<()>,
    /// Layout ssd: distance of the cells. Default: the input divided by the cells.
    #[key(value = numbers(STEPS_FORM), read = elsewhere)]
    steps: Option<()>,
    /// Layout ssd: anchors are cut at the edges of the input.
    #[key(default = false)]
    clip_anchors: bool,
}

const FEATURE_MAPS: ValueType = ValueType::Other {
    form: MAPS_FORM,
    schema: r#"{"type": "array", "minItems": 1, "maxItems": 16, "items": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 1024}, {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 1024}, "minItems": 2, "maxItems": 2}]}}"#,
};

const RATIOS: ValueType = ValueType::Other {
    form: RATIOS_FORM,
    schema: r#"{"type": "array", "items": {"type": "array", "items": {"type": "number", "minimum": 0.01, "maximum": 100}}}"#,
};

const fn numbers(form: &'static str) -> ValueType {
    ValueType::Other {
        form,
        schema: r#"{"type": "array", "items": {"type": "number"}}"#,
    }
}

/// Reads the keys in `map`.
pub(super) fn read(map: &Map<'_>, read_text: FileReader<'_>) -> Option<SsdParameters> {
    let keys = SsdKeys::from_map(map);
    let activation = required(map, "activation", "softmax, sigmoid or none").and_then(|node| {
        node.one_of(&[
            ("softmax", SsdActivation::Softmax),
            ("sigmoid", SsdActivation::Sigmoid),
            ("none", SsdActivation::None),
        ])
    });
    let unit = match map.get("boxes_are") {
        Some(node) => {
            let words = [("deltas", None)].into_iter();
            let words: Vec<(&str, Option<BoxUnit>)> = words
                .chain(UNITS.map(|(word, unit)| (word, Some(unit))))
                .collect();
            node.one_of(&words)
        }
        None => Some(None),
    };
    let boxes = match unit? {
        Some(unit) => {
            reject(map, DeltaKeys::KEYS, "only for boxes that are deltas")?;
            Some(SsdBoxes::Decoded(unit))
        }
        None => {
            let variances = variances(map);
            let anchors = anchors(map, read_text);
            Some(SsdBoxes::Deltas {
                anchors: anchors?,
                variances: variances?,
            })
        }
    };
    Some(SsdParameters {
        boxes: boxes?,
        background: keys?.background,
        activation: activation?,
    })
}

/// The value of a key that must be given here.
fn required<'d>(map: &Map<'d>, key: &str, expected: &str) -> Option<Node<'d>> {
    let found = map.get(key);
    if found.is_none() {
        map.missing(key, expected);
    }
    found
}

/// Reports those of `keys` that are there all the same.
fn reject(map: &Map<'_>, keys: &[KeySpec], expected: &str) -> Option<()> {
    let found: Vec<Node<'_>> = keys.iter().filter_map(|key| map.get(key.name)).collect();
    for node in &found {
        node.report("given without use", Some(expected.to_owned()), None);
    }
    found.is_empty().then_some(())
}

fn variances(map: &Map<'_>) -> Option<[f32; 4]> {
    let Some(node) = map.get("variances") else {
        return Some(VARIANCES);
    };
    let numbers = numbers_of(&node, 0.000_1..=100.0, VARIANCES_FORM)?;
    match <[f32; 4]>::try_from(numbers) {
        Ok(numbers) => Some(numbers),
        Err(_) => node.type_error(VARIANCES_FORM),
    }
}

fn anchors(map: &Map<'_>, read_text: FileReader<'_>) -> Option<Vec<Anchor>> {
    let Some(node) = map.get("anchors_file") else {
        return computed(map);
    };
    reject(map, GridKeys::KEYS, "only without anchors_file")?;
    let text = read_text(&relative_path(&node)?)?;
    match anchors::read(&text) {
        Ok(anchors) if anchors.is_empty() => invalid(&node, "no anchor in the file", ANCHOR_LINE),
        Ok(anchors) => Some(anchors),
        Err(bad) => {
            let what = format!("line {} of the file: {}", bad.line, bad.problem);
            invalid(&node, &what, ANCHOR_LINE)
        }
    }
}

/// Accepted form of `variances`.
const VARIANCES_FORM: &str = "a list of four: of x, y, width and height";

const ANCHOR_LINE: &str = "an anchor in each line: x, y, width and height as parts of the input";

fn computed(map: &Map<'_>) -> Option<Vec<Anchor>> {
    // All are read before the first absence ends the reading.
    let maps = required(map, "feature_maps", MAPS_FORM)
        .and_then(|node| Some((feature_maps(&node)?, node)));
    let scales = required(map, "scales", SCALES_FORM)
        .and_then(|node| Some((numbers_of(&node, 0.001..=4.0, SCALES_FORM)?, node)));
    let ratios = required(map, "aspect_ratios", RATIOS_FORM).and_then(|node| {
        let lists: Vec<Option<Vec<f32>>> = node
            .items(RATIOS_FORM)?
            .iter()
            .map(|list| numbers_of(list, 0.01..=100.0, RATIOS_FORM))
            .collect();
        Some((lists.into_iter().collect::<Option<Vec<_>>>()?, node))
    });
    let steps = match map.get("steps") {
        Some(node) => numbers_of(&node, 0.000_1..=1.0, STEPS_FORM).map(|steps| Some((steps, node))),
        None => Some(None),
    };
    let limit = map.boolean("clip_anchors").map(|clip| match clip {
        true => AnchorLimit::Input,
        false => AnchorLimit::None,
    });
    let ((maps, maps_node), (scales, scales_node), (ratios, ratios_node)) =
        (maps?, scales?, ratios?);
    let (steps, limit) = (steps?, limit?);
    let count = maps.len();
    if scales.len() != count + 1 {
        return invalid(
            &scales_node,
            &format!("{} numbers", scales.len()),
            SCALES_FORM,
        );
    }
    if ratios.len() != count {
        return invalid(
            &ratios_node,
            &format!("{} lists", ratios.len()),
            RATIOS_FORM,
        );
    }
    if let Some((steps, node)) = &steps
        && steps.len() != count
    {
        return invalid(node, &format!("{} numbers", steps.len()), STEPS_FORM);
    }
    let grid = |(index, ([columns, rows], ratios)): (usize, ([usize; 2], Vec<f32>))| AnchorGrid {
        columns,
        rows,
        step: steps.as_ref().map(|(steps, _)| [steps[index]; 2]),
        scale: scales[index],
        next_scale: scales[index + 1],
        ratios,
    };
    let grids: Vec<AnchorGrid> = maps.into_iter().zip(ratios).enumerate().map(grid).collect();
    let count: usize = grids.iter().map(AnchorGrid::count).sum();
    if count > MAX_ANCHORS {
        let what = format!("maps with {count} anchors");
        return invalid(&maps_node, &what, &format!("at most {MAX_ANCHORS} in all"));
    }
    Some(anchors::generate(&grids, limit))
}

const MAPS_FORM: &str =
    "a list of the feature maps, each its number of cells in a row, or [columns, rows]";
const SCALES_FORM: &str = "a number for each feature map and one more, as parts of the input";
const RATIOS_FORM: &str =
    "a list for each feature map: width over height of the anchors that are no squares";
const STEPS_FORM: &str = "a number for each feature map: from cell to cell as a part of the input";

fn feature_maps(node: &Node<'_>) -> Option<Vec<[usize; 2]>> {
    let items = node.items(MAPS_FORM)?;
    if items.is_empty() || items.len() > 16 {
        return node.type_error(MAPS_FORM);
    }
    let side = |node: &Node<'_>| usize::try_from(node.integer(1..=MAX_CELLS, Unit::None)?).ok();
    let map = |item: &Node<'_>| {
        if !item.is_list() {
            return side(item).map(|cells| [cells; 2]);
        }
        match item.items(MAPS_FORM)?.as_slice() {
            [columns, rows] => {
                let (columns, rows) = (side(columns), side(rows));
                Some([columns?, rows?])
            }
            _ => item.type_error(MAPS_FORM),
        }
    };
    let maps: Vec<Option<[usize; 2]>> = items.iter().map(map).collect();
    maps.into_iter().collect()
}
