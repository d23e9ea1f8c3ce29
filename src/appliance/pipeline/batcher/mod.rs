// SPDX-License-Identifier: Apache-2.0
//! The frame queues of all sources, and the batches formed from them.
//!
//! The queue of a live source keeps the newest frame and counts what it replaces; the queue of a file makes the reader wait, so
//! that nothing is dropped. A worker takes frames only when it is free to run them, so no batch ages in a queue. Frames are
//! taken round robin, one from each queue that has any, starting behind the queue that was served last: a fast source cannot
//! starve a slow one. A partial batch waits for the queues whose next frame is due, and for no other: not for a source that is
//! offline, and not for one whose next frame is expected after the batch has to leave.
//!
//! Sources are added and removed while the others run. A queue is indexed by the [`SourceId`] of its source, which is never
//! used twice.

mod arrival;
mod interval;
mod queue;
mod state;

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use jetwatch_config::Interval;
use jetwatch_source::Flow;
use jetwatch_types::{BudgetedImage, Frame, FrameMeta, SourceId};

use self::arrival::ArrivalEstimator;
use self::interval::{IntervalController, SourceKind};
use self::queue::{SkippedFrame, SourceQueue};
use self::state::State;

/// How batches are formed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BatchSettings {
    /// Most frames of a batch.
    pub(crate) size: usize,
    /// Longest wait for more frames, after the first one.
    pub(crate) timeout: Duration,
}

/// Free places in the queue of a file at which its waiting reader goes on. Each time it interrupts a worker where the cores are
/// full, so it decodes two frames at a time.
const FILE_RESUME: usize = 2;

/// Receives each frame that skipped the network with its place in the order of its source; frames may arrive out of order.
pub(crate) type SkippedHandler = Box<dyn Fn(u64, SkippedFrame) + Send + Sync>;

/// A frame on its way to a worker, with its place in its source's order.
#[derive(Debug)]
pub struct QueuedFrame {
    /// Place among the frames of its source that were taken, from 0 without gaps.
    pub order: u64,
    /// The frame.
    pub frame: Frame,
    /// Whether its source is live: frames of others are not dropped.
    pub is_live: bool,
}

/// The queued frames of all sources.
pub struct Batcher {
    on_skipped: Option<SkippedHandler>,
    batch_size: usize,
    state: Mutex<State>,
    /// A frame was queued, or no more will be.
    filled: Condvar,
    /// A frame was taken, or no more will be.
    emptied: Condvar,
}

impl Batcher {
    /// One queue for each entry of `live`; at most `max_frames` frames leave in total.
    pub fn new(live: &[bool], batch_size: usize, max_frames: Option<u64>) -> Self {
        let batcher = Self {
            on_skipped: None,
            batch_size,
            state: Mutex::new(State::new(max_frames)),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        };
        for &live in live {
            batcher.add(live, Interval::Frames(0));
        }
        batcher
    }

    /// Adds a queue behind all others. Its frames skip the network at `interval`, after
    /// [`with_intervals`](Self::with_intervals); `None` when all ids are used up.
    pub(crate) fn add(&self, live: bool, interval: Interval) -> Option<SourceId> {
        let mut state = self.state.lock();
        let id = u16::try_from(state.queues.len()).ok()?;
        let mut queue = SourceQueue::new(live, self.batch_size);
        // After the last frame of a run, or its stop, no source starts.
        queue.open = state.frames_left > 0;
        state.queues.push(queue);
        state.round_robin.push(usize::from(id));
        state.intervals.add_source(SourceKind {
            interval,
            is_live: live,
        });
        Some(SourceId(id))
    }

    /// Removes a queue that is closed and drained. Its id is not used again.
    pub(crate) fn remove(&self, source: SourceId) {
        let mut state = self.state.lock();
        state.round_robin.retain(|&index| index != source.index());
        state.next = 0;
        state.intervals.remove_source(source.index());
        state.queues[source.index()].release();
    }

    /// While `held_open`, workers wait for frames although no queue is open: sources will be added.
    pub(crate) fn hold_open(&self, held_open: bool) {
        self.state.lock().held_open = held_open;
        self.filled.notify_all();
    }

    /// Whether a source delivers: a batch does not wait for one that does not.
    pub(crate) fn set_running(&self, source: SourceId, running: bool) {
        self.change(source, |queue| queue.running = running);
    }

    /// Whether frames of a source go through the network.
    pub(crate) fn set_detecting(&self, source: SourceId, detecting: bool) {
        self.change(source, |queue| queue.detecting = detecting);
    }

    /// Changes whether frames come from a queue; the estimate of their times begins anew.
    fn change(&self, source: SourceId, change: impl FnOnce(&mut SourceQueue)) {
        let mut state = self.state.lock();
        let queue = &mut state.queues[source.index()];
        change(queue);
        queue.arrivals = ArrivalEstimator::default();
        drop(state);
        self.filled.notify_all();
    }

    /// Whether frames of a source go through the network. True where its queue is closed, which `push` then returns.
    pub(crate) fn is_detecting(&self, source: SourceId) -> bool {
        let state = self.state.lock();
        let queue = &state.queues[source.index()];
        queue.detecting || !queue.open
    }

    /// Limits the number of batches.
    pub(crate) fn with_max_batches(mut self, max: Option<u64>) -> Self {
        self.state.get_mut().batches_left = max.unwrap_or(u64::MAX);
        self
    }

