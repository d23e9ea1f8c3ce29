//! The tables that a capture gives, each by name; named and shaped like those of `nsys stats` where it has them.

mod cuda;
mod findings;
mod gpu_time;
mod projected;
mod ranges;
mod waits;

use std::cell::OnceCell;

use super::capture::{Capture, Has};
use super::projection::{Nesting, Projected, pairs, project};
use super::spread::Spread;
use super::stages::Chain;
use super::table::{Cell, Table};

pub(super) use findings::{is_pageable_async, is_sync_copy};
pub use gpu_time::{Busy, busy};

/// A capture with what several tables need of it, made once when the first asks.
#[derive(Debug)]
pub struct Look<'a> {
    /// The capture.
    pub capture: &'a Capture,
    /// Most rows of a table that lists single events.
    pub rows: usize,
    nesting: OnceCell<Nesting>,
    pairs: OnceCell<Vec<(u32, u32)>>,
    projections: OnceCell<Vec<Projected>>,
    busy: OnceCell<Vec<Busy>>,
    chain: OnceCell<Chain>,
}

impl<'a> Look<'a> {
    /// Looks at a capture; lists have at most `rows` rows.
    #[must_use]
    pub fn new(capture: &'a Capture, rows: usize) -> Self {
        Self {
            capture,
            rows,
            nesting: OnceCell::new(),
            pairs: OnceCell::new(),
            projections: OnceCell::new(),
            busy: OnceCell::new(),
            chain: OnceCell::new(),
        }
    }

    /// How ranges stand in each other.
    pub fn nesting(&self) -> &Nesting {
        self.nesting.get_or_init(|| Nesting::of(self.capture))
    }

    /// Calls with the operations that they made.
    pub fn pairs(&self) -> &[(u32, u32)] {
        self.pairs.get_or_init(|| pairs(self.capture))
    }

    /// Ranges that made the GPU do something.
    pub fn projections(&self) -> &[Projected] {
        self.projections
            .get_or_init(|| project(self.capture, self.nesting(), self.pairs()))
    }

    /// jetwatch's stages.
    pub fn chain(&self) -> &Chain {
        self.chain.get_or_init(|| Chain::of(self))
    }

    /// When each GPU was busy.
    pub fn busy(&self) -> &[Busy] {
        self.busy.get_or_init(|| busy(self.capture))
    }
}

