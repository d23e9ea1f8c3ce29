//! Which boxes of a frame a box overlaps at all, eight comparisons at a time: of all pairs, most are apart.

use crate::types::{Detection, Xyxy};

/// Boxes that are compared together.
const LANES: usize = 8;

/// Boxes of one frame, their edges side by side.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    left: [f32; LANES],
    top: [f32; LANES],
    right: [f32; LANES],
    bottom: [f32; LANES],
}

impl Block {
    /// Boxes that overlap none.
    const EMPTY: Self = Self {
        left: [f32::INFINITY; LANES],
        top: [f32::INFINITY; LANES],
        right: [f32::NEG_INFINITY; LANES],
        bottom: [f32::NEG_INFINITY; LANES],
    };

    /// One byte for each box, from the lowest: 1 where it overlaps `xyxy`, else 0. Without branches, so that compilers make
    /// vector instructions of it.
    fn overlapping(&self, xyxy: &Xyxy) -> u64 {
        let [left, top, right, bottom] = *xyxy;
        let mut open = [0; LANES];
        for (lane, open) in open.iter_mut().enumerate() {
            let across = (left < self.right[lane]) & (right > self.left[lane]);
            let down = (top < self.bottom[lane]) & (bottom > self.top[lane]);
            *open = u8::from(across & down);
        }
        u64::from_le_bytes(open)
    }
}

impl Overlaps {
    /// Takes the boxes of a frame. Allocates only when there are more than ever before.
    pub(super) fn take(&mut self, detections: &[Detection]) {
        self.blocks.clear();
        self.blocks.extend(detections.chunks(LANES).map(|chunk| {
            let mut block = Block::EMPTY;
            for (lane, detection) in chunk.iter().enumerate() {
                [
                    block.left[lane],
                    block.top[lane],
                    block.right[lane],
                    block.bottom[lane],
                ] = detection.xyxy;
            }
            block
        }));
    }

    /// The indices of the boxes that overlap this one, in their order. What only touches does not overlap.
    pub(super) fn with(&self, xyxy: Xyxy) -> impl Iterator<Item = usize> {
        self.blocks
            .iter()
            .enumerate()
            .flat_map(move |(place, block)| {
                let mut open = block.overlapping(&xyxy);
                std::iter::from_fn(move || {
                    let lane = open.trailing_zeros() / u8::BITS;
                    // The lowest 1 is taken away.
                    open &= open.checked_sub(1)?;
                    Some(place * LANES + lane as usize)
                })
            })
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
            detection([0.0, 10.0, 10.0, 20.0]),
        ]);
        let found: Vec<usize> = overlaps.with([0.0, 0.0, 10.0, 10.0]).collect();
        assert_eq!(found, [1]);
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
        fn all_that_overlap_are_found_in_order(boxes in prop::collection::vec(a_box(), 0..40), one in a_box()) {
            let mut overlaps = Overlaps::default();
            // Whatever came before must leave no trace.
            overlaps.take(&[detection([0.0, 0.0, 99.0, 99.0]); 50]);
            let detections: Vec<Detection> = boxes.iter().copied().map(detection).collect();
            overlaps.take(&detections);
            let found: Vec<usize> = overlaps.with(one).collect();
            let wanted: Vec<usize> = (0..boxes.len()).filter(|&index| intersection_over_union(&one, &boxes[index]) > 0.0).collect();
            prop_assert_eq!(found, wanted);
        }
    }
}
