// SPDX-License-Identifier: Apache-2.0
//! Waits that double with each failed attempt.

use std::time::Duration;

/// The wait before the next attempt: it doubles from the first to the longest.
///
/// ```
/// use std::time::Duration;
/// use jetwatch_types::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(3));
/// let waits: Vec<u64> = (0..4).map(|_| backoff.advance().as_secs()).collect();
/// assert_eq!(waits, [1, 2, 3, 3]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    wait: Duration,
}

impl Backoff {
    /// Waits from `first` to `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            wait: first.min(max),
        }
    }

    /// The current wait.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// Gives the current wait, and doubles it for the next time.
    pub fn advance(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = wait.saturating_mul(2).min(self.max);
        wait
    }

    /// Begins again with the first wait.
    pub fn reset(&mut self) {
        self.wait = self.first.min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_longest_and_begin_again() {
        let seconds = Duration::from_secs;
        let mut backoff = Backoff::new(seconds(1), seconds(5));
        let waits = [(); 5].map(|()| backoff.advance().as_secs());
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.wait(), seconds(1));
        assert_eq!(Backoff::new(seconds(9), seconds(5)).wait(), seconds(5));
    }
}
