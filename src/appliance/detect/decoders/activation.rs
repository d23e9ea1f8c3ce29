// SPDX-License-Identifier: Apache-2.0
//! The sigmoid, for exports that do not contain it. Pure.
//!
//! Decoders compare logits with [`min_logit`] first, so that the exponential is computed only for the few that pass.

/// The logistic function.
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The minimum logit whose sigmoid may reach `threshold`.
///
/// Slightly below the exact value, because rounding must not lose the threshold itself: near 1 the distance of
/// two neighboring floats is a good part of what is missing to 1.
pub(crate) fn min_logit(threshold: f32) -> f32 {
    let threshold = (threshold - 2.0 * f32::EPSILON).max(0.0);
    (threshold / (1.0 - threshold)).ln() - 0.001
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_logit_that_reaches_the_threshold_is_below_the_minimum() {
        for step in -1600..1600 {
            let logit = step as f32 * 0.01;
            let least = min_logit(sigmoid(logit));
            assert!(logit >= least, "{logit} lies below {least}");
            // Where sigmoids are far enough from 0 and 1 it leaves out what lies below.
            assert!(
                logit.abs() > 5.0 || logit - least < 0.01,
                "{least} for {logit}"
            );
        }
        assert_eq!(min_logit(0.0), f32::NEG_INFINITY);
        assert!((15.0..16.0).contains(&min_logit(1.0)));
    }
}
