// SPDX-License-Identifier: Apache-2.0
//! Places in the order of a source at which it went offline: the frames before such a place belong to the time before, however
//! late the workers complete them.

use super::{Batcher, SourceQueue};
use jetwatch_types::SourceId;

impl Batcher {
    /// The source went offline: later frames do not continue the earlier ones.
    pub(crate) fn mark_discontinuity(&self, source: SourceId) {
        let mut state = self.state.lock();
        let queue = &mut state.queues[source.index()];
        let place = queue.taken + (queue.frames.len() + queue.skipped.len()) as u64;
        queue.discontinuities.push_back(place);
    }

    /// Whether all frames from before the oldest discontinuity are among the first `completed` of the order. Each discontinuity
    /// is asked for until the answer is true, which removes it.
    pub(crate) fn passed_discontinuity(&self, source: SourceId, completed: u64) -> bool {
        let mut state = self.state.lock();
        // Frames that still wait after the last one was taken never leave.
        let limit = match state.frames_left {
            0 => state.queues[source.index()].taken,
            _ => u64::MAX,
        };
        let discontinuities = &mut state.queues[source.index()].discontinuities;
        match discontinuities.front() {
            Some(&place) if place.min(limit) > completed => false,
            _ => {
                discontinuities.pop_front();
                true
            }
        }
    }
}

impl SourceQueue {
    /// Drops the oldest queued frame: those behind it move up by one place.
    pub(super) fn drop_oldest(&mut self) {
        self.frames.pop_front();
        self.dropped += 1;
        for place in &mut self.discontinuities {
            if *place > self.taken {
                *place -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use jetwatch_types::{Frame, Size};

    const SOURCE: SourceId = SourceId(0);

    fn push(batcher: &Batcher, seq: u64) {
        batcher.push(Frame::black(0, seq, Size::new(1, 1)));
    }

    /// The numbers of the next frame: its own, and its place.
    fn pop(batcher: &Batcher) -> (u64, u64) {
        let mut batch = Vec::new();
        batcher.next_batch(1, Duration::ZERO, &mut batch);
        (batch[0].frame.meta.seq, batch[0].order)
    }

    #[test]
    fn queued_frames_precede_discontinuity() {
        let batcher = Batcher::new(&[false], 1, None);
        (0..2).for_each(|seq| push(&batcher, seq));
        assert_eq!(pop(&batcher), (0, 0));
        batcher.mark_discontinuity(SOURCE);
        push(&batcher, 2);
        batcher.mark_discontinuity(SOURCE);
        for given in [0, 1] {
            assert!(!batcher.passed_discontinuity(SOURCE, given));
        }
        assert!(batcher.passed_discontinuity(SOURCE, 2), "the first time");
        assert!(!batcher.passed_discontinuity(SOURCE, 2), "the second one");
        assert!(batcher.passed_discontinuity(SOURCE, 3));
        assert!(batcher.passed_discontinuity(SOURCE, 0), "it is here");
    }

    #[test]
    fn replaced_frame_does_not_delay_discontinuity() {
        let batcher = Batcher::new(&[true], 1, None);
        push(&batcher, 0);
        assert_eq!(pop(&batcher), (0, 0));
        push(&batcher, 1);
        batcher.mark_discontinuity(SOURCE);
        push(&batcher, 2);
        assert!(
            !batcher.passed_discontinuity(SOURCE, 0),
            "frame 0 is under way"
        );
        assert!(batcher.passed_discontinuity(SOURCE, 1));
        assert_eq!(pop(&batcher), (2, 1), "of the time after");
    }

    #[test]
    fn discarded_frame_does_not_delay_discontinuity() {
        let batcher = Batcher::new(&[false], 1, Some(1));
        (0..2).for_each(|seq| push(&batcher, seq));
        batcher.mark_discontinuity(SOURCE);
        assert_eq!(pop(&batcher), (0, 0));
        assert!(!batcher.passed_discontinuity(SOURCE, 0));
        assert!(batcher.passed_discontinuity(SOURCE, 1));
    }
}
