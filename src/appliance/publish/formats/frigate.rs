// SPDX-License-Identifier: Apache-2.0
//! Frigate's MQTT topics: `events`, `reviews`, counts of cameras and zones, states of cameras, and `stats`.
//!
//! What differs from Frigate: there are no clips, and the picture of an object is made when its track has ended; `region` is the whole
//! image; a zone has an object from its first frames inside, and `loitering_time_s` makes an alert of it; objects count until their
//! tracks end.

mod body;
mod counts;
mod object;
mod review;
mod stats;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use self::body::EventBody;
use self::counts::{Counts, topics};
use self::object::{ObjectIdentity, TrackedObject};
use self::review::{Camera, ReviewChange, ReviewRules};
use self::stats::StatsHistory;
use super::identity::seconds;
use super::{Format, FormatDelivery, FormatMessage, Scale, to_json};
use crate::{AnalyticsMessage, Motion, Publication, SourceInfo, SourceStatus};
use jetwatch_config::{FormatConfig, SceneRules};
use jetwatch_types::{
    AnalyticsEventKind, Classes, EventKind, FrameMeta, SourceState, TrackEvent, TrackId,
};

/// The encoder of Frigate's topics.
#[derive(Debug)]
pub(super) struct FrigateFormat {
    prefix: String,
    device: String,
    version: String,
    classes: Classes,
    scale: Scale,
    rules: ReviewRules,
    events: Arc<str>,
    reviews: Arc<str>,
    /// By the names of their sources.
    cameras: BTreeMap<String, Camera>,
    counts: Counts,
    stats: StatsHistory,
}

impl FrigateFormat {
    /// Messages below the prefix of `config`. `version` is that of the program.
    #[must_use]
    pub fn new(config: &FormatConfig, device: &str, classes: &Classes, version: &str) -> Self {
        let prefix = &config.prefix;
        Self {
            prefix: prefix.clone(),
            device: device.to_owned(),
            version: version.to_owned(),
            classes: classes.clone(),
            scale: Scale::new(config),
            rules: ReviewRules::new(&config.reviews, classes),
            events: format!("{prefix}/events").into(),
            reviews: format!("{prefix}/reviews").into(),
            cameras: BTreeMap::new(),
            counts: Counts::default(),
            stats: StatsHistory::default(),
        }
    }

    /// A message about a camera.
    fn push(
        &self,
        camera: &str,
        below: &str,
        value: &str,
        delivery: FormatDelivery,
        out: &mut Vec<FormatMessage>,
    ) {
        out.push(FormatMessage {
            topic: format!("{}/{camera}/{below}", self.prefix).into(),
            payload: value.as_bytes().to_vec(),
            delivery,
        });
    }

    fn on_event(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        event: &TrackEvent,
        has_snapshot: bool,
        now: SystemTime,
        out: &mut Vec<FormatMessage>,
    ) {
        let id = event.after.id;
        let camera = self.cameras.entry(source.to_owned()).or_default();
        let object = camera.objects.entry(id).or_insert_with(|| {
            TrackedObject::new(&ObjectIdentity {
                device: &self.device,
                camera: source,
                track: id,
                started_at: event.started_at,
            })
        });
        object.update(event, frame, self.scale, &self.classes);
        object.now.has_snapshot = has_snapshot;
        let step = match event.kind {
            EventKind::End => Some("end"),
            // Also the update of a track whose begin is not known.
            _ if !object.is_published() => Some("new"),
            _ => object.has_changed().then_some("update"),
        };
        if !object.now.stationary {
            camera.prolong(now);
        }
        if let Some(step) = step {
            self.publish(source, id, step, now, out);
        }
        if event.kind == EventKind::End
            && let Some(camera) = self.cameras.get_mut(source)
            && let Some(object) = camera.objects.remove(&id)
        {
            self.counts.remove(&object.counted);
        }
    }

