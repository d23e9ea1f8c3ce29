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
mod thread_calls;
mod waits;

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::hash::Hash;

use super::capture::{Capture, Content};
use super::critical_path::CriticalPath;
use super::gpu_projection::{Nesting, Projected, pairs, project};
use super::summary_stats::{SummaryStats, share_of, stats_by_key};
use super::table::{Columns, Table};

pub(super) use findings::{is_pageable_async, is_sync_copy};
use gpu_time::busy_times;
pub(super) use gpu_time::{BusyTimes, overlap};
pub(super) use thread_calls::ThreadCalls;

/// A capture with data for several tables, computed at the first use.
#[derive(Debug)]
pub(crate) struct AnalysisContext<'a> {
    /// The capture.
    pub capture: &'a Capture,
    /// Maximum number of rows of a table of single events.
    pub rows: usize,
    nesting: OnceCell<Nesting>,
    pairs: OnceCell<Vec<(u32, u32)>>,
    projections: OnceCell<Vec<Projected>>,
    busy: OnceCell<Vec<BusyTimes>>,
    critical_path: OnceCell<CriticalPath>,
    thread_calls: OnceCell<ThreadCalls>,
}

impl<'a> AnalysisContext<'a> {
    /// A context for `capture`; tables of single events have at most `rows` rows.
    pub(crate) fn new(capture: &'a Capture, rows: usize) -> Self {
        Self {
            capture,
            rows,
            nesting: OnceCell::new(),
            pairs: OnceCell::new(),
            projections: OnceCell::new(),
            busy: OnceCell::new(),
            critical_path: OnceCell::new(),
            thread_calls: OnceCell::new(),
        }
    }

    /// Nesting of ranges.
    pub(crate) fn nesting(&self) -> &Nesting {
        self.nesting
            .get_or_init(|| Nesting::from_capture(self.capture))
    }

    /// Calls with the operations that they made.
    pub(crate) fn pairs(&self) -> &[(u32, u32)] {
        self.pairs.get_or_init(|| pairs(self.capture))
    }

    /// Ranges with GPU operations.
    pub(crate) fn projections(&self) -> &[Projected] {
        self.projections
            .get_or_init(|| project(self.capture, self.nesting(), self.pairs()))
    }

    /// jetwatch's stages.
    pub(crate) fn critical_path(&self) -> &CriticalPath {
        self.critical_path
            .get_or_init(|| CriticalPath::new(self.capture, self.nesting(), self.projections()))
    }

    /// Calls by thread.
    pub(crate) fn thread_calls(&self) -> &ThreadCalls {
        self.thread_calls
            .get_or_init(|| ThreadCalls::from_capture(self.capture))
    }

    /// When each GPU was busy.
    pub(crate) fn busy(&self) -> &[BusyTimes] {
        self.busy.get_or_init(|| busy_times(self.capture))
    }
}

