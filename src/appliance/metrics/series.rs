// SPDX-License-Identifier: Apache-2.0
//! Counts of one source that the tracking stage makes as it publishes: tracks, events, zones, lines.
//!
//! Plain atomics: one thread writes, requests read, and none waits. A count belongs to a label of the network or to a rule of the
//! source, so that their number is known when the source is added; they go with the source.
//!
//! A count that has a label begins at 0 where the label was chosen (`classes`, or `objects` of the rule), and else with its first
//! object: a network of 80 labels would have a thousand counts of nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jetwatch_types::{AnalyticsEventKind, Classes, EventKind, Side};

/// Words of the track events.
pub(super) const EVENT_TYPES: [&str; 3] = ["new", "update", "end"];

/// Words of the analytics events.
pub(super) const ANALYTICS_TYPES: [&str; 9] = [
    "zone_entered",
    "zone_left",
    "loitering",
    "overcrowding",
    "overcrowding_over",
    "line_crossed",
    "direction",
    "stationary",
    "moving",
];

/// Words of the sides of a line.
pub(super) const SIDES: [&str; 2] = ["left", "right"];

/// A count that is not there yet.
const ABSENT: u64 = u64::MAX;

/// The zones and lines of a source, and its labels.
#[derive(Debug, Default)]
pub struct SeriesRules<'r> {
    /// Labels that the configuration chose for the source; empty: it chose none.
    pub labels: &'r [String],
    /// Name of each zone, and the labels or groups that it is about; empty: all.
    pub zones: Vec<(&'r str, &'r [String])>,
    /// The same of each line.
    pub lines: Vec<(&'r str, &'r [String])>,
}

/// The counts of one source. Only one thread may change them.
#[derive(Debug)]
pub struct SourceSeries {
    source: String,
    classes: Arc<Classes>,
    events: [AtomicU64; EVENT_TYPES.len()],
    analytics: [AtomicU64; ANALYTICS_TYPES.len()],
    tracks: ByClass,
    zones: Vec<(String, ByClass)>,
    lines: Vec<(String, [ByClass; SIDES.len()])>,
}

impl SourceSeries {
    /// The counts of a source that is added.
    pub fn new(source: &str, classes: &Arc<Classes>, rules: &SeriesRules<'_>) -> Self {
        let chosen = |objects: &[String]| ByClass::new(classes, rules.labels, objects);
        Self {
            source: source.to_owned(),
            classes: Arc::clone(classes),
            events: Default::default(),
            analytics: Default::default(),
            tracks: chosen(&[]),
            zones: rules
                .zones
                .iter()
                .map(|(name, objects)| ((*name).to_owned(), chosen(objects)))
                .collect(),
            lines: rules
                .lines
                .iter()
                .map(|(name, objects)| ((*name).to_owned(), [chosen(objects), chosen(objects)]))
                .collect(),
        }
    }

    /// Name of the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Counts a track event.
    pub fn add_event(&self, kind: EventKind) {
        let index = match kind {
            EventKind::New => 0,
            EventKind::Update => 1,
            EventKind::End => 2,
        };
        self.events[index].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an analytics event of an object of `class`.
    pub fn add_analytics_event(&self, kind: &AnalyticsEventKind, class: Option<u16>) {
        let index = match kind {
            AnalyticsEventKind::ZoneEntered { .. } => 0,
            AnalyticsEventKind::ZoneLeft { .. } => 1,
            AnalyticsEventKind::Loitering { .. } => 2,
            AnalyticsEventKind::Overcrowded { .. } => 3,
            AnalyticsEventKind::OvercrowdingEnded { .. } => 4,
            AnalyticsEventKind::LineCrossed { .. } => 5,
            AnalyticsEventKind::Direction { .. } => 6,
            AnalyticsEventKind::Stationary { .. } => 7,
            AnalyticsEventKind::Moving => 8,
        };
        self.analytics[index].fetch_add(1, Ordering::Relaxed);
        if let AnalyticsEventKind::LineCrossed { line, to } = kind
            && let (Some((_, sides)), Some(class)) = (self.lines.get(*line), class)
        {
            let side = match to {
                Side::Left => 0,
                Side::Right => 1,
            };
            sides[side].add(class);
        }
    }

    /// Sets the active tracks of a label.
    pub fn set_tracks(&self, label: &str, count: usize) {
        let class = self
            .classes
            .labels()
            .iter()
            .position(|known| known == label);
        if let Some(class) = class.and_then(|class| u16::try_from(class).ok()) {
            self.tracks.set(class, count as u64);
        }
    }

    /// Sets the objects of a class in a zone.
    pub fn set_zone(&self, zone: &str, class: u16, count: u64) {
        if let Some((_, objects)) = self.zones.iter().find(|(name, _)| name == zone) {
            objects.set(class, count);
        }
    }

    /// Track events so far, with their words.
    pub(super) fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        named(EVENT_TYPES, &self.events)
    }

    /// Analytics events so far, with their words.
    pub(super) fn analytics(&self) -> impl Iterator<Item = (&'static str, u64)> {
        named(ANALYTICS_TYPES, &self.analytics)
    }

    /// Active tracks, with their labels.
    pub(super) fn tracks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.tracks.present(&self.classes)
    }

    /// Objects in zones: zone, label, count.
    pub(super) fn zones(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        self.zones.iter().flat_map(move |(zone, objects)| {
            let present = objects.present(&self.classes);
            present.map(|(label, count)| (zone.as_str(), label, count))
        })
    }

    /// Crossings of lines: line, side, label, count.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&str, &'static str, &str, u64)> {
        self.lines.iter().flat_map(move |(line, sides)| {
            SIDES
                .into_iter()
                .zip(sides)
                .flat_map(move |(side, crossings)| {
                    let present = crossings.present(&self.classes);
                    present.map(move |(label, count)| (line.as_str(), side, label, count))
                })
        })
    }
}

