//! Frames that skip the network: they get their place in their source's order, and go on without the network's picture.
//!
//! One that comes while a frame for the network waits has to wait for that one's ticket; nobody waits for room.

use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::{Batcher, State};
use crate::interval::{IntervalController, SourceKind, Totals};
use jetwatch_record::BudgetedImage;
use jetwatch_types::{FrameMeta, SourceId};

/// A frame that skipped the network, with its picture at source size where one was asked for.
pub(crate) type SkippedFrame = (FrameMeta, Option<BudgetedImage>);

/// Hears, with its ticket, of each frame that skipped the network, in no particular order.
pub(crate) type SkippedHandler = Box<dyn Fn(u64, SkippedFrame) + Send + Sync>;

impl Batcher {
    /// Lets frames skip the network: `sources` are the sources in their order, and `on_skipped` hears of each such frame.
    #[must_use]
    pub(crate) fn with_intervals(
        mut self,
        sources: &[SourceKind],
        max_interval: u32,
        workers: usize,
        on_skipped: SkippedHandler,
    ) -> Self {
        self.state.get_mut().intervals = IntervalController::new(sources, max_interval, workers);
        self.on_skipped = Some(on_skipped);
        self
    }

    /// Whether the next frame of this source skips the network, before its pixels are made. One that does is handed to
    /// [`on_skipped`](Self::carry); one that does not is offered.
    pub(crate) fn should_skip(&self, source: SourceId) -> bool {
        let index = source.index();
        let mut state = self.lock();
        if self.on_skipped.is_none() || !state.queues[index].open {
            // What is closed says so when the frame is offered.
            return false;
        }
        let now = Instant::now();
        if state.intervals.is_due(now) {
            let sums = state.totals();
            state.intervals.sample(now, sums);
        }
        state.intervals.should_skip(index)
    }

    /// Takes a frame that skips the network. A lane that was closed meanwhile takes none.
    pub(crate) fn push_skipped(&self, meta: FrameMeta, full_image: Option<BudgetedImage>) {
        let index = meta.source.index();
        let mut state = self.lock();
        let lane = &mut state.queues[index];
        if !lane.open {
            return;
        }
        lane.skipped.push_back((lane.queued, (meta, full_image)));
        state.release_skipped(index);
        self.unlock_and_forward(state);
    }

    /// A worker was busy for this long.
    pub(crate) fn add_busy_time(&self, time: Duration) {
        self.lock().busy_time += time;
    }

    /// The interval of this source now, and how many of its frames have skipped the network.
    pub(crate) fn interval(&self, source: SourceId) -> (u32, u64) {
        let (state, index) = (self.lock(), source.index());
        if self.on_skipped.is_none() {
            return (0, 0);
        }
        let cadence = &state.intervals;
        (cadence.interval(index), cadence.skipped(index))
    }

    /// Gives up the lock and hands on the frames whose turn has come: whoever hears of them may make the caller wait.
    pub(super) fn unlock_and_forward(&self, mut state: MutexGuard<'_, State>) {
        let freed = std::mem::take(&mut state.released);
        drop(state);
        if let Some(carry) = &self.on_skipped {
            for (ticket, carried) in freed {
                carry(ticket, carried);
            }
        }
    }
}

impl State {
    /// Gives their tickets to the frames of a lane that skipped the network and before which no other waits any more.
    pub(super) fn release_skipped(&mut self, index: usize) {
        let lane = &mut self.queues[index];
        let gone = lane.queued - lane.queue.len() as u64;
        while self.frames_left > 0
            && let Some((before, _)) = lane.skipped.front()
            && *before <= gone
            && let Some((_, carried)) = lane.skipped.pop_front()
        {
            self.released.push((lane.taken, carried));
            lane.taken += 1;
            self.frames_left -= 1;
        }
        if self.frames_left == 0 {
            self.end();
        }
    }

