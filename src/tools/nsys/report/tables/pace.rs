// SPDX-License-Identifier: Apache-2.0
//! Pace of what happens again and again: the time from each start to the next, and the idle time between.

use std::cmp::Reverse;

use super::super::capture::{Capture, Name, ThreadIndex};
use super::super::summary_stats::SummaryStats;
use super::super::table::{Columns, Unit};

/// One event: the series that it is of, and its begin and end in ns.
type Instance<K> = (K, i64, i64);

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
    let of = |at: &u32| instance(*at as usize);
    order.sort_by_key(|at| (of(at).0, of(at).1));
    let mut found: Vec<Pace<K>> = Vec::new();
    let (mut steps, mut gaps): (Vec<i64>, Vec<i64>) = Default::default();
    for series in order.chunk_by(|a, b| of(a).0 == of(b).0) {
        steps.clear();
        gaps.clear();
        let (key, mut last_start, mut last_end) = of(&series[0]);
        for (_, start, end) in series[1..].iter().map(of) {
            steps.push(start - last_start);
            gaps.push((start - last_end).max(0));
            (last_start, last_end) = (start, last_end.max(end));
        }
        let stats = SummaryStats::from_values(&mut steps);
        if let Some((steps, gaps)) = stats.zip(SummaryStats::from_values(&mut gaps)) {
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
        .spread("Pace ", Unit::Ns, |pace| &pace.steps)
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
        let all = [(1, 130, 140), (1, 0, 100), (2, 5, 6), (1, 10, 20)];
        let found = paces(all.len(), |at| all[at]);
        // One instance has no pace.
        assert_eq!(found.len(), 1);
        let pace = &found[0];
        assert_eq!((pace.key, pace.steps.count, pace.steps.max), (1, 2, 120));
        assert_eq!((pace.gaps.min, pace.gaps.max), (0, 30));
    }
}
