// SPDX-License-Identifier: Apache-2.0
//! Records as JSON. Pure: the caller passes the time, and sends or writes the result.
//!
//! The bodies are in [`body`]; this file selects and fills the one of a record. MQTT and JSON lines use the same bytes,
//! except for counts and switches, which are bare values on MQTT.

mod analytics;
mod bare;
mod body;
mod control;
mod machine;
mod media;
mod schema;
mod spool;
mod timestamp;
mod update;
mod value;
mod words;

use std::time::{Duration, SystemTime};

pub(crate) use self::bare::bare_payload;
use self::body::{
    AttributeBody, DetectionsBody, DetectorBody, EmbeddingBody, EventBody, FrameBody,
    SecondaryBody, SourceBody, SourceStatsBody, StageBody, StatsBody, TrackBody,
};
use self::control::{ActiveBody, ReloadBody, ReplyBody};
use self::machine::{MachineBody, ThrottlingBody, causes};
use self::media::{MediaBody, MediaStatsBody, RecordingBody, SnapshotBody};
pub use self::schema::{message_page, message_schema};
use self::spool::{GapBody, SpoolStatsBody};
pub use self::timestamp::Timestamp;
use self::update::UpdateBody;
use self::value::{Device, Group, Label, Latency, SourceName, TrackNumber, finite, milliseconds};
pub(crate) use self::value::{EventId, SpoolId, Utc, rounded};
use self::words::{DetectorState, ThrottlingType};
use super::{DetectorStatus, Publication, Stats};
use jetwatch_platform::throttling::ThrottleEvent;
use jetwatch_types::{Classes, FrameMeta, Size, Track, TrackEvent, TrackId};

/// Version of the messages: increased when subscribers have to change; new fields do not count.
pub const SCHEMA_VERSION: u32 = 2;

/// Identity of a track that no restart repeats, as in `id` of its events.
#[must_use]
pub fn track_identity(started_at: SystemTime, source: &str, track: TrackId) -> String {
    let id = EventId {
        started_at,
        source,
        track,
    };
    id.to_string()
}

/// Number of a message.
#[derive(Debug, Clone, Copy)]
struct Number {
    spool: SpoolId,
    seq: u64,
}

/// Writes records as JSON, into a reused buffer.
#[derive(Debug, Clone)]
pub struct Encoder {
    device: String,
    classes: Classes,
    buffer: Vec<u8>,
    /// The next number, where messages are numbered.
    number: Option<Number>,
}

impl Encoder {
    /// An encoder for a device whose model has these classes.
    #[must_use]
    pub fn new(device: &str, classes: &Classes) -> Self {
        Self {
            device: device.to_owned(),
            classes: classes.clone(),
            buffer: Vec::with_capacity(2048),
            number: None,
        }
    }

    /// Numbers events and analytics events from `seq` on, in the numbering `spool`.
    pub fn number_from(&mut self, spool: u64, seq: u64) {
        self.number = Some(Number {
            spool: SpoolId(spool),
            seq,
        });
    }

    /// Number of the next message; `None`: messages have no numbers.
    #[must_use]
    pub fn next_number(&self) -> Option<u64> {
        self.number.map(|number| number.seq)
    }

    /// Identity of the numbering, and the number of the next message; `None`: messages have no numbers.
    #[must_use]
    pub(crate) fn numbering(&self) -> Option<(u64, u64)> {
        self.number.map(|number| (number.spool.0, number.seq))
    }

    /// The number of a message that is being encoded.
    fn take_number(&mut self) -> Option<Number> {
        let taken = self.number;
        if let Some(number) = &mut self.number {
            number.seq += 1;
        }
        taken
    }

