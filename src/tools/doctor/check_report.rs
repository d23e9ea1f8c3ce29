//! Results of checks: what was checked, its state, and details.

use std::fmt::{self, Display, Formatter};

/// Called with each result.
type OnResult = Box<dyn FnMut(&CheckResult)>;

/// Collects results, and reports each one as it arrives.
#[derive(Default)]
pub struct CheckReport {
    /// The check that all results belong to, if there are several.
    part: Option<&'static str>,
    failed: usize,
    results: Vec<CheckResult>,
    on_result: Option<OnResult>,
}

/// State of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// The check passed.
    Ok,
    /// The check failed.
    Wrong,
    /// The check is not possible here.
    Unknown,
}

/// One result. Its `Display` is one line.
#[derive(Debug, Clone, serde::Serialize)]
pub struct CheckResult {
    /// The name of the [`Check`](crate::Check), if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<&'static str>,
    /// State of what was checked.
    pub state: CheckState,
    /// What was checked.
    pub what: String,
    /// What was found, and what to do if it is wrong.
    pub text: String,
}

impl CheckState {
    /// The state as printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Wrong => "wrong",
            Self::Unknown => "unknown",
        }
    }
}

impl Display for CheckResult {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{:<6} {}: {}", self.state.name(), self.what, self.text)
    }
}

impl CheckReport {
    /// `on_result` is called with each result as it arrives.
    pub fn new(on_result: impl FnMut(&CheckResult) + 'static) -> Self {
        Self {
            on_result: Some(Box::new(on_result)),
            ..Self::default()
        }
    }

    /// The same for the results of one check, which carry its name.
    pub(super) fn for_check(
        part: &'static str,
        on_result: impl FnMut(&CheckResult) + 'static,
    ) -> Self {
        Self {
            part: Some(part),
            ..Self::new(on_result)
        }
    }

    /// Adds a result that another report has collected.
    pub(super) fn merge(&mut self, result: CheckResult) {
        self.failed += usize::from(result.state == CheckState::Wrong);
        if let Some(on_result) = &mut self.on_result {
            on_result(&result);
        }
        self.results.push(result);
    }

    /// Adds a result with state `ok`.
    pub fn ok(&mut self, what: &str, text: &str) {
        self.add(CheckState::Ok, what, text);
    }

    /// Adds a result with state `wrong`.
    pub fn failed(&mut self, what: &str, text: &str) {
        self.add(CheckState::Wrong, what, text);
    }

    /// Adds a result with state `unknown`.
    pub fn unknown(&mut self, what: &str, text: &str) {
        self.add(CheckState::Unknown, what, text);
    }

    fn add(&mut self, state: CheckState, what: &str, text: &str) {
        self.merge(CheckResult {
            part: self.part,
            state,
            what: what.to_owned(),
            text: text.to_owned(),
        });
    }

    /// Whether no check failed.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.failed == 0
    }

    /// All results so far.
    #[must_use]
    pub fn all(&self) -> &[CheckResult] {
        &self.results
    }

    /// Number of results in `state`.
    pub(super) fn count(&self, state: CheckState) -> usize {
        self.results
            .iter()
            .filter(|result| result.state == state)
            .count()
    }

    /// All results.
    pub(super) fn into_results(self) -> Vec<CheckResult> {
        self.results
    }
}
