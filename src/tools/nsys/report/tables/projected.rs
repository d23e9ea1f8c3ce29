//! NVTX ranges projected onto the GPU, summed by name or one by one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;

use super::super::capture::Name;
use super::super::projection::NO_RANGE;
use super::super::spread::spreads;
use super::super::table::{Cell, Table, ns, plain};
use super::Look;

pub(super) fn sum(look: &Look<'_>) -> Table {
    /// What is added up beside the projected times.
    #[derive(Default)]
    struct Sums {
        range_ns: i64,
        operations: u64,
        levels: u64,
        children: u64,
    }
    let capture = look.capture;
    let projections = look.projections();
    let key = |range: u32| {
        let range = &capture.ranges[range as usize];
        (range.name, range.style.word())
    };
    let mut sums: HashMap<(Name, &str), Sums> = HashMap::new();
    for projected in projections {
        let sums = sums.entry(key(projected.range)).or_default();
        sums.range_ns += capture.ranges[projected.range as usize].duration();
        sums.operations += u64::from(projected.operations);
        sums.levels += u64::from(look.nesting().level[projected.range as usize]);
        sums.children += u64::from(projected.children);
    }
    let mut found = spreads(
        projections
            .iter()
            .map(|projected| (key(projected.range), projected.end - projected.start)),
    );
    found.sort_by_key(|(_, spread)| Reverse(spread.total));
    let columns = [
        plain("Range"),
        plain("Style"),
        ns("Total Proj Time"),
        ns("Total Range Time"),
        plain("Range Instances"),
        ns("Proj Avg"),
        ns("Proj Med"),
        ns("Proj Min"),
        ns("Proj Max"),
        ns("Proj StdDev"),
        plain("Total GPU Ops"),
        plain("Avg GPU Ops"),
        plain("Avg Range Lvl"),
        plain("Avg Num Child"),
    ];
    let mut table = Table::new(
        "nvtx_gpu_proj_sum",
        "NVTX ranges projected onto the GPU",
        &columns,
    );
    table.rows.extend(found.iter().map(|(key, spread)| {
        let sums = &sums[key];
        let mean = |sum: u64| Cell::Part(sum as f64 / spread.count as f64);
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

pub(super) fn trace(look: &Look<'_>) -> Table {
    let capture = look.capture;
    let nesting = look.nesting();
    let projections = look.projections();
    let mut order: Vec<u32> = (0..projections.len() as u32).collect();
    order.sort_by_key(|at| {
        let projected = &projections[*at as usize];
        (projected.start, Reverse(projected.end), projected.range)
    });
    let columns = [
        plain("Name"),
        ns("Projected Start"),
        ns("Projected Duration"),
        ns("Orig Start"),
        ns("Orig Duration"),
        plain("Style"),
        plain("PID"),
        plain("TID"),
        plain("NumGPUOps"),
        plain("Lvl"),
        plain("NumChild"),
        plain("RangeId"),
        plain("ParentId"),
        plain("RangeStack"),
    ];
    let mut table = Table::new(
        "nvtx_gpu_proj_trace",
        "NVTX ranges projected onto the GPU, each",
        &columns,
    );
    table.more = order.len().saturating_sub(look.rows);
    let number = |range: u32| i64::from(capture.ranges[range as usize].row);
    table.rows.extend(order.iter().take(look.rows).map(|at| {
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
            range.style.word().into(),
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
