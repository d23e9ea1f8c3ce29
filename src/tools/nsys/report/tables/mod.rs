// SPDX-License-Identifier: Apache-2.0
//! The tables of a capture by name; names and columns are those of `nsys stats` where it has the table.

mod cuda;
mod findings;
mod gpu_time;
mod pace;
mod path_calls;
mod ranges;

use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::hash::Hash;

use super::Result;
use super::advice::{self, Finding, VERDICT};
use super::capture::{Capture, Style, TimeWindow};
use super::critical_path::CriticalPath;
use super::gpu_projection::{Nesting, Projected, pairs, project};
use super::on_demand::{CoreWaits, Schedule, gpu_metrics, samples, scheduling};
use super::schema::{
    CALLS, COPIES, Export, GPU_METRIC_NAMES, GPU_METRICS, GRAPHS, KERNELS, NVTX, SAMPLE_FRAMES,
    SAMPLES, SCHEDULING, SETS, TableShape, WAITS,
};
use super::summary_stats::{SummaryStats, group_by_key, share_of};
use super::table::{Columns, Table, Unit};

pub(super) use cuda::kernels;
pub(super) use findings::{is_pageable_async, is_sync_copy};
use gpu_time::busy_times;
pub(super) use gpu_time::{BusyTimes, overlap};

/// An export and its capture with what several tables need. Events that are many and that few tables need are read at their first use.
pub(crate) struct AnalysisContext<'a> {
    /// The export.
    pub export: &'a Export,
    /// The capture.
    pub capture: &'a Capture,
    /// Events outside of it do not count.
    pub window: TimeWindow,
    /// Maximum number of rows of a table of single events.
    pub rows: usize,
    /// Nesting of ranges.
    pub nesting: Nesting,
    /// Calls with the operations that they made.
    pub pairs: Vec<(u32, u32)>,
    /// Ranges with GPU operations.
    pub projections: Vec<Projected>,
    /// When each GPU was busy.
    pub busy: Vec<BusyTimes>,
    /// jetwatch's stages.
    pub critical_path: CriticalPath,
    pub(super) schedule: OnceCell<Schedule>,
    /// What the first reading of the scheduling also looks for.
    pub(super) core_waits: RefCell<CoreWaits>,
}

impl<'a> AnalysisContext<'a> {
    /// Of what was read of `export` in `window`; tables of single events have at most `rows` rows.
    pub(crate) fn new(
        export: &'a Export,
        capture: &'a Capture,
        window: TimeWindow,
        rows: usize,
    ) -> Self {
        let nesting = Nesting::from_capture(capture);
        let pairs = pairs(capture);
        let projections = project(capture, &nesting, &pairs);
        Self {
            critical_path: CriticalPath::new(capture, &nesting, &projections),
            busy: busy_times(capture),
            export,
            capture,
            window,
            rows,
            nesting,
            pairs,
            projections,
            schedule: OnceCell::new(),
            core_waits: RefCell::default(),
        }
    }
}

type Need = &'static [&'static TableShape];

/// One table of the command line.
pub(crate) struct Recipe {
    /// Name of the table.
    pub name: &'static str,
    /// Whether it is printed where no tables are requested.
    pub is_default: bool,
    /// Title; empty where it depends on the capture.
    pub title: &'static str,
    /// Description for the help text.
    pub description: &'static str,
    /// Tables of the export that it reads: of each list at least one.
    pub needs: &'static [Need],
    /// Computes the table.
    pub make: Make,
}

