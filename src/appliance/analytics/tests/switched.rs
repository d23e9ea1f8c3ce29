// SPDX-License-Identifier: Apache-2.0
//! Rules that are switched off and on while objects are in view.

use super::*;
use crate::Rule;

/// The events of one object, with rules switched before some of the frames.
fn walk_switched(
    rules: &SceneRules,
    positions: &[(f32, f32)],
    switched: &[(usize, Rule, bool)],
) -> (Vec<(u64, AnalyticsEventKind)>, Analytics) {
    let mut scene = Analytics::new(rules, &classes());
    let mut events = Vec::new();
    for (second, (x, y)) in positions.iter().enumerate() {
        for (_, rule, active) in switched.iter().filter(|(at, ..)| *at == second) {
            scene.set_active(*rule, *active, &mut events);
        }
        scene.step(&meta(second as u64), &[track(1, *x, *y)], &mut events);
    }
    (timed_kinds(&events), scene)
}

#[test]
fn zone_that_is_switched_off_ends_its_visits_and_begins_others() {
    let positions = [(80.0, 50.0); 9];
    let switched = [(3, Rule::Zone(0), false), (6, Rule::Zone(0), true)];
    let (events, scene) = walk_switched(&zones(), &positions, &switched);
    #[rustfmt::skip]
    let wanted = [
        (1, AnalyticsEventKind::ZoneEntered { zone: 0 }),
        (2, AnalyticsEventKind::ZoneLeft { zone: 0, dwell: 2 * SECOND, }),
        // After `inertia_frames`, as at the start.
        (7, AnalyticsEventKind::ZoneEntered { zone: 0 }),
    ];
    assert_eq!(events, wanted);
    assert_eq!(scene.present(0)[0].count, 1);
    let (_, off) = walk_switched(&zones(), &positions, &switched[..1]);
    assert_eq!(off.present(0)[0].count, 0, "no object is counted");
}

#[test]
fn overcrowding_ends_with_its_zone() {
    let mut scene = Analytics::new(&zones(), &classes());
    let mut events = Vec::new();
    for second in 0..5 {
        let tracks = [track(1, 60.0, 50.0), track(2, 80.0, 50.0)];
        scene.step(&meta(second), &tracks, &mut events);
    }
    assert_eq!(scene.is_overcrowded(0), Some(true));
    events.clear();
    scene.set_active(Rule::Zone(0), false, &mut events);
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    let over = AnalyticsEventKind::OvercrowdingEnded { zone: 0, count: 0 };
    assert_eq!(kinds.last(), Some(&over));
    assert_eq!((kinds.len(), scene.is_overcrowded(0)), (3, Some(false)));
    scene.set_active(Rule::Zone(0), false, &mut events);
    assert_eq!(events.len(), 3, "it was off");
}

#[test]
fn what_crosses_a_line_that_is_off_is_not_counted_later() {
    let lines = only(|scene| scene.lines = rules().lines);
    let positions = [20.0, 30.0, 40.0, 60.0, 70.0, 80.0, 70.0, 40.0, 30.0].map(|x| (x, 50.0));
    let (events, scene) = walk_switched(&lines, &positions, &[]);
    // There and back.
    assert_eq!((events.len(), scene.crossings(0).len()), (2, 1));
    let switched = [(2, Rule::Line(0), false), (5, Rule::Line(0), true)];
    let (events, scene) = walk_switched(&lines, &positions, &switched);
    assert_eq!(events.len(), 1, "only back: {events:?}");
    let crossings = scene.crossings(0)[0];
    assert_eq!(crossings.to_left + crossings.to_right, 1);
    // A line that is switched off keeps its numbers.
    let (_, scene) = walk_switched(&lines, &positions, &[(6, Rule::Line(0), false)]);
    let crossings = scene.crossings(0)[0];
    assert_eq!(crossings.to_left + crossings.to_right, 1);
}

#[test]
fn directions_and_rest_are_measured_from_when_they_are_switched_on() {
    let directions = only(|scene| scene.directions = rules().directions);
    let positions = [10.0, 15.0, 30.0, 60.0, 61.0, 62.0].map(|x| (x, 50.0));
    let (events, _) = walk_switched(&directions, &positions, &[]);
    assert_eq!(events.len(), 1, "{events:?}");
    let switched = [
        (1, Rule::Direction(0), false),
        (4, Rule::Direction(0), true),
    ];
    let (events, _) = walk_switched(&directions, &positions, &switched);
    assert_eq!(events, [], "it has moved while the rule was off");

    let rest = only(|scene| scene.stationary = rules().stationary);
    let still = [(50.0, 50.0); 12];
    let switched = [(2, Rule::Stationary, false), (5, Rule::Stationary, true)];
    let (events, _) = walk_switched(&rest, &still, &switched);
    let wanted = AnalyticsEventKind::Stationary { since: 5 * SECOND };
    assert_eq!(events, [(10, wanted)]);
}
