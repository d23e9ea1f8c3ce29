// SPDX-License-Identifier: Apache-2.0
//! Every range of a run, for `jetwatch bench`: the histograms of the recorder do not store single times.
//!
//! A trace is fed by the same calls that emit NVTX ranges. The daemon has no trace and does not pay for it. A range
//! belongs to the batch that is open on its thread; work outside of a batch, such as the warm-up of a network, is omitted.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::stage_kind::Stage;

jetwatch_types::named_enum! {
    /// Kind of thread that a batch runs on. Batches are numbered per level.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(usize)]
    pub enum Level {
        /// The threads of the sources: one frame at a time.
        Source = "source",
        /// The detector's workers: one batch at a time, from the wait for its frames to its detections.
        Detect = "detect",
        /// The tracking stage: one frame at a time.
        Track = "track",
        /// The workers of secondary networks: one batch of crops at a time, from the wait for them to their results.
        Secondary = "secondary",
        /// The recording: one frame at a time.
        Record = "record",
    }

    /// The name in reports.
    pub fn name;
}

impl Level {
    /// Whether the pipeline does not wait for these threads.
    #[must_use]
    pub const fn is_asynchronous(self) -> bool {
        matches!(self, Self::Secondary | Self::Record)
    }

    /// The name of one batch on the timeline.
    pub(super) const fn batch_name(self) -> &'static str {
        match self {
            Self::Source => "source_frame",
            Self::Detect => "detect_batch",
            Self::Track => "track_frame",
            Self::Secondary => "secondary_batch",
            Self::Record => "record_frame",
        }
    }
}

/// One range that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// The level of its batch.
    pub level: Level,
    /// Number of the batch within its level, from 0; the last numbers may be missing.
    pub batch: u64,
    /// The stage; `None`: the batch itself.
    pub stage: Option<Stage>,
    /// Frames in it; crops in those of secondary networks.
    pub items: usize,
    /// Start, since the creation of the trace. For stages of a GPU, the time of the report.
    pub started: Duration,
    /// Duration; for stages of a GPU by its clock.
    pub wall: Duration,
    /// CPU time of its thread; zero for stages of a GPU.
    pub cpu: Duration,
}

/// Stores every range. Cheap to clone; all clones share the storage.
#[derive(Clone)]
pub struct Trace {
    inner: Arc<Inner>,
}

struct Inner {
    created: Instant,
    next: [AtomicU64; Level::ALL.len()],
    entries: Mutex<Vec<Entry>>,
}

thread_local! {
    /// The batch that is open on this thread.
    static OPEN: Cell<Option<(Level, u64)>> = const { Cell::new(None) };
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            inner: Arc::new(Inner {
                created: Instant::now(),
                next: Default::default(),
                entries: Mutex::default(),
            }),
        }
    }
}

impl Trace {
    /// Removes and returns all ranges so far, in the order of their ends.
    #[must_use]
    pub fn drain(&self) -> Vec<Entry> {
        let mut entries = self.inner.entries.lock();
        std::mem::take(&mut *entries)
    }

    /// Opens the next batch of `level` on this thread. Returns the batch that was open before, for [`close`](Self::close).
    pub(super) fn open(&self, level: Level) -> Option<(Level, u64)> {
        let number = self.inner.next[level as usize].fetch_add(1, Ordering::Relaxed);
        OPEN.replace(Some((level, number)))
    }

    /// Closes the open batch and stores it with `items` frames; `None`: discards it.
    pub(super) fn close(
        &self,
        before: Option<(Level, u64)>,
        times: Option<(usize, Instant, Duration, Duration)>,
    ) {
        if let Some((items, started, wall, cpu)) = times {
            self.push(None, items, started, wall, cpu);
        }
        OPEN.set(before);
    }

    /// Stores a range of the open batch.
    pub(super) fn push(
        &self,
        stage: Option<Stage>,
        items: usize,
        started: Instant,
        wall: Duration,
        cpu: Duration,
    ) {
        let Some((level, batch)) = OPEN.get() else {
            return;
        };
        let entry = Entry {
            level,
            batch,
            stage,
            items,
            started: started.saturating_duration_since(self.inner.created),
            wall,
            cpu,
        };
        self.inner.entries.lock().push(entry);
    }
}
