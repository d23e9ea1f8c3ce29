// SPDX-License-Identifier: Apache-2.0
//! All problems of a file in one report.
//!
//! A [`Problem`] knows its line, its key path, what was found, what is accepted and, where one helps, a hint. A
//! [`ConfigError`] prints them in the order of the file with a closing count. Nothing here decides what is a problem:
//! that is [`Node`](super::Node) and the loaders. Secrets never get here: readers mask what they quote.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a file gave no value.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file was read and is wrong: everything that is wrong with it, in the order of the file.
    #[error("{}", Report(problems))]
    Invalid { problems: Vec<Problem> },
}

impl ConfigError {
    /// Sorts `problems` by line and column and drops repetitions.
    #[must_use]
    pub fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| {
            let order = |problem: &Problem| (problem.line, problem.column);
            order(a)
                .cmp(&order(b))
                .then_with(|| (&a.key, &a.what, &a.expected).cmp(&(&b.key, &b.what, &b.expected)))
        });
        problems.dedup();
        Self::Invalid { problems }
    }

    /// The single problems; empty when the file could not be read.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Invalid { problems } => problems,
        }
    }
}

/// Most problems that are printed; a file with more is no configuration.
const MAX_PRINTED: usize = 200;

/// One thing wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file as the caller named it, or `command line`.
    pub file: String,
    /// Line from 1; `None` when the value was not read from a file.
    pub line: Option<usize>,
    /// Column from 1, in characters.
    pub column: Option<usize>,
    /// Key path such as `sources[1].stall_timeout_ms`; empty for the file as a whole.
    pub key: String,
    /// What is wrong: `found "5s"`, `missing`, `unknown key`, …
    pub what: String,
    /// The accepted form, where there is one to name.
    pub expected: Option<String>,
    /// What to do about it, where the accepted form does not show it.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)?;
        if let Some(expected) = &self.expected {
            write!(f, ", expected {expected}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

/// One line for each problem and one with their number.
struct Report<'a>(&'a [Problem]);

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.0.iter().take(MAX_PRINTED) {
            writeln!(f, "{problem}")?;
        }
        if self.0.len() > MAX_PRINTED {
            writeln!(f, "and {} more", self.0.len() - MAX_PRINTED)?;
        }
        let file = self.0.first().map_or("", |problem| &problem.file);
        match self.0.len() {
            1 => write!(f, "1 problem in {file}"),
            count => write!(f, "{count} problems in {file}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: Option<usize>, key: &str) -> Problem {
        Problem {
            file: "jetwatch.yaml".to_owned(),
            line,
            column: line,
            key: key.to_owned(),
            what: "found \"5s\"".to_owned(),
            expected: Some("a whole number".to_owned()),
            hint: None,
        }
    }

    #[test]
    fn problems_are_printed_in_the_order_of_the_file_and_counted() {
        let mut hinted = problem(Some(3), "b");
        hinted.hint = Some("write 5".to_owned());
        let error = ConfigError::new(vec![problem(Some(12), "c"), hinted, problem(None, "")]);
        assert_eq!(
            error.to_string(),
            "jetwatch.yaml: found \"5s\", expected a whole number\n\
             jetwatch.yaml:3: b: found \"5s\", expected a whole number; write 5\n\
             jetwatch.yaml:12: c: found \"5s\", expected a whole number\n\
             3 problems in jetwatch.yaml"
        );
    }

    #[test]
    fn duplicate_problem_is_reported_once() {
        let error = ConfigError::new(vec![problem(Some(1), "a"), problem(Some(1), "a")]);
        assert_eq!(error.problems().len(), 1);
        assert!(error.to_string().ends_with("1 problem in jetwatch.yaml"));
    }
}
