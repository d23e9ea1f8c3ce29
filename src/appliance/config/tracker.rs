// SPDX-License-Identifier: Apache-2.0
//! `tracker`: which tracker, and its settings. The defaults are those that carry over between sequences and networks; the
//! page "Trackers" of the book has the figures.

use super::Words;
use super::section::{KeyValue, Section, from_value};
use super::yaml::map::Map;
use super::yaml::tree::YamlValue;

/// A tracker with its settings, in DeepStream's vocabulary.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct TrackerConfig {
    /// Type of the tracker. iou compares with the last box; sort predicts boxes at constant velocity by a Kalman filter; bytetrack does that too and pairs detections of low score after the others; ocsort also uses the last observed boxes of a track: their direction, and where it was seen last.
    #[key(name = "type", default = "iou")]
    pub kind: TrackerKind,
    /// How detections and tracks are paired: greedy, best pair first, or optimal, with the maximum total IOU. Default: greedy; sort, bytetrack and ocsort: optimal.
    #[key(default_with = association)]
    pub association: Association,
    /// Minimum IOU of a pair; bytetrack takes the IOU times the score. Default: 0.2; sort, bytetrack and ocsort: 0.25.
    #[key(range = 0.0..=1.0, exclusive_min, default_with = min_iou)]
    pub min_iou: f32,
    /// Frames in which a new object must be matched before it is published. With 1, it is published at once.
    #[key(range = 1..=1000, unit = "frames", default = 3)]
    pub probation_frames: u32,
    /// Maximum number of usual detections for which each frame of the probation stands. Detections with lower scores than those of published tracks count less, so that a new object of low scores waits longer. If few new objects vanish within the probation, less is needed. With 0, the scores do not matter.
    #[key(range = 0.0..=10.0, default = 1.5)]
    pub probation_evidence: f32,
    /// Frames for which a published track may be missed before it ends.
    #[key(range = 0..=100_000, unit = "frames", default = 30)]
    pub max_lost_frames: u32,
    /// Further frames for which a lost track is kept: a new one that begins at its predicted place, by its motion and size, continues it under its id.
    #[key(range = 0..=100_000, unit = "frames", default = 0)]
    pub reassociate_frames: u32,
    /// Whether a detection of another class may continue a track. same: only of its class, or of another one of its group in detector.groups; any: of every class.
    #[key(default = "same")]
    pub class_match: ClassMatch,
    /// Detections below this score start no track. Down to the detector's score_threshold and min_score, they still continue one.
    #[key(range = 0.0..=1.0, default = 0.6)]
    pub min_new_track_score: f32,
    /// Lets min_new_track_score adapt to networks of low scores: it is lowered to the score that all but this share of the detections of published tracks reach, once 20 are known. With 0, it is fixed. Default: 0.05; where min_new_track_score is given: 0.
    #[key(range = 0.0..=0.5, default_with = new_track_share)]
    pub new_track_share: f32,
    /// Secondary network of layout embedding whose embeddings tell objects apart by their appearance (ReID). It runs on every detection, before detections and tracks are paired. Default: none.
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
    /// Detections of low score.
    #[key(flatten)]
    pub bytetrack: ByteTrackConfig,
    /// What OC-SORT does with the observations of a track; the others do not read it.
    #[key(flatten)]
    pub ocsort: OcSortConfig,
}

/// Detections of low score, and ByteTrack's second stage for them.
///
/// With another type the keys of the second stage are accepted and unused, so that the type can be changed in one line.
#[derive(Debug, Clone, Copy, PartialEq, Section)]
#[section(check = check_low_scores)]
pub struct ByteTrackConfig {
    /// Detections below this score are left out. The detector's score_threshold should be no higher than this, or there is nothing of low score to pair. Default: 0; bytetrack and ocsort: 0.1.
    #[key(range = 0.0..=1.0, default_with = min_score)]
    pub min_score: f32,
    /// bytetrack and ocsort: detections below this score are paired after the others.
    #[key(range = 0.0..=1.0, default = 0.7)]
    pub tentative_score: f32,
    /// bytetrack and ocsort: minimum IOU of such a detection and a track; four fifths of it for one that was detected in the previous frame.
    #[key(range = 0.0..=1.0, exclusive_min, default = 0.5)]
    pub tentative_min_iou: f32,
}

/// OC-SORT's use of observations (Cao and others, 2023).
#[derive(Debug, Clone, Copy, PartialEq, Section)]
pub struct OcSortConfig {
    /// ocsort only: weight of the direction in the similarity of a track and a detection. With 0, directions do not matter.
    #[key(range = 0.0..=1.0, default = 0.1)]
    pub momentum_weight: f32,
    /// ocsort only: minimum IOU of a detection and the last observed box of a track, for pairs that are left.
    #[key(range = 0.0..=1.0, exclusive_min, default = 0.5)]
    pub recovery_min_iou: f32,
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
    /// The same with the last observations of a track: momentum, recovery and re-update (Cao and others, 2023).
    OcSort,
}

/// With a type that is none, the other keys are still read.
fn kind(map: &Map<'_>) -> TrackerKind {
    TrackerKind::read(map, "type").unwrap_or(TrackerKind::Iou)
}

fn association(map: &Map<'_>) -> Association {
    match kind(map) {
        TrackerKind::Iou => Association::Greedy,
        TrackerKind::Sort | TrackerKind::ByteTrack | TrackerKind::OcSort => Association::Optimal,
    }
}

fn min_iou(map: &Map<'_>) -> f32 {
    match kind(map) {
        TrackerKind::Iou => 0.2,
        TrackerKind::Sort | TrackerKind::ByteTrack | TrackerKind::OcSort => 0.25,
    }
}

/// A score that is given holds for any network.
fn new_track_share(map: &Map<'_>) -> f32 {
    match map.has("min_new_track_score") {
        true => 0.0,
        false => 0.05,
    }
}

fn min_score(map: &Map<'_>) -> f32 {
    match kind(map) {
        TrackerKind::Iou | TrackerKind::Sort => 0.0,
        TrackerKind::ByteTrack | TrackerKind::OcSort => 0.1,
    }
}

impl TrackerConfig {
    /// Frames after which a track that no detection matches ends.
    #[must_use]
    pub const fn most_lost_frames(&self) -> u32 {
        self.max_lost_frames.saturating_add(self.reassociate_frames)
    }

    /// The defaults of a tracker.
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
