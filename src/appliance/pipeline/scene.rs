//! What is watched for in one source's picture: its rules at work, and what subscribers were told of zones and lines.
//!
//! Facts are told as they come. What is in a zone and what crossed a line is told when it changes, and at most once in a
//! while: a crowd at a border would change it with every frame. What was held back is told with the first frame after
//! that, or at the source's end. All of it is told at the start too, so that a broker forgets an earlier run.

use std::time::{Duration, SystemTime};

use jetwatch_analytics::Analytics;
use jetwatch_config::{Config, Problem, SceneRules, SourceConfig};
use jetwatch_detect as detect;
use jetwatch_publish::{Record, SceneFact};
use jetwatch_track::Lifecycle;
use jetwatch_types::{
    Crossings, Fact, FrameMeta, Presence, Track, TrackEvent, TrackId, TrackState,
};

use super::error::meant;

/// The follower's side of one source's rules.
pub(super) struct Scene {
    rules: SceneRules,
    analytics: Analytics,
    /// Shortest time between two messages about one zone or line.
    interval: Duration,
    facts: Vec<Fact>,
    /// Facts of this frame about tracks that have ended, which must be told before their ends; and all others.
    parting: Vec<SceneFact>,
    others: Vec<SceneFact>,
    zones: Vec<Told<(Vec<Presence>, Option<bool>)>>,
    lines: Vec<Told<Vec<Crossings>>>,
    since: SystemTime,
}

/// What was told last, and when; `None`: nothing yet.
struct Told<T> {
    value: T,
    at: Option<SystemTime>,
}

impl<T: Default> Default for Told<T> {
    fn default() -> Self {
        Self {
            value: T::default(),
            at: None,
        }
    }
}

impl<T> Told<T> {
    /// Whether another value may be told now. A clock that was set back counts as time passed.
    fn is_due(&self, at: SystemTime, interval: Duration) -> bool {
        let since = self.at.map(|told| at.duration_since(told));
        since.is_none_or(|since| since.map_or(true, |since| since >= interval))
    }
}

impl Scene {
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
            facts: Vec::new(),
            parting: Vec::new(),
            others: Vec::new(),
            zones: rules.zones.iter().map(|_| Told::default()).collect(),
            lines: rules.lines.iter().map(|_| Told::default()).collect(),
            since: SystemTime::now(),
            rules: rules.clone(),
        })
    }

    /// Takes in all that the tracker returned for a frame, with the events of that frame that are still to be told.
    pub(super) fn step(
        &mut self,
        meta: &FrameMeta,
        tracks: &[Track],
        lifecycle: &Lifecycle,
        events: &[TrackEvent],
    ) {
        self.analytics.step(meta, tracks, &mut self.facts);
        self.sort_facts(lifecycle, events);
    }

    /// Ends all that is under way, with the events of the source's end that are still to be told.
    pub(super) fn finish(&mut self, lifecycle: &Lifecycle, events: &[TrackEvent]) {
        self.analytics.finish(&mut self.facts);
        self.sort_facts(lifecycle, events);
    }

    /// Gives `tell` the facts about tracks that have ended: nothing may follow their `end` under their identity.
    pub(super) fn tell_parting(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        tell: impl FnMut(&Record<'_>),
    ) {
        tell_facts(&mut self.parting, source, &self.rules, frame, tell);
    }

    /// Gives `tell` all other facts.
    pub(super) fn tell_others(
        &mut self,
        source: &str,
        frame: &FrameMeta,
        tell: impl FnMut(&Record<'_>),
    ) {
        tell_facts(&mut self.others, source, &self.rules, frame, tell);
    }

    /// Gives `tell` the zones and lines that are due; `None` for `at`: all that differ from what was told, or never were.
    pub(super) fn tell_counts(
        &mut self,
        source: &str,
        at: Option<SystemTime>,
        mut tell: impl FnMut(&Record<'_>),
    ) {
        let interval = self.interval;
        let now = at.unwrap_or_else(SystemTime::now);
        for (index, (zone, told)) in self.rules.zones.iter().zip(&mut self.zones).enumerate() {
            let present = self.analytics.present(index);
            let overcrowded = self.analytics.is_overcrowded(index);
            let is_news = told.value.0 != present || told.value.1 != overcrowded;
            if told.at.is_none() || (is_news && (at.is_none() || told.is_due(now, interval))) {
                told.value.0.clear();
                told.value.0.extend_from_slice(present);
                told.value.1 = overcrowded;
                told.at = Some(now);
                tell(&Record::Zone {
                    source,
                    zone,
                    present,
                    overcrowded,
                    at: now,
                });
            }
        }
        for (index, (line, told)) in self.rules.lines.iter().zip(&mut self.lines).enumerate() {
            let crossings = self.analytics.crossings(index);
            let is_news = told.value != crossings;
            if told.at.is_none() || (is_news && (at.is_none() || told.is_due(now, interval))) {
                told.value.clear();
                told.value.extend_from_slice(crossings);
                told.at = Some(now);
                tell(&Record::Line {
                    source,
                    line,
                    crossings,
                    since: self.since,
                    at: now,
                });
            }
        }
    }

    fn sort_facts(&mut self, lifecycle: &Lifecycle, events: &[TrackEvent]) {
        let told_in = |track: TrackId| events.iter().find(|event| event.after.id == track);
        for fact in self.facts.drain(..) {
            let event = fact.track.and_then(told_in);
            let started_at = fact
                .track
                .and_then(|track| lifecycle.started_at(track))
                .or(event.map(|event| event.started_at));
            let has_ended = event.is_some_and(|event| event.after.state == TrackState::Ended);
            let told = SceneFact { fact, started_at };
            if has_ended {
                self.parting.push(told);
            } else {
                self.others.push(told);
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
        Some((place, template.sample()?))
    });
    let of_source = |(place, source): (String, SourceConfig)| {
        let problem = |(key, label): (String, String)| {
            config.problem(
                &format!("{place}.{key}"),
                format!("the model has no label `{label}`"),
                Some(meant(&detect::near_labels(labels, &label), labels)),
            )
        };
        let unknown = labels_without_class(&source, labels);
        unknown.into_iter().map(problem).collect::<Vec<Problem>>()
    };
    sources.chain(templates).flat_map(of_source).collect()
}

/// What `source` calls for that is not among `labels`, each with its key: `classes`, and the `objects` of its rules.
pub(super) fn labels_without_class(
    source: &SourceConfig,
    labels: &[String],
) -> Vec<(String, String)> {
    let classes = source.classes.iter();
    let classes = classes.filter(|label| !labels.contains(label));
    let classes = classes.map(|label| ("classes".to_owned(), label.as_str()));
    let unknown = classes.chain(source.rules.unknown_objects(labels));
    unknown
        .map(|(key, label)| (key, label.to_owned()))
        .collect()
}

fn tell_facts(
    facts: &mut Vec<SceneFact>,
    source: &str,
    rules: &SceneRules,
    frame: &FrameMeta,
    mut tell: impl FnMut(&Record<'_>),
) {
    if !facts.is_empty() {
        tell(&Record::Facts {
            source,
            rules,
            frame,
            facts,
        });
        facts.clear();
    }
}
