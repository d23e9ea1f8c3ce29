//! Numbers of active tracks of each group of labels, for one source.

use std::collections::BTreeMap;

use jetwatch_track::ClassCount;
use jetwatch_types::Classes;

/// The counts of one source, and those that were last published.
#[derive(Debug, Default)]
pub(crate) struct GroupCounts {
    by_class: BTreeMap<u16, usize>,
    now: Vec<usize>,
    published: Vec<usize>,
}

impl GroupCounts {
    /// Takes in the new counts of classes; calls `changed` with the name and the count of each group whose count differs.
    pub(crate) fn update(
        &mut self,
        classes: &Classes,
        changes: &[ClassCount],
        mut changed: impl FnMut(&str, usize),
    ) {
        self.now.resize(classes.groups().len(), 0);
        self.published.resize(classes.groups().len(), 0);
        for change in changes {
            if let Some(group) = classes.group_index(change.class) {
                let before = self.by_class.insert(change.class, change.count);
                self.now[group] += change.count;
                self.now[group] -= before.unwrap_or(0);
            }
        }
        for ((now, published), group) in
            (self.now.iter().zip(&mut self.published)).zip(classes.groups())
        {
            if now != published {
                *published = *now;
                changed(group, *now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::LabelGroup;

    #[test]
    fn group_count_changes_only_with_the_sum_of_its_classes() {
        let labels = ["person", "car", "truck"].map(str::to_owned);
        let group = LabelGroup {
            name: "vehicle".to_owned(),
            labels: labels[1..].to_vec(),
        };
        let classes = Classes::new(&labels, &[group]);
        let mut counts = GroupCounts::default();
        let mut update = |changes: &[(u16, usize)]| {
            let changes: Vec<ClassCount> = changes
                .iter()
                .map(|&(class, count)| ClassCount { class, count })
                .collect();
            let mut changed = Vec::new();
            counts.update(&classes, &changes, |group, count| {
                changed.push(format!("{group} {count}"));
            });
            changed
        };
        assert_eq!(update(&[(0, 3)]), [""; 0]);
        assert_eq!(update(&[(1, 2), (2, 1)]), ["vehicle 3"]);
        // A truck is taken for a car.
        assert_eq!(update(&[(1, 3), (2, 0)]), [""; 0]);
        assert_eq!(update(&[(1, 0)]), ["vehicle 0"]);
    }
}
