// SPDX-License-Identifier: Apache-2.0
//! Classes of a network: their labels, and the groups that the configuration makes of them.

/// Classes of COCO that have an older name in the lists of Darknet and VOC: today's name, and the older one.
const RENAMED: [(&str, &str); 6] = [
    ("airplane", "aeroplane"),
    ("couch", "sofa"),
    ("dining table", "diningtable"),
    ("motorcycle", "motorbike"),
    ("potted plant", "pottedplant"),
    ("tv", "tvmonitor"),
];

/// The other name of a class of COCO that has been renamed: today's for the older one, and the older one for today's.
pub fn renamed_label(label: &str) -> Option<&'static str> {
    let pair = RENAMED
        .iter()
        .find(|pair| pair.0 == label || pair.1 == label)?;
    Some(if pair.0 == label { pair.1 } else { pair.0 })
}

/// A name for several labels, as the configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelGroup {
    /// Its name.
    pub name: String,
    /// Its labels, at least one. A network need not have all of them.
    pub labels: Vec<String>,
}

impl LabelGroup {
    /// Whether objects with `label` belong to the group: it is listed, or it is the name of the group itself.
    pub fn includes(&self, label: &str) -> bool {
        self.name == label || self.labels.iter().any(|known| known == label)
    }
}

/// The labels of a network, by class, and the group of each. Every name of a label in the configuration is looked up here, and
/// means the class that has it, or else the class that has its [other name](renamed_label).
///
/// ```
/// use jetwatch_types::{Classes, LabelGroup};
///
/// let labels = ["person", "car", "bus"].map(str::to_owned);
/// let vehicle = LabelGroup {
///     name: "vehicle".to_owned(),
///     labels: vec!["car".to_owned(), "bus".to_owned()],
/// };
/// let classes = Classes::new(&labels, &[vehicle]);
/// assert_eq!((classes.label(2), classes.group(2)), (Some("bus"), Some("vehicle")));
/// assert!(classes.includes("vehicle", 1) && !classes.includes("vehicle", 0));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Classes {
    labels: Vec<String>,
    groups: Vec<String>,
    /// Index of the group of each class; empty without groups.
    group_of: Vec<Option<usize>>,
}

impl Classes {
    /// The classes of a network with these labels, in the order of its classes. A label in several groups belongs to the first.
    pub fn new(labels: &[String], groups: &[LabelGroup]) -> Self {
        let place = |label: &str| groups.iter().position(|group| group.includes(label));
        let group_of = |label: &String| {
            let other = || renamed_label(label).filter(|other| means(labels, other, label));
            place(label).or_else(|| place(other()?))
        };
        Self {
            labels: labels.to_vec(),
            groups: groups.iter().map(|group| group.name.clone()).collect(),
            group_of: match groups {
                [] => Vec::new(),
                _ => labels.iter().map(group_of).collect(),
            },
        }
    }

    /// The labels, by class.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The names of the groups, in the order of the configuration.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The label of a class.
    pub fn label(&self, class: u16) -> Option<&str> {
        self.labels.get(usize::from(class)).map(String::as_str)
    }

    /// Index in [`groups`](Self::groups) of the group of a class.
    pub fn group_index(&self, class: u16) -> Option<usize> {
        self.group_of.get(usize::from(class)).copied().flatten()
    }

    /// Name of the group of a class.
    pub fn group(&self, class: u16) -> Option<&str> {
        Some(&self.groups[self.group_index(class)?])
    }

    /// Whether objects of both classes count as one kind: the classes are the same, or of one group.
    #[must_use]
    pub fn are_alike(&self, a: u16, b: u16) -> bool {
        a == b || (self.group_index(a).is_some() && self.group_index(a) == self.group_index(b))
    }

    /// The network's label for the label `name` of the configuration.
    #[must_use]
    pub fn label_for(&self, name: &str) -> Option<&str> {
        let mut labels = self.labels.iter().map(String::as_str);
        labels.find(|label| means(&self.labels, name, label))
    }

    /// Whether `name`, a label or the name of a group, stands for `class`.
    pub fn includes(&self, name: &str, class: u16) -> bool {
        let is_meant = |label| means(&self.labels, name, label);
        self.label(class).is_some_and(is_meant) || self.group(class) == Some(name)
    }

    /// Whether `name` is a label or the name of a group.
    pub fn contains(&self, name: &str) -> bool {
        self.label_for(name).is_some() || self.groups.iter().any(|known| known == name)
    }

