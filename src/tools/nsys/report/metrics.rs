// SPDX-License-Identifier: Apache-2.0
//! Metrics of a capture for the rules of the verdict: shares and sums.

mod async_stages;
mod run;
mod run_notes;

use std::collections::HashMap;

use jetwatch_telemetry::{Stage, thread_names};

use super::capture::{Call, Capture, Kind};
use super::critical_path::InputKind;
use super::on_demand::CoreWait;
use super::stages::DETECTOR_STAGES;
use super::tables::{AnalysisContext, BusyTimes, is_pageable_async, is_sync_copy, kernels};

pub(super) use self::async_stages::Rendering;
pub(super) use self::run_notes::{NetworkNotes, RunNotes, StageNotes};

/// Numbers of one capture. Shares are 0 to 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CaptureMetrics {
    /// Length of the pipeline's work, in ns.
    pub span_ns: i64,
    /// Length of the warm-up that is left out, in ns.
    pub warmup_ns: i64,
    /// What limits the pipeline; `None` where it is unknown.
    pub limit: Option<Limit>,
    /// Where the images come from.
    pub input: InputKind,
    /// Whether images are decoded in hardware, so that no thread's work on them is known.
    pub decodes_in_hardware: bool,
    /// Loads of the units of a Jetson during a run, 0 to 1; `None` where they are unknown.
    pub units: UnitLoads,
    /// Share of the time of its threads that each stage took, by its place in [`Stage::ALL`].
    pub(crate) shares: [f64; Stage::ALL.len()],
    /// Share of that time in which a GPU was busy; `None` where no GPU was traced.
    pub gpu_busy: Option<f64>,
    /// Threads that detect.
    pub detectors: usize,
    /// Share of the time in which a thread that publishes was in calls that write to disk; the thread where it is most.
    pub disk: f64,
    /// Name of that thread.
    pub disk_thread: String,
    /// Share of the GPU's time in kernels that were launched by threads of sources.
    pub foreign: f64,
    /// The kernel of them that took most, and its thread.
    pub foreign_kernel: Option<(String, String)>,
    /// Mean time of a kernel, in ns.
    pub kernel_ns: f64,
    /// Share of the time of `infer` in calls that launch kernels.
    pub launching: f64,
    /// Asynchronous copies of pageable memory: number, and share of the time.
    pub pageable: (u64, f64),
    /// Synchronous copies: number, and share of the time.
    pub sync_copies: (u64, f64),
    /// The recording, where there was one.
    pub rendering: Option<Rendering>,
    /// Secondary networks that ran, by name.
    pub secondary: Vec<NetworkNotes>,
    /// Waits of the limiting stage's threads for CPU cores; `None` where they are unknown.
    pub core_wait: Option<CoreWait>,
    /// Shares of the detectors' time in a benchmark, 0 to 1, the largest first; empty where there is a timeline.
    pub detector_shares: Vec<(Stage, f64)>,
    /// Cores that this program needs to keep up with its cameras, where other programs took them so that it did not.
    pub cores_needed: Option<f64>,
    /// Whether the threads of sources would have time left if other programs did not take the CPU.
    pub sources_have_time: bool,
    /// Whether these detectors ran on a GPU.
    pub timed_on_gpu: bool,
    /// What the run states of the machine, of latency, and of its outputs.
    pub run: RunNotes,
}

/// The stage that limits the pipeline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limit {
    /// The stage.
    pub stage: Stage,
    /// Its share of the time of its threads, 0 to 1.
    pub share: f64,
    /// Its share of the critical path, 0 to 1; `None` without a timeline.
    pub path: Option<f64>,
}

/// Loads of units that work beside the CPU and the GPU, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct UnitLoads {
    /// The video decoder.
    pub nvdec: Option<f64>,
    /// The video image compositor.
    pub vic: Option<f64>,
}

/// Calls in which writing to a file waits for the disk.
const DISK_CALLS: [&str; 12] = [
    "write",
    "writev",
    "pwrite",
    "pwrite64",
    "pwritev",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "fwrite",
    "fflush",
    "msync",
    "fallocate",
];

/// Names of publishing threads.
const PUBLISHING_THREADS: [&str; 4] = [
    thread_names::JSON_LINES,
    thread_names::MQTT,
    thread_names::TRACK,
    thread_names::BROKER,
];

