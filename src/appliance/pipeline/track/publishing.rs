// SPDX-License-Identifier: Apache-2.0
//! What a tracked source publishes: events, analytics, counts, states, and what is switched or scheduled of it.

use std::time::SystemTime;

use jetwatch_publish::{Activity, Motion, Publication, ScoreThreshold, SourceName, Switch, Utc};
use jetwatch_types::FrameMeta;

use super::counts::CountChange;
use super::publisher::Publisher;
use super::source::TrackedSource;
use super::state_hold::StateMessage;
use crate::clips::SourceClips;
use crate::switches::SwitchChange;

impl TrackedSource {
    /// Publishes what a frame, or the end of the tracks, changed; `at` is `None` at the end.
    pub(super) fn publish_changes(
        &mut self,
        meta: &FrameMeta,
        at: Option<SystemTime>,
        publisher: &mut Publisher,
    ) {
        self.publish_events(meta, publisher);
        let (name, recording) = (&self.info.name, recording(&self.clips));
        if let Some(analytics) = &mut self.analytics {
            analytics.publish(name, Some((meta, recording)), at, publisher);
        }
        let changed = |change: CountChange<'_>| {
            let (source, at) = (name.as_str(), meta.captured_at);
            publisher.publish(&match change {
                CountChange::Label(label, count) => Publication::count(source, label, count, at),
                CountChange::Group(group, count) => {
                    Publication::group_count(source, group, count, at)
                }
            });
        };
        let changes = self.lifecycle.count_changes();
        match at {
            None => self.counts.settle(changes, changed),
            Some(_) => self.counts.step(meta, changes, changed),
        }
    }

    pub(super) fn publish_events(&mut self, meta: &FrameMeta, publisher: &mut Publisher) {
        let (source, recording) = (self.info.name.as_str(), recording(&self.clips));
        if let Some(analytics) = &mut self.analytics {
            analytics.publish_before_end(source, (meta, recording), publisher);
        }
        if !self.events.is_empty() {
            publisher.stats.add_events(self.events.len());
            publisher.publish(&Publication::Events {
                source,
                frame: meta,
                events: &self.events,
                recording,
                snapshots: &self.snapshot_ids,
            });
            self.events.clear();
            self.snapshot_ids.clear();
        }
    }

    /// Publishes every track of a frame.
    pub(super) fn publish_frame(&self, meta: &FrameMeta, publisher: &mut Publisher) {
        publisher.publish_frame(&Publication::Frame {
            source: &self.info.name,
            frame: meta,
            tracks: &self.visible_tracks,
        });
    }

    /// Publishes all counts and events of its rules that are not published yet.
    pub(super) fn publish_rules(&mut self, publisher: &mut Publisher) {
        if let Some(analytics) = &mut self.analytics {
            let frame = self.last_meta.as_ref().map(|meta| (meta, None));
            analytics.publish(&self.info.name, frame, None, publisher);
        }
    }

    /// Turns rules on and off as their schedules say at `at`, the capture time of a frame.
    pub(super) fn follow_rules(&mut self, at: SystemTime, publisher: &mut Publisher) {
        if let Some(analytics) = &mut self.analytics
            && analytics.follow_schedules(at, &self.lifecycle)
        {
            self.publish_rules(publisher);
            self.publish_activity(false, publisher);
        }
    }

    pub(super) fn publish_state(&self, message: &StateMessage, publisher: &mut Publisher) {
        publisher.publish(&Publication::source_state(
            &self.info.name,
            message.state,
            message.reason.as_deref(),
            message.at,
        ));
    }

    /// The camera reports motion, or its end.
    pub(super) fn set_motion(&mut self, on: bool, publisher: &mut Publisher) {
        if let Some(clips) = &mut self.clips {
            clips.set_motion(on);
        }
        publisher.publish(&Publication::Motion(Motion {
            source: SourceName(&self.info.name),
            on,
            changed_at: Utc(SystemTime::now()),
        }));
    }

    /// Publishes a switch or threshold that has this value now.
    pub(super) fn publish_switch(&self, change: &SwitchChange, publisher: &mut Publisher) {
        let (source, at) = (self.info.name.as_str(), SystemTime::now());
        let switch = |rule, on| {
            Publication::Switch(Switch {
                source: SourceName(source),
                rule,
                on,
                changed_at: Utc(at),
            })
        };
        publisher.publish(&match change {
            SwitchChange::Detection(on) => switch(None, *on),
            SwitchChange::Rule(rule, on) => switch(Some(rule), *on),
            SwitchChange::ScoreThreshold(threshold) => {
                Publication::ScoreThreshold(ScoreThreshold {
                    source: SourceName(source),
                    threshold: *threshold,
                    changed_at: Utc(at),
                })
            }
        });
    }

    /// Publishes everything that can be switched, after the source was added.
    pub(super) fn publish_switches(&mut self, publisher: &mut Publisher) {
        let detection = SwitchChange::Detection(self.detection.is_switched_on);
        self.publish_switch(&detection, publisher);
        for (rule, on) in self.analytics.iter().flat_map(|rules| rules.switches()) {
            self.publish_switch(&SwitchChange::Rule(rule.to_owned(), on), publisher);
        }
        let threshold = SwitchChange::ScoreThreshold(self.filter.score_threshold());
        self.publish_switch(&threshold, publisher);
        self.publish_activity(true, publisher);
    }

    /// Publishes what is active where there are schedules: rules that changed, and detection where it did or is asked for.
    pub(super) fn publish_activity(&mut self, with_detection: bool, publisher: &mut Publisher) {
        let (source, at) = (self.info.name.as_str(), SystemTime::now());
        let mut publish = |activity: &Activity<'_>| {
            publisher.publish(&Publication::Active {
                source,
                activity,
                at,
            });
        };
        let detection = &self.detection;
        if detection.was_scheduled && with_detection {
            publish(&Activity {
                rule: None,
                switched_on: detection.is_switched_on,
                scheduled: detection.schedule.map(|status| status.active),
                next_change: detection.schedule.and_then(|status| status.next_change),
            });
        }
        if let Some(analytics) = &mut self.analytics {
            analytics.take_changes(publish);
        }
    }
}

/// Identity of the clip that is being recorded.
fn recording(clips: &Option<SourceClips>) -> Option<&str> {
    clips.as_ref().and_then(SourceClips::recording)
}
