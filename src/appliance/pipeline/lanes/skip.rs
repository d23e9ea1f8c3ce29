//! Frames that skip the network: they get their place in their source's order, and go on without the network's picture.
//!
//! One that comes while a frame for the network waits has to wait for that one's ticket; nobody waits for room.

use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Lanes, State};
use crate::cadence::{Cadence, Member, Sums};
use jetwatch_record::KeptView;
use jetwatch_types::{FrameMeta, SourceId};

/// A frame that skipped the network, with its picture at source size where one was asked for.
pub(crate) type Carried = (FrameMeta, Option<KeptView>);

/// Hears, with its ticket, of each frame that skipped the network, in no particular order.
pub(crate) type Carry = Box<dyn Fn(u64, Carried) + Send + Sync>;

impl Lanes {
    /// Lets frames skip the network: `members` are the sources in their order, and `carry` hears of each such frame.
    #[must_use]
    pub(crate) fn with_intervals(
        mut self,
        members: &[Member],
        max_interval: u32,
        workers: usize,
        carry: Carry,
    ) -> Self {
        self.state
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .cadence = Cadence::new(members, max_interval, workers);
        self.carry = Some(carry);
        self
    }

    /// Whether the next frame of this source skips the network, before its pixels are made. One that does is handed to
    /// [`carry`](Self::carry); one that does not is offered.
    pub(crate) fn skips(&self, source: SourceId) -> bool {
        let index = source.index();
        let mut state = self.lock();
        if self.carry.is_none() || !state.lanes[index].open {
            // What is closed says so when the frame is offered.
            return false;
        }
        let now = Instant::now();
        if state.cadence.is_due(now) {
            let sums = state.sums();
            state.cadence.look(now, sums);
        }
        state.cadence.carries(index)
    }

    /// Takes a frame that skips the network. A lane that was closed meanwhile takes none.
    pub(crate) fn carry(&self, meta: FrameMeta, view: Option<KeptView>) {
        let index = meta.source.index();
        let mut state = self.lock();
        let lane = &mut state.lanes[index];
        if !lane.open {
            return;
        }
        lane.carried.push_back((lane.queued, (meta, view)));
        state.release(index);
        self.unlock(state);
    }

    /// A worker was busy for this long.
    pub(crate) fn worked(&self, time: Duration) {
        self.lock().worked += time;
    }

    /// The interval of this source now, and how many of its frames have skipped the network.
    pub(crate) fn interval(&self, source: SourceId) -> (u32, u64) {
        let (state, index) = (self.lock(), source.index());
        if self.carry.is_none() {
            return (0, 0);
        }
        let cadence = &state.cadence;
        (cadence.interval(index), cadence.carried(index))
    }

    /// Gives up the lock and hands on the frames whose turn has come: whoever hears of them may make the caller wait.
    pub(super) fn unlock(&self, mut state: MutexGuard<'_, State>) {
        let freed = std::mem::take(&mut state.freed);
        drop(state);
        if let Some(carry) = &self.carry {
            for (ticket, carried) in freed {
                carry(ticket, carried);
            }
        }
    }
}

impl State {
    /// Gives their tickets to the frames of a lane that skipped the network and before which no other waits any more.
    pub(super) fn release(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let gone = lane.queued - lane.queue.len() as u64;
        while self.allowance > 0
            && let Some((before, _)) = lane.carried.front()
            && *before <= gone
            && let Some((_, carried)) = lane.carried.pop_front()
        {
            self.freed.push((lane.taken, carried));
            lane.taken += 1;
            self.allowance -= 1;
        }
        if self.allowance == 0 {
            self.end();
        }
    }

