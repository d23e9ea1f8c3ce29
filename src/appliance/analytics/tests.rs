// SPDX-License-Identifier: Apache-2.0
//! Tests of the rules on small scenes, and properties that hold for any scene.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use jetwatch_config::{
    DirectionRule, LineRule, Polygon, Segment, StationaryRule, ZoneRule, parse_points,
};
use jetwatch_types::{Side, SourceId, Xyxy};

use super::*;

mod course;
mod groups;
mod switched;

const SECOND: Duration = Duration::from_secs(1);

fn line(text: &str) -> Segment {
    parse_points(text)
        .and_then(|points| Segment::new(&points))
        .expect("a line")
}

/// A zone in the right half, a line down the middle, the direction to the right, and stationary after five seconds.
fn rules() -> SceneRules {
    SceneRules {
        zones: vec![ZoneRule {
            name: "yard".to_owned(),
            area: Polygon::new(parse_points("0.5,0,1,0,1,1,0.5,1").expect("points"))
                .expect("an area"),
            inertia_frames: 2,
            loitering: Some(4 * SECOND),
            object_threshold: Some(2),
            objects: Vec::new(),
            schedule: None,
        }],
        lines: vec![LineRule {
            name: "gate".to_owned(),
            line: line("0.5,0,0.5,0.8"),
            inertia_frames: 2,
            objects: Vec::new(),
            schedule: None,
        }],
        directions: vec![DirectionRule {
            name: "out".to_owned(),
            line: line("0,0.5,1,0.5"),
            tolerance_degrees: 45.0,
            min_distance: 0.1,
            schedule: None,
        }],
        stationary: Some(StationaryRule {
            after: 5 * SECOND,
            min_iou: 0.7,
            inertia_frames: 2,
            objects: Vec::new(),
            schedule: None,
        }),
    }
}

fn classes() -> Classes {
    let labels = ["bicycle", "bus", "car", "person"].map(str::to_owned);
    Classes::new(&labels, &[])
}

/// One frame per second, of 100 × 100 pixels.
fn meta(second: u64) -> FrameMeta {
    FrameMeta {
        source: SourceId(0),
        seq: second,
        pts: None,
        captured_at: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
        received_at: Instant::now(),
        source_size: Size::new(100, 100),
    }
}

/// A track whose bottom center is at this position.
fn track(id: u64, x: f32, y: f32) -> Track {
    let xyxy: Xyxy = [x - 5.0, y - 20.0, x + 5.0, y];
    Track {
        id: TrackId(id),
        state: TrackState::Active,
        class: 3,
        score: 0.9,
        top_score: 0.9,
        xyxy,
        age_frames: 5,
        hits: 5,
        lost_frames: 0,
        attributes: Default::default(),
    }
}

/// The analytics events of one object along its trajectory, with their seconds.
fn walk(rules: &SceneRules, positions: &[(f32, f32)]) -> Vec<(u64, AnalyticsEventKind)> {
    let mut scene = Analytics::new(rules, &classes());
    let mut events = Vec::new();
    for (second, (x, y)) in positions.iter().enumerate() {
        scene.step(&meta(second as u64), &[track(1, *x, *y)], &mut events);
    }
    scene.finish(&mut events);
    timed_kinds(&events)
}

fn timed_kinds(events: &[AnalyticsEvent]) -> Vec<(u64, AnalyticsEventKind)> {
    let second = |event: &AnalyticsEvent| {
        let since = event.at.duration_since(SystemTime::UNIX_EPOCH);
        since.expect("after the epoch").as_secs()
    };
    events
        .iter()
        .map(|event| (second(event), event.kind))
        .collect()
}

/// Rules of only some kinds.
fn only(keep: impl Fn(&mut SceneRules)) -> SceneRules {
    let mut none = SceneRules::default();
    keep(&mut none);
    none
}

fn zones() -> SceneRules {
    only(|scene_rules| scene_rules.zones = rules().zones)
}

#[test]
fn zone_visit_lasts_from_first_to_last_frame() {
    let positions = [20.0, 60.0, 70.0, 80.0, 90.0, 95.0, 20.0, 20.0, 20.0].map(|x| (x, 50.0));
    #[rustfmt::skip]
    let expected = [
        (2, AnalyticsEventKind::ZoneEntered { zone: 0 }),
        (5, AnalyticsEventKind::Loitering { zone: 0, dwell: 4 * SECOND, }),
        (7, AnalyticsEventKind::ZoneLeft { zone: 0, dwell: 4 * SECOND, }),
    ];
    assert_eq!(walk(&zones(), &positions), expected);
}

