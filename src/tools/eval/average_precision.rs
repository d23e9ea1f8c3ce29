// SPDX-License-Identifier: Apache-2.0
//! Precision-recall curves of one class from matched detections, and average precision. Pure.
//!
//! Images have weights, so that a sample with repetitions is evaluated without copies: weight 2 is the same as
//! the image being there twice.

use super::matching::{IOU_THRESHOLDS, ScoredMatch, ScoredMatches};

/// Recalls at which precision is read: 0, 0.01, … 1.
const RECALL_LEVELS: usize = 101;

/// The recall of index `index`, equal to that of COCO's program to the last bit.
fn recall_level(index: usize) -> f64 {
    if index + 1 == RECALL_LEVELS {
        return 1.0;
    }
    index as f64 * 0.01
}

/// One class at one overlap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Curve {
    /// Mean of the best precision at or beyond each of the 101 recalls, 0 to 1.
    pub(super) precision: f64,
    /// Share of the objects found, 0 to 1.
    pub(super) recall: f64,
}

/// One class at every overlap.
pub(super) type Curves = [Curve; IOU_THRESHOLDS];

/// Working memory of [`curves`].
#[derive(Default)]
pub(super) struct Points(Vec<(f64, f64)>);

/// The curves of one class, with each image weighted by `weight`, and the `max` best detections of each image;
/// `None` without objects.
pub(super) fn curves(
    ranking: &ScoredMatches,
    max_rank: usize,
    weight: impl Fn(usize) -> u32,
    points: &mut Points,
) -> Option<Curves> {
    let objects: u64 = ranking
        .objects
        .iter()
        .map(|(image, count)| u64::from(*count) * u64::from(weight(*image)))
        .sum();
    if objects == 0 {
        return None;
    }
    let mut curves = [Curve {
        precision: 0.0,
        recall: 0.0,
    }; IOU_THRESHOLDS];
    for (place, curve) in curves.iter_mut().enumerate() {
        let scored = ranking
            .matches
            .iter()
            .filter(|scored| usize::from(scored.rank) < max_rank);
        *curve = one_curve(scored, place, objects as f64, &weight, &mut points.0);
    }
    Some(curves)
}

fn one_curve<'a>(
    scored: impl Iterator<Item = &'a ScoredMatch>,
    iou_index: usize,
    objects: f64,
    weight: impl Fn(usize) -> u32,
    points: &mut Vec<(f64, f64)>,
) -> Curve {
    points.clear();
    let (mut right, mut wrong) = (0_u64, 0_u64);
    for scored in scored {
        let is_right = scored.matched >> iou_index & 1 == 1;
        let is_wrong = scored.unmatched >> iou_index & 1 == 1;
        if is_right {
            right += u64::from(weight(scored.image));
            // Recall grows only at these points, and precision is highest here: no other point is read.
            let (right, wrong) = (right as f64, wrong as f64);
            points.push((right / objects, right / (wrong + right + f64::EPSILON)));
        } else if is_wrong {
            wrong += u64::from(weight(scored.image));
        }
    }
    let recall = points.last().map_or(0.0, |(recall, _)| *recall);
    // The best precision at this recall or beyond it.
    let mut best = 0.0_f64;
    for (_, precision) in points.iter_mut().rev() {
        best = best.max(*precision);
        *precision = best;
    }
    let mut at = 0;
    let mut sum = 0.0;
    for index in 0..RECALL_LEVELS {
        let level = recall_level(index);
        while at < points.len() && points[at].0 < level {
            at += 1;
        }
        match points.get(at) {
            Some((_, precision)) => sum += precision,
            None => break,
        }
    }
    Curve {
        precision: sum / RECALL_LEVELS as f64,
        recall,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(image: usize, score: f64, is_match: bool) -> ScoredMatch {
        let (right, wrong) = (u16::from(is_match), u16::from(!is_match));
        ScoredMatch {
            score,
            image,
            rank: 0,
            matched: right,
            unmatched: wrong,
        }
    }

    /// Mean precision and recall at the lowest overlap.
    fn lowest(ranking: &ScoredMatches, weight: impl Fn(usize) -> u32) -> Option<(f64, f64)> {
        let curves = curves(ranking, 100, weight, &mut Points::default())?;
        Some((curves[0].precision, curves[0].recall))
    }

    #[test]
    fn average_precision_equals_hand_computed_curve() {
        // Right, wrong, right of four objects: precision 1 up to recall 0.25, then 2/3 up to 0.5, then none.
        let ranking = ScoredMatches {
            matches: vec![
                scored(0, 0.9, true),
                scored(1, 0.8, false),
                scored(1, 0.7, true),
            ],
            objects: vec![(0, 2), (1, 2)],
        };
        let (precision, recall) = lowest(&ranking, |_| 1).expect("there are objects");
        // Recalls 0 to 0.25 are 26 levels, 0.26 to 0.5 are 25.
        let wanted = (26.0 + 25.0 * 2.0 / 3.0) / 101.0;
        assert!((precision - wanted).abs() < 1e-12, "{precision}, {wanted}");
        assert_eq!(recall, 0.5);
    }

    #[test]
    fn no_objects_give_none_and_no_predictions_give_zero() {
        let nothing = ScoredMatches {
            matches: vec![scored(0, 0.9, false)],
            objects: Vec::new(),
        };
        assert_eq!(lowest(&nothing, |_| 1), None);
        let missed = ScoredMatches {
            matches: Vec::new(),
            objects: vec![(0, 3)],
        };
        assert_eq!(lowest(&missed, |_| 1), Some((0.0, 0.0)));
        assert_eq!(lowest(&missed, |_| 0), None, "an image left out");
    }

    #[test]
    fn a_weight_counts_as_that_many_copies_of_an_image() {
        let once = [
            scored(0, 0.9, false),
            scored(1, 0.8, true),
            scored(0, 0.7, true),
            scored(1, 0.6, false),
            scored(2, 0.5, true),
        ];
        let weights = [3_u32, 0, 2];
        let ranking = ScoredMatches {
            matches: once.to_vec(),
            objects: vec![(0, 2), (1, 1), (2, 2)],
        };
        let copies = once
            .iter()
            .flat_map(|scored| vec![*scored; weights[scored.image] as usize]);
        let copied = ScoredMatches {
            matches: copies.collect(),
            objects: vec![(0, 6), (2, 4)],
        };
        assert_eq!(
            lowest(&ranking, |image| weights[image]),
            lowest(&copied, |_| 1)
        );
    }
}
