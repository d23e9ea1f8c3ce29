// SPDX-License-Identifier: Apache-2.0
//! Summary statistics of a list of numbers, defined as in numpy, which CV-CUDA's benchmark script uses.

use serde::Serialize;

use jetwatch_types::{mean, quantile, standard_deviation};

/// Summary statistics of at least one number, in the unit of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Statistics {
    /// Number of values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// Population standard deviation: the divisor is the number of values.
    pub std: f64,
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// 16th percentile. Percentiles are interpolated linearly between two values.
    pub percentile_16: f64,
    /// 84th percentile.
    pub percentile_84: f64,
    /// 95th percentile.
    pub percentile_95: f64,
    /// 99th percentile.
    pub percentile_99: f64,
}

impl Statistics {
    /// The statistics of `numbers`; `None` for an empty list.
    pub(crate) fn from_values(numbers: &[f64]) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mean = mean(sorted.iter().copied())?;
        Some(Self {
            count: sorted.len(),
            mean,
            std: standard_deviation(&sorted, mean, 0),
            median: quantile(&sorted, 0.5),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
            percentile_16: quantile(&sorted, 0.16),
            percentile_84: quantile(&sorted, 0.84),
            percentile_95: quantile(&sorted, 0.95),
            percentile_99: quantile(&sorted, 0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found}, wanted {wanted}");
    }

    #[test]
    fn values_equal_hand_computed_ones() {
        // Deviations from the mean of 5: -3 -1 -1 -1 0 0 2 4. The sum of their squares is 32.
        let found =
            Statistics::from_values(&[9.0, 4.0, 2.0, 5.0, 4.0, 7.0, 5.0, 4.0]).expect("numbers");
        assert_eq!(found.count, 8);
        close(found.mean, 5.0);
        close(found.std, 2.0);
        close(found.median, 4.5);
        close(found.min, 2.0);
        close(found.max, 9.0);
        // Positions 1.12, 5.88, 6.65 and 6.93 in 2 4 4 4 5 5 7 9, counted from 0.
        close(found.percentile_16, 4.0);
        close(found.percentile_84, 5.0 + 2.0 * 0.88);
        close(found.percentile_95, 7.0 + 2.0 * 0.65);
        close(found.percentile_99, 7.0 + 2.0 * 0.93);
    }

    #[test]
    fn statistics_of_single_number_are_that_number() {
        let found = Statistics::from_values(&[3.0]).expect("a number");
        assert_eq!(
            (
                found.mean,
                found.std,
                found.percentile_16,
                found.percentile_99
            ),
            (3.0, 0.0, 3.0, 3.0)
        );
        assert_eq!(Statistics::from_values(&[]), None);
    }
}
