//! Where frames wait for the detector: one lane a source, batches taken across them.
//!
//! A live lane keeps the newest frame and counts what it replaces; a file's lane makes the reader wait, so that nothing is
//! dropped. A worker takes frames only when it is free to run them, so no batch ages in a queue. Frames are taken in turns,
//! one from each lane that has any, starting behind the lane that was served last: a fast source cannot starve a slow one.
//! A batch that is not full waits for the lanes whose next frame is due, and for no other: not for a source that is being
//! opened again, and not for one whose beat says that its next frame comes after the batch is gone.
//!
//! Lanes come and go while the others run. A lane's place is its source's [`SourceId`], which is never given twice.

mod beat;
mod parting;
mod skip;

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jetwatch_config::Interval;
use jetwatch_source::Flow;
use jetwatch_types::{Frame, SourceId};

use super::cadence::{Cadence, Member};

use self::skip::{Carried, Carry};

use self::beat::Beat;

/// Frames that a live lane keeps: more would only make results older.
const LIVE_DEPTH: usize = 1;

/// Frames that a file's lane keeps beyond one batch: when two workers ask at the same time, none waits for the decoder.
const FILE_SLACK: usize = 2;

/// A frame on its way to a worker, with its place in its source's order.
#[derive(Debug)]
pub struct Ticketed {
    /// Place among the frames of its source that were taken, from 0 without gaps.
    pub ticket: u64,
    /// The frame.
    pub frame: Frame,
}

/// The waiting frames of all sources.
pub struct Lanes {
    carry: Option<Carry>,
    batch_size: usize,
    state: Mutex<State>,
    /// Frames have come, or no more will.
    filled: Condvar,
    /// A frame was taken, or no more are wanted.
    emptied: Condvar,
}

struct State {
    /// By their sources' ids; those that were retired hold nothing any more.
    lanes: Vec<Lane>,
    /// Which frames skip the network.
    cadence: Cadence,
    /// Time in which workers were busy.
    worked: Duration,
    /// Frames that skipped the network and whose turn has come.
    freed: Vec<(u64, Carried)>,
    /// The lanes in use, in the order of their turns.
    turns: Vec<usize>,
    /// Turn to look at first.
    next: usize,
    /// Lanes will be added: that none is open is no end.
    held: bool,
    /// A worker is filling a batch; the others wait for the next one, so that frames that arrive together stay together.
    forming: bool,
    /// Frames that may still be taken in all.
    allowance: u64,
    /// Batches that may still be handed out in all.
    batches: u64,
    /// Frames have waited since then without one being taken; `None`: none waits.
    untaken_since: Option<Instant>,
}

struct Lane {
    queue: VecDeque<Frame>,
    live: bool,
    depth: usize,
    open: bool,
    /// The source delivers, as far as is known.
    running: bool,
    beat: Beat,
    dropped: u64,
    taken: u64,
    /// Frames that were queued so far.
    queued: u64,
    /// Frames that skipped the network, each with how many were queued before it: they wait for their place in the order.
    carried: VecDeque<(u64, Carried)>,
    /// Places in the order at which the source went away, of which nobody has taken note yet.
    partings: VecDeque<u64>,
}

