//! The keys of `output` in `model.yaml`: which layouts there are, which tensors and parameters each of them has.
//!
//! The layout decides which other keys are known, so it is read first; without one, no other key is judged.

use super::declaration::{
    ActivationKey, AnchorsKey, BoxesAreKey, GflKeys, OutputKeys, ScaleKey, SsdKeys,
};
use super::parameters::read_parameters;
use super::{ReadText, filled, unfit};
use crate::layout::detectnet_v2::DetectNetParameters;
use crate::layout::spec::{MOST_TENSORS, OutputSpec};
use jetwatch_config::{KeySpec, Map, Node, Section, Unit, ValueType};

/// The type of `input.width` and `input.height`, whose range depends on the layout.
pub(super) const SIDE: ValueType = ValueType::Integer {
    min: *super::CLASSIFIER_SIDES.start(),
    max: *super::CLASSIFIER_SIDES.end(),
    unit: Unit::Of("pixels"),
};

/// The words of `layout`.
pub(super) const LAYOUT_WORDS: [&str; LAYOUTS.len()] = {
    let mut words = [""; LAYOUTS.len()];
    let mut index = 0;
    while index < words.len() {
        words[index] = LAYOUTS[index].word;
        index += 1;
    }
    words
};

/// A family of networks, as the key `layout` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Yolox,
    Yolov5,
    Yolov8,
    Yolov3,
    Yolov4,
    Fcos,
    Detr,
    EfficientNms,
    BatchedNms,
    NanoDet,
    PicoDet,
    DetectNetV2,
    FastestDet,
    Ssd,
    Softmax,
    Logits,
    Sigmoid,
}

/// The forms of a family's tensors, and its other keys.
struct Layout {
    word: &'static str,
    family: Family,
    /// The ways to name the tensors; of those with roles, the first whose first role is given is meant.
    forms: &'static [Form],
    /// Groups of keys besides the tensors.
    keys: &'static [&'static [KeySpec]],
}

/// One way to name the tensors of a layout.
enum Form {
    /// One tensor: `name: T`.
    Name,
    /// Several: `tensors: {ROLE: T, …}`, in this order.
    Roles(&'static [Role]),
}

/// What a tensor is for.
struct Role {
    key: &'static str,
    count: Count,
}

/// How many tensors a role has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    One,
    /// A list, one for each grid, of the same length for all roles.
    EachGrid,
    /// The same, or no list at all.
    EachGridOrNone,
}

const fn one(key: &'static str) -> Role {
    let count = Count::One;
    Role { key, count }
}

const fn each(key: &'static str) -> Role {
    let count = Count::EachGrid;
    Role { key, count }
}

const fn may(key: &'static str) -> Role {
    let count = Count::EachGridOrNone;
    Role { key, count }
}

const DARKNET_FORMS: &[Form] = &[
    Form::Roles(&[one("boxes"), one("scores")]),
    Form::Roles(&[each("grids")]),
];

const PLUGIN_FORMS: &[Form] = &[Form::Roles(&[
    one("count"),
    one("boxes"),
    one("scores"),
    one("classes"),
])];

const GFL_FORMS: &[Form] = &[Form::Name, Form::Roles(&[each("scores"), each("boxes")])];

const LAYOUTS: &[Layout] = &[
    Layout {
        word: "yolox",
        family: Family::Yolox,
        forms: &[Form::Name, Form::Roles(&[each("grids")])],
        keys: &[],
    },
    Layout {
        word: "yolov5",
        family: Family::Yolov5,
        forms: &[Form::Name],
        keys: &[],
    },
    Layout {
        word: "yolov8",
        family: Family::Yolov8,
        forms: &[Form::Name],
        keys: &[],
    },
    Layout {
        word: "yolov3",
        family: Family::Yolov3,
        forms: DARKNET_FORMS,
        keys: &[AnchorsKey::KEYS],
    },
    Layout {
        word: "yolov4",
        family: Family::Yolov4,
        forms: DARKNET_FORMS,
        keys: &[AnchorsKey::KEYS, ScaleKey::KEYS],
    },
    Layout {
        word: "fcos",
        family: Family::Fcos,
        forms: &[Form::Roles(&[
            each("scores"),
            each("boxes"),
            may("centerness"),
        ])],
        keys: &[],
    },
    Layout {
        word: "detr",
        family: Family::Detr,
        forms: &[
            Form::Name,
            Form::Roles(&[one("labels"), one("boxes"), one("scores")]),
            Form::Roles(&[one("scores"), one("boxes")]),
        ],
        keys: &[ActivationKey::KEYS],
    },
    Layout {
        word: "efficient_nms",
        family: Family::EfficientNms,
        forms: PLUGIN_FORMS,
        keys: &[BoxesAreKey::KEYS],
    },
    Layout {
        word: "batched_nms",
        family: Family::BatchedNms,
        forms: PLUGIN_FORMS,
        keys: &[BoxesAreKey::KEYS],
    },
    Layout {
        word: "nanodet",
        family: Family::NanoDet,
        forms: GFL_FORMS,
        keys: &[GflKeys::KEYS],
    },
    Layout {
        word: "picodet",
        family: Family::PicoDet,
        forms: GFL_FORMS,
        keys: &[GflKeys::KEYS],
    },
    Layout {
        word: "detectnet_v2",
        family: Family::DetectNetV2,
        forms: &[Form::Roles(&[one("scores"), one("boxes")])],
        keys: &[DetectNetParameters::KEYS],
    },
    Layout {
        word: "fastestdet",
        family: Family::FastestDet,
        forms: &[Form::Name],
        keys: &[],
    },
    Layout {
        word: "ssd",
        family: Family::Ssd,
        forms: &[Form::Roles(&[one("boxes"), one("scores")])],
        keys: &[BoxesAreKey::KEYS, ActivationKey::KEYS, SsdKeys::KEYS],
    },
    Layout {
        word: "softmax",
        family: Family::Softmax,
        forms: &[Form::Name],
        keys: &[],
    },
    Layout {
        word: "logits",
        family: Family::Logits,
        forms: &[Form::Name],
        keys: &[],
    },
    Layout {
        word: "sigmoid",
        family: Family::Sigmoid,
        forms: &[Form::Name],
        keys: &[],
    },
];

