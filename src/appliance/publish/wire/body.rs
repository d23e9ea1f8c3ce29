// SPDX-License-Identifier: Apache-2.0
//! The bodies of events, tracks, sources and the detector, and parts of statistics, field by field in the order of output.
//!
//! The doc comments are descriptions for subscribers: `configs/messages.schema.json` and the reference page of the messages
//! are made from these structs. A field has no doc comment where its type has one.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::media::{RecordingBody, SnapshotBody};
use super::value::{
    EventId, Group, Label, Latency, Names, SourceName, SpoolId, TrackNumber, Utc, finite,
    milliseconds, rounded, whole_milliseconds,
};
use super::words::{DetectorState, EventType, SourceStateWord, TrackStateWord};
use super::{Number, Timestamp, schema};
use crate::{DetectorStatus, SecondaryStats};
use jetwatch_telemetry::StageSummary;
use jetwatch_types::{Attribute, FrameMeta, Size, SourceState, Track, TrackEvent};

/// One step in the life of one track.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "event", title = "Event", deny_unknown_fields)]
#[schemars(extend("allOf" = [
    {
        "if": { "properties": { "type": { "const": "end" } } },
        "then": { "properties": { "ended_at": { "type": "string" } } },
        "else": { "properties": { "ended_at": { "type": "null" } } },
    },
    {
        "if": { "properties": { "type": { "const": "new" } } },
        "then": { "properties": { "before": { "type": "null" } } },
        "else": { "properties": { "before": { "type": "object" } } },
    },
]))]
pub(super) struct EventBody<'a> {
    pub source: SourceName<'a>,
    #[serde(rename = "type")]
    pub step: EventType,
    pub id: EventId<'a>,
    pub track_id: TrackNumber,
    pub label: Label<'a>,
    /// Group of the label in `detector.groups`.
    pub group: Option<Group<'a>>,
    /// Capture time of the first frame with a detection.
    pub started_at: Utc,
    /// Capture time of this frame.
    pub frame_at: Utc,
    /// Capture time of the last frame with a detection.
    pub ended_at: Option<Utc>,
    /// From the first frame to the last one or this one, independent of changes of the clock.
    pub duration_ms: u64,
    pub latency_ms: Latency,
    pub frame: FrameBody,
    /// The track in its previous event; null for `new`.
    pub before: Option<TrackBody<'a>>,
    /// The track now.
    pub after: TrackBody<'a>,
    /// The clip that is being recorded and holds the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingBody<'a>>,
    /// The snapshot of the track, complete some time after its end; only with `record.snapshots`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingBody<'a>>,
    /// Identity of the numbering, only on MQTT. A message with a known `spool` and `seq` is a repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spool: Option<SpoolId>,
    /// Number of the message, only on MQTT. In one `spool` it grows by 1 with every event and analytics event; a missing number comes later or is in a `gap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub seq: Option<u64>,
    /// Age of the message when it was sent; only if it waited for more than 2 s, or for a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_ms: Option<u64>,
}

impl<'a> EventBody<'a> {
    /// Without what is recorded of it.
    pub(super) fn new(
        names: Names<'a>,
        source: &'a str,
        frame: &FrameMeta,
        event: &'a TrackEvent,
        now: Timestamp,
        number: Option<Number>,
    ) -> Self {
        let track = |track| TrackBody::new(names, track, frame.source_size);
        let vector = event.embedding.as_deref();
        Self {
            source: SourceName(source),
            step: event.kind.into(),
            id: EventId {
                started_at: event.started_at,
                source,
                track: event.after.id,
            },
            track_id: TrackNumber(event.after.id.0),
            label: names.label(event.after.class),
            group: names.group(event.after.class),
            started_at: Utc(event.started_at),
            frame_at: Utc(event.frame_at),
            ended_at: event.ended_at.map(Utc),
            duration_ms: whole_milliseconds(event.duration),
            latency_ms: Latency::new(frame, now),
            frame: frame.into(),
            before: event.before.as_ref().map(track),
            after: track(&event.after),
            recording: None,
            snapshot: None,
            embedding: vector.map(|vector| EmbeddingBody { vector }),
            spool: number.map(|number| number.spool),
            seq: number.map(|number| number.seq),
            // Known when it is sent.
            late_ms: None,
        }
    }
}

/// Appearance of the object; only with `tracker.output_embedding: true`, in `new` and `end`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "embedding", title = "Embedding", deny_unknown_fields)]
pub(super) struct EmbeddingBody<'a> {
    /// Mean of the network's vectors for the object, scaled to length 1.
    #[schemars(length(min = 2))]
    pub vector: &'a [f32],
}

