// SPDX-License-Identifier: Apache-2.0
//! Maps the labels of the model to the categories of the annotations. Pure.
//!
//! Names are compared without case, and with `_` and `-` as spaces: `Traffic_light` is `traffic light`. It is enough that
//! every name of one side is found on the other: a model of eighty classes can be evaluated on five, and one of five on
//! eighty. Where names differ, as COCO's `motorcycle` and the older `motorbike` do, the order decides, if the
//! counts agree and no common name has a different position. Categories that the model's `covers` names were merged before, by
//! [`merge_covered`](super::covered::merge_covered).

use super::{AccuracyError, Category};

/// How labels and categories were matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MatchedBy {
    /// By their names.
    Name,
    /// By their order: labels as in the model, categories by id.
    Order,
}

/// Map of labels to categories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassMap {
    /// How they were matched.
    pub by: MatchedBy,
    /// For each label, the index of its category.
    categories: Vec<Option<usize>>,
}

impl ClassMap {
    /// Matches `labels` with `categories`, which are sorted by id.
    ///
    /// # Errors
    /// Neither names nor order match.
    pub(crate) fn new(labels: &[String], categories: &[Category]) -> Result<Self, AccuracyError> {
        let wanted: Vec<String> = categories.iter().map(|one| normalized(&one.name)).collect();
        let by_name: Vec<Option<usize>> = labels
            .iter()
            .map(|label| wanted.iter().position(|name| *name == normalized(label)))
            .collect();
        let without_label: Vec<usize> = (0..categories.len())
            .filter(|index| !by_name.contains(&Some(*index)))
            .collect();
        let matches = by_name.iter().flatten().count();
        let is_unique = matches == categories.len() - without_label.len();
        if matches > 0
            && is_unique
            && (without_label.is_empty() || by_name.iter().all(Option::is_some))
        {
            return Ok(Self {
                by: MatchedBy::Name,
                categories: by_name,
            });
        }
        let reason = if labels.len() != categories.len() {
            "their counts differ"
        } else if by_name
            .iter()
            .enumerate()
            .any(|(place, found)| found.is_some_and(|found| found != place))
        {
            "the common names are in another order"
        } else {
            return Ok(Self {
                by: MatchedBy::Order,
                categories: (0..labels.len()).map(Some).collect(),
            });
        };
        let unnamed = labels.iter().zip(&by_name).filter(|(_, to)| to.is_none());
        Err(AccuracyError::Classes {
            reason: reason.to_owned(),
            labels: (
                labels.len(),
                unnamed.map(|(label, _)| label.clone()).collect(),
            ),
            categories: (
                categories.len(),
                without_label
                    .iter()
                    .map(|index| categories[*index].name.clone())
                    .collect(),
            ),
        })
    }

    /// Index of the category that label number `class` means; `None` when the annotations lack it.
    pub(crate) fn category(&self, class: u16) -> Option<usize> {
        self.categories.get(usize::from(class)).copied().flatten()
    }

    /// Index of the label that means the category of this index; `None` when the model lacks it.
    pub(crate) fn label(&self, category: usize) -> Option<usize> {
        self.categories
            .iter()
            .position(|found| *found == Some(category))
    }
}

/// A name in normalized form.
pub(super) fn normalized(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', '-'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(labels: &[&str], names: &[&str]) -> Result<ClassMap, AccuracyError> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let categories: Vec<Category> = names
            .iter()
            .zip(1..)
            .map(|(name, id)| Category {
                id,
                name: (*name).to_owned(),
            })
            .collect();
        ClassMap::new(&labels, &categories)
    }

    #[test]
    fn classes_match_by_name_when_one_set_contains_the_other() {
        let same = map(&["car", "traffic light"], &["Traffic_Light", "car"]).expect("same names");
        assert_eq!(same.by, MatchedBy::Name);
        assert_eq!((same.category(0), same.category(1)), (Some(1), Some(0)));
        let fewer = map(&["person", "car", "bus"], &["bus", "person"]).expect("all are found");
        assert_eq!(
            [0, 1, 2].map(|class| fewer.category(class)),
            [Some(1), None, Some(0)]
        );
        assert_eq!(fewer.label(0), Some(2));
        let more = map(&["bus"], &["car", "bus"]).expect("the label is found");
        assert_eq!((more.category(0), more.label(0)), (Some(1), None));
        assert_eq!(more.category(9), None);
    }

    #[test]
    fn classes_match_by_order_when_names_differ() {
        let map = map(&["car", "motorbike"], &["car", "motorcycle"]).expect("same order");
        assert_eq!(map.by, MatchedBy::Order);
        assert_eq!((map.category(1), map.label(1)), (Some(1), Some(1)));
    }

    #[test]
    fn unmatched_classes_are_listed_for_both_sides() {
        let text =
            |labels: &[&str], names: &[&str]| map(labels, names).expect_err("no match").to_string();
        let shuffled = text(&["car", "motorbike"], &["motorcycle", "car"]);
        assert!(
            shuffled.contains("in another order")
                && shuffled.contains("without a category: motorbike\n")
                && shuffled.contains("without a label: motorcycle\n"),
            "{shuffled}"
        );
        let counts = text(&["a", "b", "car"], &["car", "x"]);
        assert!(
            counts.contains("3 labels and the 2 categories") && counts.contains("a, b\n"),
            "{counts}"
        );
        // Two labels that mean the same category cannot both be right.
        assert!(map(&["car", "Car"], &["car", "bus"]).is_err());
        assert!(map(&["car"], &[]).is_err());
    }
}