/// The tensors as they were named.
pub(super) struct Tensors {
    names: Vec<String>,
    /// The roles that have tensors; none for [`Form::Name`].
    roles: Vec<&'static str>,
    /// Tensors of each list; 0 where there is none.
    pub(super) grids: usize,
}

/// Reads the map `output`; `read_text` gives the text of a list of anchors.
pub(super) fn read_output(node: &Node<'_>, read_text: ReadText<'_>) -> Option<OutputSpec> {
    let words: Vec<(&str, usize)> = LAYOUTS
        .iter()
        .enumerate()
        .map(|(index, layout)| (layout.word, index))
        .collect();
    let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    // Nothing behind the colon is a map without keys, anything else a problem of its own.
    if !node.is_null() {
        let _ = node.entries("a map")?;
    }
    let layout = node
        .required("layout", &format!("one of {}", list.join(", ")))
        .and_then(|node| node.one_of(&words))?;
    let layout = &LAYOUTS[layout];
    let mut keys = vec!["layout"];
    let has = |wanted: fn(&Form) -> bool| layout.forms.iter().any(wanted);
    keys.extend(has(|form| matches!(form, Form::Name)).then_some("name"));
    keys.extend(has(|form| matches!(form, Form::Roles(_))).then_some("tensors"));
    keys.extend(layout.keys.iter().copied().flatten().map(|key| key.name));
    let map = node.map_with(OutputKeys::KEYS, &keys)?;
    let tensors = read_tensors(&map, layout);
    let parameters = read_parameters(&map, layout.family, tensors.as_ref(), read_text);
    Some(OutputSpec {
        tensors: tensors?.names,
        layout: parameters?,
    })
}

/// The names in the layout's order.
fn read_tensors(map: &Map<'_>, layout: &Layout) -> Option<Tensors> {
    let named = layout
        .forms
        .iter()
        .any(|form| matches!(form, Form::Name))
        .then(|| map.get("name"))
        .flatten();
    let roles: Vec<&'static [Role]> = layout
        .forms
        .iter()
        .filter_map(|form| match form {
            Form::Name => None,
            Form::Roles(roles) => Some(*roles),
        })
        .collect();
    let Some(first) = roles.first() else {
        return match named {
            Some(name) => Tensors::of_name(&name),
            None => {
                map.missing("name", TENSOR);
                None
            }
        };
    };
    match (named, map.get("tensors")) {
        (Some(name), None) => Tensors::of_name(&name),
        (Some(_), Some(tensors)) => unfit(&tensors, "given together with name", "only one of them"),
        (None, Some(tensors)) => {
            let given = |roles: &&&[Role]| tensors.optional(roles[0].key).is_some();
            Tensors::of_roles(&tensors, roles.iter().find(given).unwrap_or(first))
        }
        (None, None) => {
            let expected: Vec<String> = layout.forms.iter().map(Form::written).collect();
            let key = if roles.len() == layout.forms.len() {
                "tensors"
            } else {
                "name"
            };
            map.missing(key, &expected.join(", or "));
            None
        }
    }
}

pub(super) const TENSOR: &str = "the tensor's name in the network";

impl Form {
    /// How it is written in the file.
    fn written(&self) -> String {
        match self {
            Self::Name => "name: TENSOR".to_owned(),
            Self::Roles(roles) => {
                let roles: Vec<String> = roles
                    .iter()
                    .map(|role| match role.count {
                        Count::One => format!("{}: TENSOR", role.key),
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

    /// Whether there is one tensor only, without a role.
    pub(super) fn is_name(&self) -> bool {
        self.roles.is_empty()
    }

    fn of_name(node: &Node<'_>) -> Option<Self> {
        Some(Self {
            names: vec![filled(node, TENSOR)?.to_owned()],
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
                Count::One => {
                    let name = map.required(role.key, TENSOR)?;
                    Some(vec![filled(&name, TENSOR)?.to_owned()])
                }
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
        let mut of_grids = given().filter(|(role, _)| role.count != Count::One);
        let grids = of_grids.next().map_or(0, |(_, list)| list.len());
        if of_grids.any(|(_, list)| list.len() != grids) {
            return unfit(
                node,
                "lists that differ in length",
                "one tensor of each kind for every grid",
            );
        }
        let roles = given().map(|(role, _)| role.key).collect();
        let names = lists.concat();
        if names.len() > MOST_TENSORS {
            let what = format!("{} tensors", names.len());
            return unfit(node, &what, &format!("at most {MOST_TENSORS}"));
        }
        let twice = names
            .iter()
            .enumerate()
            .find(|(index, name)| names[..*index].contains(name));
        if let Some((_, name)) = twice {
            let what = format!("tensor `{name}` given twice");
            return unfit(node, &what, "tensors that differ");
        }
        Some(Self {
            names,
            roles,
            grids,
        })
    }
}

const GRIDS: &str = "a list of tensors, one for each grid";

fn names_of(node: &Node<'_>) -> Option<Vec<String>> {
    let items = node.items(GRIDS)?;
    if items.is_empty() {
        return node.expect(GRIDS);
    }
    let names: Vec<Option<String>> = items
        .iter()
        .map(|item| filled(item, TENSOR).map(str::to_owned))
        .collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests;
