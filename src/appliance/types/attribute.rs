//! What secondary networks say of an object: its color, its type, the plate on it.

use std::ops::Deref;
use std::sync::Arc;

use super::Xyxy;

/// One thing that a secondary network says of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// The secondary network's name in the configuration.
    pub name: Arc<str>,
    /// One of its labels.
    pub label: Arc<str>,
    /// How sure that is over the looks that were voted on, 0 to 1.
    pub score: f32,
    /// Where a secondary detector saw it last, in source pixels; `None` for what a classifier says of the whole object.
    pub xyxy: Option<Xyxy>,
}

/// All attributes of one object, by the order of the networks in the configuration. Cheap to clone, and without memory of its own
/// while there are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attributes(Option<Arc<[Attribute]>>);

impl Attributes {
    /// Whether the same networks say the same labels, whatever their scores and boxes.
    #[must_use]
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
