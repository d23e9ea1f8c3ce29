// SPDX-License-Identifier: Apache-2.0
//! Publishing of results: wire format, MQTT, JSON lines, embedded broker.
//!
//! The pipeline passes [`Publication`]s to a [`Sink`]. [`Encoder`] turns a record into JSON; [`Topics`] gives its topic and
//! delivery guarantee. Both are pure. [`MqttSink`] and [`JsonLinesSink`] hold messages in bounded queues and deliver them
//! from their own threads, so that neither a broker nor a disk blocks the pipeline; so do [`FormatSink`], with messages in the
//! shapes of other systems, and [`WebhookSink`].
//! The MQTT sink also announces entities to Home Assistant, as [`HomeAssistantOptions`] say.
//! [`EmbeddedBroker`] is for machines without a broker, [`Subscriber`] receives messages as any MQTT client does, and
//! [`probe`] tests one connection, and [`rehearse`] what the daemon does with it, for `jetwatch check`.
//!
//! `configs/messages.schema.json` describes every message: [`message_schema`] makes it from the structs that are written.
//! Tests compare it with the encoder's output.

mod activity;
mod broker;
mod command;
mod command_listener;
mod error;
mod formats;
mod home_assistant;
mod json_lines;
mod mqtt;
mod reaction;
mod round_trip;
mod sink_counts;
mod spool_check;
mod subscribe;
mod topics;
mod webhook;
mod wire;

use std::time::{Duration, SystemTime};

pub use activity::Activity;
pub use broker::{EmbeddedBroker, TlsListener};
pub use command::{Command, CommandMessage, Reply, ReplyTo};
pub use command_listener::CommandListener;
pub use error::PublishError;
pub use formats::{Format, FormatDelivery, FormatMessage, format_of};
pub use home_assistant::HomeAssistantOptions;
pub use jetwatch_mqtt::Protocol;
pub use json_lines::{JsonLinesSink, check_json_lines};
pub use mqtt::{
    BrokerInfo, ConnectionState, DeliveryObserver, FormatSink, HostedClient, HostedLink,
    HostedOptions, MqttMonitor, MqttSink, Part, Rehearsal, RehearsalOptions, SentMessage, probe,
    rehearse, spool_folders,
};
pub use round_trip::round_trip;
pub use sink_counts::SinkCounts;
pub use spool_check::{SpoolCheck, check_spool};
pub use subscribe::Subscriber;
pub use topics::{Delivery, SetTopic, Setting, Topics};
pub use webhook::{WebhookSink, check_webhook, webhook_folders};
pub use wire::{
    Count, Encoder, Group, GroupCount, Label, MachineStats, MediaStats, Motion, ReloadProblem,
    ReloadState, ReloadStatus, SPOOL_CLASSES, ScoreThreshold, SecondaryStats, SourceName,
    SourceStats, SourceStatus, SpoolStats, Stats, Switch, Timestamp, Utc, message_page,
    message_schema, track_identity,
};

use bytes::Bytes;

use jetwatch_archive::Item;
use jetwatch_config::{LineRule, SceneRules, ZoneRule};
use jetwatch_platform::throttling::ThrottleEvent;
use jetwatch_spool::Gap;
use jetwatch_telemetry::update_status::UpdateStatus;
use jetwatch_types::{
    AnalyticsEvent, Crossings, FrameMeta, SourceState, Track, TrackEvent, TrackId, ZoneCount,
};

