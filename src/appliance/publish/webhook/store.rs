// SPDX-License-Identifier: Apache-2.0
//! Where events wait: in a spool, or in memory without one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::SinkCounts;
use crate::mqtt::wall_clock::{WallClock, shifted};
use jetwatch_config::{Durability, WebhookConfig};
use jetwatch_spool::{ClockShift, FolderProblem, Folders, Spool};
use jetwatch_telemetry::{BusyTime, systemd};

/// Most events that wait in memory.
const MEMORY_EVENTS: usize = 1000;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Identity of its numbering.
    pub id: u64,
    pub seq: u64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its word in the configuration.
    pub event: String,
    pub is_update: bool,
    /// JSON.
    pub payload: Vec<u8>,
}

/// Shared by the pipeline's thread and the one that posts; the lock is held for a few copies.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of the first event of this process.
    first_own: u64,
    /// In requests.
    pub busy: BusyTime,
}

#[derive(Debug, Default)]
struct State {
    clock: WallClock,
    memory: VecDeque<Entry>,
    /// There is an event that the thread has not seen.
    is_woken: bool,
    closing: Option<Instant>,
    /// The counts of this process.
    accepted: u64,
    delivered: u64,
    dropped: u64,
}

impl Shared {
    pub fn new(first_own: u64, spool: Option<&Spool>) -> Self {
        let mut state = State::default();
        if let Some(spool) = spool {
            state.clock.resume(first_own - 1, spool.kept_clock());
        }
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            first_own,
            busy: BusyTime::default(),
        }
    }

    /// The time of the event `seq`, which is made now, in milliseconds since 1970.
    pub fn stamp(&self, seq: u64) -> u64 {
        let mut state = self.state.lock();
        let (now_ms, _) = state.clock.read();
        state.clock.stamped(seq);
        now_ms
    }

    /// The age of an event.
    pub fn age(&self, entry: &Entry) -> Duration {
        let mut state = self.state.lock();
        let (now_ms, _) = state.clock.read();
        let at_ms = shifted(entry.at_ms, state.clock.shift(entry.seq));
        Duration::from_millis(now_ms.saturating_sub(at_ms))
    }

    /// What a later process has to know of the clock, and from when on events are kept; events up to `acked` are done.
    pub fn clock(
        &self,
        acked: u64,
        max_age: Duration,
    ) -> (ClockShift, impl Fn(u64) -> u64 + use<>) {
        let mut state = self.state.lock();
        let (now_ms, _) = state.clock.read();
        state.clock.forget(acked);
        (state.clock.kept(), state.clock.older_than(now_ms, max_age))
    }

    /// Queues events in memory; returns how many others are dropped for them.
    pub fn push(&self, entries: impl Iterator<Item = Entry>) -> u64 {
        let mut state = self.state.lock();
        let before = state.dropped;
        for entry in entries {
            state.accepted += 1;
            state.memory.push_back(entry);
            if state.memory.len() > MEMORY_EVENTS {
                let update = state.memory.iter().position(|entry| entry.is_update);
                state.memory.remove(update.unwrap_or(0));
                state.dropped += 1;
            }
        }
        state.dropped - before
    }

    /// Takes events that wait in memory.
    pub fn take(&self, count: usize) -> Vec<Entry> {
        let mut state = self.state.lock();
        let count = count.min(state.memory.len());
        state.memory.drain(..count).collect()
    }

    /// `count` events are about to be stored.
    pub fn accept(&self, count: u64) {
        self.state.lock().accepted += count;
    }

    /// `count` of them could not be stored.
    pub fn refuse(&self, count: u64) {
        self.state.lock().dropped += count;
    }

    /// The event `seq` is done. Those of an earlier process are not counted.
    pub fn done(&self, seq: u64, is_delivered: bool) {
        if seq < self.first_own {
            return;
        }
        let mut state = self.state.lock();
        match is_delivered {
            true => state.delivered += 1,
            false => state.dropped += 1,
        }
    }

    /// The events of this process.
    pub fn counts(&self) -> SinkCounts {
        let state = self.state.lock();
        SinkCounts {
            accepted: state.accepted,
            delivered: state.delivered,
            dropped: state.dropped,
            queued: state.accepted - state.delivered - state.dropped,
            busy: self.busy.total(),
            ..SinkCounts::default()
        }
    }

    /// What waits is lost.
    pub fn abandon(&self) {
        let mut state = self.state.lock();
        state.memory.clear();
        state.dropped = state.accepted - state.delivered;
    }

    pub fn wake(&self) {
        self.state.lock().is_woken = true;
        self.changed.notify_one();
    }

    /// The thread ends by `deadline`.
    pub fn close_by(&self, deadline: Instant) {
        self.state.lock().closing = Some(deadline);
        self.changed.notify_one();
    }

    pub fn closing(&self) -> Option<Instant> {
        self.state.lock().closing
    }

    /// Waits until `until`, or until it is woken. The end of the sink always wakes, and new events with `for_events`.
    pub fn wait(&self, until: Instant, for_events: bool) {
        let mut state = self.state.lock();
        while state.closing.is_none() && !(for_events && state.is_woken) {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        if for_events {
            state.is_woken = false;
        }
    }
}