    fn on_analytics(
        &mut self,
        source: &str,
        rules: &SceneRules,
        frame: &FrameMeta,
        message: &AnalyticsMessage,
        now: SystemTime,
        out: &mut Vec<FormatMessage>,
    ) {
        let Some(camera) = self.cameras.get_mut(source) else {
            return;
        };
        let name = |zone: usize| rules.zones.get(zone).map_or("", |rule| rule.name.as_str());
        let mut changed: Vec<TrackId> = message.event.track.into_iter().collect();
        if let AnalyticsEventKind::Overcrowded { zone, .. } = message.event.kind {
            changed = camera.mark_crowd(name(zone));
        }
        for id in changed {
            let Some(object) = self
                .cameras
                .get_mut(source)
                .and_then(|c| c.objects.get_mut(&id))
            else {
                continue;
            };
            object.now.frame_time = seconds(message.event.at);
            match message.event.kind {
                AnalyticsEventKind::ZoneEntered { zone } => {
                    let rule = rules.zones.get(zone);
                    let may_loiter = rule.is_some_and(|rule| rule.loitering.is_some());
                    object.enter(name(zone), may_loiter);
                }
                AnalyticsEventKind::ZoneLeft { zone, .. } => object.leave(name(zone)),
                AnalyticsEventKind::Loitering { .. } => object.is_alert = true,
                AnalyticsEventKind::Stationary { .. } => object.rest(frame.seq),
                AnalyticsEventKind::Moving => object.move_on(),
                AnalyticsEventKind::Overcrowded { .. } => {}
                // Frigate has no lines and directions, and an alert stays one.
                AnalyticsEventKind::OvercrowdingEnded { .. }
                | AnalyticsEventKind::LineCrossed { .. }
                | AnalyticsEventKind::Direction { .. } => continue,
            }
            if object.is_published() {
                self.publish(source, id, "update", now, out);
            }
        }
    }

    /// Publishes an object, and takes it into the counts and the review of its camera.
    fn publish(
        &mut self,
        source: &str,
        id: TrackId,
        step: &'static str,
        now: SystemTime,
        out: &mut Vec<FormatMessage>,
    ) {
        let Some(camera) = self.cameras.get_mut(source) else {
            return;
        };
        let Some(object) = camera.objects.get_mut(&id) else {
            return;
        };
        object.now.max_severity = self.rules.severity(object);
        let (before, after) = object.publish();
        let body = EventBody {
            step,
            before: &before,
            after,
        };
        out.push(FormatMessage {
            topic: Arc::clone(&self.events),
            payload: to_json(&body),
            delivery: match step {
                "update" => FormatDelivery::Update,
                _ => FormatDelivery::Event,
            },
        });
        if let Some(before) = object.recount() {
            self.counts.remove(&before);
            self.counts.add(&object.counted);
        }
        let change = match step {
            "end" => None,
            _ => camera.observe(source, id, now),
        };
        if let Some(change) = change {
            self.publish_review(source, &change, out);
        }
    }

    fn publish_review(&self, camera: &str, change: &ReviewChange, out: &mut Vec<FormatMessage>) {
        out.push(FormatMessage {
            topic: Arc::clone(&self.reviews),
            payload: to_json(&change.body()),
            delivery: match change.is_update() {
                true => FormatDelivery::Update,
                false => FormatDelivery::Event,
            },
        });
        if change.has_new_status() {
            let status = change.status();
            self.push(camera, "review_status", status, FormatDelivery::Latest, out);
        }
    }

    /// Ends the reviews whose cameras had no motion for `cutoff`, and publishes counts that have changed.
    fn publish_due(&mut self, now: SystemTime, cutoff: Duration, out: &mut Vec<FormatMessage>) {
        let ended: Vec<(String, ReviewChange)> = self
            .cameras
            .iter_mut()
            .filter_map(|(name, camera)| Some((name.clone(), camera.end_review(now, cutoff)?)))
            .collect();
        for (name, change) in ended {
            self.publish_review(&name, &change, out);
        }
        self.counts.publish(&self.prefix, out);
    }
}