    /// Sums over the live lanes: of those that left, too, so that no sum ever falls.
    fn totals(&self) -> Totals {
        let mut sums = Totals {
            offered: 0,
            others: 0,
            dropped: 0,
            waiting: 0,
            busy_time: self.busy_time,
        };
        for (index, lane) in self.queues.iter().enumerate() {
            if lane.live {
                match self.intervals.is_adaptive(index) {
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
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::batcher::QueuedFrame;
    use jetwatch_config::Interval;
    use jetwatch_source::Flow;
    use jetwatch_types::{Frame, Size};

    type Received = Arc<Mutex<Vec<(u64, u64)>>>;

    /// One source of which every third frame goes through the network; what is heard are tickets and numbers.
    fn batcher(live: bool, most_frames: Option<u64>) -> (Batcher, Received) {
        let received = Received::default();
        let receiver = Arc::clone(&received);
        let member = SourceKind {
            interval: Interval::Frames(2),
            is_live: live,
        };
        let carry: SkippedHandler =
            Box::new(move |ticket, (meta, _)| receiver.lock().push((ticket, meta.seq)));
        let lanes = Batcher::new(&[live], 2, most_frames).with_intervals(&[member], 5, 1, carry);
        (lanes, received)
    }

    /// The next frame of the source, as a source hands it on.
    fn frame(lanes: &Batcher, seq: u64) -> Flow {
        let frame = Frame::black(0, seq, Size::new(1, 1));
        if lanes.should_skip(frame.meta.source) {
            lanes.push_skipped(frame.meta, None);
            return Flow::Continue;
        }
        lanes.push(frame)
    }

    fn taken(lanes: &Batcher, size: usize) -> Vec<(u64, u64)> {
        let mut batch: Vec<QueuedFrame> = Vec::new();
        lanes.next_batch(size, Duration::ZERO, &mut batch);
        let pair = |item: &QueuedFrame| (item.order, item.frame.meta.seq);
        batch.iter().map(pair).collect()
    }

    fn take_received(heard: &Received) -> Vec<(u64, u64)> {
        std::mem::take(&mut *heard.lock())
    }

    #[test]
    fn skipped_frames_keep_their_order() {
        let (lanes, received) = batcher(false, None);
        (0..6).for_each(|seq| assert_eq!(frame(&lanes, seq), Flow::Continue));
        assert_eq!(take_received(&received), [], "frame 0 still waits");
        assert_eq!(taken(&lanes, 1), [(0, 0)]);
        assert_eq!(take_received(&received), [(1, 1), (2, 2)]);
        assert_eq!(taken(&lanes, 1), [(3, 3)]);
        assert_eq!(take_received(&received), [(4, 4), (5, 5)]);
        (6..12).for_each(|seq| assert_eq!(frame(&lanes, seq), Flow::Continue));
        assert_eq!(taken(&lanes, 2), [(6, 6), (9, 9)], "two of a batch");
        assert_eq!(
            take_received(&received),
            [(7, 7), (8, 8), (10, 10), (11, 11)]
        );
        assert_eq!(lanes.interval(SourceId(0)), (2, 8));
        lanes.close_all();
        assert_eq!(lanes.drained(SourceId(0)), Some(12));
    }

    #[test]
    fn replaced_frame_releases_following_skipped_frames() {
        let (lanes, received) = batcher(true, None);
        (0..4).for_each(|seq| assert_eq!(frame(&lanes, seq), Flow::Continue));
        assert_eq!(
            take_received(&received),
            [(0, 1), (1, 2)],
            "frame 0 was dropped"
        );
        assert_eq!(lanes.dropped(SourceId(0)), 1);
        assert_eq!(taken(&lanes, 1), [(2, 3)]);
    }

    #[test]
    fn skipped_frames_count_towards_frame_limit() {
        let (lanes, received) = batcher(false, Some(4));
        (0..6).for_each(|seq| {
            frame(&lanes, seq);
        });
        assert_eq!(taken(&lanes, 2), [(0, 0), (3, 3)]);
        assert_eq!(take_received(&received), [(1, 1), (2, 2)]);
        assert_eq!(frame(&lanes, 6), Flow::Stop);
        assert_eq!(lanes.drained(SourceId(0)), Some(4));
    }

    #[test]
    fn removed_source_keeps_totals() {
        let member = SourceKind {
            interval: Interval::Adaptive,
            is_live: true,
        };
        let lanes = Batcher::new(&[true], 1, None);
        let lanes = lanes.with_intervals(&[member], 5, 1, Box::new(|_, _| {}));
        (0..4).for_each(|seq| assert_eq!(frame(&lanes, seq), Flow::Continue));
        let counted = || {
            let sums = lanes.lock().totals();
            (sums.offered, sums.dropped, sums.waiting)
        };
        assert_eq!(counted(), (4, 3, 1));
        lanes.close(SourceId(0));
        lanes.remove(SourceId(0));
        assert_eq!(counted(), (4, 3, 0));
    }
}
