// SPDX-License-Identifier: Apache-2.0
//! The pairs of tracks and detections that may be associated, with their ranks and weights.

use std::sync::Arc;

use jetwatch_config::{ClassMatch, TrackerConfig, TrackerKind};
use jetwatch_types::{Classes, Detection, TrackState, Xyxy, intersection_over_union};

use super::Tracker;
use crate::appearance::Appearance;
use crate::assignment::Candidate;
use crate::stages::SimilarityKind;

/// Rank of pairs by the last observed box of a track (OC-SORT's recovery): after those by the predicted box.
const RECOVERY_RANK: u8 = 8;

/// Rank of pairs that overlap only after both boxes are enlarged by far: after all others.
const BUFFERED_IOU_RANK: u8 = 16;

/// How much boxes are enlarged after skipped frames, as in buffered IOU (C-BIoU): on each side by a tenth of their width and
/// height per skipped frame. Chosen with the other defaults; see the page "Trackers" of the book.
const BUFFER_RATIO: f32 = 0.1;
const MAX_BUFFER_RATIO: f32 = 0.3;

/// The same for tracks that were detected once, whose velocity is unknown: by a quarter per frame since then, which is that
/// paper's half for every second frame, and at most by the whole.
const FIRST_BUFFER_RATIO: f32 = 0.25;
const MAX_FIRST_BUFFER_RATIO: f32 = 1.0;

impl Tracker {
    /// Lists all pairs that may be associated.
    pub(super) fn find_candidates(&mut self) {
        self.candidates.clear();
        let ratio = self.buffer_ratio();
        self.enlarged.clear();
        if ratio > 0.0 {
            self.enlarged
                .extend(self.detections.iter().map(|found| Detection {
                    xyxy: enlarge(&found.xyxy, ratio),
                    ..*found
                }));
            self.iou_index.build(&self.enlarged);
        } else {
            self.iou_index.build(&self.detections);
        }
        let min_iou = self.stages.min_similarity();
        for (index, (track, memory)) in self.tracks.iter().zip(&self.memories).enumerate() {
            if track.lost_frames > self.config.max_lost_frames {
                // Kept for re-association only.
                continue;
            }
            let expected = enlarge(&track.xyxy, ratio);
            for (detection, iou) in self.iou_index.query(&expected, min_iou) {
                let found = &self.detections[detection];
                if !may_continue(&self.config, &self.classes, track.class, found.class) {
                    continue;
                }
                let Some(stage) = self.stages.stage(track.state, found.score) else {
                    continue;
                };
                let similarity = match stage.similarity {
                    SimilarityKind::Iou => iou,
                    SimilarityKind::IouTimesScore => iou * found.score.clamp(0.0, 1.0),
                };
                if similarity < stage.min_similarity {
                    continue;
                }
                let mut weight = stage.weight(similarity);
                if let Some(observations) = self.observations.get(index) {
                    let momentum = observations.momentum(&found.xyxy);
                    weight += self.config.ocsort.momentum_weight * momentum * found.score;
                    weight = weight.max(f32::EPSILON);
                }
                let looks = appearance_similarity(&memory.appearance, &self.embeddings, detection);
                let Some(weight) = with_appearance(weight, looks, &self.config) else {
                    continue;
                };
                self.candidates.push(Candidate {
                    rank: stage.rank,
                    track: index,
                    detection,
                    iou: weight,
                });
            }
        }
        if self.config.kind == TrackerKind::OcSort {
            self.find_recovery_candidates();
        }
        if self.is_coasting {
            self.find_first_candidates();
        }
    }

