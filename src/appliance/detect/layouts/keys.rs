// SPDX-License-Identifier: Apache-2.0
//! The keys of `output` in `model.yaml`: those that layouts have in common, and the reader of the map.
//!
//! The layout decides which other keys are known, so it is read first; without one, no other key is judged.

use jetwatch_config::{Map, Node, Section, ValueType};

use super::darknet::{AnchorsKey, ScaleKey};
use super::detectnet_v2::DetectNetParameters;
use super::detr::NoObjectKey;
use super::finished::FINISHED;
use super::finished::keys::FinishedKeys;
use super::gfl::GflKeys;
use super::ssd::keys::SsdKeys;
use super::yolov8_raw::RawHeadKeys;
use super::{LAYOUTS, Layout, OutputSpec};
use crate::decoders::boxes::BoxUnit;
pub(super) use crate::yaml_values::FileReader;
use crate::yaml_values::{elsewhere, invalid, is_filled, non_empty};

/// Maximum number of output tensors of a layout: three for each of five grids.
pub const MAX_TENSORS: usize = 15;

/// The words of `layout`.
const LAYOUT_WORDS: [&str; LAYOUTS.len()] = {
    let mut words = [""; LAYOUTS.len()];
    let mut index = 0;
    while index < words.len() {
        words[index] = LAYOUTS[index].name;
        index += 1;
    }
    words
};

/// Names of the layout finished in the folders of earlier versions, with the same tensors and keys.
const FORMER_NAMES: [&str; 2] = ["efficient_nms", "batched_nms"];

/// One way to name the tensors of a layout.
#[derive(Debug)]
pub(super) enum TensorForm {
    /// One tensor: `name: T`.
    Name,
    /// Several: `tensors: {ROLE: T, …}`, in this order.
    Roles(&'static [Role]),
}

/// What a tensor is for.
#[derive(Debug)]
pub(super) struct Role {
    key: &'static str,
    count: Count,
}

/// How many tensors a role has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    One,
    /// The same, or none.
    OneOrNone,
    /// A list, one for each grid, of the same length for all roles.
    EachGrid,
    /// The same, or no list at all.
    EachGridOrNone,
}

pub(super) const fn single(key: &'static str) -> Role {
    let count = Count::One;
    Role { key, count }
}

pub(super) const fn optional(key: &'static str) -> Role {
    let count = Count::OneOrNone;
    Role { key, count }
}

pub(super) const fn per_grid(key: &'static str) -> Role {
    let count = Count::EachGrid;
    Role { key, count }
}

pub(super) const fn optional_per_grid(key: &'static str) -> Role {
    let count = Count::EachGridOrNone;
    Role { key, count }
}

/// `output`: the keys of all layouts. Each has some of them.
#[derive(Section)]
#[section(also = AnchorsKey, also = ScaleKey, also = ActivationKey, also = BoxesAreKey)]
#[section(also = GflKeys, also = DetectNetParameters, also = SsdKeys, also = FinishedKeys)]
#[section(also = NoObjectKey, also = DenseKeys, also = TransposedKey, also = RawHeadKeys)]
#[expect(dead_code, reason = "declares the keys only")]
pub(crate) struct OutputKeys {
    /// What the tensors mean.
    #[key(value = ValueType::Words(&LAYOUT_WORDS), required, read = elsewhere)]
    layout: (),
    /// Layouts with one tensor: its name in the network.
    #[key(text = TENSOR, check = is_filled)]
    name: Option<String>,
    /// Layouts with several tensors: their names by role.
    #[key(value = ValueType::Map(TensorKeys::KEYS), read = elsewhere)]
    tensors: Option<()>,
}

/// `output.tensors`: the roles of all layouts. Each has some of them.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
struct TensorKeys {
    /// Boxes.
    #[key(value = TENSORS, read = elsewhere)]
    boxes: Option<()>,
    /// Scores of the classes. Default for finished: they are among the columns.
    #[key(value = TENSORS, read = elsewhere)]
    scores: Option<()>,
    /// Layouts yolox, yolov3, yolov4, yolov5_raw and yolov8_raw: boxes and scores of each grid in one tensor.
    #[key(value = TENSORS, read = elsewhere)]
    grids: Option<()>,
    /// Layout fcos: centerness of each grid. Default: the scores have it already.
    #[key(value = TENSORS, read = elsewhere)]
    centerness: Option<()>,
    /// Layout detr: classes of the ranked boxes.
    #[key(value = TENSORS, read = elsewhere)]
    labels: Option<()>,
    /// Layout finished: number of detections. Default: all rows are.
    #[key(value = TENSORS, read = elsewhere)]
    count: Option<()>,
    /// Layout finished: classes of the detections. Default: they are among the columns, or there is one class.
    #[key(value = TENSORS, read = elsewhere)]
    classes: Option<()>,
}

