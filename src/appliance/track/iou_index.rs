// SPDX-License-Identifier: Apache-2.0
//! Index of a frame's boxes for IoU queries. Most pairs of boxes are far apart; this finds the few that overlap.
//!
//! Boxes are sorted by their left edges. Boxes that overlap a given one are between the first whose running maximum of right
//! edges exceeds its left edge, and the first whose left edge is behind its right edge. All boxes in this range are compared
//! in struct-of-arrays form: a CPU computes four or more at a time, and a test per box whether it is worth it would take
//! longer.

use jetwatch_types::{Detection, Xyxy, area};

/// The boxes of one frame, sorted by left edge.
#[derive(Debug, Default)]
pub(super) struct IouIndex {
    /// Sorted entries: left edge in the upper 32 bits, index in the frame in the lower 32.
    order: Vec<u64>,
    columns: Columns,
    /// Per entry: the rightmost edge of it and of all before it.
    max_right: Vec<f32>,
    /// IoU of the last query with each box in its range.
    ious: Vec<f32>,
}

/// The boxes as one array per edge.
#[derive(Debug, Default)]
struct Columns {
    left: Vec<f32>,
    top: Vec<f32>,
    right: Vec<f32>,
    bottom: Vec<f32>,
    area: Vec<f32>,
}

impl IouIndex {
    /// Indexes the boxes of a frame. Allocates only when there are more than ever before.
    pub(super) fn build(&mut self, detections: &[Detection]) {
        // NaN overlaps nothing and has no order.
        let is_valid =
            |(_, detection): &(usize, &Detection)| detection.xyxy.iter().all(|edge| !edge.is_nan());
        // An index beyond 32 bits would need a frame with four billion boxes.
        let entry = |(index, detection): (usize, &Detection)| {
            u64::from(rank(detection.xyxy[0])) << 32 | index as u64
        };
        let entries = detections.iter().enumerate().filter(is_valid).map(entry);
        self.order.clear();
        self.order.extend(entries);
        self.order.sort_unstable();
        let boxes = || {
            self.order
                .iter()
                .map(|entry| &detections[index(*entry)].xyxy)
        };
        fill(&mut self.columns.left, boxes().map(|xyxy| xyxy[0]));
        fill(&mut self.columns.top, boxes().map(|xyxy| xyxy[1]));
        fill(&mut self.columns.right, boxes().map(|xyxy| xyxy[2]));
        fill(&mut self.columns.bottom, boxes().map(|xyxy| xyxy[3]));
        fill(&mut self.columns.area, boxes().map(area));
        let mut rightmost = f32::NEG_INFINITY;
        let running_max = self.columns.right.iter().map(|right| {
            rightmost = rightmost.max(*right);
            rightmost
        });
        fill(&mut self.max_right, running_max);
        self.ious.resize(self.order.len(), 0.0);
    }

    /// Index and intersection over union of each box whose IoU with `xyxy` is above 0 and at least `min_iou`, in any order.
    /// Boxes that only touch do not overlap.
    pub(super) fn query(
        &mut self,
        xyxy: &Xyxy,
        min_iou: f32,
    ) -> impl Iterator<Item = (usize, f32)> {
        let [left, _, right, _] = *xyxy;
        let first = if xyxy.iter().any(|edge| edge.is_nan()) {
            self.max_right.len()
        } else {
            self.max_right
                .partition_point(|rightmost| *rightmost <= left)
        };
        let behind = &self.columns.left[first..];
        let range = first..first + behind.partition_point(|left| *left < right);
        let ious = &mut self.ious[range.clone()];
        self.columns.compute_ious(range.clone(), xyxy, ious);
        (self.order[range].iter().zip(ious))
            .filter(move |(_, iou)| (**iou > 0.0) & (**iou >= min_iou))
            .map(|(entry, iou)| (index(*entry), *iou))
    }
}

impl Columns {
    /// [`intersection_over_union`](jetwatch_types::intersection_over_union) of a box with each of these, bit for bit.
    fn compute_ious(&self, range: std::ops::Range<usize>, xyxy: &Xyxy, ious: &mut [f32]) {
        let [left, top, right, bottom] = *xyxy;
        let own = area(xyxy);
        let others = (self.left[range.clone()].iter())
            .zip(&self.top[range.clone()])
            .zip(&self.right[range.clone()])
            .zip(&self.bottom[range.clone()])
            .zip(&self.area[range]);
        for (iou, ((((l, t), r), b), area)) in ious.iter_mut().zip(others) {
            let width = (right.min(*r) - left.max(*l)).max(0.0);
            let height = (bottom.min(*b) - top.max(*t)).max(0.0);
            let both = width * height;
            let either = own + area - both;
            *iou = if either > 0.0 { both / either } else { 0.0 };
        }
    }
}

/// Bits of a float that is not NaN, in the order of the floats.
fn rank(edge: f32) -> u32 {
    let bits = edge.to_bits();
    if bits >> 31 == 0 {
        bits | 1 << 31
    } else {
        !bits
    }
}

/// Index of an entry.
fn index(entry: u64) -> usize {
    (entry & u64::from(u32::MAX)) as usize
}

fn fill(column: &mut Vec<f32>, with: impl Iterator<Item = f32>) {
    column.clear();
    column.extend(with);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use jetwatch_types::intersection_over_union;

    fn detection(xyxy: Xyxy) -> Detection {
        Detection {
            class: 0,
            score: 0.5,
            xyxy,
        }
    }

    #[test]
    fn touching_boxes_and_invalid_boxes_do_not_overlap() {
        let mut overlaps = IouIndex::default();
        overlaps.build(&[
            detection([10.0, 0.0, 20.0, 10.0]),
            detection([9.9, 0.0, 20.0, 10.0]),
            detection([f32::NAN, 0.0, 20.0, 10.0]),
            detection([-f32::NAN, 0.0, 20.0, 10.0]),
            detection([0.0, 10.0, 10.0, 20.0]),
        ]);
        let mut found = |xyxy: Xyxy| -> Vec<usize> {
            let found = overlaps.query(&xyxy, 0.0);
            found.map(|(index, _)| index).collect()
        };
        assert_eq!(found([0.0, 0.0, 10.0, 10.0]), [1]);
        assert!(found([f32::NAN, 0.0, 10.0, 10.0]).is_empty());
        assert!(found([0.0, 0.0, f32::NAN, 10.0]).is_empty());
        overlaps.build(&[]);
        assert_eq!(overlaps.query(&[0.0, 0.0, 10.0, 10.0], 0.0).count(), 0);
    }

    prop_compose! {
        fn a_box()(left in -20.0_f32..50.0, top in -20.0_f32..50.0, width in 0.1_f32..30.0, height in 0.1_f32..30.0) -> Xyxy {
            [left, top, left + width, top + height]
        }
    }

    proptest! {
        #[test]
        fn iou_index_returns_each_overlap_once(boxes in prop::collection::vec(a_box(), 0..40), one in a_box(), least in 0.0_f32..0.5) {
            let mut overlaps = IouIndex::default();
            // Earlier calls must not influence the result.
            overlaps.build(&[detection([0.0, 0.0, 99.0, 99.0]); 50]);
            let detections: Vec<Detection> = boxes.iter().copied().map(detection).collect();
            overlaps.build(&detections);
            let mut found: Vec<(usize, f32)> = overlaps.query(&one, least).collect();
            found.sort_unstable_by_key(|(index, _)| *index);
            let all = boxes.iter().map(|other| intersection_over_union(&one, other)).enumerate();
            let expected: Vec<(usize, f32)> = all.filter(|(_, iou)| *iou > 0.0 && *iou >= least).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
