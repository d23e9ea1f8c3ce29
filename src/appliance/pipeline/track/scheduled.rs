// SPDX-License-Identifier: Apache-2.0
//! Schedules in the tracking stage: rules go on and off by the capture time of their frames, and what is active is published.
//!
//! Where no frame comes, the clock decides a moment later, so that a frame that is on its way counts first.

use std::time::{Duration, SystemTime};

use jetwatch_publish::{Activity, Publication};
use jetwatch_schedule::{Schedule, Status};
use jetwatch_types::SourceId;

use super::TrackStage;
use super::publishing::publish;

/// How long frames of before a change are waited for.
const FRAME_WAIT: Duration = Duration::from_secs(1);

impl TrackStage {
    /// Takes what the schedule of detection says, and new schedules of rules; publishes what follows from it.
    pub(super) fn on_scheduled(
        &mut self,
        id: SourceId,
        status: Option<Status>,
        schedules: Option<Vec<Option<Schedule>>>,
    ) {
        if !self.sources.contains(id) {
            return;
        }
        let source = &mut self.sources[id.index()];
        let was_detecting = source.is_detecting();
        source.set_schedule(status);
        if was_detecting && !source.is_detecting() {
            // Frames that are in the pipeline count as frames without detection.
            self.end_tracks(id);
            self.stats.tracks_ended(id);
        }
        let source = &mut self.sources[id.index()];
        if let (Some(schedules), Some(analytics)) = (schedules, &mut source.analytics) {
            let rules = analytics.active_rules();
            rules.set_schedules(schedules, SystemTime::now());
            self.apply_rules(id);
        }
        self.publish_activity(id, true);
    }

    /// Turns rules on and off as their schedules say at `at`, the capture time of a frame.
    pub(super) fn follow_rules(&mut self, id: SourceId, at: SystemTime) {
        let analytics = &mut self.sources[id.index()].analytics;
        let analytics = analytics.as_mut();
        if analytics.is_some_and(|analytics| analytics.active_rules().step(at)) {
            self.apply_rules(id);
            self.publish_activity(id, false);
        }
    }

    /// The same where no frame came at the change.
    pub(super) fn follow_idle_rules(&mut self, now: SystemTime) {
        let Some(at) = now.checked_sub(FRAME_WAIT) else {
            return;
        };
        for id in self.sources.ids() {
            let analytics = &mut self.sources[id.index()].analytics;
            let analytics = analytics.as_mut();
            let next = analytics.and_then(|analytics| analytics.active_rules().next_change());
            if next.is_some_and(|next| next <= at) {
                self.follow_rules(id, at);
            }
        }
    }

    /// Time until [`follow_idle_rules`](Self::follow_idle_rules) has something to do.
    pub(super) fn time_to_schedule(&mut self, now: SystemTime) -> Duration {
        let mut next = None;
        for id in self.sources.ids() {
            let analytics = &mut self.sources[id.index()].analytics;
            let analytics = analytics.as_mut();
            let change = analytics.and_then(|analytics| analytics.active_rules().next_change());
            next = next.into_iter().chain(change).min();
        }
        let wait = next.map(|next| (next + FRAME_WAIT).duration_since(now));
        wait.map_or(Duration::MAX, Result::unwrap_or_default)
    }

    /// Takes over which rules are active, and publishes their last events and counts.
    fn apply_rules(&mut self, id: SourceId) {
        let source = &mut self.sources[id.index()];
        let Some(analytics) = &mut source.analytics else {
            return;
        };
        for index in 0..analytics.active_rules().count() {
            analytics.apply_active(index, &source.lifecycle);
        }
        let sinks = &mut self.sinks;
        if let Some(meta) = source.last_meta {
            analytics.publish_rest(&source.name, &meta, None, |publication| {
                publish(sinks, publication)
            });
        }
        analytics.publish_counts(&source.name, None, |publication| {
            publish(sinks, publication)
        });
    }

    /// Publishes what is active of a source that has schedules: rules that changed, and detection where it did or is asked for.
    pub(super) fn publish_activity(&mut self, id: SourceId, with_detection: bool) {
        let source = &mut self.sources[id.index()];
        let (name, at) = (&source.name, SystemTime::now());
        let sinks = &mut self.sinks;
        let mut active = |activity: &Activity<'_>| {
            let publication = Publication::Active {
                source: name,
                activity,
                at,
            };
            publish(sinks, &publication);
        };
        if source.was_scheduled && with_detection {
            active(&Activity {
                rule: None,
                switched_on: source.is_switched_on,
                scheduled: source.schedule.map(|status| status.active),
                next_change: source.schedule.and_then(|status| status.next_change),
            });
        }
        if let Some(analytics) = &mut source.analytics {
            analytics.active_rules().take_changes(active);
        }
    }
}
