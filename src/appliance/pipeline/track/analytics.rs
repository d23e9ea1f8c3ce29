//! The analytics of one source, and the counts of zones and lines that were last published.
//!
//! Events are published as they occur. Counts of zones and lines are published when they change, and at most once per interval: a
//! crowd at a border would change them with every frame. A change in between is published with the first frame after the
//! interval, or at the end of the source. All counts are published at the start, too, so that retained ones of an earlier run are
//! replaced.

use std::time::{Duration, SystemTime};

use jetwatch_analytics::Analytics;
use jetwatch_config::{SceneRules, SourceConfig};
use jetwatch_publish::{AnalyticsMessage, Publication};
use jetwatch_track::TrackEventGenerator;
use jetwatch_types::{
    AnalyticsEvent, Classes, Crossings, FrameMeta, Track, TrackEvent, TrackId, TrackState,
    ZoneCount,
};

/// The analytics rules of one source and their state.
pub(crate) struct SourceAnalytics {
    rules: SceneRules,
    analytics: Analytics,
    /// Shortest time between two messages about one zone or line.
    interval: Duration,
    analytics_events: Vec<AnalyticsEvent>,
    /// Events of this frame about tracks that have ended, to publish before their ends; and all others.
    before_end: Vec<AnalyticsMessage>,
    rest: Vec<AnalyticsMessage>,
    zones: Vec<LastPublished<(Vec<ZoneCount>, Option<bool>)>>,
    lines: Vec<LastPublished<Vec<Crossings>>>,
    since: SystemTime,
}

/// The value that was last published, and when; `None`: not yet.
struct LastPublished<T> {
    value: T,
    at: Option<SystemTime>,
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
    pub(crate) fn new(
        source: &SourceConfig,
        classes: &Classes,
        interval: Duration,
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
            rules: rules.clone(),
        })
    }

    /// Processes all tracks of a frame, and the events of that frame that are not published yet.
    pub(crate) fn step(
        &mut self,
        meta: &FrameMeta,
        tracks: &[Track],
        lifecycle: &TrackEventGenerator,
        events: &[TrackEvent],
    ) {
        self.analytics
            .step(meta, tracks, &mut self.analytics_events);
        self.split_events(lifecycle, events);
    }

    /// Ends all visits at the end of the source, with the events of that end that are not published yet.
    pub(crate) fn finish(&mut self, lifecycle: &TrackEventGenerator, events: &[TrackEvent]) {
        self.analytics.finish(&mut self.analytics_events);
        self.split_events(lifecycle, events);
    }

    /// Passes to `publish` the events about tracks that have ended: no event of a track may follow its `end`.
    pub(crate) fn publish_before_end(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        publish: impl FnMut(&Publication<'_>),
    ) {
        publish_events(&mut self.before_end, source, &self.rules, frame, publish);
    }

    /// Passes all other events to `publish`.
    pub(crate) fn publish_rest(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        publish: impl FnMut(&Publication<'_>),
    ) {
        publish_events(&mut self.rest, source, &self.rules, frame, publish);
    }

    /// Passes to `publish` the counts of zones and lines that are due; with `None` for `at`, all that changed or were never
    /// published.
    pub(crate) fn publish_counts(
        &mut self,
        source: &str,
        at: Option<SystemTime>,
        mut publish: impl FnMut(&Publication<'_>),
    ) {
        let interval = self.interval;
        let now = at.unwrap_or_else(SystemTime::now);
        for (index, (zone, last)) in self.rules.zones.iter().zip(&mut self.zones).enumerate() {
            let present = self.analytics.present(index);
            let overcrowded = self.analytics.is_overcrowded(index);
            let has_changed = last.value.0 != present || last.value.1 != overcrowded;
            if last.at.is_none() || (has_changed && (at.is_none() || last.is_due(now, interval))) {
                last.value.0.clear();
                last.value.0.extend_from_slice(present);
                last.value.1 = overcrowded;
                last.at = Some(now);
                publish(&Publication::Zone {
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
                publish(&Publication::Line {
                    source,
                    line,
                    crossings,
                    since: self.since,
                    at: now,
                });
            }
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
    source: &str,
    rules: &SceneRules,
    frame: &FrameMeta,
    mut publish: impl FnMut(&Publication<'_>),
) {
    if !events.is_empty() {
        publish(&Publication::Analytics {
            source,
            rules,
            frame,
            events,
        });
        events.clear();
    }
}