#[test]
fn jitter_on_the_border_neither_enters_nor_leaves() {
    let outside = [20.0, 60.0, 20.0, 60.0, 20.0, 60.0, 20.0].map(|x| (x, 50.0));
    assert_eq!(walk(&zones(), &outside), []);
    let inside = [60.0, 60.0, 20.0, 60.0, 20.0, 60.0].map(|x| (x, 50.0));
    #[rustfmt::skip]
    let expected = [
        (1, AnalyticsEventKind::ZoneEntered { zone: 0 }),
        (5, AnalyticsEventKind::Loitering { zone: 0, dwell: 5 * SECOND, }),
        (5, AnalyticsEventKind::ZoneLeft { zone: 0, dwell: 5 * SECOND, }),
    ];
    // The end is an end of the visit.
    assert_eq!(walk(&zones(), &inside), expected);
}

#[test]
fn an_object_cut_off_by_the_image_edge_is_in_the_zones_that_reach_it() {
    let mut whole = zones();
    let corners = parse_points("0,0,1,0,1,1,0,1").expect("points");
    whole.zones[0].area = Polygon::new(corners).expect("an area");
    whole.zones[0].loitering = None;
    let (x, y) = (50.0, 50.0);
    for xyxy in [
        [0.0, y, 0.0, y],
        [x, 0.0, x, 0.0],
        [100.0, y, 100.0, y],
        [x, y, x, 100.0],
        [100.0, 100.0, 100.0, 100.0],
        [105.0, y, 115.0, 120.0],
    ] {
        let mut scene = Analytics::new(&whole, &classes());
        let mut events = Vec::new();
        for second in 0..4 {
            let cut = Track {
                xyxy,
                ..track(1, x, y)
            };
            scene.step(&meta(second), &[cut], &mut events);
        }
        let entered = [(1, AnalyticsEventKind::ZoneEntered { zone: 0 })];
        assert_eq!(timed_kinds(&events), entered, "{xyxy:?}");
    }
}

#[test]
fn zones_are_counted_by_class_and_report_overcrowding() {
    let mut scene = Analytics::new(&zones(), &classes());
    let mut events = Vec::new();
    let other = Track {
        class: 1,
        ..track(2, 80.0, 50.0)
    };
    for second in 0..4 {
        scene.step(
            &meta(second),
            &[track(1, 60.0, 50.0), other.clone()],
            &mut events,
        );
    }
    let present = |class, count| ZoneCount { class, count };
    assert_eq!(scene.present(0), [present(1, 1), present(3, 1)]);
    let ended = Track {
        state: TrackState::Ended,
        ..other
    };
    scene.step(&meta(4), &[track(1, 60.0, 50.0), ended], &mut events);
    scene.step(&meta(5), &[track(1, 60.0, 50.0)], &mut events);
    assert_eq!(scene.present(0), [present(1, 0), present(3, 1)]);
    let crowds: Vec<_> = timed_kinds(&events)
        .into_iter()
        .filter(|(_, kind)| {
            matches!(
                kind,
                AnalyticsEventKind::Overcrowded { .. }
                    | AnalyticsEventKind::OvercrowdingEnded { .. }
            )
        })
        .collect();
    #[rustfmt::skip]
    let expected = [
        (2, AnalyticsEventKind::Overcrowded { zone: 0, count: 2 }),
        (5, AnalyticsEventKind::OvercrowdingEnded { zone: 0, count: 1 }),
    ];
    assert_eq!(crowds, expected);
}

#[test]
fn overcrowding_ends_when_source_ends() {
    let mut scene = Analytics::new(&zones(), &classes());
    let mut events = Vec::new();
    let both = [track(1, 60.0, 50.0), track(2, 80.0, 50.0)];
    (0..4).for_each(|second| scene.step(&meta(second), &both, &mut events));
    assert_eq!(scene.is_overcrowded(0), Some(true));
    events.clear();
    scene.finish(&mut events);
    assert_eq!(scene.is_overcrowded(0), Some(false));
    let over = (
        3,
        AnalyticsEventKind::OvercrowdingEnded { zone: 0, count: 0 },
    );
    assert_eq!(timed_kinds(&events).last(), Some(&over));
    // It continues like a new one.
    scene.step(&meta(9), &both, &mut events);
    assert_eq!(scene.is_overcrowded(0), Some(false), "inertia");
}

