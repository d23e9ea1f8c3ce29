// SPDX-License-Identifier: Apache-2.0
//! When memory of code that only the start of something needed is given back.

use std::time::{Duration, Instant};

use jetwatch_detect::release_code;

/// After a start: sources connect within seconds, cameras that are slow within a minute.
const DELAYS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// Gives back code some times after a start.
#[derive(Debug)]
pub(super) struct CodeRelease {
    started: Instant,
    done: usize,
}

impl CodeRelease {
    /// Something starts at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            started: now,
            done: 0,
        }
    }

    /// Called often.
    pub(super) fn run(&mut self, now: Instant) {
        if self.is_due(now) {
            let bytes = release_code();
            log::debug!(bytes; "gave back code that only the start needed");
        }
    }

    /// Whether it is time, once for each delay.
    fn is_due(&mut self, now: Instant) -> bool {
        let delay = DELAYS.get(self.done);
        let is_due = delay.is_some_and(|delay| now >= self.started + *delay);
        self.done += usize::from(is_due);
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delay_is_over_once() {
        let started = Instant::now();
        let mut release = CodeRelease::new(started);
        let mut due = Vec::new();
        for second in 0..200 {
            if release.is_due(started + Duration::from_secs(second)) {
                due.push(second);
            }
        }
        assert_eq!(due, [1, 10, 60]);
    }
}
