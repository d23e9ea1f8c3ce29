//! Association stages: which tracks and detections may be paired, in which order. The three trackers differ most here.
//!
//! | rank | IOU       | SORT | ByteTrack                                     |
//! |------|-----------|------|-----------------------------------------------|
//! | 0    | active    | all  | active, strong detections, IOU times score    |
//! | 1    | lost      |      | lost, strong detections, IOU times score      |
//! | 2    | tentative |      | active, weak detections, IOU                  |
//! | 3    |           |      | tentative, strong detections, IOU times score |
//!
//! The IOU tracker orders by state, which its plain form does not: without a prediction, the stale box of a lost track must
//! not take a detection from an active track, nor a false new track from either. ByteTrack's authors associate active and
//! lost tracks together. Here lost tracks come after active ones, for the same reason: the longer an object was not
//! detected, the less reliable its predicted box.

use jetwatch_config::{TrackerConfig, TrackerKind};
use jetwatch_types::TrackState;

/// Minimum overlap at which ByteTrack accepts a second detection for a track with one detection; its authors' value. Above
/// the minimum of other pairs, since a track without velocity is predicted at its old position.
const TENTATIVE_MIN_IOU: f32 = 0.3;

/// Association rules of one tracker.
#[derive(Debug, Clone, Copy)]
pub(super) struct AssociationStages {
    kind: TrackerKind,
    min_iou: f32,
    min_score: f32,
    tentative_score: f32,
    tentative_min_iou: f32,
}

/// Conditions for pairing a track and a detection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AssociationStage {
    /// Lower ranks are assigned first.
    pub(super) rank: u8,
    /// How overlap is measured, and the minimum.
    pub(super) similarity: SimilarityKind,
    pub(super) min_similarity: f32,
    pub(super) weight_kind: WeightKind,
}

/// Measure of overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SimilarityKind {
    /// Intersection over union.
    Iou,
    /// Intersection over union times the detection's score, which prefers confident detections.
    IouTimesScore,
}

impl AssociationStage {
    /// Weight of a pair with this overlap. ByteTrack's assignment puts a price on leaving a pair unmatched, equal to a pair
    /// at the limit: two pairs that barely overlap enough are then worth less than one that overlaps well.
    pub(super) fn weight(&self, similarity: f32) -> f32 {
        match self.weight_kind {
            WeightKind::Full => similarity,
            // A pair exactly at the limit is still better than none.
            WeightKind::AboveThreshold => (similarity - self.min_similarity).max(f32::EPSILON),
        }
    }
}

/// How overlap counts as weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeightKind {
    /// The whole overlap.
    Full,
    /// The overlap above the minimum.
    AboveThreshold,
}

impl AssociationStages {
    pub(super) fn new(config: &TrackerConfig) -> Self {
        Self {
            kind: config.kind,
            min_iou: config.min_iou,
            min_score: config.bytetrack.min_score,
            tentative_score: config.bytetrack.tentative_score,
            tentative_min_iou: config.bytetrack.tentative_min_iou,
        }
    }

    /// Detections below this score are ignored; `None`: all are used.
    pub(super) fn min_detection_score(&self) -> Option<f32> {
        (self.kind == TrackerKind::ByteTrack).then_some(self.min_score)
    }

    /// Smallest overlap at which any stage pairs.
    pub(super) fn min_similarity(&self) -> f32 {
        match self.kind {
            TrackerKind::Iou | TrackerKind::Sort => self.min_iou,
            TrackerKind::ByteTrack => self.min_iou.min(self.tentative_min_iou),
        }
    }

    /// Stage for a track in this state and a detection with this score; `None` when they may not be paired.
    pub(super) fn stage(&self, state: TrackState, score: f32) -> Option<AssociationStage> {
        let by_iou = |rank| AssociationStage {
            rank,
            similarity: SimilarityKind::Iou,
            min_similarity: self.min_iou,
            weight_kind: match self.kind {
                TrackerKind::Iou | TrackerKind::Sort => WeightKind::Full,
                TrackerKind::ByteTrack => WeightKind::AboveThreshold,
            },
        };
        let by_score = |rank| AssociationStage {
            similarity: SimilarityKind::IouTimesScore,
            ..by_iou(rank)
        };
        let is_weak = score < self.tentative_score;
        match (self.kind, state) {
            (_, TrackState::Ended) => None,
            (TrackerKind::Iou, TrackState::Active) | (TrackerKind::Sort, _) => Some(by_iou(0)),
            (TrackerKind::Iou, TrackState::Lost) => Some(by_iou(1)),
            (TrackerKind::Iou, TrackState::Tentative) => Some(by_iou(2)),
            (TrackerKind::ByteTrack, TrackState::Active) if is_weak => Some(AssociationStage {
                min_similarity: self.tentative_min_iou,
                ..by_iou(2)
            }),
            (TrackerKind::ByteTrack, _) if is_weak => None,
            (TrackerKind::ByteTrack, TrackState::Active) => Some(by_score(0)),
            (TrackerKind::ByteTrack, TrackState::Lost) => Some(by_score(1)),
            (TrackerKind::ByteTrack, TrackState::Tentative) => Some(AssociationStage {
                min_similarity: self.min_iou.max(TENTATIVE_MIN_IOU),
                ..by_score(3)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_config::ByteTrackConfig;

    /// Rank and least overlap for a strong and a weak detection.
    fn terms(kind: TrackerKind, state: TrackState) -> [Option<(u8, f32)>; 2] {
        let stages = AssociationStages::new(&TrackerConfig {
            min_iou: 0.2,
            bytetrack: ByteTrackConfig {
                min_score: 0.1,
                tentative_score: 0.6,
                tentative_min_iou: 0.7,
            },
            ..TrackerConfig::new(kind)
        });
        [0.6, 0.5].map(|score| {
            let stage = stages.stage(state, score)?;
            let by_score = kind == TrackerKind::ByteTrack && score >= 0.6;
            assert_eq!(stage.similarity == SimilarityKind::IouTimesScore, by_score);
            Some((stage.rank, stage.min_similarity))
        })
    }

    #[test]
    fn each_track_state_and_score_has_its_stage() {
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
        for (kind, state, expected) in cases {
            assert_eq!(terms(kind, state), expected, "{kind:?} {state:?}");
        }
    }

    #[test]
    fn one_good_pair_outweighs_two_at_the_threshold() {
        let stages = AssociationStages::new(&TrackerConfig::new(TrackerKind::ByteTrack));
        let stage = stages
            .stage(TrackState::Active, 0.9)
            .expect("active tracks are open");
        assert!(stage.weight(0.9) > 2.0 * stage.weight(0.5));
        assert!(stage.weight(stage.min_similarity) > 0.0);
        let stages = AssociationStages::new(&TrackerConfig::new(TrackerKind::Sort));
        let stage = stages
            .stage(TrackState::Active, 0.9)
            .expect("active tracks are open");
        assert_eq!(stage.weight(0.5), 0.5);
    }
}
