// SPDX-License-Identifier: Apache-2.0
//! What a new object needs: a start score and evidence, both relative to what the network gives for published objects. A score of
//! 0.6 means one thing from one network and another from the next; so does the number of false detections.
//!
//! The evidence of a detection of score `s` is `−s² · ln(1 − s)`: 0.08 at 0.4, 0.33 at 0.6, 1.0 at 0.8, 2.7 at 0.95.
//! `−ln(1 − s)` adds up as the logarithm of the probability that all detections are false; the square lowers the weight of
//! weak detections, which repeat at the same place more often than independent errors would.
//!
//! [`ScoreStatistics`] keeps the distribution of the scores of published tracks, and how many new objects vanish again within
//! their probation. The constants were chosen together with the defaults; see the page "Trackers" of the book.

/// Scores above this count as this: no detection is certain.
const MAX_SCORE: f32 = 0.99;

/// Number of equal steps of the score in which detections are counted.
const STEPS: usize = 64;

/// Number of detections at which all counts are halved: older ones count less and less.
const MAX_COUNT: f32 = 600.0;

/// The share of detections whose scores are below the usual one.
const USUAL_SHARE: f32 = 0.4;

/// Number of detections after which the usual evidence has half of its weight. Until then new objects need less evidence. With
/// fewer, the score that starts a track does not adapt.
const HALF_WEIGHT_COUNT: u32 = 20;

/// Number of new objects at which both counts begin to fade.
const MAX_OUTCOMES: f32 = 100.0;

/// What is assumed before the first outcomes: this number of new objects, this share of which vanished.
const ASSUMED_OUTCOMES: f32 = 4.0;
const ASSUMED_FAILURES: f32 = 1.0;

/// Where this share of new objects vanishes, or more, the whole evidence is needed.
const FULL_FAILURE_SHARE: f32 = 0.4;

/// Evidence of one detection. 0 for a score of 0 or below, or NaN.
pub(super) fn evidence(score: f32) -> f32 {
    let score = if score > 0.0 {
        score.min(MAX_SCORE)
    } else {
        0.0
    };
    -(1.0 - score).ln() * score * score
}

/// Scores of the detections of published tracks of one source, and the outcomes of probations.
#[derive(Debug, Clone)]
pub(super) struct ScoreStatistics {
    /// Number of detections by score.
    counts: [f32; STEPS],
    /// Their sum.
    total: f32,
    /// Detections so far, old ones included.
    seen: u32,
    /// New objects that were published.
    passed: f32,
    /// New objects that were matched at least once, and vanished before they were published.
    failed: f32,
}

impl Default for ScoreStatistics {
    fn default() -> Self {
        Self {
            counts: [0.0; STEPS],
            total: 0.0,
            seen: 0,
            passed: 0.0,
            failed: 0.0,
        }
    }
}

impl ScoreStatistics {
    /// Adds a detection that continued a published track.
    pub(super) fn observe(&mut self, score: f32) {
        if self.total >= MAX_COUNT {
            self.counts.iter_mut().for_each(|count| *count /= 2.0);
            self.total /= 2.0;
        }
        // Not a number counts as 0.
        let step = (score.clamp(0.0, 1.0) * STEPS as f32) as usize;
        self.counts[step.min(STEPS - 1)] += 1.0;
        self.total += 1.0;
        self.seen = self.seen.saturating_add(1);
    }

    /// Adds the outcome of a probation: published or not. Objects detected once are not counted.
    pub(super) fn add_outcome(&mut self, is_published: bool) {
        match is_published {
            true => self.passed += 1.0,
            false => self.failed += 1.0,
        }
        let total = self.passed + self.failed;
        if total > MAX_OUTCOMES {
            self.passed *= MAX_OUTCOMES / total;
            self.failed *= MAX_OUTCOMES / total;
        }
    }

    /// The evidence of a detection with the usual score of published tracks, near 0 while few are known.
    pub(super) fn usual_evidence(&self) -> f32 {
        let weight = self.seen as f32 / (self.seen as f32 + HALF_WEIGHT_COUNT as f32);
        self.quantile(USUAL_SHARE)
            .map_or(0.0, |score| weight * evidence(score))
    }

    /// Share of the configured evidence that new objects need, 0 to 1: none where all of them turned out to be objects.
    pub(super) fn caution(&self) -> f32 {
        let failed = self.failed + ASSUMED_FAILURES;
        let share = failed / (self.failed + self.passed + ASSUMED_OUTCOMES);
        (share / FULL_FAILURE_SHARE).min(1.0)
    }

    /// The score that starts a track: `limit`, or what all but `share` of the detections of published tracks reach, if that is
    /// lower. With a share of 0 always `limit`.
    pub(super) fn start_score(&self, limit: f32, share: f32) -> f32 {
        if share <= 0.0 || self.seen < HALF_WEIGHT_COUNT {
            return limit;
        }
        self.quantile(share).map_or(limit, |score| score.min(limit))
    }

    /// The score that this share of the detections is below; `None` without detections.
    fn quantile(&self, share: f32) -> Option<f32> {
        let mut left = share * self.total;
        for (step, count) in self.counts.iter().enumerate() {
            if *count > 0.0 && *count >= left {
                return Some((step as f32 + left / count) / STEPS as f32);
            }
            left -= count;
        }
        // Rounding can leave a little over.
        (self.total > 0.0).then_some(1.0)
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
    fn usual_evidence_begins_at_zero_and_follows_the_network() {
        let mut scores = ScoreStatistics::default();
        assert_eq!(scores.usual_evidence(), 0.0);
        (0..20).for_each(|_| scores.observe(0.8));
        assert!((scores.usual_evidence() - evidence(0.8) / 2.0).abs() < 0.05);
        (0..3000).for_each(|_| scores.observe(0.5));
        let found = scores.usual_evidence();
        assert!((found - evidence(0.5)).abs() < 0.02, "{found}");
    }

    #[test]
    fn start_score_is_lower_for_a_network_of_low_scores_only() {
        let mut scores = ScoreStatistics::default();
        let ten = |from: f32| (0..10).map(move |step| from + 0.04 * step as f32);
        ten(0.4).for_each(|score| scores.observe(score));
        assert_eq!(scores.start_score(0.6, 0.05), 0.6, "too few");
        ten(0.4).for_each(|score| scores.observe(score));
        let start = scores.start_score(0.6, 0.05);
        assert!((0.38..0.43).contains(&start), "{start}");
        assert_eq!(scores.start_score(0.3, 0.05), 0.3, "never above the limit");
        assert_eq!(scores.start_score(0.6, 0.0), 0.6, "does not adapt");
        (0..6).for_each(|_| ten(0.62).chain(ten(0.62)).for_each(|it| scores.observe(it)));
        (0..40).for_each(|_| ten(0.62).for_each(|it| scores.observe(it)));
        assert_eq!(scores.start_score(0.6, 0.05), 0.6);
    }

    #[test]
    fn caution_follows_the_share_of_new_objects_that_vanish() {
        let mut outcomes = ScoreStatistics::default();
        assert_eq!(outcomes.caution(), 0.625, "what is assumed");
        (0..40).for_each(|_| outcomes.add_outcome(true));
        assert!(outcomes.caution() < 0.1, "{}", outcomes.caution());
        (0..400).for_each(|_| outcomes.add_outcome(false));
        assert_eq!(outcomes.caution(), 1.0);
        (0..4000).for_each(|_| outcomes.add_outcome(true));
        assert!(outcomes.caution() < 0.1, "{}", outcomes.caution());
    }
}