    /// Calls `each` with the JSON of every message of `record`: one per track event or analytics event, otherwise one. Without line breaks.
    pub fn encode(
        &mut self,
        record: &Publication<'_>,
        now: Timestamp,
        mut each: impl FnMut(&[u8]),
    ) {
        let mut buffer = std::mem::take(&mut self.buffer);
        match record {
            Publication::Events {
                source,
                frame,
                events,
                recording,
                snapshots,
            } => {
                for (index, event) in events.iter().enumerate() {
                    let number = self.take_number();
                    let snapshot = snapshots.get(index).and_then(Option::as_deref);
                    let body = EventBody {
                        recording: recording.map(RecordingBody::new),
                        snapshot: snapshot.map(SnapshotBody::new),
                        ..self.event(source, frame, event, now, number)
                    };
                    write(&mut buffer, &body);
                    each(&buffer);
                }
            }
            Publication::Frame {
                source,
                frame,
                tracks,
            } => {
                let body = DetectionsBody {
                    version: SCHEMA_VERSION,
                    kind: "detections",
                    device: Device(&self.device),
                    source: SourceName(source),
                    frame: frame_body(frame),
                    frame_at: Utc(frame.captured_at),
                    latency_ms: latency(frame, now),
                    tracks: tracks
                        .iter()
                        .map(|track| self.track(track, frame.source_size))
                        .collect(),
                };
                write(&mut buffer, &body);
                each(&buffer);
            }
            Publication::Count { .. }
            | Publication::GroupCount { .. }
            | Publication::Switch { .. }
            | Publication::ScoreThreshold { .. } => {
                self.write_value(record, &mut buffer);
                each(&buffer);
            }
            Publication::Analytics {
                source,
                rules,
                frame,
                events,
                recording,
            } => {
                for event in *events {
                    let number = self.take_number();
                    let body = self.analytics_event(source, rules, frame, event, now, number);
                    write(&mut buffer, &body.with_recording(*recording));
                    each(&buffer);
                }
            }
            Publication::Zone {
                source,
                zone,
                present,
                overcrowded,
                at,
            } => {
                write(
                    &mut buffer,
                    &self.zone(source, zone, present, *overcrowded, *at),
                );
                each(&buffer);
            }
            Publication::Line {
                source,
                line,
                crossings,
                since,
                at,
            } => {
                write(
                    &mut buffer,
                    &self.line(source, line, crossings, *since, *at),
                );
                each(&buffer);
            }
            Publication::Source {
                source,
                state,
                reason,
                at,
            } => {
                let body = SourceBody {
                    version: SCHEMA_VERSION,
                    kind: "source",
                    device: Device(&self.device),
                    source: SourceName(source),
                    state: (*state).into(),
                    reason: *reason,
                    since: Utc(*at),
                };
                write(&mut buffer, &body);
                each(&buffer);
            }
            Publication::Active {
                source,
                activity,
                at,
            } => {
                let device = Device(&self.device);
                write(&mut buffer, &ActiveBody::new(device, source, activity, *at));
                each(&buffer);
            }
            Publication::Detector { status, at } => {
                write(&mut buffer, &self.detector(status, *at));
                each(&buffer);
            }
            Publication::Throttling { change, at } => {
                write(&mut buffer, &self.throttling(change, *at));
                each(&buffer);
            }
            Publication::Reload { status, at } => {
                write(
                    &mut buffer,
                    &ReloadBody::new(Device(&self.device), status, *at),
                );
                each(&buffer);
            }
            Publication::Update(status) => {
                write(&mut buffer, &UpdateBody::new(Device(&self.device), status));
                each(&buffer);
            }
            Publication::Reply { reply, at } => {
                write(
                    &mut buffer,
                    &ReplyBody::new(Device(&self.device), reply, *at),
                );
                each(&buffer);
            }
            Publication::Media { item, at } => {
                let device = Device(&self.device);
                write(&mut buffer, &MediaBody::new(device, item, *at));
                each(&buffer);
            }
            // No JSON: MQTT sends it as it is.
            Publication::Snapshot { .. } => {}
            Publication::Gap { gap, at } => {
                let body = GapBody {
                    version: SCHEMA_VERSION,
                    kind: "gap",
                    device: Device(&self.device),
                    spool: SpoolId(gap.id),
                    from: gap.from,
                    to: gap.to,
                    messages: gap.updates + gap.others,
                    updates: gap.updates,
                    reason: gap.reason.into(),
                    at: Utc(*at),
                };
                write(&mut buffer, &body);
                each(&buffer);
            }
            Publication::Stats(stats) => {
                write(&mut buffer, &self.stats(stats, now));
                each(&buffer);
            }
        }
        self.buffer = buffer;
    }

    fn detector<'a>(&'a self, status: &'a DetectorStatus, at: SystemTime) -> DetectorBody<'a> {
        let body = DetectorBody {
            version: SCHEMA_VERSION,
            kind: "detector",
            device: Device(&self.device),
            state: DetectorState::Ready,
            runs: None,
            reason: None,
            elapsed_ms: None,
            progress: None,
            phase: None,
            at: Utc(at),
        };
        match status {
            DetectorStatus::EngineMissing { reason } => DetectorBody {
                state: DetectorState::EngineMissing,
                reason: Some(reason),
                ..body
            },
            DetectorStatus::Building {
                elapsed,
                progress,
                phase,
            } => DetectorBody {
                state: DetectorState::Building,
                elapsed_ms: Some(whole_milliseconds(*elapsed)),
                progress: progress.map(|share| f64::from(rounded(share, 1e3))),
                phase: phase.as_deref(),
                ..body
            },
            DetectorStatus::Ready { runs } => DetectorBody {
                runs: Some(runs),
                ..body
            },
            DetectorStatus::Failed { reason } => DetectorBody {
                state: DetectorState::Failed,
                reason: Some(reason),
                ..body
            },
        }
    }

