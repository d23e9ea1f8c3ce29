//! Runs the tracker of the daemon on a file of detections, frame by frame; for `jetwatch track`.
//!
//! The one thing that only works with hindsight is [`TentativeFrames::Restored`]: the frames of a track's probation are
//! known to be its own once it is confirmed, and are added to it.

use std::collections::HashMap;

use jetwatch_config::TrackerConfig;
use jetwatch_track::Tracker;
use jetwatch_types::{Detection, Track, TrackState};

use crate::mot_format::{MotDetection, TrackRow};

/// What becomes of the frames in which a track was still tentative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TentativeFrames {
    /// They are added to the track once it is confirmed.
    Restored,
    /// They are left out, as in the daemon, which cannot know.
    Omitted,
}

/// Tracks `detections`, which must be sorted by frame, and returns one row per track and frame in which it was seen,
/// sorted by frame, then id. Frames without detections count as frames.
#[must_use]
pub fn track_offline(
    detections: &[MotDetection],
    config: &TrackerConfig,
    tentative: TentativeFrames,
) -> Vec<TrackRow> {
    let mut tracker = Tracker::new(config);
    let mut rows = Vec::new();
    let mut held = HashMap::new();
    let mut found: Vec<Detection> = Vec::new();
    let mut frame = 0;
    for of_frame in detections.chunk_by(|a, b| a.frame == b.frame) {
        let Some(first) = of_frame.first() else {
            continue;
        };
        // Once the last track has ended, further empty frames change nothing: a gap of millions of frames costs nothing.
        while frame + 1 < first.frame && !tracker.update(&[]).is_empty() {
            frame += 1;
        }
        frame = first.frame;
        found.clear();
        found.extend(of_frame.iter().map(|detection| detection.detection));
        tracker.update(&found);
        collect(&tracker, frame, tentative, &mut held, &mut rows);
    }
    rows.sort_by_key(|row: &TrackRow| (row.frame, row.id));
    rows
}

/// Adds the rows of one frame; those of tentative tracks wait in `held`, by birth.
fn collect(
    tracker: &Tracker,
    frame: u32,
    tentative: TentativeFrames,
    held: &mut HashMap<u64, Vec<TrackRow>>,
    rows: &mut Vec<TrackRow>,
) {
    for (track, birth) in tracker.tracks().iter().zip(tracker.creation_ids()) {
        match track.state {
            TrackState::Active => {
                let past = held.remove(birth).unwrap_or_default();
                rows.extend(past.into_iter().map(|row| TrackRow {
                    id: track.id,
                    ..row
                }));
                rows.push(row(frame, track));
            }
            TrackState::Tentative if tentative == TentativeFrames::Restored => {
                held.entry(*birth).or_default().push(row(frame, track));
            }
            TrackState::Tentative | TrackState::Lost | TrackState::Ended => {}
        }
    }
    // Those that were forgotten never come back.
    held.retain(|birth, _| tracker.creation_ids().binary_search(birth).is_ok());
}

fn row(frame: u32, track: &Track) -> TrackRow {
    TrackRow {
        frame,
        id: track.id,
        xyxy: track.xyxy,
        score: track.score,
        class: track.class,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_config::TrackerKind;

    fn config() -> TrackerConfig {
        TrackerConfig {
            max_lost_frames: 2,
            ..TrackerConfig::new(TrackerKind::Iou)
        }
    }

    fn at(frame: u32, x: f32) -> MotDetection {
        MotDetection {
            frame,
            detection: Detection {
                class: 1,
                score: 0.5,
                xyxy: [x, 0.0, x + 10.0, 10.0],
            },
        }
    }

    fn track(detections: &[MotDetection], tentative: TentativeFrames) -> Vec<(u32, u64, f32)> {
        let rows = track_offline(detections, &config(), tentative);
        rows.iter()
            .map(|row| (row.frame, row.id.0, row.xyxy[0]))
            .collect()
    }

    #[test]
    fn probation_is_restored_for_confirmed_tracks_only() {
        let detections = [
            at(1, 0.0),
            at(2, 1.0),
            at(2, 90.0),
            at(3, 2.0),
            at(3, 90.0),
            at(4, 3.0),
        ];
        let whole = [(1, 1, 0.0), (2, 1, 1.0), (3, 1, 2.0), (4, 1, 3.0)];
        assert_eq!(track(&detections, TentativeFrames::Restored), whole);
        assert_eq!(track(&detections, TentativeFrames::Omitted), whole[2..]);
    }

    #[test]
    fn missing_frames_are_empty_frames() {
        let seen = [at(1, 0.0), at(2, 0.0), at(3, 0.0)];
        let within = track(
            &[&seen[..], &[at(6, 0.0)]].concat(),
            TentativeFrames::Restored,
        );
        assert_eq!(
            within.last(),
            Some(&(6, 1, 0.0)),
            "two empty frames are within max_lost_frames"
        );
        let beyond = track(
            &[&seen[..], &[at(7, 0.0), at(8, 0.0), at(9, 0.0)]].concat(),
            TentativeFrames::Restored,
        );
        assert_eq!(beyond[3], (7, 2, 0.0), "three are not");
        let far = track(
            &[&seen[..], &[at(16_000_000, 0.0)]].concat(),
            TentativeFrames::Restored,
        );
        assert_eq!(far.len(), 3, "and millions take no time");
    }

    #[test]
    fn track_missed_during_probation_is_dropped() {
        assert_eq!(
            track(
                &[at(1, 0.0), at(2, 0.0), at(4, 0.0), at(5, 0.0)],
                TentativeFrames::Restored
            ),
            []
        );
        assert_eq!(track(&[], TentativeFrames::Restored), []);
    }
}
