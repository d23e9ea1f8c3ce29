// SPDX-License-Identifier: Apache-2.0
//! The IOU tracker by tables; for properties of all trackers see `tests/tools/track_properties.rs`.

use super::*;
use jetwatch_config::ClassMatch;
use jetwatch_config::{Association, TrackerKind};
use jetwatch_types::{LabelGroup, Xyxy};

mod hysteresis;
mod motion;
mod observations;
mod reassociation;

const KINDS: [TrackerKind; 4] = [
    TrackerKind::Iou,
    TrackerKind::Sort,
    TrackerKind::ByteTrack,
    TrackerKind::OcSort,
];

/// Any score starts a track, at a minimum IOU of 0.3.
fn config() -> TrackerConfig {
    TrackerConfig {
        min_iou: 0.3,
        min_new_track_score: 0.0,
        max_lost_frames: 2,
        ..TrackerConfig::new(TrackerKind::Iou)
    }
}

fn found(class: u16, score: f32, xyxy: Xyxy) -> Detection {
    Detection { class, score, xyxy }
}

/// A square of 100 pixels whose left edge is at `x`.
fn square(x: f32) -> Detection {
    found(0, 0.5, [x, 0.0, x + 100.0, 100.0])
}

/// `(id, state)` of every track.
fn states(tracks: &[Track]) -> Vec<(u64, TrackState)> {
    tracks
        .iter()
        .map(|track| (track.id.0, track.state))
        .collect()
}

#[test]
fn track_passes_all_states() {
    use TrackState::{Active, Ended, Lost, Tentative};
    let mut tracker = Tracker::new(&config());
    type Step<'a> = (&'a [Detection], &'a [(u64, TrackState)]);
    let steps: [Step<'_>; 13] = [
        (&[], &[]),
        (&[square(0.0)], &[(0, Tentative)]),
        (&[square(10.0)], &[(0, Tentative)]),
        (&[square(20.0)], &[(1, Active)]),
        (&[square(30.0)], &[(1, Active)]),
        (&[], &[(1, Lost)]),
        (&[], &[(1, Lost)]),
        (&[square(40.0)], &[(1, Active)]),
        (&[], &[(1, Lost)]),
        (&[], &[(1, Lost)]),
        (&[], &[(1, Ended)]),
        (&[], &[]),
        (&[square(40.0)], &[(0, Tentative)]),
    ];
    for (frame, (detections, expected)) in steps.iter().enumerate() {
        let found = states(tracker.update(detections));
        assert_eq!(found, *expected, "frame {frame}");
    }
}

#[test]
fn tracks_carry_score_age_hits_and_lost_frames() {
    let mut tracker = Tracker::new(&TrackerConfig {
        class_match: ClassMatch::Any,
        ..config()
    });
    tracker.update(&[found(4, 0.6, [0.0, 0.0, 10.0, 10.0])]);
    tracker.update(&[found(4, 0.9, [1.0, 0.0, 11.0, 10.0])]);
    tracker.update(&[found(7, 0.7, [2.0, 0.0, 12.0, 10.0])]);
    let expected = Track {
        id: TrackId(1),
        state: TrackState::Lost,
        class: 7,
        score: 0.7,
        top_score: 0.9,
        xyxy: [2.0, 0.0, 12.0, 10.0],
        age_frames: 4,
        hits: 3,
        lost_frames: 1,
        attributes: Default::default(),
    };
    assert_eq!(tracker.update(&[]), [expected]);
}

