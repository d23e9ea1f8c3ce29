// SPDX-License-Identifier: Apache-2.0
//! The wall clock, and when it was set: a message does not age by an hour because the clock is set, by NTP or by hand.
//!
//! Messages have the time of the wall clock, which the next process understands, too. A reading that differs from the time that has passed is
//! a step. The times of messages from before it are corrected by it: those in the queues once, those in the log whenever they are read.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jetwatch_spool::ClockShift;

use super::replay_pace::unix_ms;

/// Smallest difference that is a step.
const MIN_STEP_MS: i64 = 500;

/// Steps that are known separately; older ones are merged.
const MAX_STEPS: usize = 16;

/// The clock, and its steps since the oldest message that waits.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    last: Option<(Instant, u64)>,
    /// Number of the last message that has a time.
    stamped_to: u64,
    /// By how many milliseconds the clock went forward, and the last message from before that; in order.
    steps: VecDeque<(u64, i64)>,
}

impl WallClock {
    /// Continues an earlier process, whose last message has the number `stamped_to`.
    pub fn resume(&mut self, stamped_to: u64, kept: ClockShift) {
        self.stamped_to = self.stamped_to.max(stamped_to);
        if kept.ms > 0 {
            let ms = i64::try_from(kept.ms).unwrap_or(i64::MAX);
            self.steps.push_front((kept.to, ms));
        }
    }

    /// Milliseconds since 1970, and by how many of them the clock was set since the last call.
    pub fn read(&mut self) -> (u64, i64) {
        self.note(Instant::now(), unix_ms())
    }

    fn note(&mut self, now: Instant, now_ms: u64) -> (u64, i64) {
        let step = self.last.map_or(0, |(at, before_ms)| {
            let passed = i64::try_from((now - at).as_millis()).unwrap_or(i64::MAX);
            difference(now_ms, before_ms).saturating_sub(passed)
        });
        self.last = Some((now, now_ms));
        if step.abs() < MIN_STEP_MS {
            return (now_ms, 0);
        }
        log::info!(seconds = step as f64 / 1000.0; "the clock was set; the age of messages that wait does not change");
        self.steps.push_back((self.stamped_to, step));
        if self.steps.len() > MAX_STEPS {
            let oldest = self.steps.pop_front().map_or(0, |(_, ms)| ms);
            if let Some((_, ms)) = self.steps.front_mut() {
                *ms = ms.saturating_add(oldest);
            }
        }
        (now_ms, step)
    }

    /// The messages up to `seq` have a time.
    pub fn stamped(&mut self, seq: u64) {
        self.stamped_to = seq;
    }

    /// What is to be added to the time of the message `seq`.
    pub fn shift(&self, seq: u64) -> i64 {
        let later = self.steps.iter().filter(|(to, _)| seq <= *to);
        later.fold(0, |sum, (_, ms)| sum.saturating_add(*ms))
    }

    /// The messages up to `acked` are done.
    pub fn forget(&mut self, acked: u64) {
        while self.steps.front().is_some_and(|(to, _)| *to <= acked) {
            self.steps.pop_front();
        }
    }

    /// What a later process has to know. With several steps, some messages count as younger than they are.
    pub fn kept(&self) -> ClockShift {
        let shifts = self.steps.iter().map(|(to, _)| self.shift(*to));
        let ms = shifts.max().unwrap_or(0).max(0);
        ClockShift {
            to: self.steps.back().map_or(0, |(to, _)| *to),
            ms: ms.unsigned_abs(),
        }
    }

    /// The time before which a message was made that is older than `age` now, for each first message of a segment.
    pub fn older_than(&self, now_ms: u64, age: Duration) -> impl Fn(u64) -> u64 + use<> {
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|(to, _)| (*to, self.shift(*to)))
            .collect();
        move |seq| {
            // The greatest one: a segment with messages from before and after a step goes with the younger ones.
            let shifts = steps.iter().filter(|(to, _)| seq <= *to).map(|(_, ms)| *ms);
            let shift = shifts.max().unwrap_or(0).max(0);
            now_ms
                .saturating_sub(age_ms)
                .saturating_sub(shift.unsigned_abs())
        }
    }
}

/// `later` less `earlier`.
fn difference(later: u64, earlier: u64) -> i64 {
    let ms = i128::from(later) - i128::from(earlier);
    i64::try_from(ms).unwrap_or(if ms < 0 { i64::MIN } else { i64::MAX })
}

/// A time that is corrected.
pub(crate) fn shifted(at_ms: u64, shift: i64) -> u64 {
    at_ms.saturating_add_signed(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const NOW_MS: u64 = 1_800_000_000_000;

    /// A clock that shows `ms` more than it ought to after each time, with ten messages before each.
    fn set(offsets: &[i64]) -> WallClock {
        let (mut clock, start) = (WallClock::default(), Instant::now());
        for (seconds, ms) in (0_u64..).zip(offsets) {
            let now_ms = shifted(NOW_MS + 1000 * seconds, *ms);
            clock.note(start + Duration::from_secs(seconds), now_ms);
            clock.stamped(10 * (seconds + 1));
        }
        clock
    }

    #[test]
    fn times_from_before_a_step_are_corrected_by_it() {
        let clock = set(&[0, 0, HOUR_MS, HOUR_MS, 0]);
        let shifts = [1, 20, 21, 40, 41].map(|seq| clock.shift(seq));
        assert_eq!(shifts, [0, 0, -HOUR_MS, -HOUR_MS, 0]);
        let clock = set(&[-HOUR_MS, 0]);
        assert_eq!([10, 11].map(|seq| clock.shift(seq)), [HOUR_MS, 0]);
    }

    #[test]
    fn drift_is_no_step() {
        let drifting: Vec<i64> = (0..100).map(|second| 400 * (second % 2)).collect();
        assert_eq!(set(&drifting).kept(), ClockShift::default());
    }

    #[test]
    fn clock_that_is_set_forward_makes_nothing_old() {
        let ten_days = 240 * HOUR_MS;
        let clock = set(&[0, ten_days]);
        let now_ms = shifted(NOW_MS + 1000, ten_days);
        let before = clock.older_than(now_ms, Duration::from_secs(3600));
        assert!(before(10) < NOW_MS, "made before the step");
        assert_eq!(before(11), now_ms - 3_600_000, "made after it");
        let mut next = WallClock::default();
        next.resume(20, clock.kept());
        let before = next.older_than(now_ms, Duration::from_secs(3600));
        assert!(before(10) < NOW_MS, "also for the next process");
        next.forget(10);
        assert_eq!(next.kept(), ClockShift::default());
    }

    #[test]
    fn steps_are_bounded() {
        let offsets: Vec<i64> = (0..100).map(|step| step * HOUR_MS).collect();
        let clock = set(&offsets);
        assert_eq!(clock.steps.len(), MAX_STEPS);
        assert_eq!(clock.shift(1), 99 * HOUR_MS, "none is forgotten");
    }
}
