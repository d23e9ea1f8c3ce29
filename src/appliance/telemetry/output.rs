// SPDX-License-Identifier: Apache-2.0
//! What became of the work of each output (messages, recordings, pictures), and for how long its thread was at work. An output is a
//! step of the pipeline that nothing waits for: where it is too slow, its queue grows, and then it loses something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Time in which the thread of an output was at work, or was held by its receiver. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct BusyTime(Arc<AtomicU64>);

impl BusyTime {
    /// Adds a time.
    pub fn add(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(ns, Ordering::Relaxed);
    }

    /// Adds the time of `work`.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.add(started.elapsed());
        done
    }

    /// The sum so far.
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
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
}