    /// Lists pairs of detections with the last observed boxes of confirmed tracks that have no pair by their predicted box: an
    /// object that stopped, or did not move as predicted while it was hidden.
    fn find_recovery_candidates(&mut self) {
        let min_iou = self.config.ocsort.recovery_min_iou;
        let ratio = self.buffer_ratio();
        // The candidates so far are sorted by their tracks.
        let mut predicted = 0;
        let count = self.candidates.len();
        for (index, (track, memory)) in self.tracks.iter().zip(&self.memories).enumerate() {
            let first = predicted;
            while predicted < count && self.candidates[predicted].track == index {
                predicted += 1;
            }
            if predicted > first {
                continue;
            }
            let is_confirmed = matches!(track.state, TrackState::Active | TrackState::Lost);
            if !is_confirmed || track.lost_frames > self.config.max_lost_frames {
                continue;
            }
            let last = enlarge(self.observations[index].last(), ratio);
            for (detection, iou) in self.iou_index.query(&last, min_iou) {
                let found = &self.detections[detection];
                if !may_continue(&self.config, &self.classes, track.class, found.class)
                    || found.score < self.config.bytetrack.tentative_score
                {
                    continue;
                }
                let looks = appearance_similarity(&memory.appearance, &self.embeddings, detection);
                if let Some(weight) = with_appearance(iou, looks, &self.config) {
                    self.candidates.push(Candidate {
                        rank: RECOVERY_RANK + u8::from(track.state == TrackState::Lost),
                        track: index,
                        detection,
                        iou: weight,
                    });
                }
            }
        }
    }

    /// Lists pairs of detections with tracks that were detected once, whose velocity is unknown: between two frames with
    /// inference a small object moves farther than its own size. They overlap when both are enlarged, and rank last.
    fn find_first_candidates(&mut self) {
        for (index, (track, memory)) in self.tracks.iter().zip(&self.memories).enumerate() {
            // Without skipped frames in between, a box moves little from one frame to the next.
            let has_velocity = track.hits > 1 || track.age_frames < 2;
            if has_velocity || track.state == TrackState::Lost {
                continue;
            }
            let ratio = (FIRST_BUFFER_RATIO * track.age_frames as f32).min(MAX_FIRST_BUFFER_RATIO);
            let expected = enlarge(&track.xyxy, ratio);
            for (detection, found) in self.detections.iter().enumerate() {
                let Some(stage) = self.stages.stage(track.state, found.score) else {
                    continue;
                };
                if !self.classes.are_alike(track.class, found.class) {
                    continue;
                }
                let iou = intersection_over_union(&expected, &enlarge(&found.xyxy, ratio));
                if iou < stage.min_similarity {
                    continue;
                }
                let looks = appearance_similarity(&memory.appearance, &self.embeddings, detection);
                if let Some(weight) = with_appearance(stage.weight(iou), looks, &self.config) {
                    self.candidates.push(Candidate {
                        rank: stage.rank.saturating_add(BUFFERED_IOU_RANK),
                        track: index,
                        detection,
                        iou: weight,
                    });
                }
            }
        }
    }

    /// How much boxes are enlarged on each side before they are compared. After skipped frames a predicted box is less exact.
    fn buffer_ratio(&self) -> f32 {
        (BUFFER_RATIO * self.skipped_frames as f32).min(MAX_BUFFER_RATIO)
    }
}

/// Whether an object of class `track` may be seen as one of class `found`.
pub(super) fn may_continue(
    config: &TrackerConfig,
    classes: &Classes,
    track: u16,
    found: u16,
) -> bool {
    config.class_match == ClassMatch::Any || classes.are_alike(track, found)
}

/// Cosine similarity of a track and a detection, where both have an embedding.
fn appearance_similarity(
    track: &Appearance,
    embeddings: &[Option<Arc<[f32]>>],
    detection: usize,
) -> Option<f32> {
    track.similarity(embeddings.get(detection)?.as_deref()?)
}

/// The weight of a pair by its overlap and its appearance; `None` when they look too different.
fn with_appearance(overlap: f32, looks: Option<f32>, config: &TrackerConfig) -> Option<f32> {
    let Some(looks) = looks else {
        return Some(overlap);
    };
    let share = config.appearance_weight;
    (looks >= config.min_appearance_similarity)
        .then(|| (1.0 - share) * overlap + share * looks.clamp(f32::EPSILON, 1.0))
}

/// A box enlarged on each side by this share of its width and height.
fn enlarge(xyxy: &Xyxy, ratio: f32) -> Xyxy {
    if ratio == 0.0 {
        return *xyxy;
    }
    let [left, top, right, bottom] = xyxy;
    let (across, down) = ((right - left) * ratio, (bottom - top) * ratio);
    [left - across, top - down, right + across, bottom + down]
}
