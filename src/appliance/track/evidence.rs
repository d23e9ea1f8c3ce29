//! Evidence: how much the detections of a new object speak for it. A score of 0.9 means one thing from one network and
//! another from the next, so evidence is compared with the mean of the detections of published tracks of the same source.
//!
//! The evidence of a detection of score `s` is `−s² · ln(1 − s)`: 0.08 at 0.4, 0.33 at 0.6, 1.0 at 0.8, 2.7 at 0.95.
//! `−ln(1 − s)` adds up as the logarithm of the probability that all detections are false; the square lowers the weight of
//! weak detections, which repeat at the same place more often than independent errors would.

/// Scores above this count as this: no detection is certain.
const MAX_SCORE: f32 = 0.99;

/// Number of detections over which the mean is taken.
const WINDOW: f32 = 300.0;

/// Number of detections after which the mean has half of its weight. Until then new objects need less evidence.
const HALF_WEIGHT_COUNT: f32 = 20.0;

/// Evidence of one detection. 0 for a score of 0 or below, or NaN.
pub(super) fn evidence(score: f32) -> f32 {
    let score = if score > 0.0 {
        score.min(MAX_SCORE)
    } else {
        0.0
    };
    -(1.0 - score).ln() * score * score
}

/// Mean evidence of the detections of published tracks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MeanEvidence {
    mean: f32,
    count: f32,
}

impl MeanEvidence {
    /// Adds a detection that continued a published track.
    pub(super) fn observe(&mut self, score: f32) {
        self.count = (self.count + 1.0).min(WINDOW);
        self.mean += (evidence(score) - self.mean) / self.count;
    }

    /// The mean, near 0 while few detections are known.
    pub(super) fn get(&self) -> f32 {
        self.mean * self.count / (self.count + HALF_WEIGHT_COUNT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_rises_with_the_score_and_stays_finite() {
        let scores = [f32::NAN, -1.0, 0.0, 0.4, 0.6, 0.8, 0.95, 0.99];
        let values = scores.map(evidence);
        assert!(values.is_sorted(), "{values:?}");
        assert_eq!(values[2], 0.0);
        for (score, expected) in [(0.6, 0.33), (0.95, 2.70)] {
            assert!((evidence(score) - expected).abs() < 0.01);
        }
        assert_eq!(evidence(1.0), evidence(0.99));
        assert_eq!(evidence(93.0), evidence(0.99), "scores on another scale");
    }

    #[test]
    fn the_mean_begins_at_zero_and_follows_the_network() {
        let mut mean = MeanEvidence::default();
        assert_eq!(mean.get(), 0.0);
        (0..20).for_each(|_| mean.observe(0.8));
        assert!((mean.get() - evidence(0.8) / 2.0).abs() < 1e-3);
        (0..3000).for_each(|_| mean.observe(0.5));
        let expected = evidence(0.5) * WINDOW / (WINDOW + HALF_WEIGHT_COUNT);
        assert!((mean.get() - expected).abs() < 1e-3, "{}", mean.get());
    }
}
