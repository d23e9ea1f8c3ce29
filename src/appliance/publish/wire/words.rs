// SPDX-License-Identifier: Apache-2.0
//! The words of messages: every field with a fixed set of values has one enum here.
//!
//! The doc comments are descriptions for subscribers; `configs/messages.schema.json` contains them.

use schemars::JsonSchema;
use serde::Serialize;

use jetwatch_archive::{MediaKind, MediaState, RemovalReason};
use jetwatch_platform::EngineKind;
use jetwatch_platform::throttling::Cause;
use jetwatch_spool::GapReason;
use jetwatch_telemetry::update_status::UpdateState;
use jetwatch_types::{EventKind, Side, SourceState, TrackState};

/// Declares the words of a field, each with its description. `from`: a type whose variants have the same names.
macro_rules! words {
    ($(#[$about:meta])* $name:literal $word:ident $words:tt) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[schemars(rename = $name)]
        pub(super) enum $word $words
    };
    ($(#[$about:meta])* $name:literal $word:ident from $from:ident {
        $($(#[$doc:meta])* $variant:ident,)*
    }) => {
        words! {
            $(#[$about])*
            $name $word { $($(#[$doc])* $variant,)* }
        }

        impl From<$from> for $word {
            fn from(word: $from) -> Self {
                match word {
                    $($from::$variant => Self::$variant,)*
                }
            }
        }
    };
}

words! {
    /// What happened to the track.
    "event_type" EventType from EventKind {
        /// The track was confirmed.
        New,
        /// The track moved, changed its state, reached a higher score, or has other `attributes`.
        Update,
        /// The track ended. Nothing follows with this id.
        End,
    }
}

words! {
    /// State of a track after a frame.
    "track_state" TrackStateWord from TrackState {
        /// Not confirmed yet; not published.
        Tentative,
        /// Detected in this frame.
        Active,
        /// Not detected in this frame, but still kept.
        Lost,
        /// Over.
        Ended,
    }
}

words! {
    /// State of a source.
    "state" SourceStateWord from SourceState {
        /// It is being opened.
        Connecting,
        /// Frames arrive.
        Online,
        /// It failed or stalled, and is opened again.
        Offline,
        /// It reached its end.
        Ended,
    }
}

words! {
    /// What became true.
    "analytics_type" AnalyticsType {
        /// An object entered a zone.
        ZoneEntered,
        /// An object left a zone, or its track ended.
        ZoneLeft,
        /// An object has been in a zone for `loitering_time_s`.
        Loitering,
        /// A zone holds `object_threshold` objects or more.
        Overcrowding,
        /// A zone holds fewer objects again.
        OvercrowdingOver,
        /// An object crossed a line.
        LineCrossed,
        /// An object moves in another of the directions, or in none.
        Direction,
        /// An object came to rest.
        Stationary,
        /// An object at rest moves again.
        Moving,
    }
}

words! {
    /// Side of a line, seen along the line from its first point.
    "side" SideWord from Side {
        /// Left.
        Left,
        /// Right.
        Right,
    }
}

words! {
    /// Why messages will not arrive.
    "gap_reason" GapReasonWord from GapReason {
        /// The spool or the queue was full.
        Full,
        /// They waited longer than `publish.mqtt.spool.max_age`.
        Expired,
        /// Their bytes on the disk were damaged.
        Damaged,
        /// The broker refused them for good, such as for a missing right.
        Refused,
    }
}

words! {
    /// State of the detector.
    "detector_state" DetectorState {
        /// TensorRT has no engine of the model for this machine.
        EngineMissing,
        /// The engine is being built.
        Building,
        /// The detector runs.
        Ready,
        /// The detector cannot run, and the daemon ends.
        Failed,
    }
}

words! {
    /// Whether the cause begins or ends.
    "throttling_type" ThrottlingType {
        /// The first readings that show the cause.
        Begin,
        /// Three readings in a row, `publish.stats_interval_s` apart, have not shown it.
        End,
    }
}

words! {
    /// Kind of a throttling cause.
    "throttling_cause" CauseKind {
        /// A cooling device throttles.
        Heat,
        /// A power rail draws more current than its limit.
        Rail,
        /// The chip counted over-current or under-voltage.
        OverCurrent,
    }
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

words! {
    /// Kind of an engine.
    "engine_kind" EngineWord from EngineKind {
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
}

words! {
    /// What a file is.
    "media_type" MediaTypeWord from MediaKind {
        /// The best picture of a track, a JPEG file.
        Snapshot,
        /// The video around a track, an MP4 file.
        Clip,
        /// A piece of all video, an MP4 file.
        Continuous,
    }
}

words! {
    /// Whether a file is complete.
    "media_state" MediaStateWord from MediaState {
        /// It is being written, and can be read so far.
        Recording,
        /// Nothing is added to it.
        Ready,
        /// It was deleted.
        Removed,
    }
}

words! {
    /// Why a file was deleted.
    "removal_reason" RemovalReasonWord from RemovalReason {
        /// It was older than `record.retention.max_age_days`.
        Age,
        /// Its source had more than `record.retention.max_bytes_per_source`.
        SourceBytes,
        /// Less space was free than `record.retention.min_free_bytes` or `min_free_percent`.
        FreeSpace,
        /// It was asked for.
        Operator,
        /// Another program had deleted it.
        Missing,
        /// It was cut off before there was anything to see.
        Unusable,
    }
}

words! {
    /// State of updates.
    "update_state" UpdateStateWord from UpdateState {
        /// The repository has nothing newer.
        UpToDate,
        /// The repository has a newer version.
        Available,
        /// An update or a roll-back is under way.
        InProgress,
        /// The last update was installed and is healthy.
        Installed,
        /// The last update was rolled back.
        RolledBack,
        /// The last update was refused; nothing was changed.
        Refused,
        /// The roll-back has failed: repair by hand.
        Failed,
    }
}
