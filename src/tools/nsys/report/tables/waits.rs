// SPDX-License-Identifier: Apache-2.0
//! Calls of the operating system's libraries: by function, and by the thread that waited in them.

use super::super::table::Table;
use super::{AnalysisContext, sums};

pub(super) fn sum(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let waits = capture.waits.iter();
    let (rows, all) = sums(waits.map(|wait| (wait.name, wait.end - wait.start)));
    let title = "Calls of the operating system's libraries";
    Table::of("osrt_sum", title, &rows)
        .times("Num Calls", all)
        .plain("Name", |(name, _)| capture.name(*name))
        .build()
}

pub(super) fn by_thread(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let (from, until) = capture.span().unwrap_or_default();
    let waits = capture.waits.iter();
    let (rows, _) = sums(waits.map(|wait| ((wait.thread, wait.name), wait.end - wait.start)));
    let title =
        "Waits of each thread in the operating system's libraries, as shares of the capture";
    Table::of("osrt_waits", title, &rows)
        .limit(context.rows)
        .plain("Thread", |((thread, _), _)| {
            capture.threads[usize::from(*thread)].title()
        })
        .times("Num Calls", until - from)
        .plain("Name", |((_, name), _)| capture.name(*name))
        .build()
}
