//! What came of reading the configuration again while the daemon runs, and the message about it.

use serde::Serialize;

use super::wire::Utc;

/// What came of reading the configuration again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadStatus {
    /// In one word.
    pub state: ReloadState,
    /// Names of the sources that joined.
    pub added: Vec<String>,
    /// Names of those that were stopped and started anew, as their keys have other values.
    pub changed: Vec<String>,
    /// Names of those that left.
    pub removed: Vec<String>,
    /// How many go on untouched.
    pub unchanged: usize,
    /// Why it was refused, or what went wrong.
    pub problems: Vec<ReloadProblem>,
}

/// What came of a reload in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadState {
    /// All that the file says runs.
    Applied,
    /// Nothing was changed.
    Refused,
    /// The file was taken over, but some of its sources could not be stopped or started.
    Incomplete,
}

/// One thing that stands against a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReloadProblem {
    /// The file; `None` where the problem has no place in one.
    pub file: Option<String>,
    /// Its line, from 1.
    pub line: Option<usize>,
    /// The key path, such as `sources[1].uri`.
    pub key: Option<String>,
    /// What is wrong, what is accepted, and what to do.
    pub text: String,
}

impl ReloadState {
    /// The word used in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Incomplete => "incomplete",
        }
    }
}

impl ReloadStatus {
    pub(super) fn body<'a>(&'a self, version: u32, device: &'a str, at: Utc) -> ReloadBody<'a> {
        ReloadBody {
            version,
            kind: "reload",
            device,
            state: self.state.name(),
            added: &self.added,
            changed: &self.changed,
            removed: &self.removed,
            unchanged: self.unchanged,
            problems: &self.problems,
            at,
        }
    }
}

/// The message.
#[derive(Serialize)]
pub(super) struct ReloadBody<'a> {
    version: u32,
    kind: &'static str,
    device: &'a str,
    state: &'static str,
    added: &'a [String],
    changed: &'a [String],
    removed: &'a [String],
    unchanged: usize,
    problems: &'a [ReloadProblem],
    at: Utc,
}
