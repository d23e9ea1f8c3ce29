//! FLOOR 2: tracks out: wire format, MQTT, JSON lines, embedded broker.
//!
//! The chain hands [`Publication`]s to a [`Sink`]. [`Encoder`] turns a record into JSON and [`Topics`] says where it goes and
//! how surely it must arrive: both are pure. [`MqttSink`] and [`JsonLinesSink`] keep what they are given in bounded
//! queues and deliver it from threads of their own, so that neither a broker nor a disk can hold the chain up.
//! [`EmbeddedBroker`] is for machines without a broker, [`Subscriber`] shows what subscribers see, and [`probe`] asks
//! a broker once on behalf of `jetwatch check`.
//!
//! What every message contains is written in `configs/messages.schema.json`, and tests hold the two together.

mod broker;
mod command;
mod command_listener;
mod error;
mod json_lines;
mod mqtt;
mod reload;
mod round_trip;
mod subscribe;
mod topics;
mod wire;

use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use broker::EmbeddedBroker;
pub use command::{Command, MAX_COMMAND_BYTES, Reply};
pub use command_listener::CommandListener;
pub use error::PublishError;
pub use json_lines::JsonLinesSink;
pub use mqtt::{BrokerInfo, ConnectionState, MqttMonitor, MqttSink, probe};
pub use reload::{ReloadProblem, ReloadState, ReloadStatus};
pub use round_trip::round_trip;
pub use subscribe::Subscriber;
pub use topics::{Delivery, Topics};
pub use wire::{Encoder, SCHEMA_VERSION, Timestamp};

use jetwatch_config::{LineRule, SceneRules, ZoneRule};
use jetwatch_platform::SensorSnapshot;
use jetwatch_platform::throttling::{Cause, ThrottleEvent};
use jetwatch_telemetry::StageSummary;
use jetwatch_types::{
    AnalyticsEvent, Crossings, FrameMeta, SourceState, Track, TrackEvent, ZoneCount,
};

/// What a sink is told. Borrowed: a sink that keeps something copies what it needs into its own bounded queue.
#[derive(Debug)]
pub enum Publication<'a> {
    /// Steps in the lives of tracks, after one frame of one source.
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
    /// Facts about the scene that became true in one frame of one source.
    Analytics {
        /// Name of the source.
        source: &'a str,
        /// Its rules, which the facts name by their places.
        rules: &'a SceneRules,
        /// The frame.
        frame: &'a FrameMeta,
        /// At least one fact.
        events: &'a [AnalyticsMessage],
    },
    /// What is in a zone changed, or is told for the first time.
    Zone {
        /// Name of the source.
        source: &'a str,
        /// The zone.
        zone: &'a ZoneRule,
        /// Objects in it now, by class; those that have gone have 0.
        present: &'a [ZoneCount],
        /// Whether they are too many; `None` where no threshold says so.
        overcrowded: Option<bool>,
        /// Capture time of the frame that changed it.
        at: SystemTime,
    },
    /// Objects crossed a line, or it is told for the first time.
    Line {
        /// Name of the source.
        source: &'a str,
        /// The line.
        line: &'a LineRule,
        /// Crossings so far, by class.
        crossings: &'a [Crossings],
        /// They count from then on: from the daemon's start.
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
        /// Why, in words, when it is not online.
        reason: Option<&'a str>,
        /// When.
        at: SystemTime,
    },
    /// What becomes of the detector while the daemon starts.
    Detector {
        /// The state now.
        status: &'a DetectorStatus,
        /// When.
        at: SystemTime,
    },
    /// The machine has begun to slow itself down, or no longer does so for this cause.
    Throttling {
        /// What began or ended.
        change: &'a ThrottleEvent,
        /// When that was seen.
        at: SystemTime,
    },
    /// The configuration was read again.
    Reload {
        /// What came of it.
        status: &'a ReloadStatus,
        /// When.
        at: SystemTime,
    },
    /// A command was carried out, or not.
    Reply {
        /// The answer.
        reply: &'a Reply,
        /// When.
        at: SystemTime,
    },
    /// A summary at `publish.stats_interval`.
    Stats(&'a Stats),
}

/// A fact with the start of the track that it is about, from which its identity is made.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalyticsMessage {
    /// The fact.
    pub event: AnalyticsEvent,
    /// Capture time of the first frame of its track; `None` for facts about a whole zone.
    pub started_at: Option<SystemTime>,
}

