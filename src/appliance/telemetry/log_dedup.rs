//! Repeated log lines as a counter. Pure: the caller logs, and gives the time.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Logs a text once until another one comes: for a state that lasts, such as a broker that does not answer.
#[derive(Debug, Default)]
pub struct LogDedup {
    last: String,
    repeats: u64,
}

impl LogDedup {
    /// `Some(repeats of the previous text that were not logged)` when `text` differs and is to be logged; `None` when it repeats.
    pub fn admit(&mut self, text: &str) -> Option<u64> {
        if self.last == text {
            self.repeats += 1;
            return None;
        }
        text.clone_into(&mut self.last);
        Some(std::mem::take(&mut self.repeats))
    }

    /// Resets; returns how often the last text was repeated without being logged.
    pub fn reset(&mut self) -> u64 {
        self.last.clear();
        std::mem::take(&mut self.repeats)
    }
}

/// Logs each key, such as a place in the code, at most once per interval.
#[derive(Debug)]
pub struct LogRateLimit<K> {
    interval: Duration,
    max_keys: usize,
    /// Per key: when it was logged last, and its repeats since.
    keys: HashMap<K, (Instant, u64)>,
}

impl<K: Hash + Eq> LogRateLimit<K> {
    /// At most `max_keys` keys are remembered; a key beyond them is logged each time.
    #[must_use]
    pub fn new(interval: Duration, max_keys: usize) -> Self {
        Self {
            interval,
            max_keys,
            keys: HashMap::new(),
        }
    }

    /// `Some(repeats of this key since it was last logged)` when it is to be logged now.
    pub fn admit(&mut self, key: K, now: Instant) -> Option<u64> {
        if let Some((last, repeats)) = self.keys.get_mut(&key) {
            if now.duration_since(*last) < self.interval {
                *repeats += 1;
                return None;
            }
            *last = now;
            return Some(std::mem::take(repeats));
        }
        if self.keys.len() < self.max_keys {
            self.keys.insert(key, (now, 0));
        }
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_texts_are_logged_once() {
        let mut repeats = LogDedup::default();
        assert_eq!(repeats.admit("down"), Some(0));
        assert_eq!(repeats.admit("down"), None);
        assert_eq!(repeats.admit("down"), None);
        assert_eq!(repeats.admit("refused"), Some(2));
        assert_eq!(repeats.admit("refused"), None);
        assert_eq!(repeats.reset(), 1);
        assert_eq!(repeats.admit("refused"), Some(0));
    }

    #[test]
    fn repeated_log_location_is_counted() {
        let interval = Duration::from_secs(10);
        let mut repeats = LogRateLimit::new(interval, 2);
        let start = Instant::now();
        assert_eq!(repeats.admit(("decode", 7), start), Some(0));
        let later = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(repeats.admit(("decode", 7), later(1)), None);
        assert_eq!(repeats.admit(("decode", 7), later(2)), None);
        assert_eq!(repeats.admit(("decode", 8), start), Some(0), "another line");
        assert_eq!(repeats.admit(("decode", 7), start + interval), Some(2));
        for _ in 0..2 {
            assert_eq!(
                repeats.admit(("decode", 9), start),
                Some(0),
                "a key too many"
            );
        }
    }
}
