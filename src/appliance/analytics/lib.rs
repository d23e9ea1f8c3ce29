// SPDX-License-Identifier: Apache-2.0
//! Tracks to analytics events: zone entry and exit, dwell time, line crossings, direction, stopped objects. Pure: no
//! threads, no clock; the same frames give the same events.
//!
//! One [`Analytics`] per source takes the tracks of every frame and appends [`AnalyticsEvent`]s. The current state
//! (objects in a zone, crossings so far) is readable at any time. The position of an object is the center of the bottom
//! edge of its box, relative to the image size. Frames in which a track is not matched do not change its state.
//!
//! Boxes jitter, so an object on a border would enter and leave with every frame. A change must therefore hold for
//! `inertia_frames` consecutive frames before it counts; it then counts from the first of them.

mod clock;
mod count;
mod crossing;
mod debounce;
mod direction;
mod zone;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use jetwatch_config::{Point, SceneRules};
use jetwatch_types::{
    AnalyticsEvent, AnalyticsEventKind, Classes, Crossings, FrameMeta, Size, Track, TrackId,
    TrackState, ZoneCount,
};

use self::clock::AnalyticsClock;
use self::crossing::LineCrossing;
use self::debounce::Debounce;
use self::direction::{Heading, Rest};
use self::zone::ZoneVisit;

/// Analytics state of one source. Allocates only for a new track or a new class.
#[derive(Debug)]
pub struct Analytics {
    rules: SceneRules,
    /// Classes of each zone rule, each line rule, and the stationary rule.
    zone_objects: Vec<Objects>,
    line_objects: Vec<Objects>,
    rest_objects: Objects,
    /// Confirmed tracks, sorted by id so that the end of the source reports them in order.
    objects: BTreeMap<TrackId, Object>,
    /// Per zone: whether it is overcrowded.
    crowds: Vec<Debounce>,
    /// Per zone: number of objects of each class.
    present: Vec<Vec<ZoneCount>>,
    /// Per line: crossings of each class.
    crossings: Vec<Vec<Crossings>>,
    clock: AnalyticsClock,
    /// Rules that are switched off.
    off: Off,
}

/// A rule of a source, by its index among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A zone.
    Zone(usize),
    /// A line.
    Line(usize),
    /// A direction.
    Direction(usize),
    /// The stationary rule.
    Stationary,
}

/// Whether each rule is switched off.
#[derive(Debug)]
struct Off {
    zones: Vec<bool>,
    lines: Vec<bool>,
    directions: Vec<bool>,
    stationary: bool,
}

/// Classes that a rule applies to; `None`: all.
#[derive(Debug)]
struct Objects(Option<Vec<u16>>);

/// Largest position: just inside the right and lower edge of the image. Zones exclude their right and lower edges, so
/// that adjacent zones do not share an object; at 1.0 an object cut by the image edge would be outside of every zone.
const MAX_COORDINATE: f32 = 1.0 - f32::EPSILON;

/// State of one track.
#[derive(Debug)]
struct Object {
    class: u16,
    zone_visits: Vec<ZoneVisit>,
    /// `None` until the object is observed while the line is on.
    line_crossings: Vec<Option<LineCrossing>>,
    heading: Heading,
    /// As for lines.
    rest: Option<Rest>,
}

impl Analytics {
    /// Creates the state of a scene without objects. `classes` are the network's. A name in a rule that is neither a label nor a
    /// group never matches.
    pub fn new(rules: &SceneRules, classes: &Classes) -> Self {
        let objects = |names: &[String]| Objects::new(names, classes);
        Self {
            zone_objects: rules.zones.iter().map(|r| objects(&r.objects)).collect(),
            line_objects: rules.lines.iter().map(|r| objects(&r.objects)).collect(),
            rest_objects: objects(rules.stationary.as_ref().map_or(&[], |r| &r.objects)),
            objects: BTreeMap::new(),
            crowds: vec![Debounce::default(); rules.zones.len()],
            present: vec![Vec::new(); rules.zones.len()],
            crossings: vec![Vec::new(); rules.lines.len()],
            clock: AnalyticsClock::default(),
            off: Off {
                zones: vec![false; rules.zones.len()],
                lines: vec![false; rules.lines.len()],
                directions: vec![false; rules.directions.len()],
                stationary: false,
            },
            rules: rules.clone(),
        }
    }

    /// Measures dwell and stationary times by media timestamps, where frames have any, instead of the capture time: for
    /// media that are read faster or slower than real time.
    #[must_use]
    pub fn timed_by_media(mut self) -> Self {
        self.clock = AnalyticsClock::with_media_time();
        self
    }

