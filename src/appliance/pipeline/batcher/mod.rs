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
mod discontinuity;
mod interval;
mod skip;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use jetwatch_config::Interval;
use jetwatch_source::Flow;
use jetwatch_types::{Frame, SourceId};

use self::interval::{IntervalController, SourceKind};

use self::skip::{SkippedFrame, SkippedHandler};

use self::arrival::ArrivalEstimator;

/// Frames that the queue of a live source keeps: more would only make results older.
const LIVE_DEPTH: usize = 1;

/// Frames that the queue of a file keeps beyond one batch: two workers that ask at the same time need not wait for the decoder.
const FILE_SLACK: usize = 2;

/// Free places in the queue of a file at which its waiting reader goes on. Each time it interrupts a worker where the cores are
/// full, so it decodes two frames at a time.
const FILE_RESUME: usize = 2;

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

struct State {
    /// By the ids of their sources; queues of removed sources are empty.
    queues: Vec<SourceQueue>,
    /// Which frames skip the network.
    intervals: IntervalController,
    /// Time in which workers were busy.
    busy_time: Duration,
    /// Frames that skipped the network and that no queued frame precedes any more.
    released: Vec<(u64, SkippedFrame)>,
    /// The queues in use, in the order in which they are served.
    round_robin: Vec<usize>,
    /// Index into `round_robin` of the queue to serve first.
    next: usize,
    /// Sources will be added: workers wait although no queue is open.
    held_open: bool,
    /// A worker is filling a batch; the others wait for the next one, so that frames that arrive together stay together.
    filling: bool,
    /// Frames that may still be taken, over all sources.
    frames_left: u64,
    /// Batches that may still be formed.
    batches_left: u64,
    /// Since when frames have waited without one being taken; `None`: no frame waits.
    stalled_since: Option<Instant>,
}

struct SourceQueue {
    frames: VecDeque<Frame>,
    live: bool,
    depth: usize,
    open: bool,
    /// The source delivers, as far as is known.
    running: bool,
    /// Its frames go through the network, unless they skip it by their interval.
    detecting: bool,
    arrivals: ArrivalEstimator,
    dropped: u64,
    taken: u64,
    /// Frames that were queued so far.
    queued: u64,
    /// Frames that skipped the network, each with the number of frames queued before it: they wait for their place in the order.
    skipped: VecDeque<(u64, SkippedFrame)>,
    /// Places in the order at which the source went offline, and that the tracking stage has not passed yet.
    discontinuities: VecDeque<u64>,
}

impl Batcher {
    /// One queue for each entry of `live`; at most `max_frames` frames leave in total.
    #[must_use]
    pub fn new(live: &[bool], batch_size: usize, max_frames: Option<u64>) -> Self {
        let queues: Vec<SourceQueue> = live
            .iter()
            .map(|&live| SourceQueue::new(live, batch_size))
            .collect();
        Self {
            on_skipped: None,
            batch_size,
            state: Mutex::new(State {
                round_robin: (0..queues.len()).collect(),
                queues,
                intervals: IntervalController::new(&[], 0, 1),
                busy_time: Duration::ZERO,
                released: Vec::new(),
                next: 0,
                held_open: false,
                filling: false,
                frames_left: max_frames.unwrap_or(u64::MAX),
                batches_left: u64::MAX,
                stalled_since: None,
            }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    /// Adds a queue behind all others. Its frames skip the network at `interval`, after
    /// [`with_intervals`](Self::with_intervals); `None` when all ids are used up.
    pub(super) fn add(&self, live: bool, interval: Interval) -> Option<SourceId> {
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
    pub fn remove(&self, source: SourceId) {
        let mut state = self.state.lock();
        state.round_robin.retain(|&index| index != source.index());
        state.next = 0;
        state.intervals.remove_source(source.index());
        let queue = &mut state.queues[source.index()];
        queue.frames = VecDeque::new();
        queue.skipped = VecDeque::new();
        queue.discontinuities = VecDeque::new();
    }

    /// While `held_open`, workers wait for frames although no queue is open: sources will be added.
    pub fn hold_open(&self, held_open: bool) {
        self.state.lock().held_open = held_open;
        self.filled.notify_all();
    }

    /// Whether a source delivers: a batch does not wait for one that does not.
    pub fn set_running(&self, source: SourceId, running: bool) {
        let mut state = self.state.lock();
        let queue = &mut state.queues[source.index()];
        queue.running = running;
        queue.arrivals = ArrivalEstimator::default();
        drop(state);
        self.filled.notify_all();
    }

    /// Whether frames of a source go through the network.
    pub(crate) fn set_detecting(&self, source: SourceId, detecting: bool) {
        let mut state = self.state.lock();
        let queue = &mut state.queues[source.index()];
        queue.detecting = detecting;
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
    #[must_use]
    pub fn with_max_batches(mut self, max: Option<u64>) -> Self {
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
            queue.frames.clear();
            queue.skipped.clear();
            queue.discontinuities.clear();
        }
        state.stalled_since = None;
        drop(state);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// How long frames have waited since one was last taken; `None` where none waits.
    #[must_use]
    pub fn stalled_for(&self) -> Option<Duration> {
        self.state.lock().stalled_since.map(|since| since.elapsed())
    }

    /// Frames of this source that were replaced by newer ones.
    #[must_use]
    pub fn dropped(&self, source: SourceId) -> u64 {
        self.state.lock().queues[source.index()].dropped
    }

    /// The same for every source so far, by its id.
    pub(super) fn dropped_by_source(&self) -> Vec<u64> {
        let state = self.state.lock();
        state.queues.iter().map(|queue| queue.dropped).collect()
    }

    /// Whether the queue of this source keeps the newest frame instead of making the reader wait.
    #[must_use]
    pub fn is_live(&self, source: SourceId) -> bool {
        self.state.lock().queues[source.index()].live
    }

    /// Number of frames that were taken from this source, once its queue is closed and drained; `None` before.
    #[must_use]
    pub fn drained(&self, source: SourceId) -> Option<u64> {
        let state = self.state.lock();
        let queue = &state.queues[source.index()];
        (!queue.open && (queue.frames.is_empty() || state.frames_left == 0)).then_some(queue.taken)
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

impl State {
    fn has_frames(&self) -> bool {
        self.queues.iter().any(|queue| !queue.frames.is_empty())
    }

    fn is_finished(&self) -> bool {
        let has_more = |queue: &SourceQueue| queue.open || !queue.frames.is_empty();
        self.frames_left == 0 || !(self.held_open || self.queues.iter().any(has_more))
    }

    /// Until when a batch with this `deadline` waits for more frames; `None`: none is due by then.
    fn wait_deadline(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        let queues = self.round_robin.iter().map(|&index| &self.queues[index]);
        queues
            .filter_map(|queue| queue.expected_by(now, deadline))
            .max()
    }

    /// Moves waiting frames into `batch` until it has `size`, round robin.
    fn fill(&mut self, size: usize, batch: &mut Vec<QueuedFrame>) {
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
    fn end(&mut self) {
        self.frames_left = 0;
        self.stalled_since = None;
        for queue in &mut self.queues {
            queue.open = false;
        }
    }
}

impl SourceQueue {
    fn new(live: bool, batch_size: usize) -> Self {
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
    fn expected_by(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        if !self.open || !self.running || !self.detecting {
            return None;
        }
        // The reader of a file follows the workers, so it has no frame rate of its own.
        match self.arrivals.window().filter(|_| self.live) {
            Some((from, until)) => (from <= deadline && now < until).then(|| until.min(deadline)),
            None => Some(deadline),
        }
    }
}

#[cfg(test)]
mod tests;
