// SPDX-License-Identifier: Apache-2.0
//! The keys of `output` in `model.yaml`: which layouts there are, which tensors and parameters each of them has.
//!
//! The layout decides which other keys are known, so it is read first; without one, no other key is judged.

use super::declaration::{
    ActivationKey, AnchorsKey, BoxesAreKey, GflKeys, OutputKeys, ScaleKey, SsdKeys,
};
use super::parameters::read_parameters;
use super::{FileReader, invalid, non_empty};
use crate::decoders::detectnet_v2::DetectNetParameters;
use crate::decoders::spec::{MAX_TENSORS, OutputSpec};
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
        words[index] = LAYOUTS[index].name;
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
    Embedding,
}

/// The forms of a family's tensors, and its other keys.
struct Layout {
    name: &'static str,
    family: Family,
    /// The ways to name the tensors; of those with roles, the first whose first role is given is meant.
    tensor_forms: &'static [TensorForm],
    /// Groups of keys besides the tensors.
    keys: &'static [&'static [KeySpec]],
}

/// One way to name the tensors of a layout.
enum TensorForm {
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

const fn single(key: &'static str) -> Role {
    let count = Count::One;
    Role { key, count }
}

const fn per_grid(key: &'static str) -> Role {
    let count = Count::EachGrid;
    Role { key, count }
}

const fn optional_per_grid(key: &'static str) -> Role {
    let count = Count::EachGridOrNone;
    Role { key, count }
}

const DARKNET_TENSOR_FORMS: &[TensorForm] = &[
    TensorForm::Roles(&[single("boxes"), single("scores")]),
    TensorForm::Roles(&[per_grid("grids")]),
];

const PLUGIN_TENSOR_FORMS: &[TensorForm] = &[TensorForm::Roles(&[
    single("count"),
    single("boxes"),
    single("scores"),
    single("classes"),
])];

const GFL_TENSOR_FORMS: &[TensorForm] = &[
    TensorForm::Name,
    TensorForm::Roles(&[per_grid("scores"), per_grid("boxes")]),
];

const LAYOUTS: &[Layout] = &[
    Layout {
        name: "yolox",
        family: Family::Yolox,
        tensor_forms: &[TensorForm::Name, TensorForm::Roles(&[per_grid("grids")])],
        keys: &[],
    },
    Layout {
        name: "yolov5",
        family: Family::Yolov5,
        tensor_forms: &[TensorForm::Name],
        keys: &[],
    },
    Layout {
        name: "yolov8",
        family: Family::Yolov8,
        tensor_forms: &[TensorForm::Name],
        keys: &[],
    },
    Layout {
        name: "yolov3",
        family: Family::Yolov3,
        tensor_forms: DARKNET_TENSOR_FORMS,
        keys: &[AnchorsKey::KEYS],
    },
    Layout {
        name: "yolov4",
        family: Family::Yolov4,
        tensor_forms: DARKNET_TENSOR_FORMS,
        keys: &[AnchorsKey::KEYS, ScaleKey::KEYS],
    },
    Layout {
        name: "fcos",
        family: Family::Fcos,
        tensor_forms: &[TensorForm::Roles(&[
            per_grid("scores"),
            per_grid("boxes"),
            optional_per_grid("centerness"),
        ])],
        keys: &[],
    },
    Layout {
        name: "detr",
        family: Family::Detr,
        tensor_forms: &[
            TensorForm::Name,
            TensorForm::Roles(&[single("labels"), single("boxes"), single("scores")]),
            TensorForm::Roles(&[single("scores"), single("boxes")]),
        ],
        keys: &[ActivationKey::KEYS],
    },
    Layout {
        name: "efficient_nms",
        family: Family::EfficientNms,
        tensor_forms: PLUGIN_TENSOR_FORMS,
        keys: &[BoxesAreKey::KEYS],
    },
    Layout {
        name: "batched_nms",
        family: Family::BatchedNms,
        tensor_forms: PLUGIN_TENSOR_FORMS,
        keys: &[BoxesAreKey::KEYS],
    },
    Layout {
        name: "nanodet",
        family: Family::NanoDet,
        tensor_forms: GFL_TENSOR_FORMS,
        keys: &[GflKeys::KEYS],
    },
    Layout {
        name: "picodet",
        family: Family::PicoDet,
        tensor_forms: GFL_TENSOR_FORMS,
        keys: &[GflKeys::KEYS],
    },
    Layout {
        name: "detectnet_v2",
        family: Family::DetectNetV2,
        tensor_forms: &[TensorForm::Roles(&[single("scores"), single("boxes")])],
        keys: &[DetectNetParameters::KEYS],
    },
    Layout {
        name: "fastestdet",
        family: Family::FastestDet,
        tensor_forms: &[TensorForm::Name],
        keys: &[],
    },
    Layout {
        name: "ssd",
        family: Family::Ssd,
        tensor_forms: &[TensorForm::Roles(&[single("boxes"), single("scores")])],
        keys: &[BoxesAreKey::KEYS, ActivationKey::KEYS, SsdKeys::KEYS],
    },
    Layout {
        name: "softmax",
        family: Family::Softmax,
        tensor_forms: &[TensorForm::Name],
        keys: &[],
    },
    Layout {
        name: "logits",
        family: Family::Logits,
        tensor_forms: &[TensorForm::Name],
        keys: &[],
    },
    Layout {
        name: "sigmoid",
        family: Family::Sigmoid,
        tensor_forms: &[TensorForm::Name],
        keys: &[],
    },
    Layout {
        name: "embedding",
        family: Family::Embedding,
        tensor_forms: &[TensorForm::Name],
        keys: &[],
    },
];

/// The tensors as they were named.
pub(super) struct Tensors {
    names: Vec<String>,
    /// The roles that have tensors; none for [`TensorForm::Name`].
    roles: Vec<&'static str>,
    /// Tensors of each list; 0 where there is none.
    pub(super) grids: usize,
}

/// Reads the map `output`; `read_text` gives the text of a list of anchors.
pub(super) fn read_output(node: &Node<'_>, read_text: FileReader<'_>) -> Option<OutputSpec> {
    let words: Vec<(&str, usize)> = LAYOUTS
        .iter()
        .enumerate()
        .map(|(index, layout)| (layout.name, index))
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
    let has = |wanted: fn(&TensorForm) -> bool| layout.tensor_forms.iter().any(wanted);
    keys.extend(has(|form| matches!(form, TensorForm::Name)).then_some("name"));
    keys.extend(has(|form| matches!(form, TensorForm::Roles(_))).then_some("tensors"));
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
        .tensor_forms
        .iter()
        .any(|form| matches!(form, TensorForm::Name))
        .then(|| map.get("name"))
        .flatten();
    let roles: Vec<&'static [Role]> = layout
        .tensor_forms
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
            let expected: Vec<String> = layout
                .tensor_forms
                .iter()
                .map(TensorForm::describe)
                .collect();
            let key = if roles.len() == layout.tensor_forms.len() {
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

impl TensorForm {
    /// How it is describe in the file.
    fn describe(&self) -> String {
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

    fn from_name(node: &Node<'_>) -> Option<Self> {
        Some(Self {
            names: vec![non_empty(node, TENSOR)?.to_owned()],
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
                    Some(vec![non_empty(&name, TENSOR)?.to_owned()])
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

const GRIDS: &str = "a list of tensors, one for each grid";

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
