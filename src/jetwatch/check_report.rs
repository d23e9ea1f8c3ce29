//! Results of checks, one line each: what was looked at, whether it is right, and what was seen.

use crossbeam_channel::Sender;

use super::Exit;

/// Prints results as they come and counts those that are wrong.
#[derive(Debug, Default)]
pub(super) struct CheckReport {
    failed: usize,
    results: Vec<CheckResult>,
    /// Who prints them instead of us, and the part of an examination that they belong to.
    to: Option<(Sender<CheckResult>, &'static str)>,
}

/// One result.
#[derive(Debug, Clone, serde::Serialize)]
pub(super) struct CheckResult {
    /// The part of an examination, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<&'static str>,
    /// `ok`, `failed` or `unknown`.
    pub(super) state: &'static str,
    /// What was looked at.
    pub(super) what: String,
    /// What was seen, and what to do where it is not right.
    pub(super) text: String,
}

impl CheckReport {
    /// Results of one part, which go to somebody who collects those of all parts.
    pub(super) fn for_check(part: &'static str, to: Sender<CheckResult>) -> Self {
        Self {
            to: Some((to, part)),
            ..Self::default()
        }
    }

    /// Takes a result that came from a part.
    pub(super) fn merge(&mut self, result: CheckResult) {
        self.failed += usize::from(result.state == "wrong");
        println!("{:<6} {}: {}", result.state, result.what, result.text);
        self.results.push(result);
    }

    /// It is as it should be.
    pub(super) fn ok(&mut self, what: &str, text: &str) {
        self.add("ok", what, text);
    }

    /// It is not, and that matters.
    pub(super) fn failed(&mut self, what: &str, text: &str) {
        self.add("wrong", what, text);
    }

    /// It could not be seen here.
    pub(super) fn unknown(&mut self, what: &str, text: &str) {
        self.add("unknown", what, text);
    }

    fn add(&mut self, state: &'static str, what: &str, text: &str) {
        let line = CheckResult {
            part: self.to.as_ref().map(|(_, part)| *part),
            state,
            what: what.to_owned(),
            text: text.to_owned(),
        };
        let Some((to, _)) = &self.to else {
            return self.merge(line);
        };
        self.failed += usize::from(state == "wrong");
        // An error: the part took longer than it may, and nobody listens any more.
        let _ = to.send(line);
    }

    /// Whether nothing was wrong.
    pub(super) fn is_ok(&self) -> bool {
        self.failed == 0
    }

    /// All results so far.
    pub(super) fn all(&self) -> &[CheckResult] {
        &self.results
    }

    /// How a command ends that printed them.
    pub(super) fn exit(&self) -> Exit {
        if self.is_ok() {
            Exit::Success
        } else {
            Exit::Failure
        }
    }
}