impl Lanes {
    /// One lane for each entry of `live`; at most `most_frames` are handed out in all.
    #[must_use]
    pub fn new(live: &[bool], batch_size: usize, most_frames: Option<u64>) -> Self {
        let lanes: Vec<Lane> = live
            .iter()
            .map(|&live| Lane::new(live, batch_size))
            .collect();
        Self {
            carry: None,
            batch_size,
            state: Mutex::new(State {
                turns: (0..lanes.len()).collect(),
                lanes,
                cadence: Cadence::new(&[], 0, 1),
                worked: Duration::ZERO,
                freed: Vec::new(),
                next: 0,
                held: false,
                forming: false,
                allowance: most_frames.unwrap_or(u64::MAX),
                batches: u64::MAX,
                untaken_since: None,
            }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    /// One more lane, behind all others, whose frames skip the network as `interval` says where that was asked for with
    /// [`with_intervals`](Self::with_intervals); `None` when every id has been given.
    pub(super) fn add(&self, live: bool, interval: Interval) -> Option<SourceId> {
        let mut state = self.lock();
        let id = u16::try_from(state.lanes.len()).ok()?;
        let mut lane = Lane::new(live, self.batch_size);
        // After the last frame of a run, or its stop, nothing begins.
        lane.open = state.allowance > 0;
        state.lanes.push(lane);
        state.turns.push(usize::from(id));
        state.cadence.join(Member {
            interval,
            is_live: live,
        });
        Some(SourceId(id))
    }

    /// Gives a lane that is closed and drained out of the turns. Its id is not given again.
    pub fn retire(&self, source: SourceId) {
        let mut state = self.lock();
        state.turns.retain(|&index| index != source.index());
        state.next = 0;
        state.cadence.leave(source.index());
        let lane = &mut state.lanes[source.index()];
        lane.queue = VecDeque::new();
        lane.carried = VecDeque::new();
        lane.partings = VecDeque::new();
    }

    /// While it is held, that no lane is open does not end the workers: another one will be.
    pub fn hold(&self, held: bool) {
        self.lock().held = held;
        self.filled.notify_all();
    }

    /// Whether a source delivers: a batch does not wait for one that does not.
    pub fn set_running(&self, source: SourceId, running: bool) {
        let mut state = self.lock();
        let lane = &mut state.lanes[source.index()];
        lane.running = running;
        lane.beat = Beat::default();
        drop(state);
        self.filled.notify_all();
    }

    /// Hands out at most so many batches in all.
    #[must_use]
    pub fn with_most_batches(mut self, most: Option<u64>) -> Self {
        self.state
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .batches = most.unwrap_or(u64::MAX);
        self
    }

    /// Takes a frame from its source. In a full live lane it replaces the oldest; in a file's lane it waits for room.
    pub fn offer(&self, frame: Frame) -> Flow {
        let index = frame.meta.source.index();
        let mut state = self.lock();
        loop {
            let lane = &mut state.lanes[index];
            if !lane.open {
                return Flow::Stop;
            }
            if lane.queue.len() < lane.depth {
                break;
            }
            if lane.live {
                lane.drop_oldest();
                state.release(index);
                break;
            }
            state = self
                .emptied
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let now = Instant::now();
        state.lanes[index].beat.came(now);
        state.lanes[index].queue.push_back(frame);
        state.lanes[index].queued += 1;
        state.untaken_since.get_or_insert(now);
        self.unlock(state);
        self.filled.notify_all();
        Flow::Continue
    }

    /// Fills `batch` with 1 to `size` frames, waiting at most `timeout` for company of the first one.
    ///
    /// Returns false, with an empty batch, when every lane is closed and drained.
    pub fn next_batch(&self, size: usize, timeout: Duration, batch: &mut Vec<Ticketed>) -> bool {
        batch.clear();
        let mut state = self.lock();
        while !state.over() && (state.forming || !state.has_frames()) {
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.over() {
            drop(state);
            // The other workers must see it too.
            self.filled.notify_all();
            return false;
        }
        state.forming = true;
        state.take(size, batch);
        self.emptied.notify_all();
        let deadline = Instant::now() + timeout;
        while batch.len() < size {
            let now = Instant::now();
            let Some(until) = state.company(now, deadline).filter(|until| *until > now) else {
                break;
            };
            state = self
                .filled
                .wait_timeout(state, until - now)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            state.take(size, batch);
            self.emptied.notify_all();
        }
        state.forming = false;
        state.batches -= 1;
        if state.batches == 0 {
            state.end();
        }
        self.unlock(state);
        self.filled.notify_all();
        self.emptied.notify_all();
        true
    }

    /// No more frames are taken from this source; those that wait are still handed out.
    pub fn close(&self, source: SourceId) {
        self.lock().lanes[source.index()].open = false;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Closes every lane.
    pub fn close_all(&self) {
        for lane in &mut self.lock().lanes {
            lane.open = false;
        }
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Closes every lane and forgets what waits: for an end without draining.
    pub fn abandon(&self) {
        let mut state = self.lock();
        for lane in &mut state.lanes {
            lane.open = false;
            lane.queue.clear();
            lane.carried.clear();
            lane.partings.clear();
        }
        state.untaken_since = None;
        drop(state);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// How long frames have waited since one was last taken; `None` where none waits.
    #[must_use]
    pub fn untaken(&self) -> Option<Duration> {
        self.lock().untaken_since.map(|since| since.elapsed())
    }

    /// Frames of this source that were replaced by newer ones.
    #[must_use]
    pub fn dropped(&self, source: SourceId) -> u64 {
        self.lock().lanes[source.index()].dropped
    }

    /// Frames that were taken from this source in all, once it is closed and drained; `None` before.
    #[must_use]
    pub fn drained(&self, source: SourceId) -> Option<u64> {
        let state = self.lock();
        let lane = &state.lanes[source.index()];
        (!lane.open && (lane.queue.is_empty() || state.allowance == 0)).then_some(lane.taken)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_frames(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.queue.is_empty())
    }

    fn over(&self) -> bool {
        let comes = |lane: &Lane| lane.open || !lane.queue.is_empty();
        self.allowance == 0 || !(self.held || self.lanes.iter().any(comes))
    }

    /// Until when a batch that is sent at `deadline` waits for company; `None`: no frame is due by then.
    fn company(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        let lanes = self.turns.iter().map(|&index| &self.lanes[index]);
        lanes.filter_map(|lane| lane.due(now, deadline)).max()
    }

    /// Moves waiting frames into `batch` until it has `size`, in turns.
    fn take(&mut self, size: usize, batch: &mut Vec<Ticketed>) {
        let count = self.turns.len();
        let mut idle = 0;
        while batch.len() < size && idle < count && self.allowance > 0 {
            let index = self.turns[self.next];
            let lane = &mut self.lanes[index];
            self.next = (self.next + 1) % count;
            if let Some(frame) = lane.queue.pop_front() {
                batch.push(Ticketed {
                    ticket: lane.taken,
                    frame,
                });
                lane.taken += 1;
                self.allowance -= 1;
                self.release(index);
                idle = 0;
            } else {
                idle += 1;
            }
        }
        self.untaken_since = self.has_frames().then(Instant::now);
        if self.allowance == 0 {
            self.end();
        }
    }

    /// Hands out no more.
    fn end(&mut self) {
        self.allowance = 0;
        self.untaken_since = None;
        for lane in &mut self.lanes {
            lane.open = false;
        }
    }
}

impl Lane {
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
            beat: Beat::default(),
            dropped: 0,
            taken: 0,
            queued: 0,
            carried: VecDeque::new(),
            partings: VecDeque::new(),
        }
    }

    /// Until when a batch that is sent at `deadline` waits for this lane; `None`: its next frame is not due by then.
    fn due(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        if !self.open || !self.running {
            return None;
        }
        // A file's reader is as fast as its frames are taken, so that it has no beat of its own.
        match self.beat.next().filter(|_| self.live) {
            Some((from, until)) => (from <= deadline && now < until).then(|| until.min(deadline)),
            None => Some(deadline),
        }
    }
}

#[cfg(test)]
mod tests;