/// All confirmed tracks of one frame, active and lost; only with `publish.detections: true`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "detections", title = "Detections", deny_unknown_fields)]
pub(super) struct DetectionsBody<'a> {
    pub source: SourceName<'a>,
    /// Capture time of the frame.
    pub frame_at: Utc,
    pub latency_ms: Latency,
    pub frame: FrameBody,
    /// The tracks.
    pub tracks: Vec<TrackBody<'a>>,
}

impl<'a> DetectionsBody<'a> {
    pub(super) fn new(
        names: Names<'a>,
        source: &'a str,
        frame: &FrameMeta,
        tracks: &'a [Track],
        now: Timestamp,
    ) -> Self {
        let track = |track| TrackBody::new(names, track, frame.source_size);
        Self {
            source: SourceName(source),
            frame_at: Utc(frame.captured_at),
            latency_ms: Latency::new(frame, now),
            frame: frame.into(),
            tracks: tracks.iter().map(track).collect(),
        }
    }
}

/// The state of one source.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[schemars(
    rename = "source_state",
    title = "State of a source",
    deny_unknown_fields
)]
#[allow(missing_docs)] // A field without a comment has that of its type.
pub struct SourceStatus<'a> {
    pub source: SourceName<'a>,
    #[serde(serialize_with = "word_of_state")]
    #[schemars(with = "SourceStateWord")]
    pub state: SourceState,
    /// Why the source is not online.
    pub reason: Option<&'a str>,
    /// When the source entered this state.
    pub since: Utc,
}

pub(super) fn word_of_state<S: Serializer>(
    state: &SourceState,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    SourceStateWord::from(*state).serialize(serializer)
}

/// Progress of the detector at the start.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "detector",
    title = "State of the detector",
    deny_unknown_fields
)]
pub(super) struct DetectorBody<'a> {
    pub state: DetectorState,
    /// Backend, model, precision and device.
    pub runs: Option<&'a str>,
    /// Why the engine is missing, with the command that builds it, or why the detector failed.
    pub reason: Option<&'a str>,
    /// Time since the build began.
    pub elapsed_ms: Option<u64>,
    /// Completed share of the current phase of the build.
    #[schemars(range(min = 0, max = 1))]
    pub progress: Option<f64>,
    /// Phase of the build, if TensorRT reports it.
    pub phase: Option<&'a str>,
    /// When the detector entered this state or made this progress.
    pub at: Utc,
}

impl<'a> DetectorBody<'a> {
    pub(super) fn new(status: &'a DetectorStatus, at: SystemTime) -> Self {
        let body = Self {
            state: DetectorState::Ready,
            runs: None,
            reason: None,
            elapsed_ms: None,
            progress: None,
            phase: None,
            at: Utc(at),
        };
        match status {
            DetectorStatus::EngineMissing { reason } => Self {
                state: DetectorState::EngineMissing,
                reason: Some(reason),
                ..body
            },
            DetectorStatus::Building {
                elapsed,
                progress,
                phase,
            } => Self {
                state: DetectorState::Building,
                elapsed_ms: Some(whole_milliseconds(*elapsed)),
                progress: progress.map(|share| f64::from(rounded(share, 1e3))),
                phase: phase.as_deref(),
                ..body
            },
            DetectorStatus::Ready { runs } => Self {
                runs: Some(runs),
                ..body
            },
            DetectorStatus::Failed { reason } => Self {
                state: DetectorState::Failed,
                reason: Some(reason),
                ..body
            },
        }
    }
}

/// Times of one stage.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "stage_stats", title = "Stage", deny_unknown_fields)]
pub(super) struct StageBody {
    /// The stages are those of the page Report; `…_stay`: an image in the elements that decode and scale, with waits; `gpu_…`: inside of `infer`, by the clock of the GPU.
    #[schemars(schema_with = "schema::stage")]
    pub stage: &'static str,
    /// Number of runs.
    #[schemars(range(min = 1))]
    pub count: u64,
    /// Frames in these runs; crops for stages of secondary networks.
    pub frames: u64,
    /// Sum of the times of work of threads or the GPU; null for waits and stays.
    #[schemars(range(min = 0))]
    pub busy_ms: Option<f64>,
    /// CPU time of the threads; `video_decode` includes the codec's threads.
    #[schemars(range(min = 0))]
    pub cpu_ms: Option<f64>,
    /// Mean.
    #[schemars(range(min = 0))]
    pub mean_ms: f64,
    /// Median.
    #[schemars(range(min = 0))]
    pub p50_ms: f64,
    /// 95th percentile.
    #[schemars(range(min = 0))]
    pub p95_ms: f64,
    /// 99th percentile.
    #[schemars(range(min = 0))]
    pub p99_ms: f64,
}

impl StageBody {
    pub(super) fn new(summary: &StageSummary) -> Self {
        Self {
            stage: summary.stage.name(),
            count: summary.count,
            frames: summary.items,
            busy_ms: summary.busy_ms.map(finite),
            cpu_ms: summary.cpu_ms.map(finite),
            mean_ms: finite(summary.mean_ms),
            p50_ms: finite(summary.p50_ms),
            p95_ms: finite(summary.p95_ms),
            p99_ms: finite(summary.p99_ms),
        }
    }
}

