//! Where frames wait for the detector: one lane a source, batches taken across them.
//!
//! A live lane keeps the newest frame and counts what it replaces; a file's lane makes the reader wait, so that nothing is
//! dropped. A worker takes frames only when it is free to run them, so no batch ages in a queue. Frames are taken in turns,
//! one from each lane that has any, starting behind the lane that was served last: a fast source cannot starve a slow one.
//! A batch that is not full waits for the lanes whose next frame is due, and for no other: not for a source that is being
//! opened again, and not for one whose beat says that its next frame comes after the batch is gone.
//!
//! Lanes come and go while the others run. A lane's place is its source's [`SourceId`], which is never given twice.

mod arrival;
mod discontinuity;
mod skip;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use jetwatch_config::Interval;
use jetwatch_source::Flow;
use jetwatch_types::{Frame, SourceId};

use super::interval::{IntervalController, SourceKind};

use self::skip::{SkippedFrame, SkippedHandler};

use self::arrival::ArrivalEstimator;

/// Frames that a live lane keeps: more would only make results older.
const LIVE_DEPTH: usize = 1;

/// Frames that a file's lane keeps beyond one batch: when two workers ask at the same time, none waits for the decoder.
const FILE_SLACK: usize = 2;

/// A frame on its way to a worker, with its place in its source's order.
#[derive(Debug)]
pub struct QueuedFrame {
    /// Place among the frames of its source that were taken, from 0 without gaps.
    pub order: u64,
    /// The frame.
    pub frame: Frame,
}

/// The waiting frames of all sources.
pub struct Batcher {
    on_skipped: Option<SkippedHandler>,
    batch_size: usize,
    state: Mutex<State>,
    /// Frames have come, or no more will.
    filled: Condvar,
    /// A frame was taken, or no more are wanted.
    emptied: Condvar,
}

struct State {
    /// By their sources' ids; those that were retired hold nothing any more.
    queues: Vec<SourceQueue>,
    /// Which frames skip the network.
    intervals: IntervalController,
    /// Time in which workers were busy.
    busy_time: Duration,
    /// Frames that skipped the network and whose turn has come.
    released: Vec<(u64, SkippedFrame)>,
    /// The lanes in use, in the order of their turns.
    round_robin: Vec<usize>,
    /// Turn to look at first.
    next: usize,
    /// Lanes will be added: that none is open is no end.
    held_open: bool,
    /// A worker is filling a batch; the others wait for the next one, so that frames that arrive together stay together.
    filling: bool,
    /// Frames that may still be taken in all.
    frames_left: u64,
    /// Batches that may still be handed out in all.
    batches_left: u64,
    /// Frames have waited since then without one being taken; `None`: none waits.
    stalled_since: Option<Instant>,
}

struct SourceQueue {
    queue: VecDeque<Frame>,
    live: bool,
    depth: usize,
    open: bool,
    /// The source delivers, as far as is known.
    running: bool,
    arrivals: ArrivalEstimator,
    dropped: u64,
    taken: u64,
    /// Frames that were queued so far.
    queued: u64,
    /// Frames that skipped the network, each with how many were queued before it: they wait for their place in the order.
    skipped: VecDeque<(u64, SkippedFrame)>,
    /// Places in the order at which the source went away, of which nobody has taken note yet.
    discontinuities: VecDeque<u64>,
}

