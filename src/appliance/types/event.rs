//! What happened to a track: the steps of its life that subscribers hear of.

use std::time::SystemTime;

use super::Track;

/// The step of the life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The track was confirmed: the first that subscribers hear of it.
    New,
    /// It moved, changed state or got a better score since the last message about it.
    Update,
    /// It ended; nothing follows under this identity.
    End,
}

/// One step in the life of one track.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackEvent {
    /// Which step.
    pub kind: EventKind,
    /// The track as the previous event about it showed it; `None` for [`EventKind::New`].
    pub before: Option<Track>,
    /// The track now.
    pub after: Track,
    /// Capture time of the first frame in which the object was seen.
    pub started_at: SystemTime,
    /// Capture time of the frame that this event is about.
    pub frame_at: SystemTime,
    /// Capture time of the last frame in which the object was seen; `Some` only for [`EventKind::End`].
    pub ended_at: Option<SystemTime>,
}
