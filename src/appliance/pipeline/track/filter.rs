//! Selects the detections of one source after inference, by score and class. The detector does not distinguish sources, as one
//! batch has frames of several.

use std::sync::Arc;

use jetwatch_config::SourceConfig;
use jetwatch_detect::{ClassFilter, DetectError};
use jetwatch_types::Detection;

/// The filter of one source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DetectionFilter {
    min_score: f32,
    classes: ClassFilter,
}

impl DetectionFilter {
    /// The filter that `source` configures; `labels` are the labels of the classes.
    ///
    /// # Errors
    /// A label that the model does not have.
    pub(crate) fn new(source: &SourceConfig, labels: &[String]) -> Result<Self, DetectError> {
        Ok(Self {
            min_score: source.score_threshold.unwrap_or(0.0),
            classes: ClassFilter::new(labels, &source.classes)?,
        })
    }

    /// Removes the other detections and their embeddings, of which there is one for each detection or none at all; the order stays.
    pub(crate) fn apply(
        &self,
        detections: &mut Vec<Detection>,
        embeddings: &mut Vec<Option<Arc<[f32]>>>,
    ) {
        let keeps =
            |found: &Detection| found.score >= self.min_score && self.classes.accepts(found.class);
        if !embeddings.is_empty() {
            let mut kept = detections.iter().map(&keeps);
            embeddings.retain(|_| kept.next().unwrap_or(false));
        }
        detections.retain(keeps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_config::Config;

    fn filter(keys: &str) -> Result<DetectionFilter, DetectError> {
        let text = format!(
            "sources:\n  - name: a\n    uri: synthetic://traffic\n{keys}detector:\n  backend: scripted\n"
        );
        let config = Config::from_str("f.yaml", &text).expect("a good file");
        let labels = ["person", "car", "bus"].map(str::to_owned);
        DetectionFilter::new(&config.sources[0], &labels)
    }

    #[test]
    fn filter_keeps_configured_scores_and_classes() {
        let found = |class, score| Detection {
            class,
            score,
            xyxy: [0.0, 0.0, 1.0, 1.0],
        };
        let all = vec![found(0, 0.9), found(1, 0.4), found(2, 0.6), found(0, 0.5)];
        let kept = |keys: &str| {
            let mut left = all.clone();
            let embedding = |found: &Detection| Some(Arc::from([found.score]));
            let mut embeddings = left.iter().map(embedding).collect();
            let filter = filter(keys).expect("known labels");
            filter.apply(&mut left, &mut embeddings);
            assert_eq!(embeddings, left.iter().map(embedding).collect::<Vec<_>>());
            left.iter()
                .map(|one| (one.class, one.score))
                .collect::<Vec<(u16, f32)>>()
        };
        assert_eq!(kept("").len(), 4);
        assert_eq!(
            kept("    score_threshold: 0.5\n"),
            [(0, 0.9), (2, 0.6), (0, 0.5)]
        );
        assert_eq!(
            kept("    score_threshold: 0.45\n    classes: [bus, car]\n"),
            [(2, 0.6)]
        );
    }

    #[test]
    fn unknown_label_is_an_error() {
        let error = filter("    classes: [cars]\n").expect_err("no such label");
        assert!(error.to_string().contains("cars"), "{error}");
    }
}
