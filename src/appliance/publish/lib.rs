//! Publishing of results: wire format, MQTT, JSON lines, embedded broker.
//!
//! The pipeline passes [`Publication`]s to a [`Sink`]. [`Encoder`] turns a record into JSON; [`Topics`] gives its topic and
//! delivery guarantee. Both are pure. [`MqttSink`] and [`JsonLinesSink`] hold messages in bounded queues and deliver them
//! from their own threads, so that neither a broker nor a disk blocks the pipeline.
//! [`EmbeddedBroker`] is for machines without a broker, [`Subscriber`] receives messages as any MQTT client does, and
//! [`probe`] tests one connection for `jetwatch check`.
//!
//! `configs/messages.schema.json` describes every message: [`message_schema`] makes it from the structs that are written.
//! Tests compare it with the encoder's output.

mod broker;
mod broker_sessions;
mod command;
mod command_listener;
mod error;
mod json_lines;
mod mqtt;
mod reload;
mod round_trip;
mod spool_check;
mod subscribe;
mod topics;
mod wire;

use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use broker::{EmbeddedBroker, TlsListener};
pub use command::{Command, CommandMessage, MAX_COMMAND_BYTES, Reply, ReplyTo};
pub use command_listener::CommandListener;
pub use error::PublishError;
pub use json_lines::{JsonLinesSink, check_json_lines};
pub use mqtt::{BrokerInfo, ConnectionState, MqttMonitor, MqttSink, probe, spool_folders};
pub use reload::{ReloadProblem, ReloadState, ReloadStatus};
pub use round_trip::round_trip;
pub use spool_check::{SpoolCheck, check_spool};
pub use subscribe::Subscriber;
pub use topics::{Delivery, Topics};
pub use wire::{Encoder, SCHEMA_VERSION, Timestamp, message_page, message_schema};

use jetwatch_config::{LineRule, SceneRules, ZoneRule};
use jetwatch_platform::SensorSnapshot;
use jetwatch_platform::throttling::{Cause, ThrottleEvent};
use jetwatch_spool::{Class, Gap};
use jetwatch_telemetry::StageSummary;
use jetwatch_types::{
    AnalyticsEvent, Crossings, FrameMeta, SourceState, Track, TrackEvent, ZoneCount,
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
    },
    /// All confirmed tracks (active and lost) of one frame; sent only when `publish.detections` asks for it.
    Frame {
        /// Name of the source.
        source: &'a str,
        /// The frame.
        frame: &'a FrameMeta,
        /// Its tracks.
        tracks: &'a [Track],
    },
    /// The number of active tracks of one label changed.
    Count {
        /// Name of the source.
        source: &'a str,
        /// The label.
        label: &'a str,
        /// Active tracks now.
        count: usize,
        /// Capture time of the frame that changed it.
        at: SystemTime,
    },
    /// The number of active tracks of one group of labels changed.
    GroupCount {
        /// Name of the source.
        source: &'a str,
        /// Name of the group.
        group: &'a str,
        /// Active tracks now.
        count: usize,
        /// Capture time of the frame that changed it.
        at: SystemTime,
    },
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
    Source {
        /// Name of the source.
        source: &'a str,
        /// The state now.
        state: SourceState,
        /// Reason, as text, when it is not online.
        reason: Option<&'a str>,
        /// When.
        at: SystemTime,
    },
    /// Progress of the detector while the daemon starts.
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
    Reload {
        /// Result of the reload.
        status: &'a ReloadStatus,
        /// When.
        at: SystemTime,
    },
    /// A command succeeded or failed.
    Reply {
        /// The reply.
        reply: &'a Reply,
        /// When.
        at: SystemTime,
    },
    /// A summary at `publish.stats_interval`.
    Stats(&'a Stats),
    /// Messages will not arrive. Only from the MQTT sink itself.
    Gap {
        /// Which, how many, and why.
        gap: &'a Gap,
        /// When this is published.
        at: SystemTime,
    },
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

/// Statistics of the running daemon, since its start unless stated otherwise.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Time since start.
    pub uptime: Duration,
    /// Per source, in the configuration's order.
    pub sources: Vec<SourceStats>,
    /// Frames that went through the network.
    pub detected_frames: u64,
    /// Frames per second through the whole pipeline since the last summary.
    pub fps: f64,
    /// Frames per second of the network, without the rest of the pipeline, summed over workers, since the last summary.
    pub inference_fps: f64,
    /// CPU time of the process per frame since the last summary, in ms.
    pub cpu_ms_per_frame: f64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// Peak resident memory, in bytes.
    pub peak_rss_bytes: u64,
    /// Message counts, summed over the sinks.
    pub messages: SinkCounts,
    /// Messages that wait outside of the process; `None` without a spool.
    pub spool: Option<SpoolStats>,
    /// Sensors and load of the machine; `None` before the first reading.
    pub machine: Option<MachineStats>,
    /// Per secondary network, in the configuration's order.
    pub secondary: Vec<SecondaryStats>,
    /// Times of the stages that have run.
    pub stages: Vec<StageSummary>,
}

