// SPDX-License-Identifier: Apache-2.0
//! Tests of the track event generator: which events the tracks of a source cause, and when.

use std::sync::LazyLock;

use super::*;
use crate::Tracker;
use jetwatch_config::{TrackerConfig, TrackerKind};
use jetwatch_types::{Detection, Size};

/// A capture time, `ms` after a fixed start.
fn time(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000 + ms)
}

fn meta(ms: u64) -> FrameMeta {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    FrameMeta {
        captured_at: time(ms),
        received_at: *START + Duration::from_millis(ms),
        ..FrameMeta::for_test(0, 0, Size::new(640, 480))
    }
}

fn track(id: u64, state: TrackState) -> Track {
    Track {
        id: TrackId(id),
        state,
        class: 0,
        score: 0.5,
        top_score: 0.5,
        xyxy: [0.0, 0.0, 100.0, 100.0],
        age_frames: 3,
        hits: 3,
        lost_frames: 0,
        attributes: Default::default(),
    }
}

fn active(id: u64) -> Track {
    track(id, TrackState::Active)
}

/// The events of one frame.
fn step(generator: &mut TrackEventGenerator, ms: u64, tracks: &[Track]) -> Vec<TrackEvent> {
    let mut events = Vec::new();
    generator.step(&meta(ms), tracks, &mut events);
    events
}

fn kinds(events: &[TrackEvent]) -> Vec<(EventKind, u64)> {
    events
        .iter()
        .map(|event| (event.kind, event.after.id.0))
        .collect()
}

#[test]
fn one_track_has_a_new_update_and_end_event() {
    let config = TrackerConfig {
        max_lost_frames: 1,
        min_new_track_score: 0.0,
        ..TrackerConfig::new(TrackerKind::Iou)
    };
    let mut tracker = Tracker::new(&config);
    let mut generator = TrackEventGenerator::new(Duration::from_millis(500));
    let mut events = Vec::new();
    let there = [Detection {
        class: 2,
        score: 0.5,
        xyxy: [0.0, 0.0, 50.0, 50.0],
    }];
    let frames: [&[Detection]; 9] = [&[], &there, &there, &there, &[], &there, &[], &[], &[]];
    for (frame, detections) in frames.iter().enumerate() {
        generator.step(
            &meta(frame as u64 * 100),
            tracker.update(detections),
            &mut events,
        );
    }
    let published: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.after.state, event.frame_at))
        .collect();
    use EventKind::{End, New, Update};
    use TrackState::{Active, Ended, Lost};
    let expected = [
        (New, Active, time(300)),
        (Update, Lost, time(400)),
        (Update, Active, time(500)),
        (Update, Lost, time(600)),
        (End, Ended, time(700)),
    ];
    assert_eq!(published, expected);
    // The tentative frames count.
    assert!(events.iter().all(|event| event.started_at == time(100)));
    assert!(events[..4].iter().all(|event| event.ended_at.is_none()));
    // The last frame with a detection.
    assert_eq!(events[4].ended_at, Some(time(500)));
    assert_eq!(events[0].before, None);
    for pair in events.windows(2) {
        // Each event begins where the last one ended.
        assert_eq!(pair[1].before.as_ref(), Some(&pair[0].after));
    }
}

#[test]
fn small_changes_wait_for_the_interval_and_jitter_is_no_change() {
    let base = active(1);
    let moved = Track {
        xyxy: [6.0, 0.0, 106.0, 100.0],
        ..base.clone()
    };
    let jittering = Track {
        xyxy: [4.0, 4.0, 96.0, 96.0],
        score: 0.2,
        ..base.clone()
    };
    let better = Track {
        top_score: 0.6,
        ..base.clone()
    };
    let renamed = Track {
        class: 3,
        ..base.clone()
    };
    let lost = Track {
        state: TrackState::Lost,
        ..base.clone()
    };
    let cases = [
        ("moved", &moved, 500, true),
        ("moved", &moved, 499, false),
        ("jittering", &jittering, 5_000, false),
        ("better score", &better, 500, true),
        ("better score", &better, 100, false),
        ("another class", &renamed, 500, true),
        ("another class", &renamed, 100, false),
        ("lost", &lost, 1, true),
        ("the same", &base, 5_000, false),
    ];
    for (name, next, ms, expected) in cases {
        let mut generator = TrackEventGenerator::new(Duration::from_millis(500));
        let found = kinds(&step(&mut generator, 0, std::slice::from_ref(&base)));
        assert_eq!(found, [(EventKind::New, 1)]);
        let events = step(&mut generator, ms, std::slice::from_ref(next));
        assert_eq!(!events.is_empty(), expected, "{name} after {ms} ms");
        if let [event] = &events[..] {
            let found = (event.before.as_ref(), &event.after);
            assert_eq!(found, (Some(&base), next), "{name}");
        }
    }
}

