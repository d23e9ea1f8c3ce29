//! Which tracks and detections are open to each other, and who chooses first: where the three trackers differ most.
//!
//! | rank | IOU       | SORT | ByteTrack                                            |
//! |------|-----------|------|------------------------------------------------------|
//! | 0    | active    | all  | active and lost, strong detections, IOU times score  |
//! | 1    | lost      |      | active, weak detections, IOU                         |
//! | 2    | tentative |      | tentative, strong detections, IOU times score        |
//!
//! The order of the IOU tracker is more than the plain form has: without a prediction, the stale box of a lost track must
//! not take a detection from a track that is doing well, nor a false start from either.

use crate::config::{TrackerConfig, TrackerKind};
use crate::types::TrackState;

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
        let is_weak = score < self.tentative_score;
        match (self.kind, state) {
            (_, TrackState::Ended) => None,
            (TrackerKind::Iou, TrackState::Active) | (TrackerKind::Sort, _) => Some(plain(0)),
            (TrackerKind::Iou, TrackState::Lost) => Some(plain(1)),
            (TrackerKind::Iou, TrackState::Tentative) => Some(plain(2)),
            (TrackerKind::ByteTrack, TrackState::Active) if is_weak => Some(Stage {
                least: self.tentative_min_iou,
                ..plain(1)
            }),
            (TrackerKind::ByteTrack, _) if is_weak => None,
            (TrackerKind::ByteTrack, state) => Some(Stage {
                overlap: Overlap::TimesScore,
                ..plain(if state == TrackState::Tentative { 2 } else { 0 })
            }),
        }
    }
}
