// SPDX-License-Identifier: Apache-2.0
//! Mean and deviation, the same for every summary; as numpy defines them.

/// Mean; `None` without values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0_u64);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / count as f64)
}

/// Standard deviation around `mean`; `ddof` as in numpy: the squares are divided by the count less `ddof`, 0 for the values
/// themselves, 1 for an estimate from a sample. Zero with `ddof` values or fewer.
pub fn standard_deviation(values: &[f64], mean: f64, ddof: usize) -> f64 {
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    match values.len().saturating_sub(ddof) {
        0 => 0.0,
        divisor => (squares / divisor as f64).sqrt(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_of_a_sample_divides_by_one_less() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let center = mean(values).expect("values");
        assert_eq!(center, 5.0);
        assert_eq!(standard_deviation(&values, center, 0), 2.0);
        let sample = standard_deviation(&values, center, 1);
        assert!((sample - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn few_values_have_no_deviation_and_none_has_no_mean() {
        assert_eq!(standard_deviation(&[7.0], 7.0, 1), 0.0);
        assert_eq!(standard_deviation(&[7.0], 7.0, 0), 0.0);
        assert_eq!(mean([]), None);
    }
}
