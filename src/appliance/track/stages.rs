//! Which tracks and detections are open to each other, and who chooses first: where the three trackers differ most.
//!
//! | rank | IOU       | SORT | ByteTrack                                     |
//! |------|-----------|------|-----------------------------------------------|
//! | 0    | active    | all  | active, strong detections, IOU times score    |
//! | 1    | lost      |      | lost, strong detections, IOU times score      |
//! | 2    | tentative |      | active, weak detections, IOU                  |
//! | 3    |           |      | tentative, strong detections, IOU times score |
//!
//! The order of the IOU tracker is more than the plain form has: without a prediction, the stale box of a lost track must
//! not take a detection from a track that is doing well, nor a false start from either. ByteTrack's authors let active and
//! lost tracks choose together; here the lost ones come after, for the same reason: the longer nobody saw an object, the
//! less its predicted box is worth.

use jetwatch_config::{TrackerConfig, TrackerKind};
use jetwatch_types::TrackState;

/// Least overlap at which ByteTrack takes a second detection for one that was seen once. Its authors' own, and above the
/// least of other pairs: who has no velocity yet is expected to be where it was.
const SECOND_SIGHT: f32 = 0.3;

/// The rules of one tracker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages {
    kind: TrackerKind,
    min_iou: f32,
    min_score: f32,
    tentative_score: f32,
    tentative_min_iou: f32,
}

/// On what terms a track and a detection may be paired.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stage {
    /// Lower ranks choose first.
    pub(super) rank: u8,
    /// How their overlap is counted, and how much of it is enough.
    pub(super) overlap: Overlap,
    pub(super) least: f32,
    pub(super) sum: Sum,
}

/// How an overlap is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    /// Intersection over union.
    Plain,
    /// The same times the score of the detection, so that a sure one is preferred.
    TimesScore,
}

impl Stage {
    /// What a pair with this overlap counts for in a sum. ByteTrack's assignment has a price of not pairing, which is
    /// that of a pair at the limit: two pairs that barely overlap enough are then worth less than one that overlaps well.
    pub(super) fn worth(&self, overlap: f32) -> f32 {
        match self.sum {
            Sum::Whole => overlap,
            // A pair exactly at the limit is still better than none.
            Sum::AboveLimit => (overlap - self.least).max(f32::EPSILON),
        }
    }
}

/// What of an overlap counts in a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// All of it.
    Whole,
    /// What it has above the least.
    AboveLimit,
}

impl Stages {
    pub(super) fn new(config: &TrackerConfig) -> Self {
        Self {
            kind: config.kind,
            min_iou: config.min_iou,
            min_score: config.low_scores.min_score,
            tentative_score: config.low_scores.tentative_score,
            tentative_min_iou: config.low_scores.tentative_min_iou,
        }
    }

    /// Detections below this score are not looked at.
    pub(super) fn least_score(&self) -> Option<f32> {
        (self.kind == TrackerKind::ByteTrack).then_some(self.min_score)
    }

    /// Pairs that overlap less than this are open to each other on no terms.
    pub(super) fn least_overlap(&self) -> f32 {
        match self.kind {
            TrackerKind::Iou | TrackerKind::Sort => self.min_iou,
            TrackerKind::ByteTrack => self.min_iou.min(self.tentative_min_iou),
        }
    }

    /// The terms for a track in this state and a detection with this score; `None` when they are not open to each other.
    pub(super) fn stage(&self, state: TrackState, score: f32) -> Option<Stage> {
        let plain = |rank| Stage {
            rank,
            overlap: Overlap::Plain,
            least: self.min_iou,
            sum: match self.kind {
                TrackerKind::Iou | TrackerKind::Sort => Sum::Whole,
                TrackerKind::ByteTrack => Sum::AboveLimit,
            },
        };
        let by_score = |rank| Stage {
            overlap: Overlap::TimesScore,
            ..plain(rank)
        };
        let is_weak = score < self.tentative_score;
        match (self.kind, state) {
            (_, TrackState::Ended) => None,
            (TrackerKind::Iou, TrackState::Active) | (TrackerKind::Sort, _) => Some(plain(0)),
            (TrackerKind::Iou, TrackState::Lost) => Some(plain(1)),
            (TrackerKind::Iou, TrackState::Tentative) => Some(plain(2)),
            (TrackerKind::ByteTrack, TrackState::Active) if is_weak => Some(Stage {
                least: self.tentative_min_iou,
                ..plain(2)
            }),
            (TrackerKind::ByteTrack, _) if is_weak => None,
            (TrackerKind::ByteTrack, TrackState::Active) => Some(by_score(0)),
            (TrackerKind::ByteTrack, TrackState::Lost) => Some(by_score(1)),
            (TrackerKind::ByteTrack, TrackState::Tentative) => Some(Stage {
                least: self.min_iou.max(SECOND_SIGHT),
                ..by_score(3)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_config::LowScores;

    /// Rank and least overlap for a strong and a weak detection.
    fn terms(kind: TrackerKind, state: TrackState) -> [Option<(u8, f32)>; 2] {
        let stages = Stages::new(&TrackerConfig {
            min_iou: 0.2,
            low_scores: LowScores {
                min_score: 0.1,
                tentative_score: 0.6,
                tentative_min_iou: 0.7,
            },
            ..TrackerConfig::new(kind)
        });
        [0.6, 0.5].map(|score| {
            let stage = stages.stage(state, score)?;
            let by_score = kind == TrackerKind::ByteTrack && score >= 0.6;
            assert_eq!(stage.overlap == Overlap::TimesScore, by_score);
            Some((stage.rank, stage.least))
        })
    }

    #[test]
    fn who_is_open_to_whom() {
        use TrackState::{Active, Ended, Lost, Tentative};
        use TrackerKind::{ByteTrack, Iou, Sort};
        let both = |rank| [Some((rank, 0.2)); 2];
        let cases = [
            (Iou, Active, both(0)),
            (Iou, Lost, both(1)),
            (Iou, Tentative, both(2)),
            (Sort, Active, both(0)),
            (Sort, Lost, both(0)),
            (Sort, Tentative, both(0)),
            (ByteTrack, Active, [Some((0, 0.2)), Some((2, 0.7))]),
            (ByteTrack, Lost, [Some((1, 0.2)), None]),
            (ByteTrack, Tentative, [Some((3, 0.3)), None]),
            (Iou, Ended, [None; 2]),
            (Sort, Ended, [None; 2]),
            (ByteTrack, Ended, [None; 2]),
        ];
        for (kind, state, wanted) in cases {
            assert_eq!(terms(kind, state), wanted, "{kind:?} {state:?}");
        }
    }

    #[test]
    fn one_good_pair_outweighs_two_at_the_limit() {
        let stages = Stages::new(&TrackerConfig::new(TrackerKind::ByteTrack));
        let stage = stages
            .stage(TrackState::Active, 0.9)
            .expect("active tracks are open");
        assert!(stage.worth(0.9) > 2.0 * stage.worth(0.5));
        assert!(stage.worth(stage.least) > 0.0);
        let stages = Stages::new(&TrackerConfig::new(TrackerKind::Sort));
        let stage = stages
            .stage(TrackState::Active, 0.9)
            .expect("active tracks are open");
        assert_eq!(stage.worth(0.5), 0.5);
    }
}
