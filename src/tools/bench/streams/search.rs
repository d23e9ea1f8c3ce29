// SPDX-License-Identifier: Apache-2.0
//! The search for the largest number of streams that a machine keeps up with. Pure: trials are made by the caller.
//!
//! The number doubles until a trial fails, then the gap is halved. A trial is noisy, so the numbers on both sides of the answer
//! are tried again, and the majority counts; a number that changes sides moves the search.

use std::collections::BTreeMap;

use serde::Serialize;

/// Trials of each number of streams so far.
#[derive(Debug, Clone)]
pub(crate) struct StreamSearch {
    trials: BTreeMap<usize, Trials>,
    max: usize,
    repeat: u32,
}

/// Trials of one number of streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Trials {
    /// Trials in which every stream kept up.
    pub passed: u32,
    /// The others.
    pub failed: u32,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StreamFit {
    /// The largest number of streams that fit, by the majority of its trials; 0: not even one.
    pub streams: usize,
    /// Trials of that number.
    pub at: Trials,
    /// Trials of one more; none where that number is the most that was to be tried.
    pub above: Trials,
    /// Whether more may fit: the search ended at the most that was to be tried.
    pub is_lower_bound: bool,
    /// The largest number up to which no trial failed.
    pub from: usize,
    /// The largest number above which every trial failed.
    pub to: usize,
}

impl Trials {
    /// All trials.
    pub(crate) fn count(self) -> u32 {
        self.passed + self.failed
    }

    /// What the majority says; `None` without one.
    fn fits(self) -> Option<bool> {
        (self.passed != self.failed).then_some(self.passed > self.failed)
    }
}

impl StreamSearch {
    /// A search up to `max` streams; the numbers on both sides of the answer are tried `repeat` times. Both are at least 1.
    pub(crate) fn new(max: usize, repeat: u32) -> Self {
        Self {
            trials: BTreeMap::new(),
            max: max.max(1),
            repeat: repeat.max(1),
        }
    }

    /// The number of streams to try next; `None` at the end of the search.
    pub(crate) fn next_count(&self) -> Option<usize> {
        // Where trials contradict each other, one more decides.
        let is_open = |(_, trials): &(&usize, &Trials)| trials.fits().is_none();
        if let Some((count, _)) = self.trials.iter().find(is_open) {
            return Some(*count);
        }
        let fits = self.largest_that_fits();
        let confirm = |count: &usize| *count > 0 && self.at(*count).count() < self.repeat;
        match self.smallest_that_fails() {
            None if fits == self.max => Some(fits).filter(confirm),
            None => Some((2 * fits).clamp(1, self.max)),
            Some(fails) if fails - fits > 1 => Some(fits + (fails - fits) / 2),
            Some(fails) => {
                let open = [fits, fails].into_iter().filter(confirm);
                open.min_by_key(|count| self.at(*count).count())
            }
        }
    }

    /// Records whether a trial of `count` streams kept up.
    pub(crate) fn record(&mut self, count: usize, has_kept_up: bool) {
        let trials = self.trials.entry(count).or_default();
        match has_kept_up {
            true => trials.passed += 1,
            false => trials.failed += 1,
        }
    }

    /// The answer of the trials so far.
    pub(crate) fn result(&self) -> StreamFit {
        let streams = self.largest_that_fits();
        let first_failure = self.trials.iter().find(|(_, trials)| trials.failed > 0);
        let below = |count: usize| {
            let passed = self.trials.range(..count).rev();
            passed.map(|(count, _)| *count).next().unwrap_or(0)
        };
        let last_success = self.trials.iter().rfind(|(_, trials)| trials.passed > 0);
        StreamFit {
            streams,
            at: self.at(streams),
            above: self.at(streams + 1),
            is_lower_bound: self.smallest_that_fails().is_none(),
            from: first_failure.map_or(streams, |(count, _)| below(*count)),
            to: last_success.map_or(0, |(count, _)| *count),
        }
    }

