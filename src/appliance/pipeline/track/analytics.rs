// SPDX-License-Identifier: Apache-2.0
//! The analytics of one source, and the counts of zones and lines that were last published.
//!
//! Events are published as they occur. Counts of zones and lines are published when they change, and at most once per interval: a
//! crowd at a border would change them with every frame. A change in between is published with the first frame after the
//! interval, or at the end of the source. The count of a zone that falls, and the end of its overcrowding, also wait for the hold
//! time. All counts are published at the start, too, so that retained ones of an earlier run are replaced.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use jetwatch_analytics::{Analytics, Rule};
use jetwatch_config::{SceneRules, SourceConfig};
use jetwatch_publish::{Activity, AnalyticsMessage, Publication};
use jetwatch_schedule::Schedule;
use jetwatch_track::TrackEventGenerator;
use jetwatch_types::{
    AnalyticsEvent, Classes, Crossings, FrameClock, FrameMeta, Track, TrackEvent, TrackId,
    TrackState, ZoneCount,
};

use super::active_rules::ActiveRules;
use super::count_hold::CountHold;
use super::publisher::Publisher;

/// The analytics rules of one source and their state.
pub(super) struct SourceAnalytics {
    rules: SceneRules,
    analytics: Analytics,
    /// Shortest time between two messages about one zone or line.
    interval: Duration,
    analytics_events: Vec<AnalyticsEvent>,
    /// Events of this frame about tracks that have ended, to publish before their ends; and all others.
    before_end: Vec<AnalyticsMessage>,
    rest: Vec<AnalyticsMessage>,
    /// Counts of zones that fall are published after this time, by the clock.
    hold: Duration,
    clock: FrameClock,
    held_zones: Vec<ZoneHold>,
    zones: Vec<LastPublished<(Vec<ZoneCount>, Option<bool>)>>,
    lines: Vec<LastPublished<Vec<Crossings>>>,
    since: SystemTime,
    /// The switches and schedules of the rules.
    active: ActiveRules,
}

/// The value that was last published, and when; `None`: not yet.
struct LastPublished<T> {
    value: T,
    at: Option<SystemTime>,
}

/// What is published of a zone while counts that fall are held.
#[derive(Clone, Default)]
struct ZoneHold {
    /// By class.
    classes: BTreeMap<u16, CountHold>,
    /// The values to publish, sorted by class.
    present: Vec<ZoneCount>,
    /// 1 while the zone is overcrowded.
    crowd: CountHold,
}

impl<T: Default> Default for LastPublished<T> {
    fn default() -> Self {
        Self {
            value: T::default(),
            at: None,
        }
    }
}

impl<T> LastPublished<T> {
    /// Whether another value may be published now. A clock that was set back counts as time passed.
    fn is_due(&self, at: SystemTime, interval: Duration) -> bool {
        let since = self.at.map(|published| at.duration_since(published));
        since.is_none_or(|since| since.map_or(true, |since| since >= interval))
    }
}

impl SourceAnalytics {
    /// The analytics of one source before its first frame; `None` where it has no rules.
    pub(super) fn new(
        source: &SourceConfig,
        classes: &Classes,
        interval: Duration,
        (hold, clock): (Duration, FrameClock),
    ) -> Option<Self> {
        let rules = &source.rules;
        let analytics = || match source.uri.is_live() {
            true => Analytics::new(rules, classes),
            // Frames of a file arrive as fast as they are processed, so wall-clock time is no measure of durations.
            false => Analytics::new(rules, classes).timed_by_media(),
        };
        (!rules.is_empty()).then(|| Self {
            analytics: analytics(),
            interval,
            analytics_events: Vec::new(),
            before_end: Vec::new(),
            rest: Vec::new(),
            hold,
            clock,
            held_zones: vec![ZoneHold::default(); rules.zones.len()],
            zones: rules
                .zones
                .iter()
                .map(|_| LastPublished::default())
                .collect(),
            lines: rules
                .lines
                .iter()
                .map(|_| LastPublished::default())
                .collect(),
            since: SystemTime::now(),
            active: ActiveRules::new(rules, SystemTime::now()),
            rules: rules.clone(),
        })
    }

