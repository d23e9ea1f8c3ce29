// SPDX-License-Identifier: Apache-2.0
//! NVTX ranges on the CPU: sums by name, and the intervals between them.

use super::super::capture::Style;
use super::super::summary_stats::stats_by_key;
use super::super::table::{Column, Table, ns, percent, unitless};
use super::pace::{self, Instance};
use super::{AnalysisContext, by_total, summary_cells};

const COLUMNS: [Column; 8] = [
    percent("Time"),
    ns("Total Time"),
    unitless("Instances"),
    ns("Avg"),
    ns("Med"),
    ns("Min"),
    ns("Max"),
    ns("StdDev"),
];

pub(super) fn sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let found = stats_by_key(capture.ranges.iter().map(|range| {
        let is_pushed = range.style == Style::PushPop;
        ((range.name, is_pushed), range.duration())
    }));
    let (found, all) = by_total(found);
    let columns = [&COLUMNS[..], &[unitless("Style"), unitless("Range")]].concat();
    let mut table = Table::new("nvtx_sum", "NVTX ranges", &columns);
    table
        .rows
        .extend(found.iter().map(|((name, is_pushed), spread)| {
            let mut row = summary_cells(spread, all);
            let style = if *is_pushed {
                Style::PushPop
            } else {
                Style::StartEnd
            };
            row.extend([style.label().into(), capture.name(*name).into()]);
            row
        }));
    table
}

pub(super) fn push_pop_sum(context: &AnalysisContext<'_>) -> Table {
    by_style(
        context,
        "nvtx_pushpop_sum",
        "NVTX push/pop ranges",
        |style| style == Style::PushPop,
    )
}

pub(super) fn start_end_sum(context: &AnalysisContext<'_>) -> Table {
    by_style(
        context,
        "nvtx_startend_sum",
        "NVTX start/end ranges",
        |style| style != Style::PushPop,
    )
}

fn by_style(
    context: &AnalysisContext<'_>,
    name: &'static str,
    title: &str,
    fits: fn(Style) -> bool,
) -> Table {
    let capture = context.capture;
    let fitting = capture.ranges.iter().filter(|range| fits(range.style));
    let (found, all) = by_total(stats_by_key(
        fitting.map(|range| (range.name, range.duration())),
    ));
    let columns = [&COLUMNS[..], &[unitless("Range")]].concat();
    let mut table = Table::new(name, title, &columns);
    table.rows.extend(found.iter().map(|(name, spread)| {
        let mut row = summary_cells(spread, all);
        row.push(capture.name(*name).into());
        row
    }));
    table
}

/// From each start to the next of the same range on the same thread, and the time between them in which none was open.
pub(super) fn pace(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let mut table = Table::new(
        "nvtx_pace",
        "From start to start of NVTX ranges",
        &pace::columns(&["Range", "Thread"]),
    );
    let paces = pace::paces(capture.ranges.len(), |at| {
        let range = &capture.ranges[at];
        Instance {
            key: (range.name, range.thread),
            start: range.start,
            end: range.end,
        }
    });
    pace::push_rows(&mut table, &paces, usize::MAX, |(name, thread)| {
        let title = capture.threads[usize::from(*thread)].title();
        [capture.name(*name).into(), title.into()]
    });
    table
}

/// Ranges that belong to one source, by source and name.
pub(super) fn by_source(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let of_sources = capture.ranges.iter().filter(|range| range.source != 0);
    let (found, all) = by_total(stats_by_key(
        of_sources.map(|range| ((range.source, range.name), range.duration())),
    ));
    let columns = [&[unitless("Source")], &COLUMNS[..], &[unitless("Range")]].concat();
    let mut table = Table::new("nvtx_source_sum", "NVTX ranges by source", &columns);
    table
        .rows
        .extend(found.iter().map(|((source, name), spread)| {
            let mut row = vec![capture.sources[usize::from(*source)].as_str().into()];
            row.extend(summary_cells(spread, all));
            row.push(capture.name(*name).into());
            row
        }));
    table
}
