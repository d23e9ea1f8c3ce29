//! Which classes are kept, and what was meant by a label that the model does not have. Pure.

use super::DetectError;

/// The classes to keep, from the labels in `detector.classes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassFilter {
    /// One flag for each class; empty: all are kept.
    accepted: Box<[bool]>,
}

impl ClassFilter {
    /// Keeps the classes whose labels are in `wanted`, all when it is empty. A label that is not in `labels` is an
    /// error that names those that come near it.
    pub fn new(labels: &[String], wanted: &[String]) -> Result<Self, DetectError> {
        if wanted.is_empty() {
            return Ok(Self {
                accepted: Box::default(),
            });
        }
        let unknown = |label: &String| !labels.contains(label);
        if let Some(label) = wanted.iter().find(|label| unknown(label)) {
            return Err(DetectError::UnknownClass {
                label: label.clone(),
                near: suggest_labels(labels, label),
                count: labels.len(),
            });
        }
        Ok(Self {
            accepted: labels.iter().map(|label| wanted.contains(label)).collect(),
        })
    }

    /// Whether detections of `class` are kept.
    #[must_use]
    pub fn accepts(&self, class: u16) -> bool {
        self.accepted
            .get(usize::from(class))
            .copied()
            .unwrap_or(self.accepted.is_empty())
    }
}

/// At most three labels that `wanted` may have meant, nearest first.
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
    fn only_listed_classes_are_kept() {
        let labels = names(&["person", "car", "bus"]);
        let filter = ClassFilter::new(&labels, &names(&["bus", "person"])).expect("both are known");
        assert_eq!(
            [0, 1, 2, 3].map(|class| filter.accepts(class)),
            [true, false, true, false]
        );
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
