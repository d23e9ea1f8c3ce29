// SPDX-License-Identifier: Apache-2.0
//! Association stages: which tracks and detections may be paired, in which order. The trackers differ most here.
//!
//! | rank | IOU, SORT | ByteTrack                                       | OC-SORT                       |
//! |------|-----------|-------------------------------------------------|-------------------------------|
//! | 0    | active    | active, strong detections, IOU times score      | active, strong detections     |
//! | 1    | lost      | lost, strong detections, IOU times score        | lost, strong detections       |
//! | 2    | tentative | active, weak detections, IOU                    | active, weak detections       |
//! | 3    |           | tentative, strong detections, IOU times score   | tentative, strong detections  |
//! | 4    |           | lost and tentative, weak detections, IOU        | lost and tentative, weak ones |
//!
//! Their authors associate active and lost tracks together. Here lost tracks come after active ones: the longer an object
//! was not detected, the less reliable its box, which must not take the detection of an active track. ByteTrack's authors
//! pair weak detections with active tracks only. Here they may also continue the others, last: a network whose scores are
//! all low would otherwise have no tracks.

use jetwatch_config::{TrackerConfig, TrackerKind};
use jetwatch_types::TrackState;

/// Minimum overlap at which a tentative track is continued; ByteTrack's value. Above the minimum of other pairs, since a
/// track without velocity is predicted at its old position. The IOU tracker, which predicts nothing, has no such difference.
const TENTATIVE_MIN_IOU: f32 = 0.3;

/// Share of the minimum overlap that is enough for a lost track of ByteTrack, whose prediction is less exact.
const LOST_MIN_IOU_SHARE: f32 = 0.8;

/// Share of the minimum overlap that is enough for a weak detection and an active track, which was detected a frame ago: its
/// prediction is more exact than that of the others.
const ACTIVE_WEAK_MIN_IOU_SHARE: f32 = 0.8;

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

    /// Detections below this score are ignored.
    pub(super) fn min_detection_score(&self) -> f32 {
        self.min_score
    }

    /// Smallest overlap at which any stage pairs.
    pub(super) fn min_similarity(&self) -> f32 {
        match self.kind {
            TrackerKind::Iou | TrackerKind::Sort => self.min_iou,
            TrackerKind::ByteTrack | TrackerKind::OcSort => {
                let weak = ACTIVE_WEAK_MIN_IOU_SHARE * self.tentative_min_iou;
                (LOST_MIN_IOU_SHARE * self.min_iou).min(weak)
            }
        }
    }

    /// Stage for a track in this state and a detection with this score; `None` when they may not be paired.
    pub(super) fn stage(&self, state: TrackState, score: f32) -> Option<AssociationStage> {
        let has_second_stage = match self.kind {
            TrackerKind::Iou | TrackerKind::Sort => false,
            TrackerKind::ByteTrack | TrackerKind::OcSort => true,
        };
        let is_weak = has_second_stage && score < self.tentative_score;
        let by_byte_track = self.kind == TrackerKind::ByteTrack;
        let weight_kind = match by_byte_track {
            true => WeightKind::AboveThreshold,
            false => WeightKind::Full,
        };
        if is_weak {
            let (rank, share) = match state {
                TrackState::Active => (2, ACTIVE_WEAK_MIN_IOU_SHARE),
                TrackState::Lost | TrackState::Tentative => (4, 1.0),
                TrackState::Ended => return None,
            };
            return Some(AssociationStage {
                rank,
                similarity: SimilarityKind::Iou,
                min_similarity: share * self.tentative_min_iou,
                weight_kind,
            });
        }
        let (rank, min_similarity) = match state {
            TrackState::Active => (0, self.min_iou),
            TrackState::Lost if by_byte_track => (1, LOST_MIN_IOU_SHARE * self.min_iou),
            TrackState::Lost => (1, self.min_iou),
            TrackState::Tentative => (
                if has_second_stage { 3 } else { 2 },
                match self.kind {
                    TrackerKind::Iou => self.min_iou,
                    _ => self.min_iou.max(TENTATIVE_MIN_IOU),
                },
            ),
            TrackState::Ended => return None,
        };
        Some(AssociationStage {
            rank,
            similarity: match by_byte_track {
                true => SimilarityKind::IouTimesScore,
                false => SimilarityKind::Iou,
            },
            min_similarity,
            weight_kind,
        })
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
        use TrackerKind::{ByteTrack, Iou, OcSort, Sort};
        let both = |rank, min| [Some((rank, min)); 2];
        let cases = [
            (Iou, Active, both(0, 0.2)),
            (Iou, Lost, both(1, 0.2)),
            (Iou, Tentative, both(2, 0.2)),
            (Sort, Active, both(0, 0.2)),
            (Sort, Lost, both(1, 0.2)),
            (Sort, Tentative, both(2, 0.3)),
            (ByteTrack, Active, [Some((0, 0.2)), Some((2, 0.8 * 0.7))]),
            (ByteTrack, Lost, [Some((1, 0.8 * 0.2)), Some((4, 0.7))]),
            (ByteTrack, Tentative, [Some((3, 0.3)), Some((4, 0.7))]),
            (OcSort, Active, [Some((0, 0.2)), Some((2, 0.8 * 0.7))]),
            (OcSort, Lost, [Some((1, 0.2)), Some((4, 0.7))]),
            (OcSort, Tentative, [Some((3, 0.3)), Some((4, 0.7))]),
        ];
        for (kind, state, expected) in cases {
            assert_eq!(terms(kind, state), expected, "{kind:?} {state:?}");
        }
        for kind in [Iou, Sort, ByteTrack, OcSort] {
            assert_eq!(terms(kind, Ended), [None; 2], "{kind:?}");
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