impl Batcher {
    /// One lane for each entry of `live`; at most `max_frames` are handed out in all.
    #[must_use]
    pub fn new(live: &[bool], batch_size: usize, max_frames: Option<u64>) -> Self {
        let lanes: Vec<SourceQueue> = live
            .iter()
            .map(|&live| SourceQueue::new(live, batch_size))
            .collect();
        Self {
            on_skipped: None,
            batch_size,
            state: Mutex::new(State {
                round_robin: (0..lanes.len()).collect(),
                queues: lanes,
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

    /// One more lane, behind all others, whose frames skip the network as `interval` says where that was asked for with
    /// [`with_intervals`](Self::with_intervals); `None` when every id has been given.
    pub(super) fn add(&self, live: bool, interval: Interval) -> Option<SourceId> {
        let mut state = self.lock();
        let id = u16::try_from(state.queues.len()).ok()?;
        let mut lane = SourceQueue::new(live, self.batch_size);
        // After the last frame of a run, or its stop, nothing begins.
        lane.open = state.frames_left > 0;
        state.queues.push(lane);
        state.round_robin.push(usize::from(id));
        state.intervals.add_source(SourceKind {
            interval,
            is_live: live,
        });
        Some(SourceId(id))
    }

    /// Gives a lane that is closed and drained out of the turns. Its id is not given again.
    pub fn remove(&self, source: SourceId) {
        let mut state = self.lock();
        state.round_robin.retain(|&index| index != source.index());
        state.next = 0;
        state.intervals.remove_source(source.index());
        let lane = &mut state.queues[source.index()];
        lane.queue = VecDeque::new();
        lane.skipped = VecDeque::new();
        lane.discontinuities = VecDeque::new();
    }

    /// While it is held, that no lane is open does not end the workers: another one will be.
    pub fn hold_open(&self, held_open: bool) {
        self.lock().held_open = held_open;
        self.filled.notify_all();
    }

    /// Whether a source delivers: a batch does not wait for one that does not.
    pub fn set_running(&self, source: SourceId, running: bool) {
        let mut state = self.lock();
        let lane = &mut state.queues[source.index()];
        lane.running = running;
        lane.arrivals = ArrivalEstimator::default();
        drop(state);
        self.filled.notify_all();
    }

    /// Hands out at most so many batches in all.
    #[must_use]
    pub fn with_max_batches(mut self, max: Option<u64>) -> Self {
        self.state.get_mut().batches_left = max.unwrap_or(u64::MAX);
        self
    }

    /// Takes a frame from its source. In a full live lane it replaces the oldest; in a file's lane it waits for room.
    pub fn push(&self, frame: Frame) -> Flow {
        let index = frame.meta.source.index();
        let mut state = self.lock();
        loop {
            let lane = &mut state.queues[index];
            if !lane.open {
                return Flow::Stop;
            }
            if lane.queue.len() < lane.depth {
                break;
            }
            if lane.live {
                lane.drop_oldest();
                state.release_skipped(index);
                break;
            }
            self.emptied.wait(&mut state);
        }
        let now = Instant::now();
        state.queues[index].arrivals.observe(now);
        state.queues[index].queue.push_back(frame);
        state.queues[index].queued += 1;
        state.stalled_since.get_or_insert(now);
        self.unlock_and_forward(state);
        self.filled.notify_all();
        Flow::Continue
    }

    /// Fills `batch` with 1 to `size` frames, waiting at most `timeout` for company of the first one.
    ///
    /// Returns false, with an empty batch, when every lane is closed and drained.
    pub fn next_batch(&self, size: usize, timeout: Duration, batch: &mut Vec<QueuedFrame>) -> bool {
        batch.clear();
        let mut state = self.lock();
        while !state.is_finished() && (state.filling || !state.has_frames()) {
            self.filled.wait(&mut state);
        }
        if state.is_finished() {
            drop(state);
            // The other workers must see it too.
            self.filled.notify_all();
            return false;
        }
        state.filling = true;
        state.fill(size, batch);
        self.emptied.notify_all();
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
            self.emptied.notify_all();
        }
        state.filling = false;
        state.batches_left -= 1;
        if state.batches_left == 0 {
            state.end();
        }
        self.unlock_and_forward(state);
        self.filled.notify_all();
        self.emptied.notify_all();
        true
    }

    /// No more frames are taken from this source; those that wait are still handed out.
    pub fn close(&self, source: SourceId) {
        self.lock().queues[source.index()].open = false;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Closes every lane.
    pub fn close_all(&self) {
        for lane in &mut self.lock().queues {
            lane.open = false;
        }
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Closes every lane and forgets what waits: for an end without draining.
    pub fn discard(&self) {
        let mut state = self.lock();
        for lane in &mut state.queues {
            lane.open = false;
            lane.queue.clear();
            lane.skipped.clear();
            lane.discontinuities.clear();
        }
        state.stalled_since = None;
        drop(state);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// How long frames have waited since one was last taken; `None` where none waits.
    #[must_use]
    pub fn stalled_for(&self) -> Option<Duration> {
        self.lock().stalled_since.map(|since| since.elapsed())
    }

    /// Frames of this source that were replaced by newer ones.
    #[must_use]
    pub fn dropped(&self, source: SourceId) -> u64 {
        self.lock().queues[source.index()].dropped
    }

    /// Frames that were taken from this source in all, once it is closed and drained; `None` before.
    #[must_use]
    pub fn drained(&self, source: SourceId) -> Option<u64> {
        let state = self.lock();
        let lane = &state.queues[source.index()];
        (!lane.open && (lane.queue.is_empty() || state.frames_left == 0)).then_some(lane.taken)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn has_frames(&self) -> bool {
        self.queues.iter().any(|lane| !lane.queue.is_empty())
    }

    fn is_finished(&self) -> bool {
        let comes = |lane: &SourceQueue| lane.open || !lane.queue.is_empty();
        self.frames_left == 0 || !(self.held_open || self.queues.iter().any(comes))
    }

    /// Until when a batch that is sent at `deadline` waits for company; `None`: no frame is due by then.
    fn wait_deadline(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        let lanes = self.round_robin.iter().map(|&index| &self.queues[index]);
        lanes
            .filter_map(|lane| lane.expected_by(now, deadline))
            .max()
    }

    /// Moves waiting frames into `batch` until it has `size`, in turns.
    fn fill(&mut self, size: usize, batch: &mut Vec<QueuedFrame>) {
        let count = self.round_robin.len();
        let mut idle = 0;
        while batch.len() < size && idle < count && self.frames_left > 0 {
            let index = self.round_robin[self.next];
            let lane = &mut self.queues[index];
            self.next = (self.next + 1) % count;
            if let Some(frame) = lane.queue.pop_front() {
                batch.push(QueuedFrame {
                    order: lane.taken,
                    frame,
                });
                lane.taken += 1;
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

    /// Hands out no more.
    fn end(&mut self) {
        self.frames_left = 0;
        self.stalled_since = None;
        for lane in &mut self.queues {
            lane.open = false;
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
            queue: VecDeque::with_capacity(depth),
            live,
            depth,
            open: true,
            // A file is read as soon as it is opened; a camera may be away from the start.
            running: !live,
            arrivals: ArrivalEstimator::default(),
            dropped: 0,
            taken: 0,
            queued: 0,
            skipped: VecDeque::new(),
            discontinuities: VecDeque::new(),
        }
    }

    /// Until when a batch that is sent at `deadline` waits for this lane; `None`: its next frame is not due by then.
    fn expected_by(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        if !self.open || !self.running {
            return None;
        }
        // A file's reader is as fast as its frames are taken, so that it has no beat of its own.
        match self.arrivals.window().filter(|_| self.live) {
            Some((from, until)) => (from <= deadline && now < until).then(|| until.min(deadline)),
            None => Some(deadline),
        }
    }
}

#[cfg(test)]
mod tests;
