// SPDX-License-Identifier: Apache-2.0
//! Tests of directions and stopped objects.

use super::*;

#[test]
fn a_direction_event_is_emitted_on_change() {
    let directions = only(|scene_rules| scene_rules.directions = rules().directions);
    let direction_event = |direction| AnalyticsEventKind::Direction { direction };
    let positions = [
        (20.0, 50.0),
        (24.0, 50.0),
        (31.0, 50.0),
        (60.0, 55.0),
        (60.0, 80.0),
        (60.0, 81.0),
    ];
    assert_eq!(
        walk(&directions, &positions),
        [(2, direction_event(Some(0))), (4, direction_event(None))]
    );
}

#[test]
fn stationary_begins_after_its_time_and_ends_with_motion() {
    let stationary = only(|scene_rules| scene_rules.stationary = rules().stationary);
    let mut positions = vec![(50.0, 50.0); 7];
    positions.extend([(70.0, 50.0), (50.5, 50.0), (70.0, 50.0), (75.0, 50.0)]);
    assert_eq!(
        walk(&stationary, &positions),
        [
            (5, AnalyticsEventKind::Stationary { since: 5 * SECOND }),
            (10, AnalyticsEventKind::Moving)
        ]
    );
}

#[test]
fn a_track_whose_class_changes_later_keeps_its_stationary_time() {
    let mut scene_rules = only(|scene_rules| scene_rules.stationary = rules().stationary);
    if let Some(rule) = &mut scene_rules.stationary {
        rule.objects = vec!["bus".to_owned()];
    }
    // It comes to where it stays in second 5, and becomes a bus in second 7.
    let track_at = |second: u64| Track {
        class: if second < 7 { 2 } else { 1 },
        ..track(1, 20.0 + second.min(5) as f32 * 10.0, 50.0)
    };
    let mut scene = Analytics::new(&scene_rules, &classes());
    let mut events = Vec::new();
    for second in 0..14 {
        scene.step(&meta(second), &[track_at(second)], &mut events);
    }
    // That it is there counts from the second frame on.
    let rests = AnalyticsEventKind::Stationary { since: 5 * SECOND };
    assert_eq!(timed_kinds(&events), [(11, rests)]);
}
