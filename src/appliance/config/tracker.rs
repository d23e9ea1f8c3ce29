//! `tracker` as a checked value: which tracker, and its settings with the defaults that each one's authors gave. Only the
//! probation is the same for all: ByteTrack's authors confirm a track in its second frame, but what is published should
//! not be a matter of the tracker.

/// A tracker with its settings, in DeepStream's vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackerConfig {
    /// Which tracker. Default: IOU.
    pub kind: TrackerKind,
    /// How detections and tracks are paired. Default: greedy for IOU, optimal for the others.
    pub association: Association,
    /// Least IOU of a pair, above 0 to 1. ByteTrack takes the IOU times the score. Default 0.3, ByteTrack 0.2.
    pub min_iou: f32,
    /// Frames in which a new object must be matched before it is published, at least 1. Default 3.
    pub probation_frames: u32,
    /// Frames that a confirmed track may go unseen before it ends. Default 30, SORT 1.
    pub max_lost_frames: u32,
    /// Frames after those in which a lost track is still kept, for a new one that begins where it would have gone: that one then
    /// continues it. Default 0: none.
    pub reassociate_frames: u32,
    /// Whether only detections of the track's class may be matched. Default: yes.
    pub class_match: ClassMatch,
    /// Detections below this score start no new track, 0 to 1. Default 0, ByteTrack 0.6.
    pub min_new_track_score: f32,
    /// What ByteTrack makes of detections with a low score; the others do not read it.
    pub low_scores: LowScores,
}

/// ByteTrack's second stage: detections that may continue a track in sight, though they are weak.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowScores {
    /// Detections below this score are left out altogether, 0 to 1. Default 0.1.
    pub min_score: f32,
    /// Detections below this score are weak, 0 to 1: they are paired after the others. Default 0.5.
    pub tentative_score: f32,
    /// Least IOU of a weak detection and a track, above 0 to 1. Default 0.5.
    pub tentative_min_iou: f32,
}

/// Which tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackerKind {
    /// A detection belongs to the track whose last box it overlaps most.
    Iou,
    /// Boxes predicted at constant velocity by a Kalman filter (Bewley and others, 2016).
    Sort,
    /// The same with weak detections in a second stage (Zhang and others, 2022).
    ByteTrack,
}

impl TrackerConfig {
    /// Frames after which a track that nobody has seen ends.
    #[must_use]
    pub const fn most_lost_frames(&self) -> u32 {
        self.max_lost_frames.saturating_add(self.reassociate_frames)
    }

    /// The defaults of a tracker.
    #[must_use]
    pub const fn new(kind: TrackerKind) -> Self {
        let common = Self {
            kind,
            association: Association::Optimal,
            min_iou: 0.3,
            probation_frames: 3,
            max_lost_frames: 30,
            reassociate_frames: 0,
            class_match: ClassMatch::Same,
            min_new_track_score: 0.0,
            low_scores: LowScores {
                min_score: 0.1,
                tentative_score: 0.5,
                tentative_min_iou: 0.5,
            },
        };
        match kind {
            TrackerKind::Iou => Self {
                association: Association::Greedy,
                ..common
            },
            TrackerKind::Sort => Self {
                max_lost_frames: 1,
                ..common
            },
            TrackerKind::ByteTrack => Self {
                min_iou: 0.2,
                min_new_track_score: 0.6,
                ..common
            },
        }
    }
}

/// How detections and tracks are paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Association {
    /// Best pair first.
    Greedy,
    /// The assignment with the greatest total IOU.
    Optimal,
}

/// Which classes may be paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassMatch {
    /// Only the track's own class.
    Same,
    /// Any class; the track takes the class of the newest detection.
    Any,
}
