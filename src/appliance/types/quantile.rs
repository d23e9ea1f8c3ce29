//! A quantile of sorted numbers, the same for every summary.

/// The number below which `share` (0 to 1) of `sorted` lie: between the two nearest, in proportion, as numpy does by default.
///
/// # Panics
/// When `sorted` is empty.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * part
}
