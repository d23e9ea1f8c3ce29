//! What is true of a scene: facts that became so in one frame, and counts. Rules are named by their places among the
//! source's rules.

use std::time::{Duration, SystemTime};

use super::TrackId;

/// Something that has become true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnalyticsEvent {
    /// What.
    pub kind: AnalyticsEventKind,
    /// Whom it is about; `None` for facts about a whole zone.
    pub track: Option<TrackId>,
    /// That track's class.
    pub class: Option<u16>,
    /// Capture time of the frame in which it became known; never before that of an earlier fact.
    pub at: SystemTime,
}

/// The kinds of facts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AnalyticsEventKind {
    /// An object entered a zone.
    ZoneEntered {
        /// The zone's place among the rules.
        zone: usize,
    },
    /// An object left a zone, or its track ended in it.
    ZoneLeft {
        /// The zone's place among the rules.
        zone: usize,
        /// How long it was in it, from the first frame inside to the last.
        dwell: Duration,
    },
    /// An object has stayed in a zone for as long as the rule says; told once for each visit.
    Loitering {
        /// The zone's place among the rules.
        zone: usize,
        /// How long it has been in it.
        dwell: Duration,
    },
    /// As many objects as the rule's threshold are in a zone.
    Overcrowded {
        /// The zone's place among the rules.
        zone: usize,
        /// Objects in it.
        count: u32,
    },
    /// A zone is overcrowded no more.
    OvercrowdingEnded {
        /// The zone's place among the rules.
        zone: usize,
        /// Objects in it.
        count: u32,
    },
    /// An object crossed a line.
    LineCrossed {
        /// The line's place among the rules.
        line: usize,
        /// To which side.
        to: Side,
    },
    /// The way that an object goes has become another.
    Direction {
        /// The place of the rule among the directions; `None`: it goes none of these ways.
        direction: Option<usize>,
    },
    /// An object has come to rest.
    Stationary {
        /// For how long it has been where it is.
        since: Duration,
    },
    /// An object at rest moves again.
    Moving,
}

/// A side of a line, as one goes along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The left.
    Left,
    /// The right.
    Right,
}

/// Objects of one class in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneCount {
    /// Index into the model's labels.
    pub class: u16,
    /// Objects.
    pub count: u32,
}

/// Crossings of one class over a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossings {
    /// Index into the model's labels.
    pub class: u16,
    /// Crossings to the left.
    pub to_left: u64,
    /// Crossings to the right.
    pub to_right: u64,
}
