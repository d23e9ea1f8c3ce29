// SPDX-License-Identifier: Apache-2.0
//! What became of the work of each output (messages, recordings, pictures), and for how long its thread was at work. An output is a
//! step of the pipeline that nothing waits for: where it is too slow, its queue grows, and then it loses something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// Time in which the threads of an output were at work, or were held by its receiver. Clones share it.
#[derive(Debug, Clone)]
pub struct BusyTime(Arc<Mutex<Busy>>);

#[derive(Debug)]
struct Busy {
    total: Duration,
    /// Threads at work since `since`; what they did before is in `total`.
    threads: u32,
    since: Instant,
}

impl Default for BusyTime {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Busy {
            total: Duration::ZERO,
            threads: 0,
            since: Instant::now(),
        })))
    }
}

impl Busy {
    fn settle(&mut self) {
        let now = Instant::now();
        self.total += now.duration_since(self.since) * self.threads;
        self.since = now;
    }
}

impl BusyTime {
    /// Adds a time.
    pub fn add(&self, time: Duration) {
        self.0.lock().total += time;
    }

    /// Adds the time of `work`, also while it lasts: a receiver may hold it without end.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        self.count(|threads| threads + 1);
        let done = work();
        self.count(|threads| threads - 1);
        done
    }

    fn count(&self, change: impl FnOnce(u32) -> u32) {
        let mut busy = self.0.lock();
        busy.settle();
        busy.threads = change(busy.threads);
    }

    /// The sum so far.
    #[must_use]
    pub fn total(&self) -> Duration {
        let mut busy = self.0.lock();
        busy.settle();
        busy.total
    }
}

/// Counters of an output that takes no messages. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct OutputMeter {
    /// Time at work.
    pub busy: BusyTime,
    counts: Arc<[AtomicU64; 2]>,
}

impl OutputMeter {
    /// One was done.
    pub fn delivered(&self) {
        self.counts[0].fetch_add(1, Ordering::Relaxed);
    }

    /// This many were left out.
    pub fn lost(&self, count: u64) {
        self.counts[1].fetch_add(count, Ordering::Relaxed);
    }

    /// The counters so far, of the output `name`, which counts `items`.
    pub fn report(&self, name: &str, items: &str) -> OutputReport {
        let [delivered, lost] = [0, 1].map(|at| self.counts[at].load(Ordering::Relaxed));
        OutputReport {
            name: name.to_owned(),
            items: items.to_owned(),
            accepted: delivered + lost,
            delivered,
            lost,
            busy_ms: self.busy.total().as_secs_f64() * 1e3,
            ..OutputReport::default()
        }
    }
}

/// What one output did over a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OutputReport {
    /// Its name: that of its thread, with that of the entry where there are several.
    pub name: String,
    /// What it counts, such as `messages`.
    pub items: String,
    /// Those that it was given.
    pub accepted: u64,
    /// Those that were acknowledged or written.
    pub delivered: u64,
    /// Those that will never arrive. What waits in a spool, and what a newer value replaced, is not lost.
    pub lost: u64,
    /// Those that waited when the run ended, before the outputs were closed.
    pub queued: u64,
    /// The most that waited at a time.
    pub max_queued: u64,
    /// Time in which its thread was at work, or was held by its receiver, in ms.
    pub busy_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_counts_what_it_did_and_lost() {
        let meter = OutputMeter::default();
        let thread = meter.clone();
        thread.delivered();
        thread.lost(2);
        thread.busy.add(Duration::from_millis(3));
        assert_eq!(thread.busy.time(|| 7), 7);
        let report = meter.report("media", "images");
        assert_eq!((report.accepted, report.delivered, report.lost), (3, 1, 2));
        assert!(report.busy_ms >= 3.0 && report.name == "media");
    }

    #[test]
    fn work_that_is_not_done_counts() {
        let busy = BusyTime::default();
        let inside = busy.time(|| {
            std::thread::sleep(Duration::from_millis(2));
            busy.total()
        });
        assert!(inside >= Duration::from_millis(2), "{inside:?}");
        let after = busy.total();
        assert!(after >= inside);
        assert_eq!(busy.total(), after, "it has ended");
    }
}
