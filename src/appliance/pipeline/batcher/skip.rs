// SPDX-License-Identifier: Apache-2.0
//! Frames that skip the network: they get their place in the order of their source, and continue without detections.
//!
//! One that follows a queued frame waits until that one is taken; no caller blocks.

use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::interval::{IntervalController, Totals};
use super::{Batcher, State};
use jetwatch_types::{BudgetedImage, FrameMeta, SourceId};

/// A frame that skipped the network, with its full image where one was requested.
pub(crate) type SkippedFrame = (FrameMeta, Option<BudgetedImage>);

/// Receives each frame that skipped the network with its place in the order of its source; frames may arrive out of order.
pub(crate) type SkippedHandler = Box<dyn Fn(u64, SkippedFrame) + Send + Sync>;

impl Batcher {
    /// Lets frames of sources that are added later skip the network; `on_skipped` receives each of them.
    #[must_use]
    pub(crate) fn with_intervals(
        mut self,
        max_interval: u32,
        workers: usize,
        on_skipped: SkippedHandler,
    ) -> Self {
        self.state.get_mut().intervals = IntervalController::new(&[], max_interval, workers);
        self.on_skipped = Some(on_skipped);
        self
    }

    /// Whether the next frame of this source skips the network; asked before the frame is scaled. One that does is passed to
    /// [`push_skipped`](Self::push_skipped), any other to [`push`](Self::push).
    pub(crate) fn should_skip(&self, source: SourceId) -> bool {
        let index = source.index();
        let mut state = self.state.lock();
        if self.on_skipped.is_none() || !state.queues[index].open {
            // `push` then returns that the queue is closed.
            return false;
        }
        if !state.queues[index].detecting {
            return true;
        }
        let now = Instant::now();
        if state.intervals.is_due(now) {
            let totals = state.totals();
            state.intervals.sample(now, totals);
        }
        state.intervals.should_skip(index)
    }

    /// Takes a frame that skips the network; ignored where the queue was closed in the meantime.
    pub(crate) fn push_skipped(&self, meta: FrameMeta, full_image: Option<BudgetedImage>) {
        let index = meta.source.index();
        let mut state = self.state.lock();
        let queue = &mut state.queues[index];
        if !queue.open {
            return;
        }
        queue.skipped.push_back((queue.queued, (meta, full_image)));
        state.release_skipped(index);
        self.unlock_and_forward(state);
    }

    /// Adds time in which a worker was busy.
    pub(crate) fn add_busy_time(&self, time: Duration) {
        self.state.lock().busy_time += time;
    }

    /// The interval of this source now, and how many of its frames have skipped the network.
    pub(crate) fn interval(&self, source: SourceId) -> (u32, u64) {
        let (state, index) = (self.state.lock(), source.index());
        if self.on_skipped.is_none() {
            return (0, 0);
        }
        let intervals = &state.intervals;
        (intervals.interval(index), intervals.skipped(index))
    }

    /// Releases the lock, then forwards the frames whose turn has come: their receiver may block.
    pub(super) fn unlock_and_forward(&self, mut state: MutexGuard<'_, State>) {
        let released = std::mem::take(&mut state.released);
        drop(state);
        if let Some(on_skipped) = &self.on_skipped {
            for (order, frame) in released {
                on_skipped(order, frame);
            }
        }
    }
}

impl State {
    /// Releases the skipped frames of a queue that no queued frame precedes any more, each with its place in the order.
    pub(super) fn release_skipped(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        let gone = queue.queued - queue.frames.len() as u64;
        while self.frames_left > 0
            && let Some((before, _)) = queue.skipped.front()
            && *before <= gone
            && let Some((_, frame)) = queue.skipped.pop_front()
        {
            self.released.push((queue.taken, frame));
            queue.taken += 1;
            self.frames_left -= 1;
        }
        if self.frames_left == 0 {
            self.end();
        }
    }

