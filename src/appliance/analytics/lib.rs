//! FLOOR 2: tracks to facts about the scene: who entered a zone, how long it stayed, what crossed a line, what stands
//! still. Pure: no threads, no clock; the same frames give the same facts.
//!
//! One [`Analytics`] per source takes the tracks of every frame and appends what has become true in it as [`Fact`]s. What
//! holds now (objects in a zone, crossings so far) can be asked for at any time. An object is where it stands: in the
//! middle of its box's lower side, in shares of the picture. Frames in which it is not seen say nothing about it.
//!
//! Boxes tremble, and who stands on a border would come and go with every frame. So a change must be seen in
//! `inertia_frames` frames in a row before it counts; it then counts from the first of them on.

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
    AnalyticsEvent, AnalyticsEventKind, Crossings, FrameMeta, Size, Track, TrackId, TrackState,
    ZoneCount,
};

use self::clock::AnalyticsClock;
use self::crossing::LineCrossing;
use self::debounce::Debounce;
use self::direction::{Heading, Rest};
use self::zone::ZoneVisit;

/// The memory of one source's scene. Allocates for a new track, a new class, and nothing else.
#[derive(Debug)]
pub struct Analytics {
    rules: SceneRules,
    /// Which classes the zones, the lines and the rest are about.
    zone_objects: Vec<Objects>,
    line_objects: Vec<Objects>,
    rest_objects: Objects,
    /// Confirmed tracks, by id so that the end tells them in order.
    objects: BTreeMap<TrackId, Object>,
    /// Of each zone: whether it is overcrowded.
    crowds: Vec<Debounce>,
    /// Of each zone: how many objects of each class are in it.
    present: Vec<Vec<ZoneCount>>,
    /// Of each line: how often each class crossed it.
    crossings: Vec<Vec<Crossings>>,
    clock: AnalyticsClock,
}

/// Classes that a rule is about; `None`: all.
#[derive(Debug)]
struct Objects(Option<Vec<u16>>);

/// Where who touches the picture's right or lower edge stands: just before it. An area ends before its right and lower
/// sides, so that neighbors share nobody; at 1.0, where boxes are cut, whoever is cut would be outside of every zone.
const MAX_COORDINATE: f32 = 1.0 - f32::EPSILON;

/// What is remembered of one track.
#[derive(Debug)]
struct Object {
    class: u16,
    zone_visits: Vec<ZoneVisit>,
    line_crossings: Vec<LineCrossing>,
    heading: Heading,
    rest: Rest,
}

impl Analytics {
    /// A scene without objects; `labels` are the network's, in the order of their class numbers. What the rules call for
    /// that is not among them is never seen.
    #[must_use]
    pub fn new(rules: &SceneRules, labels: &[String]) -> Self {
        let objects = |wanted: &[String]| Objects::new(wanted, labels);
        Self {
            zone_objects: rules.zones.iter().map(|r| objects(&r.objects)).collect(),
            line_objects: rules.lines.iter().map(|r| objects(&r.objects)).collect(),
            rest_objects: objects(rules.stationary.as_ref().map_or(&[], |r| &r.objects)),
            objects: BTreeMap::new(),
            crowds: vec![Debounce::default(); rules.zones.len()],
            present: vec![Vec::new(); rules.zones.len()],
            crossings: vec![Vec::new(); rules.lines.len()],
            clock: AnalyticsClock::default(),
            rules: rules.clone(),
        }
    }

    /// Measures stays and rests by the frames' places in their medium, where they have any, instead of by when they came: for
    /// what is read faster or slower than it was taken.
    #[must_use]
    pub fn timed_by_media(mut self) -> Self {
        self.clock = AnalyticsClock::with_media_time();
        self
    }

    /// Appends what has become true in one frame; `tracks` is all that the tracker returned for it.
    ///
    /// Must be called for every frame of the source, in order. Facts of one frame come by track, in the order of the
    /// tracks, then those of whole zones. Their times never go back, whatever the camera's clock does.
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