#[test]
fn classes_of_one_group_continue_a_track() {
    let of_class = |class, x: f32| found(class, 0.5, [x, 0.0, x + 100.0, 100.0]);
    let labels = ["person", "car", "truck"].map(str::to_owned);
    let vehicle = LabelGroup {
        name: "vehicle".to_owned(),
        labels: labels[1..].to_vec(),
    };
    let classes = Arc::new(Classes::new(&labels, &[vehicle]));
    let ids = |mut tracker: Tracker, seen: [u16; 6]| -> Vec<u64> {
        let mut ids = Vec::new();
        for (class, frame) in seen.into_iter().zip(0_u16..) {
            let tracks = tracker.update(&[of_class(class, f32::from(frame))]);
            let active = |track: &&Track| track.state == TrackState::Active;
            let active = tracks.iter().find(active);
            ids.extend(active.map(|track| track.id.0));
            assert!(active.is_none_or(|track| track.class == class));
        }
        ids
    };
    // The network takes the car for a truck in one frame.
    let flips = [1, 1, 1, 2, 1, 1];
    let grouped = Tracker::new(&config()).with_classes(Arc::clone(&classes));
    assert_eq!(ids(grouped, flips), [1; 4]);
    // It is missed once.
    assert_eq!(ids(Tracker::new(&config()), flips), [1; 3]);
    // A person is not a vehicle.
    let grouped = Tracker::new(&config()).with_classes(classes);
    assert_eq!(ids(grouped, [1, 1, 1, 0, 0, 0]), [1, 2]);
}

#[test]
fn a_tentative_track_that_misses_a_frame_is_removed_and_gets_no_id() {
    let mut tracker = Tracker::new(&config());
    tracker.update(&[square(0.0)]);
    tracker.update(&[square(0.0)]);
    assert_eq!(tracker.update(&[]), []);
    for _ in 0..3 {
        tracker.update(&[square(500.0)]);
    }
    let found = states(tracker.update(&[square(500.0)]));
    assert_eq!(found, [(1, TrackState::Active)]);
}

#[test]
fn ids_are_dense_in_the_order_of_confirmation() {
    let mut tracker = Tracker::new(&config());
    tracker.update(&[square(0.0)]);
    tracker.update(&[square(0.0), square(300.0)]);
    tracker.update(&[square(300.0), square(600.0)]);
    tracker.update(&[square(300.0), square(600.0)]);
    let last = tracker.update(&[square(600.0), square(300.0)]);
    let found = states(last);
    assert_eq!(found, [(1, TrackState::Active), (2, TrackState::Active)]);
    assert_eq!(last[0].xyxy[0], 300.0);
    assert_eq!(tracker.creation_ids(), [1, 2]);
}

#[test]
fn probation_of_one_confirms_at_once_and_zero_lost_frames_end_at_once() {
    let mut tracker = Tracker::new(&TrackerConfig {
        probation_frames: 1,
        max_lost_frames: 0,
        ..config()
    });
    let found = states(tracker.update(&[square(0.0)]));
    assert_eq!(found, [(1, TrackState::Active)]);
    let found = states(tracker.update(&[square(300.0)]));
    assert_eq!(found, [(1, TrackState::Ended), (2, TrackState::Active)]);
}

#[test]
fn active_track_matches_before_lost_one() {
    for association in [Association::Greedy, Association::Optimal] {
        let mut tracker = Tracker::new(&TrackerConfig {
            probation_frames: 1,
            association,
            ..config()
        });
        tracker.update(&[square(0.0), square(140.0)]);
        // The first is lost; the second moves to its position.
        tracker.update(&[square(90.0)]);
        tracker.update(&[square(50.0)]);
        let tracks = tracker.update(&[square(5.0)]);
        let wanted = [(1, TrackState::Ended), (2, TrackState::Active)];
        assert_eq!(states(tracks), wanted, "{association:?}");
    }
}

#[test]
fn classes_stay_apart_unless_any_may_match() {
    for (class_match, expected) in [(ClassMatch::Same, 2), (ClassMatch::Any, 1)] {
        let mut tracker = Tracker::new(&TrackerConfig {
            probation_frames: 1,
            class_match,
            ..config()
        });
        tracker.update(&[found(1, 0.5, [0.0, 0.0, 9.0, 9.0])]);
        assert_eq!(
            tracker.update(&[found(2, 0.5, [0.0, 0.0, 9.0, 9.0])]).len(),
            expected,
            "{class_match:?}"
        );
    }
}

