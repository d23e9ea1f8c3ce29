// SPDX-License-Identifier: Apache-2.0
//! Filters classes by label, and suggests labels for unknown ones. Pure.

use super::{DetectError, class_names};
use jetwatch_types::{Classes, LabelGroup};

/// The classes to keep, from the labels in `detector.classes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassFilter {
    /// One flag per class. Empty: all classes are kept.
    accepted: Box<[bool]>,
}

impl ClassFilter {
    /// Keeps the classes whose labels are in `wanted`, all when it is empty.
    ///
    /// # Errors
    /// A label is not in `labels`. The error lists similar ones.
    pub fn new(labels: &[String], wanted: &[String]) -> Result<Self, DetectError> {
        Self::with_groups(&Classes::new(labels, &[]), wanted)
    }

    /// As [`new`](Self::new); `wanted` may also have names of groups, which keep all of their labels.
    ///
    /// # Errors
    /// A name is neither a label nor a group. The error lists similar ones.
    pub fn with_groups(classes: &Classes, wanted: &[String]) -> Result<Self, DetectError> {
        if wanted.is_empty() {
            return Ok(Self {
                accepted: Box::default(),
            });
        }
        if let Some(name) = wanted.iter().find(|name| !classes.contains(name)) {
            return Err(DetectError::UnknownClass {
                label: name.clone(),
                near: suggest_labels(&classes.names(), name),
                count: classes.labels().len(),
            });
        }
        let is_wanted = |class| wanted.iter().any(|name| classes.includes(name, class));
        // There are at most 10 000 labels.
        let count = classes.labels().len() as u16;
        Ok(Self {
            accepted: (0..count).map(is_wanted).collect(),
        })
    }

    /// Keeps all classes but those whose labels [stand for none](class_names::is_placeholder).
    pub(crate) fn without_placeholders(labels: &[String]) -> Self {
        let accepted: Box<[bool]> = labels
            .iter()
            .map(|label| !class_names::is_placeholder(label))
            .collect();
        Self {
            accepted: match accepted.contains(&false) {
                true => accepted,
                false => Box::default(),
            },
        }
    }

    /// Whether detections of `class` are kept.
    pub fn accepts(&self, class: u16) -> bool {
        self.accepted
            .get(usize::from(class))
            .copied()
            .unwrap_or(self.accepted.is_empty())
    }
}

/// The classes of a network with these labels and the configured `groups`.
///
/// # Errors
/// The network has none of the labels of a group. The error lists similar ones.
pub(super) fn grouped(labels: &[String], groups: &[LabelGroup]) -> Result<Classes, DetectError> {
    let classes = Classes::new(labels, groups);
    // At most 10 000 labels.
    let all = 0..labels.len() as u16;
    let is_known = |group: &&LabelGroup| {
        all.clone()
            .any(|class| classes.includes(&group.name, class))
    };
    let Some(group) = groups.iter().find(|group| !is_known(group)) else {
        return Ok(classes);
    };
    let mut near: Vec<String> = Vec::new();
    for wanted in &group.labels {
        for label in suggest_labels(labels, wanted) {
            if !near.contains(&label) {
                near.push(label);
            }
        }
    }
    near.truncate(3);
    Err(DetectError::EmptyGroup {
        group: group.name.clone(),
        labels: group.labels.clone(),
        near,
        count: labels.len(),
    })
}

/// At most three labels similar to `wanted`, nearest first.
pub fn suggest_labels(labels: &[String], wanted: &str) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let far = wanted.chars().count() / 3 + 1;
    let mut ranked: Vec<(usize, &String)> = labels
        .iter()
        .filter_map(|label| {
            let lower = label.to_lowercase();
            let distance = strsim::levenshtein(&lower, &wanted);
            // `truck` for `trucks`, but also `fire hydrant` for `hydrant`.
            let within = wanted.len() > 2 && lower.contains(&wanted);
            (distance <= far || within).then_some((distance, label))
        })
        .collect();
    ranked.sort_by_key(|(distance, _)| *distance);
    ranked
        .into_iter()
        .take(3)
        .map(|(_, label)| label.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn an_empty_list_keeps_all_classes() {
        let filter = ClassFilter::new(&names(&["person", "car"]), &[]).expect("nothing to look up");
        assert!(filter.accepts(0) && filter.accepts(1));
    }

    #[test]
    fn rows_without_a_class_are_kept_only_when_listed() {
        let labels = names(&["__background__", "person", "N/A 2"]);
        let kept = |filter: ClassFilter| [0, 1, 2].map(|class| filter.accepts(class));
        let filter = ClassFilter::without_placeholders(&labels);
        assert_eq!(kept(filter), [false, true, false]);
        let listed = ClassFilter::new(&labels, &names(&["N/A 2"])).expect("it is a label");
        assert_eq!(kept(listed), [false, false, true]);
        let all = ClassFilter::without_placeholders(&names(&["person", "car"]));
        assert!(all.accepts(0) && all.accepts(1));
    }

    #[test]
    fn only_listed_classes_are_kept() {
        let labels = names(&["person", "car", "bus"]);
        let filter = ClassFilter::new(&labels, &names(&["bus", "person"])).expect("both are known");
        let found = [0, 1, 2, 3].map(|class| filter.accepts(class));
        assert_eq!(found, [true, false, true, false]);
    }

    #[test]
    fn group_keeps_all_its_labels_and_a_group_without_any_is_an_error() {
        let group = |name: &str, labels: &[&str]| LabelGroup {
            name: name.to_owned(),
            labels: names(labels),
        };
        let labels = names(&["person", "car", "bus"]);
        let groups = [group("vehicle", &["car", "bus", "motorcycle"])];
        let classes = grouped(&labels, &groups).expect("it has two of them");
        let filter = ClassFilter::with_groups(&classes, &names(&["vehicle"])).expect("a group");
        let found = [0, 1, 2].map(|class| filter.accepts(class));
        assert_eq!(found, [false, true, true]);
        let error = ClassFilter::with_groups(&classes, &names(&["vehicles"]))
            .expect_err("neither label nor group")
            .to_string();
        assert!(error.contains("did you mean vehicle?"), "{error}");
        #[rustfmt::skip]
        let cases = [
            (group("pet", &["kitten", "hamster"]),
             "detector.groups.pet: the model has none of its labels (kitten, hamster), expected at least one; the model's 3 labels are in its model.yaml"),
            (group("people", &["persons", "pedestrian"]),
             "detector.groups.people: the model has none of its labels (persons, pedestrian), expected at least one; did you mean person?"),
        ];
        for (group, wanted) in cases {
            let error = grouped(&labels, &[group]).expect_err(wanted).to_string();
            assert_eq!(error, wanted);
        }
    }

    #[test]
    fn unknown_label_suggests_similar_ones() {
        let labels = names(&["person", "bicycle", "car", "cat", "truck", "fire hydrant"]);
        let cases = [
            ("Person", "did you mean person?"),
            ("trucks", "did you mean truck?"),
            ("cap", "did you mean car or cat?"),
            ("hydrant", "did you mean fire hydrant?"),
            ("giraffe", "the model's 6 labels are in its model.yaml"),
        ];
        for (label, wanted) in cases {
            let error = ClassFilter::new(&labels, &names(&["car", label]))
                .expect_err(label)
                .to_string();
            assert!(
                error.contains(&format!("`{label}`")) && error.contains(wanted),
                "{label}: {error}"
            );
        }
    }
}
