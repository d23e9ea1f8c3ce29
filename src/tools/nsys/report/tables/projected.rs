// SPDX-License-Identifier: Apache-2.0
//! NVTX ranges projected onto the GPU, summed by name or one by one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use super::super::capture::Name;
use super::super::gpu_projection::NO_RANGE;
use super::super::summary_stats::stats_by_key;
use super::super::table::{Cell, Table, ns, unitless};
use super::AnalysisContext;
use super::pace::{self, Instance};

pub(super) fn sum(context: &AnalysisContext<'_>) -> Table {
    /// What is added up next to the projected times.
    #[derive(Default)]
    struct Totals {
        range_ns: i64,
        operations: u64,
        levels: u64,
        children: u64,
    }
    let capture = context.capture;
    let projections = context.projections();
    let key = |range: u32| {
        let range = &capture.ranges[range as usize];
        (range.name, range.style.label())
    };
    let mut sums: HashMap<(Name, &str), Totals> = HashMap::new();
    for projected in projections {
        let sums = sums.entry(key(projected.range)).or_default();
        sums.range_ns += capture.ranges[projected.range as usize].duration();
        sums.operations += u64::from(projected.operations);
        sums.levels += u64::from(context.nesting().level[projected.range as usize]);
        sums.children += u64::from(projected.children);
    }
    let mut found = stats_by_key(
        projections
            .iter()
            .map(|projected| (key(projected.range), projected.end - projected.start)),
    );
    found.sort_by_key(|(_, spread)| Reverse(spread.total));
    let columns = [
        unitless("Range"),
        unitless("Style"),
        ns("Total Proj Time"),
        ns("Total Range Time"),
        unitless("Range Instances"),
        ns("Proj Avg"),
        ns("Proj Med"),
        ns("Proj Min"),
        ns("Proj Max"),
        ns("Proj StdDev"),
        unitless("Total GPU Ops"),
        unitless("Avg GPU Ops"),
        unitless("Avg Range Lvl"),
        unitless("Avg Num Child"),
    ];
    let mut table = Table::new(
        "nvtx_gpu_proj_sum",
        "NVTX ranges projected onto the GPU",
        &columns,
    );
    table.rows.extend(found.iter().map(|(key, spread)| {
        let sums = &sums[key];
        let mean = |sum: u64| Cell::Decimal(sum as f64 / spread.count as f64);
        vec![
            capture.name(key.0).into(),
            key.1.into(),
            spread.total.into(),
            sums.range_ns.into(),
            spread.count.into(),
            spread.mean.into(),
            spread.median.into(),
            spread.min.into(),
            spread.max.into(),
            spread.deviation.into(),
            sums.operations.into(),
            mean(sums.operations),
            mean(sums.levels),
            mean(sums.children),
        ]
    }));
    table
}

pub(super) fn trace(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let nesting = context.nesting();
    let projections = context.projections();
    let mut order: Vec<u32> = (0..projections.len() as u32).collect();
    order.sort_by_key(|at| {
        let projected = &projections[*at as usize];
        (projected.start, Reverse(projected.end), projected.range)
    });
    let columns = [
        unitless("Name"),
        ns("Projected Start"),
        ns("Projected Duration"),
        ns("Orig Start"),
        ns("Orig Duration"),
        unitless("Style"),
        unitless("PID"),
        unitless("TID"),
        unitless("NumGPUOps"),
        unitless("Lvl"),
        unitless("NumChild"),
        unitless("RangeId"),
        unitless("ParentId"),
        unitless("RangeStack"),
    ];
    let mut table = Table::new(
        "nvtx_gpu_proj_trace",
        "NVTX ranges projected onto the GPU, each",
        &columns,
    );
    table.more = order.len().saturating_sub(context.rows);
    let number = |range: u32| i64::from(capture.ranges[range as usize].row);
    table.rows.extend(order.iter().take(context.rows).map(|at| {
        let projected = &projections[*at as usize];
        let range = &capture.ranges[projected.range as usize];
        let thread = &capture.threads[usize::from(range.thread)];
        let parent = nesting.parent[projected.range as usize];
        let mut stack = String::new();
        for range in nesting.stack(projected.range) {
            let _ = write!(stack, ":{}", number(range));
        }
        vec![
            capture.name(range.name).into(),
            projected.start.into(),
            (projected.end - projected.start).into(),
            range.start.into(),
            range.duration().into(),
            range.style.label().into(),
            thread.process().into(),
            thread.number().into(),
            u64::from(projected.operations).into(),
            u64::from(nesting.level[projected.range as usize]).into(),
            u64::from(projected.children).into(),
            number(projected.range).into(),
            (parent != NO_RANGE).then(|| number(parent)).into(),
            stack.into(),
        ]
    }));
    table
}

/// From each projected start to the next of the same range on the same thread.
pub(super) fn pace(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let projections = context.projections();
    let mut table = Table::new(
        "nvtx_gpu_proj_pace",
        "From start to start of NVTX ranges projected onto the GPU",
        &pace::columns(&["Range", "Thread"]),
    );
    let paces = pace::paces(projections.len(), |at| {
        let projected = &projections[at];
        let range = &capture.ranges[projected.range as usize];
        Instance {
            key: (range.name, range.thread),
            start: projected.start,
            end: projected.end,
        }
    });
    pace::push_rows(&mut table, &paces, context.rows, |(name, thread)| {
        let title = capture.threads[usize::from(*thread)].title();
        [capture.name(*name).into(), title.into()]
    });
    table
}
