// SPDX-License-Identifier: Apache-2.0
//! The sink of the page: the messages of MQTT, encoded in the same way, for [`Hub`]. It runs on the tracking stage's thread, and holds
//! locks for copies only.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jetwatch_platform::EngineKind;
use jetwatch_publish::{Encoder, Publication, Sink, SinkCounts, SourceInfo, Stats, Timestamp};
use jetwatch_telemetry::Stage;
use jetwatch_types::{Classes, EventKind};
use jetwatch_web::{Hub, StatsPoint, TrackStep};

use super::backend::PageBackend;

/// Passes publications to the page. It delivers none, so its own counts are zero.
pub(super) struct WebSink {
    hub: Arc<Hub>,
    backend: Arc<PageBackend>,
    encoder: Encoder,
    classes: Classes,
    /// Number and sum of the times of each stage at the last statistics.
    stages: HashMap<Stage, (u64, f64)>,
}

impl WebSink {
    pub(super) fn new(
        hub: Arc<Hub>,
        backend: Arc<PageBackend>,
        device: &str,
        classes: &Classes,
    ) -> Self {
        Self {
            hub,
            backend,
            encoder: Encoder::new(device, classes),
            classes: classes.clone(),
            stages: HashMap::new(),
        }
    }

    /// Passes a message that is valid until the next of its topic.
    fn retain(&mut self, record: &Publication<'_>) {
        let (hub, (levels, source, name)) = (&self.hub, record.place());
        let topic = format!("{levels}/{name}");
        self.encoder.encode(record, Timestamp::now(), |json| {
            hub.retain(source, &topic, json);
        });
    }

    /// Figures for the plots.
    fn point(&mut self, stats: &Stats) -> StatsPoint {
        let mut point = StatsPoint {
            at_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
            fps: stats.fps,
            rss_bytes: stats.rss_bytes,
            queued: stats.messages.queued,
            ..StatsPoint::default()
        };
        for summary in &stats.stages {
            let now = (summary.count, summary.total_ms);
            let before = self.stages.insert(summary.stage, now).unwrap_or_default();
            let runs = now.0.saturating_sub(before.0);
            if runs > 0 {
                let mean = (now.1 - before.1).max(0.0) / runs as f64;
                point.stages.push((summary.stage.name(), mean));
            }
        }
        let Some(machine) = &stats.machine else {
            return point;
        };
        let loads = &machine.cpu_loads;
        if !loads.is_empty() {
            let sum: f32 = loads.iter().map(|(_, load)| load).sum();
            point.cpu_percent = Some(sum / loads.len() as f32);
        }
        let engines = machine.readings.engines.iter();
        let mut gpus = engines.filter(|engine| engine.kind == EngineKind::Gpu);
        point.gpu_percent = gpus.next().and_then(|gpu| gpu.load_percent);
        let temperatures = machine.readings.temperatures.iter();
        point.celsius = temperatures
            .filter_map(|zone| zone.celsius)
            .reduce(f32::max);
        point
    }
}

impl Sink for WebSink {
    fn publish(&mut self, record: &Publication<'_>) {
        match record {
            Publication::Events {
                source,
                frame,
                events,
                ..
            } => {
                for event in *events {
                    let label = self.classes.label(event.after.class).unwrap_or("?");
                    self.backend.seen().on_event(source, label, frame, event);
                }
                let hub = &self.hub;
                let mut events = events.iter();
                self.encoder.encode(record, Timestamp::now(), |json| {
                    // One message for each event, in their order.
                    if let Some(event) = events.next() {
                        let step = match event.kind {
                            EventKind::New => TrackStep::New,
                            EventKind::Update => TrackStep::Update,
                            EventKind::End => TrackStep::End,
                        };
                        hub.track(source, event.after.id.0, step, json);
                    }
                });
            }
            Publication::Analytics { source, events, .. } => {
                let (hub, seen) = (&self.hub, self.backend.seen());
                let mut tracks = events.iter().map(|message| message.event.track);
                self.encoder.encode(record, Timestamp::now(), |json| {
                    // One message for each event, in their order.
                    if let Some(track) = tracks.next().flatten() {
                        seen.on_analytics(source, track, json);
                    }
                    hub.append(json);
                });
            }
            Publication::Media { .. } => {
                let hub = &self.hub;
                self.encoder
                    .encode(record, Timestamp::now(), |json| hub.pass(json));
            }
            Publication::Stats(stats) => {
                let point = self.point(stats);
                self.hub.add_point(point);
                self.retain(record);
            }
            // A message for each frame would fill the page; a reply is for who gave the command.
            Publication::Frame { .. }
            | Publication::Reply { .. }
            | Publication::Snapshot { .. }
            | Publication::Active { .. }
            | Publication::Motion(_)
            | Publication::Update(_) => {}
            _ => self.retain(record),
        }
    }

    fn source_added(&mut self, source: &SourceInfo) {
        self.hub.forget(&source.name);
        self.backend.seen().forget(&source.name);
        self.backend.source_added(source);
    }

    fn source_removed(&mut self, source: &str) {
        self.hub.forget(source);
        self.backend.seen().forget(source);
        self.backend.source_removed(source);
    }

    fn counts(&self) -> SinkCounts {
        SinkCounts::default()
    }

    fn close(self: Box<Self>, _deadline: Duration) -> SinkCounts {
        SinkCounts::default()
    }
}
