// SPDX-License-Identifier: Apache-2.0
//! One tracked object: what was published of it, and what it is now.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::body::{AttributeBody, BestBody, ObjectBody};
use crate::formats::identity::{fingerprint, frigate_id, seconds};
use crate::formats::{Scale, label_of, whole_pixels};
use crate::wire::rounded;
use jetwatch_types::{Classes, FrameMeta, Size, Track, TrackEvent, TrackId};

/// A frame with a score that is higher by this is a better one.
const BETTER_SCORE: f32 = 0.05;

/// So is one in which the object is larger by this factor.
const BETTER_AREA: f64 = 1.1;

/// An object without other changes is published this often, in seconds.
const UPDATE_INTERVAL_S: f64 = 60.0;

/// Seed of the identities of objects.
const OBJECTS: u64 = 1;

/// What identifies an object over restarts.
#[derive(Debug)]
pub(super) struct ObjectIdentity<'a> {
    pub device: &'a str,
    pub camera: &'a str,
    pub track: TrackId,
    pub started_at: SystemTime,
}

/// One tracked object.
#[derive(Debug)]
pub(super) struct TrackedObject {
    pub now: ObjectBody,
    /// As in its last message.
    published: Option<ObjectBody>,
    pub class: u16,
    /// Topics that count it.
    pub counted: Vec<String>,
    /// Zones that it may loiter in.
    loitering_zones: Vec<String>,
    /// Something happened that is always an alert.
    pub is_alert: bool,
    /// Number of the frame in which it came to rest.
    resting_since: Option<u64>,
}

impl TrackedObject {
    pub fn new(identity: &ObjectIdentity<'_>) -> Self {
        let parts: [&[u8]; 3] = [
            identity.device.as_bytes(),
            identity.camera.as_bytes(),
            &identity.track.0.to_le_bytes(),
        ];
        let now = ObjectBody {
            id: frigate_id(identity.started_at, fingerprint(OBJECTS, &parts)),
            camera: identity.camera.to_owned(),
            frame_time: 0.0,
            snapshot: BestBody::default(),
            label: String::new(),
            sub_label: None,
            top_score: 0.0,
            false_positive: false,
            start_time: seconds(identity.started_at),
            end_time: None,
            score: 0.0,
            xyxy: [0; 4],
            area: 0,
            ratio: 0.0,
            region: [0; 4],
            active: true,
            stationary: false,
            motionless_count: 0,
            position_changes: 0,
            current_zones: Vec::new(),
            entered_zones: Vec::new(),
            has_clip: false,
            has_snapshot: false,
            thumbnail: None,
            attributes: BTreeMap::new(),
            current_attributes: Vec::new(),
            pending_loitering: false,
            max_severity: None,
            current_estimated_speed: 0.0,
            average_estimated_speed: 0.0,
            velocity_angle: 0.0,
            recognized_license_plate: None,
            recognized_license_plate_score: None,
        };
        Self {
            now,
            published: None,
            class: 0,
            counted: Vec::new(),
            loitering_zones: Vec::new(),
            is_alert: false,
            resting_since: None,
        }
    }

    /// Takes in an event of its track.
    pub fn update(
        &mut self,
        event: &TrackEvent,
        frame: &FrameMeta,
        scale: Scale,
        classes: &Classes,
    ) {
        let track = &event.after;
        self.class = track.class;
        let (size, scaled) = scale.apply(frame.source_size, track.xyxy);
        let xyxy = whole_pixels(size, scaled);
        let [left, top, right, bottom] = xyxy.map(u64::from);
        let (width, height) = (right.saturating_sub(left), bottom.saturating_sub(top));
        let now = &mut self.now;
        label_of(classes, track.class).clone_into(&mut now.label);
        now.frame_time = seconds(event.frame_at);
        now.end_time = event.ended_at.map(seconds);
        now.score = rounded(track.score, 1e4);
        now.top_score = rounded(track.top_score, 1e4);
        now.xyxy = xyxy;
        now.area = width * height;
        now.ratio = (width as f64 / height.max(1) as f64 * 1e4).round() / 1e4;
        now.region = [0, 0, size.0, size.1];
        now.current_attributes = attributes(track, frame.source_size, scale);
        for attribute in track.attributes.iter() {
            let score = rounded(attribute.score, 1e4);
            let best = now.attributes.entry(attribute.label.to_string());
            let best = best.or_insert(score);
            *best = best.max(score);
        }
        if now.is_better() {
            now.snapshot = now.as_best();
        }
        self.set_motionless(frame.seq);
    }