/// A record for a sink. Borrowed: a sink that queues it copies what it needs into its own bounded queue.
#[derive(Debug)]
pub enum Publication<'a> {
    /// State changes of tracks, after one frame of one source.
    Events {
        /// Name of the source.
        source: &'a str,
        /// The frame.
        frame: &'a FrameMeta,
        /// At least one event.
        events: &'a [TrackEvent],
        /// Identity of the clip that is being recorded of the source and holds the frame.
        recording: Option<&'a str>,
        /// By event: identity of the snapshot of its track. Shorter where the last ones have none.
        snapshots: &'a [Option<String>],
    },
    /// All confirmed tracks (active and lost) of one frame; sent where `publish.detections` asks for it, and to sinks that need them.
    Frame {
        /// Name of the source.
        source: &'a str,
        /// The frame.
        frame: &'a FrameMeta,
        /// Its tracks.
        tracks: &'a [Track],
    },
    /// The number of active tracks of one label changed.
    Count(Count<'a>),
    /// The number of active tracks of one group of labels changed.
    GroupCount(GroupCount<'a>),
    /// Detection of a source, or one of its rules, was switched on or off; published for the first time when the source is added.
    Switch(Switch<'a>),
    /// What is active of a source by its switch and its schedule; only where it has a schedule, or had one in this run.
    Active {
        /// Name of the source.
        source: &'a str,
        /// What is active.
        activity: &'a Activity<'a>,
        /// When this was found.
        at: SystemTime,
    },
    /// The score threshold of a source was set; published for the first time when the source is added.
    ScoreThreshold(ScoreThreshold<'a>),
    /// The camera of a source reports motion, or its end; published for the first time when the source is added.
    Motion(Motion<'a>),
    /// Analytics events of one frame of one source.
    Analytics {
        /// Name of the source.
        source: &'a str,
        /// The source's rules; events refer to them by index.
        rules: &'a SceneRules,
        /// The frame.
        frame: &'a FrameMeta,
        /// At least one event.
        events: &'a [AnalyticsMessage],
        /// Identity of the clip that is being recorded of the source and holds the frame.
        recording: Option<&'a str>,
    },
    /// The contents of a zone changed, or are published for the first time.
    Zone {
        /// Name of the source.
        source: &'a str,
        /// The zone.
        zone: &'a ZoneRule,
        /// Objects in it now, by class; classes that left have 0.
        present: &'a [ZoneCount],
        /// Whether the threshold is exceeded; `None` without a threshold.
        overcrowded: Option<bool>,
        /// Capture time of the frame that changed it.
        at: SystemTime,
    },
    /// Objects crossed a line, or its count is published for the first time.
    Line {
        /// Name of the source.
        source: &'a str,
        /// The line.
        line: &'a LineRule,
        /// Crossings so far, by class.
        crossings: &'a [Crossings],
        /// Start of the count: the daemon's start.
        since: SystemTime,
        /// Capture time of the frame that changed it.
        at: SystemTime,
    },
    /// A source's state changed.
    Source(SourceStatus<'a>),
    /// Progress of the detector at the start.
    Detector {
        /// The state now.
        status: &'a DetectorStatus,
        /// When.
        at: SystemTime,
    },
    /// Throttling of the machine started, or ended for this cause.
    Throttling {
        /// The cause that started or ended.
        change: &'a ThrottleEvent,
        /// When that was detected.
        at: SystemTime,
    },
    /// The configuration was reloaded.
    Reload(&'a ReloadStatus),
    /// What is known of updates of the package.
    Update(&'a UpdateStatus),
    /// A command succeeded or failed.
    Reply {
        /// The reply.
        reply: &'a Reply,
        /// When.
        at: SystemTime,
    },
    /// A summary at `publish.stats_interval`.
    Stats(&'a Stats),
    /// A file of the archive has changed its state.
    Media {
        /// The file.
        item: &'a Item,
        /// When.
        at: SystemTime,
    },
    /// A picture of a track, as JPEG. Over MQTT only: it is no JSON.
    Snapshot {
        /// Name of the source.
        source: &'a str,
        /// Label of the track.
        label: &'a str,
        /// Number of the track; `None`: the picture is the newest one of its label, which the broker keeps.
        track: Option<TrackId>,
        /// The file.
        jpeg: &'a Bytes,
    },
    /// Messages will not arrive. Only from the MQTT sink itself.
    Gap {
        /// Which, how many, and why.
        gap: &'a Gap,
        /// When this is published.
        at: SystemTime,
    },
}

impl<'a> Publication<'a> {
    /// The number of active tracks of `label` is `count` since `at`.
    #[must_use]
    pub fn count(source: &'a str, label: &'a str, count: usize, at: SystemTime) -> Self {
        Self::Count(Count {
            source: SourceName(source),
            label: Label(label),
            count,
            changed_at: Utc(at),
        })
    }

    /// As [`count`](Self::count), of a group of labels.
    #[must_use]
    pub fn group_count(source: &'a str, group: &'a str, count: usize, at: SystemTime) -> Self {
        Self::GroupCount(GroupCount {
            source: SourceName(source),
            group: Group(group),
            count,
            changed_at: Utc(at),
        })
    }

    /// A source is in this state since `at`; `reason`: why it is not online.
    #[must_use]
    pub fn source_state(
        source: &'a str,
        state: SourceState,
        reason: Option<&'a str>,
        at: SystemTime,
    ) -> Self {
        Self::Source(SourceStatus {
            source: SourceName(source),
            state,
            reason,
            since: Utc(at),
        })
    }
}

/// An analytics event with the start of its track, from which the track's identity is made.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalyticsMessage {
    /// The event.
    pub event: AnalyticsEvent,
    /// Capture time of the first frame of its track; `None` for events about a whole zone.
    pub started_at: Option<SystemTime>,
}

/// Progress of the detector. Its engine may have to be built first, which takes minutes.
#[derive(Debug, Clone, PartialEq)]
pub enum DetectorStatus {
    /// There is no engine of the model for this machine.
    EngineMissing {
        /// Why, and the command that builds it.
        reason: String,
    },
    /// An engine is being built, by this process or by another one that this process waits for.
    Building {
        /// Time since the start of the build.
        elapsed: Duration,
        /// Share of the current phase that is done, 0 to 1, where TensorRT reports it.
        progress: Option<f32>,
        /// Name of the phase, from TensorRT.
        phase: Option<String>,
    },
    /// The detector is running.
    Ready {
        /// Backend, model, precision and device, as text.
        runs: String,
    },
    /// The detector failed, and the daemon ends.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What sinks know of a source that is added.
#[derive(Debug, Clone, Default)]
pub struct SourceInfo {
    /// Name of the source.
    pub name: String,
    /// Labels that its tracks may have, in the order of the model.
    pub labels: Vec<String>,
    /// Whether `classes` of the source or of the detector names these labels; else they are all that the model has.
    pub has_chosen_labels: bool,
    /// Its analytics rules.
    pub rules: SceneRules,
    /// Whether its detection has a schedule.
    pub has_schedule: bool,
    /// Whether pictures of its tracks are published.
    pub has_pictures: bool,
    /// Whether the motion that its camera reports is published.
    pub has_motion: bool,
}

/// Receiver of publications. Implementations: MQTT, other formats over MQTT, webhooks, and JSON lines.
pub trait Sink: Send {
    /// Name of the output: that of its thread, with that of its entry where there are several. Empty: it delivers nothing.
    fn name(&self) -> String {
        String::new()
    }

    /// Takes one record. Never blocks: what cannot be queued is dropped and counted.
    fn publish(&mut self, record: &Publication<'_>);

    /// A source was added.
    fn source_added(&mut self, source: &SourceInfo) {
        let _ = source;
    }

    /// All sources of the start are added: retained values of other sources, from an earlier run, are stale.
    fn sources_ready(&mut self) {
        // No retained values by default.
    }

    /// A source was removed: its retained values are cleared, except its last state.
    fn source_removed(&mut self, source: &str) {
        // No retained values by default.
        let _ = source;
    }

    /// Whether it gets the tracks of each frame also without `publish.detections`.
    fn needs_frames(&self) -> bool {
        false
    }

    /// Current message counts.
    fn counts(&self) -> SinkCounts;

    /// What is in the spool of the sink, if it has one; begins a new interval of its rate.
    fn spool_stats(&mut self) -> Option<SpoolStats> {
        None
    }

    /// Largest payload of a message that the reader of the output takes, as far as it has said so.
    fn max_payload_bytes(&self) -> usize {
        usize::MAX
    }

    /// A view of the state of an MQTT client, if the sink is one.
    fn mqtt_monitor(&self) -> Option<MqttMonitor> {
        None
    }

    /// Whether the reader of the output is gone (the other end of a pipe was closed), so that the run should end cleanly.
    fn is_closed_by_reader(&self) -> bool {
        false
    }

    /// Delivers what is queued, disconnects cleanly (retained `offline`), and ends within `deadline`. Returns the final counts.
    fn close(self: Box<Self>, deadline: Duration) -> SinkCounts;
}
