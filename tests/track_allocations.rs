// SPDX-License-Identifier: Apache-2.0
//! Trackers allocate only while the number of objects reaches a new maximum: counted by the allocator, which is why this is a program
//! of its own.

use std::alloc::System;

use jetwatch_config::{Association, TrackerConfig, TrackerKind};
use jetwatch_track::Tracker;
use jetwatch_types::Detection;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Allocations and reallocations since the start.
fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

/// 40 people on a ring road: each moves by a few pixels per frame, a sixth of them hidden in turns, all visible again after
/// 120 frames.
fn frame(at: u64) -> Vec<Detection> {
    let object = |id: u64| {
        let step = (at + id * 3) % 120;
        let x = step as f32 * 8.0;
        let y = (id * 60) as f32;
        let hidden = (at / 7 + id).is_multiple_of(6);
        (!hidden).then_some(Detection {
            class: (id % 3) as u16,
            score: 0.35 + 0.6 * ((id + at) % 5) as f32 / 5.0,
            xyxy: [x, y, x + 30.0, y + 50.0],
        })
    };
    (0..40).filter_map(object).collect()
}

#[test]
fn trackers_do_not_allocate_in_steady_state() {
    for kind in [
        TrackerKind::Iou,
        TrackerKind::Sort,
        TrackerKind::ByteTrack,
        TrackerKind::OcSort,
    ] {
        for association in [Association::Greedy, Association::Optimal] {
            for (carries, reassociate_frames) in [(false, 0), (false, 20), (true, 0), (true, 20)] {
                let config = TrackerConfig {
                    association,
                    reassociate_frames,
                    ..TrackerConfig::new(kind)
                };
                let mut tracker = match carries {
                    true => Tracker::with_coasting(&config),
                    false => Tracker::new(&config),
                };
                let frames: Vec<_> = (0..840).map(frame).collect();
                let mut met = 0;
                let mut run = |frames: &[Vec<Detection>]| {
                    for (at, detections) in frames.iter().enumerate() {
                        met += match carries && at % 4 != 0 {
                            true => tracker.coast().len(),
                            false => tracker.update(detections).len(),
                        };
                    }
                };
                // Several rounds of what is hidden when: tracks differ from round to round, and so does the largest group.
                (0..6).for_each(|_| run(&frames));
                let before = allocations();
                run(&frames);
                let asked = allocations() - before;
                assert_eq!(
                    asked, 0,
                    "{kind:?} {association:?} {carries} {reassociate_frames}"
                );
                assert!(met > 1000, "{met} tracks");
            }
        }
    }
}
