// SPDX-License-Identifier: Apache-2.0
//! The tables of a capture by name; names and columns are those of `nsys stats` where it has the table.

mod cuda;
mod findings;
mod gpu_time;
mod kernels;
mod pace;
mod path_calls;
mod projected;
mod ranges;

use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::hash::Hash;

use super::Result;
use super::capture::{Capture, TimeWindow};
use super::critical_path::CriticalPath;
use super::gpu_projection::{Nesting, Projected, pairs, project};
use super::on_demand::{CoreWaits, Schedule, gpu_metrics, samples, scheduling};
use super::schema::{
    CALLS, COPIES, Export, GPU_METRIC_NAMES, GPU_METRICS, GRAPHS, KERNELS, NVTX, SAMPLE_FRAMES,
    SAMPLES, SCHEDULING, SETS, TableShape, WAITS,
};
use super::summary_stats::{SummaryStats, group_by_key, share_of};
use super::table::{Columns, Table};

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
pub(crate) struct Builder {
    /// Name of the table.
    pub name: &'static str,
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

impl Builder {
    /// The first table of the export that is missing; `None` if this table is possible.
    pub(crate) fn missing(&self, export: &Export) -> Option<&'static TableShape> {
        let has = |shape: &&TableShape| export.has(shape);
        let missing = self.needs.iter().find(|need| !need.iter().any(has));
        missing.map(|need| need[0])
    }
}

const fn table(
    name: &'static str,
    description: &'static str,
    needs: &'static [Need],
    make: Make,
) -> Builder {
    Builder {
        name,
        description,
        needs,
        make,
    }
}

const OPERATIONS: Need = &[&KERNELS, &COPIES, &SETS, &GRAPHS];

/// The name of the table of findings.
pub const VERDICT: &str = "verdict";

