// SPDX-License-Identifier: Apache-2.0
//! Counts as they are published: one that rises at once, one that falls once it has been lower for the hold time. An object that
//! is missed in single frames does not change them.
//!
//! What is published is the greatest value of the last hold time. Pure: time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

/// One count.
#[derive(Debug, Clone, Default)]
pub(crate) struct CountHold {
    now: u32,
    /// Higher values within the hold time, each with the time at which it ended; oldest and greatest first.
    higher: VecDeque<(Duration, u32)>,
    published: u32,
}

impl CountHold {
    /// Takes the count of a frame at `at`. Returns the value to publish where that has changed.
    pub(crate) fn step(&mut self, count: u32, at: Duration, hold: Duration) -> Option<u32> {
        if count < self.now {
            while self
                .higher
                .back()
                .is_some_and(|(_, value)| *value <= self.now)
            {
                self.higher.pop_back();
            }
            self.higher.push_back((at, self.now));
        }
        self.now = count;
        while self.higher.back().is_some_and(|(_, value)| *value <= count) {
            self.higher.pop_back();
        }
        while let Some((ended, _)) = self.higher.front()
            && at.saturating_sub(*ended) >= hold
        {
            self.higher.pop_front();
        }
        self.publish()
    }

    /// Ends the hold: the value of the newest frame counts. Returns it where it was not published.
    pub(crate) fn settle(&mut self, count: u32) -> Option<u32> {
        self.now = count;
        self.higher.clear();
        self.publish()
    }

    /// The value that was returned last; 0 at first.
    pub(crate) fn published(&self) -> u32 {
        self.published
    }

    /// Whether later frames may change what is published although the count stays.
    pub(crate) fn is_held(&self) -> bool {
        !self.higher.is_empty()
    }

    fn publish(&mut self) -> Option<u32> {
        let held = self.higher.front().map_or(self.now, |(_, value)| *value);
        let before = std::mem::replace(&mut self.published, held);
        (before != held).then_some(held)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// What is published for counts at times in ms, with a hold of 500 ms.
    fn published(counts: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let mut hold = CountHold::default();
        let step = |&(at, count): &(u32, u32)| Some((at, hold.step(count, MS * at, 500 * MS)?));
        counts.iter().filter_map(step).collect()
    }

    #[test]
    fn counts_rise_at_once_and_fall_after_the_hold() {
        let flicker = [
            (0, 6),
            (33, 5),
            (66, 6),
            (100, 5),
            (133, 6),
            (166, 7),
            (200, 6),
        ];
        assert_eq!(published(&flicker), [(0, 6), (166, 7)]);
        let falls = [
            (0, 6),
            (100, 5),
            (400, 4),
            (599, 4),
            (600, 4),
            (899, 4),
            (900, 4),
            (950, 5),
        ];
        assert_eq!(published(&falls), [(0, 6), (600, 5), (900, 4), (950, 5)]);
    }

    #[test]
    fn without_a_hold_each_change_counts_and_the_end_does_not_wait() {
        let mut hold = CountHold::default();
        let counts = [3, 2, 2, 3, 0].map(|count| hold.step(count, Duration::ZERO, Duration::ZERO));
        assert_eq!(counts, [Some(3), Some(2), None, Some(3), Some(0)]);
        hold.step(4, MS, 500 * MS);
        assert_eq!(hold.step(1, 2 * MS, 500 * MS), None);
        assert!(hold.is_held());
        assert_eq!(
            (hold.settle(1), hold.settle(0), hold.settle(0)),
            (Some(1), Some(0), None)
        );
        assert!(!hold.is_held());
    }

    proptest! {
        #[test]
        fn the_published_count_is_the_greatest_within_the_hold(
            steps in prop::collection::vec((0..300_u32, 0..6_u32), 1..60),
            hold_ms in 0..600_u32,
        ) {
            let mut hold = CountHold::default();
            let mut at = 0;
            let mut frames: Vec<(u32, u32)> = vec![(0, 0)];
            for (after, count) in steps {
                at += after;
                hold.step(count, MS * at, MS * hold_ms);
                frames.push((at, count));
                // A count was in force until the next frame.
                let ends = frames.iter().skip(1).map(|(end, _)| *end).chain([u32::MAX]);
                let within = frames.iter().zip(ends).filter(|(_, end)| at < end.saturating_add(hold_ms));
                let greatest = within.map(|((_, count), _)| *count).max();
                prop_assert_eq!(Some(hold.published()), greatest, "at {}: {:?}", at, frames);
            }
        }
    }
}
