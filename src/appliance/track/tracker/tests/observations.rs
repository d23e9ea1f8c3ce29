// SPDX-License-Identifier: Apache-2.0
//! OC-SORT: momentum, recovery and re-update in the tracker.

use super::*;

fn tracker(kind: TrackerKind) -> Tracker {
    Tracker::new(&TrackerConfig {
        probation_frames: 1,
        ..TrackerConfig::new(kind)
    })
}

fn at(x: f32, y: f32) -> Detection {
    found(0, 0.9, [x, y, x + 100.0, y + 100.0])
}

#[test]
fn momentum_prefers_the_detection_straight_ahead() {
    let mut with = tracker(TrackerKind::OcSort);
    for frame in 0..10 {
        with.update(&[at(10.0 * frame as f32, 0.0)]);
    }
    // The same overlap with the prediction at x = 100: one ahead of it, one behind it and back.
    let tracks = with.update(&[at(50.0, 0.0), at(150.0, 0.0)]);
    let kept = tracks.iter().find(|track| track.id.0 == 1).expect("alive");
    assert_eq!(kept.hits, 11);
    assert!(kept.xyxy[0] > 100.0, "{kept:?}");
}

#[test]
fn an_object_that_stopped_while_hidden_is_recovered_at_its_last_box() {
    // Its prediction goes on by 30 pixels per frame.
    let stopped = at(270.0, 0.0);
    for (kind, expected) in [(TrackerKind::OcSort, 1), (TrackerKind::Sort, 2)] {
        let mut tracker = tracker(kind);
        for frame in 0..10 {
            tracker.update(&[at(30.0 * frame as f32, 0.0)]);
        }
        for _ in 0..6 {
            tracker.update(&[]);
        }
        let newest = tracker.update(&[stopped]).iter().map(|track| track.id.0);
        assert_eq!(newest.max(), Some(expected), "{kind:?}");
    }
}

#[test]
fn after_a_gap_the_motion_is_that_of_the_observations() {
    // It goes right, and in the gap it slows down.
    let after = |kind| {
        let mut tracker = tracker(kind);
        for frame in 0..10 {
            tracker.update(&[at(10.0 * frame as f32, 0.0)]);
        }
        for _ in 0..8 {
            tracker.update(&[]);
        }
        // 90 + 9 frames of 4 pixels; both find it by its overlap.
        tracker.update(&[at(126.0, 0.0)]);
        tracker.update(&[]);
        let [track] = tracker.tracks() else {
            panic!("{kind:?}: {:?}", tracker.tracks());
        };
        track.xyxy[0]
    };
    let [with, without] = [TrackerKind::OcSort, TrackerKind::Sort].map(after);
    let [with, without] = [with, without].map(|x| (x - 130.0).abs());
    assert!(with < 5.0 && with < without / 1.1, "{with}, {without}");
}
