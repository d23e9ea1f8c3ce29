// SPDX-License-Identifier: Apache-2.0
//! Properties of every tracker for any input: the order of detections has no effect, identities are unique,
//! every new track has one end, and times increase.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use jetwatch_config::{Association, ClassMatch, TrackerConfig, TrackerKind};
use jetwatch_track::{TrackEventGenerator, Tracker, UNCONFIRMED};
use jetwatch_types::{Detection, EventKind, FrameMeta, Size, SourceId, Track, TrackState};
use proptest::prelude::*;

/// A detection, with weak scores, coinciding boxes, and sometimes an invalid box.
fn detection() -> impl Strategy<Value = Detection> {
    let score = prop_oneof![Just(0.3_f32), Just(0.7), 0.0_f32..=1.0];
    let edge =
        || prop_oneof![4 => (0_i16..40).prop_map(|v| f32::from(v) * 5.0), 1 => 0.0_f32..200.0];
    let side = prop_oneof![20 => 10.0_f32..60.0, 1 => Just(0.0_f32), 1 => Just(f32::NAN)];
    (0_u16..2, score, edge(), edge(), side).prop_map(|(class, score, x, y, side)| Detection {
        class,
        score,
        xyxy: [x, y, x + side, y + side],
    })
}

/// Some frames, so that objects appear, stay, and disappear.
fn frames() -> impl Strategy<Value = Vec<Vec<Detection>>> {
    let still = prop::collection::vec(detection(), 0..6);
    let others = prop::collection::vec(prop::collection::vec(detection(), 0..4), 1..25);
    (still, others, any::<u64>()).prop_map(|(still, mut frames, gaps)| {
        for (index, frame) in frames.iter_mut().enumerate() {
            for (object, detection) in still.iter().enumerate() {
                if gaps >> ((index * 5 + object * 11) % 64) & 3 != 0 {
                    frame.push(*detection);
                }
            }
        }
        frames
    })
}

fn config() -> impl Strategy<Value = TrackerConfig> {
    let kind = prop_oneof![
        Just(TrackerKind::Iou),
        Just(TrackerKind::Sort),
        Just(TrackerKind::ByteTrack),
        Just(TrackerKind::OcSort)
    ];
    let association = prop_oneof![Just(Association::Greedy), Just(Association::Optimal)];
    let class_match = prop_oneof![Just(ClassMatch::Same), Just(ClassMatch::Any)];
    let longer = prop_oneof![Just(0_u32), 1..6_u32];
    (kind, association, class_match, 1..4_u32, 0..4_u32, longer).prop_map(
        |(
            kind,
            association,
            class_match,
            probation_frames,
            max_lost_frames,
            reassociate_frames,
        )| TrackerConfig {
            association,
            class_match,
            probation_frames,
            max_lost_frames,
            reassociate_frames,
            min_new_track_score: 0.4,
            ..TrackerConfig::new(kind)
        },
    )
}

/// Tracks of every frame, and those of the end.
fn tracks(config: &TrackerConfig, frames: &[Vec<Detection>]) -> Vec<Vec<Track>> {
    let mut tracker = Tracker::new(config);
    let mut all: Vec<_> = frames
        .iter()
        .map(|frame| tracker.update(frame).to_vec())
        .collect();
    all.push(tracker.finish().to_vec());
    all
}

/// The same in bits, because an invalid box is not equal to itself.
fn bits(tracks: &[Vec<Track>]) -> Vec<String> {
    tracks.iter().map(|frame| format!("{frame:?}")).collect()
}

fn meta(frame: usize) -> FrameMeta {
    FrameMeta {
        source: SourceId(0),
        seq: frame as u64,
        pts: None,
        captured_at: SystemTime::UNIX_EPOCH + Duration::from_millis(40 * frame as u64),
        received_at: Instant::now(),
        source_size: Size::new(200, 200),
    }
}