#[test]
fn a_delayed_change_is_published_when_the_interval_is_over() {
    let mut generator = TrackEventGenerator::new(Duration::from_millis(500));
    let at = |x: f32| {
        [Track {
            xyxy: [x, 0.0, x + 100.0, 100.0],
            ..active(1)
        }]
    };
    step(&mut generator, 0, &at(0.0));
    let published: Vec<_> = (1..=12)
        .filter(|i| !step(&mut generator, i * 100, &at(*i as f32 * 10.0)).is_empty())
        .collect();
    assert_eq!(published, [5, 10]);
}

#[test]
fn a_clock_set_back_does_not_suppress_updates() {
    let mut generator = TrackEventGenerator::new(Duration::from_millis(500));
    step(&mut generator, 100_000, &[active(1)]);
    let moved = Track {
        xyxy: [50.0, 0.0, 150.0, 100.0],
        ..active(1)
    };
    let found = kinds(&step(&mut generator, 40, &[moved]));
    assert_eq!(found, [(EventKind::Update, 1)]);
}

#[test]
fn the_start_is_known_for_each_of_several_tentative_tracks() {
    let mut generator = TrackEventGenerator::new(Duration::ZERO);
    let tentative = |age: u32| Track {
        age_frames: age,
        ..track(0, TrackState::Tentative)
    };
    let confirmed = |id: u64, age: u32| Track {
        age_frames: age,
        ..active(id)
    };
    step(&mut generator, 0, &[]);
    step(&mut generator, 10, &[tentative(1)]);
    step(&mut generator, 20, &[tentative(2), tentative(1)]);
    let first = step(&mut generator, 30, &[confirmed(1, 3), tentative(2)]);
    let second = step(&mut generator, 40, &[confirmed(1, 4), confirmed(2, 3)]);
    assert_eq!(first[0].started_at, time(10));
    assert_eq!(second[0].started_at, time(20));
    // Only capture times that a tentative track may need are stored.
    assert_eq!(generator.frames.len(), 1);
}

#[test]
fn a_track_that_was_never_published_ends_without_an_event() {
    let mut generator = TrackEventGenerator::new(Duration::ZERO);
    let tentative_tracks = [
        track(0, TrackState::Tentative),
        track(4, TrackState::Lost),
        track(5, TrackState::Ended),
    ];
    assert_eq!(step(&mut generator, 0, &tentative_tracks), []);
    assert_eq!(generator.confirmed(), 0);
}

#[test]
fn finish_ends_every_track_once_in_order() {
    let mut generator = TrackEventGenerator::new(Duration::ZERO);
    step(&mut generator, 0, &[active(2), active(1)]);
    step(
        &mut generator,
        10,
        &[
            Track {
                state: TrackState::Lost,
                ..active(2)
            },
            active(1),
        ],
    );
    assert_eq!(generator.confirmed(), 2);
    let mut events = Vec::new();
    generator.finish(&mut events);
    assert_eq!(kinds(&events), [(EventKind::End, 1), (EventKind::End, 2)]);
    assert!(
        events
            .iter()
            .all(|event| event.after.state == TrackState::Ended && event.frame_at == time(10))
    );
    let found = events
        .iter()
        .map(|event| event.ended_at)
        .collect::<Vec<_>>();
    assert_eq!(found, [Some(time(10)), Some(time(0))]);
    let found = generator.count_changes();
    assert_eq!(found, [ClassCount { class: 0, count: 0 }]);
    events.clear();
    generator.finish(&mut events);
    assert_eq!(events, []);
    assert_eq!(generator.count_changes(), []);
}

#[test]
fn counts_follow_active_tracks_and_go_back_to_zero() {
    let mut generator = TrackEventGenerator::new(Duration::from_secs(9));
    let of = |id: u64, class: u16, state: TrackState| Track {
        class,
        ..track(id, state)
    };
    use TrackState::{Active, Ended, Lost, Tentative};
    type Step<'a> = (&'a [Track], &'a [(u16, usize)]);
    #[rustfmt::skip]
    let steps: [Step<'_>; 6] = [
        (&[of(0, 5, Tentative)], &[]),
        (&[of(1, 5, Active), of(2, 3, Active)], &[(3, 1), (5, 1)]),
        (&[of(1, 5, Active), of(2, 3, Active), of(3, 5, Active)], &[(5, 2)]),
        (&[of(1, 5, Active), of(2, 3, Lost), of(3, 3, Active)], &[(5, 1)]),
        (&[of(1, 5, Active), of(2, 3, Ended), of(3, 3, Active)], &[]),
        (&[], &[(3, 0), (5, 0)]),
    ];
    for (frame, (tracks, expected)) in steps.iter().enumerate() {
        step(&mut generator, frame as u64, tracks);
        let changes: Vec<_> = generator
            .count_changes()
            .iter()
            .map(|change| (change.class, change.count))
            .collect();
        assert_eq!(changes, *expected, "frame {frame}");
    }
}