/// What becomes of the detector. It runs once it is ready; before that its engine may have to be built, which takes minutes.
#[derive(Debug, Clone, PartialEq)]
pub enum DetectorStatus {
    /// There is no engine of the model for this machine.
    EngineMissing {
        /// Why, and the command that builds it.
        reason: String,
    },
    /// An engine is being built, by this process or by another one that it waits for.
    Building {
        /// For so long already.
        elapsed: Duration,
        /// Share of the current phase that is done, 0 to 1, where TensorRT tells it.
        progress: Option<f32>,
        /// The phase, in TensorRT's words.
        phase: Option<String>,
    },
    /// It runs.
    Ready {
        /// Backend, model, precision and what runs it, in words.
        runs: String,
    },
    /// It cannot run, and the daemon ends.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Numbers about the running daemon, since its start where nothing else is said.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// Time since start.
    pub uptime: Duration,
    /// Per source, in the configuration's order.
    pub sources: Vec<SourceStats>,
    /// Frames that went through the network.
    pub detected_frames: u64,
    /// Frames per second through the whole chain since the last summary.
    pub fps: f64,
    /// Frames per second of the network alone, workers added up, since the last summary.
    pub inference_fps: f64,
    /// CPU time of the process per frame since the last summary, in ms.
    pub cpu_ms_per_frame: f64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// Peak resident memory, in bytes.
    pub peak_rss_bytes: u64,
    /// What became of messages, added over the sinks.
    pub messages: SinkCounts,
    /// How the machine does; `None` until it was read.
    pub machine: Option<MachineStats>,
    /// Per secondary network, in the configuration's order.
    pub secondary: Vec<SecondaryStats>,
    /// Times of the stages that have run.
    pub stages: Vec<StageSummary>,
}

/// Numbers about one secondary network, since the daemon's start.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct SecondaryStats {
    /// Its name.
    pub name: String,
    /// Objects that it may look at, in the mean over the frames that have any.
    pub objects_per_frame: f64,
    /// The batch size that takes all objects of such a frame at once: the mean, rounded, as far as the network takes it.
    pub suggested_batch_size: usize,
    /// Crops that fit into a batch, as it is configured.
    pub batch_size: usize,
    /// Crops that went through the network.
    pub crops: u64,
    /// Runs of them.
    pub batches: u64,
    /// Crops in a batch, in the mean.
    pub mean_batch: f64,
    /// Crops that were given up because the queue was full.
    pub dropped_crops: u64,
    /// Results that came when their track was over.
    pub late_results: u64,
    /// Frames whose objects could not be looked at, since no pixels of them could be kept or read.
    pub frames_without_pixels: u64,
    /// From the cut of a crop to the start of its batch, in the mean, in ms.
    pub mean_wait_ms: f64,
    /// The network on one batch, in the mean, in ms.
    pub mean_infer_ms: f64,
}

/// How the machine does.
#[derive(Debug, Clone)]
pub struct MachineStats {
    /// All that was read, a moment before the summary.
    pub readings: Arc<SensorSnapshot>,
    /// Load of each processor since the last summary, in percent, by its number; empty where no time has passed.
    pub cpu_loads: Vec<(u32, f32)>,
    /// What slows the machine down now.
    pub throttled_by: Vec<Cause>,
    /// How often something began to slow it down since the daemon's start.
    pub throttled_times: u64,
    /// How long the reading took.
    pub read_in: Duration,
}

/// Numbers about one source.
#[derive(Debug, Clone)]
pub struct SourceStats {
    /// Its name.
    pub name: String,
    /// State now.
    pub state: SourceState,
    /// Frames received.
    pub frames: u64,
    /// Frames dropped because a newer one was there.
    pub dropped: u64,
    /// Times that it was opened anew.
    pub reconnects: u64,
    /// Frames per second since the last summary.
    pub fps: f64,
    /// Confirmed tracks now.
    pub tracks: usize,
    /// Frames that skip the network after each that goes through it, now.
    pub interval: u32,
    /// Frames that have skipped it.
    pub skipped: u64,
}

/// What became of the messages given to a sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Handed over by the chain.
    pub accepted: u64,
    /// Known to have arrived (acknowledged, written).
    pub delivered: u64,
    /// Given up because the queue was full, writing failed, the broker refused it, or the sink was closed before it could go.
    pub dropped: u64,
    /// Retained values (states, counts) that a newer value of the same topic replaced before they had arrived.
    pub replaced: u64,
    /// Still waiting. At any moment `accepted = delivered + dropped + replaced + queued`.
    pub queued: u64,
}

impl Add for SinkCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            accepted: self.accepted + other.accepted,
            delivered: self.delivered + other.delivered,
            dropped: self.dropped + other.dropped,
            replaced: self.replaced + other.replaced,
            queued: self.queued + other.queued,
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

/// Where tracks go. Implementations: MQTT, and JSON lines.
pub trait Sink: Send {
    /// Takes one record. Never blocks: what cannot be kept is dropped and counted.
    fn publish(&mut self, record: &Publication<'_>);

    /// A source is there from now on.
    fn source_added(&mut self, source: &str) {
        let _ = source;
    }

    /// All sources that the daemon starts with are there: what is kept elsewhere of others, from an earlier run, is out of date.
    fn sources_ready(&mut self) {
        // Nothing is kept by what only writes along.
    }

    /// A source was taken out: what is kept of it elsewhere, beside its last state, is taken back.
    fn source_removed(&mut self, source: &str) {
        // Nothing is kept by what only writes along.
        let _ = source;
    }

    /// What became of the messages so far.
    fn counts(&self) -> SinkCounts;

    /// Whether nobody reads what is written any more (the other end of a pipe was closed), so that the run should end cleanly.
    fn is_closed_by_reader(&self) -> bool {
        false
    }

    /// Delivers what is queued, says goodbye (clean disconnect, retained `offline`), and ends within `deadline`. Returns the final counts.
    fn close(self: Box<Self>, deadline: Duration) -> SinkCounts;
}