#[test]
fn min_iou_is_exact() {
    let mut tracker = Tracker::new(&TrackerConfig {
        probation_frames: 1,
        min_iou: 0.5,
        ..config()
    });
    tracker.update(&[found(0, 0.5, [0.0, 0.0, 10.0, 10.0])]);
    assert_eq!(
        tracker
            .update(&[found(0, 0.5, [0.0, 0.0, 10.0, 5.0])])
            .len(),
        1,
        "an IOU of 0.5 is enough"
    );
    assert_eq!(
        tracker
            .update(&[found(0, 0.5, [0.0, 0.0, 10.0, 2.4])])
            .len(),
        2,
        "one of 0.48 is not"
    );
}

#[test]
fn invalid_box_starts_unmatched_track() {
    let mut tracker = Tracker::new(&config());
    for _ in 0..5 {
        let tracks = tracker.update(&[found(0, 0.5, [f32::NAN; 4]), found(0, 0.5, [5.0; 4])]);
        assert!(
            tracks
                .iter()
                .all(|track| track.state == TrackState::Tentative && track.hits == 1)
        );
    }
}

#[test]
fn finish_ends_the_confirmed_once_and_goes_on_with_new_ids() {
    let mut tracker = Tracker::new(&config());
    for _ in 0..3 {
        tracker.update(&[square(0.0)]);
    }
    tracker.update(&[square(0.0), square(300.0)]);
    assert_eq!(states(tracker.finish()), [(1, TrackState::Ended)]);
    assert_eq!(tracker.finish(), []);
    for _ in 0..2 {
        tracker.update(&[square(0.0)]);
    }
    let found = states(tracker.update(&[square(0.0)]));
    assert_eq!(found, [(2, TrackState::Active)]);
}

/// A square of 100 pixels that moves 30 pixels per frame, which SORT and ByteTrack can predict.
fn walk(frame: u32) -> Detection {
    Detection {
        score: 0.9,
        ..square(30.0 * frame as f32)
    }
}

#[test]
fn a_predicted_box_matches_an_object_that_moved_while_lost() {
    for (kind, expected) in [
        (TrackerKind::Iou, TrackState::Lost),
        (TrackerKind::Sort, TrackState::Active),
        (TrackerKind::ByteTrack, TrackState::Active),
        (TrackerKind::OcSort, TrackState::Active),
    ] {
        let mut tracker = Tracker::new(&TrackerConfig {
            max_lost_frames: 10,
            ..TrackerConfig::new(kind)
        });
        for frame in 0..10 {
            tracker.update(&[walk(frame)]);
        }
        for _ in 10..15 {
            tracker.update(&[]);
        }
        let tracks = tracker.update(&[walk(15)]);
        assert_eq!((tracks[0].id.0, tracks[0].state), (1, expected), "{kind:?}");
    }
}

#[test]
fn lost_track_box_is_predicted_by_motion_trackers() {
    for (kind, expected) in [
        (TrackerKind::Iou, 270.0),
        (TrackerKind::Sort, 330.0),
        (TrackerKind::ByteTrack, 330.0),
        (TrackerKind::OcSort, 330.0),
    ] {
        let mut tracker = Tracker::new(&TrackerConfig {
            max_lost_frames: 10,
            ..TrackerConfig::new(kind)
        });
        for frame in 0..10 {
            tracker.update(&[walk(frame)]);
        }
        tracker.update(&[]);
        let lost = &tracker.update(&[])[0];
        assert_eq!(lost.state, TrackState::Lost);
        assert!(
            (lost.xyxy[0] - expected).abs() < 10.0,
            "{kind:?}: {:?}",
            lost.xyxy
        );
    }
}

