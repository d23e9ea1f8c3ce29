// SPDX-License-Identifier: Apache-2.0
//! Summary statistics of a set of values.

use std::hash::Hash;

use foldhash::HashMap;

/// Numbers of a set of values. With one value alone the deviation is zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SummaryStats {
    /// Sum.
    pub total: i64,
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: i64,
    /// Maximum.
    pub max: i64,
    /// Sample standard deviation (n − 1).
    pub deviation: f64,
}

impl SummaryStats {
    /// Computes the statistics; reorders `values`. `None` without values.
    pub(crate) fn from_values(values: &mut [i64]) -> Option<Self> {
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        let (total, count) = (values.iter().sum::<i64>(), values.len());
        let mean = total as f64 / count as f64;
        let squares = values.iter().map(|value| (*value as f64 - mean).powi(2));
        let squares: f64 = squares.sum();
        let deviation = match count {
            1 => 0.0,
            count => (squares / (count - 1) as f64).sqrt(),
        };
        Some(Self {
            total,
            count: count as u64,
            mean,
            median: median(values),
            min,
            max,
            deviation,
        })
    }
}

/// A part of a whole, in percent.
pub(super) fn share_of(part: i64, all: i64) -> f64 {
    part as f64 * 100.0 / (all as f64).max(1.0)
}

/// The median of at least one value; reorders them. Sorting millions of them takes several times longer.
fn median(values: &mut [i64]) -> f64 {
    let count = values.len();
    let (below, middle, _) = values.select_nth_unstable(count / 2);
    let upper = *middle as f64;
    // Of an even number, the mean of the two in the middle.
    let lower = below.iter().max().filter(|_| count.is_multiple_of(2));
    lower.map_or(upper, |lower| (*lower as f64 + upper) / 2.0)
}

/// The result of `make` for the values of each key, keys in the order of their first occurrence. `rows` is iterated twice.
pub(crate) fn group_by_key<K: Hash + Eq + Clone, T>(
    rows: impl Iterator<Item = (K, i64)> + Clone,
    mut make: impl FnMut(&mut [i64]) -> T,
) -> Vec<(K, T)> {
    let mut numbers: HashMap<K, usize> = HashMap::default();
    let mut keys: Vec<K> = Vec::new();
    let mut counts: Vec<usize> = Vec::new();
    for (key, _) in rows.clone() {
        let number = *numbers.entry(key).or_insert_with_key(|key| {
            keys.push(key.clone());
            counts.push(0);
            counts.len() - 1
        });
        counts[number] += 1;
    }
    let mut end = 0;
    let starts = counts.iter().map(|count| {
        end += count;
        end - count
    });
    let mut next: Vec<usize> = starts.collect();
    let mut values = vec![0; end];
    for (key, value) in rows {
        let place = &mut next[numbers[&key]];
        values[*place] = value;
        *place += 1;
    }
    let mut rest = values.as_mut_slice();
    let made = keys.into_iter().zip(counts).map(|(key, count)| {
        let own = rest.split_off_mut(..count).unwrap_or_default();
        (key, make(own))
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_uses_sample_deviation() {
        let spread = SummaryStats::from_values(&mut [4, 1, 3, 2]).expect("values");
        assert_eq!(
            (spread.total, spread.count, spread.min, spread.max),
            (10, 4, 1, 4)
        );
        assert_eq!((spread.mean, spread.median), (2.5, 2.5));
        // Squares of 1.5, 1.5, 0.5, 0.5 are 5 together, by 3.
        assert!((spread.deviation - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        let one = SummaryStats::from_values(&mut [7]).expect("a value");
        assert_eq!((one.median, one.deviation), (7.0, 0.0));
        assert_eq!(SummaryStats::from_values(&mut []), None);
    }

    #[test]
    fn values_are_grouped_by_key() {
        let rows = [("b", 1), ("a", 10), ("b", 3), ("a", 20), ("c", 5)];
        let found: Vec<(&str, i64, f64)> =
            group_by_key(rows.into_iter(), SummaryStats::from_values)
                .into_iter()
                .filter_map(|(key, spread)| Some((key, spread?.total, spread?.median)))
                .collect();
        assert_eq!(found, [("b", 4, 2.0), ("a", 30, 15.0), ("c", 5, 5.0)]);
    }
}
