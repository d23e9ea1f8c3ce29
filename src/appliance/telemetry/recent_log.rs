// SPDX-License-Identifier: Apache-2.0
//! The newest warnings and errors of the log, for who asks the running daemon. The logger adds to it; what is less than a warning is
//! not kept.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use log::{Level, Record};
use parking_lot::Mutex;

/// Lines that are kept.
const MAX_LINES: usize = 200;

/// Longest text that is kept, in bytes.
const MAX_TEXT_BYTES: usize = 1000;

/// Number of errors since the start.
static ERRORS: AtomicU64 = AtomicU64::new(0);

static LINES: Mutex<VecDeque<LogLine>> = Mutex::new(VecDeque::new());

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written.
    pub at: SystemTime,
    /// Warning or error.
    pub level: Level,
    /// The source that it is about.
    pub source: Option<String>,
    /// Its text.
    pub text: String,
}

/// The newest warnings and errors, the oldest first.
pub fn lines() -> Vec<LogLine> {
    LINES.lock().iter().cloned().collect()
}

/// Number of errors since the start; of lines that repeat, those that were written.
pub fn error_count() -> u64 {
    ERRORS.load(Ordering::Relaxed)
}

/// Keeps `record` where it is a warning or an error.
pub(super) fn keep(record: &Record<'_>) {
    if record.level() > Level::Warn {
        return;
    }
    if record.level() == Level::Error {
        ERRORS.fetch_add(1, Ordering::Relaxed);
    }
    let source = record.key_values().get(log::kv::Key::from("source"));
    let mut text = record.args().to_string();
    if text.len() > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push('…');
    }
    let line = LogLine {
        at: SystemTime::now(),
        level: record.level(),
        source: source.map(|source| source.to_string()),
        text,
    };
    let mut lines = LINES.lock();
    if lines.len() == MAX_LINES {
        lines.pop_front();
    }
    lines.push_back(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_warnings_are_kept() {
        let write = |level, text: &str| {
            let fields = [("source", "gate")];
            let mut builder = Record::builder();
            builder.level(level).key_values(&fields);
            keep(&builder.args(format_args!("{text}")).build());
        };
        write(Level::Info, "not kept");
        write(Level::Error, &"ü".repeat(MAX_TEXT_BYTES));
        let kept = lines().pop().expect("a line");
        assert_eq!(
            (kept.level, kept.source.as_deref()),
            (Level::Error, Some("gate"))
        );
        assert!(kept.text.len() <= MAX_TEXT_BYTES + 3 && kept.text.ends_with("ü…"));
        for number in 0..MAX_LINES {
            write(Level::Warn, &number.to_string());
        }
        let kept = lines();
        assert_eq!(kept.len(), MAX_LINES);
        assert_eq!(kept[0].text, "0");
    }
}
