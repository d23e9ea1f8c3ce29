// SPDX-License-Identifier: Apache-2.0
//! Result of a configuration reload.

use schemars::JsonSchema;
use serde::Serialize;

use super::value::Utc;

/// Result of a configuration reload.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "reload", title = "Configuration reload", deny_unknown_fields)]
pub struct ReloadStatus {
    #[allow(missing_docs)] // Its type has a comment.
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
    /// When the reload ended.
    pub at: Utc,
}

/// Result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "reload_state")]
pub enum ReloadState {
    /// The whole file is in effect.
    Applied,
    /// Nothing was changed, because of `problems`.
    Refused,
    /// It is in effect, but some sources could not be stopped or started.
    Incomplete,
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(
    rename = "reload_problem",
    title = "Problem of a reload",
    deny_unknown_fields
)]
pub struct ReloadProblem {
    /// The file, if it is in one.
    pub file: Option<String>,
    /// The line.
    #[schemars(range(min = 1))]
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
