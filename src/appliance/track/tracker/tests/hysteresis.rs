// SPDX-License-Identifier: Apache-2.0
//! What starts a track is more than what keeps it, in every tracker.

use super::*;

fn at(score: f32) -> Detection {
    Detection {
        score,
        ..square(0.0)
    }
}

#[test]
fn a_score_that_starts_no_track_continues_one() {
    for kind in KINDS {
        let config = TrackerConfig {
            min_new_track_score: 0.6,
            ..TrackerConfig::new(kind)
        };
        let mut tracker = Tracker::new(&config);
        for _ in 0..30 {
            assert_eq!(tracker.update(&[at(0.55)]), [], "{kind:?}");
        }
        tracker.update(&[at(0.65)]);
        for frame in 0..30 {
            let tracks = tracker.update(&[at(0.55)]);
            assert_eq!(tracks.len(), 1, "{kind:?}, frame {frame}");
            assert_eq!(tracks[0].hits, frame + 2, "{kind:?}");
        }
        assert_eq!(tracker.tracks()[0].state, TrackState::Active, "{kind:?}");
    }
}

#[test]
fn detections_below_the_minimum_score_are_left_out() {
    for kind in KINDS {
        let mut config = TrackerConfig::new(kind);
        config.bytetrack.min_score = 0.5;
        let mut tracker = Tracker::new(&config);
        for _ in 0..3 {
            tracker.update(&[at(0.9)]);
        }
        let found = tracker.update(&[at(0.4)])[0].state;
        assert_eq!(found, TrackState::Lost, "{kind:?}");
        let found = tracker.update(&[at(0.5)])[0].state;
        assert_eq!(found, TrackState::Active, "{kind:?}");
    }
}

/// A tracker that has seen an object of score `known` for 200 frames, and `vanished` others for two frames each.
fn tracker_with_history(config: &TrackerConfig, known: f32, vanished: usize) -> Tracker {
    let mut tracker = Tracker::new(config);
    for frame in 0..200 {
        let place = 1000.0 + 500.0 * (frame / 2) as f32;
        let other = Detection {
            score: known,
            ..square(place)
        };
        let count = if frame / 2 < vanished { 2 } else { 1 };
        tracker.update(&[at(known), other][..count]);
    }
    tracker
}

/// Frames until a second object of this score is published.
fn wait(tracker: &mut Tracker, known: f32, score: f32) -> Option<usize> {
    let other = Detection {
        score,
        ..square(500.0)
    };
    (1..=100).find(|_| {
        let tracks = tracker.update(&[at(known), other]);
        tracks.iter().filter(|track| track.id.0 > 0).count() == 2
    })
}

#[test]
fn a_new_object_of_lower_scores_than_the_published_ones_waits_longer() {
    for kind in KINDS {
        let wait = |probation_evidence, vanished, score| {
            let config = TrackerConfig {
                probation_evidence,
                ..TrackerConfig::new(kind)
            };
            wait(
                &mut tracker_with_history(&config, 0.9, vanished),
                0.9,
                score,
            )
            .expect("it is published")
        };
        assert_eq!(wait(1.5, 40, 0.97), 3, "{kind:?}: above the usual score");
        assert!((4..=5).contains(&wait(1.5, 40, 0.9)), "{kind:?}: usual");
        let below = wait(1.5, 40, 0.75);
        assert!((8..=11).contains(&below), "{kind:?}: {below}");
        assert_eq!(wait(0.0, 40, 0.75), 3, "{kind:?}: scores do not matter");
        let sure = wait(1.5, 0, 0.75);
        assert!(
            (3..=5).contains(&sure),
            "{kind:?}: no new object vanished, {sure}"
        );
    }
}

#[test]
fn the_evidence_is_relative_to_the_network() {
    // A network whose scores are all low waits no longer than one whose scores are high.
    for score in [0.65, 0.8, 0.95] {
        let mut tracker = tracker_with_history(&TrackerConfig::new(TrackerKind::Sort), score, 40);
        let waited = wait(&mut tracker, score, score);
        assert!(matches!(waited, Some(4 | 5)), "{score}: {waited:?}");
    }
}

#[test]
fn what_starts_a_track_adapts_to_a_network_of_low_scores() {
    for kind in KINDS {
        let published = |share: f32| {
            let mut tracker = Tracker::new(&TrackerConfig {
                new_track_share: share,
                ..TrackerConfig::new(kind)
            });
            // Scores of the same object are between 0.45 and 0.65; one above 0.6 starts its track.
            for frame in 0..100 {
                tracker.update(&[at(0.65 - 0.02 * (frame % 11) as f32)]);
            }
            wait(&mut tracker, 0.55, 0.5)
        };
        assert!(published(0.05).is_some(), "{kind:?}");
        assert_eq!(published(0.0), None, "{kind:?}");
    }
}
