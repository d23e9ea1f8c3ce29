// SPDX-License-Identifier: Apache-2.0
//! Track events: the changes of a track that are published to subscribers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Track;

/// Kind of a track event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The track was confirmed. This is its first event.
    New,
    /// The track moved, changed state or got a better score since its last event.
    Update,
    /// The track ended; its id is not used again.
    End,
}

/// One event of one track.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackEvent {
    /// Kind of the event.
    pub kind: EventKind,
    /// The track as in its previous event; `None` for [`EventKind::New`].
    pub before: Option<Track>,
    /// The track now.
    pub after: Track,
    /// Capture time of the first frame in which the object was detected.
    pub started_at: SystemTime,
    /// Capture time of the frame that caused this event.
    pub frame_at: SystemTime,
    /// Capture time of the last frame in which the object was detected; `Some` only for [`EventKind::End`].
    pub ended_at: Option<SystemTime>,
    /// From the first frame in which the object was detected to the last one, for [`EventKind::End`], or to the frame that
    /// caused this event. By the monotonic clock: a wall clock that is set in between does not change it.
    pub duration: Duration,
    /// Mean direction of the embeddings of the track's detections, a vector of length 1; `Some` only for [`EventKind::New`] and
    /// [`EventKind::End`], where it was requested.
    pub embedding: Option<Arc<[f32]>>,
}
