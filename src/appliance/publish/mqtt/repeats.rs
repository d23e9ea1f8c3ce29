//! Repeated log lines as a counter. Pure.

/// Remembers what was said last.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    last: String,
    repeats: u64,
}

impl Repeats {
    /// `Some(how often the previous text was repeated unsaid)` when `text` is new and should be said; `None` when it was just said.
    pub fn first(&mut self, text: &str) -> Option<u64> {
        if self.last == text {
            self.repeats += 1;
            return None;
        }
        text.clone_into(&mut self.last);
        Some(std::mem::take(&mut self.repeats))
    }

    /// Forgets; returns how often the last text was repeated unsaid.
    pub fn forget(&mut self) -> u64 {
        self.last.clear();
        std::mem::take(&mut self.repeats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_said_once_in_a_row() {
        let mut repeats = Repeats::default();
        assert_eq!(repeats.first("down"), Some(0));
        assert_eq!(repeats.first("down"), None);
        assert_eq!(repeats.first("down"), None);
        assert_eq!(repeats.first("refused"), Some(2));
        assert_eq!(repeats.first("refused"), None);
        assert_eq!(repeats.forget(), 1);
        assert_eq!(repeats.first("refused"), Some(0));
    }
}