const TENSORS: ValueType = ValueType::Other {
    form: "a tensor's name, or one for each grid",
    schema: r#"{"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}]}"#,
};

/// Of the layouts whose scores are raw.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct ActivationKey {
    /// Layouts detr, ssd, yolov5_raw and yolov8_raw: what makes scores; softmax for detr and ssd only. Required for ssd. Default: sigmoid.
    #[key(value = ValueType::Words(&["sigmoid", "softmax", "none"]), read = elsewhere)]
    activation: Option<()>,
}

/// Of the layouts that know several units of boxes.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct BoxesAreKey {
    /// Layouts finished, yolov8 and ssd: unit of the boxes; deltas (to anchors) for ssd only. Default: pixels, deltas for ssd.
    #[key(value = ValueType::Words(&["pixels", "normalized", "deltas"]), read = elsewhere)]
    boxes_are: Option<()>,
}

/// Of layouts with one tensor of boxes and scores.
#[derive(Section)]
pub(super) struct DenseKeys {
    /// Layouts yolov5 and yolov8: ignored numbers behind the classes, such as 32 mask coefficients.
    #[key(range = 0..=1024, default = 0)]
    pub(super) mask_coefficients: usize,
}

/// Of the layout `yolov8`.
#[derive(Section)]
pub(super) struct TransposedKey {
    /// Layout yolov8: the tensor is [N, 4 + C], not [4 + C, N].
    #[key(default = false)]
    pub(super) transposed: bool,
}

/// The tensors as they were named.
#[derive(Debug)]
pub struct Tensors {
    names: Vec<String>,
    /// The roles that have tensors; none for [`TensorForm::Name`].
    roles: Vec<&'static str>,
    /// Tensors of each list; 0 where there is none.
    pub(super) grids: usize,
}

/// Reads the map `output`; `read_text` gives the text of a list of anchors.
pub(crate) fn read_output(node: &Node<'_>, read_text: FileReader<'_>) -> Option<OutputSpec> {
    let words = LAYOUTS.iter().map(|layout| (layout.name, *layout));
    let former = FORMER_NAMES.map(|name| (name, &FINISHED));
    let words: Vec<(&str, &Layout)> = words.chain(former).collect();
    // Nothing behind the colon is a map without keys, anything else a problem of its own.
    if !node.is_null() {
        let _ = node.entries("a map")?;
    }
    let layout = node
        .required("layout", &format!("one of {}", LAYOUT_WORDS.join(", ")))
        .and_then(|node| node.one_of(&words))?;
    let mut keys = vec!["layout"];
    let has = |wanted: fn(&TensorForm) -> bool| layout.tensors.iter().any(wanted);
    keys.extend(has(|form| matches!(form, TensorForm::Name)).then_some("name"));
    keys.extend(has(|form| matches!(form, TensorForm::Roles(_))).then_some("tensors"));
    keys.extend(layout.keys.iter().copied().flatten().map(|key| key.name));
    let map = node.map_with(OutputKeys::KEYS, &keys)?;
    let tensors = read_tensors(&map, layout);
    let parameters = (layout.read)(&map, tensors.as_ref(), read_text);
    Some(OutputSpec {
        tensors: tensors?.names,
        layout: parameters?,
    })
}

/// The names in the layout's order.
fn read_tensors(map: &Map<'_>, layout: &Layout) -> Option<Tensors> {
    let named = layout
        .tensors
        .iter()
        .any(|form| matches!(form, TensorForm::Name))
        .then(|| map.get("name"))
        .flatten();
    let roles: Vec<&'static [Role]> = layout
        .tensors
        .iter()
        .filter_map(|form| match form {
            TensorForm::Name => None,
            TensorForm::Roles(roles) => Some(*roles),
        })
        .collect();
    let Some(first) = roles.first() else {
        return match named {
            Some(name) => Tensors::from_name(&name),
            None => {
                map.missing("name", TENSOR);
                None
            }
        };
    };
    match (named, map.get("tensors")) {
        (Some(name), None) => Tensors::from_name(&name),
        (Some(_), Some(tensors)) => {
            invalid(&tensors, "given together with name", "only one of them")
        }
        (None, Some(tensors)) => {
            let given = |roles: &&&[Role]| tensors.optional(roles[0].key).is_some();
            Tensors::of_roles(&tensors, roles.iter().find(given).unwrap_or(first))
        }
        (None, None) => {
            let expected: Vec<String> = layout.tensors.iter().map(TensorForm::describe).collect();
            let key = if roles.len() == layout.tensors.len() {
                "tensors"
            } else {
                "name"
            };
            map.missing(key, &expected.join(", or "));
            None
        }
    }
}

