//! Where in its order a source went away: the frames before that place belong to the time before, however late the workers are
//! through with them.

use super::{Lane, Lanes};
use jetwatch_types::SourceId;

impl Lanes {
    /// The source has gone away: what comes from now on belongs to another time.
    pub(crate) fn part(&self, source: SourceId) {
        let mut state = self.lock();
        let lane = &mut state.lanes[source.index()];
        let place = lane.taken + (lane.queue.len() + lane.carried.len()) as u64;
        lane.partings.push_back(place);
    }

    /// Whether all frames from before the source went away are among the first `given` of its order. Each time that it went is asked
    /// for until the answer is yes, and then no more.
    pub(crate) fn has_parted(&self, source: SourceId, given: u64) -> bool {
        let mut state = self.lock();
        // What still waits when no more is handed out never comes.
        let most = match state.allowance {
            0 => state.lanes[source.index()].taken,
            _ => u64::MAX,
        };
        let partings = &mut state.lanes[source.index()].partings;
        match partings.front() {
            Some(&place) if place.min(most) > given => false,
            _ => {
                partings.pop_front();
                true
            }
        }
    }
}

impl Lane {
    /// The oldest frame that waits is replaced: those behind it move up by one place.
    pub(super) fn drop_oldest(&mut self) {
        self.queue.pop_front();
        self.dropped += 1;
        for place in &mut self.partings {
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

    fn offer(lanes: &Lanes, seq: u64) {
        lanes.offer(Frame::black(0, seq, Size::new(1, 1)));
    }

    /// The numbers of the next frame: its own, and its place.
    fn take(lanes: &Lanes) -> (u64, u64) {
        let mut batch = Vec::new();
        lanes.next_batch(1, Duration::ZERO, &mut batch);
        (batch[0].frame.meta.seq, batch[0].ticket)
    }

    #[test]
    fn frames_that_wait_when_the_source_goes_are_from_before() {
        let lanes = Lanes::new(&[false], 1, None);
        (0..2).for_each(|seq| offer(&lanes, seq));
        assert_eq!(take(&lanes), (0, 0));
        lanes.part(SOURCE);
        offer(&lanes, 2);
        lanes.part(SOURCE);
        for given in [0, 1] {
            assert!(!lanes.has_parted(SOURCE, given));
        }
        assert!(lanes.has_parted(SOURCE, 2), "the first time");
        assert!(!lanes.has_parted(SOURCE, 2), "the second one");
        assert!(lanes.has_parted(SOURCE, 3));
        assert!(lanes.has_parted(SOURCE, 0), "it is here");
    }

    #[test]
    fn a_frame_that_is_replaced_is_not_waited_for() {
        let lanes = Lanes::new(&[true], 1, None);
        offer(&lanes, 0);
        assert_eq!(take(&lanes), (0, 0));
        offer(&lanes, 1);
        lanes.part(SOURCE);
        offer(&lanes, 2);
        assert!(!lanes.has_parted(SOURCE, 0), "frame 0 is under way");
        assert!(lanes.has_parted(SOURCE, 1));
        assert_eq!(take(&lanes), (2, 1), "of the time after");
    }

    #[test]
    fn what_is_never_handed_out_is_not_waited_for() {
        let lanes = Lanes::new(&[false], 1, Some(1));
        (0..2).for_each(|seq| offer(&lanes, seq));
        lanes.part(SOURCE);
        assert_eq!(take(&lanes), (0, 0));
        assert!(!lanes.has_parted(SOURCE, 0));
        assert!(lanes.has_parted(SOURCE, 1));
    }
}