proptest! {
    #[test]
    fn track_ids_are_unique_dense_and_never_reused(config in config(), frames in frames()) {
        let mut given = 0;
        let mut ended = BTreeSet::new();
        for of_frame in tracks(&config, &frames) {
            let mut here = BTreeSet::new();
            for track in &of_frame {
                prop_assert_eq!(track.id == UNCONFIRMED, track.state == TrackState::Tentative);
                if track.id == UNCONFIRMED {
                    continue;
                }
                prop_assert!(here.insert(track.id), "{} is twice in a frame", track.id);
                prop_assert!(!ended.contains(&track.id), "{} came back", track.id);
                if track.id.0 > given {
                    prop_assert_eq!(track.id.0, given + 1, "ids have no holes");
                    given = track.id.0;
                }
                if track.state == TrackState::Ended {
                    ended.insert(track.id);
                }
                prop_assert!(track.hits <= track.age_frames && track.lost_frames <= config.most_lost_frames() + 1);
                prop_assert_eq!(track.state == TrackState::Active, track.lost_frames == 0 && track.state != TrackState::Ended);
            }
        }
        prop_assert_eq!(ended.len() as u64, given, "all have ended at the end");
    }

    #[test]
    fn every_track_ends_once_and_times_increase(config in config(), frames in frames()) {
        let mut tracker = Tracker::new(&config);
        let mut lifecycle = TrackEventGenerator::new(Duration::from_millis(100));
        let mut events = Vec::new();
        for (frame, detections) in frames.iter().enumerate() {
            lifecycle.step(&meta(frame), tracker.update(detections), &mut events);
        }
        tracker.finish();
        lifecycle.finish(&mut events);
        let mut open = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut newest = SystemTime::UNIX_EPOCH;
        for event in &events {
            let id = event.after.id;
            prop_assert!(event.frame_at >= newest, "frames go forward");
            newest = event.frame_at;
            prop_assert!(event.started_at <= event.frame_at);
            match event.kind {
                EventKind::New => {
                    prop_assert!(seen.insert(id), "{id} is new twice");
                    open.insert(id, event.started_at);
                }
                EventKind::Update => prop_assert_eq!(open.get(&id), Some(&event.started_at)),
                EventKind::End => {
                    prop_assert_eq!(open.remove(&id), Some(event.started_at), "the end of {}", id);
                    let ended = event.ended_at;
                    prop_assert!(ended.is_some_and(|at| at >= event.started_at && at <= event.frame_at));
                }
            }
        }
        prop_assert!(open.is_empty(), "{open:?} have no end");
    }
    #[test]
    fn skipped_frames_do_not_end_tracks(
        config in config(),
        frames in frames(),
        detected in any::<u64>(),
    ) {
        let mut tracker = Tracker::with_coasting(&config);
        let mut lifecycle = TrackEventGenerator::new(Duration::from_millis(100));
        let mut events = Vec::new();
        let fates = |tracks: &[Track]| -> Vec<_> {
            let is_confirmed = |track: &&Track| {
                track.id != UNCONFIRMED && track.state != TrackState::Ended
            };
            let alive = tracks.iter().filter(is_confirmed);
            alive
                .map(|track| (track.id, track.state, track.hits, track.lost_frames))
                .collect()
        };
        for (frame, detections) in frames.iter().enumerate() {
            if detected >> (frame % 64) & 1 == 1 {
                tracker.update(detections);
            } else {
                let before = fates(tracker.tracks());
                let mut after = fates(tracker.coast());
                // Tracks whose probation ends now are added, or continue a lost one.
                after.retain(|(id, ..)| before.iter().any(|(known, ..)| known == id));
                let mut before = before;
                if config.reassociate_frames > 0 {
                    let found_again: Vec<_> = before
                        .iter()
                        .filter(|(id, state, ..)| {
                            let is_active = |(other, state, ..): &(_, _, _, _)| other == id && *state == TrackState::Active;
                            *state == TrackState::Lost && after.iter().any(is_active)
                        })
                        .map(|(id, ..)| *id)
                        .collect();
                    before.retain(|(id, ..)| !found_again.contains(id));
                    after.retain(|(id, ..)| !found_again.contains(id));
                    // They are at the position of the new one.
                    before.sort_unstable_by_key(|(id, ..)| *id);
                    after.sort_unstable_by_key(|(id, ..)| *id);
                }
                prop_assert_eq!(after, before);
            }
            lifecycle.step(&meta(frame), tracker.tracks(), &mut events);
        }
        tracker.finish();
        lifecycle.finish(&mut events);
        let of = |kind| -> BTreeSet<_> {
            let of_kind = events.iter().filter(|event| event.kind == kind);
            of_kind.map(|event| event.after.id).collect()
        };
        prop_assert_eq!(of(EventKind::New), of(EventKind::End));
    }

    #[test]
    fn tracks_do_not_depend_on_detection_order(
        config in config(),
        (frames, mixed) in frames().prop_flat_map(|frames| {
            let mixed: Vec<_> = frames.iter().map(|frame| Just(frame.clone()).prop_shuffle()).collect();
            (Just(frames), mixed)
        }),
        detected in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
    ) {
        let tracks = |frames: &[Vec<Detection>]| -> Vec<Vec<Track>> {
            let mut tracker = match detected {
                None => Tracker::new(&config),
                Some(_) => Tracker::with_coasting(&config),
            };
            let step = |(at, detections): (usize, &Vec<Detection>)| {
                match detected.is_none_or(|bits| bits >> (at % 64) & 1 == 1) {
                    true => tracker.update(detections).to_vec(),
                    false => tracker.coast().to_vec(),
                }
            };
            frames.iter().enumerate().map(step).collect()
        };
        prop_assert_eq!(bits(&tracks(&frames)), bits(&tracks(&mixed)));
    }
}