    /// Sums over the queues of live sources, removed ones included, so that no sum ever falls.
    fn totals(&self) -> Totals {
        let mut totals = Totals {
            offered: 0,
            others: 0,
            dropped: 0,
            waiting: 0,
            busy_time: self.busy_time,
        };
        for (index, queue) in self.queues.iter().enumerate() {
            if queue.live {
                match self.intervals.is_adaptive(index) {
                    true => totals.offered += queue.queued,
                    false => totals.others += queue.queued,
                }
                totals.dropped += queue.dropped;
                totals.waiting += queue.frames.len() as u64;
            }
        }
        totals
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

    /// One source with inference on every third frame, and the order and number of each skipped frame.
    fn batcher(live: bool, max_frames: Option<u64>) -> (Batcher, Received) {
        let received = Received::default();
        let receiver = Arc::clone(&received);
        let on_skipped: SkippedHandler =
            Box::new(move |order, (meta, _)| receiver.lock().push((order, meta.seq)));
        let batcher = Batcher::new(&[], 2, max_frames).with_intervals(5, 1, on_skipped);
        batcher.add(live, Interval::Frames(2)).expect("an id");
        (batcher, received)
    }

    /// The next frame, as a source delivers it.
    fn frame(batcher: &Batcher, seq: u64) -> Flow {
        let frame = Frame::black(0, seq, Size::new(1, 1));
        if batcher.should_skip(frame.meta.source) {
            batcher.push_skipped(frame.meta, None);
            return Flow::Continue;
        }
        batcher.push(frame)
    }

    fn taken(batcher: &Batcher, size: usize) -> Vec<(u64, u64)> {
        let mut batch: Vec<QueuedFrame> = Vec::new();
        batcher.next_batch(size, Duration::ZERO, &mut batch);
        let pair = |item: &QueuedFrame| (item.order, item.frame.meta.seq);
        batch.iter().map(pair).collect()
    }

    fn take_received(received: &Received) -> Vec<(u64, u64)> {
        std::mem::take(&mut *received.lock())
    }

    #[test]
    fn skipped_frames_keep_their_order() {
        let (batcher, received) = batcher(false, None);
        (0..6).for_each(|seq| assert_eq!(frame(&batcher, seq), Flow::Continue));
        assert_eq!(take_received(&received), [], "frame 0 still waits");
        assert_eq!(taken(&batcher, 1), [(0, 0)]);
        assert_eq!(take_received(&received), [(1, 1), (2, 2)]);
        assert_eq!(taken(&batcher, 1), [(3, 3)]);
        assert_eq!(take_received(&received), [(4, 4), (5, 5)]);
        (6..12).for_each(|seq| assert_eq!(frame(&batcher, seq), Flow::Continue));
        assert_eq!(taken(&batcher, 2), [(6, 6), (9, 9)], "two of a batch");
        assert_eq!(
            take_received(&received),
            [(7, 7), (8, 8), (10, 10), (11, 11)]
        );
        assert_eq!(batcher.interval(SourceId(0)), (2, 8));
        batcher.close_all();
        assert_eq!(batcher.drained(SourceId(0)), Some(12));
    }

    #[test]
    fn replaced_frame_releases_following_skipped_frames() {
        let (batcher, received) = batcher(true, None);
        (0..4).for_each(|seq| assert_eq!(frame(&batcher, seq), Flow::Continue));
        assert_eq!(
            take_received(&received),
            [(0, 1), (1, 2)],
            "frame 0 was dropped"
        );
        assert_eq!(batcher.dropped(SourceId(0)), 1);
        assert_eq!(taken(&batcher, 1), [(2, 3)]);
    }

    #[test]
    fn skipped_frames_count_towards_frame_limit() {
        let (batcher, received) = batcher(false, Some(4));
        (0..6).for_each(|seq| {
            frame(&batcher, seq);
        });
        assert_eq!(taken(&batcher, 2), [(0, 0), (3, 3)]);
        assert_eq!(take_received(&received), [(1, 1), (2, 2)]);
        assert_eq!(frame(&batcher, 6), Flow::Stop);
        assert_eq!(batcher.drained(SourceId(0)), Some(4));
    }

    #[test]
    fn removed_source_keeps_totals() {
        let batcher = Batcher::new(&[], 1, None).with_intervals(5, 1, Box::new(|_, _| {}));
        batcher.add(true, Interval::Adaptive).expect("an id");
        (0..4).for_each(|seq| assert_eq!(frame(&batcher, seq), Flow::Continue));
        let counted = || {
            let totals = batcher.state.lock().totals();
            (totals.offered, totals.dropped, totals.waiting)
        };
        assert_eq!(counted(), (4, 3, 1));
        batcher.close(SourceId(0));
        batcher.remove(SourceId(0));
        assert_eq!(counted(), (4, 3, 0));
    }
}
