// SPDX-License-Identifier: Apache-2.0
//! Turns of sources, and the interval that follows the load.

use super::*;

fn fixed(intervals: &[u32]) -> IntervalController {
    let members: Vec<_> = intervals
        .iter()
        .map(|&frames| SourceKind {
            interval: Interval::Frames(frames),
            is_live: true,
        })
        .collect();
    IntervalController::new(&members, 5, 1)
}

#[test]
fn every_nth_frame_is_inferred_and_sources_are_staggered() {
    let mut controller = fixed(&[3, 3, 3, 3, 0]);
    for _ in 0..10 {
        let through: Vec<Vec<usize>> = (0..4)
            .map(|_| {
                (0..5)
                    .filter(|&source| !controller.should_skip(source))
                    .collect()
            })
            .collect();
        assert_eq!(through, [[0, 4], [1, 4], [2, 4], [3, 4]]);
    }
    assert_eq!((controller.skipped(0), controller.skipped(4)), (30, 0));
}

#[test]
fn added_sources_get_their_own_turn_and_removed_ones_release_it() {
    let mut controller = fixed(&[2, 2]);
    let member = SourceKind {
        interval: Interval::Frames(2),
        is_live: true,
    };
    controller.add_source(member);
    let through: Vec<Vec<usize>> = (0..3)
        .map(|_| {
            (0..3)
                .filter(|&source| !controller.should_skip(source))
                .collect()
        })
        .collect();
    assert_eq!(through, [[0], [1], [2]]);
    controller.add_source(SourceKind {
        interval: Interval::Adaptive,
        ..member
    });
    assert!(controller.is_due(Instant::now()));
    controller.remove_source(3);
    // No source adapts any more.
    assert!(!controller.is_due(Instant::now()));
}

#[test]
fn queued_frames_do_not_raise_interval_twice() {
    let member = SourceKind {
        interval: Interval::Adaptive,
        is_live: true,
    };
    let mut controller = IntervalController::new(&[member; 4], 8, 1);
    let (start, mut sums) = (
        Instant::now(),
        Totals {
            offered: 0,
            others: 0,
            dropped: 0,
            waiting: 0,
            busy_time: Duration::ZERO,
        },
    );
    let mut chosen = Vec::new();
    // In the second second, the last four frames of the first are dropped; in the fourth, four that came meanwhile.
    for (second, (offered, dropped)) in (0..).zip([(0, 0), (100, 50), (33, 4), (33, 0), (33, 4)]) {
        sums.offered += offered;
        sums.dropped += dropped;
        sums.waiting = 4;
        sums.busy_time += Duration::from_millis(20 * (offered - dropped));
        controller.sample(start + second * SAMPLE_INTERVAL, sums);
        chosen.push(controller.interval(3));
    }
    assert_eq!(chosen, [0, 2, 2, 2, 3]);
}

#[test]
fn file_sources_have_fixed_interval() {
    let member = |is_live| SourceKind {
        interval: Interval::Adaptive,
        is_live,
    };
    let controller = IntervalController::new(&[member(true), member(false)], 5, 1);
    assert!(controller.is_adaptive(0) && !controller.is_adaptive(1));
    assert!(controller.is_due(Instant::now()));
    assert!(!IntervalController::new(&[member(false)], 5, 1).is_due(Instant::now()));
}

/// The interval that an [`AdaptiveInterval`] selects each second, for `wanted` frames/s and a network that processes `able` of them.
fn run_controller(
    adaptive: &mut AdaptiveInterval,
    wanted: u64,
    able: u64,
    seconds: usize,
) -> Vec<u32> {
    let mut chosen = Vec::new();
    for _ in 0..seconds {
        let offered = wanted / u64::from(adaptive.interval + 1);
        let dropped = offered.saturating_sub(able);
        let load = (offered as f64 / able as f64).min(1.0);
        chosen.push(adaptive.step(LoadSample {
            offered,
            others: 0,
            dropped,
            load,
        }));
    }
    chosen
}