impl CaptureMetrics {
    /// Of a capture and its stages.
    pub(crate) fn from_capture(context: &AnalysisContext<'_>) -> Self {
        let (capture, critical_path) = (context.capture, &context.critical_path);
        let (from, until) = match critical_path.stages.is_empty() {
            true => capture.span().unwrap_or_default(),
            false => critical_path.span,
        };
        let span_ns = (until - from).max(1);
        let of_span = |ns: i64| ns as f64 / span_ns as f64;
        let most_busy = |busy: &[BusyTimes]| {
            let each = busy.iter().map(|busy| of_span(busy.within(from, until)));
            each.reduce(f64::max)
        };
        let (disk, disk_thread) = disk(capture, span_ns);
        let kernels = kernels(capture);
        let kernel_time: i64 = kernels.clone().map(|done| done.duration()).sum();
        let detectors = DETECTOR_STAGES.iter();
        let detectors = detectors.filter_map(|stage| critical_path.stage(*stage));
        let mut evidence = Self {
            span_ns,
            warmup_ns: critical_path.warmup_ns,
            limit: critical_path.limit().map(|stage| Limit {
                stage,
                share: critical_path.share(stage),
                path: Some(critical_path.critical_share(stage)),
            }),
            input: critical_path.input,
            decodes_in_hardware: critical_path.decodes_in_hardware(),
            shares: Stage::ALL.map(|stage| critical_path.share(stage)),
            gpu_busy: most_busy(&context.busy),
            detectors: detectors.map(|it| it.threads).max().unwrap_or(0),
            disk,
            disk_thread,
            kernel_ns: kernel_time as f64 / (kernels.count() as f64).max(1.0),
            ..Self::default()
        };
        evidence.launching = launching(context);
        evidence.rendering = Rendering::from_path(critical_path, capture, span_ns);
        evidence.secondary = async_stages::networks(capture);
        evidence.add_launches(context, span_ns);
        evidence
    }

    /// Metrics that need calls with their operations.
    fn add_launches(&mut self, context: &AnalysisContext<'_>, span_ns: i64) {
        let capture = context.capture;
        if capture.operations.is_empty() {
            return;
        }
        let is_source: Vec<bool> = source_threads(capture);
        let mut all: i64 = 0;
        let mut foreign: i64 = 0;
        let mut by_kernel: HashMap<(u32, u16), i64> = HashMap::new();
        let mut pageable = (0, 0);
        let mut synchronous = (0, 0);
        for (call, operation) in &context.pairs {
            let call = &capture.calls[*call as usize];
            let done = &capture.operations[*operation as usize];
            let time = done.duration();
            all += time;
            if done.kind == Kind::Kernel && is_source[usize::from(call.thread)] {
                foreign += time;
                *by_kernel.entry((done.name, call.thread)).or_default() += time;
            }
            if done.kind == Kind::Copy {
                let transfer = &capture.transfers[done.detail as usize];
                let name = capture.name(call.name);
                for (fits, sums) in [
                    (is_pageable_async(name, transfer), &mut pageable),
                    (is_sync_copy(name, transfer), &mut synchronous),
                ] {
                    if fits {
                        sums.0 += 1;
                        sums.1 += time;
                    }
                }
            }
        }
        let of_span = |(count, ns): (u64, i64)| (count, ns as f64 / span_ns as f64);
        self.pageable = of_span(pageable);
        self.sync_copies = of_span(synchronous);
        self.foreign = foreign as f64 / (all as f64).max(1.0);
        let most = by_kernel.iter().max_by_key(|(key, time)| (**time, key.0));
        self.foreign_kernel = most.map(|((kernel, thread), _)| {
            let kernel = capture.name(*kernel).to_owned();
            (kernel, capture.thread(*thread).title())
        });
    }
}

/// Whether each thread runs a stage that fits.
fn threads_with(capture: &Capture, fits: fn(Stage) -> bool) -> Vec<bool> {
    let mut runs = vec![false; capture.threads.len()];
    for range in &capture.ranges {
        runs[usize::from(range.thread)] |= capture.stage(range).is_some_and(fits);
    }
    runs
}

/// Threads that receive images: those that run stages of sources, and GStreamer's own, which run no stage at all.
fn source_threads(capture: &Capture) -> Vec<bool> {
    let detects = threads_with(capture, |stage| !stage.is_of_source());
    // A capture without stages is not of jetwatch: the tasks of its threads are unknown.
    let is_ours = capture.is_ours();
    detects.iter().map(|detects| is_ours && !detects).collect()
}

/// The thread that publishes and was in calls that write for most of the time: its share, and its name.
fn disk(capture: &Capture, span_ns: i64) -> (f64, String) {
    let writes = capture.names_that(|name| DISK_CALLS.contains(&name));
    let mut sums = vec![0; capture.threads.len()];
    let waits = capture.waits.iter();
    for wait in waits.filter(|wait| writes[wait.name as usize]) {
        sums[usize::from(wait.thread)] += wait.duration();
    }
    let publishing = capture.threads.iter().zip(sums).filter(|(thread, _)| {
        let name = thread.name.as_deref().unwrap_or_default();
        PUBLISHING_THREADS.iter().any(|stem| name.starts_with(stem))
    });
    match publishing.max_by_key(|(_, sum)| *sum) {
        Some((thread, sum)) => (sum as f64 / span_ns as f64, thread.title()),
        None => (0.0, String::new()),
    }
}

/// Share of the time of `infer` in calls that launch kernels, by the threads that infer.
fn launching(context: &AnalysisContext<'_>) -> f64 {
    let capture = context.capture;
    let Some(infer) = context.critical_path.stage(Stage::Infer) else {
        return 0.0;
    };
    let infers = threads_with(capture, |stage| stage == Stage::Infer);
    let launches =
        capture.names_that(|name| name.starts_with("cudaLaunch") || name.starts_with("cuLaunch"));
    let is_launch = |call: &&Call| launches[call.name as usize] && infers[usize::from(call.thread)];
    let calls = capture.calls.iter().filter(is_launch);
    let sum: i64 = calls.map(|call| call.duration()).sum();
    (sum as f64 / (infer.total_ns as f64).max(1.0)).min(1.0)
}