    /// Sums over the live lanes: of those that left, too, so that no sum ever falls.
    fn sums(&self) -> Sums {
        let mut sums = Sums {
            offered: 0,
            others: 0,
            dropped: 0,
            waiting: 0,
            worked: self.worked,
        };
        for (index, lane) in self.lanes.iter().enumerate() {
            if lane.live {
                match self.cadence.is_adaptive(index) {
                    true => sums.offered += lane.queued,
                    false => sums.others += lane.queued,
                }
                sums.dropped += lane.dropped;
                sums.waiting += lane.queue.len() as u64;
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::lanes::Ticketed;
    use jetwatch_config::Interval;
    use jetwatch_source::Flow;
    use jetwatch_types::{Frame, Size};

    type Heard = Arc<Mutex<Vec<(u64, u64)>>>;

    /// One source of which every third frame goes through the network; what is heard are tickets and numbers.
    fn lanes(live: bool, most_frames: Option<u64>) -> (Lanes, Heard) {
        let heard = Heard::default();
        let hearing = Arc::clone(&heard);
        let member = Member {
            interval: Interval::Frames(2),
            is_live: live,
        };
        let carry: Carry = Box::new(move |ticket, (meta, _)| {
            hearing.lock().expect("whole").push((ticket, meta.seq))
        });
        let lanes = Lanes::new(&[live], 2, most_frames).with_intervals(&[member], 5, 1, carry);
        (lanes, heard)
    }

    /// The next frame of the source, as a source hands it on.
    fn frame(lanes: &Lanes, seq: u64) -> Flow {
        let frame = Frame::black(0, seq, Size::new(1, 1));
        if lanes.skips(frame.meta.source) {
            lanes.carry(frame.meta, None);
            return Flow::Continue;
        }
        lanes.offer(frame)
    }

    fn taken(lanes: &Lanes, size: usize) -> Vec<(u64, u64)> {
        let mut batch: Vec<Ticketed> = Vec::new();
        lanes.next_batch(size, Duration::ZERO, &mut batch);
        let pair = |item: &Ticketed| (item.ticket, item.frame.meta.seq);
        batch.iter().map(pair).collect()
    }

    fn heard(heard: &Heard) -> Vec<(u64, u64)> {
        std::mem::take(&mut *heard.lock().expect("whole"))
    }

    #[test]
    fn frames_that_skip_the_network_keep_their_place() {
        let (lanes, hear) = lanes(false, None);
        (0..6).for_each(|seq| assert_eq!(frame(&lanes, seq), Flow::Continue));
        assert_eq!(heard(&hear), [], "frame 0 still waits");
        assert_eq!(taken(&lanes, 1), [(0, 0)]);
        assert_eq!(heard(&hear), [(1, 1), (2, 2)]);
        assert_eq!(taken(&lanes, 1), [(3, 3)]);
        assert_eq!(heard(&hear), [(4, 4), (5, 5)]);
        (6..12).for_each(|seq| assert_eq!(frame(&lanes, seq), Flow::Continue));
        assert_eq!(taken(&lanes, 2), [(6, 6), (9, 9)], "two of a batch");
        assert_eq!(heard(&hear), [(7, 7), (8, 8), (10, 10), (11, 11)]);
        assert_eq!(lanes.interval(SourceId(0)), (2, 8));
        lanes.close_all();
        assert_eq!(lanes.drained(SourceId(0)), Some(12));
    }

    #[test]
    fn a_frame_that_is_replaced_frees_those_behind_it() {
        let (lanes, hear) = lanes(true, None);
        (0..4).for_each(|seq| assert_eq!(frame(&lanes, seq), Flow::Continue));
        assert_eq!(heard(&hear), [(0, 1), (1, 2)], "frame 0 was dropped");
        assert_eq!(lanes.dropped(SourceId(0)), 1);
        assert_eq!(taken(&lanes, 1), [(2, 3)]);
    }

    #[test]
    fn they_count_among_the_frames_that_are_handed_out() {
        let (lanes, hear) = lanes(false, Some(4));
        (0..6).for_each(|seq| {
            frame(&lanes, seq);
        });
        assert_eq!(taken(&lanes, 2), [(0, 0), (3, 3)]);
        assert_eq!(heard(&hear), [(1, 1), (2, 2)]);
        assert_eq!(frame(&lanes, 6), Flow::Stop);
        assert_eq!(lanes.drained(SourceId(0)), Some(4));
    }

    #[test]
    fn a_source_that_leaves_takes_nothing_out_of_the_sums() {
        let member = Member {
            interval: Interval::Adaptive,
            is_live: true,
        };
        let lanes = Lanes::new(&[true], 1, None);
        let lanes = lanes.with_intervals(&[member], 5, 1, Box::new(|_, _| {}));
        (0..4).for_each(|seq| assert_eq!(frame(&lanes, seq), Flow::Continue));
        let counted = || {
            let sums = lanes.lock().sums();
            (sums.offered, sums.dropped, sums.waiting)
        };
        assert_eq!(counted(), (4, 3, 1));
        lanes.close(SourceId(0));
        lanes.retire(SourceId(0));
        assert_eq!(counted(), (4, 3, 0));
    }
}