#[test]
fn drops_raise_interval_immediately_to_required_value() {
    let mut adaptive = AdaptiveInterval::new(8);
    assert_eq!(run_controller(&mut adaptive, 100, 30, 4), [3, 3, 3, 3]);
    // Half of the frames would take all of its time.
    let mut adaptive = AdaptiveInterval::new(8);
    assert_eq!(run_controller(&mut adaptive, 100, 50, 4), [2, 2, 2, 2]);
    let mut adaptive = AdaptiveInterval::new(2);
    // The most allowed.
    assert_eq!(run_controller(&mut adaptive, 100, 10, 3), [2, 2, 2]);
}

#[test]
fn load_of_other_sources_is_included() {
    let mut adaptive = AdaptiveInterval::new(8);
    // 60 frames a second of others and 60 of these meet a network that can do 90: at an interval of 2, 80 are asked of it.
    let seen = |interval: u32| LoadSample {
        offered: 60 / u64::from(interval + 1),
        others: 60,
        dropped: (60 + 60 / u64::from(interval + 1)).saturating_sub(90),
        load: (60.0 + 60.0 / f64::from(interval + 1)) / 90.0,
    };
    let mut interval = 0;
    for _ in 0..20 {
        interval = adaptive.step(seen(interval));
    }
    assert!(seen(interval).dropped == 0 && interval < 8, "{interval}");
    // Where nothing helps, these ask for the least.
    let mut adaptive = AdaptiveInterval::new(8);
    let hopeless = LoadSample {
        offered: 60,
        others: 100,
        dropped: 70,
        load: 1.0,
    };
    assert_eq!(adaptive.step(hopeless), 8);
}

#[test]
fn stable_load_lowers_interval_to_minimum_that_fits() {
    let mut adaptive = AdaptiveInterval::new(8);
    run_controller(&mut adaptive, 100, 30, 2);
    let chosen = run_controller(&mut adaptive, 50, 30, 12);
    assert_eq!(chosen.last(), Some(&1), "{chosen:?}");
    assert_eq!(chosen[0], 3, "not at once: {chosen:?}");
    let chosen = run_controller(&mut adaptive, 20, 30, 12);
    assert_eq!(chosen.last(), Some(&0), "{chosen:?}");
}

#[test]
fn one_sample_with_low_load_does_not_lower_it() {
    let mut adaptive = AdaptiveInterval::new(8);
    run_controller(&mut adaptive, 100, 30, 1);
    let mut look = |load| {
        adaptive.step(LoadSample {
            offered: 25,
            others: 0,
            dropped: 0,
            load,
        })
    };
    // At an interval of 2 it would be four thirds of that.
    let uneven = [0.68, 0.61, 0.6, 0.65, 0.62].repeat(4);
    let chosen: Vec<u32> = uneven.into_iter().map(&mut look).collect();
    assert_eq!(chosen, [3; 20]);
    let chosen: Vec<u32> = [0.62; 5].into_iter().map(look).collect();
    assert_eq!(chosen.last(), Some(&2), "{chosen:?}");
}

#[test]
fn failed_lowering_is_retried_only_after_load_drops() {
    // The load promises that a lower interval fits, and it never does: bursts.
    let mut adaptive = AdaptiveInterval::new(8);
    let mut tries = Vec::new();
    let mut look = |second: u32, load: f64| {
        let before = adaptive.interval;
        let seen = LoadSample {
            offered: 10,
            others: 0,
            dropped: u64::from(before == 0),
            load,
        };
        if adaptive.step(seen) < before {
            tries.push(second);
        }
    };
    (0..300).for_each(|second| look(second, 0.3));
    (300..400).for_each(|second| look(second, 0.25));
    // After a long calm it is tried again: times change.
    (400..900).for_each(|second| look(second, 0.24));
    let [first, again, late] = tries.as_slice() else {
        panic!("{tries:?}");
    };
    assert!(*first < 10, "{tries:?}");
    assert!((300..320).contains(again), "{tries:?}");
    assert!(*late > again + MAX_CALM_SAMPLES, "{tries:?}");
}
