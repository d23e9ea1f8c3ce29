// SPDX-License-Identifier: Apache-2.0
//! The frames of one source that wait for a worker, and the places in its order: of frames that skip the network, and at which it
//! went offline.

use std::collections::VecDeque;
use std::time::Instant;

use super::arrival::ArrivalEstimator;
use jetwatch_types::{BudgetedImage, Frame, FrameMeta};

/// A frame that skipped the network, with its full image where one was requested.
pub(crate) type SkippedFrame = (FrameMeta, Option<BudgetedImage>);

/// Frames that the queue of a live source keeps: more would only make results older.
const LIVE_DEPTH: usize = 1;

/// Frames that the queue of a file keeps beyond one batch: two workers that ask at the same time need not wait for the decoder.
pub(super) const FILE_SLACK: usize = 2;

/// The queue of one source.
pub(super) struct SourceQueue {
    pub(super) frames: VecDeque<Frame>,
    pub(super) live: bool,
    pub(super) depth: usize,
    pub(super) open: bool,
    /// The source delivers, as far as is known.
    pub(super) running: bool,
    /// Its frames go through the network, unless they skip it by their interval.
    pub(super) detecting: bool,
    pub(super) arrivals: ArrivalEstimator,
    pub(super) dropped: u64,
    pub(super) taken: u64,
    /// Frames that were queued so far.
    pub(super) queued: u64,
    /// Frames that skipped the network, each with the number of frames queued before it: they wait for their place in the order.
    pub(super) skipped: VecDeque<(u64, SkippedFrame)>,
    /// Places in the order at which the source went offline, and that the tracking stage has not passed yet.
    pub(super) discontinuities: VecDeque<u64>,
}

impl SourceQueue {
    pub(super) fn new(live: bool, batch_size: usize) -> Self {
        let depth = if live {
            LIVE_DEPTH
        } else {
            batch_size + FILE_SLACK
        };
        Self {
            frames: VecDeque::with_capacity(depth),
            live,
            depth,
            open: true,
            // A file is read as soon as it is opened; a camera may be offline from the start.
            running: !live,
            detecting: true,
            arrivals: ArrivalEstimator::default(),
            dropped: 0,
            taken: 0,
            queued: 0,
            skipped: VecDeque::new(),
            discontinuities: VecDeque::new(),
        }
    }

    /// Until when a batch with this `deadline` waits for this queue; `None`: its next frame is not due by then.
    pub(super) fn expected_by(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        if !self.open || !self.running || !self.detecting {
            return None;
        }
        // The reader of a file follows the workers, so it has no frame rate of its own.
        match self.arrivals.window().filter(|_| self.live) {
            Some((from, until)) => (from <= deadline && now < until).then(|| until.min(deadline)),
            None => Some(deadline),
        }
    }

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

    /// Takes a frame that skips the network.
    pub(super) fn skip(&mut self, frame: SkippedFrame) {
        self.skipped.push_back((self.queued, frame));
    }

    /// The next skipped frame that no queued frame precedes any more.
    pub(super) fn next_skipped(&mut self) -> Option<SkippedFrame> {
        let gone = self.queued - self.frames.len() as u64;
        let (before, _) = self.skipped.front()?;
        (*before <= gone)
            .then(|| self.skipped.pop_front())?
            .map(|(_, frame)| frame)
    }

    /// The source went offline: later frames do not continue the earlier ones.
    pub(super) fn mark_discontinuity(&mut self) {
        let waiting = self.frames.len() + self.skipped.len();
        self.discontinuities.push_back(self.taken + waiting as u64);
    }

    /// Whether all frames from before the oldest discontinuity are among the first `completed` of the order, of which those up to
    /// `limit` leave. True removes it.
    pub(super) fn passed_discontinuity(&mut self, completed: u64, limit: u64) -> bool {
        let oldest = self.discontinuities.front();
        let has_passed = oldest.is_none_or(|place| (*place).min(limit) <= completed);
        if has_passed {
            self.discontinuities.pop_front();
        }
        has_passed
    }

    /// Discards what waits, with its memory: the source was removed.
    pub(super) fn release(&mut self) {
        self.frames = VecDeque::new();
        self.skipped = VecDeque::new();
        self.discontinuities = VecDeque::new();
    }

    /// Discards what waits.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.skipped.clear();
        self.discontinuities.clear();
    }
}
