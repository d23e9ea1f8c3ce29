// SPDX-License-Identifier: Apache-2.0
//! Gives the objects of categories that a model's `covers` names to the label that covers them. Pure.
//!
//! A network with the label `vehicle`, trained on cars, buses and trucks, is evaluated on annotations that tell these apart:
//! their objects become objects of one category, `vehicle`. Names are compared as in [`ClassMap`](super::classes::ClassMap).

use super::annotations::{Category, Truth};
use super::classes::normalized;

/// Categories that are evaluated as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CoveredCategories {
    /// Index of the label.
    pub class: u16,
    /// Names in the annotations, by ascending id.
    pub names: Vec<String>,
}

/// `truth` with the categories that a label covers merged into one, which has the name of the label and, of their ids, that of
/// the category with the label's own name or else the least one. `covers` has pairs of a class and a further name for it.
///
/// A category with the name of a label belongs to that label, whatever else covers it.
pub(crate) fn merge_covered(
    truth: Truth,
    labels: &[String],
    covers: &[(u16, String)],
) -> (Truth, Vec<CoveredCategories>) {
    let own_class = |name: &str| {
        let class = labels.iter().position(|label| normalized(label) == name);
        // There are at most 10 000 labels.
        class.map(|class| class as u16)
    };
    let covering = |name: &str| {
        let covered = covers.iter().find(|(_, known)| normalized(known) == name);
        covered.map(|(class, _)| *class)
    };
    let mut merged: Vec<CoveredCategories> = Vec::new();
    // For each category: the class that covers it, and whether it has the name of that class.
    let class_of: Vec<Option<(u16, bool)>> = truth
        .categories
        .iter()
        .map(|category| {
            let name = normalized(&category.name);
            match own_class(&name) {
                Some(class) => Some((class, true)),
                None => covering(&name).map(|class| (class, false)),
            }
        })
        .collect();
    for (category, class) in truth.categories.iter().zip(&class_of) {
        if let Some((class, false)) = *class {
            match merged.iter_mut().find(|known| known.class == class) {
                Some(known) => known.names.push(category.name.clone()),
                None => merged.push(CoveredCategories {
                    class,
                    names: vec![category.name.clone()],
                }),
            }
        }
    }
    if merged.is_empty() {
        return (truth, merged);
    }
    // Categories are sorted by id: the first one of a class has the least id.
    let kept_place = |index: usize| {
        let Some((class, _)) = class_of[index] else {
            return index;
        };
        let is_own = |found: &Option<(u16, bool)>| *found == Some((class, true));
        let is_of = |found: &Option<(u16, bool)>| found.is_some_and(|(found, _)| found == class);
        let own = class_of.iter().position(is_own);
        own.or_else(|| class_of.iter().position(is_of))
            .unwrap_or(index)
    };
    let kept: Vec<usize> = (0..truth.categories.len())
        .filter(|index| kept_place(*index) == *index)
        .collect();
    let new_place = |index: usize| kept.binary_search(&kept_place(index)).unwrap_or(0);
    let categories = kept.iter().map(|index| {
        let category = &truth.categories[*index];
        let name = match class_of[*index] {
            Some((class, false)) => labels[usize::from(class)].clone(),
            _ => category.name.clone(),
        };
        Category {
            id: category.id,
            name,
        }
    });
    let categories = categories.collect();
    let objects = truth.objects.iter().map(|object| super::Object {
        category: new_place(object.category),
        ..*object
    });
    let truth = Truth {
        objects: objects.collect(),
        categories,
        images: truth.images,
    };
    (truth, merged)
}

#[cfg(test)]
mod tests {
    use super::super::Object;
    use super::*;

    fn truth(names: &[&str]) -> Truth {
        let categories = names.iter().zip(1..).map(|(name, id)| Category {
            id,
            name: (*name).to_owned(),
        });
        let objects = (0..names.len()).map(|category| Object {
            image: 0,
            category,
            xywh: [0.0, 0.0, 1.0, 1.0],
            area: 1.0,
            crowd: false,
        });
        Truth {
            images: Vec::new(),
            categories: categories.collect(),
            objects: objects.collect(),
        }
    }

    fn labels() -> Vec<String> {
        ["person", "vehicle", "two-wheeler"]
            .map(str::to_owned)
            .into()
    }

    /// Ids and names of the categories, and the name of the category of each object.
    fn merged(names: &[&str], covers: &[(u16, &str)]) -> (Vec<(i64, String)>, Vec<String>) {
        let covers: Vec<(u16, String)> = covers
            .iter()
            .map(|(class, name)| (*class, (*name).to_owned()))
            .collect();
        let (truth, _) = merge_covered(truth(names), &labels(), &covers);
        let of_objects = truth
            .objects
            .iter()
            .map(|object| truth.categories[object.category].name.clone());
        let of_objects = of_objects.collect();
        let categories = truth.categories.into_iter();
        (
            categories.map(|one| (one.id, one.name)).collect(),
            of_objects,
        )
    }

    const COVERS: [(u16, &str); 5] = [
        (1, "car"),
        (1, "bus"),
        (1, "truck"),
        (2, "bicycle"),
        (2, "motorcycle"),
    ];

    #[test]
    fn covered_categories_become_one() {
        let (categories, objects) = merged(
            &["bicycle", "Car", "person", "boat", "motor_cycle", "bus"],
            &COVERS,
        );
        let wanted = [
            (1, "two-wheeler"),
            (2, "vehicle"),
            (3, "person"),
            (4, "boat"),
            (5, "motor_cycle"),
        ]
        .map(|(id, name)| (id, name.to_owned()));
        assert_eq!(categories, wanted);
        let wanted = [
            "two-wheeler",
            "vehicle",
            "person",
            "boat",
            "motor_cycle",
            "vehicle",
        ];
        assert_eq!(objects, wanted, "motor cycle is another name");
    }

    #[test]
    fn category_with_the_label_of_the_network_keeps_its_id() {
        let (categories, objects) = merged(&["truck", "vehicle", "car"], &COVERS);
        assert_eq!(categories, [(2, "vehicle".to_owned())]);
        assert_eq!(objects, ["vehicle"; 3]);
        // A label's own category is not given away.
        let (categories, _) = merged(&["person", "vehicle"], &[(1, "person")]);
        let wanted = [(1, "person"), (2, "vehicle")].map(|(id, name)| (id, name.to_owned()));
        assert_eq!(categories, wanted);
    }

    #[test]
    fn merged_categories_are_listed_by_their_names() {
        let covers = COVERS.map(|(class, name)| (class, name.to_owned()));
        let (_, merged) = merge_covered(truth(&["truck", "car", "person"]), &labels(), &covers);
        let wanted = CoveredCategories {
            class: 1,
            names: vec!["truck".to_owned(), "car".to_owned()],
        };
        assert_eq!(merged, [wanted]);
        let plain = truth(&["person", "vehicle"]);
        assert_eq!(
            merge_covered(plain.clone(), &labels(), &covers),
            (plain, Vec::new())
        );
    }
}
