//! `tracker`: which tracker, and its settings with the defaults that each one's authors gave. Only the probation is the
//! same for all: ByteTrack's authors confirm a track in its second frame, but what is published should not depend on the
//! tracker.

use super::Words;
use super::section::{KeyValue, Section, from_value};
use super::yaml::map::Map;
use super::yaml::tree::YamlValue;

/// A tracker with its settings, in DeepStream's vocabulary.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct TrackerConfig {
    /// Which tracker: iou compares with the last box; sort predicts boxes at constant velocity by a Kalman filter; bytetrack does that too and lets detections of low score continue a track.
    #[key(name = "type", default = "iou")]
    pub kind: TrackerKind,
    /// How detections and tracks are paired: greedy, best pair first, or optimal, with the greatest total IOU. Default: greedy; sort and bytetrack: optimal.
    #[key(default_with = association)]
    pub association: Association,
    /// Minimum IOU of a pair; bytetrack takes the IOU times the score. Default: 0.3; bytetrack: 0.2.
    #[key(range = 0.0..=1.0, exclusive_min, default_with = min_iou)]
    pub min_iou: f32,
    /// Frames in which a new object must be matched before it is published.
    #[key(range = 1..=1000, unit = "frames", default = 3)]
    pub probation_frames: u32,
    /// Frames for which a published track may be missed before it ends. Default: 30; sort: 1.
    #[key(range = 0..=100_000, unit = "frames", default_with = max_lost_frames)]
    pub max_lost_frames: u32,
    /// Further frames for which a lost track is kept: a new one that begins at its predicted place, by its motion and size, continues it under its id.
    #[key(range = 0..=100_000, unit = "frames", default = 0)]
    pub reassociate_frames: u32,
    /// Whether a detection of another class may continue a track. same: only of its class, or of another one of its group in detector.groups; any: of every class.
    #[key(default = "same")]
    pub class_match: ClassMatch,
    /// Detections below this score start no new track. Default: 0; bytetrack: 0.6.
    #[key(range = 0.0..=1.0, default_with = min_new_track_score)]
    pub min_new_track_score: f32,
    /// The secondary network whose embeddings tell objects apart by their appearance (ReID); its layout is embedding. It runs on every detection, before detections and tracks are paired. Default: none.
    #[key(text = "the name of a secondary network")]
    pub appearance: Option<String>,
    /// Share of the appearance in the similarity of a track and a detection, where both have an embedding; the rest is the overlap of their boxes.
    #[key(range = 0.0..=1.0, default = 0.5)]
    pub appearance_weight: f32,
    /// Minimum cosine similarity of the embeddings of a track and a detection, where both have one; below it they are not paired.
    #[key(range = 0.0..=1.0, default = 0.25)]
    pub min_appearance_similarity: f32,
    /// Whether the motion of the camera is estimated from the pixels of its frames, so that tracks follow it: similarity, for shifts, rotation and zoom, or off.
    #[key(default = "off")]
    pub camera_motion: CameraMotionModel,
    /// Whether events of type new and end carry the embedding of the track; needs appearance.
    #[key(default = false)]
    pub output_embedding: bool,
    /// What ByteTrack does with detections of low score; the others do not read it.
    #[key(flatten)]
    pub bytetrack: ByteTrackConfig,
}

/// ByteTrack's second stage: detections of low score that may continue a track.
///
/// With another type the keys are accepted and unused, so that the type can be changed in one line.
#[derive(Debug, Clone, Copy, PartialEq, Section)]
#[section(check = check_low_scores)]
pub struct ByteTrackConfig {
    /// bytetrack only: detections below this score are left out. The detector's score_threshold should be no higher than this, or there is nothing of low score to pair.
    #[key(range = 0.0..=1.0, default = 0.1)]
    pub min_score: f32,
    /// bytetrack only: detections below this score are paired after the others, and only with tracks seen in the frame before.
    #[key(range = 0.0..=1.0, default = 0.5)]
    pub tentative_score: f32,
    /// bytetrack only: minimum IOU of such a detection and a track.
    #[key(range = 0.0..=1.0, exclusive_min, default = 0.5)]
    pub tentative_min_iou: f32,
}

fn check_low_scores(map: &Map<'_>) {
    if let (Some(min), Some(tentative)) = (map.number("min_score"), map.number("tentative_score"))
        && min > tentative
    {
        let name = match map.has("min_score") {
            true => "min_score",
            false => "tentative_score",
        };
        let what = format!(
            "min_score is {min} and tentative_score {tentative}, expected min_score to be no higher"
        );
        map.invalid(name, &what, None);
    }
}

/// Which tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum TrackerKind {
    /// A detection belongs to the track whose last box it overlaps most.
    Iou,
    /// Boxes predicted at constant velocity by a Kalman filter (Bewley and others, 2016).
    Sort,
    /// The same with detections of low score in a second stage (Zhang and others, 2022).
    ByteTrack,
}

/// With a type that is none, the other keys are still read.
fn kind(map: &Map<'_>) -> TrackerKind {
    TrackerKind::read(map, "type").unwrap_or(TrackerKind::Iou)
}

fn association(map: &Map<'_>) -> Association {
    match kind(map) {
        TrackerKind::Iou => Association::Greedy,
        TrackerKind::Sort | TrackerKind::ByteTrack => Association::Optimal,
    }
}

fn min_iou(map: &Map<'_>) -> f32 {
    match kind(map) {
        TrackerKind::Iou | TrackerKind::Sort => 0.3,
        TrackerKind::ByteTrack => 0.2,
    }
}

fn max_lost_frames(map: &Map<'_>) -> u32 {
    match kind(map) {
        TrackerKind::Iou | TrackerKind::ByteTrack => 30,
        TrackerKind::Sort => 1,
    }
}

fn min_new_track_score(map: &Map<'_>) -> f32 {
    match kind(map) {
        TrackerKind::Iou | TrackerKind::Sort => 0.0,
        TrackerKind::ByteTrack => 0.6,
    }
}

impl TrackerConfig {
    /// Frames after which a track that no detection matches ends.
    #[must_use]
    pub const fn most_lost_frames(&self) -> u32 {
        self.max_lost_frames.saturating_add(self.reassociate_frames)
    }

    /// The defaults of a tracker.
    #[must_use]
    pub fn new(kind: TrackerKind) -> Self {
        let kind = YamlValue::Text(kind.word().to_owned());
        from_value(YamlValue::map([("type", kind)]))
    }
}

/// How detections and tracks are paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum Association {
    /// Best pair first.
    Greedy,
    /// The assignment with the greatest total IOU.
    Optimal,
}

/// How the motion of a camera is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum CameraMotionModel {
    /// Not at all: the camera stands still.
    Off,
    /// As a shift, a rotation and a zoom of the whole image.
    Similarity,
}

/// Which classes may be paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum ClassMatch {
    /// Only the track's own class, and the classes of its group.
    Same,
    /// Any class; the track takes the class of the newest detection.
    Any,
}
