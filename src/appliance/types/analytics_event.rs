// SPDX-License-Identifier: Apache-2.0
//! Analytics events of one frame (zones, lines, directions, stationary objects) and per-class counts. Rules are identified
//! by their index in the source's list of rules.

use std::time::{Duration, SystemTime};

use super::TrackId;

/// A change in the scene that a rule detected in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnalyticsEvent {
    /// Kind of the event, with its data.
    pub kind: AnalyticsEventKind,
    /// Track that caused the event; `None` for events of a whole zone.
    pub track: Option<TrackId>,
    /// Class of that track.
    pub class: Option<u16>,
    /// Capture time of the frame that caused the event; never earlier than that of the previous event of the source.
    pub at: SystemTime,
}

/// Kinds of analytics events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnalyticsEventKind {
    /// An object entered a zone.
    ZoneEntered {
        /// Index of the zone in the source's rules.
        zone: usize,
    },
    /// An object left a zone, or its track ended in it.
    ZoneLeft {
        /// Index of the zone in the source's rules.
        zone: usize,
        /// Dwell time: from the first frame inside the zone to the last.
        dwell: Duration,
    },
    /// An object has stayed in a zone for the rule's dwell time; reported once per visit.
    Loitering {
        /// Index of the zone in the source's rules.
        zone: usize,
        /// Dwell time so far.
        dwell: Duration,
    },
    /// The number of objects in a zone has reached the rule's threshold.
    Overcrowded {
        /// Index of the zone in the source's rules.
        zone: usize,
        /// Number of objects in the zone.
        count: u32,
    },
    /// The number of objects in a zone has dropped below the rule's threshold.
    OvercrowdingEnded {
        /// Index of the zone in the source's rules.
        zone: usize,
        /// Number of objects in the zone.
        count: u32,
    },
    /// An object crossed a line.
    LineCrossed {
        /// Index of the line in the source's rules.
        line: usize,
        /// Side that the object moved to.
        to: Side,
    },
    /// The direction of motion of an object has changed.
    Direction {
        /// Index of the matching direction rule; `None`: no rule matches.
        direction: Option<usize>,
    },
    /// An object has stopped.
    Stationary {
        /// Time since the object stopped.
        since: Duration,
    },
    /// A stopped object moves again.
    Moving,
}

/// A side of a line, viewed from its start towards its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Left side.
    Left,
    /// Right side.
    Right,
}

/// Objects of one class in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneCount {
    /// Index into the model's labels.
    pub class: u16,
    /// Number of objects.
    pub count: u32,
}

/// Crossings of one class over a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossings {
    /// Index into the model's labels.
    pub class: u16,
    /// Number of crossings to the left.
    pub to_left: u64,
    /// Number of crossings to the right.
    pub to_right: u64,
}
