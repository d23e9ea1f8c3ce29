// SPDX-License-Identifier: Apache-2.0
//! Quantile of a sorted sample, for all summaries.

/// The `share` quantile (0 to 1) of `sorted`, interpolated linearly between the two nearest values (numpy's default).
///
/// ```
/// use jetwatch_types::quantile;
///
/// let milliseconds = [1.0, 2.0, 4.0, 8.0];
/// assert_eq!(quantile(&milliseconds, 0.5), 3.0);
/// assert_eq!(quantile(&milliseconds, 1.0), 8.0);
/// ```
///
/// # Panics
/// When `sorted` is empty.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = share * (sorted.len() - 1) as f64;
    let (below, part) = (index.floor() as usize, index.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * part
}