    /// Appends the analytics events of one frame; `tracks` is everything that the tracker returned for it.
    ///
    /// Must be called for every frame of the source, in order. Events of one frame are sorted by track, in the order of
    /// `tracks`, followed by those of whole zones. Their times never decrease, even if the camera's clock is set back.
    pub fn step(&mut self, meta: &FrameMeta, tracks: &[Track], events: &mut Vec<AnalyticsEvent>) {
        let (now, at) = self.clock.step(meta);
        for track in tracks {
            match track.state {
                TrackState::Active => self.observe(track, meta.source_size, (now, at), events),
                TrackState::Ended => {
                    if let Some(object) = self.objects.remove(&track.id) {
                        object.end_visits(track.id, at, events);
                    }
                }
                TrackState::Tentative | TrackState::Lost => {}
            }
        }
        self.count(at, events);
    }

    /// Ends all visits at the end of the source. Crossing counts remain, and later frames may follow.
    pub fn finish(&mut self, events: &mut Vec<AnalyticsEvent>) {
        let Some(at) = self.clock.latest() else {
            return;
        };
        for (id, object) in std::mem::take(&mut self.objects) {
            object.end_visits(id, at, events);
        }
        // No frame follows that could confirm that a zone stays empty.
        self.crowds.iter_mut().for_each(Debounce::settle);
        self.count(at, events);
    }

    /// Switches a rule on or off.
    ///
    /// A zone that is switched off ends the visits to it, and with them its overcrowding: appends those events. Until it is
    /// switched on, no rule that is off has events, a zone that is off is empty, and a line that is off keeps its crossings. One
    /// that is switched on begins as at the start of the source: with the positions of objects from then on.
    pub fn set_active(&mut self, rule: Rule, active: bool, events: &mut Vec<AnalyticsEvent>) {
        let off = match rule {
            Rule::Zone(zone) => &mut self.off.zones[zone],
            Rule::Line(line) => &mut self.off.lines[line],
            Rule::Direction(direction) => &mut self.off.directions[direction],
            Rule::Stationary => &mut self.off.stationary,
        };
        if std::mem::replace(off, !active) != active {
            return;
        }
        for (id, object) in &mut self.objects {
            match rule {
                Rule::Zone(zone) => {
                    let visit = std::mem::take(&mut object.zone_visits[zone]);
                    if let (Some(dwell), Some(at)) = (visit.end(), self.clock.latest()) {
                        events.push(AnalyticsEvent {
                            kind: AnalyticsEventKind::ZoneLeft { zone, dwell },
                            track: Some(*id),
                            class: Some(object.class),
                            at,
                        });
                    }
                }
                Rule::Line(line) => object.line_crossings[line] = None,
                Rule::Direction(direction) => object.heading.restart(direction),
                Rule::Stationary => object.rest = None,
            }
        }
        if let (Rule::Zone(zone), Some(at)) = (rule, self.clock.latest()) {
            self.crowds[zone].settle();
            self.count_zone(zone, at, events);
        }
    }

    /// Number of objects of each class in zone `zone` (index in the rules), sorted by class; 0 for classes that have left.
    pub fn present(&self, zone: usize) -> &[ZoneCount] {
        &self.present[zone]
    }

    /// Number of crossings of each class over line `line` (index in the rules), sorted by class.
    pub fn crossings(&self, line: usize) -> &[Crossings] {
        &self.crossings[line]
    }

    /// Whether zone `zone` (index in the rules) is overcrowded; `None` when its rule has no threshold.
    pub fn is_overcrowded(&self, zone: usize) -> Option<bool> {
        let threshold = self.rules.zones[zone].object_threshold;
        threshold.map(|_| self.crowds[zone].holds())
    }