#[test]
fn line_crossing_has_direction_and_ignores_paths_around_line_end() {
    let lines = only(|scene_rules| scene_rules.lines = rules().lines);
    let crossed = |to| AnalyticsEventKind::LineCrossed { line: 0, to };
    // The line goes down, so its left side is the image's right.
    let there = [20.0, 40.0, 50.0, 60.0, 70.0, 40.0, 30.0].map(|x| (x, 50.0));
    assert_eq!(
        walk(&lines, &there),
        [(4, crossed(Side::Left)), (6, crossed(Side::Right))]
    );
    let jittering = [40.0, 60.0, 40.0, 60.0, 40.0].map(|x| (x, 50.0));
    assert_eq!(walk(&lines, &jittering), []);
    let around = [
        (40.0, 50.0),
        (40.0, 90.0),
        (60.0, 90.0),
        (60.0, 50.0),
        (60.0, 40.0),
    ];
    assert_eq!(walk(&lines, &around), []);

    let mut scene = Analytics::new(&lines, &classes());
    let mut events = Vec::new();
    for (second, x) in [40.0, 60.0, 60.0, 40.0, 40.0, 60.0, 60.0]
        .into_iter()
        .enumerate()
    {
        scene.step(&meta(second as u64), &[track(1, x, 50.0)], &mut events);
    }
    let expected = Crossings {
        class: 3,
        to_left: 2,
        to_right: 1,
    };
    assert_eq!(scene.crossings(0), [expected]);
}

#[test]
fn analytics_clock_does_not_run_backwards() {
    let mut scene = Analytics::new(&zones(), &classes());
    let mut events = Vec::new();
    for second in [100, 101, 40, 41, 102, 103] {
        scene.step(&meta(second), &[track(1, 60.0, 50.0)], &mut events);
    }
    scene.finish(&mut events);
    #[rustfmt::skip]
    let expected = [
        (101, AnalyticsEventKind::ZoneEntered { zone: 0 }),
        (103, AnalyticsEventKind::ZoneLeft { zone: 0, dwell: 3 * SECOND, }),
    ];
    assert_eq!(timed_kinds(&events), expected);
}

#[test]
fn rules_apply_only_to_their_objects() {
    let mut scene_rules = rules();
    scene_rules.zones[0].objects = vec!["bus".to_owned()];
    scene_rules.lines[0].objects = vec!["car".to_owned(), "bus".to_owned()];
    scene_rules.directions.clear();
    if let Some(rule) = &mut scene_rules.stationary {
        rule.objects = vec!["bus".to_owned()];
    }
    let mut scene = Analytics::new(&scene_rules, &classes());
    let mut events = Vec::new();
    for second in 0..12 {
        let x = if second < 2 { 40.0 } else { 60.0 };
        let person = track(1, x, 50.0);
        let bus = Track {
            class: 1,
            ..track(2, x, 60.0)
        };
        scene.step(&meta(second), &[person, bus], &mut events);
    }
    assert!(!events.is_empty());
    assert!(events.iter().all(|event| event.track == Some(TrackId(2))));
    assert_eq!(scene.present(0), [ZoneCount { class: 1, count: 1 }]);
    assert_eq!(scene.crossings(0).len(), 1);

    // An object whose class changes inside a zone still leaves it.
    let turned = |second: u64, x| {
        let class = if second < 14 { 1 } else { 3 };
        vec![Track {
            class,
            ..track(2, x, 60.0)
        }]
    };
    events.clear();
    for second in 12..18 {
        let x = if second < 16 { 60.0 } else { 20.0 };
        scene.step(&meta(second), &turned(second, x), &mut events);
    }
    let left = |event: &AnalyticsEvent| matches!(event.kind, AnalyticsEventKind::ZoneLeft { .. });
    assert_eq!(events.iter().filter(|event| left(event)).count(), 1);
}

/// Frames of up to three objects that move, are lost, and end.
fn frames() -> impl Strategy<Value = Vec<Vec<Track>>> {
    let coordinate = prop_oneof![8 => 0.0_f32..100.0, 1 => Just(50.0_f32), 1 => Just(f32::NAN)];
    let object = (0.0_f32..8.0, coordinate.clone(), coordinate);
    prop::collection::vec(prop::array::uniform3(object), 1..60).prop_map(|frames| {
        let mut ids = [1, 2, 3];
        let mut next = 4;
        let mut next_track = |(index, (fate, x, y)): (usize, (f32, f32, f32))| {
            let mut track = track(ids[index], x, y);
            if fate < 1.0 {
                track.state = TrackState::Lost;
            } else if fate < 1.5 {
                track.state = TrackState::Ended;
                (ids[index], next) = (next, next + 1);
            }
            track
        };
        let mut frame = |objects: [(f32, f32, f32); 3]| {
            objects
                .into_iter()
                .enumerate()
                .map(&mut next_track)
                .collect()
        };
        frames.into_iter().map(&mut frame).collect()
    })
}

