// SPDX-License-Identifier: Apache-2.0
//! The messages of DeepStream's nvmsgconv: the full schema, one message for each object and event, or the minimal one, one for
//! each frame.
//!
//! `new` becomes `entry`, `end` becomes `exit`; an object that came to rest is `stopped`, one that moves again is `moving`. Zones,
//! lines, directions, states of sources and statistics have no place in these schemas.

mod body;
mod kinds;
mod minimal;
mod sensors;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use self::body::{
    AnalyticsModuleBody, BoxBody, CoordinateBody, EmbeddingBody, EventBody, FullBody, LocationBody,
    ObjectBody,
};
use self::kinds::Kinds;
use self::minimal::FrameCounter;
use self::sensors::Sensors;
use super::identity::{fingerprint, uuid};
use super::{Format, FormatDelivery, FormatMessage, Scale, to_json, whole_pixels};
use crate::wire::Utc;
use crate::{Publication, SourceInfo};
use jetwatch_config::{DeepStreamPayload, FormatConfig};
use jetwatch_types::{
    AnalyticsEventKind, Classes, EventKind, FrameMeta, Size, Track, TrackEvent, TrackId,
};

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventType {
    Entry,
    Exit,
    Moving,
    Stopped,
}

impl EventType {
    fn word(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Exit => "exit",
            Self::Moving => "moving",
            Self::Stopped => "stopped",
        }
    }
}

/// The encoder of nvmsgconv's messages.
#[derive(Debug)]
pub(super) struct DeepStreamFormat {
    topic: Arc<str>,
    device: String,
    version: String,
    classes: Classes,
    scale: Scale,
    payload: DeepStreamPayload,
    updates: bool,
    kinds: Kinds,
    sensors: Sensors,
    /// The tracks of each source.
    sources: HashMap<String, BTreeMap<TrackId, KnownTrack>>,
    frames: HashMap<String, FrameCounter>,
    frame_interval: u32,
}

/// What is known of a track between its events.
#[derive(Debug)]
struct KnownTrack {
    track: Track,
    started_at: SystemTime,
    image_size: Size,
    is_resting: bool,
    /// Messages about it so far.
    messages: u64,
}

impl DeepStreamFormat {
    /// Messages on the topic of `config`. `version` is that of the program.
    #[must_use]
    pub fn new(config: &FormatConfig, device: &str, classes: &Classes, version: &str) -> Self {
        Self {
            topic: config.topic.as_str().into(),
            device: device.to_owned(),
            version: version.to_owned(),
            classes: classes.clone(),
            scale: Scale::new(config),
            payload: config.payload,
            updates: config.updates,
            kinds: Kinds::new(&config.objects, classes),
            sensors: Sensors::new(&config.sensors),
            sources: HashMap::new(),
            frames: HashMap::new(),
            frame_interval: config.frame_interval,
        }
    }

    fn on_event(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        event: &TrackEvent,
        out: &mut Vec<FormatMessage>,
    ) {
        let tracks = self.sources.entry(source.to_owned()).or_default();
        let id = event.after.id;
        let is_known = tracks.contains_key(&id);
        let known = tracks.entry(id).or_insert_with(|| KnownTrack {
            track: event.after.clone(),
            started_at: event.started_at,
            image_size: frame.source_size,
            is_resting: false,
            messages: 0,
        });
        known.track = event.after.clone();
        known.image_size = frame.source_size;
        let step = match event.kind {
            EventKind::End => Some(EventType::Exit),
            // Also the update of a track whose begin is not known.
            _ if !is_known => Some(EventType::Entry),
            _ if self.updates && known.is_resting => Some(EventType::Stopped),
            _ => self.updates.then_some(EventType::Moving),
        };
        if let Some(step) = step {
            let embedding = event.embedding.as_deref();
            self.push(source, id, step, event.frame_at, embedding, out);
        }
        if event.kind == EventKind::End
            && let Some(tracks) = self.sources.get_mut(source)
        {
            tracks.remove(&id);
        }
    }

