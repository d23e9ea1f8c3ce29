// SPDX-License-Identifier: Apache-2.0
//! Pace of what happens again and again: the time from each start to the next, and the idle time between.

use std::cmp::Reverse;

use super::super::capture::{Capture, Name, ThreadIndex};
use super::super::summary_stats::SummaryStats;
use super::super::table::Columns;

/// One event of the series `key`. Times in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instance<K> {
    pub(super) key: K,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The pace of one series.
#[derive(Debug)]
pub(super) struct Pace<K> {
    pub(super) key: K,
    steps: SummaryStats,
    gaps: SummaryStats,
}

/// Paces of all series with two instances or more of `count` instances, the most frequent first. A gap is the time from the end
/// of all earlier instances to the next start; it is zero where they overlap.
pub(super) fn paces<K: Copy + Ord>(
    count: usize,
    instance: impl Fn(usize) -> Instance<K>,
) -> Vec<Pace<K>> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.sort_by_key(|at| {
        let found = instance(*at as usize);
        (found.key, found.start)
    });
    let mut found: Vec<Pace<K>> = Vec::new();
    let (mut steps, mut gaps): (Vec<i64>, Vec<i64>) = Default::default();
    for series in order.chunk_by(|a, b| instance(*a as usize).key == instance(*b as usize).key) {
        steps.clear();
        gaps.clear();
        let first = instance(series[0] as usize);
        let (mut last_start, mut last_end) = (first.start, first.end);
        for at in &series[1..] {
            let next = instance(*at as usize);
            steps.push(next.start - last_start);
            gaps.push((next.start - last_end).max(0));
            (last_start, last_end) = (next.start, last_end.max(next.end));
        }
        let stats = SummaryStats::from_values(&mut steps);
        if let Some((steps, gaps)) = stats.zip(SummaryStats::from_values(&mut gaps)) {
            let key = first.key;
            found.push(Pace { key, steps, gaps });
        }
    }
    found.sort_by_key(|pace| (Reverse(pace.steps.count), pace.key));
    found
}

/// Adds the numbers of a pace.
pub(super) fn numbers<K>(table: Columns<'_, Pace<K>>) -> Columns<'_, Pace<K>> {
    table
        .plain("Instances", |pace| pace.steps.count + 1)
        .ns("Pace Avg", |pace| pace.steps.mean)
        .ns("Pace Med", |pace| pace.steps.median)
        .ns("Pace Min", |pace| pace.steps.min)
        .ns("Pace Max", |pace| pace.steps.max)
        .ns("Pace StdDev", |pace| pace.steps.deviation)
        .ns("Gap Avg", |pace| pace.gaps.mean)
        .ns("Gap Max", |pace| pace.gaps.max)
}

/// Adds a range and its thread, then the numbers of their pace.
pub(super) fn of_ranges<'a>(
    table: Columns<'a, Pace<(Name, ThreadIndex)>>,
    capture: &'a Capture,
) -> Columns<'a, Pace<(Name, ThreadIndex)>> {
    table
        .plain("Range", |pace| capture.name(pace.key.0))
        .plain("Thread", |pace| capture.thread(pace.key.1).title())
        .with(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_instances_have_no_gap() {
        let instance = |key, start, end| Instance { key, start, end };
        let all = [
            instance(1, 130, 140),
            instance(1, 0, 100),
            instance(2, 5, 6),
            instance(1, 10, 20),
        ];
        let found = paces(all.len(), |at| all[at]);
        // One instance has no pace.
        assert_eq!(found.len(), 1);
        let pace = &found[0];
        assert_eq!((pace.key, pace.steps.count, pace.steps.max), (1, 2, 120));
        assert_eq!((pace.gaps.min, pace.gaps.max), (0, 30));
    }
}
