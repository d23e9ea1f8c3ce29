//! Whether the threads of the chain make progress: each marks when it begins to work and when it waits for input.
//!
//! A thread that waits for input is well however long that takes; one that works on the same piece for too long is stuck.
//! Marks are single stores without a lock. The watchdog asks; nothing here acts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The mark of a thread that waits for input, or that has ended.
const WAITING: u64 = 0;

/// The threads of one chain. Clones see the same threads.
#[derive(Clone)]
pub struct Pulses {
    origin: Instant,
    pulses: Arc<Mutex<Vec<Arc<Mark>>>>,
}

struct Mark {
    name: String,
    /// Milliseconds from `origin` to the begin of the piece of work at hand, plus one; or [`WAITING`].
    since: AtomicU64,
}

/// One thread's mark, which the thread keeps. Dropped with the thread's work: an ended thread is not stuck.
pub struct Pulse {
    origin: Instant,
    mark: Arc<Mark>,
}

impl Default for Pulses {
    fn default() -> Self {
        Self {
            origin: Instant::now(),
            pulses: Arc::default(),
        }
    }
}

impl Pulses {
    /// A mark for one more thread, which waits for now.
    #[must_use]
    pub fn join(&self, name: &str) -> Pulse {
        let mark = Arc::new(Mark {
            name: name.to_owned(),
            since: AtomicU64::new(WAITING),
        });
        let mut pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        // Sources come and go: who has ended holds its mark no more.
        pulses.retain(|mark| Arc::strong_count(mark) > 1);
        pulses.push(Arc::clone(&mark));
        drop(pulses);
        Pulse {
            origin: self.origin,
            mark,
        }
    }

    /// The thread that has worked on one piece for the longest time, when that is `limit` or more.
    #[must_use]
    pub fn stuck(&self, limit: Duration) -> Option<(String, Duration)> {
        self.stuck_at(elapsed_ms(self.origin), limit)
    }

    fn stuck_at(&self, now_ms: u64, limit: Duration) -> Option<(String, Duration)> {
        self.pulses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter_map(|mark| {
                let since = mark.since.load(Ordering::Relaxed).checked_sub(1)?;
                let worked = Duration::from_millis(now_ms.saturating_sub(since));
                (worked >= limit).then(|| (mark.name.clone(), worked))
            })
            .max_by_key(|(_, worked)| *worked)
    }
}

impl Pulse {
    /// A new piece of work begins; what was begun before is done.
    pub fn works(&self) {
        self.mark
            .since
            .store(elapsed_ms(self.origin) + 1, Ordering::Relaxed);
    }

    /// All is done; the thread waits for input, for others, or for a time.
    pub fn waits(&self) {
        self.mark.since.store(WAITING, Ordering::Relaxed);
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.waits();
    }
}

fn elapsed_ms(origin: Instant) -> u64 {
    origin.elapsed().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_on_one_piece_makes_a_thread_stuck() {
        let pulses = Pulses::default();
        let (worker, idle) = (pulses.join("worker"), pulses.join("idle"));
        let limit = Duration::from_secs(10);
        // A minute later by the clock of the marks.
        let later = elapsed_ms(pulses.origin) + 60_000;
        worker.works();
        idle.works();
        idle.waits();
        let (name, worked) = pulses.stuck_at(later, limit).expect("the worker is stuck");
        assert_eq!(name, "worker");
        assert!(worked >= Duration::from_secs(59), "{worked:?}");
        assert!(
            pulses.stuck(limit).is_none(),
            "a piece that was just begun is no stall"
        );
        drop(worker);
        assert!(
            pulses.stuck_at(later, limit).is_none(),
            "an ended thread is not stuck"
        );
    }

    #[test]
    fn the_longest_is_named() {
        let pulses = Pulses::default();
        let (first, second) = (pulses.join("first"), pulses.join("second"));
        first.mark.since.store(5_001, Ordering::Relaxed);
        second.mark.since.store(1, Ordering::Relaxed);
        let found = pulses.stuck_at(30_000, Duration::from_secs(20));
        assert_eq!(found, Some(("second".to_owned(), Duration::from_secs(30))));
    }
}
