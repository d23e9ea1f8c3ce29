//! Repeated log lines as a counter. Pure.

/// Remembers what was said last.
#[derive(Debug, Default)]
pub(super) struct LogDedup {
    last: String,
    repeats: u64,
}

impl LogDedup {
    /// `Some(how often the previous text was repeated unsaid)` when `text` is new and should be said; `None` when it was just said.
    pub fn admit(&mut self, text: &str) -> Option<u64> {
        if self.last == text {
            self.repeats += 1;
            return None;
        }
        text.clone_into(&mut self.last);
        Some(std::mem::take(&mut self.repeats))
    }

    /// Forgets; returns how often the last text was repeated unsaid.
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
