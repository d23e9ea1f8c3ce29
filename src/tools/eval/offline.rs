// SPDX-License-Identifier: Apache-2.0
//! Runs the tracker of the daemon on a file of detections, frame by frame; for `jetwatch track`.
//!
//! One thing needs the whole file: with [`TentativeFrames::Restored`] the frames of a track's probation are added to it once it
//! is confirmed.

use std::collections::HashMap;

use jetwatch_config::TrackerConfig;
use jetwatch_track::Tracker;
use jetwatch_types::{Detection, Track, TrackState};

use crate::mot_format::{MotDetection, TrackRow};

/// Handling of the frames in which a track was tentative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TentativeFrames {
    /// They are added to the track once it is confirmed.
    Restored,
    /// They are omitted, as in the daemon, which cannot know.
    Omitted,
}

/// Tracks `detections`, which must be sorted by frame, and returns one row per track and frame in which it was seen,
/// sorted by frame, then id. Frames without detections count as frames.
pub fn track_offline(
    detections: &[MotDetection],
    config: &TrackerConfig,
    tentative: TentativeFrames,
) -> Vec<TrackRow> {
    track_with_interval(detections, config, tentative, 0)
}

/// The same with inference in every `interval + 1`-th frame only, beginning with frame 1: the detections of the frames in
/// between are not used, and tracks are predicted. A row then is a track in a frame, predicted or detected, that was matched
/// in the newest frame with inference. 0: all frames.
pub fn track_with_interval(
    detections: &[MotDetection],
    config: &TrackerConfig,
    tentative: TentativeFrames,
    interval: u32,
) -> Vec<TrackRow> {
    let mut tracker = match interval {
        0 => Tracker::new(config),
        _ => Tracker::with_coasting(config),
    };
    let mut rows = Vec::new();
    let mut held = HashMap::new();
    let mut found: Vec<Detection> = Vec::new();
    let mut frame = 0;
    let mut step = |frame: u32, found: &[Detection]| {
        let is_skipped = !(frame - 1).is_multiple_of(interval.saturating_add(1));
        let is_empty = match is_skipped {
            true => tracker.coast().is_empty(),
            false => tracker.update(found).is_empty(),
        };
        // Without skipped frames a track is seen in frames with its detection only.
        if !found.is_empty() || interval > 0 {
            collect(&tracker, frame, tentative, &mut held, &mut rows);
        }
        is_empty
    };
    for of_frame in detections.chunk_by(|a, b| a.frame == b.frame) {
        let Some(first) = of_frame.first() else {
            continue;
        };
        // Once the last track has ended, further empty frames change nothing: a gap of millions of frames costs nothing.
        while frame + 1 < first.frame && !step(frame + 1, &[]) {
            frame += 1;
        }
        frame = first.frame;
        found.clear();
        found.extend(of_frame.iter().map(|detection| detection.detection));
        step(frame, &found);
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
    // The tracker never continues a removed track.
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
            min_new_track_score: 0.0,
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
        // Two empty frames are within `max_lost_frames`, three are not, and millions take no time.
        #[rustfmt::skip]
        let cases = [
            (&[at(6, 0.0)][..], &[(6, 1, 0.0)][..]),
            (&[at(7, 0.0), at(8, 0.0), at(9, 0.0)], &[(7, 2, 0.0), (8, 2, 0.0), (9, 2, 0.0)]),
            (&[at(16_000_000, 0.0)], &[]),
        ];
        for (more, expected) in cases {
            let found = track(&[&seen, more].concat(), TentativeFrames::Restored);
            assert_eq!(found[3..], *expected);
        }
    }

    #[test]
    fn frames_between_two_with_inference_are_predicted() {
        let detections: Vec<MotDetection> = (1..=41).map(|frame| at(frame, frame as f32)).collect();
        let rows = track_with_interval(&detections, &config(), TentativeFrames::Restored, 3);
        let frames: Vec<u32> = rows.iter().map(|row| row.frame).collect();
        assert_eq!(frames, (1..=41).collect::<Vec<_>>());
        for row in &rows[20..] {
            let error = row.xyxy[0] - row.frame as f32;
            assert!(row.id.0 == 1 && error.abs() < 2.0, "{row:?}");
        }
        // What was detected in skipped frames is not used.
        let every_fourth: Vec<MotDetection> = (detections.iter().copied())
            .filter(|detection| detection.frame % 4 == 1)
            .collect();
        let same = track_with_interval(&every_fourth, &config(), TentativeFrames::Restored, 3);
        assert_eq!(rows, same);
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