    fn set_motionless(&mut self, seq: u64) {
        let since = self.resting_since;
        self.now.motionless_count = since.map_or(0, |since| seq.saturating_sub(since));
    }

    pub fn enter(&mut self, zone: &str, may_loiter: bool) {
        let zones = [
            (&mut self.now.current_zones, true),
            (&mut self.now.entered_zones, true),
            (&mut self.loitering_zones, may_loiter),
        ];
        for (zones, _) in zones.into_iter().filter(|(_, wanted)| *wanted) {
            if !zones.iter().any(|known| known == zone) {
                zones.push(zone.to_owned());
            }
        }
        self.now.pending_loitering = !self.loitering_zones.is_empty();
    }

    pub fn leave(&mut self, zone: &str) {
        self.now.current_zones.retain(|known| known != zone);
        self.loitering_zones.retain(|known| known != zone);
        self.now.pending_loitering = !self.loitering_zones.is_empty();
    }

    pub fn is_in(&self, zone: &str) -> bool {
        self.now.current_zones.iter().any(|known| known == zone)
    }

    /// It came to rest in the frame `seq`.
    pub fn rest(&mut self, seq: u64) {
        self.resting_since = Some(seq);
        self.now.active = false;
        self.now.stationary = true;
        self.set_motionless(seq);
    }

    /// It moves again.
    pub fn move_on(&mut self) {
        self.resting_since = None;
        self.now.active = true;
        self.now.stationary = false;
        self.now.motionless_count = 0;
        self.now.position_changes += 1;
    }

    pub fn is_published(&self) -> bool {
        self.published.is_some()
    }

    /// Whether it differs from its last message in what Frigate publishes a message for.
    pub fn has_changed(&self) -> bool {
        let Some(before) = &self.published else {
            return true;
        };
        let now = &self.now;
        now.label != before.label
            || now.current_zones != before.current_zones
            || now.stationary != before.stationary
            || now.position_changes != before.position_changes
            || !now.attributes.keys().eq(before.attributes.keys())
            || now.snapshot != before.snapshot
            || now.frame_time - before.frame_time >= UPDATE_INTERVAL_S
    }

    /// It is published now: as it was in its last message, and as it is.
    pub fn publish(&mut self) -> (ObjectBody, &ObjectBody) {
        let first = || ObjectBody {
            false_positive: true,
            ..self.now.clone()
        };
        let before = self.published.take().unwrap_or_else(first);
        let after = self.published.insert(self.now.clone());
        (before, after)
    }

    /// The topics that counted it until now, where they change.
    pub fn recount(&mut self) -> Option<Vec<String>> {
        let now = &self.now;
        let places = std::iter::once(&now.camera).chain(&now.current_zones);
        let topics = places.flat_map(|place| {
            let names = [now.label.as_str(), "all"];
            names.into_iter().flat_map(move |name| {
                let active = now.active.then(|| format!("{place}/{name}/active"));
                [Some(format!("{place}/{name}")), active]
                    .into_iter()
                    .flatten()
            })
        });
        let topics: Vec<String> = topics.collect();
        (topics != self.counted).then(|| std::mem::replace(&mut self.counted, topics))
    }
}

impl ObjectBody {
    fn is_better(&self) -> bool {
        let best = &self.snapshot;
        best.frame_time == 0.0
            || self.score > best.score + BETTER_SCORE
            || self.area as f64 > best.area as f64 * BETTER_AREA
    }

    fn as_best(&self) -> BestBody {
        BestBody {
            frame_time: self.frame_time,
            xyxy: self.xyxy,
            area: self.area,
            region: self.region,
            score: self.score,
            attributes: self.current_attributes.clone(),
        }
    }
}

/// The attributes that have a box of their own.
fn attributes(track: &Track, source: Size, scale: Scale) -> Vec<AttributeBody> {
    let boxed = track.attributes.iter().filter_map(|attribute| {
        let (size, scaled) = scale.apply(source, attribute.xyxy?);
        Some(AttributeBody {
            label: attribute.label.to_string(),
            xyxy: whole_pixels(size, scaled),
            score: rounded(attribute.score, 1e4),
        })
    });
    boxed.collect()
}
