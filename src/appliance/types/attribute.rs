// SPDX-License-Identifier: Apache-2.0
//! Attributes of an object from secondary inference, such as color, type or license plate.

use std::ops::Deref;
use std::sync::Arc;

use super::Xyxy;

/// One attribute: the label that one secondary network assigned to an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Name of the secondary network in the configuration.
    pub name: Arc<str>,
    /// One of the network's labels.
    pub label: Arc<str>,
    /// Mean confidence over the classifications that were voted on, 0 to 1.
    pub score: f32,
    /// Newest box from a secondary detector, in source pixels; `None` for a classifier, which covers the whole object.
    pub xyxy: Option<Xyxy>,
}

/// All attributes of one object, in the order of the networks in the configuration. Cheap to clone; the empty list allocates
/// nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes(Option<Arc<[Attribute]>>);

impl Attributes {
    /// Whether both have the same networks and labels; scores and boxes are not compared.
    pub fn same_labels(&self, other: &Self) -> bool {
        let same = |(a, b): (&Attribute, &Attribute)| a.name == b.name && a.label == b.label;
        self.len() == other.len() && self.iter().zip(other.iter()).all(same)
    }
}

impl From<Vec<Attribute>> for Attributes {
    fn from(all: Vec<Attribute>) -> Self {
        Self((!all.is_empty()).then(|| all.into()))
    }
}

impl Deref for Attributes {
    type Target = [Attribute];

    fn deref(&self) -> &[Attribute] {
        self.0.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_labels_decide_whether_attributes_are_the_same() {
        let all = |label: &str, score| {
            Attributes::from(vec![Attribute {
                name: "color".into(),
                label: label.into(),
                score,
                xyxy: None,
            }])
        };
        assert!(all("red", 0.5).same_labels(&all("red", 0.9)));
        assert!(!all("red", 0.5).same_labels(&all("blue", 0.5)));
        assert!(!all("red", 0.5).same_labels(&Attributes::default()));
        assert_eq!(Attributes::from(Vec::new()), Attributes::default());
    }
}
