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
        assert_eq!(
            tracker.update(&[at(0.4)])[0].state,
            TrackState::Lost,
            "{kind:?}"
        );
        assert_eq!(
            tracker.update(&[at(0.5)])[0].state,
            TrackState::Active,
            "{kind:?}"
        );
    }
}

/// Frames until a second object of this score is published, after one of score 0.9 for 200 frames.
fn wait(kind: TrackerKind, probation_evidence: f32, score: f32) -> Option<usize> {
    let mut tracker = Tracker::new(&TrackerConfig {
        probation_evidence,
        ..TrackerConfig::new(kind)
    });
    for _ in 0..200 {
        tracker.update(&[at(0.9)]);
    }
    let other = Detection {
        score,
        ..square(500.0)
    };
    (1..=100).find(|_| {
        let tracks = tracker.update(&[at(0.9), other]);
        tracks.iter().filter(|track| track.id.0 > 0).count() == 2
    })
}

#[test]
fn a_new_object_of_lower_scores_than_the_published_ones_waits_longer() {
    for kind in KINDS {
        assert_eq!(wait(kind, 1.25, 0.97), Some(3), "{kind:?}: above average");
        assert_eq!(wait(kind, 1.25, 0.9), Some(4), "{kind:?}: average");
        let below = wait(kind, 1.25, 0.75).expect("it is published");
        assert!((7..=10).contains(&below), "{kind:?}: {below}");
        assert_eq!(
            wait(kind, 0.0, 0.75),
            Some(3),
            "{kind:?}: scores do not matter"
        );
    }
}

#[test]
fn the_evidence_is_relative_to_the_network() {
    // A network whose scores are all low waits no longer than one whose scores are high.
    for score in [0.65, 0.8, 0.95] {
        let mut tracker = Tracker::new(&TrackerConfig::new(TrackerKind::Sort));
        for _ in 0..200 {
            tracker.update(&[at(score)]);
        }
        let other = Detection {
            score,
            ..square(500.0)
        };
        let waited = (1..=10).find(|_| {
            let tracks = tracker.update(&[at(score), other]);
            tracks.iter().filter(|track| track.id.0 > 0).count() == 2
        });
        assert_eq!(waited, Some(4), "{score}");
    }
}
