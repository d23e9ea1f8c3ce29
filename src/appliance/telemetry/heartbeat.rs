// SPDX-License-Identifier: Apache-2.0
//! Heartbeats of the pipeline's threads: each marks the start of a task and the wait for input.
//!
//! A thread may wait for input without limit; one that works on the same task for too long is stalled.
//! Marks are single lock-free stores. The watchdog polls them; this module only reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Value of [`Slot::since`] for a thread that waits for input, or that has ended.
const IDLE: u64 = 0;

/// The threads of one pipeline. Clones share them.
#[derive(Clone)]
pub struct Heartbeats {
    origin: Instant,
    slots: Arc<Mutex<Vec<Arc<Slot>>>>,
}

struct Slot {
    name: String,
    /// Milliseconds from `origin` to the start of the current task, plus one; or [`IDLE`].
    since: AtomicU64,
}

/// Heartbeat of one thread, owned by that thread. Dropping it marks the thread as idle: an ended thread is not stalled.
pub struct Heartbeat {
    origin: Instant,
    slot: Arc<Slot>,
}

impl Default for Heartbeats {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            slots: Arc::default(),
        }
    }
}

impl Heartbeats {
    /// A heartbeat for one more thread, initially waiting.
    pub fn register(&self, name: &str) -> Heartbeat {
        let slot = Arc::new(Slot {
            name: name.to_owned(),
            since: AtomicU64::new(IDLE),
        });
        let mut slots = self.slots.lock();
        // Sources are added and removed: drop the slots of ended threads.
        slots.retain(|slot| Arc::strong_count(slot) > 1);
        slots.push(Arc::clone(&slot));
        drop(slots);
        Heartbeat {
            origin: self.origin,
            slot,
        }
    }

    /// Name of the thread with the longest running task and that task's duration so far, when it is `limit` or more.
    #[must_use]
    pub fn stalled(&self, limit: Duration) -> Option<(String, Duration)> {
        self.stalled_at(elapsed_ms(self.origin), limit)
    }

    fn stalled_at(&self, now_ms: u64, limit: Duration) -> Option<(String, Duration)> {
        self.slots
            .lock()
            .iter()
            .filter_map(|slot| {
                let since = slot.since.load(Ordering::Relaxed).checked_sub(1)?;
                let worked = Duration::from_millis(now_ms.saturating_sub(since));
                (worked >= limit).then(|| (slot.name.clone(), worked))
            })
            .max_by_key(|(_, worked)| *worked)
    }
}

impl Heartbeat {
    /// A new task starts; the previous one is done.
    pub fn busy(&self) {
        self.slot
            .since
            .store(elapsed_ms(self.origin) + 1, Ordering::Relaxed);
    }

    /// All work is done; the thread waits for input, for other threads, or for a time.
    pub fn idle(&self) {
        self.slot.since.store(IDLE, Ordering::Relaxed);
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.idle();
    }
}

fn elapsed_ms(origin: Instant) -> u64 {
    origin.elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_stalls_only_on_single_long_task() {
        let heartbeats = Heartbeats::default();
        let (worker, idle) = (heartbeats.register("worker"), heartbeats.register("idle"));
        let limit = Duration::from_secs(10);
        // A minute later by the clock of the heartbeats.
        let later = elapsed_ms(heartbeats.origin) + 60_000;
        worker.busy();
        idle.busy();
        idle.idle();
        let (name, worked) = heartbeats
            .stalled_at(later, limit)
            .expect("the worker is stuck");
        assert_eq!(name, "worker");
        assert!(worked >= Duration::from_secs(59), "{worked:?}");
        // A task that has just started is not a stall.
        assert!(heartbeats.stalled(limit).is_none());
        drop(worker);
        // An ended thread is not stuck.
        assert!(heartbeats.stalled_at(later, limit).is_none());
    }

    #[test]
    fn longest_stalled_thread_is_reported() {
        let heartbeats = Heartbeats::default();
        let (first, second) = (heartbeats.register("first"), heartbeats.register("second"));
        first.slot.since.store(5_001, Ordering::Relaxed);
        second.slot.since.store(1, Ordering::Relaxed);
        let found = heartbeats.stalled_at(30_000, Duration::from_secs(20));
        assert_eq!(found, Some(("second".to_owned(), Duration::from_secs(30))));
    }
}
