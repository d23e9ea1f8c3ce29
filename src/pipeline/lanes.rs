//! Where frames wait for the detector: one lane a source, batches taken across them.
//!
//! A live lane keeps the newest frame and counts what it replaces; a file's lane makes the reader wait, so that nothing is
//! dropped. A worker takes frames only when it is free to run them, so no batch ages in a queue. Frames are taken in turns,
//! one from each lane that has any, starting behind the lane that was served last: a fast source cannot starve a slow one.

mod skip;

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::source::Flow;
use crate::types::{Frame, FrameMeta, SourceId};

use super::cadence::Cadence;

use self::skip::Carry;

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
    state: Mutex<State>,
    /// Frames have come, or no more will.
    filled: Condvar,
    /// A frame was taken, or no more are wanted.
    emptied: Condvar,
}

struct State {
    lanes: Vec<Lane>,
    /// Which frames skip the network.
    cadence: Cadence,
    /// Time in which workers were busy.
    worked: Duration,
    /// Frames that skipped the network and whose turn has come.
    freed: Vec<(u64, FrameMeta)>,
    /// Lane to look at first.
    next: usize,
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
    dropped: u64,
    taken: u64,
    /// Frames that were queued so far.
    queued: u64,
    /// Frames that skipped the network, each with how many were queued before it: they wait for their place in the order.
    carried: VecDeque<(u64, FrameMeta)>,
}