/// How a table is made.
pub(crate) enum Make {
    /// Of the findings.
    Verdict,
    /// Of events that are held in memory.
    OfCapture(fn(&AnalysisContext<'_>) -> Table),
    /// Of events that are read for it.
    OfExport(fn(&AnalysisContext<'_>) -> Result<Table>),
}

impl Recipe {
    /// The table of a capture with these findings.
    pub(crate) fn build(
        &self,
        context: &AnalysisContext<'_>,
        findings: &[Finding],
    ) -> Result<Table> {
        let mut table = match self.make {
            Make::Verdict => advice::table(findings),
            Make::OfCapture(build) => build(context),
            Make::OfExport(build) => build(context)?,
        };
        table.name = self.name;
        if !self.title.is_empty() {
            self.title.clone_into(&mut table.title);
        }
        Ok(table)
    }

    /// The first table of the export that is missing; `None` if this table is possible.
    pub(crate) fn missing(&self, export: &Export) -> Option<&'static TableShape> {
        let has = |shape: &&TableShape| export.has(shape);
        let missing = self.needs.iter().find(|need| !need.iter().any(has));
        missing.map(|need| need[0])
    }
}

const OPERATIONS: Need = &[&KERNELS, &COPIES, &SETS, &GRAPHS];

/// All tables, in the order in which they are printed.
#[rustfmt::skip]
pub(crate) const TABLES: &[Recipe] = &[
    Recipe { name: VERDICT, is_default: true, title: "Verdict", description: "what the numbers mean, and the keys to change", needs: &[], make: Make::Verdict },
    Recipe { name: "stages", is_default: true, title: "", description: "jetwatch's stages: time, waiting, what they wait for, and the critical path", needs: &[&[&NVTX]], make: Make::OfCapture(|context| context.critical_path.table()) },
    Recipe { name: "critical_path_calls", is_default: true, title: "The critical path by calls of CUDA and of the operating system's libraries", description: "The critical path by calls of CUDA and of the operating system's libraries", needs: &[&[&WAITS, &CALLS], &[&NVTX]], make: Make::OfCapture(path_calls::sum) },
    Recipe { name: "nvtx_sum", is_default: true, title: "NVTX ranges", description: "NVTX ranges by name and style", needs: &[&[&NVTX]], make: Make::OfCapture(ranges::sum) },
    Recipe { name: "nvtx_pushpop_sum", is_default: false, title: "NVTX push/pop ranges", description: "NVTX push/pop ranges by name", needs: &[&[&NVTX]], make: Make::OfCapture(|context| ranges::by_style(context, |style| style == Style::PushPop)) },
    Recipe { name: "nvtx_startend_sum", is_default: false, title: "NVTX start/end ranges", description: "NVTX start/end ranges by name", needs: &[&[&NVTX]], make: Make::OfCapture(|context| ranges::by_style(context, |style| style != Style::PushPop)) },
    Recipe { name: "nvtx_pace", is_default: false, title: "From start to start of NVTX ranges", description: "From start to start of each range's instances on each thread", needs: &[&[&NVTX]], make: Make::OfCapture(ranges::pace) },
    Recipe { name: "nvtx_source_sum", is_default: false, title: "NVTX ranges by source", description: "NVTX ranges by source and name", needs: &[&[&NVTX]], make: Make::OfCapture(ranges::by_source) },
    Recipe { name: "nvtx_gpu_proj_sum", is_default: true, title: "NVTX ranges projected onto the GPU", description: "NVTX ranges projected onto the GPU, by name", needs: &[&[&CALLS], &[&NVTX], OPERATIONS], make: Make::OfCapture(ranges::projected_sum) },
    Recipe { name: "nvtx_gpu_proj_trace", is_default: false, title: "NVTX ranges projected onto the GPU, each", description: "NVTX ranges projected onto the GPU, each", needs: &[&[&CALLS], &[&NVTX], OPERATIONS], make: Make::OfCapture(ranges::projected_trace) },
    Recipe { name: "nvtx_gpu_proj_pace", is_default: false, title: "From start to start of NVTX ranges projected onto the GPU", description: "From start to start of each projected range's instances on each thread", needs: &[&[&CALLS], &[&NVTX], OPERATIONS], make: Make::OfCapture(ranges::projected_pace) },
    Recipe { name: "cuda_api_sum", is_default: true, title: "Calls of CUDA", description: "Calls of CUDA by function", needs: &[&[&CALLS]], make: Make::OfCapture(cuda::api_sum) },
    Recipe { name: "cuda_gpu_kern_sum", is_default: true, title: "Kernels", description: "Kernels by name", needs: &[&[&KERNELS]], make: Make::OfCapture(cuda::kernel_sum) },
    Recipe { name: "cuda_gpu_kern_gb_sum", is_default: false, title: "Kernels by grid and block", description: "Kernels by name, grid and block", needs: &[&[&KERNELS]], make: Make::OfCapture(cuda::kernel_grid_sum) },
    Recipe { name: "cuda_gpu_kern_hist", is_default: false, title: "Histogram of kernel times", description: "Histogram of the times of each kernel", needs: &[&[&KERNELS]], make: Make::OfCapture(cuda::histogram) },
    Recipe { name: "cuda_gpu_kern_pace", is_default: false, title: "From start to start of kernels", description: "From start to start of each kernel's instances", needs: &[&[&KERNELS]], make: Make::OfCapture(cuda::pace) },
    Recipe { name: "ncu_command", is_default: true, title: "", description: "The command that measures the slowest kernel with Nsight Compute", needs: &[&[&KERNELS]], make: Make::OfCapture(cuda::ncu_command) },
    Recipe { name: "cuda_gpu_mem_time_sum", is_default: true, title: "Copies and memory sets by time", description: "Copies and memory sets by time", needs: &[&[&COPIES, &SETS]], make: Make::OfCapture(cuda::memory_time_sum) },
    Recipe { name: "cuda_gpu_mem_size_sum", is_default: false, title: "Copies and memory sets by size", description: "Copies and memory sets by size", needs: &[&[&COPIES, &SETS]], make: Make::OfCapture(cuda::memory_size_sum) },
    Recipe { name: "cuda_api_sync", is_default: false, title: "Calls that wait until the GPU is done", description: "Calls that wait until the GPU is done, the longest first", needs: &[&[&CALLS]], make: Make::OfCapture(findings::api_sync) },
    Recipe { name: "cuda_memcpy_async", is_default: false, title: "Asynchronous copies of pageable memory, which wait", description: "Asynchronous copies that wait, since their memory is pageable", needs: &[&[&COPIES], &[&CALLS]], make: Make::OfCapture(|context| findings::copies(context, is_pageable_async)) },
    Recipe { name: "cuda_memcpy_sync", is_default: false, title: "Synchronous copies", description: "Synchronous copies", needs: &[&[&COPIES], &[&CALLS]], make: Make::OfCapture(|context| findings::copies(context, is_sync_copy)) },
    Recipe { name: "cuda_memset_sync", is_default: false, title: "Synchronous memory sets", description: "Synchronous memory sets of pinned or managed memory", needs: &[&[&SETS], &[&CALLS]], make: Make::OfCapture(findings::sets_sync) },
    Recipe { name: "gpu_gaps", is_default: false, title: "Idle times of a GPU", description: "Idle times of a GPU, the longest first", needs: &[OPERATIONS], make: Make::OfCapture(gpu_time::gaps) },
    Recipe { name: "gpu_time_util", is_default: false, title: "Share of the time in which a GPU was busy", description: "Share of the time in which a GPU was busy, in 30 parts of the capture", needs: &[OPERATIONS], make: Make::OfCapture(gpu_time::utilization) },
    Recipe { name: "osrt_sum", is_default: false, title: "Calls of the operating system's libraries", description: "Calls of the operating system's libraries by function", needs: &[&[&WAITS]], make: Make::OfCapture(ranges::waits) },
    Recipe { name: "osrt_waits", is_default: false, title: "Waits of each thread in the operating system's libraries, as shares of the capture", description: "Waits in the operating system's libraries by thread and function", needs: &[&[&WAITS]], make: Make::OfCapture(ranges::waits_by_thread) },
    Recipe { name: "cpu_cores", is_default: false, title: "CPU cores: time with a traced thread", description: "CPU cores: time with a traced thread, and idle time", needs: &[&[&SCHEDULING]], make: Make::OfExport(|data| Ok(scheduling::cores(data.schedule()?))) },
    Recipe { name: "cpu_threads", is_default: false, title: "Threads: time on a CPU core and off it", description: "Threads: time on a CPU core, and time off it", needs: &[&[&SCHEDULING]], make: Make::OfExport(|data| Ok(scheduling::threads(data.schedule()?, data.rows))) },
    Recipe { name: "cpu_functions", is_default: false, title: "Hot functions, as shares of the samples of their threads", description: "Hot functions of call stack samples, by group of threads: self and total time", needs: &[&[&SAMPLES], &[&SAMPLE_FRAMES]], make: Make::OfExport(samples::functions) },
    Recipe { name: "gpu_metric_util_sum", is_default: false, title: "Metrics of GPUs", description: "Metrics that a GPU sampled: mean, minimum, maximum", needs: &[&[&GPU_METRICS], &[&GPU_METRIC_NAMES]], make: Make::OfExport(|data| gpu_metrics::table(data, None)) },
    Recipe { name: "gpu_metric_util", is_default: false, title: "Metrics of GPUs in parts of the capture", description: "The same in 30 parts of the capture", needs: &[&[&GPU_METRICS], &[&GPU_METRIC_NAMES]], make: Make::OfExport(gpu_metrics::course) },
];

/// What was summed by key, with the sum of all.
type Sums<K> = (Vec<(K, SummaryStats)>, i64);

/// The statistics of the values of each key, the greatest sum first. `rows` is iterated twice.
fn sums<K: Hash + Eq + Clone>(rows: impl Iterator<Item = (K, i64)> + Clone) -> Sums<K> {
    let found = group_by_key(rows, SummaryStats::from_values).into_iter();
    let found = found.filter_map(|(key, stats)| Some((key, stats?)));
    let mut found: Vec<(K, SummaryStats)> = found.collect();
    found.sort_by_key(|(_, stats)| Reverse(stats.total));
    let all = found.iter().map(|(_, stats)| stats.total).sum();
    (found, all)
}

impl<'a, R> Columns<'a, R> {
    /// Adds mean, median, minimum, maximum and deviation of what `of` gives of a row; their headings begin with `prefix`.
    fn spread(
        self,
        prefix: &str,
        unit: Unit,
        of: impl Fn(&'a R) -> &'a SummaryStats + Copy + 'a,
    ) -> Self {
        self.column(format!("{prefix}Avg"), unit, move |row| of(row).mean)
            .column(format!("{prefix}Med"), unit, move |row| of(row).median)
            .column(format!("{prefix}Min"), unit, move |row| of(row).min)
            .column(format!("{prefix}Max"), unit, move |row| of(row).max)
            .column(format!("{prefix}StdDev"), unit, move |row| {
                of(row).deviation
            })
    }
}

impl<K> Columns<'_, (K, SummaryStats)> {
    /// Adds the eight numbers of every summary of times; nsys calls the third, `count`, differently in each table. Shares are of
    /// `all`, in ns.
    fn times(self, count: &'static str, all: i64) -> Self {
        self.percent("Time", move |(_, times)| share_of(times.total, all))
            .ns("Total Time", |(_, times)| times.total)
            .plain(count, |(_, times)| times.count)
            .spread("", Unit::Ns, |(_, times)| times)
    }
}