    /// All names that stand for classes: the groups, then the labels.
    pub fn names(&self) -> Vec<String> {
        let is_new = |label: &&String| !self.groups.contains(label);
        let labels = self.labels.iter().filter(is_new);
        self.groups.iter().chain(labels).cloned().collect()
    }
}

/// Whether `name` means `label`, which is one of `labels`: it is the same, or its other name where none of them is the same.
fn means(labels: &[String], name: &str, label: &str) -> bool {
    name == label
        || (renamed_label(name) == Some(label) && !labels.iter().any(|known| known == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn group(name: &str, labels: &[&str]) -> LabelGroup {
        LabelGroup {
            name: name.to_owned(),
            labels: names(labels),
        }
    }

    #[test]
    fn group_name_stands_for_its_labels_that_the_network_has() {
        let groups = [
            group("vehicle", &["car", "bus", "motorcycle"]),
            group("pet", &["cat", "dog"]),
        ];
        let classes = Classes::new(&names(&["person", "car", "bus", "cat"]), &groups);
        let included = |name: &str| -> Vec<u16> {
            (0..4)
                .filter(|class| classes.includes(name, *class))
                .collect()
        };
        assert_eq!(included("vehicle"), [1, 2]);
        assert_eq!(included("car"), [1]);
        assert_eq!(included("pet"), [3]);
        assert_eq!(included("dog"), [] as [u16; 0]);
        assert_eq!(classes.group(2), Some("vehicle"));
        assert_eq!((classes.group(0), classes.group(9)), (None, None));
        assert!(classes.are_alike(1, 2) && classes.are_alike(0, 0));
        assert!(!classes.are_alike(0, 1) && !classes.are_alike(2, 3));
        assert!(!classes.are_alike(0, 9), "neither is in a group");
        assert!(classes.contains("pet") && classes.contains("cat") && !classes.contains("dog"));
    }

    #[test]
    fn group_with_the_name_of_a_label_includes_that_label() {
        let groups = [group("vehicle", &["car", "bus"])];
        let classes = Classes::new(&names(&["person", "vehicle"]), &groups);
        assert_eq!(classes.group(1), Some("vehicle"));
        assert!(classes.includes("vehicle", 1) && !classes.includes("vehicle", 0));
        assert_eq!(classes.names(), ["vehicle", "person"]);
    }

    #[test]
    fn without_groups_only_equal_classes_are_alike() {
        let classes = Classes::new(&names(&["person", "car"]), &[]);
        assert!(classes.are_alike(1, 1) && !classes.are_alike(0, 1));
        assert_eq!(classes.group(0), None);
        assert!(classes.groups().is_empty());
    }

    #[test]
    fn renamed_label_means_the_class_with_either_name() {
        let older = Classes::new(&names(&["person", "motorbike", "sofa"]), &[]);
        let todays = Classes::new(&names(&["person", "motorcycle", "couch"]), &[]);
        for classes in [older, todays] {
            for name in ["motorbike", "motorcycle"] {
                assert!(
                    classes.contains(name) && classes.includes(name, 1),
                    "{name}"
                );
                assert!(!classes.includes(name, 0) && !classes.includes(name, 2));
            }
            assert!(!classes.contains("tv") && !classes.includes("tv", 9));
        }
        for (today, older) in RENAMED {
            assert_eq!(
                (renamed_label(today), renamed_label(older)),
                (Some(older), Some(today))
            );
        }
    }

    #[test]
    fn network_with_both_names_has_two_classes() {
        let groups = [group("seat", &["sofa"])];
        let classes = Classes::new(&names(&["couch", "sofa"]), &groups);
        assert!(classes.includes("sofa", 1) && !classes.includes("sofa", 0));
        assert!(classes.includes("couch", 0) && !classes.includes("couch", 1));
        assert_eq!((classes.group(0), classes.group(1)), (None, Some("seat")));
    }

    #[test]
    fn group_takes_a_class_by_its_other_name() {
        let groups = [group("vehicle", &["car", "motorbike"])];
        let classes = Classes::new(&names(&["motorcycle", "person"]), &groups);
        assert_eq!(
            (classes.group(0), classes.group(1)),
            (Some("vehicle"), None)
        );
        assert_eq!(classes.label_for("motorbike"), Some("motorcycle"));
    }
}
