// SPDX-License-Identifier: Apache-2.0
//! Stage times: one call opens a range that both Nsight Systems (NVTX) and `--stats` record.
//!
//! A range is pushed on the calling thread and popped when its guard is dropped. NVTX calls end in a null check when no
//! tool is attached. Names: domain `jetwatch`; category of the source, else of the stage; payload = batch size or frame number.

mod buckets;
mod section;

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use jetwatch_nvtx::{LocalRange, Range as CrossRange};
use parking_lot::Mutex;

use self::buckets::Buckets;
use super::latency::Latency;
use super::process::thread_cpu_time;
use super::stage_kind::Stage;
use super::timeline::{SourceCategory, batch_event, stage_event};
use super::trace::{Level, Trace};

pub use self::buckets::{STAGE_BUCKETS, StageHistogram};
pub use self::section::Section;

thread_local! {
    static IN_STAGES: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// CPU time of the calling thread that was recorded as that of stages.
pub fn thread_stage_cpu_time() -> Duration {
    IN_STAGES.get()
}

/// Collects stage times. Cheap to clone; all clones feed the same histograms.
#[derive(Clone, Default)]
pub struct Recorder {
    stages: Arc<[Mutex<StageTimes>; Stage::ALL.len()]>,
    /// Present only when every single range is requested.
    trace: Option<Trace>,
    /// Whether its ranges are left out of the timeline.
    is_silent: bool,
    /// The source that its ranges belong to.
    source: Option<SourceCategory>,
}

struct StageTimes {
    /// Microseconds, three significant digits, up to 10 minutes.
    wall_us: Histogram<u64>,
    /// `None`: unknown.
    cpu: Option<Duration>,
    sum: Duration,
    items: u64,
    /// Ranges by [`STAGE_BUCKETS`].
    buckets: Buckets,
}

/// Upper limit of recorded times, 10 minutes; longer ones count as this.
const MAX_US: u64 = 600_000_000;

impl Default for StageTimes {
    fn default() -> Self {
        let wall_us = Histogram::new(3).expect("three digits are valid");
        Self {
            wall_us,
            cpu: None,
            sum: Duration::ZERO,
            items: 0,
            buckets: Buckets::default(),
        }
    }
}

impl Recorder {
    /// A recorder that also stores every single range in `trace`.
    pub fn with_trace(trace: Option<Trace>) -> Self {
        Self {
            trace,
            ..Self::default()
        }
    }

    /// A recorder for work inside another recorder's range: it writes nothing to the timeline, and its times are not
    /// reported.
    pub fn silent() -> Self {
        Self {
            is_silent: true,
            ..Self::default()
        }
    }

    /// The same recorder; its ranges and spans carry this source on the timeline.
    #[must_use]
    pub fn with_source(mut self, source: SourceCategory) -> Self {
        self.source = Some(source);
        self
    }

    /// Opens a batch of `level` with at most `items` frames. Ranges of this thread belong to it until the guard is dropped.
    #[must_use = "the batch ends when the guard is dropped"]
    pub fn batch(&self, level: Level, items: usize) -> BatchRange<'_> {
        let open = |trace| OpenBatch {
            trace,
            before: Trace::open(trace, level),
            started: Instant::now(),
            cpu_before: thread_cpu_time(),
        };
        BatchRange {
            _nvtx: batch_event(level, items as u64).push(),
            items: Some(items),
            open: self.trace.as_ref().map(open),
        }
    }

    /// Opens a range of `stage` that covers `items` frames; it ends when the guard is dropped, on the same thread.
    #[must_use = "the range ends when the guard is dropped"]
    pub fn range(&self, stage: Stage, items: usize) -> Range<'_> {
        self.range_with_payload(stage, items, items as u64)
    }

    /// As [`range`](Self::range), with a frame number as the payload shown on the timeline.
    #[must_use = "the range ends when the guard is dropped"]
    pub fn range_with_payload(&self, stage: Stage, items: usize, payload: u64) -> Range<'_> {
        Range {
            _nvtx: (!self.is_silent).then(|| stage_event(stage, self.source, payload).push()),
            recorder: self,
            stage,
            items: Some(items),
            started: Instant::now(),
            cpu_before: thread_cpu_time(),
            elsewhere: Duration::ZERO,
        }
    }

    /// Opens a span of `stage` that covers one frame. Unlike a range it may end on another thread, and spans overlap; it has no
    /// CPU time.
    #[must_use = "the span ends with `end`"]
    pub fn span(&self, stage: Stage, payload: u64) -> Span {
        Span {
            _nvtx: stage_event(stage, self.source, payload).start(),
            stage,
            started: Instant::now(),
        }
    }

    /// Ends a span and records its time. A span that is dropped instead is on the timeline only.
    pub fn end(&self, span: Span) {
        self.add(span.stage, 1, span.started.elapsed(), None);
    }

    /// Records `wall`, a time measured by the caller, as one range of `stage` that covered `items` frames.
    pub fn record(&self, stage: Stage, items: usize, wall: Duration) {
        self.add(stage, items, wall, None);
        if let Some(trace) = &self.trace {
            trace.push(Some(stage), items, Instant::now(), wall, Duration::ZERO);
        }
    }

    /// Adds CPU time that other threads spent on `stage`, such as those of a codec.
    pub fn add_cpu(&self, stage: Stage, cpu: Duration) {
        let mut times = self.stages[stage as usize].lock();
        *times.cpu.get_or_insert_default() += cpu;
    }

    fn add(&self, stage: Stage, items: usize, wall: Duration, cpu: Option<Duration>) {
        let mut times = self.stages[stage as usize].lock();
        let wall_us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        times
            .wall_us
            .record(wall_us.min(MAX_US))
            .expect("histograms resize up to MAX_US");
        times.sum += wall;
        times.buckets.add(wall);
        if let Some(cpu) = cpu {
            *times.cpu.get_or_insert_default() += cpu;
        }
        times.items += items as u64;
    }

    /// Discards all times so far, at the end of a warm-up.
    pub fn reset(&self) {
        for stage in self.stages.iter() {
            *stage.lock() = StageTimes::default();
        }
    }

    /// Histograms of the stages that have run so far. Each stage is locked for a copy of some numbers.
    pub fn histograms(&self) -> Vec<StageHistogram> {
        let stages = Stage::ALL.into_iter().map(|stage| {
            let times = self.stages[stage as usize].lock();
            times.buckets.histogram(stage, times.sum)
        });
        stages.filter(|histogram| histogram.count() > 0).collect()
    }

    /// The times of one stage so far; `None` where it has not run.
    pub fn latency(&self, stage: Stage) -> Option<Latency> {
        let summary = self.summary().stages;
        let found = summary.iter().find(|found| found.stage == stage);
        found.filter(|found| found.count > 0).map(|found| Latency {
            frames: found.count,
            mean_ms: found.mean_ms,
            median_ms: found.p50_ms,
            p95_ms: found.p95_ms,
            max_ms: found.max_ms,
        })
    }

    /// The times so far.
    pub fn summary(&self) -> Summary {
        Summary {
            stages: Stage::ALL
                .into_iter()
                .map(|stage| {
                    let times = self.stages[stage as usize].lock();
                    let ms = |us: u64| us as f64 / 1e3;
                    let is_work = !stage.is_wait() && !stage.is_stay();
                    StageSummary {
                        stage,
                        count: times.wall_us.len(),
                        items: times.items,
                        total_ms: times.sum.as_secs_f64() * 1e3,
                        cpu_ms: times.cpu.map(|cpu| cpu.as_secs_f64() * 1e3),
                        busy_ms: is_work.then(|| times.sum.as_secs_f64() * 1e3),
                        mean_ms: times.sum.as_secs_f64() * 1e3 / times.wall_us.len().max(1) as f64,
                        p50_ms: ms(times.wall_us.value_at_quantile(0.50)),
                        p95_ms: ms(times.wall_us.value_at_quantile(0.95)),
                        p99_ms: ms(times.wall_us.value_at_quantile(0.99)),
                        max_ms: ms(times.wall_us.max()),
                    }
                })
                .filter(|summary| summary.count > 0 || !summary.stage.is_optional())
                .collect(),
        }
    }
}

