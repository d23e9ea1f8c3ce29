// SPDX-License-Identifier: Apache-2.0
//! The words of messages: every field with a fixed set of values has one enum here.
//!
//! The doc comments are descriptions for subscribers; `configs/messages.schema.json` contains them.

use schemars::JsonSchema;
use serde::Serialize;

use jetwatch_platform::EngineKind;
use jetwatch_platform::throttling::Cause;
use jetwatch_spool::GapReason;
use jetwatch_types::{EventKind, Side, SourceState, TrackState};

/// What happened to the track.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "event_type")]
pub(super) enum EventType {
    /// The track was confirmed.
    New,
    /// The track moved, changed its state, reached a higher score, or has other `attributes`. Other attributes are published at once.
    Update,
    /// The track ended. Nothing follows with this id.
    End,
}

impl From<EventKind> for EventType {
    fn from(kind: EventKind) -> Self {
        match kind {
            EventKind::New => Self::New,
            EventKind::Update => Self::Update,
            EventKind::End => Self::End,
        }
    }
}

/// State of a track after a frame.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "track_state")]
pub(super) enum TrackStateWord {
    /// Not confirmed yet. The daemon publishes no such track.
    Tentative,
    /// Detected in this frame.
    Active,
    /// Not detected in this frame, but still kept.
    Lost,
    /// Over.
    Ended,
}

impl From<TrackState> for TrackStateWord {
    fn from(state: TrackState) -> Self {
        match state {
            TrackState::Tentative => Self::Tentative,
            TrackState::Active => Self::Active,
            TrackState::Lost => Self::Lost,
            TrackState::Ended => Self::Ended,
        }
    }
}

/// State of a source.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "state")]
pub(super) enum SourceStateWord {
    /// It is being opened.
    Connecting,
    /// Frames arrive.
    Online,
    /// It failed or stalled, and is opened again.
    Offline,
    /// It reached its end.
    Ended,
}

impl From<SourceState> for SourceStateWord {
    fn from(state: SourceState) -> Self {
        match state {
            SourceState::Connecting => Self::Connecting,
            SourceState::Online => Self::Online,
            SourceState::Offline => Self::Offline,
            SourceState::Ended => Self::Ended,
        }
    }
}

/// What became true.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "analytics_type")]
pub(super) enum AnalyticsType {
    /// An object entered a zone.
    ZoneEntered,
    /// An object left a zone. Every visit ends, at the latest with its track.
    ZoneLeft,
    /// An object has been in a zone for `loitering_time_s`; once per visit.
    Loitering,
    /// A zone holds `object_threshold` objects or more.
    Overcrowding,
    /// A zone holds fewer objects again.
    OvercrowdingOver,
    /// An object crossed a line.
    LineCrossed,
    /// An object moves in another of the configured directions, or in none of them.
    Direction,
    /// An object came to rest.
    Stationary,
    /// An object at rest moves again.
    Moving,
}

/// Side of a line, seen along the line from its first point.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "side")]
pub(super) enum SideWord {
    /// Left.
    Left,
    /// Right.
    Right,
}

impl From<Side> for SideWord {
    fn from(side: Side) -> Self {
        match side {
            Side::Left => Self::Left,
            Side::Right => Self::Right,
        }
    }
}

/// Why messages will not arrive.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "gap_reason")]
pub(super) enum GapReasonWord {
    /// The spool or the queue was full.
    Full,
    /// They waited longer than `publish.mqtt.spool.max_age`.
    Expired,
    /// Their bytes on the disk were damaged.
    Damaged,
    /// The broker refused them with a reason that does not pass, such as a missing right.
    Refused,
}

impl From<GapReason> for GapReasonWord {
    fn from(reason: GapReason) -> Self {
        match reason {
            GapReason::Full => Self::Full,
            GapReason::Expired => Self::Expired,
            GapReason::Damaged => Self::Damaged,
            GapReason::Refused => Self::Refused,
        }
    }
}

/// State of the detector.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "detector_state")]
pub(super) enum DetectorState {
    /// TensorRT has no engine of the model for this machine.
    EngineMissing,
    /// The engine is being built.
    Building,
    /// The detector runs.
    Ready,
    /// The detector cannot run, and the daemon ends.
    Failed,
}

/// Whether the cause begins or ends.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "throttling_type")]
pub(super) enum ThrottlingType {
    /// The first sensor readings that show the cause.
    Begin,
    /// Three sensor readings in a row, `publish.stats_interval_s` apart, have not shown it.
    End,
}

/// Kind of a throttling cause.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "throttling_cause")]
pub(super) enum CauseKind {
    /// A cooling device throttles.
    Heat,
    /// A power rail draws more current than its limit.
    Rail,
    /// The chip counted over-current or under-voltage.
    OverCurrent,
}

impl From<&Cause> for CauseKind {
    fn from(cause: &Cause) -> Self {
        match cause {
            Cause::Heat(_) => Self::Heat,
            Cause::Rail(_) => Self::Rail,
            Cause::OverCurrent(_) => Self::OverCurrent,
        }
    }
}

/// Kind of an engine.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "engine_kind")]
pub(super) enum EngineWord {
    /// Graphics processor.
    Gpu,
    /// External memory.
    Emc,
    /// Scaling.
    Vic,
    /// Video decoder.
    Nvdec,
    /// Video encoder.
    Nvenc,
    /// JPEG.
    Nvjpg,
    /// Deep learning accelerator.
    Dla,
}

impl From<EngineKind> for EngineWord {
    fn from(kind: EngineKind) -> Self {
        match kind {
            EngineKind::Gpu => Self::Gpu,
            EngineKind::Emc => Self::Emc,
            EngineKind::Vic => Self::Vic,
            EngineKind::Nvdec => Self::Nvdec,
            EngineKind::Nvenc => Self::Nvenc,
            EngineKind::Nvjpg => Self::Nvjpg,
            EngineKind::Dla => Self::Dla,
        }
    }
}