#[test]
fn a_second_stage_pairs_low_scores_at_a_higher_overlap() {
    for kind in [TrackerKind::ByteTrack, TrackerKind::OcSort] {
        let weak = |score, x| Detection { score, ..square(x) };
        let strong = weak(0.9, 0.0);
        let mut tracker = Tracker::new(&TrackerConfig::new(kind));
        for _ in 0..3 {
            tracker.update(&[strong]);
        }
        let mut state = |detection| states(tracker.update(&[detection]));
        assert_eq!(state(weak(0.2, 0.0)), [(1, TrackState::Active)]);
        let found = state(weak(0.05, 0.0));
        let wanted = [(1, TrackState::Lost)];
        assert_eq!(found, wanted, "{kind:?}: score below the minimum");
        assert_eq!(
            state(weak(0.2, 40.0)),
            [(1, TrackState::Lost)],
            "{kind:?}: too little overlap, and none begins"
        );
        let found = state(weak(0.2, 0.0));
        let wanted = [(1, TrackState::Active)];
        assert_eq!(found, wanted, "{kind:?}: a lost one is continued, too");
    }
}

#[test]
fn between_updates_every_tracker_coasts_at_constant_velocity() {
    for kind in KINDS {
        let mut tracker = Tracker::with_coasting(&TrackerConfig::new(kind));
        // 30 pixels per frame with inference, and two skipped frames between them.
        let mut x = 0.0;
        for _ in 0..15 {
            tracker.update(&[found(0, 0.9, [x, 0.0, x + 100.0, 100.0])]);
            tracker.coast();
            tracker.coast();
            x += 30.0;
        }
        let [track] = tracker.tracks() else {
            panic!("{kind:?}: {:?}", tracker.tracks());
        };
        assert_eq!((track.state, track.hits), (TrackState::Active, 15));
        assert_eq!((track.age_frames, track.lost_frames), (45, 0));
        let expected = x - 10.0;
        assert!(
            (track.xyxy[0] - expected).abs() < 3.0,
            "{kind:?}: {track:?}"
        );
        // Two frames with inference and no match are two misses, with any number of skipped frames between.
        for _ in 0..2 {
            tracker.update(&[]);
            tracker.coast();
        }
        assert!(tracker.tracks().iter().all(|track| track.lost_frames <= 2));
    }
}

#[test]
fn probation_counts_the_frames_between_two_updates() {
    let mut tracker = Tracker::with_coasting(&config());
    let elsewhere = found(0, 0.75, [500.0, 0.0, 600.0, 100.0]);
    for _ in 0..9 {
        tracker.update(&[elsewhere]);
    }
    tracker.finish();
    tracker.update(&[]);
    let wanted = [(0, TrackState::Tentative)];
    assert_eq!(states(tracker.update(&[square(0.0)])), wanted);
    for _ in 0..5 {
        // One detection is not enough.
        assert_eq!(states(tracker.coast()), [(0, TrackState::Tentative)]);
    }
    let wanted = [(2, TrackState::Active)];
    assert_eq!(states(tracker.update(&[square(0.0)])), wanted);
}

#[test]
fn one_detection_of_an_average_score_ends_the_probation_between_updates() {
    for (score, expected) in [(0.9, TrackState::Active), (0.7, TrackState::Tentative)] {
        let mut tracker = Tracker::with_coasting(&config());
        let published = found(0, 0.85, [500.0, 0.0, 600.0, 100.0]);
        for _ in 0..60 {
            tracker.update(&[published]);
        }
        tracker.update(&[published, found(0, score, [0.0, 0.0, 100.0, 100.0])]);
        for _ in 0..5 {
            tracker.coast();
        }
        assert_eq!(tracker.tracks()[1].state, expected, "{score}");
    }
}

#[test]
fn the_search_distance_for_a_new_object_grows_with_the_gap() {
    // A square of 100 pixels goes 150 pixels to the right in frames without inference.
    for (skipped, is_found) in [(0, false), (1, false), (3, true)] {
        let mut tracker = Tracker::with_coasting(&config());
        tracker.update(&[square(0.0)]);
        (0..skipped).for_each(|_| {
            tracker.coast();
        });
        let tracks = tracker.update(&[square(150.0)]);
        assert_eq!(tracks.len(), 1, "{tracks:?}");
        assert_eq!(tracks[0].hits == 2, is_found, "{skipped} frames skipped");
    }
}
