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
mod course;
mod crossing;
mod hysteresis;
mod zone;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use jetwatch_config::{Point, SceneRules};
use jetwatch_types::{
    Crossings, Fact, FactKind, FrameMeta, Presence, Size, Track, TrackId, TrackState,
};

use self::clock::Clock;
use self::course::{Heading, Rest};
use self::crossing::Passage;
use self::hysteresis::Change;
use self::zone::Visit;

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
    crowds: Vec<Change>,
    /// Of each zone: how many objects of each class are in it.
    present: Vec<Vec<Presence>>,
    /// Of each line: how often each class crossed it.
    crossings: Vec<Vec<Crossings>>,
    clock: Clock,
}

/// Classes that a rule is about; `None`: all.
#[derive(Debug)]
struct Objects(Option<Vec<u16>>);

/// Where who touches the picture's right or lower edge stands: just before it. An area ends before its right and lower
/// sides, so that neighbors share nobody; at 1.0, where boxes are cut, whoever is cut would be outside of every zone.
const LAST: f32 = 1.0 - f32::EPSILON;

/// What is remembered of one track.
#[derive(Debug)]
struct Object {
    class: u16,
    visits: Vec<Visit>,
    passages: Vec<Passage>,
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
            crowds: vec![Change::default(); rules.zones.len()],
            present: vec![Vec::new(); rules.zones.len()],
            crossings: vec![Vec::new(); rules.lines.len()],
            clock: Clock::default(),
            rules: rules.clone(),
        }
    }

    /// Measures stays and rests by the frames' places in their medium, where they have any, instead of by when they came: for
    /// what is read faster or slower than it was taken.
    #[must_use]
    pub fn timed_by_media(mut self) -> Self {
        self.clock = Clock::by_media();
        self
    }

    /// Appends what has become true in one frame; `tracks` is all that the tracker returned for it.
    ///
    /// Must be called for every frame of the source, in order. Facts of one frame come by track, in the order of the
    /// tracks, then those of whole zones. Their times never go back, whatever the camera's clock does.
    pub fn step(&mut self, meta: &FrameMeta, tracks: &[Track], facts: &mut Vec<Fact>) {
        let (now, at) = self.clock.step(meta);
        for track in tracks {
            match track.state {
                TrackState::Active => self.see(track, meta.source_size, (now, at), facts),
                TrackState::Ended => {
                    if let Some(object) = self.objects.remove(&track.id) {
                        object.leave(track.id, at, facts);
                    }
                }
                TrackState::Tentative | TrackState::Lost => {}
            }
        }
        self.count(at, facts);
    }

    /// Ends all visits at the end of the source. Crossings stay counted, and the scene can go on afterwards.
    pub fn finish(&mut self, facts: &mut Vec<Fact>) {
        let Some(at) = self.clock.newest() else {
            return;
        };
        for (id, object) in std::mem::take(&mut self.objects) {
            object.leave(id, at, facts);
        }
        // Nothing comes any more that could show whether an empty zone stays empty.
        self.crowds.iter_mut().for_each(Change::settle);
        self.count(at, facts);
    }

    /// How many objects of each class are in the zone with this place in the rules, by class; those that have gone have 0.
    #[must_use]
    pub fn present(&self, zone: usize) -> &[Presence] {
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
    fn see(
        &mut self,
        track: &Track,
        picture: Size,
        (now, at): (Duration, SystemTime),
        facts: &mut Vec<Fact>,
    ) {
        let foot = foot(track, picture);
        // A box that is no box is nowhere.
        if !foot.iter().all(|share| share.is_finite()) {
            return;
        }
        let rules = &self.rules;
        let object = self.objects.entry(track.id).or_insert_with(|| Object {
            class: track.class,
            visits: vec![Visit::default(); rules.zones.len()],
            passages: rules
                .lines
                .iter()
                .map(|rule| Passage::new(rule, foot))
                .collect(),
            heading: Heading::new(foot),
            rest: Rest::new(track.xyxy, now),
        });
        object.class = track.class;
        let mut tell = |kind| {
            facts.push(Fact {
                kind,
                track: Some(track.id),
                class: Some(track.class),
                at,
            });
        };
        for (zone, (visit, rule)) in object.visits.iter_mut().zip(&rules.zones).enumerate() {
            // A track whose class changes stays where it has entered, so that every visit has its end.
            if !self.zone_objects[zone].include(track.class) && !visit.is_inside() {
                *visit = Visit::default();
                continue;
            }
            visit.step(zone, rule, foot, now, &mut tell);
        }
        for (line, (passage, rule)) in object.passages.iter_mut().zip(&rules.lines).enumerate() {
            if let Some(to) = passage.step(rule, foot)
                && self.line_objects[line].include(track.class)
            {
                count::crossing(&mut self.crossings[line], track.class, to);
                tell(FactKind::LineCrossed { line, to });
            }
        }
        if let Some(direction) = object.heading.step(&rules.directions, foot, picture) {
            tell(FactKind::Direction { direction });
        }
        if let Some(rule) = &rules.stationary {
            // Of every class, so that a track whose class becomes one of the rule's later has its story.
            if let Some(kind) = object.rest.step(rule, track.xyxy, now) {
                tell(kind);
            }
            if self.rest_objects.include(track.class)
                && let Some(kind) = object.rest.settle(rule, now)
            {
                tell(kind);
            }
        }
    }

    /// Counts the zones anew and tells which have become overcrowded, or are so no more.
    fn count(&mut self, at: SystemTime, facts: &mut Vec<Fact>) {
        for (zone, rule) in self.rules.zones.iter().enumerate() {
            let present = &mut self.present[zone];
            for class in present.iter_mut() {
                class.count = 0;
            }
            let mut all = 0;
            for object in self.objects.values() {
                if object.visits[zone].is_inside() {
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
                    FactKind::Overcrowded { zone, count: all }
                } else {
                    FactKind::Cleared { zone, count: all }
                };
                facts.push(Fact {
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
    fn leave(self, id: TrackId, at: SystemTime, facts: &mut Vec<Fact>) {
        for (zone, visit) in self.visits.into_iter().enumerate() {
            if let Some(dwell) = visit.end() {
                facts.push(Fact {
                    kind: FactKind::ZoneLeft { zone, dwell },
                    track: Some(id),
                    class: Some(self.class),
                    at,
                });
            }
        }
    }
}

/// Where an object stands, in shares of the picture; a box may reach beyond it.
fn foot(track: &Track, picture: Size) -> Point {
    let [left, _, right, bottom] = track.xyxy;
    let x = (left + right) / 2.0 / picture.width.max(1) as f32;
    let y = bottom / picture.height.max(1) as f32;
    // `clamp` keeps what is no number.
    [x.clamp(0.0, LAST), y.clamp(0.0, LAST)]
}

#[cfg(test)]
mod tests;
