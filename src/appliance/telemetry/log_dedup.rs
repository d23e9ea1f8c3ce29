// SPDX-License-Identifier: Apache-2.0
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

/// Lines that others can cause as often as they like, each with another text: some a minute, the others are counted.
#[derive(Debug, Default)]
pub struct LogBudget {
    begun: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogBudget {
    /// Lines in a minute.
    const LINES: u32 = 20;

    /// `Some(lines that were left out before)` when one may be logged now.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        let minute = Duration::from_secs(60);
        if self
            .begun
            .is_none_or(|begun| now.saturating_duration_since(begun) >= minute)
        {
            self.begun = Some(now);
            self.lines = 0;
        }
        if self.lines >= Self::LINES {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// Time without a line after the first failure of a kind; it doubles with each line.
const FIRST_QUIET: Duration = Duration::from_secs(60);

/// Longest time without a line while failures of a kind repeat.
const MAX_QUIET: Duration = Duration::from_secs(3600);

/// Kinds of failures that are remembered; with more, all are forgotten, so that they are logged again.
const MAX_KINDS: usize = 1024;

/// Logs failures that repeat, such as attempts to connect: the first of a kind at once, further ones after a minute, two
/// minutes, and so on up to an hour. Texts that differ in digits only are of one kind.
#[derive(Debug, Default)]
pub struct FailureLog {
    kinds: HashMap<String, Repeated>,
}

#[derive(Debug)]
struct Repeated {
    logged: Instant,
    /// Time after `logged` without a line.
    quiet: Duration,
    /// Failures since `logged`.
    repeats: u64,
}

impl FailureLog {
    /// `Some(failures of this kind since its last line)` when `text` is to be logged now.
    pub fn admit(&mut self, text: &str, now: Instant) -> Option<u64> {
        self.admit_kind(Self::kind_of(text), now)
    }

    /// What is the same in all texts of a kind.
    pub fn kind_of(text: &str) -> String {
        text.chars().filter(|c| !c.is_ascii_digit()).collect()
    }

    /// As [`admit`](Self::admit) for a failure of `kind`, which is compared as it is.
    pub fn admit_kind(&mut self, kind: String, now: Instant) -> Option<u64> {
        if let Some(known) = self.kinds.get_mut(&kind) {
            if now.saturating_duration_since(known.logged) < known.quiet {
                known.repeats += 1;
                return None;
            }
            known.logged = now;
            known.quiet = (known.quiet * 2).min(MAX_QUIET);
            return Some(std::mem::take(&mut known.repeats));
        }
        if self.kinds.len() >= MAX_KINDS {
            self.kinds.clear();
        }
        let first = Repeated {
            logged: now,
            quiet: FIRST_QUIET,
            repeats: 0,
        };
        self.kinds.insert(kind, first);
        Some(0)
    }

    /// Forgets all failures, after a success that lasted: the next one is logged at once.
    pub fn reset(&mut self) {
        self.kinds.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_budget_are_counted() {
        let (mut budget, start) = (LogBudget::default(), Instant::now());
        let admitted = (0..1000).filter(|_| budget.admit(start).is_some()).count();
        assert_eq!(admitted, 20);
        assert_eq!(budget.admit(start + Duration::from_secs(59)), None);
        assert_eq!(budget.admit(start + Duration::from_secs(60)), Some(981));
        assert_eq!(budget.admit(start + Duration::from_secs(60)), Some(0));
    }

    #[test]
    fn repeated_failures_are_logged_at_doubling_intervals_up_to_an_hour() {
        let mut failures = FailureLog::default();
        let start = Instant::now();
        let mut logged = Vec::new();
        for second in 0..4 * 3600_u64 {
            let text = format!("no frame for {} ms", 5000 + second % 100);
            if let Some(repeats) = failures.admit(&text, start + Duration::from_secs(second)) {
                logged.push((second, repeats));
            }
        }
        let expected = [
            (0, 0),
            (60, 59),
            (180, 119),
            (420, 239),
            (900, 479),
            (1860, 959),
            (3780, 1919),
            (7380, 3599),
            (10_980, 3599),
        ];
        assert_eq!(logged, expected);
    }

    #[test]
    fn alternating_failures_are_of_two_kinds_and_logged_again_after_a_success() {
        let mut failures = FailureLog::default();
        let now = Instant::now();
        for text in ["taken over", "lost, 3 times in a row"] {
            assert_eq!(failures.admit(text, now), Some(0), "{text}");
        }
        for text in ["taken over", "lost, 4 times in a row", "taken over"] {
            assert_eq!(failures.admit(text, now), None, "{text}");
        }
        failures.reset();
        assert_eq!(failures.admit("taken over", now), Some(0));
    }

    #[test]
    fn kinds_are_bounded() {
        let mut failures = FailureLog::default();
        for letters in 0..1000 {
            let text = "x".repeat(letters);
            assert_eq!(failures.admit(&text, Instant::now()), Some(0));
            assert!(failures.kinds.len() <= MAX_KINDS);
        }
    }

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
            // A key too many.
            assert_eq!(repeats.admit(("decode", 9), start), Some(0));
        }
    }
}
