//! The JSON bodies, field by field in the order of output. Their description for subscribers is
//! `configs/messages.schema.json`.

use serde::Serialize;

use super::machine::MachineBody;
use super::value::{EventId, Utc, finite, rounded};
use crate::{SecondaryStats, SinkCounts};
use jetwatch_telemetry::StageSummary;
use jetwatch_types::Attribute;

/// One step in the life of one track.
#[derive(Serialize)]
pub(super) struct EventBody<'a> {
    pub version: u32,
    pub kind: &'static str,
    pub device: &'a str,
    pub source: &'a str,
    #[serde(rename = "type")]
    pub step: &'static str,
    pub id: EventId<'a>,
    pub track_id: u64,
    pub label: &'a str,
    pub started_at: Utc,
    pub frame_at: Utc,
    pub ended_at: Option<Utc>,
    pub duration_ms: u64,
    pub latency_ms: f64,
    pub frame: FrameBody,
    pub before: Option<TrackBody<'a>>,
    pub after: TrackBody<'a>,
}

/// All confirmed tracks of one frame.
#[derive(Serialize)]
pub(super) struct DetectionsBody<'a> {
    pub version: u32,
    pub kind: &'static str,
    pub device: &'a str,
    pub source: &'a str,
    pub frame_at: Utc,
    pub latency_ms: f64,
    pub frame: FrameBody,
    pub tracks: Vec<TrackBody<'a>>,
}

/// The number of active tracks of one label, in JSON lines only.
#[derive(Serialize)]
pub(super) struct CountBody<'a> {
    pub version: u32,
    pub kind: &'static str,
    pub device: &'a str,
    pub source: &'a str,
    pub label: &'a str,
    pub count: usize,
    pub changed_at: Utc,
}

/// The state of one source.
#[derive(Serialize)]
pub(super) struct SourceBody<'a> {
    pub version: u32,
    pub kind: &'static str,
    pub device: &'a str,
    pub source: &'a str,
    pub state: &'static str,
    pub reason: Option<&'a str>,
    pub since: Utc,
}

/// Progress of the detector.
#[derive(Serialize)]
pub(super) struct DetectorBody<'a> {
    pub version: u32,
    pub kind: &'static str,
    pub device: &'a str,
    pub state: &'static str,
    pub runs: Option<&'a str>,
    pub reason: Option<&'a str>,
    pub elapsed_ms: Option<u64>,
    pub progress: Option<f64>,
    pub phase: Option<&'a str>,
    pub at: Utc,
}

/// Statistics of the daemon.
#[derive(Serialize)]
pub(super) struct StatsBody<'a> {
    pub version: u32,
    pub kind: &'static str,
    pub device: &'a str,
    pub sent_at: Utc,
    pub uptime_ms: u64,
    pub detected_frames: u64,
    pub fps: f64,
    pub inference_fps: f64,
    pub cpu_ms_per_frame: f64,
    pub rss_bytes: u64,
    pub peak_rss_bytes: u64,
    pub messages: MessagesBody,
    pub machine: Option<MachineBody<'a>>,
    pub sources: Vec<SourceStatsBody<'a>>,
    pub secondary: Vec<SecondaryBody<'a>>,
    pub stages: Vec<StageBody>,
}

/// Times of one stage.
#[derive(Serialize)]
pub(super) struct StageBody {
    pub stage: &'static str,
    pub count: u64,
    pub frames: u64,
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

impl StageBody {
    pub(super) fn new(summary: &StageSummary) -> Self {
        Self {
            stage: summary.stage.name(),
            count: summary.count,
            frames: summary.items,
            mean_ms: finite(summary.mean_ms),
            p50_ms: finite(summary.p50_ms),
            p95_ms: finite(summary.p95_ms),
            p99_ms: finite(summary.p99_ms),
        }
    }
}

/// Message counts.
#[derive(Serialize)]
pub(super) struct MessagesBody {
    pub accepted: u64,
    pub delivered: u64,
    pub dropped: u64,
    pub replaced: u64,
    pub queued: u64,
}

impl From<SinkCounts> for MessagesBody {
    fn from(counts: SinkCounts) -> Self {
        let SinkCounts {
            accepted,
            delivered,
            dropped,
            replaced,
            queued,
        } = counts;
        Self {
            accepted,
            delivered,
            dropped,
            replaced,
            queued,
        }
    }
}

/// Statistics of one source.
#[derive(Serialize)]
pub(super) struct SourceStatsBody<'a> {
    pub source: &'a str,
    pub state: &'static str,
    pub frames: u64,
    pub dropped_frames: u64,
    pub reconnects: u64,
    pub fps: f64,
    pub tracks: usize,
    pub interval: u32,
    pub skipped_frames: u64,
}

/// The frame that a message is about.
#[derive(Serialize)]
pub(super) struct FrameBody {
    pub seq: u64,
    pub pts_ms: Option<f64>,
    pub width: u32,
    pub height: u32,
}

/// One track after one frame.
#[derive(Serialize)]
pub(super) struct TrackBody<'a> {
    pub track_id: u64,
    pub label: &'a str,
    pub state: &'static str,
    pub score: f32,
    pub top_score: f32,
    #[serde(rename = "box")]
    pub xyxy: [f32; 4],
    #[serde(rename = "box_normalized")]
    pub normalized: [f32; 4],
    pub age_frames: u32,
    pub hits: u32,
    pub lost_frames: u32,
    pub attributes: Vec<AttributeBody<'a>>,
}

/// Result of a secondary network for a track.
#[derive(Serialize)]
pub(super) struct AttributeBody<'a> {
    pub name: &'a str,
    pub label: &'a str,
    pub score: f32,
    #[serde(rename = "box")]
    pub xyxy: Option<[f32; 4]>,
}

impl<'a> AttributeBody<'a> {
    pub(super) fn new(attribute: &'a Attribute) -> Self {
        Self {
            name: &attribute.name,
            label: &attribute.label,
            score: rounded(attribute.score, 1e4),
            xyxy: attribute
                .xyxy
                .map(|xyxy| xyxy.map(|edge| rounded(edge, 10.0))),
        }
    }
}

/// Statistics of one secondary network.
#[derive(Serialize)]
pub(super) struct SecondaryBody<'a> {
    pub name: &'a str,
    pub objects_per_frame: f64,
    pub suggested_batch_size: usize,
    pub crops: u64,
    pub batches: u64,
    pub mean_batch: f64,
    pub dropped_crops: u64,
    pub late_results: u64,
    pub frames_without_pixels: u64,
    pub mean_wait_ms: f64,
    pub mean_infer_ms: f64,
}

impl<'a> SecondaryBody<'a> {
    pub(super) fn new(stats: &'a SecondaryStats) -> Self {
        Self {
            name: &stats.name,
            objects_per_frame: finite(stats.objects_per_frame),
            suggested_batch_size: stats.suggested_batch_size,
            crops: stats.crops,
            batches: stats.batches,
            mean_batch: finite(stats.mean_batch),
            dropped_crops: stats.dropped_crops,
            late_results: stats.late_results,
            frames_without_pixels: stats.frames_without_pixels,
            mean_wait_ms: finite(stats.mean_wait_ms),
            mean_infer_ms: finite(stats.mean_infer_ms),
        }
    }
}
