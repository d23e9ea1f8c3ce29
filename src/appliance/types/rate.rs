// SPDX-License-Identifier: Apache-2.0
//! A rate of events with the uncertainty of its measurement.

/// Blocks into which a measurement is divided at most. More blocks follow single events, which depend on each other.
const MAX_BLOCKS: usize = 16;

/// 97.5th percentiles of Student's t distribution for 1 to 15 degrees of freedom.
const STUDENT_T: [f64; MAX_BLOCKS - 1] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131,
];

/// The factor from a standard error to half the 95 % confidence interval, for `degrees` of freedom. Infinite without any.
pub fn student_t_95(degrees: usize) -> f64 {
    match degrees {
        0 => f64::INFINITY,
        // Beyond the table the expansion is right to 0.003.
        degrees => (STUDENT_T.get(degrees - 1).copied()).unwrap_or(1.96 + 2.4 / degrees as f64),
    }
}

/// Events per second, estimated from groups of consecutive batches (batch means), or from repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Events per second.
    pub per_second: f64,
    /// Standard error of it. From batches it holds the scatter within the measurement, not that from one to the next.
    pub standard_error: f64,
    /// Number of blocks of batches, or of measurements, behind the standard error; at least 2.
    pub blocks: usize,
}

impl Rate {
    /// The rate of batches by the times at which they ended, in seconds, with their numbers of events; sorts them. The first
    /// batch is only the begin. `None` with fewer than three batches, or where no time passes.
    #[must_use]
    pub fn from_ends(ends: &mut [(f64, f64)]) -> Option<Self> {
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (began, batches) = ends.split_first()?;
        let blocks = batches.len().min(MAX_BLOCKS);
        if blocks < 2 {
            return None;
        }
        let mut before = began.0;
        let sums = (0..blocks).map(|block| {
            let part =
                &batches[block * batches.len() / blocks..(block + 1) * batches.len() / blocks];
            let ended = part.last().map_or(before, |last| last.0);
            let time = ended - before;
            before = ended;
            (part.iter().map(|batch| batch.1).sum::<f64>(), time)
        });
        let sums: Vec<(f64, f64)> = sums.collect();
        let (events, time) = sums
            .iter()
            .fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        if time <= 0.0 {
            return None;
        }
        let per_second = events / time;
        // Residuals of the ratio estimator: their sum is 0.
        let squares = sums
            .iter()
            .map(|(events, time)| (events - per_second * time).powi(2));
        let count = blocks as f64;
        let variance = squares.sum::<f64>() / (count - 1.0);
        Some(Self {
            per_second,
            standard_error: (count * variance).sqrt() / time,
            blocks,
        })
    }

    /// A rate that is stated with its error; `None` where that is unknown.
    #[must_use]
    pub fn stated(
        per_second: f64,
        standard_error: Option<f64>,
        blocks: Option<usize>,
    ) -> Option<Self> {
        Some(Self {
            per_second,
            standard_error: standard_error?,
            blocks: blocks.filter(|blocks| *blocks > 1)?,
        })
    }

    /// The rate times `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            per_second: self.per_second * factor,
            standard_error: self.standard_error * factor,
            ..self
        }
    }

    /// The 95 % confidence interval, from and to.
    #[must_use]
    pub fn interval_95(&self) -> (f64, f64) {
        let half = student_t_95(self.blocks - 1) * self.standard_error;
        ((self.per_second - half).max(0.0), self.per_second + half)
    }

    /// Whether the difference to `other`, which was measured independently, is within its 95 % confidence interval.
    pub fn is_like(&self, other: &Self) -> bool {
        let error = self.standard_error.hypot(other.standard_error);
        let degrees = self.blocks.min(other.blocks).saturating_sub(1);
        (self.per_second - other.per_second).abs() <= student_t_95(degrees) * error
    }
}

/// Which of several measurements has the highest rate, and whether that stands out of the noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking<T> {
    /// The highest rate; `None` where no rate is known.
    pub best: Option<(T, Rate)>,
    /// Those whose difference to it is within the noise, the highest first.
    pub alike: Vec<T>,
    /// Those whose rate or its error is unknown.
    pub unknown: Vec<T>,
}

impl<T: Copy> Ranking<T> {
    /// Of measurements with their rates.
    pub fn new(measured: impl IntoIterator<Item = (T, Option<Rate>)>) -> Self {
        let (mut known, mut unknown): (Vec<(T, Rate)>, Vec<T>) = Default::default();
        for (each, rate) in measured {
            match rate {
                Some(rate) => known.push((each, rate)),
                None => unknown.push(each),
            }
        }
        known.sort_by(|a, b| b.1.per_second.total_cmp(&a.1.per_second));
        let best = known.first().copied();
        let is_alike = |rate: &Rate| best.is_some_and(|(_, best)| best.is_like(rate));
        let others = known.iter().skip(1).filter(|(_, rate)| is_alike(rate));
        Self {
            best,
            alike: others.map(|(each, _)| *each).collect(),
            unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    #[test]
    fn values_equal_hand_computed_ones() {
        // From 1 s: two events in 1 s, four in 3 s.
        let rate = Rate::from_ends(&mut [(5.0, 4.0), (1.0, 9.0), (2.0, 2.0)]).expect("three");
        assert!((rate.per_second - 1.5).abs() < 1e-12);
        // Residuals 0.5 and -0.5: their variance is 0.5, that of the sum 1.
        assert!((rate.standard_error - 0.25).abs() < 1e-12, "{rate:?}");
        assert_eq!(rate.blocks, 2);
        let (from, to) = rate.interval_95();
        assert!(from == 0.0 && (to - (1.5 + 12.706 * 0.25)).abs() < 1e-9);
        assert_eq!(Rate::from_ends(&mut [(1.0, 1.0), (2.0, 1.0)]), None);
        assert_eq!(Rate::from_ends(&mut [(1.0, 1.0); 5]), None);
    }

    #[test]
    fn rates_are_alike_within_the_error_of_their_difference() {
        let rate = |per_second, standard_error| Rate {
            per_second,
            standard_error,
            blocks: 11,
        };
        // 2.228 times the root of 3² + 4².
        assert!(rate(100.0, 3.0).is_like(&rate(111.1, 4.0)));
        assert!(!rate(100.0, 3.0).is_like(&rate(111.2, 4.0)));
    }

    #[test]
    fn steady_batches_have_no_error() {
        let mut ends: Vec<(f64, f64)> = (0..100).map(|at| (f64::from(at) * 0.25, 4.0)).collect();
        let rate = Rate::from_ends(&mut ends).expect("a rate");
        assert!((rate.per_second - 16.0).abs() < 1e-9 && rate.standard_error < 1e-9);
        assert_eq!(rate.blocks, 16);
    }

    #[test]
    fn interval_holds_the_true_rate_in_about_95_of_100_measurements() {
        let mut random = SplitMix64::new(7);
        let mut share = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        // Batches of 1 to 4 frames, 10 to 30 ms each frame: 50 frames a second.
        for batches in [12, 60, 400] {
            let mut held = 0;
            for _ in 0..2000 {
                let mut now = 0.0;
                let mut ends = Vec::new();
                for _ in 0..batches {
                    let frames = 1.0 + (share() * 4.0).floor();
                    now += frames * (0.010 + 0.020 * share());
                    ends.push((now, frames));
                }
                let (from, to) = Rate::from_ends(&mut ends).expect("a rate").interval_95();
                held += usize::from(from <= 50.0 && 50.0 <= to);
            }
            assert!(
                (1840..=1940).contains(&held),
                "{held} of 2000 with {batches}"
            );
        }
    }
}
