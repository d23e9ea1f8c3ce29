//! Repeated log lines as a counter. Pure.

/// The last logged text and its repeats.
#[derive(Debug, Default)]
pub(super) struct LogDedup {
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
}