    /// Processes all tracks of a frame, and the events of that frame that are not published yet.
    pub(super) fn step(
        &mut self,
        meta: &FrameMeta,
        tracks: &[Track],
        lifecycle: &TrackEventGenerator,
        events: &[TrackEvent],
    ) {
        self.analytics
            .step(meta, tracks, &mut self.analytics_events);
        let (at, hold) = (self.clock.step(meta), self.hold);
        self.hold_zones(|held, count| {
            held.step(count, at, hold);
        });
        self.split_events(lifecycle, events);
    }

    /// The events that are not published yet.
    pub(super) fn pending(&self) -> impl Iterator<Item = &AnalyticsMessage> {
        self.before_end.iter().chain(&self.rest)
    }

    /// Ends all visits at the end of the source, with the events of that end that are not published yet.
    pub(super) fn finish(&mut self, lifecycle: &TrackEventGenerator, events: &[TrackEvent]) {
        self.analytics.finish(&mut self.analytics_events);
        self.hold_zones(|held, count| {
            held.settle(count);
        });
        self.split_events(lifecycle, events);
    }

    /// The names of the rules, each with whether it is switched on.
    pub(super) fn switches(&self) -> impl Iterator<Item = (&str, bool)> {
        self.rules.names().zip(self.active.switches())
    }

    /// Switches a rule; its last events, and its counts, are to be published next.
    pub(super) fn switch(&mut self, name: &str, on: bool, lifecycle: &TrackEventGenerator) {
        let index = self.rules.names().position(|known| known == name);
        if let Some(index) = index {
            self.active.switch(index, on);
            self.apply_active(lifecycle);
        }
    }

    /// Sets the schedules of all rules, after a reload; [`apply_active`](Self::apply_active) follows.
    pub(super) fn set_schedules(&mut self, schedules: Vec<Option<Schedule>>, now: SystemTime) {
        self.active.set_schedules(schedules, now);
    }

    /// Turns rules on and off as their schedules say at `at`; returns whether one has changed.
    pub(super) fn follow_schedules(
        &mut self,
        at: SystemTime,
        lifecycle: &TrackEventGenerator,
    ) -> bool {
        let has_changed = self.active.step(at);
        if has_changed {
            self.apply_active(lifecycle);
        }
        has_changed
    }

    /// When a schedule changes next.
    pub(super) fn next_change(&self) -> Option<SystemTime> {
        self.active.next_change()
    }

