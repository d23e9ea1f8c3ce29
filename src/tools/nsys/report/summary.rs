// SPDX-License-Identifier: Apache-2.0
//! Summary of a report for comparisons: its throughput, what its processes and GPUs did, times of its ranges, its workload, and what
//! `jetwatch profile` noted next to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use jetwatch_platform::Occupancy;
use jetwatch_telemetry::{Latency, Stage};
use jetwatch_types::Rate;

use super::advice::Finding;
use super::capture::{Capture, Name};
use super::gpu_projection::NO_RANGE;
use super::stages::{is_wrapper, stage_of};
use super::summary_stats::{SummaryStats, group_by_key};
use super::tables::{AnalysisContext, kernels};

/// Summary of one report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportSummary {
    /// Title of the report.
    pub title: String,
    /// Program and version that wrote it.
    pub version: String,
    /// Length in ns, if known.
    pub(crate) span_ns: Option<i64>,
    /// Share of the time in which its GPU was busy, 0 to 1.
    pub(crate) gpu_busy: Option<f64>,
    /// Its frames per second, where it records frames.
    pub(crate) throughput: Option<Throughput>,
    /// What its processes and GPUs did.
    pub(crate) loads: Vec<Load>,
    /// Its ranges by name.
    pub(crate) ranges: Vec<RangeSummary>,
    /// The workload.
    pub(crate) workload: Workload,
    /// Rules of the verdict that applied.
    pub(crate) rules: Vec<&'static str>,
}

/// Summary of a range. Times in ns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RangeSummary {
    /// Domain and text, or the path in a benchmark.
    pub(crate) name: String,
    /// Number of instances; `None` where only a mean is known.
    pub(crate) count: Option<u64>,
    /// Mean time on the CPU.
    pub(crate) cpu_ns: f64,
    /// Standard deviation; `None` where the times of single instances are unknown.
    pub(crate) cpu_deviation_ns: Option<f64>,
    /// Sum of the times on the CPU; the mean where the number of instances is unknown.
    pub(crate) cpu_total_ns: f64,
    /// Median time on the CPU.
    pub(crate) median_ns: f64,
    /// Longest time on the CPU.
    pub(crate) max_ns: f64,
    /// Number of outliers: more than three times the distance of the quartiles above the upper one.
    pub(crate) outliers: u64,
    /// Time of the outliers above the median, summed up.
    pub(crate) outlier_excess_ns: f64,
    /// Mean time on the GPU, projected; `None` without GPU work.
    pub(crate) gpu_ns: Option<f64>,
}

/// The workload of a report, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Workload {
    /// Number of source threads.
    pub(crate) sources: BTreeSet<String>,
    /// Maximum number of frames in a batch.
    pub(crate) batch_size: Option<u64>,
    /// Kernels.
    pub(crate) kernels: BTreeSet<String>,
    /// The configuration that the benchmark recorded: a hash.
    pub(crate) config: Option<String>,
    /// What the series of the report varies, with the value of this report: key and value.
    pub(crate) varied: BTreeMap<String, String>,
    /// The configuration without what is varied: a hash.
    pub(crate) base: Option<String>,
}

impl RangeSummary {
    /// Whether a thread, or a GPU, is at work in it: it is no wait, no time that images spend in elements, and no range around such.
    pub(super) fn is_work(&self) -> bool {
        let waits = |stage: Stage| stage.is_wait() || stage.is_stay();
        !is_wrapper(&self.name) && !stage_of(&self.name).is_some_and(waits)
    }

    /// Whether it is the work of one stage.
    pub(super) fn is_step(&self) -> bool {
        // In a benchmark, the second part of a path is a batch or a frame around its stages.
        let is_around = self.name.matches('/').count() == 1;
        self.is_work() && !is_around && stage_of(&self.name).is_some()
    }
}