/// An open span.
pub struct Span {
    _nvtx: CrossRange,
    stage: Stage,
    started: Instant,
}

/// An open range.
pub struct Range<'a> {
    _nvtx: Option<LocalRange>,
    recorder: &'a Recorder,
    stage: Stage,
    /// `None`: the range is not recorded.
    items: Option<usize>,
    started: Instant,
    cpu_before: Duration,
    /// CPU time of earlier work for the same frames.
    elsewhere: Duration,
}

impl Range<'_> {
    /// Counts `cpu`, the CPU time of earlier work for the same frames, as a part of the range; not in the trace, nor on the timeline.
    pub fn add_work(&mut self, cpu: Duration) {
        self.elsewhere += cpu;
    }

    /// Sets the final number of frames; `None`: the range is not recorded.
    pub fn set_items(&mut self, items: Option<usize>) {
        self.items = items;
    }
}

impl Drop for Range<'_> {
    fn drop(&mut self) {
        let Some(items) = self.items else { return };
        // First, since this call enters the kernel, where a thread may be descheduled on a loaded machine. That time belongs
        // to the stage.
        let cpu = thread_cpu_time().saturating_sub(self.cpu_before);
        let wall = self.started.elapsed();
        IN_STAGES.set(IN_STAGES.get() + cpu);
        let elsewhere = self.elsewhere;
        self.recorder
            .add(self.stage, items, wall + elsewhere, Some(cpu + elsewhere));
        if let Some(trace) = &self.recorder.trace {
            trace.push(Some(self.stage), items, self.started, wall, cpu);
        }
    }
}

