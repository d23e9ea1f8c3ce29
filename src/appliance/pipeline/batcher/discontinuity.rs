//! Where in its order a source went away: the frames before that place belong to the time before, however late the workers are
//! through with them.

use super::{Batcher, SourceQueue};
use jetwatch_types::SourceId;

impl Batcher {
    /// The source has gone away: what comes from now on belongs to another time.
    pub(crate) fn mark_discontinuity(&self, source: SourceId) {
        let mut state = self.lock();
        let lane = &mut state.queues[source.index()];
        let place = lane.taken + (lane.queue.len() + lane.skipped.len()) as u64;
        lane.discontinuities.push_back(place);
    }

    /// Whether all frames from before the source went away are among the first `emitted` of its order. Each time that it went is asked
    /// for until the answer is yes, and then no more.
    pub(crate) fn passed_discontinuity(&self, source: SourceId, completed: u64) -> bool {
        let mut state = self.lock();
        // What still waits when no more is handed out never comes.
        let limit = match state.frames_left {
            0 => state.queues[source.index()].taken,
            _ => u64::MAX,
        };
        let partings = &mut state.queues[source.index()].discontinuities;
        match partings.front() {
            Some(&place) if place.min(limit) > completed => false,
            _ => {
                partings.pop_front();
                true
            }
        }
    }
}

impl SourceQueue {
    /// The oldest frame that waits is replaced: those behind it move up by one place.
    pub(super) fn drop_oldest(&mut self) {
        self.queue.pop_front();
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

    fn push(lanes: &Batcher, seq: u64) {
        lanes.push(Frame::black(0, seq, Size::new(1, 1)));
    }

    /// The numbers of the next frame: its own, and its place.
    fn pop(lanes: &Batcher) -> (u64, u64) {
        let mut batch = Vec::new();
        lanes.next_batch(1, Duration::ZERO, &mut batch);
        (batch[0].frame.meta.seq, batch[0].order)
    }

    #[test]
    fn queued_frames_precede_discontinuity() {
        let lanes = Batcher::new(&[false], 1, None);
        (0..2).for_each(|seq| push(&lanes, seq));
        assert_eq!(pop(&lanes), (0, 0));
        lanes.mark_discontinuity(SOURCE);
        push(&lanes, 2);
        lanes.mark_discontinuity(SOURCE);
        for given in [0, 1] {
            assert!(!lanes.passed_discontinuity(SOURCE, given));
        }
        assert!(lanes.passed_discontinuity(SOURCE, 2), "the first time");
        assert!(!lanes.passed_discontinuity(SOURCE, 2), "the second one");
        assert!(lanes.passed_discontinuity(SOURCE, 3));
        assert!(lanes.passed_discontinuity(SOURCE, 0), "it is here");
    }

    #[test]
    fn replaced_frame_does_not_delay_discontinuity() {
        let lanes = Batcher::new(&[true], 1, None);
        push(&lanes, 0);
        assert_eq!(pop(&lanes), (0, 0));
        push(&lanes, 1);
        lanes.mark_discontinuity(SOURCE);
        push(&lanes, 2);
        assert!(
            !lanes.passed_discontinuity(SOURCE, 0),
            "frame 0 is under way"
        );
        assert!(lanes.passed_discontinuity(SOURCE, 1));
        assert_eq!(pop(&lanes), (2, 1), "of the time after");
    }

    #[test]
    fn discarded_frame_does_not_delay_discontinuity() {
        let lanes = Batcher::new(&[false], 1, Some(1));
        (0..2).for_each(|seq| push(&lanes, seq));
        lanes.mark_discontinuity(SOURCE);
        assert_eq!(pop(&lanes), (0, 0));
        assert!(!lanes.passed_discontinuity(SOURCE, 0));
        assert!(lanes.passed_discontinuity(SOURCE, 1));
    }
}
