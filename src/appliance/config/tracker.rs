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
    /// iou compares with the last box; sort predicts boxes by a Kalman filter; bytetrack also pairs detections of low score; ocsort also uses the last observed boxes and their direction.
    #[key(name = "type", default = "iou")]
    pub kind: TrackerKind,
    /// How detections and tracks are paired: greedy: best pair first; optimal: maximum total IOU. Default: greedy; sort, bytetrack and ocsort: optimal.
    #[key(default_with = association)]
    pub association: Association,
    /// Minimum IOU of a pair; bytetrack takes the IOU times the score. Default: 0.2; sort, bytetrack and ocsort: 0.25.
    #[key(range = 0.0..=1.0, exclusive_min, default_with = min_iou)]
    pub min_iou: f32,
    /// Frames in which a new object must be matched before it is published; 1: at once.
    #[key(range = 1..=1000, unit = "frames", default = 3)]
    pub probation_frames: u32,
    /// Maximum evidence required for each frame of the probation, in detections of a usual score: objects of low scores wait longer. 0: scores do not matter.
    #[key(range = 0.0..=10.0, default = 1.5)]
    pub probation_evidence: f32,
    /// Frames for which a published track may be missed before it ends.
    #[key(range = 0..=100_000, unit = "frames", default = 30)]
    pub max_lost_frames: u32,
    /// Further frames in which a new track at the predicted place of a lost one continues it under its id.
    #[key(range = 0..=100_000, unit = "frames", default = 0)]
    pub reassociate_frames: u32,
    /// Which detections may continue a track. same: those of its class or group; any: of every class.
    #[key(default = "same")]
    pub class_match: ClassMatch,
    /// Detections below this score start no track, but continue one, down to the detector's score_threshold and min_score.
    #[key(range = 0.0..=1.0, default = 0.6)]
    pub min_new_track_score: f32,
    /// min_new_track_score is lowered to the score that all but this share of the detections of published tracks reach. 0: it is fixed. Default: 0.05; where min_new_track_score is given: 0.
    #[key(range = 0.0..=0.5, default_with = new_track_share)]
    pub new_track_share: f32,
    /// Secondary network of layout embedding for the appearance of objects (ReID). Default: none.
    #[key(text = "the name of a secondary network")]
    pub appearance: Option<String>,
    /// Share of the appearance in the similarity of a pair with embeddings; the rest is the overlap of boxes.
    #[key(range = 0.0..=1.0, default = 0.5)]
    pub appearance_weight: f32,
    /// Minimum cosine similarity of the embeddings of a pair, where both have one.
    #[key(range = 0.0..=1.0, default = 0.25)]
    pub min_appearance_similarity: f32,
    /// Whether tracks follow the motion of the camera, estimated from its frames; similarity: shifts, rotation and zoom.
    #[key(default = "off")]
    pub camera_motion: CameraMotionModel,
    /// Publish the embedding of the track in events of type new and end; needs appearance.
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
    /// Detections below this score are left out. Keep detector.score_threshold at or below it. Default: 0; bytetrack and ocsort: 0.1.
    #[key(range = 0.0..=1.0, default_with = min_score)]
    pub min_score: f32,
    /// bytetrack and ocsort: detections below this score are paired after the others.
    #[key(range = 0.0..=1.0, default = 0.7)]
    pub tentative_score: f32,
    /// bytetrack and ocsort: minimum IOU of such a pair; four fifths of it for a track that was detected in the previous frame.
    #[key(range = 0.0..=1.0, exclusive_min, default = 0.5)]
    pub tentative_min_iou: f32,
}

/// OC-SORT's use of observations (Cao and others, 2023).
#[derive(Debug, Clone, Copy, PartialEq, Section)]
pub struct OcSortConfig {
    /// ocsort only: weight of the direction in the similarity.
    #[key(range = 0.0..=1.0, default = 0.1)]
    pub momentum_weight: f32,
    /// ocsort only: minimum IOU of a detection that is left and the last observed box of a track.
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