impl ReportSummary {
    /// Of a capture.
    pub(crate) fn from_capture(
        context: &AnalysisContext<'_>,
        gpu_busy: Option<f64>,
        findings: &[Finding],
    ) -> Self {
        let capture = context.capture;
        let mut gpu: HashMap<Name, (i64, u64)> = HashMap::new();
        for projected in &context.projections {
            let name = capture.ranges[projected.range as usize].name;
            let (sum, count) = gpu.entry(name).or_default();
            *sum += projected.duration();
            *count += 1;
        }
        let gpu_ns = |name: Name| {
            gpu.get(&name)
                .map(|(sum, count)| *sum as f64 / *count as f64)
        };
        let durations = capture.ranges.iter();
        let durations = durations.map(|range| (range.name, range.duration()));
        let found = group_by_key(durations, |values| {
            Some((SummaryStats::from_values(values)?, outliers(values)))
        });
        let ranges = found.into_iter().filter_map(|(name, found)| {
            let (spread, outliers) = found?;
            Some(RangeSummary {
                name: capture.name(name).to_owned(),
                count: Some(spread.count),
                cpu_ns: spread.mean,
                cpu_deviation_ns: (spread.count > 1).then_some(spread.deviation),
                cpu_total_ns: spread.total as f64,
                median_ns: spread.median,
                max_ns: spread.max as f64,
                outliers: outliers.count,
                outlier_excess_ns: outliers.excess,
                gpu_ns: gpu_ns(name),
            })
        });
        let mut ranges: Vec<RangeSummary> = ranges.collect();
        ranges.sort_by(|a, b| b.cpu_total_ns.total_cmp(&a.cpu_total_ns));
        Self {
            title: capture.title.clone(),
            version: capture.version.clone(),
            span_ns: capture.span().map(|(from, until)| until - from),
            gpu_busy,
            throughput: Throughput::from_capture(context),
            loads: Load::from_capture(context),
            ranges,
            workload: workload(capture),
            rules: findings.iter().map(|finding| finding.rule).collect(),
        }
    }

    /// Adds what `stats`, the statistics next to the report, say: what its series varies, its configuration, and the CPU time of
    /// a frame.
    pub(crate) fn add_profile_notes(&mut self, stats: &Value) {
        self.workload.add_notes(&stats[PROFILE_KEY]);
        if let Some(throughput) = &mut self.throughput {
            throughput.add_notes(stats);
        }
    }

    /// A range by its name.
    pub(crate) fn range(&self, name: &str) -> Option<&RangeSummary> {
        self.ranges.iter().find(|range| range.name == name)
    }
}

/// Values far above the others.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Outliers {
    /// Their number.
    pub(super) count: u64,
    /// Their sum above the median of all.
    pub(super) excess: f64,
}

/// Values far above the others; reorders them.
pub(super) fn outliers(values: &mut [i64]) -> Outliers {
    /// Minimum number of values for quartiles.
    const MIN_VALUES: usize = 8;
    if values.len() < MIN_VALUES {
        return Outliers::default();
    }
    let quarter = values.len() / 4;
    let lower = *values.select_nth_unstable(quarter).1;
    let upper = *values.select_nth_unstable(values.len() - 1 - quarter).1;
    let median = *values.select_nth_unstable(values.len() / 2).1;
    let fence = upper + 3 * (upper - lower);
    let above = || values.iter().filter(|value| **value > fence);
    Outliers {
        count: above().count() as u64,
        excess: above().map(|value| (value - median) as f64).sum(),
    }
}

fn workload(capture: &Capture) -> Workload {
    let mut workload = Workload::default();
    for range in &capture.ranges {
        match capture.stage(range) {
            Some(Stage::Source) => {
                let name = capture.thread(range.thread).name.as_ref();
                if let Some(name) = name.filter(|name| !workload.sources.contains(*name)) {
                    workload.sources.insert(name.clone());
                }
            }
            Some(Stage::Infer) => {
                let frames = u64::from(range.payload);
                workload.batch_size = workload.batch_size.max(Some(frames));
            }
            _ => {}
        }
    }
    let kernels: BTreeSet<Name> = kernels(capture).map(|done| done.name).collect();
    let kernels = kernels.into_iter().map(|name| capture.name(name));
    workload.kernels = kernels.map(str::to_owned).collect();
    workload
}