/// All tables, in the order in which they are printed.
#[rustfmt::skip]
pub(crate) const TABLES: &[Builder] = &[
    table(VERDICT, "what the numbers mean, and the keys to change", &[], Make::Verdict),
    table("stages", "jetwatch's stages: time, waiting, what they wait for, and the critical path", &[&[&NVTX]], Make::OfCapture(|context| context.critical_path.table())),
    table("critical_path_calls", "The critical path by calls of CUDA and of the operating system's libraries", &[&[&WAITS, &CALLS], &[&NVTX]], Make::OfCapture(path_calls::sum)),
    table("nvtx_sum", "NVTX ranges by name and style", &[&[&NVTX]], Make::OfCapture(ranges::sum)),
    table("nvtx_pushpop_sum", "NVTX push/pop ranges by name", &[&[&NVTX]], Make::OfCapture(ranges::push_pop_sum)),
    table("nvtx_startend_sum", "NVTX start/end ranges by name", &[&[&NVTX]], Make::OfCapture(ranges::start_end_sum)),
    table("nvtx_pace", "From start to start of each range's instances on each thread", &[&[&NVTX]], Make::OfCapture(ranges::pace)),
    table("nvtx_source_sum", "NVTX ranges by source and name", &[&[&NVTX]], Make::OfCapture(ranges::by_source)),
    table("nvtx_gpu_proj_sum", "NVTX ranges projected onto the GPU, by name", &[&[&CALLS], &[&NVTX], OPERATIONS], Make::OfCapture(projected::sum)),
    table("nvtx_gpu_proj_trace", "NVTX ranges projected onto the GPU, each", &[&[&CALLS], &[&NVTX], OPERATIONS], Make::OfCapture(projected::trace)),
    table("nvtx_gpu_proj_pace", "From start to start of each projected range's instances on each thread", &[&[&CALLS], &[&NVTX], OPERATIONS], Make::OfCapture(projected::pace)),
    table("cuda_api_sum", "Calls of CUDA by function", &[&[&CALLS]], Make::OfCapture(cuda::api_sum)),
    table("cuda_gpu_kern_sum", "Kernels by name", &[&[&KERNELS]], Make::OfCapture(cuda::kernel_sum)),
    table("cuda_gpu_kern_gb_sum", "Kernels by name, grid and block", &[&[&KERNELS]], Make::OfCapture(cuda::kernel_grid_sum)),
    table("cuda_gpu_kern_hist", "Histogram of the times of each kernel", &[&[&KERNELS]], Make::OfCapture(kernels::histogram)),
    table("cuda_gpu_kern_pace", "From start to start of each kernel's instances", &[&[&KERNELS]], Make::OfCapture(kernels::pace)),
    table("ncu_command", "The command that measures the slowest kernel with Nsight Compute", &[&[&KERNELS]], Make::OfCapture(kernels::ncu_command)),
    table("cuda_gpu_mem_time_sum", "Copies and memory sets by time", &[&[&COPIES, &SETS]], Make::OfCapture(cuda::memory_time_sum)),
    table("cuda_gpu_mem_size_sum", "Copies and memory sets by size", &[&[&COPIES, &SETS]], Make::OfCapture(cuda::memory_size_sum)),
    table("cuda_api_sync", "Calls that wait until the GPU is done, the longest first", &[&[&CALLS]], Make::OfCapture(findings::api_sync)),
    table("cuda_memcpy_async", "Asynchronous copies that wait, since their memory is pageable", &[&[&COPIES], &[&CALLS]], Make::OfCapture(findings::copies_async)),
    table("cuda_memcpy_sync", "Synchronous copies", &[&[&COPIES], &[&CALLS]], Make::OfCapture(findings::copies_sync)),
    table("cuda_memset_sync", "Synchronous memory sets of pinned or managed memory", &[&[&SETS], &[&CALLS]], Make::OfCapture(findings::sets_sync)),
    table("gpu_gaps", "Idle times of a GPU, the longest first", &[OPERATIONS], Make::OfCapture(gpu_time::gaps)),
    table("gpu_time_util", "Share of the time in which a GPU was busy, in 30 parts of the capture", &[OPERATIONS], Make::OfCapture(gpu_time::utilization)),
    table("osrt_sum", "Calls of the operating system's libraries by function", &[&[&WAITS]], Make::OfCapture(ranges::waits)),
    table("osrt_waits", "Waits in the operating system's libraries by thread and function", &[&[&WAITS]], Make::OfCapture(ranges::waits_by_thread)),
    table("cpu_cores", "CPU cores: time with a traced thread, and idle time", &[&[&SCHEDULING]], Make::OfExport(|data| Ok(scheduling::cores(data.schedule()?)))),
    table("cpu_threads", "Threads: time on a CPU core, and time off it", &[&[&SCHEDULING]], Make::OfExport(|data| Ok(scheduling::threads(data.schedule()?, data.rows)))),
    table("cpu_functions", "Hot functions of call stack samples, by group of threads: self and total time", &[&[&SAMPLES], &[&SAMPLE_FRAMES]], Make::OfExport(samples::functions)),
    table("gpu_metric_util_sum", "Metrics that a GPU sampled: mean, minimum, maximum", &[&[&GPU_METRICS], &[&GPU_METRIC_NAMES]], Make::OfExport(gpu_metrics::sum)),
    table("gpu_metric_util", "The same in 30 parts of the capture", &[&[&GPU_METRICS], &[&GPU_METRIC_NAMES]], Make::OfExport(gpu_metrics::course)),
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

impl<K> Columns<'_, (K, SummaryStats)> {
    /// Adds the eight numbers of every summary of times; nsys calls the third, `count`, differently in each table. Shares are of
    /// `all`, in ns.
    fn times(self, count: &'static str, all: i64) -> Self {
        self.percent("Time", move |(_, times)| share_of(times.total, all))
            .ns("Total Time", |(_, times)| times.total)
            .plain(count, |(_, times)| times.count)
            .ns("Avg", |(_, times)| times.mean)
            .ns("Med", |(_, times)| times.median)
            .ns("Min", |(_, times)| times.min)
            .ns("Max", |(_, times)| times.max)
            .ns("StdDev", |(_, times)| times.deviation)
    }
}
