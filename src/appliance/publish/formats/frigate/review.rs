// SPDX-License-Identifier: Apache-2.0
//! Reviews of a camera: one from when something moves until nothing did for a while. Its severity only rises.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::body::{ReviewBody, ReviewData, ReviewEventBody};
use super::object::TrackedObject;
use crate::formats::identity::{fingerprint, frigate_id, seconds};
use crate::formats::is_among;
use jetwatch_config::ReviewConfig;
use jetwatch_types::{Classes, TrackId};

const ALERT: &str = "alert";
const DETECTION: &str = "detection";

/// Seed of the identities of reviews.
const REVIEWS: u64 = 2;

/// Which objects are alerts, which detections, and when a review ends.
#[derive(Debug)]
pub(super) struct ReviewRules {
    config: ReviewConfig,
    classes: Classes,
}

impl ReviewRules {
    pub fn new(config: &ReviewConfig, classes: &Classes) -> Self {
        Self {
            config: config.clone(),
            classes: classes.clone(),
        }
    }

    pub fn cutoff(&self) -> Duration {
        self.config.cutoff
    }

    /// The severity of what the object has done so far.
    pub fn severity(&self, object: &TrackedObject) -> Option<&'static str> {
        let config = &self.config;
        let is_label = is_among(&self.classes, &config.alert_labels, object.class);
        let entered = &object.now.entered_zones;
        let is_zone = match config.alert_zones.as_slice() {
            [] => !entered.is_empty(),
            zones => entered.iter().any(|zone| zones.contains(zone)),
        };
        if object.is_alert || (is_label && (is_zone || !config.alert_requires_zone)) {
            return Some(ALERT);
        }
        let is_detection = is_among(&self.classes, &config.detection_labels, object.class);
        is_detection.then_some(DETECTION)
    }
}

/// One camera: its objects, and its review.
#[derive(Debug, Default)]
pub(super) struct Camera {
    /// Names of its zones.
    pub zones: Vec<String>,
    /// By the numbers of their tracks.
    pub objects: BTreeMap<TrackId, TrackedObject>,
    review: Option<Review>,
}

#[derive(Debug)]
struct Review {
    now: ReviewBody,
    published: Option<ReviewBody>,
    /// When something moved last.
    moved_at: SystemTime,
}

/// A message about a review.
#[derive(Debug)]
pub(super) struct ReviewChange {
    step: &'static str,
    before: ReviewBody,
    after: ReviewBody,
}

impl ReviewChange {
    pub fn body(&self) -> ReviewEventBody<'_> {
        ReviewEventBody {
            step: self.step,
            before: &self.before,
            after: &self.after,
        }
    }

    pub fn is_update(&self) -> bool {
        self.step == "update"
    }

    /// Whether [`status`](Self::status) is another than before.
    pub fn has_new_status(&self) -> bool {
        !self.is_update() || self.before.severity != self.after.severity
    }

    /// The state of the camera from now on.
    pub fn status(&self) -> &'static str {
        match (self.step, self.after.severity) {
            ("end", _) => "NONE",
            (_, ALERT) => "ALERT",
            _ => "DETECTION",
        }
    }
}

impl Camera {
    /// Takes what is known of the object `id` into the review, which begins with an object that moves.
    pub fn observe(&mut self, name: &str, id: TrackId, at: SystemTime) -> Option<ReviewChange> {
        let object = self.objects.get(&id)?;
        let severity = object.now.max_severity?;
        if object.now.stationary && !object.is_alert && self.review.is_none() {
            return None;
        }
        let review = self
            .review
            .get_or_insert_with(|| Review::new(name, at, &object.now.id));
        if !object.now.stationary {
            review.moved_at = at;
        }
        review.add(object, severity);
        review.change()
    }

    /// Something moved until now.
    pub fn prolong(&mut self, at: SystemTime) {
        if let Some(review) = &mut self.review {
            review.moved_at = at;
        }
    }

    /// The objects in a crowded zone are alerts.
    pub fn mark_crowd(&mut self, zone: &str) -> Vec<TrackId> {
        let inside = self
            .objects
            .iter_mut()
            .filter(|(_, object)| object.is_in(zone));
        let marked = inside.map(|(id, object)| {
            object.is_alert = true;
            *id
        });
        marked.collect()
    }

    /// Ends the review when nothing moved for `cutoff`.
    pub fn end_review(&mut self, now: SystemTime, cutoff: Duration) -> Option<ReviewChange> {
        let is_moving =
            |object: &TrackedObject| !object.now.stationary && object.now.max_severity.is_some();
        let review = self.review.as_mut()?;
        if !cutoff.is_zero() && self.objects.values().any(is_moving) {
            review.moved_at = now;
            return None;
        }
        // A clock that was set back counts as time passed.
        let passed = now.duration_since(review.moved_at);
        if passed.is_ok_and(|passed| passed < cutoff) {
            return None;
        }
        let mut review = self.review.take()?;
        review.now.end_time = Some(seconds(review.moved_at));
        let before = review
            .published
            .take()
            .unwrap_or_else(|| review.now.clone());
        Some(ReviewChange {
            step: "end",
            before,
            after: review.now,
        })
    }
}

impl Review {
    fn new(camera: &str, at: SystemTime, first: &str) -> Self {
        let parts: [&[u8]; 2] = [camera.as_bytes(), first.as_bytes()];
        Self {
            now: ReviewBody {
                id: frigate_id(at, fingerprint(REVIEWS, &parts)),
                camera: camera.to_owned(),
                start_time: seconds(at),
                end_time: None,
                severity: DETECTION,
                thumb_path: "",
                data: ReviewData::default(),
            },
            published: None,
            moved_at: at,
        }
    }

    fn add(&mut self, object: &TrackedObject, severity: &'static str) {
        let data = &mut self.now.data;
        let entered = object.now.entered_zones.iter().map(|zone| (zone, true));
        let parts = [(&object.now.id, false)].into_iter().chain(entered);
        for (text, is_zone) in parts {
            let list = match is_zone {
                true => &mut data.zones,
                false => &mut data.detections,
            };
            if !list.contains(text) {
                list.push(text.clone());
            }
        }
        if !data.objects.contains(&object.now.label) {
            data.objects.push(object.now.label.clone());
        }
        if severity == ALERT {
            self.now.severity = ALERT;
        }
    }

    /// The message, where it differs from what was published.
    fn change(&mut self) -> Option<ReviewChange> {
        if self.published.as_ref() == Some(&self.now) {
            return None;
        }
        let step = match self.published {
            Some(_) => "update",
            None => "new",
        };
        let after = self.now.clone();
        let before = self.published.replace(after.clone());
        Some(ReviewChange {
            step,
            before: before.unwrap_or_else(|| after.clone()),
            after,
        })
    }
}