    fn at(&self, count: usize) -> Trials {
        self.trials.get(&count).copied().unwrap_or_default()
    }

    fn smallest_that_fails(&self) -> Option<usize> {
        let mut all = self.trials.iter();
        all.find(|(_, trials)| trials.fits() == Some(false))
            .map(|(count, _)| *count)
    }

    /// The largest number that fits, below the smallest that fails.
    fn largest_that_fits(&self) -> usize {
        let limit = self.smallest_that_fails().unwrap_or(usize::MAX);
        let mut below = self.trials.range(..limit).rev();
        below
            .find(|(_, trials)| trials.fits() == Some(true))
            .map_or(0, |(count, _)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches on a machine that says whether a trial of a number of streams keeps up. Returns the answer and the trials in
    /// their order.
    fn search(
        max: usize,
        repeat: u32,
        mut machine: impl FnMut(usize) -> bool,
    ) -> (StreamFit, Vec<usize>) {
        let mut search = StreamSearch::new(max, repeat);
        let mut counts = Vec::new();
        while let Some(count) = search.next_count() {
            counts.push(count);
            search.record(count, machine(count));
            assert!(counts.len() < 200, "it must end: {counts:?}");
        }
        (search.result(), counts)
    }

    #[test]
    fn every_limit_is_found_confirmed_and_refuted() {
        for limit in 0..=64 {
            let (found, counts) = search(64, 3, |count| count <= limit);
            assert_eq!(found.streams, limit, "{counts:?}");
            assert_eq!((found.from, found.to), (limit, limit), "{counts:?}");
            assert_eq!(found.is_lower_bound, limit == 64);
            let three = |passed, failed| Trials { passed, failed };
            if limit > 0 {
                assert_eq!(found.at, three(3, 0), "{limit}");
            }
            let above = if limit < 64 { three(0, 3) } else { three(0, 0) };
            assert_eq!(found.above, above, "{limit}");
            assert!(counts.len() <= 17, "{limit}: {counts:?}");
            assert!(counts.iter().all(|count| (1..=64).contains(count)));
        }
    }

    #[test]
    fn numbers_double_and_gaps_are_halved() {
        let (_, counts) = search(64, 1, |count| count <= 5);
        assert_eq!(counts, [1, 2, 4, 8, 6, 5]);
    }

    #[test]
    fn one_disturbed_trial_does_not_change_the_answer() {
        // The n-th trial fails whatever its number, or passes whatever its number.
        for disturbed in 0..12 {
            for outcome in [false, true] {
                let mut number = 0;
                let (found, counts) = search(64, 3, |count| {
                    number += 1;
                    match number - 1 == disturbed {
                        true => outcome,
                        false => count <= 11,
                    }
                });
                // A trial that passes by chance far above the limit is not tried again; one below or next to it is.
                let is_far_above = outcome && counts.get(disturbed).is_some_and(|c| *c > 12);
                if !is_far_above {
                    assert_eq!(found.streams, 11, "{disturbed} {outcome}: {counts:?}");
                }
                assert!(found.from <= 11 && found.to >= 11, "{found:?}");
            }
        }
    }

    #[test]
    fn interval_holds_the_limit_of_a_noisy_machine() {
        // The share of trials that pass falls from 1 at 8 streams to 0 at 14: half of them pass at 11.
        let mut state = 1_u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let mut within = 0;
        for _ in 0..200 {
            let (found, _) = search(64, 3, |count| {
                let share = ((14.0 - count as f64) / 6.0).clamp(0.0, 1.0);
                random() < share
            });
            assert!((8..14).contains(&found.streams), "{found:?}");
            assert!(found.from <= found.streams && found.streams <= found.to);
            within += usize::from((found.from..=found.to).contains(&11));
        }
        assert!(within > 100, "{within} of 200 intervals hold the limit");
    }
}
