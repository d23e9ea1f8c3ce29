// SPDX-License-Identifier: Apache-2.0
//! NVTX ranges on the CPU and projected onto the GPU, and calls of the operating system's libraries: sums by name, the intervals between
//! ranges, and projected ones one by one.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::super::capture::{Name, Range, Style};
use super::super::gpu_projection::children;
use super::super::summary_stats::SummaryStats;
use super::super::table::{Table, Unit};
use super::pace;
use super::{AnalysisContext, sums};

pub(super) fn sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let ranges = capture.ranges.iter();
    let key = |range: &Range| (range.name, range.style.label());
    let (rows, all) = sums(ranges.map(|range| (key(range), range.duration())));
    Table::unnamed(&rows)
        .times("Instances", all)
        .plain("Style", |((_, style), _)| *style)
        .plain("Range", |((name, _), _)| capture.name(*name))
        .build()
}

/// Ranges of the styles that fit, by name.
pub(super) fn by_style(context: &AnalysisContext<'_>, fits: fn(Style) -> bool) -> Table {
    let capture = context.capture;
    let fitting = capture.ranges.iter().filter(|range| fits(range.style));
    let (rows, all) = sums(fitting.map(|range| (range.name, range.duration())));
    Table::unnamed(&rows)
        .times("Instances", all)
        .plain("Range", |(name, _)| capture.name(*name))
        .build()
}

/// From each start to the next of the same range on the same thread, and the time between them in which none was open.
pub(super) fn pace(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let paces = pace::paces(capture.ranges.len(), |at| {
        let range = &capture.ranges[at];
        ((range.name, range.thread), range.start, range.end)
    });
    Table::unnamed(&paces)
        .with(|table| pace::of_ranges(table, capture))
        .build()
}

/// Ranges that belong to one source, by source and name.
pub(super) fn by_source(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let of_sources = capture.ranges.iter().filter(|range| range.source != 0);
    let (rows, all) = sums(of_sources.map(|range| ((range.source, range.name), range.duration())));
    Table::unnamed(&rows)
        .plain("Source", |((source, _), _)| {
            capture.sources[usize::from(*source)].as_str()
        })
        .times("Instances", all)
        .plain("Range", |((_, name), _)| capture.name(*name))
        .build()
}

pub(super) fn waits(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let waits = capture.waits.iter();
    let (rows, all) = sums(waits.map(|wait| (wait.name, wait.duration())));
    Table::unnamed(&rows)
        .times("Num Calls", all)
        .plain("Name", |(name, _)| capture.name(*name))
        .build()
}

pub(super) fn waits_by_thread(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let (from, until) = capture.span().unwrap_or_default();
    let waits = capture.waits.iter();
    let (rows, _) = sums(waits.map(|wait| ((wait.thread, wait.name), wait.duration())));
    Table::unnamed(&rows)
        .limit(context.rows)
        .plain("Thread", |((thread, _), _)| capture.thread(*thread).title())
        .times("Num Calls", until - from)
        .plain("Name", |((_, name), _)| capture.name(*name))
        .build()
}

/// Ranges projected onto the GPU, by name.
pub(super) fn projected_sum(context: &AnalysisContext<'_>) -> Table {
    /// What is added up next to the projected times.
    #[derive(Default)]
    struct Totals {
        range_ns: i64,
        operations: u64,
        levels: u64,
        children: u64,
    }
    let capture = context.capture;
    let projections = &context.projections;
    let key = |range: u32| {
        let range = &capture.ranges[range as usize];
        (range.name, range.style.label())
    };
    let mut totals: HashMap<(Name, &str), Totals> = HashMap::new();
    let children = children(&context.nesting, projections);
    for (projected, children) in projections.iter().zip(children) {
        let totals = totals.entry(key(projected.range)).or_default();
        totals.range_ns += capture.ranges[projected.range as usize].duration();
        totals.operations += u64::from(projected.operations);
        totals.levels += context.nesting.around(projected.range).count() as u64;
        totals.children += u64::from(children);
    }
    let times = projections.iter();
    let (rows, _) = sums(times.map(|it| (key(it.range), it.duration())));
    let mean = |sum: u64, times: &SummaryStats| sum as f64 / times.count as f64;
    Table::unnamed(&rows)
        .plain("Range", |(key, _)| capture.name(key.0))
        .plain("Style", |(key, _)| key.1)
        .ns("Total Proj Time", |(_, times)| times.total)
        .ns("Total Range Time", |(key, _)| totals[key].range_ns)
        .plain("Range Instances", |(_, times)| times.count)
        .spread("Proj ", Unit::Ns, |(_, times)| times)
        .plain("Total GPU Ops", |(key, _)| totals[key].operations)
        .plain("Avg GPU Ops", |(key, it)| mean(totals[key].operations, it))
        .plain("Avg Range Lvl", |(key, it)| mean(totals[key].levels, it))
        .plain("Avg Num Child", |(key, it)| mean(totals[key].children, it))
        .build()
}

/// Ranges projected onto the GPU, one by one.
pub(super) fn projected_trace(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let nesting = &context.nesting;
    let projections = &context.projections;
    let children = children(nesting, projections);
    let mut order: Vec<u32> = (0..projections.len() as u32).collect();
    order.sort_by_key(|at| {
        let projected = &projections[*at as usize];
        (projected.start, Reverse(projected.end), projected.range)
    });
    let projected = |at: &u32| &projections[*at as usize];
    let range = |at: &u32| &capture.ranges[projected(at).range as usize];
    let thread = |at: &u32| capture.thread(range(at).thread);
    let number = |range: u32| i64::from(capture.ranges[range as usize].row);
    Table::unnamed(&order)
        .limit(context.rows)
        .plain("Name", |at| capture.name(range(at).name))
        .ns("Projected Start", |at| projected(at).start)
        .ns("Projected Duration", |at| projected(at).duration())
        .ns("Orig Start", |at| range(at).start)
        .ns("Orig Duration", |at| range(at).duration())
        .plain("Style", |at| range(at).style.label())
        .plain("PID", |at| thread(at).process())
        .plain("TID", |at| thread(at).number())
        .plain("NumGPUOps", |at| projected(at).operations)
        .plain("Lvl", |at| nesting.around(projected(at).range).count())
        .plain("NumChild", |at| children[*at as usize])
        .plain("RangeId", |at| number(projected(at).range))
        .plain("ParentId", |at| {
            nesting.around(projected(at).range).next().map(number)
        })
        .plain("RangeStack", |at| {
            let range = projected(at).range;
            let mut stack = vec![range];
            stack.extend(nesting.around(range));
            let numbers = stack.iter().rev();
            numbers.fold(String::new(), |text, range| {
                format!("{text}:{}", number(*range))
            })
        })
        .build()
}

/// From each projected start to the next of the same range on the same thread.
pub(super) fn projected_pace(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let projections = &context.projections;
    let paces = pace::paces(projections.len(), |at| {
        let projected = &projections[at];
        let range = &capture.ranges[projected.range as usize];
        ((range.name, range.thread), projected.start, projected.end)
    });
    Table::unnamed(&paces)
        .limit(context.rows)
        .with(|table| pace::of_ranges(table, capture))
        .build()
}
