// SPDX-License-Identifier: Apache-2.0
//! How fast late messages are sent: at a rate, and as many more as new ones come, so that the backlog always shrinks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::outbox::Pace;

/// Longest time of which the messages may be sent at once.
const BURST: Duration = Duration::from_millis(250);

/// A bucket of permissions.
#[derive(Debug)]
pub(super) struct ReplayPace {
    per_s: f64,
    tokens: f64,
    filled_at: Instant,
    /// New messages so far.
    made: Option<u64>,
}

impl ReplayPace {
    pub fn new(per_s: u32, now: Instant) -> Self {
        Self {
            per_s: f64::from(per_s),
            tokens: 0.0,
            filled_at: now,
            made: None,
        }
    }

    /// The permissions now, at `now_ms` since 1970; `made` messages were made since the start.
    pub fn now(&mut self, now_ms: u64, made: u64) -> Pace {
        let now = Instant::now();
        let passed = now.duration_since(self.filled_at);
        self.filled_at = now;
        self.add(passed, made);
        Pace {
            now_ms,
            tokens: self.tokens,
        }
    }

    fn add(&mut self, passed: Duration, made: u64) {
        let new = made - self.made.replace(made).unwrap_or(made);
        let limit = (self.per_s * BURST.as_secs_f64()).max(1.0) + new as f64;
        self.tokens = (self.tokens + passed.as_secs_f64() * self.per_s + new as f64).min(limit);
    }

    /// What is left of them.
    pub fn left(&mut self, pace: Pace) {
        self.tokens = pace.tokens;
    }
}

/// Milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_messages_are_sent_at_the_rate_beyond_that_of_new_ones() {
        let mut pace = ReplayPace::new(200, Instant::now());
        let mut sent = 0.0;
        for step in 0..100 {
            // 500 new messages a second.
            pace.add(Duration::from_millis(20), step * 10);
            let tokens = pace.tokens.floor();
            pace.tokens -= tokens;
            sent += tokens;
        }
        assert!((1380.0..=1400.0).contains(&sent), "{sent}");
        pace.add(Duration::from_secs(60), 990);
        assert_eq!(pace.tokens, 50.0, "no burst after a pause");
    }
}
