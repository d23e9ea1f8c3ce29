// SPDX-License-Identifier: Apache-2.0
//! Non-maximum suppression: keeps the best of overlapping boxes of one class. Pure.
//!
//! Greedy and deterministic: candidates are processed by descending score, equal scores by index in the output, so that the
//! same output gives the same boxes on every machine.

use super::Candidate;
use jetwatch_types::area;

/// Reduces `candidates` to those that are kept, best first, at most `max_detections`.
///
/// A candidate is dropped when its IoU with a better one of its class is above `iou`, or when its box has no area.
/// Nothing is allocated.
pub fn non_max_suppression(candidates: &mut Vec<Candidate>, iou: f32, max_detections: usize) {
    sort(candidates);
    let mut kept = 0;
    for index in 0..candidates.len() {
        if kept == max_detections {
            break;
        }
        let candidate = candidates[index];
        let candidate_area = area(&candidate.xyxy);
        if candidate_area > 0.0
            && !candidates[..kept]
                .iter()
                .any(|better| overlaps(better, &candidate, candidate_area, iou))
        {
            // The elements up to `kept` were already processed, so nothing is lost.
            candidates[kept] = candidate;
            kept += 1;
        }
    }
    candidates.truncate(kept);
}

/// Sorts `candidates` best first and keeps at most `max_detections`, for networks that give one box per object. As
/// [`non_max_suppression`], but without suppression.
pub fn rank(candidates: &mut Vec<Candidate>, max_detections: usize) {
    candidates.retain(|candidate| area(&candidate.xyxy) > 0.0);
    sort(candidates);
    candidates.truncate(max_detections);
}

fn sort(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.cell.cmp(&b.cell)));
}

/// Whether the IoU of `candidate` and `better` is above `iou`. The division is multiplied out.
fn overlaps(better: &Candidate, candidate: &Candidate, candidate_area: f32, iou: f32) -> bool {
    if better.class != candidate.class {
        return false;
    }
    let (a, b) = (&better.xyxy, &candidate.xyxy);
    let width = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let both = width * height;
    both > iou * (area(a) + candidate_area - both)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::intersection_over_union;

    fn candidate(cell: u32, class: u16, score: f32, xyxy: [f32; 4]) -> Candidate {
        Candidate {
            cell,
            class,
            score,
            xyxy,
        }
    }

    fn cells(mut candidates: Vec<Candidate>, iou: f32, max_detections: usize) -> Vec<u32> {
        non_max_suppression(&mut candidates, iou, max_detections);
        candidates.iter().map(|candidate| candidate.cell).collect()
    }

    #[test]
    fn nms_keeps_better_of_two_overlapping_boxes() {
        let a = candidate(0, 1, 0.6, [0.0, 0.0, 10.0, 10.0]);
        let better = candidate(1, 1, 0.9, [1.0, 0.0, 11.0, 10.0]);
        let other_class = candidate(2, 2, 0.5, [0.0, 0.0, 10.0, 10.0]);
        let elsewhere = candidate(3, 1, 0.3, [9.0, 0.0, 19.0, 10.0]);
        let found = cells(vec![a, better, other_class, elsewhere], 0.45, 300);
        assert_eq!(found, [1, 2, 3]);
    }

    #[test]
    fn nms_keeps_overlap_equal_to_limit() {
        let a = candidate(0, 0, 0.9, [0.0, 0.0, 2.0, 2.0]);
        let half = candidate(1, 0, 0.8, [0.0, 0.0, 2.0, 1.0]);
        assert_eq!(intersection_over_union(&a.xyxy, &half.xyxy), 0.5);
        assert_eq!(cells(vec![a, half], 0.5, 300), [0, 1]);
        assert_eq!(cells(vec![a, half], 0.49, 300), [0]);
    }

    #[test]
    fn suppressed_box_does_not_suppress_others() {
        let chain = [0.0, 4.0, 8.0].map(|x| [x, 0.0, x + 10.0, 10.0]);
        let boxes = (0..3)
            .map(|i| candidate(i, 0, 0.9 - i as f32 * 0.1, chain[i as usize]))
            .collect();
        assert_eq!(
            cells(boxes, 0.4, 300),
            [0, 2],
            "the third lies over the second only, which went"
        );
    }

    #[test]
    fn equal_scores_keep_the_output_order() {
        let same = [0.0, 0.0, 4.0, 4.0];
        let boxes = vec![
            candidate(9, 0, 0.5, same),
            candidate(3, 0, 0.5, same),
            candidate(5, 1, 0.5, same),
        ];
        assert_eq!(cells(boxes, 0.5, 300), [3, 5]);
    }

    #[test]
    fn boxes_that_need_no_suppression_are_only_ranked() {
        let same = [0.0, 0.0, 4.0, 4.0];
        let mut boxes = vec![
            candidate(0, 0, 0.4, same),
            candidate(1, 0, 0.9, [5.0, 5.0, 5.0, 9.0]),
            candidate(2, 0, 0.6, same),
            candidate(3, 0, 0.6, same),
            candidate(4, 0, 0.5, same),
        ];
        rank(&mut boxes, 3);
        let cells: Vec<u32> = boxes.iter().map(|candidate| candidate.cell).collect();
        assert_eq!(cells, [2, 3, 4]);
    }

    #[test]
    fn empty_boxes_are_dropped_and_count_is_limited() {
        let boxes = vec![
            candidate(0, 0, 0.9, [5.0, 5.0, 5.0, 9.0]),
            candidate(1, 0, 0.8, [9.0, 0.0, 1.0, 9.0]),
            candidate(2, 0, 0.7, [0.0, 0.0, 1.0, 1.0]),
            candidate(3, 0, 0.6, [2.0, 0.0, 3.0, 1.0]),
            candidate(4, 0, 0.5, [4.0, 0.0, 5.0, 1.0]),
        ];
        assert_eq!(cells(boxes.clone(), 0.5, 2), [2, 3]);
        assert_eq!(cells(boxes, 0.5, 0), Vec::<u32>::new());
    }
}