/// The frame that a message is about.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "frame", title = "Frame", deny_unknown_fields)]
pub(super) struct FrameBody {
    /// Number of the frame in its source, from 0; dropped frames count.
    pub seq: u64,
    /// Position in the media.
    #[schemars(range(min = 0))]
    pub pts_ms: Option<f64>,
    /// Width of the source's image, in pixels.
    pub width: u32,
    /// Height of the source's image, in pixels.
    pub height: u32,
}

impl From<&FrameMeta> for FrameBody {
    fn from(frame: &FrameMeta) -> Self {
        Self {
            seq: frame.seq,
            pts_ms: frame.pts.map(milliseconds),
            width: frame.source_size.width,
            height: frame.source_size.height,
        }
    }
}

/// One track after one frame.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "track", title = "Track", deny_unknown_fields)]
pub(super) struct TrackBody<'a> {
    pub track_id: TrackNumber,
    pub label: Label<'a>,
    /// Group of the label in `detector.groups`.
    pub group: Option<Group<'a>>,
    pub state: TrackStateWord,
    /// Score of the newest matched detection.
    #[schemars(range(min = 0, max = 1))]
    pub score: f32,
    /// Highest score so far.
    #[schemars(range(min = 0, max = 1))]
    pub top_score: f32,
    /// Left, top, right and bottom in pixels of the source; right and bottom are exclusive.
    #[serde(rename = "box")]
    pub xyxy: [f32; 4],
    /// The same as shares of the image's width and height.
    #[serde(rename = "box_normalized")]
    #[schemars(inner(range(min = 0, max = 1)))]
    pub normalized: [f32; 4],
    /// Frames since the first detection, including its own.
    pub age_frames: u32,
    /// Frames with a matched detection.
    pub hits: u32,
    /// Frames since the newest matched detection.
    pub lost_frames: u32,
    /// Results of secondary networks, by majority of several crops.
    pub attributes: Vec<AttributeBody<'a>>,
}

impl<'a> TrackBody<'a> {
    fn new(names: Names<'a>, track: &'a Track, image_size: Size) -> Self {
        let [left, top, right, bottom] = track.xyxy;
        // An image is at least 1×1; a zero from a broken source must not become a number that JSON lacks.
        let (width, height) = (
            image_size.width.max(1) as f32,
            image_size.height.max(1) as f32,
        );
        Self {
            track_id: TrackNumber(track.id.0),
            label: names.label(track.class),
            group: names.group(track.class),
            state: track.state.into(),
            score: rounded(track.score, 1e4),
            top_score: rounded(track.top_score, 1e4),
            xyxy: track.xyxy.map(|edge| rounded(edge, 10.0)),
            normalized: [left / width, top / height, right / width, bottom / height]
                .map(|edge| rounded(edge.clamp(0.0, 1.0), 1e5)),
            age_frames: track.age_frames,
            hits: track.hits,
            lost_frames: track.lost_frames,
            attributes: track.attributes.iter().map(AttributeBody::new).collect(),
        }
    }
}

/// Result of a secondary network for a track.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "attribute", title = "Attribute", deny_unknown_fields)]
pub(super) struct AttributeBody<'a> {
    /// Name of the secondary network.
    pub name: &'a str,
    /// One of the labels of the secondary network.
    pub label: &'a str,
    /// Mean score of that label over the crops of the vote; other labels count as 0.
    #[schemars(range(min = 0, max = 1))]
    pub score: f32,
    /// Newest box of a secondary detector, as in a track; null for a classifier.
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
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "secondary_stats",
    title = "Statistics of a secondary network",
    deny_unknown_fields
)]
pub(super) struct SecondaryBody<'a> {
    /// Name of the network.
    pub name: &'a str,
    /// Mean number of eligible objects, over the frames with any.
    #[schemars(range(min = 0))]
    pub objects_per_frame: f64,
    /// The `batch_size` for all objects of such a frame, up to the maximum of the network.
    #[schemars(range(min = 1))]
    pub suggested_batch_size: usize,
    /// Crops that went through the network.
    pub crops: u64,
    /// Runs of the network.
    pub batches: u64,
    /// Mean number of crops in a batch.
    #[schemars(range(min = 0))]
    pub mean_batch: f64,
    /// Crops dropped because the queue was full.
    pub dropped_crops: u64,
    /// Results that arrived after the end of their track.
    pub late_results: u64,
    /// Frames without crops, as their pixels could not be kept or read.
    pub frames_without_pixels: u64,
    /// Mean time from the cut of a crop to its batch.
    #[schemars(range(min = 0))]
    pub mean_wait_ms: f64,
    /// Mean time of a batch.
    #[schemars(range(min = 0))]
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
