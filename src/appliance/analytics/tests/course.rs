//! Ways and rest.

use super::*;

#[test]
fn a_way_is_told_when_it_becomes_another() {
    let directions = only(|kept| kept.directions = rules().directions);
    let way = |direction| FactKind::Direction { direction };
    let places = [
        (20.0, 50.0),
        (24.0, 50.0),
        (31.0, 50.0),
        (60.0, 55.0),
        (60.0, 80.0),
        (60.0, 81.0),
    ];
    assert_eq!(
        walk(&directions, &places),
        [(2, way(Some(0))), (4, way(None))]
    );
}

#[test]
fn rest_begins_after_its_time_and_ends_with_motion() {
    let stationary = only(|kept| kept.stationary = rules().stationary);
    let mut places = vec![(50.0, 50.0); 7];
    places.extend([(70.0, 50.0), (50.5, 50.0), (70.0, 50.0), (75.0, 50.0)]);
    assert_eq!(
        walk(&stationary, &places),
        [
            (5, FactKind::Stationary { since: 5 * SECOND }),
            (10, FactKind::Moving)
        ]
    );
}

#[test]
fn who_becomes_one_of_the_objects_later_rests_where_it_is() {
    let mut kept = only(|kept| kept.stationary = rules().stationary);
    if let Some(rule) = &mut kept.stationary {
        rule.objects = vec!["bus".to_owned()];
    }
    // It comes to where it stays in second 5, and becomes a bus in second 7.
    let seen = |second: u64| Track {
        class: if second < 7 { 2 } else { 1 },
        ..track(1, 20.0 + second.min(5) as f32 * 10.0, 50.0)
    };
    let mut scene = Analytics::new(&kept, &labels());
    let mut facts = Vec::new();
    for second in 0..14 {
        scene.step(&meta(second), &[seen(second)], &mut facts);
    }
    // That it is there counts from the second frame on.
    let rests = FactKind::Stationary { since: 5 * SECOND };
    assert_eq!(told(&facts), [(11, rests)]);
}
