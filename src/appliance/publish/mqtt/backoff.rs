// SPDX-License-Identifier: Apache-2.0
//! The delay before the next attempt. Pure, except for the jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use jetwatch_types::Backoff;

const INITIAL_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Delays that double from 0.5 s to 30 s, each shortened by up to a quarter at random, so that the devices of a site do
/// not reconnect at the same instant.
#[derive(Debug)]
pub(crate) struct JitteredBackoff(Backoff);

impl Default for JitteredBackoff {
    fn default() -> Self {
        Self(Backoff::new(INITIAL_DELAY, MAX_DELAY))
    }
}

impl JitteredBackoff {
    /// The delay after one more failure.
    pub fn failed(&mut self) -> Duration {
        shortened(self.0.advance())
    }

    /// The delay after a refusal that only a change can resolve.
    pub fn refused(&mut self) -> Duration {
        self.0.advance();
        shortened(MAX_DELAY)
    }

    /// Resets after a stable connection: the next failure counts as the first.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

/// `wait` less up to a quarter. The randomness of the standard library's hash keys is enough to make devices differ.
fn shortened(wait: Duration) -> Duration {
    let share = RandomState::new().hash_one(0_u8) % 1024;
    wait - wait.mul_f64(share as f64 / 4096.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_thirty_seconds_with_jitter() {
        let mut backoff = JitteredBackoff::default();
        for full_ms in [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000] {
            let wait = backoff.failed();
            let full = Duration::from_millis(full_ms);
            assert!(
                wait <= full && wait >= full.mul_f64(0.74),
                "{wait:?} of {full:?}"
            );
        }
        backoff.reset();
        assert!(backoff.failed() <= Duration::from_millis(500));
        assert!(backoff.refused() >= Duration::from_secs(22));
    }
}
