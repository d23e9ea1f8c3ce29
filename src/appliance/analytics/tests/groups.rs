// SPDX-License-Identifier: Apache-2.0
//! Rules about groups of labels.

use jetwatch_types::LabelGroup;

use super::*;

#[test]
fn rule_about_a_group_counts_all_of_its_labels() {
    let rules = SceneRules {
        zones: zones()
            .zones
            .into_iter()
            .map(|zone| ZoneRule {
                objects: vec!["vehicle".to_owned()],
                ..zone
            })
            .collect(),
        ..zones()
    };
    let group = LabelGroup {
        name: "vehicle".to_owned(),
        labels: ["car", "bus", "truck"].map(str::to_owned).into(),
    };
    let classes = Classes::new(classes().labels(), &[group]);
    let mut scene = Analytics::new(&rules, &classes);
    let mut events = Vec::new();
    let of_class = |id, class| Track {
        class,
        ..track(id, 60.0, 50.0)
    };
    for second in 0..4 {
        // The network takes the bus for a car in one of the frames.
        let bus = if second == 2 { 2 } else { 1 };
        let tracks = [of_class(1, bus), of_class(2, 2), of_class(3, 3)];
        scene.step(&meta(second), &tracks, &mut events);
    }
    let present = |class, count| ZoneCount { class, count };
    let counts: Vec<_> = scene.present(0).to_vec();
    // A person is not a vehicle.
    assert_eq!(counts, [present(1, 1), present(2, 1)]);
    let entered = timed_kinds(&events)
        .into_iter()
        .filter(|(_, kind)| matches!(kind, AnalyticsEventKind::ZoneEntered { .. }));
    // Another label of the group is not a new visit.
    assert_eq!(entered.count(), 2);
}