proptest! {
    #[test]
    fn every_visit_ends_once_and_times_increase(frames in frames(), inertia in 1..4_u32) {
        let mut rules = rules();
        rules.zones[0].inertia_frames = inertia;
        rules.lines[0].inertia_frames = inertia;
        let mut scene = Analytics::new(&rules, &classes());
        let mut events = Vec::new();
        for (second, tracks) in frames.iter().enumerate() {
            scene.step(&meta(second as u64), tracks, &mut events);
            let inside: u32 = scene.present(0).iter().map(|class| class.count).sum();
            prop_assert!(inside <= 3);
        }
        scene.finish(&mut events);
        let (mut inside, mut still) = (BTreeSet::new(), BTreeSet::new());
        let (mut crossed, mut is_crowded) = (0, false);
        let mut newest = SystemTime::UNIX_EPOCH;
        for event in &events {
            prop_assert!(event.at >= newest);
            newest = event.at;
            match event.kind {
                AnalyticsEventKind::ZoneEntered { .. } => prop_assert!(inside.insert(event.track), "entered twice"),
                AnalyticsEventKind::Loitering { dwell, .. } => {
                    prop_assert!(inside.contains(&event.track) && dwell >= 4 * SECOND);
                }
                AnalyticsEventKind::ZoneLeft { .. } => prop_assert!(inside.remove(&event.track), "left without entering"),
                AnalyticsEventKind::Overcrowded { count, .. } => {
                    prop_assert!(!is_crowded && count >= 2);
                    is_crowded = true;
                }
                AnalyticsEventKind::OvercrowdingEnded { count, .. } => {
                    prop_assert!(is_crowded && count < 2);
                    is_crowded = false;
                }
                AnalyticsEventKind::LineCrossed { .. } => crossed += 1,
                AnalyticsEventKind::Stationary { .. } => prop_assert!(still.insert(event.track)),
                AnalyticsEventKind::Moving => prop_assert!(still.remove(&event.track)),
                AnalyticsEventKind::Direction { .. } => {}
            }
        }
        prop_assert!(inside.is_empty(), "{:?} never left", inside);
        let counted: u64 = scene.crossings(0).iter().map(|class| class.to_left + class.to_right).sum();
        prop_assert_eq!(counted, crossed);
        let left: u32 = scene.present(0).iter().map(|class| class.count).sum();
        prop_assert_eq!(left, 0);
    }

    #[test]
    fn the_same_frames_give_the_same_events(frames in frames()) {
        let run = |scene: &mut Analytics| {
            let mut events = Vec::new();
            for (second, tracks) in frames.iter().enumerate() {
                scene.step(&meta(second as u64), tracks, &mut events);
            }
            events
        };
        prop_assert_eq!(
            run(&mut Analytics::new(&rules(), &classes())),
            run(&mut Analytics::new(&rules(), &classes()))
        );
    }
    #[test]
    fn analytics_do_not_depend_on_track_order(frames in frames(), turns in any::<u64>()) {
        let mut events = [Vec::new(), Vec::new()];
        let mut scenes = [(); 2].map(|()| Analytics::new(&rules(), &classes()));
        for (second, tracks) in frames.iter().enumerate() {
            let mut turned = tracks.clone();
            turned.rotate_left((turns >> (second % 32)) as usize % 3);
            scenes[0].step(&meta(second as u64), tracks, &mut events[0]);
            scenes[1].step(&meta(second as u64), &turned, &mut events[1]);
            prop_assert_eq!(scenes[0].present(0), scenes[1].present(0));
            prop_assert_eq!(scenes[0].crossings(0), scenes[1].crossings(0));
            prop_assert_eq!(scenes[0].is_overcrowded(0), scenes[1].is_overcrowded(0));
        }
        for list in &mut events {
            // Within one frame they are sorted by track.
            list.sort_by_key(|event| (event.at, event.track.is_none(), event.track));
        }
        let [one, other] = events;
        prop_assert_eq!(one, other);
    }
}
