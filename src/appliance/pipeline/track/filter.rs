// SPDX-License-Identifier: Apache-2.0
//! Selects the detections of one source after inference, by score, class and group. The detector does not distinguish sources,
//! as one batch has frames of several.

use std::sync::Arc;

use jetwatch_config::SourceConfig;
use jetwatch_detect::{ClassFilter, DetectError};
use jetwatch_types::{Classes, Detection, intersection_over_union};

/// The filter of one source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DetectionFilter {
    min_score: f32,
    filter: ClassFilter,
    classes: Arc<Classes>,
    /// IOU above which one of two boxes of a group is dropped.
    nms_iou: f32,
}

impl DetectionFilter {
    /// The filter that `source` configures. `score_threshold` and `nms_iou` are those of the detector, which compares boxes of one
    /// class only.
    ///
    /// # Errors
    /// A label that the model does not have.
    pub(crate) fn new(
        source: &SourceConfig,
        classes: &Arc<Classes>,
        [score_threshold, nms_iou]: [f32; 2],
    ) -> Result<Self, DetectError> {
        Ok(Self {
            min_score: source.score_threshold.unwrap_or(score_threshold),
            filter: ClassFilter::with_groups(classes, &source.classes)?,
            classes: Arc::clone(classes),
            nms_iou,
        })
    }

    /// Detections below this score are dropped.
    pub(crate) fn score_threshold(&self) -> f32 {
        self.min_score
    }

    /// Sets the score below which detections are dropped.
    pub(crate) fn set_score_threshold(&mut self, threshold: f32) {
        self.min_score = threshold;
    }

    /// Removes the other detections, and those that overlap a better one of another label of their group: one object that
    /// the network took for two. Their embeddings, of which there is one for each detection or none at all, go with them.
    /// The order, best first, stays.
    pub(crate) fn apply(
        &self,
        detections: &mut Vec<Detection>,
        embeddings: &mut Vec<Option<Arc<[f32]>>>,
    ) {
        let has_embeddings = !embeddings.is_empty();
        let mut kept = 0;
        for index in 0..detections.len() {
            let found = detections[index];
            if !self.selects(&found) || self.repeats_one_of(&detections[..kept], &found) {
                continue;
            }
            // The elements up to `kept` were already compared, so nothing is lost.
            detections[kept] = found;
            if has_embeddings {
                embeddings.swap(kept, index);
            }
            kept += 1;
        }
        detections.truncate(kept);
        if has_embeddings {
            embeddings.truncate(kept);
        }
    }

    fn selects(&self, found: &Detection) -> bool {
        found.score >= self.min_score && self.filter.accepts(found.class)
    }

    /// Whether one of `better` is of another label of the same group, and overlaps.
    fn repeats_one_of(&self, better: &[Detection], found: &Detection) -> bool {
        !self.classes.groups().is_empty()
            && better.iter().any(|better| {
                better.class != found.class
                    && self.classes.are_alike(better.class, found.class)
                    && intersection_over_union(&better.xyxy, &found.xyxy) > self.nms_iou
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_config::Config;

    fn filter(keys: &str) -> Result<DetectionFilter, DetectError> {
        let text = format!(
            "sources:\n  - name: a\n    uri: synthetic://traffic\n{}  backend: scripted\n",
            match keys.contains("detector:") {
                true => keys.to_owned(),
                false => format!("{keys}detector:\n"),
            }
        );
        let config = Config::from_str("f.yaml", &text).expect("a good file");
        let labels = ["person", "car", "bus"].map(str::to_owned);
        let classes = Arc::new(Classes::new(&labels, &config.detector.groups));
        DetectionFilter::new(&config.sources[0], &classes, [0.0, 0.5])
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
    fn filter_by_group_keeps_one_box_of_an_object_with_two_labels() {
        let found = |class, score, left| Detection {
            class,
            score,
            xyxy: [left, 0.0, left + 10.0, 10.0],
        };
        let all = vec![
            found(1, 0.9, 0.0),
            found(2, 0.8, 1.0),
            found(0, 0.7, 0.0),
            found(2, 0.6, 6.0),
            found(1, 0.5, 1.0),
        ];
        let kept = |keys: &str| {
            let mut left = all.clone();
            let mut embeddings = left
                .iter()
                .map(|found| Some(Arc::from([found.score])))
                .collect();
            filter(keys)
                .expect("known names")
                .apply(&mut left, &mut embeddings);
            let scores: Vec<_> = embeddings
                .iter()
                .flatten()
                .map(|it: &Arc<[f32]>| it[0])
                .collect();
            assert_eq!(scores, left.iter().map(|it| it.score).collect::<Vec<_>>());
            left.iter()
                .map(|one| (one.class, one.score))
                .collect::<Vec<(u16, f32)>>()
        };
        let groups = "detector:\n  groups: {vehicle: [car, bus, truck]}\n";
        // The last box is of the label of the first one: the network's own suppression has let it pass.
        let expected = [(1, 0.9), (0, 0.7), (2, 0.6), (1, 0.5)];
        assert_eq!(kept(groups), expected);
        let only = format!("    classes: [vehicle]\n{groups}");
        assert_eq!(kept(&only), [(1, 0.9), (2, 0.6), (1, 0.5)]);
        assert_eq!(kept("").len(), 5);
    }

    #[test]
    fn unknown_label_is_an_error() {
        let error = filter("    classes: [cars]\n").expect_err("no such label");
        assert!(error.to_string().contains("cars"), "{error}");
    }
}
