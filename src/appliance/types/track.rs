// SPDX-License-Identifier: Apache-2.0
//! Track: identity of an object over time, as reported by the tracker for one frame.

use std::fmt;

use super::{Attributes, Xyxy};

/// Id of a track, unique within its source since the daemon's start, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackId(pub u64);

impl fmt::Display for TrackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// State of a track, as in DeepStream's tracker; `Lost` is DeepStream's shadow tracking mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackState {
    /// Detected in fewer than `probation_frames` frames: not published.
    Tentative,
    /// Confirmed and matched in this frame, or in the newest frame with inference if this one skipped it.
    Active,
    /// Confirmed, not matched in this frame, kept for at most `max_lost_frames` frames.
    Lost,
    /// Ended; reported once and then removed.
    Ended,
}

/// One track after one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Track id, unique within the source.
    pub id: TrackId,
    /// State after this frame.
    pub state: TrackState,
    /// Class of the newest matched detection, as an index into the model's labels.
    pub class: u16,
    /// Score of the newest matched detection, 0 to 1.
    pub score: f32,
    /// Highest score so far, 0 to 1.
    pub top_score: f32,
    /// Box in source pixels: of the newest matched detection, or the predicted one where the tracker predicts.
    pub xyxy: Xyxy,
    /// Frames of the source since the first detection, including that one.
    pub age_frames: u32,
    /// Frames in which a detection was matched.
    pub hits: u32,
    /// Frames with inference since the newest match; 0 when the newest of them matched.
    pub lost_frames: u32,
    /// Attributes from secondary inference. Empty in the tracker's output; the track event generator fills them in.
    pub attributes: Attributes,
}