    /// Updates one object with its position in this frame.
    fn observe(
        &mut self,
        track: &Track,
        image_size: Size,
        (now, at): (Duration, SystemTime),
        events: &mut Vec<AnalyticsEvent>,
    ) {
        let bottom_center = bottom_center(track, image_size);
        // An invalid box has no position.
        if !bottom_center.iter().all(|share| share.is_finite()) {
            return;
        }
        let rules = &self.rules;
        let object = self.objects.entry(track.id).or_insert_with(|| Object {
            class: track.class,
            zone_visits: vec![ZoneVisit::default(); rules.zones.len()],
            line_crossings: vec![None; rules.lines.len()],
            heading: Heading::new(bottom_center),
            rest: None,
        });
        object.class = track.class;
        let mut emit = |kind| {
            events.push(AnalyticsEvent {
                kind,
                track: Some(track.id),
                class: Some(track.class),
                at,
            });
        };
        for (zone, (visit, rule)) in object.zone_visits.iter_mut().zip(&rules.zones).enumerate() {
            if self.off.zones[zone] {
                continue;
            }
            // A track whose class changes stays in the zones that it has entered, so that every visit ends.
            if !self.zone_objects[zone].include(track.class) && !visit.is_inside() {
                *visit = ZoneVisit::default();
                continue;
            }
            visit.step(zone, rule, bottom_center, now, &mut emit);
        }
        for (line, (crossing, rule)) in object
            .line_crossings
            .iter_mut()
            .zip(&rules.lines)
            .enumerate()
        {
            if self.off.lines[line] {
                continue;
            }
            let crossing = crossing.get_or_insert_with(|| LineCrossing::new(rule, bottom_center));
            if let Some(to) = crossing.step(rule, bottom_center)
                && self.line_objects[line].include(track.class)
            {
                count::crossing(&mut self.crossings[line], track.class, to);
                emit(AnalyticsEventKind::LineCrossed { line, to });
            }
        }
        let directions = (&rules.directions, &self.off.directions);
        if let Some(direction) =
            object
                .heading
                .step(directions.0, directions.1, bottom_center, image_size)
        {
            emit(AnalyticsEventKind::Direction { direction });
        }
        if let Some(rule) = rules.stationary.as_ref().filter(|_| !self.off.stationary) {
            let rest = object
                .rest
                .get_or_insert_with(|| Rest::new(track.xyxy, now));
            // For every class, so that a track has its history if its class later changes to one of the rule's.
            if let Some(kind) = rest.step(rule, track.xyxy, now) {
                emit(kind);
            }
            if self.rest_objects.include(track.class)
                && let Some(kind) = rest.settle(rule, now)
            {
                emit(kind);
            }
        }
    }

    /// Recounts the zones and reports those that have become overcrowded, or no longer are.
    fn count(&mut self, at: SystemTime, events: &mut Vec<AnalyticsEvent>) {
        for zone in 0..self.rules.zones.len() {
            self.count_zone(zone, at, events);
        }
    }

    fn count_zone(&mut self, zone: usize, at: SystemTime, events: &mut Vec<AnalyticsEvent>) {
        let rule = &self.rules.zones[zone];
        let present = &mut self.present[zone];
        for class in present.iter_mut() {
            class.count = 0;
        }
        let mut all = 0;
        for object in self.objects.values() {
            if object.zone_visits[zone].is_inside() {
                count::present(present, object.class);
                all += 1;
            }
        }
        let Some(threshold) = rule.object_threshold else {
            return;
        };
        if let Some(is_crowded) = self.crowds[zone].step(all >= threshold, rule.inertia_frames) {
            let kind = if is_crowded {
                AnalyticsEventKind::Overcrowded { zone, count: all }
            } else {
                AnalyticsEventKind::OvercrowdingEnded { zone, count: all }
            };
            events.push(AnalyticsEvent {
                kind,
                track: None,
                class: None,
                at,
            });
        }
    }
}

impl Objects {
    fn new(names: &[String], classes: &Classes) -> Self {
        // There are at most 10 000 labels.
        let all = 0..classes.labels().len() as u16;
        let is_named = |class: &u16| names.iter().any(|name| classes.includes(name, *class));
        Self((!names.is_empty()).then(|| all.filter(is_named).collect()))
    }

    fn include(&self, class: u16) -> bool {
        let classes = self.0.as_ref();
        classes.is_none_or(|classes| classes.contains(&class))
    }
}

impl Object {
    /// Ends the visits of a track that has ended.
    fn end_visits(self, id: TrackId, at: SystemTime, events: &mut Vec<AnalyticsEvent>) {
        for (zone, visit) in self.zone_visits.into_iter().enumerate() {
            if let Some(dwell) = visit.end() {
                events.push(AnalyticsEvent {
                    kind: AnalyticsEventKind::ZoneLeft { zone, dwell },
                    track: Some(id),
                    class: Some(self.class),
                    at,
                });
            }
        }
    }
}

/// Position of an object relative to the image size, limited to the image.
fn bottom_center(track: &Track, image_size: Size) -> Point {
    let [left, _, right, bottom] = track.xyxy;
    let x = (left + right) / 2.0 / image_size.width.max(1) as f32;
    let y = bottom / image_size.height.max(1) as f32;
    // `clamp` returns NaN for NaN.
    [x.clamp(0.0, MAX_COORDINATE), y.clamp(0.0, MAX_COORDINATE)]
}

#[cfg(test)]
mod tests;
