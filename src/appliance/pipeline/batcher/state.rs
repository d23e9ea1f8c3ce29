// SPDX-License-Identifier: Apache-2.0
//! The queues of all sources, and which frames of them are next. Pure but for the time since which frames wait.

use std::time::{Duration, Instant};

use super::QueuedFrame;
use super::interval::{IntervalController, Totals};
use super::queue::{SkippedFrame, SourceQueue};

/// What the lock of the batcher protects.
pub(super) struct State {
    /// By the ids of their sources; queues of removed sources are empty.
    pub(super) queues: Vec<SourceQueue>,
    /// Which frames skip the network.
    pub(super) intervals: IntervalController,
    /// Time in which workers were busy.
    pub(super) busy_time: Duration,
    /// Frames that skipped the network and that no queued frame precedes any more.
    pub(super) released: Vec<(u64, SkippedFrame)>,
    /// The queues in use, in the order in which they are served.
    pub(super) round_robin: Vec<usize>,
    /// Index into `round_robin` of the queue to serve first.
    pub(super) next: usize,
    /// Sources will be added: workers wait although no queue is open.
    pub(super) held_open: bool,
    /// A worker is filling a batch; the others wait for the next one, so that frames that arrive together stay together.
    pub(super) filling: bool,
    /// Frames that may still be taken, over all sources.
    pub(super) frames_left: u64,
    /// Batches that may still be formed.
    pub(super) batches_left: u64,
    /// Since when frames have waited without one being taken; `None`: no frame waits.
    pub(super) stalled_since: Option<Instant>,
}

impl State {
    /// No sources yet; at most `max_frames` frames leave in total.
    pub(super) fn new(max_frames: Option<u64>) -> Self {
        Self {
            queues: Vec::new(),
            intervals: IntervalController::new(&[], 0, 1),
            busy_time: Duration::ZERO,
            released: Vec::new(),
            round_robin: Vec::new(),
            next: 0,
            held_open: false,
            filling: false,
            frames_left: max_frames.unwrap_or(u64::MAX),
            batches_left: u64::MAX,
            stalled_since: None,
        }
    }

    pub(super) fn has_frames(&self) -> bool {
        self.queues.iter().any(|queue| !queue.frames.is_empty())
    }

    pub(super) fn is_finished(&self) -> bool {
        let has_more = |queue: &SourceQueue| queue.open || !queue.frames.is_empty();
        self.frames_left == 0 || !(self.held_open || self.queues.iter().any(has_more))
    }

    /// Until when a batch with this `deadline` waits for more frames; `None`: none is due by then.
    pub(super) fn wait_deadline(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        let queues = self.round_robin.iter().map(|&index| &self.queues[index]);
        queues
            .filter_map(|queue| queue.expected_by(now, deadline))
            .max()
    }

    /// Moves waiting frames into `batch` until it has `size`, round robin.
    pub(super) fn fill(&mut self, size: usize, batch: &mut Vec<QueuedFrame>) {
        let count = self.round_robin.len();
        let mut idle = 0;
        while batch.len() < size && idle < count && self.frames_left > 0 {
            let index = self.round_robin[self.next];
            let queue = &mut self.queues[index];
            self.next = (self.next + 1) % count;
            if let Some(frame) = queue.frames.pop_front() {
                batch.push(QueuedFrame {
                    order: queue.taken,
                    frame,
                    is_live: queue.live,
                });
                queue.taken += 1;
                self.frames_left -= 1;
                self.release_skipped(index);
                idle = 0;
            } else {
                idle += 1;
            }
        }
        self.stalled_since = self.has_frames().then(Instant::now);
        if self.frames_left == 0 {
            self.end();
        }
    }

    /// No more frames leave.
    pub(super) fn end(&mut self) {
        self.frames_left = 0;
        self.stalled_since = None;
        for queue in &mut self.queues {
            queue.open = false;
        }
    }

    /// Releases the skipped frames of a queue that no queued frame precedes any more, each with its place in the order.
    pub(super) fn release_skipped(&mut self, index: usize) {
        let queue = &mut self.queues[index];
        while self.frames_left > 0
            && let Some(frame) = queue.next_skipped()
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
    pub(super) fn totals(&self) -> Totals {
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
