//! Result of a configuration reload, and its message.

use serde::Serialize;

use super::wire::Utc;

/// Result of a configuration reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadStatus {
    /// The result, as a keyword.
    pub state: ReloadState,
    /// Names of the added sources.
    pub added: Vec<String>,
    /// Names of the restarted sources, whose settings changed.
    pub changed: Vec<String>,
    /// Names of the removed sources.
    pub removed: Vec<String>,
    /// Number of unchanged sources.
    pub unchanged: usize,
    /// Why it was refused, or what failed.
    pub problems: Vec<ReloadProblem>,
}

/// Result of a reload, as a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadState {
    /// The whole file is in effect.
    Applied,
    /// Nothing was changed.
    Refused,
    /// The file is in effect, but some of its sources could not be stopped or started.
    Incomplete,
}

/// One problem with a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReloadProblem {
    /// The file; `None` where the problem has no location in one.
    pub file: Option<String>,
    /// Its line, from 1.
    pub line: Option<usize>,
    /// The key path, such as `sources[1].uri`.
    pub key: Option<String>,
    /// What is wrong, what is accepted, and what to do.
    pub text: String,
}

impl ReloadState {
    /// The keyword used in messages.
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
