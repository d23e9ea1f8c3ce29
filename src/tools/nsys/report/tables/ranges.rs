//! NVTX ranges on the CPU: sums by name, and the pace at which they come.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::super::capture::{Name, Style};
use super::super::spread::{Spread, spreads};
use super::super::table::{Column, Table, ns, percent, plain};
use super::{Look, by_total, numbers};

const NUMBERS: [Column; 8] = [
    percent("Time"),
    ns("Total Time"),
    plain("Instances"),
    ns("Avg"),
    ns("Med"),
    ns("Min"),
    ns("Max"),
    ns("StdDev"),
];

pub(super) fn sum(look: &Look<'_>) -> Table {
    let capture = look.capture;
    let found = spreads(capture.ranges.iter().map(|range| {
        let is_pushed = range.style == Style::PushPop;
        ((range.name, is_pushed), range.duration())
    }));
    let (found, all) = by_total(found);
    let columns = [&NUMBERS[..], &[plain("Style"), plain("Range")]].concat();
    let mut table = Table::new("nvtx_sum", "NVTX ranges", &columns);
    table
        .rows
        .extend(found.iter().map(|((name, is_pushed), spread)| {
            let mut row = numbers(spread, all);
            let style = if *is_pushed {
                Style::PushPop
            } else {
                Style::StartEnd
            };
            row.extend([style.word().into(), capture.name(*name).into()]);
            row
        }));
    table
}

pub(super) fn push_pop_sum(look: &Look<'_>) -> Table {
    of_style(look, "nvtx_pushpop_sum", "NVTX push/pop ranges", |style| {
        style == Style::PushPop
    })
}

pub(super) fn start_end_sum(look: &Look<'_>) -> Table {
    of_style(
        look,
        "nvtx_startend_sum",
        "NVTX start/end ranges",
        |style| style != Style::PushPop,
    )
}

fn of_style(look: &Look<'_>, name: &'static str, title: &str, fits: fn(Style) -> bool) -> Table {
    let capture = look.capture;
    let fitting = capture.ranges.iter().filter(|range| fits(range.style));
    let (found, all) = by_total(spreads(fitting.map(|range| (range.name, range.duration()))));
    let columns = [&NUMBERS[..], &[plain("Range")]].concat();
    let mut table = Table::new(name, title, &columns);
    table.rows.extend(found.iter().map(|(name, spread)| {
        let mut row = numbers(spread, all);
        row.push(capture.name(*name).into());
        row
    }));
    table
}

/// From each start to the next of the same range on the same thread, and from each end to the next start.
pub(super) fn pace(look: &Look<'_>) -> Table {
    let capture = look.capture;
    let mut order: Vec<u32> = (0..capture.ranges.len() as u32).collect();
    let key = |at: &u32| {
        let range = &capture.ranges[*at as usize];
        (range.name, range.thread, range.start)
    };
    order.sort_by_key(key);
    let pairs = order.windows(2).filter_map(|pair| {
        let [before, after] = [pair[0], pair[1]].map(|at| &capture.ranges[at as usize]);
        ((before.name, before.thread) == (after.name, after.thread)).then_some((before, after))
    });
    let steps = spreads(
        pairs
            .clone()
            .map(|(before, after)| ((after.name, after.thread), after.start - before.start)),
    );
    let gaps: HashMap<(Name, u16), Spread> = spreads(
        pairs.map(|(before, after)| ((after.name, after.thread), after.start - before.end)),
    )
    .into_iter()
    .collect();
    let columns = [
        plain("Range"),
        plain("Thread"),
        plain("Instances"),
        ns("Pace Avg"),
        ns("Pace Med"),
        ns("Pace Min"),
        ns("Pace Max"),
        ns("Pace StdDev"),
        ns("Gap Avg"),
        ns("Gap Max"),
    ];
    let mut table = Table::new("nvtx_pace", "From start to start of NVTX ranges", &columns);
    let mut steps = steps;
    steps.sort_by_key(|(key, spread)| (Reverse(spread.count), key.0, key.1));
    table.rows.extend(steps.iter().map(|(key, pace)| {
        let gap = &gaps[key];
        vec![
            capture.name(key.0).into(),
            capture.threads[usize::from(key.1)].title().into(),
            (pace.count + 1).into(),
            pace.mean.into(),
            pace.median.into(),
            pace.min.into(),
            pace.max.into(),
            pace.deviation.into(),
            gap.mean.into(),
            gap.max.into(),
        ]
    }));
    table
}
