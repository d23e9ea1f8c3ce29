//! What is watched for in one source's picture: its rules at work, and what subscribers were told of zones and lines.
//!
//! Facts are told as they come. What is in a zone and what crossed a line is told when it changes, and at most once in a
//! while: a crowd at a border would change it with every frame. What was held back is told with the first frame after
//! that, or at the source's end. All of it is told at the start too, so that a broker forgets an earlier run.

use std::time::{Duration, SystemTime};

use jetwatch_analytics::Analytics;
use jetwatch_config::{Config, Problem, SceneRules, SourceConfig};
use jetwatch_detect as detect;
use jetwatch_publish::{AnalyticsMessage, Publication};
use jetwatch_track::TrackEventGenerator;
use jetwatch_types::{
    AnalyticsEvent, Crossings, FrameMeta, Track, TrackEvent, TrackId, TrackState, ZoneCount,
};

use super::error::suggestion;

/// The follower's side of one source's rules.
pub(super) struct SourceAnalytics {
    rules: SceneRules,
    analytics: Analytics,
    /// Shortest time between two messages about one zone or line.
    interval: Duration,
    analytics_events: Vec<AnalyticsEvent>,
    /// Facts of this frame about tracks that have ended, which must be told before their ends; and all others.
    before_end: Vec<AnalyticsMessage>,
    rest: Vec<AnalyticsMessage>,
    zones: Vec<LastPublished<(Vec<ZoneCount>, Option<bool>)>>,
    lines: Vec<LastPublished<Vec<Crossings>>>,
    since: SystemTime,
}

/// What was told last, and when; `None`: nothing yet.
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
    /// Whether another value may be told now. A clock that was set back counts as time passed.
    fn is_due(&self, at: SystemTime, interval: Duration) -> bool {
        let since = self.at.map(|told| at.duration_since(told));
        since.is_none_or(|since| since.map_or(true, |since| since >= interval))
    }
}

impl SourceAnalytics {
    /// The rules of one source, nothing seen; `None` where there are no rules.
    pub(super) fn new(
        source: &SourceConfig,
        labels: &[String],
        interval: Duration,
    ) -> Option<Self> {
        let rules = &source.rules;
        let analytics = || match source.uri.is_live() {
            true => Analytics::new(rules, labels),
            // Its frames come as fast as they are taken, which says nothing of how long anybody stays.
            false => Analytics::new(rules, labels).timed_by_media(),
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

    /// Takes in all that the tracker returned for a frame, with the events of that frame that are still to be told.
    pub(super) fn step(
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

    /// Ends all that is under way, with the events of the source's end that are still to be told.
    pub(super) fn finish(&mut self, lifecycle: &TrackEventGenerator, events: &[TrackEvent]) {
        self.analytics.finish(&mut self.analytics_events);
        self.split_events(lifecycle, events);
    }

    /// Gives `publish` the facts about tracks that have ended: nothing may follow their `end` under their identity.
    pub(super) fn publish_before_end(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        publish: impl FnMut(&Publication<'_>),
    ) {
        publish_events(&mut self.before_end, source, &self.rules, frame, publish);
    }

    /// Gives `publish` all other facts.
    pub(super) fn publish_rest(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        publish: impl FnMut(&Publication<'_>),
    ) {
        publish_events(&mut self.rest, source, &self.rules, frame, publish);
    }

    /// Gives `publish` the zones and lines that are due; `None` for `at`: all that differ from what was told, or never were.
    pub(super) fn publish_counts(
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
            let is_news = last.value.0 != present || last.value.1 != overcrowded;
            if last.at.is_none() || (is_news && (at.is_none() || last.is_due(now, interval))) {
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
            let is_news = last.value != crossings;
            if last.at.is_none() || (is_news && (at.is_none() || last.is_due(now, interval))) {
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
        for fact in self.analytics_events.drain(..) {
            let event = fact.track.and_then(event_of);
            let started_at = fact
                .track
                .and_then(|track| lifecycle.started_at(track))
                .or(event.map(|event| event.started_at));
            let has_ended = event.is_some_and(|event| event.after.state == TrackState::Ended);
            let analytics_event = AnalyticsMessage {
                event: fact,
                started_at,
            };
            if has_ended {
                self.before_end.push(analytics_event);
            } else {
                self.rest.push(analytics_event);
            }
        }
    }
}

/// What the sources and the source templates of `config` call for by labels that the network does not have, each with its place
/// in the file.
#[must_use]
pub fn unknown_labels(config: &Config, labels: &[String]) -> Vec<Problem> {
    let sources = config.sources.iter().enumerate();
    let sources = sources.map(|(index, source)| (format!("sources[{index}]"), source.clone()));
    let templates = config.source_templates.iter().enumerate();
    let templates = templates.filter_map(|(index, template)| {
        let place = format!("source_templates[{index}].source");
        Some((place, template.example_source()?))
    });
    let of_source = |(place, source): (String, SourceConfig)| {
        let problem = |(key, label): (String, String)| {
            config.problem(
                &format!("{place}.{key}"),
                format!("the model has no label `{label}`"),
                Some(suggestion(&detect::suggest_labels(labels, &label), labels)),
            )
        };
        let unknown = unknown_labels_of(&source, labels);
        unknown.into_iter().map(problem).collect::<Vec<Problem>>()
    };
    sources.chain(templates).flat_map(of_source).collect()
}

/// What `on_source_state` calls for that is not among `labels`, each with its key: `classes`, and the `objects` of its rules.
pub(super) fn unknown_labels_of(source: &SourceConfig, labels: &[String]) -> Vec<(String, String)> {
    let classes = source.classes.iter();
    let classes = classes.filter(|label| !labels.contains(label));
    let classes = classes.map(|label| ("classes".to_owned(), label.as_str()));
    let unknown = classes.chain(source.rules.unknown_objects(labels));
    unknown
        .map(|(key, label)| (key, label.to_owned()))
        .collect()
}

fn publish_events(
    facts: &mut Vec<AnalyticsMessage>,
    source: &str,
    rules: &SceneRules,
    frame: &FrameMeta,
    mut tell: impl FnMut(&Publication<'_>),
) {
    if !facts.is_empty() {
        tell(&Publication::Analytics {
            source,
            rules,
            frame,
            events: facts,
        });
        facts.clear();
    }
}
