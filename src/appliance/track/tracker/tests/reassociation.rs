// SPDX-License-Identifier: Apache-2.0
//! Re-association of lost tracks by their trajectory.

use super::*;

/// A square that goes 5 pixels to the right in each frame, hidden behind something for that many frames after the tenth.
fn behind(hidden: usize) -> Vec<Vec<Detection>> {
    let frame = |at: usize| match at {
        at if (10..10 + hidden).contains(&at) => Vec::new(),
        at => vec![square(5.0 * at as f32)],
    };
    (0..20 + hidden).map(frame).collect()
}

#[test]
fn an_object_that_reappears_after_occlusion_keeps_its_id() {
    for kind in KINDS {
        let config_with = |reassociate_frames| TrackerConfig {
            max_lost_frames: 2,
            reassociate_frames,
            min_new_track_score: 0.0,
            ..TrackerConfig::new(kind)
        };
        let frames = behind(25);
        for (reassociate_frames, expected) in [(0, vec![1, 2]), (40, vec![1])] {
            let mut tracker = Tracker::new(&config_with(reassociate_frames));
            let mut ids = Vec::new();
            for detections in &frames {
                let tracks = tracker.update(detections);
                assert!(tracks.len() <= 2, "{tracks:?}");
                ids.extend(tracks.iter().map(|track| track.id.0));
            }
            let [last] = tracker.tracks() else {
                panic!("{:?}", tracker.tracks());
            };
            assert_eq!(last.state, TrackState::Active);
            if reassociate_frames > 0 {
                // It is as old as it would be had it never been away.
                assert_eq!((last.age_frames, last.hits), (45, 20));
            }
            ids.retain(|id| *id != UNCONFIRMED.0);
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids, expected, "{kind:?}, {reassociate_frames}");
        }
    }
}

#[test]
fn a_track_that_is_not_reassociated_ends_once() {
    let mut tracker = Tracker::new(&TrackerConfig {
        reassociate_frames: 3,
        ..config()
    });
    for at in 0..4 {
        tracker.update(&[square(5.0 * at as f32)]);
    }
    let lost: Vec<_> = (0..7).map(|_| states(tracker.update(&[]))).collect();
    for (frame, states) in lost.iter().enumerate() {
        let expected = match frame {
            0..5 => vec![(1, TrackState::Lost)],
            5 => vec![(1, TrackState::Ended)],
            _ => vec![],
        };
        assert_eq!(*states, expected, "{frame}");
    }
}

#[test]
fn two_occluded_objects_keep_their_own_ids() {
    // They cross behind something, at different heights: their trajectories distinguish them.
    let frame = |at: usize| {
        let x = 8.0 * at as f32;
        let (left, right) = (
            [x, 0.0, x + 40.0, 80.0],
            [400.0 - x, 60.0, 440.0 - x, 140.0],
        );
        match at {
            15..30 => Vec::new(),
            _ => vec![found(0, 0.9, left), found(0, 0.9, right)],
        }
    };
    let mut tracker = Tracker::new(&TrackerConfig {
        reassociate_frames: 60,
        ..config()
    });
    let mut observed = Vec::new();
    for at in 0..45 {
        let tracks = tracker.update(&frame(at));
        if at == 10 || at == 44 {
            let mut positions: Vec<_> = tracks
                .iter()
                .map(|track| (track.id.0, track.xyxy[1] as i32))
                .collect();
            positions.sort_unstable();
            observed.push(positions);
        }
    }
    assert_eq!(observed[0], observed[1]);
    assert_eq!(observed[0].len(), 2);
}