impl Format for FrigateFormat {
    fn source_added(&mut self, source: &SourceInfo, out: &mut Vec<FormatMessage>) {
        let camera = self.cameras.entry(source.name.clone()).or_default();
        let zones = source.rules.zones.iter();
        camera.zones = zones.map(|zone| zone.name.clone()).collect();
        // Of a network with many labels, those that are never seen get no topic.
        if source.has_chosen_labels {
            let labels = || source.labels.iter().map(String::as_str);
            self.counts.announce(topics(&source.name, labels()));
            for zone in &source.rules.zones {
                let is_about = |label: &&str| {
                    let class = source_class(&self.classes, label);
                    super::is_among(&self.classes, &zone.objects, class)
                };
                self.counts
                    .announce(topics(&zone.name, labels().filter(is_about)));
            }
        }
        self.push(
            &source.name,
            "review_status",
            "NONE",
            FormatDelivery::Latest,
            out,
        );
        self.counts.publish(&self.prefix, out);
    }

    fn source_removed(&mut self, source: &str, now: SystemTime, out: &mut Vec<FormatMessage>) {
        let Some(mut camera) = self.cameras.remove(source) else {
            return;
        };
        for object in camera.objects.values() {
            self.counts.remove(&object.counted);
        }
        if let Some(change) = camera.end_review(now, Duration::ZERO) {
            self.publish_review(source, &change, out);
        }
        self.push(source, "review_status", "NONE", FormatDelivery::Last, out);
        self.push(
            source,
            "status/detect",
            "disabled",
            FormatDelivery::Last,
            out,
        );
        self.counts.end(source, &self.prefix, out);
        for zone in camera.zones {
            // Zones of the same name of several cameras share their topics.
            if !self
                .cameras
                .values()
                .any(|other| other.zones.contains(&zone))
            {
                self.counts.end(&zone, &self.prefix, out);
            }
        }
        self.counts.publish(&self.prefix, out);
    }

    fn encode(&mut self, record: &Publication<'_>, now: SystemTime, out: &mut Vec<FormatMessage>) {
        match record {
            Publication::Events {
                source,
                frame,
                events,
                snapshots,
                ..
            } => {
                for (index, event) in events.iter().enumerate() {
                    let has_snapshot = snapshots.get(index).is_some_and(Option::is_some);
                    self.on_event(source, frame, event, has_snapshot, now, out);
                }
            }
            Publication::Analytics {
                source,
                rules,
                frame,
                events,
                ..
            } => {
                for message in *events {
                    self.on_analytics(source, rules, frame, message, now, out);
                }
            }
            Publication::Source(SourceStatus { source, state, .. }) => {
                let status = match state {
                    SourceState::Online => "online",
                    SourceState::Connecting | SourceState::Offline | SourceState::Ended => {
                        "offline"
                    }
                };
                self.push(
                    source.0,
                    "status/detect",
                    status,
                    FormatDelivery::Latest,
                    out,
                );
            }
            Publication::Motion(Motion { source, on, .. }) => {
                let motion = if *on { "ON" } else { "OFF" };
                self.push(source.0, "motion", motion, FormatDelivery::Latest, out);
            }
            Publication::Snapshot {
                source,
                label,
                track: None,
                jpeg,
            } => out.push(FormatMessage {
                topic: format!("{}/{source}/{label}/snapshot", self.prefix).into(),
                payload: jpeg.to_vec(),
                delivery: FormatDelivery::Latest,
            }),
            Publication::Stats(stats) => {
                let body = self.stats.body(stats, &self.version, now);
                out.push(FormatMessage {
                    topic: format!("{}/stats", self.prefix).into(),
                    payload: to_json(&body),
                    delivery: FormatDelivery::BestEffort,
                });
            }
            _ => {}
        }
        self.publish_due(now, self.rules.cutoff(), out);
    }

    fn finish(&mut self, now: SystemTime, out: &mut Vec<FormatMessage>) {
        self.publish_due(now, Duration::ZERO, out);
    }

    fn availability(&self) -> Option<Arc<str>> {
        Some(format!("{}/available", self.prefix).into())
    }
}

/// The class of a label; one beyond all where the network does not have it.
fn source_class(classes: &Classes, label: &str) -> u16 {
    let index = classes.labels().iter().position(|known| known == label);
    index
        .and_then(|index| u16::try_from(index).ok())
        .unwrap_or(u16::MAX)
}