/// An open batch, on the timeline and in the trace if there is one.
pub struct BatchRange<'a> {
    _nvtx: LocalRange,
    items: Option<usize>,
    open: Option<OpenBatch<'a>>,
}

struct OpenBatch<'a> {
    trace: &'a Trace,
    before: Option<(Level, u64)>,
    started: Instant,
    cpu_before: Duration,
}

impl BatchRange<'_> {
    /// Sets the final number of frames; `None`: the range is not recorded.
    pub fn set_items(&mut self, items: Option<usize>) {
        self.items = items;
    }
}

impl Drop for BatchRange<'_> {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            let times = self.items.map(|items| {
                let cpu = thread_cpu_time().saturating_sub(open.cpu_before);
                (items, open.started, open.started.elapsed(), cpu)
            });
            open.trace.close(open.before, times);
        }
    }
}

/// Times of all stages.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Summary {
    /// In the order of [`Stage::ALL`], without optional stages that did not run.
    pub stages: Vec<StageSummary>,
}

impl Summary {
    /// The times of one stage.
    ///
    /// # Panics
    /// When the stage is [optional](Stage::is_optional) and did not run.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> &StageSummary {
        let mut stages = self.stages.iter();
        let found = stages.find(|summary| summary.stage == stage);
        found.unwrap_or_else(|| panic!("{} is missing", stage.name()))
    }
}

/// Times of one stage. A range may cover several frames: `count` counts ranges, `items` frames.
#[derive(Debug, Clone, serde::Serialize)]
pub struct StageSummary {
    /// The stage.
    #[serde(serialize_with = "as_name")]
    pub stage: Stage,
    /// Number of ranges.
    pub count: u64,
    /// Number of frames in those ranges.
    pub items: u64,
    /// Sum of their times, in ms.
    pub total_ms: f64,
    /// CPU time of the threads that ran them, in ms (without threads that the inference library starts); `None` where it is
    /// unknown: on a GPU, and for the stay of images in elements.
    pub cpu_ms: Option<f64>,
    /// Sum of the times in which a thread, or a GPU, was at work, in ms; `None` for waits and for the stay of images in elements.
    pub busy_ms: Option<f64>,
    /// Mean, in ms.
    pub mean_ms: f64,
    /// Median, in ms.
    pub p50_ms: f64,
    /// 95th percentile, in ms.
    pub p95_ms: f64,
    /// 99th percentile, in ms.
    pub p99_ms: f64,
    /// Longest, in ms.
    pub max_ms: f64,
}

fn as_name<S: serde::Serializer>(stage: &Stage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(stage.name())
}

#[cfg(test)]
mod tests;