const TENSOR: &str = "the tensor's name in the network";

impl TensorForm {
    /// How it is written in the file.
    fn describe(&self) -> String {
        match self {
            Self::Name => "name: TENSOR".to_owned(),
            Self::Roles(roles) => {
                let roles: Vec<String> = roles
                    .iter()
                    .map(|role| match role.count {
                        Count::One => format!("{}: TENSOR", role.key),
                        Count::OneOrNone => format!("{}: TENSOR or left out", role.key),
                        Count::EachGrid => format!("{}: [TENSOR, …]", role.key),
                        Count::EachGridOrNone => format!("{}: [TENSOR, …] or left out", role.key),
                    })
                    .collect();
                format!("tensors: {{{}}}", roles.join(", "))
            }
        }
    }
}

impl Tensors {
    /// Whether there are tensors for this role.
    pub(super) fn has(&self, role: &str) -> bool {
        self.roles.contains(&role)
    }

    /// The roles that have tensors, in their order; `only` for a tensor without a role.
    pub(super) fn roles_or(&self, only: &'static str) -> Vec<&'static str> {
        match self.is_name() {
            true => vec![only],
            false => self.roles.clone(),
        }
    }

    /// Whether there is one tensor only, without a role.
    pub(super) fn is_name(&self) -> bool {
        self.roles.is_empty()
    }

    fn from_name(node: &Node<'_>) -> Option<Self> {
        Some(Self {
            names: name_of(node)?,
            roles: Vec::new(),
            grids: 0,
        })
    }

    fn of_roles(node: &Node<'_>, roles: &'static [Role]) -> Option<Self> {
        let keys: Vec<&str> = roles.iter().map(|role| role.key).collect();
        let map = node.with_keys(&keys)?;
        // All are read before the first absence ends the reading.
        let lists: Vec<Option<Vec<String>>> = roles
            .iter()
            .map(|role| match role.count {
                Count::One => name_of(&map.required(role.key, TENSOR)?),
                Count::OneOrNone => match map.optional(role.key) {
                    Some(name) => name_of(&name),
                    None => Some(Vec::new()),
                },
                Count::EachGrid => names_of(&map.required(role.key, GRIDS)?),
                Count::EachGridOrNone => match map.optional(role.key) {
                    Some(list) => names_of(&list),
                    None => Some(Vec::new()),
                },
            })
            .collect();
        let lists: Vec<Vec<String>> = lists.into_iter().collect::<Option<_>>()?;
        let given = || {
            let given = roles.iter().zip(&lists);
            given.filter(|(_, list)| !list.is_empty())
        };
        let is_single = |count| matches!(count, Count::One | Count::OneOrNone);
        let mut of_grids = given().filter(|(role, _)| !is_single(role.count));
        let grids = of_grids.next().map_or(0, |(_, list)| list.len());
        if of_grids.any(|(_, list)| list.len() != grids) {
            return invalid(
                node,
                "lists that differ in length",
                "one tensor of each kind for every grid",
            );
        }
        let roles = given().map(|(role, _)| role.key).collect();
        let names = lists.concat();
        if names.len() > MAX_TENSORS {
            let what = format!("{} tensors", names.len());
            return invalid(node, &what, &format!("at most {MAX_TENSORS}"));
        }
        let twice = names
            .iter()
            .enumerate()
            .find(|(index, name)| names[..*index].contains(name));
        if let Some((_, name)) = twice {
            let what = format!("tensor `{name}` given twice");
            return invalid(node, &what, "tensors that differ");
        }
        Some(Self {
            names,
            roles,
            grids,
        })
    }
}

/// In which unit boxes are; the unit of those that go into a plug-in is the exporter's.
pub(super) const UNITS: [(&str, BoxUnit); 2] = [
    ("pixels", BoxUnit::Pixels),
    ("normalized", BoxUnit::Normalized),
];

const GRIDS: &str = "a list of tensors, one for each grid";

fn name_of(node: &Node<'_>) -> Option<Vec<String>> {
    Some(vec![non_empty(node, TENSOR)?.to_owned()])
}

fn names_of(node: &Node<'_>) -> Option<Vec<String>> {
    let items = node.items(GRIDS)?;
    if items.is_empty() {
        return node.type_error(GRIDS);
    }
    let names: Vec<Option<String>> = items
        .iter()
        .map(|item| non_empty(item, TENSOR).map(str::to_owned))
        .collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests;
