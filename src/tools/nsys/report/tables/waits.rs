//! Calls of the operating system's libraries: by function, and by the thread that waited in them.

use super::super::spread::spreads;
use super::super::table::{Column, Table, ns, percent, plain};
use super::{Look, by_total, numbers};

const NUMBERS: [Column; 8] = [
    percent("Time"),
    ns("Total Time"),
    plain("Num Calls"),
    ns("Avg"),
    ns("Med"),
    ns("Min"),
    ns("Max"),
    ns("StdDev"),
];

pub(super) fn sum(look: &Look<'_>) -> Table {
    let capture = look.capture;
    let waits = capture.waits.iter();
    let (found, all) = by_total(spreads(
        waits.map(|wait| (wait.name, wait.end - wait.start)),
    ));
    let columns = [&NUMBERS[..], &[plain("Name")]].concat();
    let mut table = Table::new(
        "osrt_sum",
        "Calls of the operating system's libraries",
        &columns,
    );
    table.rows.extend(found.iter().map(|(name, spread)| {
        let mut row = numbers(spread, all);
        row.push(capture.name(*name).into());
        row
    }));
    table
}

pub(super) fn by_thread(look: &Look<'_>) -> Table {
    let capture = look.capture;
    let (from, until) = capture.span().unwrap_or_default();
    let waits = capture.waits.iter();
    let (found, _) = by_total(spreads(
        waits.map(|wait| ((wait.thread, wait.name), wait.end - wait.start)),
    ));
    let columns = [&[plain("Thread")], &NUMBERS[..], &[plain("Name")]].concat();
    let mut table = Table::new(
        "osrt_waits",
        "Waits of each thread in the operating system's libraries, as shares of the capture",
        &columns,
    );
    table.more = found.len().saturating_sub(look.rows);
    let shown = found.iter().take(look.rows);
    table.rows.extend(shown.map(|((thread, name), spread)| {
        let mut row = vec![capture.threads[usize::from(*thread)].title().into()];
        row.extend(numbers(spread, until - from));
        row.push(capture.name(*name).into());
        row
    }));
    table
}