/// Where the spool of a webhook is.
#[must_use]
pub fn webhook_folders(config: &WebhookConfig) -> Folders {
    let spool = &config.spool;
    Folders {
        front: config.runtime_path(),
        back: (spool.durability != Durability::Process).then(|| config.state_path()),
        max_bytes: spool.max_bytes,
    }
}

/// Opens the spool, and logs what is wrong with it; `None`: events wait in memory only.
pub(super) fn open(config: &WebhookConfig) -> Option<Spool> {
    let webhook = config.name.as_str();
    let spool = &config.spool;
    let folders = webhook_folders(config);
    for around in [
        folders.front.parent(),
        folders.back.as_ref().and_then(|back| back.parent()),
    ] {
        // Fails without the package; opening reports what matters.
        let _ = around.map(std::fs::create_dir);
    }
    let (opened, problems) = Spool::open(&folders);
    let is_wanted =
        spool.runtime_folder.is_some() || spool.state_folder.is_some() || systemd::is_managed();
    if opened.is_none() && !is_wanted {
        log::info!(webhook; "events wait in memory only: there is no {}, which the package makes", folders.front.display());
        return None;
    }
    for problem in problems {
        match problem {
            FolderProblem::Front(error) if opened.is_none() => {
                log::warn!(webhook; "events wait in memory only: {error}; see publish.webhooks[].spool");
            }
            FolderProblem::Front(error) => {
                log::warn!(webhook; "the spool has no folder on tmpfs: {error}");
            }
            FolderProblem::Back(error) => log::warn!(
                webhook; "a power cut loses events that wait: {error}; see publish.webhooks[].spool"
            ),
            FolderProblem::FrontOnDevice(path) => log::info!(
                webhook; "the spool's folder {} is not on tmpfs: each event is written to its device", path.display()
            ),
            FolderProblem::Repaired(path, found) => log::warn!(
                webhook, torn_bytes = found.torn_bytes, damaged_files = found.damaged.len();
                "the spool in {} was damaged; what is whole in it is sent", path.display()
            ),
        }
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, is_update: bool) -> Entry {
        Entry {
            id: 1,
            seq,
            at_ms: 0,
            event: String::new(),
            is_update,
            payload: Vec::new(),
        }
    }

    #[test]
    fn memory_is_bounded_and_updates_go_first() {
        let shared = Shared::new(1, None);
        let many = MEMORY_EVENTS as u64;
        let dropped = shared.push((1..=many).map(|seq| entry(seq, seq == 500)));
        assert_eq!(dropped, 0);
        assert_eq!(shared.push([entry(many + 1, false)].into_iter()), 1);
        assert_eq!(shared.push([entry(many + 2, false)].into_iter()), 1);
        let taken = shared.take(usize::MAX);
        assert_eq!(taken.len(), MEMORY_EVENTS);
        assert_eq!(taken[0].seq, 2);
        assert!(taken.iter().all(|entry| entry.seq != 500));
        for entry in &taken[..3] {
            shared.done(entry.seq, entry.seq != 3);
        }
        let counts = shared.counts();
        assert_eq!((counts.delivered, counts.dropped), (2, 3));
        shared.abandon();
        let counts = shared.counts();
        assert_eq!(counts.accepted, counts.delivered + counts.dropped);
    }

    #[test]
    fn events_of_an_earlier_process_are_not_counted() {
        let shared = Shared::new(10, None);
        shared.done(9, true);
        assert_eq!(shared.counts(), SinkCounts::default());
    }
}
