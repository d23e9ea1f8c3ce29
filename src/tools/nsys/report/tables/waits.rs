// SPDX-License-Identifier: Apache-2.0
//! Calls of the operating system's libraries: by function, and by the thread that waited in them.

use super::super::summary_stats::stats_by_key;
use super::super::table::{Column, Table, ns, percent, unitless};
use super::{AnalysisContext, by_total, summary_cells};

const COLUMNS: [Column; 8] = [
    percent("Time"),
    ns("Total Time"),
    unitless("Num Calls"),
    ns("Avg"),
    ns("Med"),
    ns("Min"),
    ns("Max"),
    ns("StdDev"),
];

pub(super) fn sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let waits = capture.waits.iter();
    let (found, all) = by_total(stats_by_key(
        waits.map(|wait| (wait.name, wait.end - wait.start)),
    ));
    let columns = [&COLUMNS[..], &[unitless("Name")]].concat();
    let mut table = Table::new(
        "osrt_sum",
        "Calls of the operating system's libraries",
        &columns,
    );
    table.rows.extend(found.iter().map(|(name, spread)| {
        let mut row = summary_cells(spread, all);
        row.push(capture.name(*name).into());
        row
    }));
    table
}

pub(super) fn by_thread(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let (from, until) = capture.span().unwrap_or_default();
    let waits = capture.waits.iter();
    let (found, _) = by_total(stats_by_key(
        waits.map(|wait| ((wait.thread, wait.name), wait.end - wait.start)),
    ));
    let columns = [&[unitless("Thread")], &COLUMNS[..], &[unitless("Name")]].concat();
    let mut table = Table::new(
        "osrt_waits",
        "Waits of each thread in the operating system's libraries, as shares of the capture",
        &columns,
    );
    table.more = found.len().saturating_sub(context.rows);
    let shown = found.iter().take(context.rows);
    table.rows.extend(shown.map(|((thread, name), spread)| {
        let mut row = vec![capture.threads[usize::from(*thread)].title().into()];
        row.extend(summary_cells(spread, until - from));
        row.push(capture.name(*name).into());
        row
    }));
    table
}
