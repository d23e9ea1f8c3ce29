// SPDX-License-Identifier: Apache-2.0
//! Copies of what the daemon knows at the time of a request. Plain data, filled by the pipeline.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jetwatch_platform::SensorSnapshot;
use jetwatch_platform::throttling::Cause;
use jetwatch_telemetry::StageHistogram;

use super::SourceSeries;

/// All figures at one time.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Time since the start of the daemon.
    pub uptime: Duration,
    /// The detector.
    pub detector: DetectorFigures,
    /// Frames and states of the sources.
    pub sources: Vec<SourceFigures>,
    /// Counts of tracks, events, zones and lines of the sources.
    pub series: Vec<Arc<SourceSeries>>,
    /// Times of the stages that have run.
    pub stages: Vec<StageHistogram>,
    /// `None` without MQTT.
    pub mqtt: Option<MqttFigures>,
    /// `None` without a spool, or before it was looked at.
    pub spool: Option<SpoolFigures>,
    /// `None` where no files are kept, or before they were looked at.
    pub media: Option<MediaFigures>,
    /// `None` before the first reading.
    pub machine: Option<MachineFigures>,
    /// The process.
    pub process: ProcessFigures,
}

/// State of the detector, and what it runs.
#[derive(Debug, Clone, Default)]
pub struct DetectorFigures {
    /// The state.
    pub state: DetectorState,
    /// `None` until it is loaded.
    pub info: Option<DetectorInfo>,
}

/// What runs which network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DetectorInfo {
    /// The backend, such as `tensorrt`.
    pub backend: String,
    /// The model.
    pub model: String,
    /// Its precision; empty where it has none.
    pub precision: String,
}

jetwatch_types::named_enum! {
    /// State of the detector.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum DetectorState {
        /// It is being loaded.
        #[default]
        Loading = "loading",
        /// TensorRT has no engine of the model for this machine.
        EngineMissing = "engine_missing",
        /// An engine is being built.
        Building = "building",
        /// It runs.
        Ready = "ready",
        /// It cannot run, and the daemon ends.
        Failed = "failed",
    }

    /// The value of the label.
    pub(super) fn name;
}

/// Frames and state of a source, since it was added.
#[derive(Debug, Clone, Default)]
pub struct SourceFigures {
    /// Its name.
    pub name: String,
    /// Whether it is online.
    pub is_up: bool,
    /// Frames that went through the network.
    pub detected: u64,
    /// Frames that skipped the network.
    pub carried: u64,
    /// Frames replaced by newer ones.
    pub dropped: u64,
    /// Frames left out because of `max_fps`.
    pub skipped: u64,
    /// How often it was opened again after a failure.
    pub reconnects: u64,
    /// Arrival of the newest frame that was processed.
    pub last_frame_at: Option<SystemTime>,
}

/// The MQTT client.
#[derive(Debug, Clone, Copy, Default)]
pub struct MqttFigures {
    /// Whether the broker has accepted the connection.
    pub is_connected: bool,
    /// Messages acknowledged.
    pub delivered: u64,
    /// Messages of QoS 1 that are lost.
    pub dropped: u64,
    /// Messages of QoS 0 for which there was no connection.
    pub unsent: u64,
    /// Values replaced by a newer one of their topic.
    pub replaced: u64,
    /// Messages that wait.
    pub queued: u64,
}

/// The spool.
#[derive(Debug, Clone, Default)]
pub struct SpoolFigures {
    /// Size on tmpfs, in bytes.
    pub runtime_bytes: u64,
    /// Size on a device, in bytes; `None`: it has no folder there.
    pub state_bytes: Option<u64>,
    /// When the oldest message that waits was made; `None`: none waits.
    pub oldest_at: Option<SystemTime>,
    /// Messages dropped, each with the name of its class.
    pub dropped: Vec<(&'static str, u64)>,
}

/// Files of video and pictures.
#[derive(Debug, Clone, Default)]
pub struct MediaFigures {
    /// Their size in bytes, each with the name of its kind.
    pub bytes: Vec<(&'static str, u64)>,
    /// Whether recording has stopped for want of space.
    pub is_full: bool,
    /// Free space on their device, in bytes.
    pub free_bytes: u64,
}

/// Sensors and load of the machine.
#[derive(Debug, Clone, Default)]
pub struct MachineFigures {
    /// The sensor values.
    pub readings: Arc<SensorSnapshot>,
    /// Load of each CPU, in percent, by its number.
    pub cpu_loads: Vec<(u32, f32)>,
    /// Active causes of throttling.
    pub throttled_by: Vec<Cause>,
    /// How often throttling began.
    pub throttled_times: u64,
}

/// The process.
#[derive(Debug, Clone, Default)]
pub struct ProcessFigures {
    /// CPU time of all threads.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open file descriptors; `None`: unknown.
    pub open_fds: Option<u64>,
    /// When it started.
    pub started_at: Option<SystemTime>,
}
