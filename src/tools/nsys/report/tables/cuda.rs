// SPDX-License-Identifier: Apache-2.0
//! GPU operations and CUDA calls: sums by name.

use super::super::capture::{Kind, Operation};
use super::super::summary_stats::{SummaryStats, stats_by_key};
use super::super::table::{Cell, Column, Table, bytes, ns, percent, unitless};
use super::{AnalysisContext, by_total, summary_cells};

/// Headings of the eight numbers; nsys calls the third differently in each table.
const fn times(count: &'static str) -> [Column; 8] {
    [
        percent("Time"),
        ns("Total Time"),
        unitless(count),
        ns("Avg"),
        ns("Med"),
        ns("Min"),
        ns("Max"),
        ns("StdDev"),
    ]
}

/// A function's name without the version that CUDA's runtime appends, such as `_v3020`.
pub(super) fn function(name: &str) -> &str {
    let suffix = name
        .len()
        .checked_sub(6)
        .map(|cut| name.split_at_checked(cut));
    match suffix.flatten() {
        Some((stem, version)) if version.starts_with("_v") => stem,
        _ => name,
    }
}

pub(super) fn api_sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let calls = capture.calls.iter();
    let (found, all) = by_total(stats_by_key(
        calls.map(|call| (call.name, call.end - call.start)),
    ));
    let columns = [&times("Num Calls")[..], &[unitless("Name")]].concat();
    let mut table = Table::new("cuda_api_sum", "Calls of CUDA", &columns);
    table.rows.extend(found.iter().map(|(name, spread)| {
        let mut row = summary_cells(spread, all);
        row.push(function(capture.name(*name)).into());
        row
    }));
    table
}

fn kernels<'a>(context: &AnalysisContext<'a>) -> impl Iterator<Item = &'a Operation> + Clone {
    let operations = context.capture.operations.iter();
    operations.filter(|done| done.kind == Kind::Kernel)
}

pub(super) fn kernel_sum(context: &AnalysisContext<'_>) -> Table {
    let (found, all) = by_total(stats_by_key(
        kernels(context).map(|done| (done.name, done.end - done.start)),
    ));
    let columns = [&times("Instances")[..], &[unitless("Name")]].concat();
    let mut table = Table::new("cuda_gpu_kern_sum", "Kernels", &columns);
    table.rows.extend(found.iter().map(|(name, spread)| {
        let mut row = summary_cells(spread, all);
        row.push(context.capture.name(*name).into());
        row
    }));
    table
}

pub(super) fn kernel_grid_sum(context: &AnalysisContext<'_>) -> Table {
    let (found, all) = by_total(stats_by_key(
        kernels(context).map(|done| ((done.name, done.detail), done.end - done.start)),
    ));
    let columns = [
        &times("Instances")[..],
        &[unitless("GridXYZ"), unitless("BlockXYZ"), unitless("Name")],
    ]
    .concat();
    let mut table = Table::new(
        "cuda_gpu_kern_gb_sum",
        "Kernels by grid and block",
        &columns,
    );
    table
        .rows
        .extend(found.iter().map(|((name, launch), spread)| {
            let launch = context.capture.launches[*launch as usize];
            let three = |[x, y, z]: [i32; 3]| Cell::Text(format!("{x:4} {y:4} {z:4}"));
            let mut row = summary_cells(spread, all);
            row.extend([
                three(launch.grid),
                three(launch.block),
                context.capture.name(*name).into(),
            ]);
            row
        }));
    table
}

/// nsys's words for directions of copies, by CUPTI's number.
const DIRECTIONS: [&str; 14] = [
    "[CUDA memcpy Unknown]",
    "[CUDA memcpy HtoD]",
    "[CUDA memcpy DtoH]",
    "[CUDA memcpy HtoA]",
    "[CUDA memcpy AtoH]",
    "[CUDA memcpy AtoA]",
    "[CUDA memcpy AtoD]",
    "[CUDA memcpy DtoA]",
    "[CUDA memcpy DtoD]",
    "[CUDA memcpy HtoH]",
    "[CUDA memcpy PtoP]",
    "[CUDA Unified Memory memcpy HtoD]",
    "[CUDA Unified Memory memcpy DtoH]",
    "[CUDA Unified Memory memcpy DtoD]",
];

/// Copies and sets: what they are called, how long they took and how much they moved.
fn memory(
    context: &AnalysisContext<'_>,
    value: fn(&Operation, i64) -> i64,
) -> Vec<(&'static str, SummaryStats)> {
    let capture = context.capture;
    stats_by_key(capture.operations.iter().filter_map(|done| {
        let transfer = || capture.transfers[done.detail as usize];
        let name = match done.kind {
            Kind::Copy => {
                let direction = usize::try_from(transfer().direction).unwrap_or(0);
                DIRECTIONS.get(direction).copied().unwrap_or(DIRECTIONS[0])
            }
            Kind::Set => "[CUDA memset]",
            Kind::Kernel | Kind::Graph => return None,
        };
        Some((name, value(done, transfer().bytes)))
    }))
}

pub(super) fn memory_time_sum(context: &AnalysisContext<'_>) -> Table {
    let (found, all) = by_total(memory(context, |done, _| done.end - done.start));
    let columns = [&times("Count")[..], &[unitless("Operation")]].concat();
    let mut table = Table::new(
        "cuda_gpu_mem_time_sum",
        "Copies and memory sets by time",
        &columns,
    );
    table.rows.extend(found.iter().map(|(name, spread)| {
        let mut row = summary_cells(spread, all);
        row.push((*name).into());
        row
    }));
    table
}

pub(super) fn memory_size_sum(context: &AnalysisContext<'_>) -> Table {
    let (found, _) = by_total(memory(context, |_, bytes| bytes));
    let columns = [
        bytes("Total"),
        unitless("Count"),
        bytes("Avg"),
        bytes("Med"),
        bytes("Min"),
        bytes("Max"),
        bytes("StdDev"),
        unitless("Operation"),
    ];
    let mut table = Table::new(
        "cuda_gpu_mem_size_sum",
        "Copies and memory sets by size",
        &columns,
    );
    table.rows.extend(found.iter().map(|(name, spread)| {
        vec![
            spread.total.into(),
            spread.count.into(),
            spread.mean.into(),
            spread.median.into(),
            spread.min.into(),
            spread.max.into(),
            spread.deviation.into(),
            (*name).into(),
        ]
    }));
    table
}

#[cfg(test)]
mod tests {
    use super::function;

    #[test]
    fn api_version_suffix_is_stripped() {
        assert_eq!(function("cudaMemcpyAsync_v3020"), "cudaMemcpyAsync");
        assert_eq!(function("cuLaunchKernel"), "cuLaunchKernel");
        assert_eq!(function("_v"), "_v");
    }
}
