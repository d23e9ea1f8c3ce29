// SPDX-License-Identifier: Apache-2.0
//! The events of one source without a picture: objects that cross the scene, with the messages that the daemon would make of them.
//! Pure: the caller passes the time.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use jetwatch_config::{LineRule, SceneRules, Segment};
use jetwatch_publish::{AnalyticsMessage, Publication, ScoreThreshold, SourceName, Switch, Utc};
use jetwatch_types::{
    AnalyticsEvent, AnalyticsEventKind, Attributes, Classes, Crossings, EventKind, FrameMeta, Side,
    Size, SourceId, SourceState, SplitMix64, Track, TrackEvent, TrackId, TrackState,
};

/// Labels of the simulated model.
const LABELS: [&str; 4] = ["person", "car", "bicycle", "dog"];

/// Size of the pictures that are not there.
const SIZE: Size = Size::new(1920, 1080);

/// Frames per second that the numbers of frames stand for.
const FPS: f64 = 15.0;

/// Most objects at a time.
const MAX_OBJECTS: usize = 6;

/// Updates of a track, beside its begin and its end.
const UPDATES: std::ops::RangeInclusive<u64> = 2..=8;

/// A number from 0 to below 1.
pub(crate) fn share(random: &mut SplitMix64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The classes of the simulated model.
pub(crate) fn classes() -> Classes {
    Classes::new(&LABELS.map(str::to_owned), &[])
}

/// An object on its way through the scene.
#[derive(Debug)]
struct Object {
    track: Track,
    started_at: SystemTime,
    /// Updates so far, and those until its end.
    updates: (u64, u64),
    /// Crossing of the line is still to be published, where it crosses.
    crosses: bool,
}

/// One source.
#[derive(Debug)]
pub(crate) struct Scene {
    source: String,
    index: u16,
    random: SplitMix64,
    rules: SceneRules,
    objects: Vec<Object>,
    next_track: u64,
    crossings: Vec<Crossings>,
    started: (SystemTime, Instant),
}

impl Scene {
    pub fn new(index: u16, random: SplitMix64, now: (SystemTime, Instant)) -> Self {
        let line = LineRule {
            name: "gate".to_owned(),
            line: Segment {
                from: [0.5, 0.0],
                to: [0.5, 1.0],
            },
            inertia_frames: 3,
            objects: Vec::new(),
            schedule: None,
        };
        Self {
            source: format!("cam-{}", index + 1),
            index,
            random,
            rules: SceneRules {
                lines: vec![line],
                ..SceneRules::default()
            },
            objects: Vec::new(),
            next_track: 1,
            crossings: Vec::new(),
            started: now,
        }
    }

    /// Name of the source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Tracks now.
    pub fn tracks(&self) -> usize {
        self.objects.len()
    }

    /// Frames since the start.
    pub fn frames(&self, now: Instant) -> u64 {
        (now.duration_since(self.started.1).as_secs_f64() * FPS) as u64
    }

    /// Publishes what is retained of a source when the daemon starts.
    pub fn announce(&self, at: SystemTime, publish: &mut dyn FnMut(&Publication<'_>)) {
        let source = self.source.as_str();
        let (rule, on) = (None, true);
        publish(&Publication::source_state(
            source,
            SourceState::Online,
            None,
            at,
        ));
        publish(&Publication::Switch(Switch {
            source: SourceName(source),
            rule,
            on,
            changed_at: Utc(at),
        }));
        publish(&Publication::ScoreThreshold(ScoreThreshold {
            source: SourceName(source),
            threshold: 0.4,
            changed_at: Utc(at),
        }));
        self.publish_line(at, publish);
    }

    /// Publishes one event or analytics event, and the retained values that change with it.
    pub fn step(
        &mut self,
        (at, now): (SystemTime, Instant),
        publish: &mut dyn FnMut(&Publication<'_>),
    ) {
        let frame = FrameMeta {
            source: SourceId(self.index),
            seq: self.frames(now),
            pts: Some(now.duration_since(self.started.1)),
            captured_at: at,
            received_at: now,
            source_size: SIZE,
        };
        let begins = self.objects.is_empty()
            || self.objects.len() < MAX_OBJECTS && share(&mut self.random) < 0.2;
        if begins {
            return self.begin(&frame, publish);
        }
        let index = (share(&mut self.random) * self.objects.len() as f64) as usize;
        let object = &mut self.objects[index];
        let (done, all) = object.updates;
        if object.crosses && done * 2 >= all {
            object.crosses = false;
            return self.cross(index, &frame, publish);
        }
        if done == all {
            return self.end(index, &frame, publish);
        }
        object.updates.0 += 1;
        let before = object.track.clone();
        let moved = SIZE.width as f32 * 0.8 / all as f32;
        object.track.xyxy[0] += moved;
        object.track.xyxy[2] += moved;
        object.track.score = 0.5 + 0.45 * share(&mut self.random) as f32;
        object.track.top_score = object.track.top_score.max(object.track.score);
        object.track.hits += 7;
        object.track.age_frames += 8;
        self.publish_event(EventKind::Update, index, Some(before), &frame, publish);
    }

    fn begin(&mut self, frame: &FrameMeta, publish: &mut dyn FnMut(&Publication<'_>)) {
        let updates = UPDATES.start()
            + (share(&mut self.random) * (UPDATES.end() - UPDATES.start() + 1) as f64) as u64;
        let [x, y] = [(); 2].map(|()| share(&mut self.random) as f32);
        let (left, top) = (x * 200.0, 300.0 + y * 400.0);
        let score = 0.5 + 0.45 * share(&mut self.random) as f32;
        self.objects.push(Object {
            track: Track {
                id: TrackId(self.next_track),
                state: TrackState::Active,
                class: (share(&mut self.random) * LABELS.len() as f64) as u16,
                score,
                top_score: score,
                xyxy: [left, top, left + 120.0, top + 240.0],
                age_frames: 3,
                hits: 3,
                lost_frames: 0,
                attributes: Attributes::default(),
            },
            started_at: frame.captured_at,
            updates: (0, updates),
            crosses: share(&mut self.random) < 0.5,
        });
        self.next_track += 1;
        let index = self.objects.len() - 1;
        let class = self.objects[index].track.class;
        self.publish_event(EventKind::New, index, None, frame, publish);
        self.publish_count(class, frame.captured_at, publish);
    }

    fn end(&mut self, index: usize, frame: &FrameMeta, publish: &mut dyn FnMut(&Publication<'_>)) {
        let before = self.objects[index].track.clone();
        self.objects[index].track.state = TrackState::Ended;
        self.publish_event(EventKind::End, index, Some(before), frame, publish);
        let class = self.objects.swap_remove(index).track.class;
        self.publish_count(class, frame.captured_at, publish);
    }

    fn cross(
        &mut self,
        index: usize,
        frame: &FrameMeta,
        publish: &mut dyn FnMut(&Publication<'_>),
    ) {
        let object = &self.objects[index];
        let class = object.track.class;
        let event = AnalyticsEvent {
            kind: AnalyticsEventKind::LineCrossed {
                line: 0,
                to: Side::Right,
            },
            track: Some(object.track.id),
            class: Some(class),
            at: frame.captured_at,
        };
        publish(&Publication::Analytics {
            source: &self.source,
            rules: &self.rules,
            frame,
            events: &[AnalyticsMessage {
                event,
                started_at: Some(object.started_at),
            }],
            recording: None,
        });
        match self.crossings.iter_mut().find(|known| known.class == class) {
            Some(known) => known.to_right += 1,
            None => self.crossings.push(Crossings {
                class,
                to_left: 0,
                to_right: 1,
            }),
        }
        self.publish_line(frame.captured_at, publish);
    }

    fn publish_event(
        &self,
        kind: EventKind,
        index: usize,
        before: Option<Track>,
        frame: &FrameMeta,
        publish: &mut dyn FnMut(&Publication<'_>),
    ) {
        let object = &self.objects[index];
        let duration = frame.captured_at.duration_since(object.started_at);
        let event = TrackEvent {
            kind,
            before,
            after: object.track.clone(),
            started_at: object.started_at,
            frame_at: frame.captured_at,
            ended_at: (kind == EventKind::End).then_some(frame.captured_at),
            duration: duration.unwrap_or(Duration::ZERO),
            embedding: None::<Arc<[f32]>>,
        };
        publish(&Publication::Events {
            source: &self.source,
            frame,
            events: &[event],
            recording: None,
            snapshots: &[],
        });
    }

    fn publish_count(&self, class: u16, at: SystemTime, publish: &mut dyn FnMut(&Publication<'_>)) {
        let is_of_class = |object: &&Object| object.track.class == class;
        publish(&Publication::count(
            &self.source,
            LABELS[usize::from(class)],
            self.objects.iter().filter(is_of_class).count(),
            at,
        ));
    }

    fn publish_line(&self, at: SystemTime, publish: &mut dyn FnMut(&Publication<'_>)) {
        publish(&Publication::Line {
            source: &self.source,
            line: &self.rules.lines[0],
            crossings: &self.crossings,
            since: self.started.0,
            at,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_step_is_one_event_and_each_track_begins_once_and_ends_once() {
        let now = (SystemTime::now(), Instant::now());
        let mut scene = Scene::new(0, SplitMix64::new(1), now);
        let (mut open, mut known) = (HashSet::new(), HashSet::new());
        let (mut events, mut analytics, mut counts) = (0_u32, 0_u32, 0_u32);
        for step in 1..=1000 {
            scene.step(now, &mut |publication| match publication {
                Publication::Events { events: made, .. } => {
                    events += 1;
                    let id = made[0].after.id;
                    match made[0].kind {
                        EventKind::New => assert!(known.insert(id) && open.insert(id)),
                        EventKind::Update => assert!(open.contains(&id)),
                        EventKind::End => assert!(open.remove(&id)),
                    }
                }
                Publication::Analytics { events: made, .. } => {
                    analytics += 1;
                    assert!(made[0].event.track.is_some_and(|id| open.contains(&id)));
                }
                Publication::Count(_) => counts += 1,
                _ => {}
            });
            assert_eq!(events + analytics, step);
        }
        assert_eq!(open.len(), scene.tracks());
        assert!(known.len() > 50 && analytics > 20 && counts > 100);
    }
}
