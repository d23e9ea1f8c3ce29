// SPDX-License-Identifier: Apache-2.0
//! Agreement of two detectors on the same images. Pure.
//!
//! Two runtimes never give the same last bits, and a box whose score lies at the threshold is there with one and missing
//! with the other. So the confident boxes of each side are searched among all boxes of the other.

use jetwatch_types::{Detection, intersection_over_union};

/// Criteria for a match of two boxes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatchCriteria {
    /// Boxes with at least this score must be found on the other side, 0 to 1.
    pub confident_score: f32,
    /// Boxes of the other side with at least this score can match, 0 to 1.
    pub min_score: f32,
    /// Minimum IOU, 0 to 1.
    pub min_iou: f32,
}

impl Default for MatchCriteria {
    fn default() -> Self {
        Self {
            confident_score: 0.5,
            min_score: 0.3,
            min_iou: 0.8,
        }
    }
}

/// The confident boxes of one side, and how many of them match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ConfidentBoxes {
    /// Number of confident boxes.
    pub boxes: u64,
    /// Number of them with a match on the other side.
    pub matched: u64,
}

impl ConfidentBoxes {
    /// Share with a match, 0 to 1; 1 without boxes.
    #[must_use]
    pub fn share(self) -> f64 {
        match self.boxes {
            0 => 1.0,
            boxes => self.matched as f64 / boxes as f64,
        }
    }
}

/// Agreement of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize)]
pub struct Agreement {
    /// Images compared.
    pub images: u64,
    /// Confident boxes of the first side.
    pub first: ConfidentBoxes,
    /// Confident boxes of the second side.
    pub second: ConfidentBoxes,
    /// Mean overlap of the pairs.
    pub mean_iou: f64,
    /// Greatest difference of two scores of a pair.
    pub worst_score_difference: f32,
}

impl Agreement {
    /// The smaller share of both sides, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.first.share().min(self.second.share())
    }
}

/// Compares the detections of the same images. Of lists of different lengths, the common part is compared.
pub fn agreement(
    first: &[Vec<Detection>],
    second: &[Vec<Detection>],
    rule: &MatchCriteria,
) -> Agreement {
    let mut agreement = Agreement::default();
    let (mut pairs, mut overlaps) = (0_u64, 0.0);
    for (first, second) in first.iter().zip(second) {
        agreement.images += 1;
        let sides = [
            (&mut agreement.first, first, second),
            (&mut agreement.second, second, first),
        ];
        for (confident, ours, theirs) in sides {
            for (of_ours, found) in matches(ours, theirs, rule) {
                confident.boxes += 1;
                let Some((iou, of_theirs)) = found else {
                    continue;
                };
                confident.matched += 1;
                pairs += 1;
                overlaps += f64::from(iou);
                let difference = (of_ours.score - of_theirs.score).abs();
                agreement.worst_score_difference = agreement.worst_score_difference.max(difference);
            }
        }
    }
    if pairs > 0 {
        agreement.mean_iou = overlaps / pairs as f64;
    }
    agreement
}

/// The confident boxes of `ours`, each with the box of `theirs` that it overlaps most and that no better box matches.
fn matches<'d>(
    ours: &'d [Detection],
    theirs: &'d [Detection],
    rule: &MatchCriteria,
) -> Vec<(&'d Detection, Option<(f32, &'d Detection)>)> {
    let mut confident: Vec<&Detection> = ours
        .iter()
        .filter(|detection| detection.score >= rule.confident_score)
        .collect();
    confident.sort_by(|a, b| b.score.total_cmp(&a.score));
    let mut is_taken = vec![false; theirs.len()];
    confident
        .into_iter()
        .map(|of_ours| {
            let candidates = theirs.iter().enumerate().filter(|(index, of_theirs)| {
                !is_taken[*index]
                    && of_theirs.class == of_ours.class
                    && of_theirs.score >= rule.min_score
            });
            let best = candidates
                .map(|(index, of_theirs)| {
                    let iou = intersection_over_union(&of_ours.xyxy, &of_theirs.xyxy);
                    (iou, index, of_theirs)
                })
                .max_by(|a, b| a.0.total_cmp(&b.0))
                .filter(|(iou, ..)| *iou >= rule.min_iou);
            let found = best.map(|(iou, index, of_theirs)| {
                is_taken[index] = true;
                (iou, of_theirs)
            });
            (of_ours, found)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detection(class: u16, score: f32, left: f32) -> Detection {
        Detection {
            class,
            score,
            xyxy: [left, 0.0, left + 10.0, 10.0],
        }
    }

    #[test]
    fn confident_boxes_must_be_found_on_the_other_side() {
        let first = vec![
            // At the same position, one of them not confident on the other side; another class; only here; not confident here.
            vec![
                detection(0, 0.9, 0.0),
                detection(0, 0.6, 40.0),
                detection(1, 0.8, 80.0),
                detection(0, 0.7, 120.0),
                detection(0, 0.45, 160.0),
            ],
            vec![],
        ];
        #[rustfmt::skip]
        let second = vec![
            vec![detection(0, 0.8, 0.0), detection(0, 0.4, 41.0), detection(0, 0.8, 80.0), detection(0, 0.55, 160.0)],
            vec![detection(0, 0.2, 0.0)],
        ];
        let found = agreement(&first, &second, &MatchCriteria::default());
        assert_eq!(found.images, 2);
        assert_eq!((found.first.boxes, found.first.matched), (4, 2));
        // Confident on the second side: at 0, at 80 (another class there) and at 160.
        assert_eq!((found.second.boxes, found.second.matched), (3, 2));
        assert!((found.share() - 0.5).abs() < 1e-9);
        assert!(
            (found.worst_score_difference - 0.2).abs() < 1e-6,
            "{found:?}"
        );
        // Of four pairs one is shifted by a tenth: 90 of 110.
        assert!((found.mean_iou - (3.0 + 90.0 / 110.0) / 4.0).abs() < 1e-6);
    }

    #[test]
    fn one_box_matches_only_one_box() {
        let first = vec![vec![detection(0, 0.9, 0.0), detection(0, 0.8, 0.5)]];
        let second = vec![vec![detection(0, 0.9, 0.0)]];
        let found = agreement(&first, &second, &MatchCriteria::default());
        assert_eq!((found.first.matched, found.second.matched), (1, 1));
        assert!((found.share() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn empty_sets_agree() {
        let found = agreement(&[vec![]], &[vec![]], &MatchCriteria::default());
        assert!((found.share() - 1.0).abs() < 1e-9);
    }
}