    /// Passes to `each` what is active of the rules that have or had schedules, where that has changed since the last call.
    pub(super) fn take_changes(&mut self, each: impl FnMut(&Activity<'_>)) {
        self.active.take_changes(each);
    }

    /// Takes over which rules are active; their last events, and their counts, are to be published next.
    pub(super) fn apply_active(&mut self, lifecycle: &TrackEventGenerator) {
        for index in 0..self.active.count() {
            if let Some(on) = self.active.take_change(index) {
                self.set_active(index, on, lifecycle);
            }
        }
    }

    fn set_active(&mut self, index: usize, on: bool, lifecycle: &TrackEventGenerator) {
        let rules = &self.rules;
        let (zones, lines) = (rules.zones.len(), rules.lines.len());
        let rule = if index < zones {
            Rule::Zone(index)
        } else if index < zones + lines {
            Rule::Line(index - zones)
        } else if index < zones + lines + rules.directions.len() {
            Rule::Direction(index - zones - lines)
        } else {
            Rule::Stationary
        };
        self.analytics
            .set_active(rule, on, &mut self.analytics_events);
        if let Rule::Zone(zone) = rule {
            self.held_zones[zone] = ZoneHold::default();
            self.hold_zones(|held, count| {
                held.settle(count);
            });
        }
        self.split_events(lifecycle, &[]);
    }

    /// Publishes the events about tracks that have ended: no event of a track may follow its `end`.
    pub(super) fn publish_before_end(
        &mut self,
        source: &str,
        frame: (&FrameMeta, Option<&str>),
        publisher: &mut Publisher,
    ) {
        publish_events(
            &mut self.before_end,
            (source, &self.rules),
            frame,
            publisher,
        );
    }

    /// Publishes all other events, with the frame of `frame` and the clip that is being recorded, and the counts of zones and lines
    /// that are due; with `None` for `at`, all that changed or were never published.
    pub(super) fn publish(
        &mut self,
        source: &str,
        frame: Option<(&FrameMeta, Option<&str>)>,
        at: Option<SystemTime>,
        publisher: &mut Publisher,
    ) {
        if let Some(frame) = frame {
            publish_events(&mut self.rest, (source, &self.rules), frame, publisher);
        }
        let interval = self.interval;
        let now = at.unwrap_or_else(SystemTime::now);
        for (index, (zone, last)) in self.rules.zones.iter().zip(&mut self.zones).enumerate() {
            let held = &self.held_zones[index];
            let present = held.present.as_slice();
            let is_overcrowded = self.analytics.is_overcrowded(index);
            let overcrowded = is_overcrowded.map(|_| held.crowd.published() > 0);
            let has_changed = last.value.0 != present || last.value.1 != overcrowded;
            if last.at.is_none() || (has_changed && (at.is_none() || last.is_due(now, interval))) {
                last.value.0.clear();
                last.value.0.extend_from_slice(present);
                last.value.1 = overcrowded;
                last.at = Some(now);
                publisher.publish(&Publication::Zone {
                    source,
                    zone,
                    present,
                    overcrowded,
                    at: now,
                });
            }
        }
        for (index, (line, last)) in self.rules.lines.iter().zip(&mut self.lines).enumerate() {
            let crossings = self.analytics.crossings(index);
            let has_changed = last.value != crossings;
            if last.at.is_none() || (has_changed && (at.is_none() || last.is_due(now, interval))) {
                last.value.clear();
                last.value.extend_from_slice(crossings);
                last.at = Some(now);
                publisher.publish(&Publication::Line {
                    source,
                    line,
                    crossings,
                    since: self.since,
                    at: now,
                });
            }
        }
    }

    /// Passes the counts of all zones, and whether they are overcrowded, to `step`.
    fn hold_zones(&mut self, mut step: impl FnMut(&mut CountHold, u32)) {
        for (index, zone) in self.held_zones.iter_mut().enumerate() {
            zone.present.clear();
            for now in self.analytics.present(index) {
                let held = zone.classes.entry(now.class).or_default();
                step(held, now.count);
                zone.present.push(ZoneCount {
                    class: now.class,
                    count: held.published(),
                });
            }
            let is_overcrowded = self.analytics.is_overcrowded(index) == Some(true);
            step(&mut zone.crowd, u32::from(is_overcrowded));
        }
    }

    fn split_events(&mut self, lifecycle: &TrackEventGenerator, track_events: &[TrackEvent]) {
        let event_of = |track: TrackId| track_events.iter().find(|event| event.after.id == track);
        for event in self.analytics_events.drain(..) {
            let track_event = event.track.and_then(event_of);
            let started_at = event
                .track
                .and_then(|track| lifecycle.started_at(track))
                .or(track_event.map(|event| event.started_at));
            let has_ended = track_event.is_some_and(|event| event.after.state == TrackState::Ended);
            let message = AnalyticsMessage { event, started_at };
            if has_ended {
                self.before_end.push(message);
            } else {
                self.rest.push(message);
            }
        }
    }
}

fn publish_events(
    events: &mut Vec<AnalyticsMessage>,
    (source, rules): (&str, &SceneRules),
    (frame, recording): (&FrameMeta, Option<&str>),
    publisher: &mut Publisher,
) {
    if !events.is_empty() {
        publisher.publish(&Publication::Analytics {
            source,
            rules,
            frame,
            events,
            recording,
        });
        events.clear();
    }
}