/// One table of the command line.
pub(crate) struct Builder {
    /// Name of the table.
    pub name: &'static str,
    /// Description for the help text.
    pub description: &'static str,
    /// Whether the export has the required tables.
    pub is_possible: fn(Content) -> bool,
    /// The error where they are missing: the missing table.
    pub needs: &'static super::schema::TableShape,
    /// Computes the table.
    pub build: fn(&AnalysisContext<'_>) -> Table,
}

/// All tables, in the order in which they are printed.
pub(crate) const TABLES: &[Builder] = &[
    Builder {
        name: "stages",
        description: "jetwatch's stages: time, waiting, what they wait for, and the critical path",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        build: |context| {
            let mut table = context.critical_path().table();
            if !context.capture.content.operations() {
                table.clear_column("GPU Time");
            }
            table
        },
    },
    Builder {
        name: "critical_path_calls",
        description: "The critical path by calls of CUDA and of the operating system's libraries",
        is_possible: |has| has.ranges && (has.calls || has.waits),
        needs: &super::schema::WAITS,
        build: path_calls::sum,
    },
    Builder {
        name: "nvtx_sum",
        description: "NVTX ranges by name and style",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        build: ranges::sum,
    },
    Builder {
        name: "nvtx_pushpop_sum",
        description: "NVTX push/pop ranges by name",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        build: ranges::push_pop_sum,
    },
    Builder {
        name: "nvtx_startend_sum",
        description: "NVTX start/end ranges by name",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        build: ranges::start_end_sum,
    },
    Builder {
        name: "nvtx_pace",
        description: "From start to start of each range's instances on each thread",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        build: ranges::pace,
    },
    Builder {
        name: "nvtx_source_sum",
        description: "NVTX ranges by source and name",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        build: ranges::by_source,
    },
    Builder {
        name: "nvtx_gpu_proj_sum",
        description: "NVTX ranges projected onto the GPU, by name",
        is_possible: |has| has.ranges && has.calls && has.operations(),
        needs: &super::schema::CALLS,
        build: projected::sum,
    },
    Builder {
        name: "nvtx_gpu_proj_trace",
        description: "NVTX ranges projected onto the GPU, each",
        is_possible: |has| has.ranges && has.calls && has.operations(),
        needs: &super::schema::CALLS,
        build: projected::trace,
    },
    Builder {
        name: "nvtx_gpu_proj_pace",
        description: "From start to start of each projected range's instances on each thread",
        is_possible: |has| has.ranges && has.calls && has.operations(),
        needs: &super::schema::CALLS,
        build: projected::pace,
    },
    Builder {
        name: "cuda_api_sum",
        description: "Calls of CUDA by function",
        is_possible: |has| has.calls,
        needs: &super::schema::CALLS,
        build: cuda::api_sum,
    },
    Builder {
        name: "cuda_gpu_kern_sum",
        description: "Kernels by name",
        is_possible: |has| has.kernels,
        needs: &super::schema::KERNELS,
        build: cuda::kernel_sum,
    },
    Builder {
        name: "cuda_gpu_kern_gb_sum",
        description: "Kernels by name, grid and block",
        is_possible: |has| has.kernels,
        needs: &super::schema::KERNELS,
        build: cuda::kernel_grid_sum,
    },
    Builder {
        name: "cuda_gpu_kern_hist",
        description: "Histogram of the times of each kernel",
        is_possible: |has| has.kernels,
        needs: &super::schema::KERNELS,
        build: kernels::histogram,
    },
    Builder {
        name: "cuda_gpu_kern_pace",
        description: "From start to start of each kernel's instances",
        is_possible: |has| has.kernels,
        needs: &super::schema::KERNELS,
        build: kernels::pace,
    },
    Builder {
        name: "ncu_command",
        description: "The command that measures the slowest kernel with Nsight Compute",
        is_possible: |has| has.kernels,
        needs: &super::schema::KERNELS,
        build: kernels::ncu_command,
    },
    Builder {
        name: "cuda_gpu_mem_time_sum",
        description: "Copies and memory sets by time",
        is_possible: |has| has.copies || has.sets,
        needs: &super::schema::COPIES,
        build: cuda::memory_time_sum,
    },
    Builder {
        name: "cuda_gpu_mem_size_sum",
        description: "Copies and memory sets by size",
        is_possible: |has| has.copies || has.sets,
        needs: &super::schema::COPIES,
        build: cuda::memory_size_sum,
    },
    Builder {
        name: "cuda_api_sync",
        description: "Calls that wait until the GPU is done, the longest first",
        is_possible: |has| has.calls,
        needs: &super::schema::CALLS,
        build: findings::api_sync,
    },
    Builder {
        name: "cuda_memcpy_async",
        description: "Asynchronous copies that wait, since their memory is pageable",
        is_possible: |has| has.calls && has.copies,
        needs: &super::schema::COPIES,
        build: findings::copies_async,
    },
    Builder {
        name: "cuda_memcpy_sync",
        description: "Synchronous copies",
        is_possible: |has| has.calls && has.copies,
        needs: &super::schema::COPIES,
        build: findings::copies_sync,
    },
    Builder {
        name: "cuda_memset_sync",
        description: "Synchronous memory sets of pinned or managed memory",
        is_possible: |has| has.calls && has.sets,
        needs: &super::schema::SETS,
        build: findings::sets_sync,
    },
    Builder {
        name: "gpu_gaps",
        description: "Idle times of a GPU, the longest first",
        is_possible: Content::operations,
        needs: &super::schema::KERNELS,
        build: gpu_time::gaps,
    },
    Builder {
        name: "gpu_time_util",
        description: "Share of the time in which a GPU was busy, in 30 parts of the capture",
        is_possible: Content::operations,
        needs: &super::schema::KERNELS,
        build: gpu_time::utilization,
    },
    Builder {
        name: "osrt_sum",
        description: "Calls of the operating system's libraries by function",
        is_possible: |has| has.waits,
        needs: &super::schema::WAITS,
        build: waits::sum,
    },
    Builder {
        name: "osrt_waits",
        description: "Waits in the operating system's libraries by thread and function",
        is_possible: |has| has.waits,
        needs: &super::schema::WAITS,
        build: waits::by_thread,
    },
];

/// What was summed by key, with the sum of all.
type Sums<K> = (Vec<(K, SummaryStats)>, i64);

/// The statistics of the values of each key, the greatest sum first. `rows` is iterated twice.
fn sums<K: Hash + Eq + Clone>(rows: impl Iterator<Item = (K, i64)> + Clone) -> Sums<K> {
    let mut found = stats_by_key(rows);
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