/// Statistics of one secondary network, since the daemon's start.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct SecondaryStats {
    /// Name of the network.
    pub name: String,
    /// Objects eligible for the network, mean over the frames that have any.
    pub objects_per_frame: f64,
    /// The batch size for all objects of such a frame: the mean, rounded, limited to the network's maximum.
    pub suggested_batch_size: usize,
    /// Configured batch size, in crops.
    pub batch_size: usize,
    /// Crops inferred.
    pub crops: u64,
    /// Batches inferred.
    pub batches: u64,
    /// Mean crops per batch.
    pub mean_batch: f64,
    /// Crops dropped because the queue was full.
    pub dropped_crops: u64,
    /// Results that arrived after their track had ended.
    pub late_results: u64,
    /// Frames whose objects were not classified because no pixels of them could be kept or read.
    pub frames_without_pixels: u64,
    /// Mean time from the cut of a crop to the start of its batch, in ms.
    pub mean_wait_ms: f64,
    /// Mean inference time of a batch, in ms.
    pub mean_infer_ms: f64,
}

/// Sensors and load of the machine.
#[derive(Debug, Clone)]
pub struct MachineStats {
    /// The sensor values, read just before the summary.
    pub readings: Arc<SensorSnapshot>,
    /// Load of each CPU since the last summary, in percent, by its number; empty where no time has passed.
    pub cpu_loads: Vec<(u32, f32)>,
    /// Causes of throttling that are active now.
    pub throttled_by: Vec<Cause>,
    /// How often throttling started since the daemon's start.
    pub throttled_times: u64,
    /// Duration of the reading.
    pub read_in: Duration,
}

/// Statistics of one source.
#[derive(Debug, Clone)]
pub struct SourceStats {
    /// Name of the source.
    pub name: String,
    /// Current state.
    pub state: SourceState,
    /// Frames received.
    pub frames: u64,
    /// Frames dropped because a newer one was available.
    pub dropped: u64,
    /// Number of reconnects.
    pub reconnects: u64,
    /// Frames per second since the last summary.
    pub fps: f64,
    /// Confirmed tracks.
    pub tracks: usize,
    /// Current inference interval: frames without inference after each one with.
    pub interval: u32,
    /// Frames without inference.
    pub skipped: u64,
}

/// Statistics of a spool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpoolStats {
    /// Identity of its numbering, 16 hexadecimal digits.
    pub id: String,
    /// Size of what is in memory of the kernel, in bytes.
    pub runtime_bytes: u64,
    /// Size of what is on the device, in bytes; `None`: a power cut takes what waits.
    pub state_bytes: Option<u64>,
    /// Age of the oldest message that is not acknowledged.
    pub oldest_age: Option<Duration>,
    /// Late messages sent per second since the last statistics.
    pub replay_rate: f64,
    /// Messages dropped since the start, by class in the order of [`SPOOL_CLASSES`].
    pub dropped: [u64; SPOOL_CLASSES.len()],
}

/// The names of the classes of messages in a spool.
pub const SPOOL_CLASSES: [&str; 5] = {
    let all = Class::ALL;
    [
        all[0].name(),
        all[1].name(),
        all[2].name(),
        all[3].name(),
        all[4].name(),
    ]
};

/// Message counts of a sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Passed in by the pipeline.
    pub accepted: u64,
    /// Delivered (acknowledged, written).
    pub delivered: u64,
    /// Dropped because the queue was full, writing failed, the broker refused it, or the sink was closed first.
    pub dropped: u64,
    /// Of `dropped`: messages of QoS 0, which are sent while connected only.
    pub best_effort_dropped: u64,
    /// Retained values (states, counts) replaced by a newer value of the same topic before delivery.
    pub replaced: u64,
    /// Still waiting. At any moment `accepted = delivered + dropped + replaced + queued`.
    pub queued: u64,
    /// Of `queued`: in the spool, from which the next start sends them.
    pub spooled: u64,
}

impl Add for SinkCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            accepted: self.accepted + other.accepted,
            delivered: self.delivered + other.delivered,
            dropped: self.dropped + other.dropped,
            best_effort_dropped: self.best_effort_dropped + other.best_effort_dropped,
            replaced: self.replaced + other.replaced,
            queued: self.queued + other.queued,
            spooled: self.spooled + other.spooled,
        }
    }
}

impl AddAssign for SinkCounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for SinkCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}

/// Receiver of publications. Implementations: MQTT, and JSON lines.
pub trait Sink: Send {
    /// Takes one record. Never blocks: what cannot be queued is dropped and counted.
    fn publish(&mut self, record: &Publication<'_>);

    /// A source was added.
    fn source_added(&mut self, source: &str) {
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

    /// Current message counts.
    fn counts(&self) -> SinkCounts;

    /// What is in the spool of the sink, if it has one; begins a new interval of its rate.
    fn spool_stats(&mut self) -> Option<SpoolStats> {
        None
    }

    /// Whether the reader of the output is gone (the other end of a pipe was closed), so that the run should end cleanly.
    fn is_closed_by_reader(&self) -> bool {
        false
    }

    /// Delivers what is queued, disconnects cleanly (retained `offline`), and ends within `deadline`. Returns the final counts.
    fn close(self: Box<Self>, deadline: Duration) -> SinkCounts;
}
