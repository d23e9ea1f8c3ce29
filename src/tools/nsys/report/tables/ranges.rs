//! NVTX ranges on the CPU: sums by name, and the intervals between them.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::super::capture::{Name, Style};
use super::super::summary_stats::{SummaryStats, stats_by_key};
use super::super::table::{Column, Table, ns, percent, unitless};
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

/// From each start to the next of the same range on the same thread, and from each end to the next start.
pub(super) fn pace(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
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
    let steps = stats_by_key(
        pairs
            .clone()
            .map(|(before, after)| ((after.name, after.thread), after.start - before.start)),
    );
    let gaps: HashMap<(Name, u16), SummaryStats> = stats_by_key(
        pairs.map(|(before, after)| ((after.name, after.thread), after.start - before.end)),
    )
    .into_iter()
    .collect();
    // Between ranges that overlap, such as the stays of images in a decoder, there are no gaps.
    let gap_of = |key: &(Name, u16)| gaps.get(key).filter(|gap| gap.min >= 0);
    let columns = [
        unitless("Range"),
        unitless("Thread"),
        unitless("Instances"),
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
        let gap = gap_of(key);
        vec![
            capture.name(key.0).into(),
            capture.threads[usize::from(key.1)].title().into(),
            (pace.count + 1).into(),
            pace.mean.into(),
            pace.median.into(),
            pace.min.into(),
            pace.max.into(),
            pace.deviation.into(),
            gap.map(|gap| gap.mean).into(),
            gap.map(|gap| gap.max).into(),
        ]
    }));
    table
}