#[test]
fn attributes_are_published_at_once_and_stay() {
    let color = |label: &str, score| {
        Attributes::from(vec![jetwatch_types::Attribute {
            name: "color".into(),
            label: label.into(),
            score,
            xyxy: None,
        }])
    };
    let mut generator = TrackEventGenerator::new(Duration::from_secs(60));
    step(&mut generator, 0, &[active(1)]);
    let mut events = Vec::new();
    generator.set_attributes(TrackId(9), color("red", 0.5), &mut events);
    assert!(events.is_empty(), "track 9 was never published");
    generator.set_attributes(TrackId(1), color("red", 0.5), &mut events);
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert_eq!(event.kind, EventKind::Update);
    let found = event.before.as_ref().map(|track| track.attributes.len());
    assert_eq!(found, Some(0));
    assert_eq!(event.after.attributes, color("red", 0.5));
    // A new score alone causes no event, but later events show it.
    generator.set_attributes(TrackId(1), color("red", 0.7), &mut events);
    assert_eq!(events.len(), 1);
    assert!(step(&mut generator, 30, &[active(1)]).is_empty());
    let ended = step(&mut generator, 40, &[track(1, TrackState::Ended)]);
    assert_eq!(ended[0].after.attributes, color("red", 0.7));
}

#[test]
fn a_clock_that_is_set_does_not_change_durations() {
    let mut generator = TrackEventGenerator::new(Duration::from_millis(500));
    let mut events = Vec::new();
    let hour = Duration::from_secs(3600);
    for (ms, set) in [(0, hour), (100, hour), (200, Duration::ZERO)] {
        let mut meta = meta(ms);
        meta.captured_at += set;
        generator.step(&meta, &[track_of_age(1, ms / 100 + 1)], &mut events);
    }
    generator.finish(&mut events);
    let end = events.last().expect("the end");
    assert_eq!(end.kind, EventKind::End);
    assert_eq!(end.duration, Duration::from_millis(200));
    // The clock was set back.
    assert!(end.ended_at.expect("an end") < end.started_at);
}

/// An active track whose first frame was `age` frames ago, this one included.
fn track_of_age(id: u64, age: u64) -> Track {
    Track {
        age_frames: age as u32,
        ..active(id)
    }
}

#[test]
fn tracks_that_flicker_are_not_published_as_lost() {
    let hold = Duration::from_millis(500);
    let update_interval = Duration::from_millis(200);
    let mut generator =
        TrackEventGenerator::new(update_interval).with_lost_hold(hold, FrameClock::default());
    // Every second frame misses the object, which moves: updates have the state of the frames that do not.
    let mut states = Vec::new();
    for frame in 0..40_u64 {
        let left = frame as f32 * 10.0;
        let moved = Track {
            xyxy: [left, 0.0, left + 100.0, 100.0],
            ..track(
                1,
                if frame % 2 == 0 {
                    TrackState::Active
                } else {
                    TrackState::Lost
                },
            )
        };
        let events = step(&mut generator, frame * 100, &[moved]);
        states.extend(events.iter().map(|event| event.after.state));
    }
    assert_eq!(states.len(), 20, "the first, and one each 200 ms");
    assert!(
        states.iter().all(|state| *state == TrackState::Active),
        "{states:?}"
    );
}

#[test]
fn lost_tracks_are_published_after_the_hold_and_found_ones_at_once() {
    let hold = Duration::from_millis(500);
    let generator = TrackEventGenerator::new(Duration::ZERO);
    let mut generator = generator.with_lost_hold(hold, FrameClock::default());
    let mut changes = Vec::new();
    // Found after 400 ms, lost for longer, found, and lost until its end.
    for (ms, state) in [
        (0, TrackState::Active),
        (100, TrackState::Lost),
        (500, TrackState::Active),
        (600, TrackState::Lost),
        (1099, TrackState::Lost),
        (1100, TrackState::Lost),
        (1200, TrackState::Lost),
        (1300, TrackState::Active),
        (1400, TrackState::Lost),
        (1500, TrackState::Ended),
    ] {
        let events = step(&mut generator, ms, &[track(1, state)]);
        changes.extend(events.iter().map(|event| (ms, event.after.state)));
    }
    let wanted = [
        (0, TrackState::Active),
        (1100, TrackState::Lost),
        (1300, TrackState::Active),
        (1500, TrackState::Ended),
    ];
    assert_eq!(changes, wanted);
}
