//! Progress of the pipeline's threads: each marks the start of a piece of work and the wait for input.
//!
//! A thread may wait for input without limit; one that works on the same piece for too long is stalled.
//! Marks are single lock-free stores. The watchdog polls them; nothing here acts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The mark of a thread that waits for input, or that has ended.
const IDLE: u64 = 0;

/// The threads of one pipeline. Clones share them.
#[derive(Clone)]
pub struct Heartbeats {
    origin: Instant,
    slots: Arc<Mutex<Vec<Arc<Slot>>>>,
}

struct Slot {
    name: String,
    /// Milliseconds from `origin` to the start of the current piece of work, plus one; or [`QUEUE_CAPACITY`].
    since: AtomicU64,
}

/// Heartbeat of one thread, owned by the thread. Dropped with the thread's work: an ended thread is not stalled.
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
    #[must_use]
    pub fn register(&self, name: &str) -> Heartbeat {
        let mark = Arc::new(Slot {
            name: name.to_owned(),
            since: AtomicU64::new(IDLE),
        });
        let mut pulses = self.slots.lock();
        // Sources come and go: drop the marks of ended threads.
        pulses.retain(|mark| Arc::strong_count(mark) > 1);
        pulses.push(Arc::clone(&mark));
        drop(pulses);
        Heartbeat {
            origin: self.origin,
            slot: mark,
        }
    }

    /// The thread that has worked on one piece for the longest time, when that is `limit` or more.
    #[must_use]
    pub fn stalled(&self, limit: Duration) -> Option<(String, Duration)> {
        self.stalled_at(elapsed_ms(self.origin), limit)
    }

    fn stalled_at(&self, now_ms: u64, limit: Duration) -> Option<(String, Duration)> {
        self.slots
            .lock()
            .iter()
            .filter_map(|mark| {
                let since = mark.since.load(Ordering::Relaxed).checked_sub(1)?;
                let worked = Duration::from_millis(now_ms.saturating_sub(since));
                (worked >= limit).then(|| (mark.name.clone(), worked))
            })
            .max_by_key(|(_, worked)| *worked)
    }
}

impl Heartbeat {
    /// A new piece of work starts; the earlier one is done.
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
        let pulses = Heartbeats::default();
        let (worker, idle) = (pulses.register("worker"), pulses.register("idle"));
        let limit = Duration::from_secs(10);
        // A minute later by the clock of the marks.
        let later = elapsed_ms(pulses.origin) + 60_000;
        worker.busy();
        idle.busy();
        idle.idle();
        let (name, worked) = pulses
            .stalled_at(later, limit)
            .expect("the worker is stuck");
        assert_eq!(name, "worker");
        assert!(worked >= Duration::from_secs(59), "{worked:?}");
        assert!(
            pulses.stalled(limit).is_none(),
            "a piece that was just begun is no stall"
        );
        drop(worker);
        assert!(
            pulses.stalled_at(later, limit).is_none(),
            "an ended thread is not stuck"
        );
    }

    #[test]
    fn longest_stalled_thread_is_reported() {
        let pulses = Heartbeats::default();
        let (first, second) = (pulses.register("first"), pulses.register("second"));
        first.slot.since.store(5_001, Ordering::Relaxed);
        second.slot.since.store(1, Ordering::Relaxed);
        let found = pulses.stalled_at(30_000, Duration::from_secs(20));
        assert_eq!(found, Some(("second".to_owned(), Duration::from_secs(30))));
    }
}
