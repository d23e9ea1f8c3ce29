//! Which boxes of a frame a box overlaps at all: of all pairs, most are apart, and few of those are looked at.
//!
//! Boxes stand in the order of their left edges. Those that overlap another one lie between the first that reaches beyond its
//! left edge and the first that begins behind its right one.

use crate::types::{Detection, Xyxy};

/// Boxes of one frame by their left edges.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// The boxes with their indices in the frame.
    boxes: Vec<(Xyxy, usize)>,
    /// For each of them: the rightmost edge of it and all before it.
    reach: Vec<f32>,
}

impl Overlaps {
    /// Takes the boxes of a frame. Allocates only when there are more than ever before.
    pub(super) fn take(&mut self, detections: &[Detection]) {
        let boxes = detections.iter().map(|detection| detection.xyxy);
        // What is no number overlaps nothing, and has no place in an order.
        let sound = |(_, xyxy): &(usize, Xyxy)| xyxy.iter().all(|edge| !edge.is_nan());
        self.boxes.clear();
        self.boxes.extend(
            boxes
                .enumerate()
                .filter(sound)
                .map(|(index, xyxy)| (xyxy, index)),
        );
        self.boxes
            .sort_unstable_by(|(a, _), (b, _)| a[0].total_cmp(&b[0]));
        let mut reach = f32::NEG_INFINITY;
        self.reach.clear();
        self.reach
            .extend(self.boxes.iter().map(|([_, _, right, _], _)| {
                reach = reach.max(*right);
                reach
            }));
    }

    /// The indices of the boxes that overlap this one, in any order. What only touches does not overlap.
    pub(super) fn with(&self, [left, top, right, bottom]: Xyxy) -> impl Iterator<Item = usize> {
        let first = self.reach.partition_point(|reach| *reach <= left);
        self.boxes[first..]
            .iter()
            .take_while(move |([l, ..], _)| *l < right)
            .filter(move |([_, t, r, b], _)| (left < *r) & (top < *b) & (bottom > *t))
            .map(|(_, index)| *index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::intersection_over_union;

    fn detection(xyxy: Xyxy) -> Detection {
        Detection {
            class: 0,
            score: 0.5,
            xyxy,
        }
    }

    #[test]
    fn what_touches_does_not_overlap_and_what_is_no_box_overlaps_none() {
        let mut overlaps = Overlaps::default();
        overlaps.take(&[
            detection([10.0, 0.0, 20.0, 10.0]),
            detection([9.9, 0.0, 20.0, 10.0]),
            detection([f32::NAN, 0.0, 20.0, 10.0]),
            detection([-f32::NAN, 0.0, 20.0, 10.0]),
            detection([0.0, 10.0, 10.0, 20.0]),
        ]);
        let found = |xyxy| overlaps.with(xyxy).collect::<Vec<usize>>();
        assert_eq!(found([0.0, 0.0, 10.0, 10.0]), [1]);
        assert!(found([f32::NAN, 0.0, 10.0, 10.0]).is_empty());
        assert!(found([0.0, 0.0, f32::NAN, 10.0]).is_empty());
        overlaps.take(&[]);
        assert_eq!(overlaps.with([0.0, 0.0, 10.0, 10.0]).count(), 0);
    }

    prop_compose! {
        fn a_box()(left in 0.0_f32..50.0, top in 0.0_f32..50.0, width in 0.1_f32..30.0, height in 0.1_f32..30.0) -> Xyxy {
            [left, top, left + width, top + height]
        }
    }

    proptest! {
        #[test]
        fn all_that_overlap_are_found_once(boxes in prop::collection::vec(a_box(), 0..40), one in a_box()) {
            let mut overlaps = Overlaps::default();
            // Whatever came before must leave no trace.
            overlaps.take(&[detection([0.0, 0.0, 99.0, 99.0]); 50]);
            let detections: Vec<Detection> = boxes.iter().copied().map(detection).collect();
            overlaps.take(&detections);
            let mut found: Vec<usize> = overlaps.with(one).collect();
            found.sort_unstable();
            let wanted: Vec<usize> = (0..boxes.len()).filter(|&index| intersection_over_union(&one, &boxes[index]) > 0.0).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
