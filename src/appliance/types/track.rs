//! An object's identity over time, as the tracker reports it for one frame.

use std::fmt;

use super::{Attributes, Xyxy};

/// Identity of a track, unique within its source since the daemon's start, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackId(pub u64);

impl fmt::Display for TrackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a track stands in its life; DeepStream's states by the names of its documentation, with `Lost` for its shadow mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackState {
    /// Seen, but for fewer than `probation_frames` frames: not published.
    Tentative,
    /// Confirmed and seen in this frame, or in the newest one that went through the network.
    Active,
    /// Confirmed, not seen in this frame, kept for at most `max_lost_frames` frames.
    Lost,
    /// Over; reported once and then forgotten.
    Ended,
}

/// One track as it stands after one frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Its identity.
    pub id: TrackId,
    /// State after this frame.
    pub state: TrackState,
    /// Class of the newest matched detection, as an index into the model's labels.
    pub class: u16,
    /// Score of the newest matched detection, 0 to 1.
    pub score: f32,
    /// Highest score so far, 0 to 1.
    pub top_score: f32,
    /// Box in source pixels: of the newest matched detection, or predicted where the tracker predicts.
    pub xyxy: Xyxy,
    /// Frames of the source since the first detection, that one included.
    pub age_frames: u32,
    /// Frames in which a detection was matched.
    pub hits: u32,
    /// Frames through the network since the newest match; 0 when seen in the newest of them.
    pub lost_frames: u32,
    /// What secondary networks say of it. The tracker knows nothing of that; the lifecycle adds what it was told.
    pub attributes: Attributes,
}