    /// Queues a frame of a source. In a full queue of a live source it replaces the oldest; for a file it blocks until there is
    /// room for two.
    pub fn push(&self, frame: Frame) -> Flow {
        let index = frame.meta.source.index();
        let mut state = self.state.lock();
        let mut places = 1;
        loop {
            let queue = &mut state.queues[index];
            if !queue.open {
                return Flow::Stop;
            }
            if queue.frames.len() + places <= queue.depth {
                break;
            }
            if queue.live {
                queue.drop_oldest();
                state.release_skipped(index);
                break;
            }
            self.emptied.wait(&mut state);
            places = FILE_RESUME;
        }
        let now = Instant::now();
        state.queues[index].arrivals.observe(now);
        state.queues[index].frames.push_back(frame);
        state.queues[index].queued += 1;
        state.stalled_since.get_or_insert(now);
        self.unlock_and_forward(state);
        self.filled.notify_all();
        Flow::Continue
    }

    /// Fills `batch` with 1 to `size` frames: blocks until there is one, then waits at most `timeout` for others.
    ///
    /// Returns false, with an empty batch, when every queue is closed and drained.
    pub fn next_batch(&self, size: usize, timeout: Duration, batch: &mut Vec<QueuedFrame>) -> bool {
        batch.clear();
        let mut state = self.state.lock();
        while !state.is_finished() && (state.filling || !state.has_frames()) {
            self.filled.wait(&mut state);
        }
        if state.is_finished() {
            drop(state);
            // The other workers must end, too.
            self.filled.notify_all();
            return false;
        }
        state.filling = true;
        state.fill(size, batch);
        self.resume_readers(&state);
        let deadline = Instant::now() + timeout;
        while batch.len() < size {
            let now = Instant::now();
            let Some(until) = state
                .wait_deadline(now, deadline)
                .filter(|until| *until > now)
            else {
                break;
            };
            self.filled.wait_for(&mut state, until - now);
            state.fill(size, batch);
            self.resume_readers(&state);
        }
        state.filling = false;
        state.batches_left -= 1;
        if state.batches_left == 0 {
            state.end();
            self.resume_readers(&state);
        }
        self.unlock_and_forward(state);
        self.filled.notify_all();
        true
    }

    /// No more frames are queued for this source; those that wait still leave.
    pub fn close(&self, source: SourceId) {
        self.state.lock().queues[source.index()].open = false;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Closes every queue.
    pub fn close_all(&self) {
        for queue in &mut self.state.lock().queues {
            queue.open = false;
        }
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Closes every queue and discards what waits: for an end without draining.
    pub fn discard(&self) {
        let mut state = self.state.lock();
        for queue in &mut state.queues {
            queue.open = false;
            queue.clear();
        }
        state.stalled_since = None;
        drop(state);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// How long frames have waited since one was last taken; `None` where none waits.
    pub(crate) fn stalled_for(&self) -> Option<Duration> {
        self.state.lock().stalled_since.map(|since| since.elapsed())
    }

    /// Frames of this source that were replaced by newer ones.
    pub(crate) fn dropped(&self, source: SourceId) -> u64 {
        self.state.lock().queues[source.index()].dropped
    }

    /// The same for every source so far, by its id.
    pub(crate) fn dropped_by_source(&self) -> Vec<u64> {
        let state = self.state.lock();
        state.queues.iter().map(|queue| queue.dropped).collect()
    }

    /// Whether the queue of this source keeps the newest frame instead of making the reader wait.
    pub(crate) fn is_live(&self, source: SourceId) -> bool {
        self.state.lock().queues[source.index()].live
    }

    /// Number of frames that were taken from this source, once its queue is closed and drained; `None` before.
    pub(crate) fn drained(&self, source: SourceId) -> Option<u64> {
        let state = self.state.lock();
        let queue = &state.queues[source.index()];
        (!queue.open && (queue.frames.is_empty() || state.frames_left == 0)).then_some(queue.taken)
    }

    /// The source went offline: later frames do not continue the earlier ones.
    pub(crate) fn mark_discontinuity(&self, source: SourceId) {
        self.state.lock().queues[source.index()].mark_discontinuity();
    }

    /// Whether all frames from before the oldest discontinuity are among the first `completed` of the order. Each discontinuity
    /// is asked for until the answer is true, which removes it.
    pub(crate) fn passed_discontinuity(&self, source: SourceId, completed: u64) -> bool {
        let mut state = self.state.lock();
        let has_ended = state.frames_left == 0;
        let queue = &mut state.queues[source.index()];
        // Frames that still wait after the last one was taken never leave.
        let limit = if has_ended { queue.taken } else { u64::MAX };
        queue.passed_discontinuity(completed, limit)
    }

    /// Lets frames of sources that are added later skip the network; `on_skipped` receives each of them.
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
        queue.skip((meta, full_image));
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
    fn unlock_and_forward(&self, mut state: MutexGuard<'_, State>) {
        let released = std::mem::take(&mut state.released);
        drop(state);
        if let Some(on_skipped) = &self.on_skipped {
            for (order, frame) in released {
                on_skipped(order, frame);
            }
        }
    }

    /// Wakes the readers of files that wait for room, when there is enough for one of them or none is needed any more.
    fn resume_readers(&self, state: &State) {
        let may_resume =
            |queue: &SourceQueue| !queue.open || queue.frames.len() + FILE_RESUME <= queue.depth;
        let mut files = state.queues.iter().filter(|queue| !queue.live);
        if files.any(may_resume) {
            self.emptied.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
