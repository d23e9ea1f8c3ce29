// SPDX-License-Identifier: Apache-2.0
//! `detector.groups`: names for several labels, and what `detector.classes` keeps of labels and groups.
//!
//! The labels of a network are known only once its model is; what depends on them is checked where that is loaded.

use jetwatch_types::{LabelGroup, renamed_label};

use super::names::{NAME, is_name};
use super::redact::quoted;
use super::schema::ValueType;
use super::section::ListItem;
use super::yaml::map::Map;
use super::yaml::node::Node;

/// Accepted form of the groups.
const GROUPS: &str = "a map such as `vehicle: [car, bus, truck]`";

/// Accepted form of the labels of a group.
const LABELS: &str = "a list of at least one label";

impl ListItem for LabelGroup {
    const LIST: ValueType = ValueType::Other {
        form: GROUPS,
        schema: r#"{"type": "object", "propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,64}$"}, "additionalProperties": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "uniqueItems": true}}"#,
    };

    fn read_list(map: &Map<'_>, name: &str) -> Option<Vec<Self>> {
        let Some(node) = map.get(name).filter(|node| !node.is_null()) else {
            return Some(Vec::new());
        };
        let entries = node.entries(GROUPS)?;
        let names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
        let mut groups: Vec<Self> = Vec::with_capacity(entries.len());
        for (name, list) in &entries {
            if name.is_empty() || !is_name(name) {
                let what = format!("the name \"{}\"", quoted(name));
                list.report(&what, Some(NAME.to_owned()), None);
            }
            let labels = read_labels(list, name, &names, &groups);
            groups.push(Self {
                name: (*name).to_owned(),
                labels: labels.unwrap_or_default(),
            });
        }
        Some(groups)
    }
}

/// The labels of the group `name`. `names` are those of all groups, and `earlier` those groups that were read before.
fn read_labels(
    list: &Node<'_>,
    name: &str,
    names: &[&str],
    earlier: &[LabelGroup],
) -> Option<Vec<String>> {
    let items = list.items(LABELS)?;
    if items.is_empty() {
        return list.type_error(LABELS);
    }
    let mut labels: Vec<String> = Vec::with_capacity(items.len());
    for item in items {
        let Some(label) = item.text("a label") else {
            continue;
        };
        let shown = quoted(label);
        if labels.iter().any(|known| known == label) {
            item.report(&format!("\"{shown}\" is given twice"), None, None);
        } else if label != name && names.contains(&label) {
            let hint = "list its labels instead, in one of the two groups";
            let what = format!("`{shown}` is the name of another group");
            item.report(&what, Some("a label".to_owned()), Some(hint.to_owned()));
        } else if let Some(other) = earlier.iter().find(|group| group.includes(label)) {
            let hint = "a label belongs to one group: remove it from the other";
            let what = format!("`{shown}` is in the group `{}` already", other.name);
            item.report(&what, None, Some(hint.to_owned()));
        }
        labels.push(label.to_owned());
    }
    Some(labels)
}

/// What `detector.classes` keeps.
pub(super) struct KeptLabels {
    names: Vec<String>,
    groups: Vec<LabelGroup>,
}

impl KeptLabels {
    /// The kept labels of `detector`; `None` where it keeps all of them, or where the list has a problem.
    pub(super) fn of(detector: &Map<'_>) -> Option<Self> {
        let names = detector
            .texts("classes")
            .filter(|names| !names.is_empty())?;
        let groups = LabelGroup::read_list(detector, "groups")?;
        Some(Self { names, groups })
    }

    /// Whether objects that `name` stands for, a label or the name of a group, can be among the kept ones. Which of two names of
    /// a class the network has is not known yet.
    pub(super) fn keeps(&self, name: &str) -> bool {
        let is_named = |label: &str| {
            let group = self.groups.iter().find(|group| group.includes(label));
            let is_group = |kept: &String| group.is_some_and(|group| group.name == *kept);
            self.names
                .iter()
                .any(|kept| kept == label || is_group(kept))
        };
        let is_kept = |label: &str| is_named(label) || renamed_label(label).is_some_and(is_named);
        let group = self.groups.iter().find(|group| group.name == name);
        is_kept(name) || group.is_some_and(|group| group.labels.iter().any(|label| is_kept(label)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn kept_labels_and_groups_stand_for_each_other() {
        let kept = |names: &[&str]| KeptLabels {
            names: texts(names),
            groups: vec![LabelGroup {
                name: "vehicle".to_owned(),
                labels: texts(&["car", "bus", "motorbike"]),
            }],
        };
        let cases = [
            (&["vehicle"][..], "car", true),
            (&["vehicle"], "vehicle", true),
            (&["vehicle"], "person", false),
            (&["person", "car"], "vehicle", true),
            (&["person", "car"], "bus", false),
            (&["person"], "vehicle", false),
            (&["person"], "person", true),
            (&["vehicle"], "motorcycle", true),
            (&["motorcycle"], "vehicle", true),
            (&["sofa"], "couch", true),
            (&["couch"], "sofa", true),
            (&["couch"], "tv", false),
        ];
        for (names, wanted, keeps) in cases {
            assert_eq!(kept(names).keeps(wanted), keeps, "{names:?} {wanted}");
        }
    }
}
