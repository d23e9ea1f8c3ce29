// SPDX-License-Identifier: Apache-2.0
//! Comparison of two configurations in alternating runs, and checks of repeated runs by the rules of the benchmark tool hyperfine.

use serde::Serialize;

use super::Statistics;
use super::results::RunResult;

/// A run is an outlier when its modified Z-score, 0.6745 of its distance from the median in median absolute deviations, is
/// greater than this: hyperfine's bound.
const OUTLIER: f64 = 14.826 * 0.674_490_759;

/// Repeated runs whose speeds vary by more than this share of their mean are noisy.
const NOISY: f64 = 0.05;

/// The speed of a run by one measure.
pub(super) type RunSpeed = fn(&RunResult) -> Option<f64>;

/// Frames per second.
pub(super) const SPEED: RunSpeed = |run| run.fps;

/// Frames per second of CPU time, which other programs hardly change.
pub(super) const CPU_SPEED: RunSpeed = |run| {
    let ms = run.cpu_ms_per_frame.filter(|ms| *ms > 0.0)?;
    Some(1e3 / ms)
};

/// Problems with repeated runs of one configuration at these speeds, in the order of the runs. Fewer than three runs are not checked.
pub(crate) fn noise(speeds: &[f64]) -> Vec<String> {
    let Some(statistics) = Statistics::from_values(speeds).filter(|found| found.count >= 3) else {
        return Vec::new();
    };
    let distances = speeds.iter().map(|speed| (speed - statistics.median).abs());
    let distances: Vec<f64> = distances.collect();
    let deviation = Statistics::from_values(&distances).map_or(0.0, |found| found.median);
    // The median absolute deviation is 0 where all runs but one are equal; then any visible distance is an outlier.
    let deviation = deviation.max(statistics.median.abs() * 1e-3);
    let is_outlier = |distance: f64| 0.674_490_759 * distance / deviation > OUTLIER;
    let outliers = (1_u32..).zip(&distances);
    let outliers = outliers.filter(|(_, distance)| is_outlier(**distance));
    let outliers: Vec<String> = outliers.map(|(number, _)| number.to_string()).collect();
    let mut noise = Vec::new();
    if outliers == ["1"] && speeds[0] < statistics.median {
        noise.push(
            "the first run was much slower than the others: something was cold; drop more at the front with --warmup".to_owned(),
        );
    } else if !outliers.is_empty() {
        noise.push(format!(
            "runs {} are statistical outliers: something else was at work; use a quiet machine, and run again",
            outliers.join(", ")
        ));
    }
    let share = statistics.std / statistics.mean;
    if share > NOISY {
        noise.push(format!(
            "the speed varies by {:.1} % from run to run; use a quiet machine, hold the clocks (on a Jetson: --maximize-clocks), or measure longer",
            share * 100.0
        ));
    }
    noise
}

/// Two configurations, run in turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// Speed of the second configuration divided by that of the first, for each pair of consecutive runs.
    pub ratios: Vec<f64>,
    /// Statistics of these ratios.
    pub statistics: Statistics,
    /// Whether even the middle two thirds of the pairs, 16th to 84th percentile, lie on one side of 1.
    pub is_clear: bool,
}

impl Comparison {
    /// Compares runs of the same rounds. Pairs with a failed run are left out; `None` where no pair is complete.
    pub(crate) fn of_runs(first: &[RunResult], second: &[RunResult], of: RunSpeed) -> Option<Self> {
        let pairs = first.iter().zip(second);
        let pairs = pairs.filter_map(|(first, second)| Some((of(first)?, of(second)?)));
        let (first, second): (Vec<f64>, Vec<f64>) = pairs.unzip();
        Self::paired(&first, &second)
    }

    /// Compares speeds pair by pair; `None` where no pair is complete.
    pub(crate) fn paired(first: &[f64], second: &[f64]) -> Option<Self> {
        let pairs = first.iter().zip(second).filter(|(first, _)| **first > 0.0);
        let ratios: Vec<f64> = pairs.map(|(first, second)| second / first).collect();
        let statistics = Statistics::from_values(&ratios)?;
        let is_clear = statistics.percentile_16 > 1.0 || statistics.percentile_84 < 1.0;
        Some(Self {
            ratios,
            statistics,
            is_clear,
        })
    }

    /// The result in a sentence.
    pub(crate) fn describe(&self, first: &str, second: &str) -> String {
        let found = &self.statistics;
        let (median, min, max) = (found.median, found.min, found.max);
        let (from, to) = (found.percentile_16, found.percentile_84);
        let pairs = self.ratios.len();
        let verdict = if pairs < 3 {
            "too few pairs for a result; use --repeat 5 or more"
        } else if !self.is_clear {
            "no difference that stands out of the noise"
        } else if median > 1.0 {
            "the second is faster"
        } else {
            "the first is faster"
        };
        format!(
            "{second} runs at {median:.3} times the speed of {first} (median of {pairs} pairs; 16th to 84th percentile {from:.3} to {to:.3}, all {min:.3} to {max:.3}): {verdict}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_runs_give_no_warning() {
        assert!(noise(&[100.0, 101.0, 99.0, 100.5, 99.5]).is_empty());
        assert!(noise(&[100.0, 10.0]).is_empty(), "two are too few");
    }

    #[test]
    fn slow_first_run_and_outliers_are_detected() {
        let cold = noise(&[50.0, 100.0, 101.0, 99.0, 100.0, 100.0]);
        assert!(cold[0].starts_with("the first run was much slower"));
        assert!(
            cold[1].starts_with("the speed varies by 20.3 %"),
            "{cold:?}"
        );
        let late = noise(&[100.0, 100.0, 101.0, 40.0, 99.0, 100.0]);
        assert!(late[0].starts_with("runs 4 are statistical outliers"));
        // A run above the others is no cold start.
        let fast = noise(&[200.0, 100.0, 101.0, 99.0, 100.0, 100.0]);
        assert!(fast[0].starts_with("runs 1 are statistical outliers"));
    }

    #[test]
    fn ratios_are_computed_per_pair() {
        let found =
            Comparison::paired(&[100.0, 50.0, 200.0], &[110.0, 60.0, 210.0]).expect("pairs");
        let wanted = [1.1, 1.2, 1.05];
        assert!(
            found
                .ratios
                .iter()
                .zip(wanted)
                .all(|(found, wanted)| (found - wanted).abs() < 1e-12),
            "{found:?}"
        );
        assert!((found.statistics.median - 1.1).abs() < 1e-12 && found.is_clear);
        assert!(found.describe("a", "b").ends_with("the second is faster"));
        let alike =
            Comparison::paired(&[100.0, 100.0, 100.0], &[90.0, 110.0, 100.0]).expect("pairs");
        assert!(!alike.is_clear);
        assert_eq!(Comparison::paired(&[0.0], &[1.0]), None);
    }
}
