// SPDX-License-Identifier: Apache-2.0
//! NVTX ranges on the CPU and calls of the operating system's libraries: sums by name, and the intervals between ranges.

use super::super::capture::{Range, Style};
use super::super::table::Table;
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