    /// Ends all visits at the end of the source. Crossings stay counted, and the scene can go on afterwards.
    pub fn finish(&mut self, events: &mut Vec<AnalyticsEvent>) {
        let Some(at) = self.clock.latest() else {
            return;
        };
        for (id, object) in std::mem::take(&mut self.objects) {
            object.end_visits(id, at, events);
        }
        // Nothing comes any more that could show whether an empty zone stays empty.
        self.crowds.iter_mut().for_each(Debounce::settle);
        self.count(at, events);
    }

    /// How many objects of each class are in the zone with this place in the rules, by class; those that have gone have 0.
    #[must_use]
    pub fn present(&self, zone: usize) -> &[ZoneCount] {
        &self.present[zone]
    }

    /// How often each class crossed the line with this place in the rules, by class.
    #[must_use]
    pub fn crossings(&self, line: usize) -> &[Crossings] {
        &self.crossings[line]
    }

    /// Whether the zone with this place in the rules is overcrowded; `None` where the rule has no threshold.
    #[must_use]
    pub fn is_overcrowded(&self, zone: usize) -> Option<bool> {
        let threshold = self.rules.zones[zone].object_threshold;
        threshold.map(|_| self.crowds[zone].holds())
    }

    /// Takes in where an object is in this frame, of that time of the scene and taken at that time.
    fn observe(
        &mut self,
        track: &Track,
        image_size: Size,
        (now, at): (Duration, SystemTime),
        events: &mut Vec<AnalyticsEvent>,
    ) {
        let bottom_center = bottom_center(track, image_size);
        // A box that is no box is nowhere.
        if !bottom_center.iter().all(|share| share.is_finite()) {
            return;
        }
        let rules = &self.rules;
        let object = self.objects.entry(track.id).or_insert_with(|| Object {
            class: track.class,
            zone_visits: vec![ZoneVisit::default(); rules.zones.len()],
            line_crossings: rules
                .lines
                .iter()
                .map(|rule| LineCrossing::new(rule, bottom_center))
                .collect(),
            heading: Heading::new(bottom_center),
            rest: Rest::new(track.xyxy, now),
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
            // A track whose class changes stays where it has entered, so that every visit has its end.
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
            if let Some(to) = crossing.step(rule, bottom_center)
                && self.line_objects[line].include(track.class)
            {
                count::crossing(&mut self.crossings[line], track.class, to);
                emit(AnalyticsEventKind::LineCrossed { line, to });
            }
        }
        if let Some(direction) = object
            .heading
            .step(&rules.directions, bottom_center, image_size)
        {
            emit(AnalyticsEventKind::Direction { direction });
        }
        if let Some(rule) = &rules.stationary {
            // Of every class, so that a track whose class becomes one of the rule's later has its story.
            if let Some(kind) = object.rest.step(rule, track.xyxy, now) {
                emit(kind);
            }
            if self.rest_objects.include(track.class)
                && let Some(kind) = object.rest.settle(rule, now)
            {
                emit(kind);
            }
        }
    }

    /// Counts the zones anew and tells which have become overcrowded, or are so no more.
    fn count(&mut self, at: SystemTime, events: &mut Vec<AnalyticsEvent>) {
        for (zone, rule) in self.rules.zones.iter().enumerate() {
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
                continue;
            };
            if let Some(is_crowded) = self.crowds[zone].step(all >= threshold, rule.inertia_frames)
            {
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
}

impl Objects {
    fn new(wanted: &[String], labels: &[String]) -> Self {
        let class = |label: &String| labels.iter().position(|known| known == label);
        let classes = wanted.iter().filter_map(class).map(|class| class as u16);
        Self((!wanted.is_empty()).then(|| classes.collect()))
    }

    fn include(&self, class: u16) -> bool {
        let classes = self.0.as_ref();
        classes.is_none_or(|classes| classes.contains(&class))
    }
}

impl Object {
    /// The end of its track, which ends its visits.
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

/// Where an object stands, in shares of the picture; a box may reach beyond it.
fn bottom_center(track: &Track, image_size: Size) -> Point {
    let [left, _, right, bottom] = track.xyxy;
    let x = (left + right) / 2.0 / image_size.width.max(1) as f32;
    let y = bottom / image_size.height.max(1) as f32;
    // `clamp` keeps what is no number.
    [x.clamp(0.0, MAX_COORDINATE), y.clamp(0.0, MAX_COORDINATE)]
}

#[cfg(test)]
mod tests;
