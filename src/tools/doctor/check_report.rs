// SPDX-License-Identifier: Apache-2.0
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

jetwatch_types::named_enum! {
    /// State of a result.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum CheckState {
        /// The check passed.
        Ok = "ok",
        /// The check failed.
        Wrong = "wrong",
        /// The check is not possible here.
        Unknown = "unknown",
        /// It is about something that machines of this kind do not have.
        #[serde(rename = "n/a")]
        NotApplicable = "n/a",
    }

    /// The state as printed.
    pub fn name;
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

    /// Adds a result that another report has collected. The report of all checks reports what does not apply in
    /// [`finish`](Self::finish), in one line.
    pub(super) fn merge(&mut self, result: CheckResult) {
        self.failed += usize::from(result.state == CheckState::Wrong);
        let is_for_later = self.part.is_none() && result.state == CheckState::NotApplicable;
        if let Some(on_result) = self.on_result.as_mut().filter(|_| !is_for_later) {
            on_result(&result);
        }
        self.results.push(result);
    }

    /// Reports what does not apply to this machine: one line for each reason.
    pub(super) fn finish(&mut self) {
        let inapplicable = |result: &&CheckResult| result.state == CheckState::NotApplicable;
        let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
        for result in self.results.iter().filter(inapplicable) {
            match by_reason.iter_mut().find(|(text, _)| *text == result.text) {
                Some((_, names)) => names.push(&result.what),
                None => by_reason.push((&result.text, vec![&result.what])),
            }
        }
        let Some(on_result) = &mut self.on_result else {
            return;
        };
        for (text, names) in by_reason {
            on_result(&CheckResult {
                part: None,
                state: CheckState::NotApplicable,
                what: text.to_owned(),
                text: names.join(", "),
            });
        }
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

    /// Adds a result with state `n/a`: this machine does not have it, for the reason `text`, and does not need it.
    pub(crate) fn not_applicable(&mut self, what: &str, text: &str) {
        self.add(CheckState::NotApplicable, what, text);
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
    pub fn is_ok(&self) -> bool {
        self.failed == 0
    }

    /// All results so far.
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

    pub(super) fn into_results(self) -> Vec<CheckResult> {
        self.results
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn what_does_not_apply_is_one_line_per_reason() {
        let lines: Rc<RefCell<Vec<String>>> = Rc::default();
        let written = Rc::clone(&lines);
        let mut report = CheckReport::new(move |line| written.borrow_mut().push(line.to_string()));
        report.not_applicable("VIC", "not a Jetson");
        report.ok("CPU", "fast");
        report.not_applicable("throttling", "no sensors");
        report.not_applicable("NVDEC", "not a Jetson");
        report.finish();
        assert_eq!(
            *lines.borrow(),
            [
                "ok     CPU: fast",
                "n/a    not a Jetson: VIC, NVDEC",
                "n/a    no sensors: throttling"
            ]
        );
        assert_eq!(report.all().len(), 4);
        assert!(report.is_ok());
    }
}
