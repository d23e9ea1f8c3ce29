// SPDX-License-Identifier: Apache-2.0
//! The statistics, as the pipeline collects them and as messages have them. The doc comments of what is written are descriptions for
//! subscribers.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::body::{SecondaryBody, StageBody, word_of_state};
use super::machine::{CpuUseBody, MachineBody};
use super::spool::SpoolDroppedBody;
use super::value::{SourceName, Utc, finite, whole_milliseconds};
use super::words::SourceStateWord;
use crate::SinkCounts;
use jetwatch_platform::throttling::Cause;
use jetwatch_platform::{Occupancy, SensorSnapshot};
use jetwatch_spool::Class;
use jetwatch_telemetry::StageSummary;
use jetwatch_types::SourceState;

/// Statistics of the daemon, every `publish.stats_interval_s`. Counters begin at its start; rates are those since the previous message.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "stats", title = "Statistics", deny_unknown_fields)]
pub struct Stats {
    /// When the statistics were collected.
    pub sent_at: Utc,
    /// Time since the start of the daemon.
    #[serde(rename = "uptime_ms", serialize_with = "duration")]
    #[schemars(with = "u64")]
    pub uptime: Duration,
    /// Frames that went through the network.
    pub detected_frames: u64,
    /// Frames per second through the whole pipeline.
    #[serde(serialize_with = "number")]
    #[schemars(range(min = 0))]
    pub fps: f64,
    /// Frames per second of the network alone; sum over the workers.
    #[serde(serialize_with = "number")]
    #[schemars(range(min = 0))]
    pub inference_fps: f64,
    /// CPU time of the process per frame.
    #[serde(serialize_with = "number")]
    #[schemars(range(min = 0))]
    pub cpu_ms_per_frame: f64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Highest resident memory so far.
    pub peak_rss_bytes: u64,
    #[allow(missing_docs)] // Its type has a comment.
    pub messages: SinkCounts,
    /// Messages that wait outside of the process.
    pub spool: Option<SpoolStats>,
    /// Files of video and pictures; null where none are kept.
    pub media: Option<MediaStats>,
    /// Sensors and load, at most a quarter of a second old.
    #[serde(serialize_with = "machine")]
    #[schemars(with = "Option<MachineBody<'static>>")]
    pub machine: Option<MachineStats>,
    /// Who used the CPU since the previous message, if the kernel says so.
    #[serde(rename = "cpu_use", serialize_with = "cpu_use")]
    #[schemars(with = "Option<CpuUseBody>")]
    pub occupancy: Option<Occupancy>,
    /// One for each source.
    pub sources: Vec<SourceStats>,
    /// One for each secondary network, in their order.
    #[serde(serialize_with = "secondary")]
    #[schemars(with = "Vec<SecondaryBody<'static>>")]
    pub secondary: Vec<SecondaryStats>,
    /// Times of the stages that have run.
    #[serde(serialize_with = "stages")]
    #[schemars(with = "Vec<StageBody>")]
    pub stages: Vec<StageSummary>,
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
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(
    rename = "source_stats",
    title = "Statistics of a source",
    deny_unknown_fields
)]
#[allow(missing_docs)] // A field without a comment has that of its type.
pub struct SourceStats {
    #[serde(rename = "source")]
    #[schemars(with = "SourceName<'static>")]
    pub name: String,
    #[serde(serialize_with = "word_of_state")]
    #[schemars(with = "SourceStateWord")]
    pub state: SourceState,
    /// Frames received.
    pub frames: u64,
    /// Frames dropped because a newer one had arrived.
    #[serde(rename = "dropped_frames")]
    pub dropped: u64,
    /// Number of reconnects.
    pub reconnects: u64,
    /// Frames per second.
    #[serde(serialize_with = "number")]
    #[schemars(range(min = 0))]
    pub fps: f64,
    /// Confirmed tracks now.
    pub tracks: usize,
    /// Current inference interval.
    pub interval: u32,
    /// Frames without inference, whose tracks were predicted.
    #[serde(rename = "skipped_frames")]
    pub skipped: u64,
}

/// Statistics of one secondary network, since the daemon's start.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SecondaryStats {
    /// Name of the network.
    pub name: String,
    /// Objects eligible for the network, mean over the frames that have any.
    pub objects_per_frame: f64,
    /// Objects of its classes that were large enough for a crop, summed over the frames.
    pub objects: u64,
    /// Objects of its classes that were smaller than `min_object`, and got no crop, summed over the frames.
    pub small_objects: u64,
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

/// Messages that wait outside of the process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "spool_stats",
    title = "Statistics of the spool",
    deny_unknown_fields
)]
pub struct SpoolStats {
    /// Identity of the numbering, as in messages.
    #[serde(rename = "spool")]
    pub id: String,
    /// Size of the folder on tmpfs.
    pub runtime_bytes: u64,
    /// Size of the folder on a disk; null without one.
    pub state_bytes: Option<u64>,
    /// Age of the oldest unacknowledged message.
    #[serde(rename = "oldest_age_ms", serialize_with = "optional_duration")]
    #[schemars(with = "Option<u64>")]
    pub oldest_age: Option<Duration>,
    /// Late messages sent per second.
    #[serde(rename = "replay_per_s", serialize_with = "number")]
    #[schemars(range(min = 0))]
    pub replay_rate: f64,
    // In the order of [`SPOOL_CLASSES`].
    /// Messages dropped since the start, by kind.
    #[serde(serialize_with = "dropped")]
    #[schemars(with = "SpoolDroppedBody")]
    pub dropped: [u64; SPOOL_CLASSES.len()],
    /// Time in which its thread was at work since the start.
    #[serde(skip)]
    pub busy: Duration,
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

/// Files of video and pictures, and the space for them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "media_stats",
    title = "Statistics of kept files",
    deny_unknown_fields
)]
pub struct MediaStats {
    /// Size of the snapshots.
    pub snapshot_bytes: u64,
    /// Size of the clips.
    pub clip_bytes: u64,
    /// Size of continuous recording.
    pub continuous_bytes: u64,
    /// Of these: pinned files.
    pub pinned_bytes: u64,
    /// Free space on the device.
    pub free_bytes: u64,
    /// Days until files are deleted for want of space, at the rate of the last day.
    #[serde(serialize_with = "finite_or_null")]
    #[schemars(range(min = 0))]
    pub days_left: Option<f64>,
    /// Whether recording has stopped for want of space.
    #[serde(rename = "full")]
    pub is_full: bool,
}

fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(finite(*number))
}

fn duration<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(whole_milliseconds(*time))
}

fn optional_duration<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    time.map(whole_milliseconds).serialize(serializer)
}

fn finite_or_null<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    number.map(finite).serialize(serializer)
}

fn dropped<S: Serializer>(
    &[update, new, end, analytics, other]: &[u64; SPOOL_CLASSES.len()],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let body = SpoolDroppedBody {
        update,
        new,
        end,
        analytics,
        other,
    };
    body.serialize(serializer)
}

fn machine<S: Serializer>(
    machine: &Option<MachineStats>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    machine.as_ref().map(MachineBody::new).serialize(serializer)
}

fn cpu_use<S: Serializer>(used: &Option<Occupancy>, serializer: S) -> Result<S::Ok, S::Error> {
    used.as_ref().map(CpuUseBody::new).serialize(serializer)
}

fn secondary<S: Serializer>(networks: &[SecondaryStats], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(networks.iter().map(SecondaryBody::new))
}

fn stages<S: Serializer>(stages: &[StageSummary], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(stages.iter().map(StageBody::new))
}