    fn throttling<'a>(&'a self, change: &'a ThrottleEvent, at: SystemTime) -> ThrottlingBody<'a> {
        ThrottlingBody {
            version: SCHEMA_VERSION,
            kind: "throttling",
            device: Device(&self.device),
            step: if change.began {
                ThrottlingType::Begin
            } else {
                ThrottlingType::End
            },
            cause: (&change.cause).into(),
            name: change.cause.name(),
            text: change.cause.to_string(),
            detail: (!change.detail.is_empty()).then_some(&change.detail),
            throttled_by: causes(&change.active),
            throttled_times: change.times,
            at: Utc(at),
        }
    }

    fn event<'a>(
        &'a self,
        source: &'a str,
        frame: &FrameMeta,
        event: &'a TrackEvent,
        now: Timestamp,
        number: Option<Number>,
    ) -> EventBody<'a> {
        EventBody {
            version: SCHEMA_VERSION,
            kind: "event",
            device: Device(&self.device),
            source: SourceName(source),
            step: event.kind.into(),
            id: EventId {
                started_at: event.started_at,
                source,
                track: event.after.id,
            },
            track_id: TrackNumber(event.after.id.0),
            label: self.label(event.after.class),
            group: self.group(event.after.class),
            started_at: Utc(event.started_at),
            frame_at: Utc(event.frame_at),
            ended_at: event.ended_at.map(Utc),
            duration_ms: whole_milliseconds(event.duration),
            latency_ms: latency(frame, now),
            frame: frame_body(frame),
            before: event
                .before
                .as_ref()
                .map(|track| self.track(track, frame.source_size)),
            after: self.track(&event.after, frame.source_size),
            recording: None,
            snapshot: None,
            embedding: event
                .embedding
                .as_deref()
                .map(|vector| EmbeddingBody { vector }),
            spool: number.map(|number| number.spool),
            seq: number.map(|number| number.seq),
            // Known when it is sent.
            late_ms: None,
        }
    }

    fn track<'a>(&'a self, track: &'a Track, image_size: Size) -> TrackBody<'a> {
        let [left, top, right, bottom] = track.xyxy;
        // An image is at least 1×1; a zero from a broken source must not become a number that JSON lacks.
        let (width, height) = (
            image_size.width.max(1) as f32,
            image_size.height.max(1) as f32,
        );
        TrackBody {
            track_id: TrackNumber(track.id.0),
            label: self.label(track.class),
            group: self.group(track.class),
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

    /// The label of a class. A class beyond the labels cannot come from a checked model; it is shown as such, since a
    /// message that names no class would hide the mistake.
    fn label(&self, class: u16) -> Label<'_> {
        Label(self.classes.label(class).unwrap_or("(class without label)"))
    }

    /// The group of a class.
    fn group(&self, class: u16) -> Option<Group<'_>> {
        self.classes.group(class).map(Group)
    }

    fn stats<'a>(&'a self, stats: &'a Stats, now: Timestamp) -> StatsBody<'a> {
        StatsBody {
            version: SCHEMA_VERSION,
            kind: "stats",
            device: Device(&self.device),
            sent_at: Utc(now.wall),
            uptime_ms: whole_milliseconds(stats.uptime),
            detected_frames: stats.detected_frames,
            fps: finite(stats.fps),
            inference_fps: finite(stats.inference_fps),
            cpu_ms_per_frame: finite(stats.cpu_ms_per_frame),
            rss_bytes: stats.rss_bytes,
            peak_rss_bytes: stats.peak_rss_bytes,
            messages: stats.messages.into(),
            spool: stats.spool.as_ref().map(SpoolStatsBody::new),
            media: stats.media.as_ref().map(MediaStatsBody::new),
            machine: stats.machine.as_ref().map(MachineBody::new),
            sources: stats
                .sources
                .iter()
                .map(|source| SourceStatsBody {
                    source: SourceName(&source.name),
                    state: source.state.into(),
                    frames: source.frames,
                    dropped_frames: source.dropped,
                    reconnects: source.reconnects,
                    fps: finite(source.fps),
                    tracks: source.tracks,
                    interval: source.interval,
                    skipped_frames: source.skipped,
                })
                .collect(),
            secondary: stats.secondary.iter().map(SecondaryBody::new).collect(),
            stages: stats.stages.iter().map(StageBody::new).collect(),
        }
    }
}

fn frame_body(frame: &FrameMeta) -> FrameBody {
    FrameBody {
        seq: frame.seq,
        pts_ms: frame.pts.map(milliseconds),
        width: frame.source_size.width,
        height: frame.source_size.height,
    }
}

fn latency(frame: &FrameMeta, now: Timestamp) -> Latency {
    let time = now.monotonic.saturating_duration_since(frame.received_at);
    Latency(milliseconds(time))
}

fn whole_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn write(buffer: &mut Vec<u8>, body: &impl serde::Serialize) {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, body)
        .expect("the bodies have text keys, and a Vec takes every byte");
}