/// Work of one process or one GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Load {
    /// `process 10` or `GPU 0`; empty: the whole report.
    pub part: String,
    /// Frames per second.
    pub fps: Option<f64>,
    /// Time of its threads in ranges except waits for frames, in ns.
    pub work_ns: Option<f64>,
    /// Time in which a GPU was busy, in ns.
    pub gpu_ns: Option<f64>,
}

impl Load {
    /// Loads of the processes of a capture, then of its GPUs.
    pub(crate) fn from_capture(context: &AnalysisContext<'_>) -> Vec<Self> {
        let capture = context.capture;
        let nesting = &context.nesting;
        let (from, until) = capture.span().unwrap_or_default();
        let seconds = (until - from) as f64 / 1e9;
        // Frames and work.
        let mut processes: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for at in &nesting.order {
            let range = &capture.ranges[*at as usize];
            let process = capture.thread(range.thread).process();
            let sums = processes.entry(process).or_default();
            match capture.stage(range) {
                Some(stage) if stage.is_wait() || stage.is_stay() => {}
                Some(stage) => {
                    if stage == Stage::Infer {
                        sums.0 += f64::from(range.payload);
                    }
                    sums.1 += range.duration() as f64;
                }
                // Of other programs the outermost ranges count.
                None if !capture.is_ours() && nesting.parent[*at as usize] == NO_RANGE => {
                    sums.1 += range.duration() as f64;
                }
                None => {}
            }
        }
        let mut gpus: BTreeMap<i64, f64> = BTreeMap::new();
        let mut of_process: BTreeMap<i64, f64> = BTreeMap::new();
        for busy in &context.busy {
            let (from, until) = busy.span();
            let time = busy.within(from, until) as f64;
            *gpus.entry(busy.device).or_default() += time;
            *of_process.entry(busy.process).or_default() += time;
        }
        let of_processes = processes.iter().map(|(process, (frames, work))| Self {
            part: format!("process {process}"),
            fps: (*frames > 0.0 && seconds > 0.0).then(|| frames / seconds),
            work_ns: Some(*work),
            gpu_ns: of_process.get(process).copied(),
        });
        let of_gpus = gpus.iter().map(|(device, time)| Self {
            part: format!("GPU {device}"),
            gpu_ns: Some(*time),
            ..Self::default()
        });
        of_processes.chain(of_gpus).collect()
    }
}

/// Nanoseconds of a second.
const S: f64 = 1e9;

/// Frames per second of one report, after the first batch. Times per frame in ns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Throughput {
    /// Frames per second.
    pub fps: f64,
    /// The same with its error within the report; `None` where the report has no times of single batches, or fewer than three.
    pub rate: Option<Rate>,
    /// Time of the GPU; `None` where no GPU was traced.
    pub gpu_ns: Option<f64>,
    /// CPU time of the whole process.
    pub cpu_ns: Option<f64>,
    /// Energy in joules.
    pub joules: Option<f64>,
    /// Latency of the frames of live sources, in ms; `None` without any.
    pub latency: Option<Latency>,
    /// Who used the CPU; `None`: unknown.
    pub occupancy: Option<Occupancy>,
}