fn named<const COUNT: usize>(
    names: [&'static str; COUNT],
    counts: &[AtomicU64; COUNT],
) -> impl Iterator<Item = (&'static str, u64)> {
    let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
    names.into_iter().zip(counts)
}

/// One count for each class of the network.
#[derive(Debug)]
struct ByClass(Box<[AtomicU64]>);

impl ByClass {
    /// 0 for the classes that `objects` names, or else `labels`; the others are absent. Without either all are.
    fn new(classes: &Classes, labels: &[String], objects: &[String]) -> Self {
        let is_in = |wanted: &[String], class| {
            wanted.is_empty() || wanted.iter().any(|name| classes.includes(name, class))
        };
        let count = u16::try_from(classes.labels().len()).unwrap_or(u16::MAX);
        let start = |class| {
            let is_chosen = !(labels.is_empty() && objects.is_empty());
            match is_chosen && is_in(labels, class) && is_in(objects, class) {
                true => AtomicU64::new(0),
                false => AtomicU64::new(ABSENT),
            }
        };
        Self((0..count).map(start).collect())
    }

    /// One more of a class. Another thread may read meanwhile, but not write.
    fn add(&self, class: u16) {
        if let Some(count) = self.0.get(usize::from(class)) {
            let before = count.load(Ordering::Relaxed);
            count.store(before.wrapping_add(1).max(1), Ordering::Relaxed);
        }
    }

    fn set(&self, class: u16, value: u64) {
        if let Some(count) = self.0.get(usize::from(class)) {
            count.store(value, Ordering::Relaxed);
        }
    }

    fn present<'s>(&'s self, classes: &'s Classes) -> impl Iterator<Item = (&'s str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        let labels = classes.labels().iter().map(String::as_str);
        labels.zip(counts).filter(|(_, count)| *count != ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use jetwatch_types::LabelGroup;

    fn classes() -> Arc<Classes> {
        let labels = ["person", "car", "bus"].map(str::to_owned);
        let vehicle = LabelGroup {
            name: "vehicle".to_owned(),
            labels: labels[1..].to_vec(),
        };
        Arc::new(Classes::new(&labels, &[vehicle]))
    }

    #[test]
    fn counts_of_chosen_labels_begin_at_zero_and_others_with_their_first_object() {
        let objects = ["vehicle".to_owned()];
        let rules = SeriesRules {
            labels: &[],
            zones: vec![("road", &objects), ("all", &[])],
            lines: vec![("middle", &objects)],
        };
        let series = SourceSeries::new("cam", &classes(), &rules);
        let zones: Vec<_> = series.zones().collect();
        assert_eq!(zones, [("road", "car", 0), ("road", "bus", 0)]);
        assert_eq!(series.lines().count(), 4);
        assert_eq!(series.tracks().count(), 0);
        series.set_zone("all", 0, 2);
        series.set_zone("all", 0, 0);
        series.set_zone("no such zone", 0, 7);
        series.set_zone("all", 99, 7);
        assert_eq!(series.zones().last(), Some(("all", "person", 0)));
        series.set_tracks("bus", 3);
        series.set_tracks("no such label", 3);
        assert_eq!(series.tracks().collect::<Vec<_>>(), [("bus", 3)]);
    }

    #[test]
    fn labels_of_the_source_limit_those_of_its_rules() {
        let (labels, objects) = (["person", "car"].map(str::to_owned), ["vehicle".to_owned()]);
        let rules = SeriesRules {
            labels: &labels,
            zones: vec![("road", &objects), ("all", &[])],
            lines: Vec::new(),
        };
        let series = SourceSeries::new("cam", &classes(), &rules);
        let zones: Vec<_> = series.zones().collect();
        let wanted = [("road", "car", 0), ("all", "person", 0), ("all", "car", 0)];
        assert_eq!(zones, wanted);
        assert_eq!(series.tracks().count(), 2);
    }

    #[test]
    fn crossings_are_counted_by_side_and_label() {
        let rules = SeriesRules {
            lines: vec![("a", &[]), ("b", &[])],
            ..SeriesRules::default()
        };
        let series = SourceSeries::new("cam", &classes(), &rules);
        let crossed = |line, to| AnalyticsEventKind::LineCrossed { line, to };
        for (line, to, class) in [
            (1, Side::Left, Some(0)),
            (1, Side::Left, Some(0)),
            (0, Side::Right, Some(2)),
            (0, Side::Right, None),
            (9, Side::Right, Some(2)),
        ] {
            series.add_analytics_event(&crossed(line, to), class);
        }
        let dwell = Duration::ZERO;
        series.add_analytics_event(&AnalyticsEventKind::ZoneLeft { zone: 0, dwell }, Some(1));
        let lines: Vec<_> = series.lines().collect();
        assert_eq!(
            lines,
            [("a", "right", "bus", 1), ("b", "left", "person", 2)]
        );
        let events: Vec<_> = series.analytics().filter(|(_, count)| *count > 0).collect();
        assert_eq!(events, [("zone_left", 1), ("line_crossed", 5)]);
        series.add_event(EventKind::End);
        let events: Vec<_> = series.events().collect();
        assert_eq!(events, [("new", 0), ("update", 0), ("end", 1)]);
    }
}
