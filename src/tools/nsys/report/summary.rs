// SPDX-License-Identifier: Apache-2.0
//! Summary of a report for comparisons: its throughput, times of its ranges, and its workload.

mod load;
mod profile_notes;
mod throughput;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jetwatch_telemetry::Stage;

use super::advice::Finding;
use super::capture::{Capture, Kind, Name};
use super::stages::{is_wrapper, stage_of};
use super::summary_stats::{SummaryStats, group_by_key};
use super::tables::AnalysisContext;

pub(super) use self::load::Load;
pub use self::profile_notes::PROFILE_KEY;
pub(super) use self::profile_notes::noted_run;
pub(super) use self::throughput::Throughput;

/// Summary of one report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportSummary {
    /// Title of the report.
    pub(crate) title: String,
    /// Program and version that wrote it.
    pub(crate) version: String,
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
            *sum += projected.end - projected.start;
            *count += 1;
        }
        let durations = capture.ranges.iter();
        let found = group_by_key(
            durations.map(|range| (range.name, range.duration())),
            |values| Some((SummaryStats::from_values(values)?, outliers(values))),
        );
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
                gpu_ns: gpu
                    .get(&name)
                    .map(|(sum, count)| *sum as f64 / *count as f64),
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
    let mut kernels: BTreeSet<Name> = BTreeSet::new();
    for range in &capture.ranges {
        match capture.stage(range) {
            Some(Stage::Source) => {
                let thread = &capture.threads[usize::from(range.thread)];
                if !thread
                    .name
                    .as_ref()
                    .is_none_or(|name| workload.sources.contains(name))
                {
                    workload.sources.insert(thread.title());
                }
            }
            Some(Stage::Infer) => {
                let frames = u64::from(range.payload);
                workload.batch_size = workload.batch_size.max(Some(frames));
            }
            _ => {}
        }
    }
    for done in &capture.operations {
        if done.kind == Kind::Kernel {
            kernels.insert(done.name);
        }
    }
    workload.kernels = kernels
        .into_iter()
        .map(|name| capture.name(name).to_owned())
        .collect();
    workload
}

#[cfg(test)]
mod tests {
    use super::{Outliers, outliers};

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
}
