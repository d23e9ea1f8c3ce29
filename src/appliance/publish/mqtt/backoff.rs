//! The delay before the next attempt. Pure, except for the jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const INITIAL_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Delays that double from 0.5 s to 30 s, each shortened by up to a quarter at random, so that the devices of a site do
/// not reconnect at the same instant.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The delay after one more failure.
    pub fn failed(&mut self) -> Duration {
        let doubled = INITIAL_DELAY.saturating_mul(1 << self.failures.min(6));
        self.failures = self.failures.saturating_add(1);
        shortened(doubled.min(MAX_DELAY))
    }

    /// The delay after a refusal that only a change can resolve.
    pub fn refused(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        shortened(MAX_DELAY)
    }

    /// Resets after a stable connection: the next failure counts as the first.
    pub fn reset(&mut self) {
        self.failures = 0;
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
        let mut backoff = Backoff::default();
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