    /// One message of the full schema.
    fn push(
        &mut self,
        source: &str,
        id: TrackId,
        step: EventType,
        at: SystemTime,
        embedding: Option<&[f32]>,
        out: &mut Vec<FormatMessage>,
    ) {
        let known = self
            .sources
            .get_mut(source)
            .and_then(|tracks| tracks.get_mut(&id));
        let Some(known) = known else {
            return;
        };
        known.messages += 1;
        let started_us = known.started_at.duration_since(SystemTime::UNIX_EPOCH);
        let parts: [&[u8]; 5] = [
            self.device.as_bytes(),
            source.as_bytes(),
            &id.0.to_le_bytes(),
            &started_us.unwrap_or_default().as_micros().to_le_bytes(),
            &known.messages.to_le_bytes(),
        ];
        let identity = |seed| uuid(fingerprint(seed, &parts), fingerprint(seed + 1, &parts));
        let kind = self.kinds.of(known.track.class);
        let (size, scaled) = self.scale.apply(known.image_size, known.track.xyxy);
        let [left, top, right, bottom] = whole_pixels(size, scaled);
        let sensor = self.sensors.of(source);
        let body = FullBody {
            messageid: identity(0x10),
            mdsversion: "1.0",
            timestamp: Utc(at),
            place: sensor.place(kind, step.word()),
            sensor: sensor.sensor(),
            analytics_module: AnalyticsModuleBody {
                id: &self.device,
                description: "object detection and tracking",
                source: "jetwatch",
                version: &self.version,
            },
            object: ObjectBody {
                id: id.to_string(),
                speed: 0.0,
                direction: 0.0,
                orientation: 0.0,
                attributes: self.kinds.attributes(&known.track, &self.classes),
                bbox: BoxBody {
                    topleftx: left,
                    toplefty: top,
                    bottomrightx: right,
                    bottomrighty: bottom,
                },
                location: LocationBody::default(),
                coordinate: CoordinateBody::default(),
                pose: BTreeMap::new(),
                embedding: embedding.map(EmbeddingBody::new),
            },
            event: EventBody {
                id: identity(0x20),
                step: step.word(),
            },
            video_path: "",
        };
        out.push(FormatMessage {
            topic: Arc::clone(&self.topic),
            payload: to_json(&body),
            delivery: match step {
                EventType::Entry | EventType::Exit => FormatDelivery::Event,
                EventType::Moving | EventType::Stopped => FormatDelivery::Update,
            },
        });
    }

    fn encode_full(&mut self, record: &Publication<'_>, out: &mut Vec<FormatMessage>) {
        match record {
            Publication::Events {
                source,
                frame,
                events,
                ..
            } => {
                for event in *events {
                    self.on_event(source, frame, event, out);
                }
            }
            Publication::Analytics { source, events, .. } => {
                for message in *events {
                    let (step, is_resting) = match message.event.kind {
                        AnalyticsEventKind::Stationary { .. } => (EventType::Stopped, true),
                        AnalyticsEventKind::Moving => (EventType::Moving, false),
                        _ => continue,
                    };
                    let Some(id) = message.event.track else {
                        continue;
                    };
                    let tracks = self.sources.get_mut(*source);
                    if let Some(known) = tracks.and_then(|tracks| tracks.get_mut(&id)) {
                        known.is_resting = is_resting;
                    }
                    self.push(source, id, step, message.event.at, None, out);
                }
            }
            _ => {}
        }
    }

    /// One message of the minimal schema.
    fn encode_frame(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        tracks: &[Track],
        out: &mut Vec<FormatMessage>,
    ) {
        let objects = minimal::objects(frame, tracks, self.scale, &self.kinds, &self.classes);
        let counter = match self.frames.get_mut(source) {
            Some(counter) => counter,
            None => self.frames.entry(source.to_owned()).or_default(),
        };
        if !counter.is_due(self.frame_interval, objects.is_empty()) {
            return;
        }
        let sensor = self.sensors.of(source);
        out.push(FormatMessage {
            topic: Arc::clone(&self.topic),
            payload: to_json(&minimal::MinimalBody {
                version: "4.0",
                id: frame.seq.to_string(),
                timestamp: Utc(frame.captured_at),
                sensor_id: sensor.id(),
                objects,
            }),
            delivery: FormatDelivery::BestEffort,
        });
    }
}

impl Format for DeepStreamFormat {
    fn source_added(&mut self, source: &SourceInfo, _out: &mut Vec<FormatMessage>) {
        self.sensors.add(&source.name);
    }

    fn source_removed(&mut self, source: &str, _now: SystemTime, _out: &mut Vec<FormatMessage>) {
        self.sources.remove(source);
        self.frames.remove(source);
        self.sensors.remove(source);
    }

    fn encode(&mut self, record: &Publication<'_>, _now: SystemTime, out: &mut Vec<FormatMessage>) {
        match (self.payload, record) {
            (DeepStreamPayload::Full, record) => self.encode_full(record, out),
            (
                DeepStreamPayload::Minimal,
                Publication::Frame {
                    source,
                    frame,
                    tracks,
                },
            ) => self.encode_frame(source, frame, tracks, out),
            (DeepStreamPayload::Minimal, _) => {}
        }
    }

    fn finish(&mut self, _now: SystemTime, _out: &mut Vec<FormatMessage>) {
        // Nothing is open: every track has ended.
    }

    fn needs_frames(&self) -> bool {
        self.payload == DeepStreamPayload::Minimal
    }
}
