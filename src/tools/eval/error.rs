//! What is wrong with an annotation file, and why labels and categories cannot be matched.

use std::fmt;

/// Most problems that an error lists; the others are counted.
pub(super) const MAX_LISTED: usize = 20;

/// Why accuracy cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccuracyError {
    /// The file is no JSON, or not the JSON of a COCO annotation file.
    #[error(
        "no COCO annotations: {reason}{}; expected an object with the lists images, categories and annotations",
        near(excerpt)
    )]
    Syntax {
        /// What the parser said, with line and column.
        reason: String,
        /// The text before that place; empty where there is none.
        excerpt: String,
    },
    /// The file is COCO JSON with wrong values: what is wrong with them.
    #[error("{}", listed(problems, *more))]
    Values {
        /// The first of them, in the order of the file.
        problems: Vec<Problem>,
        /// How many there are beyond those.
        more: usize,
    },
    /// Labels of the model and categories of the annotations do not belong together.
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
        /// Why the order does not help either.
        reason: String,
        /// Number of labels, and those that no category is named like.
        labels: (usize, Vec<String>),
        /// Number of categories, and those that no label is named like.
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
