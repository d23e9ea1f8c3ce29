//! Results of checks, one line each: what was looked at, whether it is right, and what was seen.

use super::Exit;

/// Prints results as they come and counts those that are wrong.
#[derive(Debug, Default)]
pub(super) struct Lines {
    wrong: usize,
    found: Vec<Line>,
}

/// One result.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct Line {
    /// `ok`, `wrong` or `unknown`.
    pub(super) state: &'static str,
    /// What was looked at.
    pub(super) what: String,
    /// What was seen, and what to do where it is not right.
    pub(super) text: String,
}

impl Lines {
    /// It is as it should be.
    pub(super) fn ok(&mut self, what: &str, text: &str) {
        self.say("ok", what, text);
    }

    /// It is not, and that matters.
    pub(super) fn wrong(&mut self, what: &str, text: &str) {
        self.wrong += 1;
        self.say("wrong", what, text);
    }

    /// It could not be seen here.
    pub(super) fn unknown(&mut self, what: &str, text: &str) {
        self.say("unknown", what, text);
    }

    fn say(&mut self, state: &'static str, what: &str, text: &str) {
        println!("{state:<6} {what}: {text}");
        self.found.push(Line {
            state,
            what: what.to_owned(),
            text: text.to_owned(),
        });
    }

    /// Whether nothing was wrong.
    pub(super) fn is_right(&self) -> bool {
        self.wrong == 0
    }

    /// All results so far.
    pub(super) fn all(&self) -> &[Line] {
        &self.found
    }

    /// How a command ends that printed them.
    pub(super) fn exit(&self) -> Exit {
        if self.is_right() {
            Exit::Success
        } else {
            Exit::Failure
        }
    }
}
