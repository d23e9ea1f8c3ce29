// SPDX-License-Identifier: Apache-2.0
//! Switches in the tracking stage: what is switched off, and what changes when it is switched.

use std::sync::Arc;

use std::time::SystemTime;

use jetwatch_publish::Publication;
use jetwatch_types::SourceId;

use super::publishing::publish;
use super::{FrameResult, TrackStage};
use crate::switches::SwitchChange;

impl TrackStage {
    /// Publishes all switches of a source that was added.
    pub(super) fn publish_switches(&mut self, id: SourceId) {
        let (source, at) = (&self.sources[id.index()], SystemTime::now());
        let name = source.name.as_str();
        let switch = |rule, on| Publication::Switch {
            source: name,
            rule,
            on,
            at,
        };
        publish(&mut self.sinks, &switch(None, source.is_switched_on));
        let rules = source
            .analytics
            .iter()
            .flat_map(|analytics| analytics.switches());
        for (rule, on) in rules {
            publish(&mut self.sinks, &switch(Some(rule), on));
        }
        let threshold = Publication::ScoreThreshold {
            source: name,
            threshold: source.filter.score_threshold(),
            at,
        };
        publish(&mut self.sinks, &threshold);
        self.publish_activity(id, true);
    }

    /// Switches something of a source, and publishes that and what follows from it.
    pub(super) fn on_switched(&mut self, id: SourceId, change: &SwitchChange) {
        if !self.sources.contains(id) {
            return;
        }
        let source = &mut self.sources[id.index()];
        match change {
            SwitchChange::Detection(on) => {
                let was_detecting = source.is_detecting();
                source.is_switched_on = *on;
                if was_detecting && !on {
                    // Frames that are in the pipeline count as frames without detection.
                    self.end_tracks(id);
                    self.stats.tracks_ended(id);
                }
            }
            SwitchChange::Rule(rule, on) => {
                if let Some(analytics) = &mut source.analytics {
                    analytics.switch(rule, *on, &source.lifecycle);
                    if let Some(meta) = source.last_meta {
                        analytics.publish_rest(&source.name, &meta, None, |publication| {
                            publish(&mut self.sinks, publication)
                        });
                    }
                    analytics.publish_counts(&source.name, None, |publication| {
                        publish(&mut self.sinks, publication)
                    });
                }
            }
            SwitchChange::ScoreThreshold(threshold) => {
                source.filter.set_score_threshold(*threshold)
            }
        }
        let (source, at) = (self.sources[id.index()].name.as_str(), SystemTime::now());
        let publication = match change {
            SwitchChange::Detection(on) => Publication::Switch {
                source,
                rule: None,
                on: *on,
                at,
            },
            SwitchChange::Rule(rule, on) => Publication::Switch {
                source,
                rule: Some(rule),
                on: *on,
                at,
            },
            SwitchChange::ScoreThreshold(threshold) => Publication::ScoreThreshold {
                source,
                threshold: *threshold,
                at,
            },
        };
        publish(&mut self.sinks, &publication);
        self.publish_activity(id, matches!(change, SwitchChange::Detection(_)));
    }

    /// Processes a frame of a source that does not detect: it is recorded and counted only.
    pub(super) fn pass_frame(&mut self, frame: FrameResult) {
        let FrameResult {
            meta,
            detections,
            full_image,
            ..
        } = frame;
        if let Some(callback) = &mut self.frame_callback {
            callback(&meta, None, &[]);
        }
        self.step_clips(&meta);
        // One that was in the pipeline when detection was switched off went through the network.
        let skipped = detections.is_none();
        self.stats.frame_done(&meta, 0, skipped);
        let full_image = full_image.map(Arc::new);
        self.offer_preview(&meta, full_image.as_ref());
        if let Some(recording) = &mut self.recording {
            recording.push(&meta, full_image, &[]);
        }
    }
}