impl Throughput {
    /// Of the stages in a capture; `None` if it has no inference with a number of frames, which only jetwatch records.
    pub(crate) fn from_capture(context: &AnalysisContext<'_>) -> Option<Self> {
        let capture = context.capture;
        let mut ends = Vec::new();
        let (mut inferred, mut tracked) = (0.0, 0.0);
        for range in &capture.ranges {
            match capture.stage(range) {
                Some(Stage::Infer) => {
                    inferred += f64::from(range.payload);
                    ends.push((range.end as f64 / S, f64::from(range.payload)));
                }
                Some(Stage::Track) => tracked += 1.0,
                _ => {}
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (*ends.first()?, *ends.last()?);
        // With an interval, frames without inference are tracked, too.
        let of_inferred = match inferred > 0.0 {
            true => (tracked / inferred).max(1.0),
            false => 1.0,
        };
        let rate = Rate::from_ends(&mut ends).map(|rate| rate.scaled(of_inferred));
        let frames = (inferred - first.1) * of_inferred;
        let time = last.0 - first.0;
        let fps = rate.map_or(frames / time, |rate| rate.per_second);
        if !fps.is_finite() || frames <= 0.0 {
            return None;
        }
        let (from, until) = ((first.0 * S) as i64, (last.0 * S) as i64);
        let busy = &context.busy;
        let gpu: i64 = busy.iter().map(|busy| busy.within(from, until)).sum();
        Some(Self {
            fps,
            rate,
            gpu_ns: (!busy.is_empty()).then(|| gpu as f64 / frames),
            ..Self::default()
        })
    }

    /// Adds the CPU time of a frame, the latency, and who used the CPU.
    pub(super) fn add_notes(&mut self, notes: &Value) {
        let cpu_ms = notes["cpu_ms_per_frame"].as_f64();
        self.cpu_ns = cpu_ms.map(|ms| ms * 1e6);
        self.latency = Deserialize::deserialize(&notes["latency"]).unwrap_or_default();
        self.occupancy = Deserialize::deserialize(&notes["occupancy"]).unwrap_or_default();
    }

    /// Who took the CPU, where other programs disturbed the run.
    pub(crate) fn disturbance(&self) -> Option<&Occupancy> {
        self.occupancy.as_ref().filter(|found| found.is_disturbed())
    }

    /// Time from frame to frame, in ns.
    pub(crate) fn frame_ns(&self) -> Option<f64> {
        (self.fps > 0.0).then(|| S / self.fps)
    }
}

/// Extension of the file next to a report or its export.
const EXTENSION: &str = "stats.json";

/// Key of the conditions in that file, which `jetwatch profile` adds.
pub const PROFILE_KEY: &str = "profile";

/// The statistics of the run that stand next to the report `path`, with the conditions of the profile.
pub(crate) fn noted_run(path: &Path) -> Option<Value> {
    let bytes = fs::read(path.with_extension(EXTENSION)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

impl Workload {
    /// Adds the configuration, and what its series varies.
    pub(super) fn add_notes(&mut self, notes: &Value) {
        let text = |key: &str| match &notes[key] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            value => Some(value.to_string()),
        };
        self.config = text("config_hash").or_else(|| text("measured_by"));
        self.base = text("base_hash");
        let varied = notes["varied"].as_object().into_iter().flatten();
        self.varied = varied
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_far_above_the_upper_quartile() {
        let mut values: Vec<i64> = (100..120).collect();
        assert_eq!(outliers(&mut values), Outliers::default());
        values.extend([1_000, 5_000]);
        // The median of 22 values is 111.
        let found = outliers(&mut values);
        assert_eq!((found.count, found.excess), (2, 6_000.0 - 222.0));
        assert_eq!(outliers(&mut [1, 1, 1_000]), Outliers::default());
    }

    #[test]
    fn notes_next_to_a_report_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let report = folder.path().join("p-batch04.sqlite");
        let mut summary = ReportSummary {
            throughput: Some(Throughput::default()),
            ..ReportSummary::default()
        };
        assert_eq!(noted_run(&report), None, "there is no file");
        fs::write(
            folder.path().join("p-batch04.stats.json"),
            r#"{"cpu_ms_per_frame": 2.5, "profile": {"base_hash": "x", "config_hash": "y", "varied": {"detector.batch_size": "4"}}}"#,
        )
        .expect("written");
        summary.add_profile_notes(&noted_run(&report).expect("a file"));
        assert_eq!(summary.workload.varied["detector.batch_size"], "4");
        assert_eq!(summary.workload.base.as_deref(), Some("x"));
        assert_eq!(
            summary.throughput.and_then(|found| found.cpu_ns),
            Some(2.5e6)
        );
    }
}