impl Lanes {
    /// One lane for each entry of `live`; at most `most_frames` are handed out in all.
    #[must_use]
    pub fn new(live: &[bool], batch_size: usize, most_frames: Option<u64>) -> Self {
        let lanes = live
            .iter()
            .map(|&live| {
                let depth = if live {
                    LIVE_DEPTH
                } else {
                    batch_size + FILE_SLACK
                };
                Lane {
                    queue: VecDeque::with_capacity(depth),
                    live,
                    depth,
                    open: true,
                    dropped: 0,
                    taken: 0,
                    queued: 0,
                    carried: VecDeque::new(),
                }
            })
            .collect();
        Self {
            carry: None,
            state: Mutex::new(State {
                lanes,
                cadence: Cadence::new(&[], 0, 1),
                worked: Duration::ZERO,
                freed: Vec::new(),
                next: 0,
                forming: false,
                allowance: most_frames.unwrap_or(u64::MAX),
                batches: u64::MAX,
                untaken_since: None,
            }),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
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
                lane.queue.pop_front();
                lane.dropped += 1;
                state.release(index);
                break;
            }
            state = self
                .emptied
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.lanes[index].queue.push_back(frame);
        state.lanes[index].queued += 1;
        state.untaken_since.get_or_insert_with(Instant::now);
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
        while batch.len() < size && state.more_can_come() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self
                .filled
                .wait_timeout(state, left)
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

    fn more_can_come(&self) -> bool {
        self.allowance > 0
            && self
                .lanes
                .iter()
                .any(|lane| lane.open || !lane.queue.is_empty())
    }

    fn over(&self) -> bool {
        !self.more_can_come()
    }

    /// Moves waiting frames into `batch` until it has `size`, in turns.
    fn take(&mut self, size: usize, batch: &mut Vec<Ticketed>) {
        let count = self.lanes.len();
        let mut idle = 0;
        while batch.len() < size && idle < count && self.allowance > 0 {
            let index = self.next;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::SystemTime;

    use super::*;
    use crate::types::{FrameMeta, Picture, Size};

    const NO_WAIT: Duration = Duration::ZERO;

    fn frame(source: u16, seq: u64) -> Frame {
        let size = Size::new(1, 1);
        let meta = FrameMeta {
            source: SourceId(source),
            seq,
            pts: None,
            captured_at: SystemTime::UNIX_EPOCH,
            entered_at: Instant::now(),
            source_size: size,
        };
        Frame {
            meta,
            picture: Picture::new(size, 4, Box::new([0; 4])).expect("four bytes are one pixel"),
            view: None,
            truth: Vec::new(),
        }
    }

    fn numbers(batch: &[Ticketed]) -> Vec<(u16, u64, u64)> {
        batch
            .iter()
            .map(|item| (item.frame.meta.source.0, item.frame.meta.seq, item.ticket))
            .collect()
    }

    #[test]
    fn a_live_lane_keeps_the_newest_and_counts_the_rest() {
        let lanes = Lanes::new(&[true], 4, None);
        for seq in 0..5 {
            assert_eq!(lanes.offer(frame(0, seq)), Flow::Continue);
        }
        let mut batch = Vec::new();
        assert!(lanes.next_batch(4, NO_WAIT, &mut batch));
        assert_eq!(numbers(&batch), [(0, 4, 0)]);
        assert_eq!(lanes.dropped(SourceId(0)), 4);
    }

    #[test]
    fn a_file_waits_and_loses_nothing() {
        let lanes = Arc::new(Lanes::new(&[false], 1, None));
        let reader = thread::spawn({
            let lanes = Arc::clone(&lanes);
            move || {
                for seq in 0..500 {
                    assert_eq!(lanes.offer(frame(0, seq)), Flow::Continue);
                }
                lanes.close(SourceId(0));
            }
        });
        let mut seen = Vec::new();
        let mut batch = Vec::new();
        while lanes.next_batch(3, NO_WAIT, &mut batch) {
            seen.extend(batch.iter().map(|item| (item.ticket, item.frame.meta.seq)));
        }
        reader.join().expect("the reader does not panic");
        assert_eq!(seen, (0..500).map(|n| (n, n)).collect::<Vec<_>>());
        assert_eq!(
            (lanes.dropped(SourceId(0)), lanes.drained(SourceId(0))),
            (0, Some(500))
        );
    }

    #[test]
    fn sources_take_turns_whatever_their_speed() {
        let lanes = Lanes::new(&[false, false, true], 8, None);
        for seq in 0..6 {
            lanes.offer(frame(0, seq));
        }
        lanes.offer(frame(1, 0));
        lanes.offer(frame(2, 0));
        let mut batch = Vec::new();
        assert!(lanes.next_batch(4, NO_WAIT, &mut batch));
        assert_eq!(
            numbers(&batch),
            [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 1)]
        );
    }

    #[test]
    fn a_batch_waits_for_company_but_not_longer_than_its_timeout() {
        let lanes = Arc::new(Lanes::new(&[true, true], 2, None));
        lanes.offer(frame(0, 0));
        let late = thread::spawn({
            let lanes = Arc::clone(&lanes);
            move || lanes.offer(frame(1, 0))
        });
        let mut batch = Vec::new();
        assert!(lanes.next_batch(2, Duration::from_secs(60), &mut batch));
        assert_eq!(batch.len(), 2, "the second frame came within the minute");
        late.join().expect("the source does not panic");
        lanes.offer(frame(1, 1));
        assert!(lanes.next_batch(2, Duration::from_millis(5), &mut batch));
        assert_eq!(numbers(&batch), [(1, 1, 1)], "alone when nobody comes");
    }

    #[test]
    fn the_allowance_is_exact() {
        let lanes = Lanes::new(&[false], 4, Some(3));
        for seq in 0..4 {
            lanes.offer(frame(0, seq));
        }
        let mut batch = Vec::new();
        assert!(lanes.next_batch(4, NO_WAIT, &mut batch));
        assert_eq!(batch.len(), 3);
        assert!(!lanes.next_batch(4, NO_WAIT, &mut batch));
        assert_eq!(lanes.offer(frame(0, 5)), Flow::Stop);
        assert_eq!(lanes.drained(SourceId(0)), Some(3));
    }

    #[test]
    fn frames_that_nobody_takes_are_noticed_whether_replaced_or_not() {
        let lanes = Lanes::new(&[true], 1, None);
        assert_eq!(lanes.untaken(), None, "nothing waits");
        lanes.offer(frame(0, 0));
        let first = lanes.lock().untaken_since;
        lanes.offer(frame(0, 1));
        assert!(first.is_some() && lanes.lock().untaken_since == first);
        let mut batch = Vec::new();
        assert!(lanes.next_batch(1, NO_WAIT, &mut batch));
        assert_eq!(lanes.untaken(), None, "what waited was taken");
    }

    #[test]
    fn closing_frees_a_reader_that_waits() {
        let lanes = Arc::new(Lanes::new(&[false], 1, None));
        for seq in 0..=FILE_SLACK as u64 {
            lanes.offer(frame(0, seq));
        }
        let waiting = thread::spawn({
            let lanes = Arc::clone(&lanes);
            move || lanes.offer(frame(0, 1))
        });
        lanes.close_all();
        assert_eq!(
            waiting.join().expect("the reader does not panic"),
            Flow::Stop
        );
    }
}