/// One table of the command line.
pub struct Recipe {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// Whether the tables of the database are there that it needs.
    pub is_possible: fn(Has) -> bool,
    /// What to say where they are not: the missing table.
    pub needs: &'static super::schema::TableShape,
    /// Makes it.
    pub make: fn(&Look<'_>) -> Table,
}

/// All tables, in the order in which they are printed.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "stages",
        about: "jetwatch's stages: time, waiting, who waits for whom, and the critical path",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        make: |look| look.chain().table(),
    },
    Recipe {
        name: "nvtx_sum",
        about: "NVTX ranges by name and style",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        make: ranges::sum,
    },
    Recipe {
        name: "nvtx_pushpop_sum",
        about: "NVTX push/pop ranges by name",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        make: ranges::push_pop_sum,
    },
    Recipe {
        name: "nvtx_startend_sum",
        about: "NVTX start/end ranges by name",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        make: ranges::start_end_sum,
    },
    Recipe {
        name: "nvtx_pace",
        about: "From start to start of each range's instances on each thread",
        is_possible: |has| has.ranges,
        needs: &super::schema::NVTX,
        make: ranges::pace,
    },
    Recipe {
        name: "nvtx_gpu_proj_sum",
        about: "NVTX ranges projected onto the GPU, by name",
        is_possible: |has| has.ranges && has.calls && has.operations(),
        needs: &super::schema::CALLS,
        make: projected::sum,
    },
    Recipe {
        name: "nvtx_gpu_proj_trace",
        about: "NVTX ranges projected onto the GPU, each",
        is_possible: |has| has.ranges && has.calls && has.operations(),
        needs: &super::schema::CALLS,
        make: projected::trace,
    },
    Recipe {
        name: "cuda_api_sum",
        about: "Calls of CUDA by function",
        is_possible: |has| has.calls,
        needs: &super::schema::CALLS,
        make: cuda::api_sum,
    },
    Recipe {
        name: "cuda_gpu_kern_sum",
        about: "Kernels by name",
        is_possible: |has| has.kernels,
        needs: &super::schema::KERNELS,
        make: cuda::kernel_sum,
    },
    Recipe {
        name: "cuda_gpu_kern_gb_sum",
        about: "Kernels by name, grid and block",
        is_possible: |has| has.kernels,
        needs: &super::schema::KERNELS,
        make: cuda::kernel_grid_sum,
    },
    Recipe {
        name: "cuda_gpu_mem_time_sum",
        about: "Copies and memory sets by time",
        is_possible: |has| has.copies || has.sets,
        needs: &super::schema::COPIES,
        make: cuda::memory_time_sum,
    },
    Recipe {
        name: "cuda_gpu_mem_size_sum",
        about: "Copies and memory sets by size",
        is_possible: |has| has.copies || has.sets,
        needs: &super::schema::COPIES,
        make: cuda::memory_size_sum,
    },
    Recipe {
        name: "cuda_api_sync",
        about: "Calls that wait until the GPU is done, the longest first",
        is_possible: |has| has.calls,
        needs: &super::schema::CALLS,
        make: findings::api_sync,
    },
    Recipe {
        name: "cuda_memcpy_async",
        about: "Asynchronous copies that wait, since their memory is pageable",
        is_possible: |has| has.calls && has.copies,
        needs: &super::schema::COPIES,
        make: findings::copies_async,
    },
    Recipe {
        name: "cuda_memcpy_sync",
        about: "Synchronous copies",
        is_possible: |has| has.calls && has.copies,
        needs: &super::schema::COPIES,
        make: findings::copies_sync,
    },
    Recipe {
        name: "cuda_memset_sync",
        about: "Synchronous memory sets of pinned or managed memory",
        is_possible: |has| has.calls && has.sets,
        needs: &super::schema::SETS,
        make: findings::sets_sync,
    },
    Recipe {
        name: "gpu_gaps",
        about: "Times in which a GPU did nothing, the longest first",
        is_possible: Has::operations,
        needs: &super::schema::KERNELS,
        make: gpu_time::gaps,
    },
    Recipe {
        name: "gpu_time_util",
        about: "Share of the time in which a GPU did something, in 30 parts of the capture",
        is_possible: Has::operations,
        needs: &super::schema::KERNELS,
        make: gpu_time::utilization,
    },
    Recipe {
        name: "osrt_sum",
        about: "Calls of the operating system's libraries by function",
        is_possible: |has| has.waits,
        needs: &super::schema::WAITS,
        make: waits::sum,
    },
    Recipe {
        name: "osrt_waits",
        about: "Waits in the operating system's libraries by thread and function",
        is_possible: |has| has.waits,
        needs: &super::schema::WAITS,
        make: waits::by_thread,
    },
];

/// The eight numbers with which every summary of times begins: share, sum, how many, mean, median, least, greatest, deviation.
fn numbers(spread: &Spread, all: i64) -> Vec<Cell> {
    let share = spread.total as f64 * 100.0 / (all as f64).max(1.0);
    vec![
        share.into(),
        spread.total.into(),
        spread.count.into(),
        spread.mean.into(),
        spread.median.into(),
        spread.min.into(),
        spread.max.into(),
        spread.deviation.into(),
    ]
}

/// Sorts by the greatest sum and adds up.
fn by_total<K>(mut spreads: Vec<(K, Spread)>) -> (Vec<(K, Spread)>, i64) {
    spreads.sort_by_key(|(_, spread)| std::cmp::Reverse(spread.total));
    let all = spreads.iter().map(|(_, spread)| spread.total).sum();
    (spreads, all)
}
