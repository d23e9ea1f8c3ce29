// SPDX-License-Identifier: Apache-2.0
//! Compensation of the camera's motion, and association by appearance.

use super::*;

fn confident(x: f32) -> Detection {
    Detection {
        score: 0.9,
        ..square(x)
    }
}

#[test]
fn a_jump_of_the_camera_keeps_ids_when_it_is_compensated() {
    for kind in KINDS {
        for (is_compensated, expected) in [(true, 1), (false, 2)] {
            let mut tracker = Tracker::new(&TrackerConfig {
                probation_frames: 1,
                max_lost_frames: 5,
                ..TrackerConfig::new(kind)
            });
            for frame in 0..5 {
                tracker.update(&[confident(2.0 * frame as f32)]);
            }
            if is_compensated {
                tracker.compensate(&Similarity::shift(150.0, 40.0));
            }
            let [left, top, right, bottom] = square(10.0).xyxy;
            let moved = found(
                0,
                0.9,
                [left + 150.0, top + 40.0, right + 150.0, bottom + 40.0],
            );
            let newest = tracker
                .update(&[moved])
                .iter()
                .map(|track| track.id.0)
                .max();
            assert_eq!(newest, Some(expected), "{kind:?}");
        }
    }
}

#[test]
fn the_velocity_is_turned_and_scaled_with_the_image() {
    let config = TrackerConfig {
        probation_frames: 1,
        ..TrackerConfig::new(TrackerKind::Sort)
    };
    let mut tracker = Tracker::with_coasting(&config);
    for frame in 0..40 {
        tracker.update(&[confident(5.0 * frame as f32)]);
    }
    let turn = Similarity::about([0.0, 0.0], 2.0, std::f64::consts::FRAC_PI_2);
    tracker.compensate(&turn);
    let before = tracker.tracks()[0].xyxy;
    let after = tracker.coast()[0].xyxy;
    // 5 pixels to the right became 10 down.
    assert!((after[0] - before[0]).abs() < 0.5, "{before:?} {after:?}");
    assert!(
        (after[1] - before[1] - 10.0).abs() < 0.5,
        "{before:?} {after:?}"
    );
    assert!((after[3] - after[1] - 200.0).abs() < 2.0, "{after:?}");
}

#[test]
fn a_transform_that_is_not_finite_is_ignored() {
    let mut tracker = Tracker::new(&config());
    tracker.update(&[square(0.0)]);
    let before = tracker.tracks().to_vec();
    tracker.compensate(&Similarity::shift(f64::NAN, 0.0));
    tracker.compensate(&Similarity {
        a: 0.0,
        ..Similarity::IDENTITY
    });
    assert_eq!(tracker.tracks(), before);
}

/// Unit vectors of two objects that look different.
fn looks() -> [Option<Arc<[f32]>>; 2] {
    [[1.0, 0.2], [0.2, 1.0]].map(|vector| Some(Arc::from(vector)))
}

#[test]
fn appearance_decides_between_boxes_that_overlap_alike() {
    for kind in KINDS {
        let config = TrackerConfig {
            probation_frames: 1,
            ..TrackerConfig::new(kind)
        };
        let [one, other] = looks();
        let mut tracker = Tracker::new(&config);
        tracker.update_with_embeddings(
            &[confident(0.0), confident(80.0)],
            &[one.clone(), other.clone()],
        );
        // Both moved to the middle: by overlap alone they stay in order.
        let (left, right) = (confident(38.0), confident(42.0));
        let tracks = tracker.update_with_embeddings(&[left, right], &[other, one]);
        let x_of = |id: u64| {
            let track = tracks.iter().find(|track| track.id.0 == id);
            track.map_or(f32::NAN, |track| track.xyxy[0])
        };
        // The filter estimates a box between prediction and detection.
        assert_eq!(tracks.len(), 2, "{kind:?}");
        assert!(x_of(1) > 0.0 && x_of(1) <= 42.0, "{kind:?}: {tracks:?}");
        let hits: Vec<u32> = tracks.iter().map(|track| track.hits).collect();
        assert_eq!(hits, [2, 2], "{kind:?}");
        if kind == TrackerKind::Iou {
            assert_eq!((x_of(1), x_of(2)), (42.0, 38.0));
        }
    }
}

#[test]
fn a_different_appearance_is_another_object() {
    let config = TrackerConfig {
        probation_frames: 1,
        min_appearance_similarity: 0.6,
        ..config()
    };
    let [one, other] = looks();
    for (second, expected) in [(one.clone(), 1), (None, 1), (other, 2)] {
        let mut tracker = Tracker::new(&config);
        tracker.update_with_embeddings(&[square(0.0)], std::slice::from_ref(&one));
        let tracks = tracker.update_with_embeddings(&[square(0.0)], &[second]);
        assert_eq!(tracks.len(), expected);
    }
}

#[test]
fn embeddings_follow_their_detections_when_these_are_sorted() {
    let config = TrackerConfig {
        probation_frames: 1,
        ..config()
    };
    let [one, other] = looks();
    let weak = found(0, 0.3, [0.0, 0.0, 10.0, 10.0]);
    let strong = found(0, 0.8, [50.0, 0.0, 60.0, 10.0]);
    let mut tracker = Tracker::new(&config);
    tracker.update_with_embeddings(&[weak, strong], &[one.clone(), other.clone()]);
    let similarities = [&one, &other].map(|embedding| {
        let embedding = embedding.as_deref().expect("given");
        // The best score is the first track.
        tracker.memories[0]
            .appearance
            .similarity(embedding)
            .expect("known")
    });
    assert!(similarities[1] > similarities[0]);
}
