//! FLOOR 2: tracks out: wire format, MQTT, JSON lines, embedded broker.
//!
//! The chain hands [`Record`]s to a [`Sink`]. [`Encoder`] turns a record into JSON and [`Topics`] says where it goes and
//! how surely it must arrive: both are pure. [`MqttSink`] and [`JsonLinesSink`] keep what they are given in bounded
//! queues and deliver it from threads of their own, so that neither a broker nor a disk can hold the chain up.
//! [`EmbeddedBroker`] is for machines without a broker, [`Subscriber`] shows what subscribers see, and [`probe`] asks
//! a broker once on behalf of `jetwatch check`.
//!
//! What every message contains is written in `configs/messages.schema.json`, and tests hold the two together.

mod broker;
mod command;
mod error;
mod json_lines;
mod listen;
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
pub use error::PublishError;
pub use json_lines::JsonLinesSink;
pub use listen::CommandListener;
pub use mqtt::{BrokerInfo, Connection, MqttMonitor, MqttSink, probe};
pub use reload::{ReloadProblem, ReloadState, ReloadStatus};
pub use round_trip::round_trip;
pub use subscribe::Subscriber;
pub use topics::{Delivery, Topics};
pub use wire::{Encoder, Moment, SCHEMA_VERSION};

use crate::platform::Readings;
use crate::platform::throttling::{Cause, Change};
use crate::telemetry::StageSummary;
use crate::types::{FrameMeta, SourceState, Track, TrackEvent};

/// What a sink is told. Borrowed: a sink that keeps something copies what it needs into its own bounded queue.
#[derive(Debug)]
pub enum Record<'a> {
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
        change: &'a Change,
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
    /// Times of the stages that have run.
    pub stages: Vec<StageSummary>,
}

/// How the machine does.
#[derive(Debug, Clone)]
pub struct MachineStats {
    /// All that was read, a moment before the summary.
    pub readings: Arc<Readings>,
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
    fn accept(&mut self, record: &Record<'_>);

    /// What became of the messages so far.
    fn counts(&self) -> SinkCounts;

    /// Whether nobody reads what is written any more (the other end of a pipe was closed), so that the run should end cleanly.
    fn reader_gone(&self) -> bool {
        false
    }

    /// Delivers what is queued, says goodbye (clean disconnect, retained `offline`), and ends within `deadline`. Returns the final counts.
    fn close(self: Box<Self>, deadline: Duration) -> SinkCounts;
}
