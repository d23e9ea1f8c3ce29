// SPDX-License-Identifier: Apache-2.0
//! Errors of annotation files, and of matching labels with categories.

use std::fmt;

/// Maximum number of problems that an error lists; the others are counted.
pub(super) const MAX_LISTED: usize = 20;

/// Why accuracy cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum AccuracyError {
    #[error(
        "not COCO annotations: {reason}{}; expected an object with the lists images, categories and annotations",
        near(excerpt)
    )]
    Syntax {
        reason: String,
        /// The text before the error; may be empty.
        excerpt: String,
    },
    #[error("{}", listed(problems, *more))]
    Values {
        /// The first of them, in the order of the file.
        problems: Vec<Problem>,
        more: usize,
    },
    #[error(
        "the model's {} labels and the {} categories of the annotations do not match: {reason}.\n  labels without a category: {}\n  \
         categories without a label: {}\nRename the categories in the annotation file, or the labels in model.yaml, so that all names of \
         one side are found on the other",
        labels.0,
        categories.0,
        names(&labels.1),
        names(&categories.1)
    )]
    Classes {
        reason: String,
        labels: (usize, Vec<String>),
        categories: (usize, Vec<String>),
    },
}

/// One wrong value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where: the list, the index in it, and the entry's id where it has one.
    pub place: String,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            found,
            expected,
        } = self;
        write!(f, "{place}: found {found}, expected {expected}")
    }
}

fn near(excerpt: &str) -> String {
    if excerpt.is_empty() {
        return String::new();
    }
    format!(", behind `{excerpt}`")
}

fn listed(problems: &[Problem], more: usize) -> String {
    let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

/// Some names of many.
fn names(all: &[String]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    let quoted_names = all.iter().take(MAX_LISTED).cloned();
    let more = all.len().saturating_sub(MAX_LISTED);
    let rest = (more > 0).then(|| format!("and {more} more"));
    quoted_names.chain(rest).collect::<Vec<_>>().join(", ")
}
