// SPDX-License-Identifier: Apache-2.0
//! Errors of updates.

use std::io;
use std::path::PathBuf;

use jetwatch_files::WriteError;

/// Why an update cannot go on.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum UpdateError {
    #[error("cannot {what}: `{command}` {outcome}")]
    Command {
        what: String,
        command: String,
        outcome: String,
    },
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("{} is not usable: {problem}", path.display())]
    Corrupt { path: PathBuf, problem: String },
    #[error("the repository is not used: {problem}")]
    Repository { problem: String },
    #[error("version {version} does not work with the present configuration: {problem}")]
    Configuration { version: String, problem: String },
    #[error("{0}")]
    Refused(String),
    #[error("another jetwatch-update runs; wait until it has ended: jetwatch update status")]
    Busy,
    #[error("updates need root; use sudo")]
    NotRoot,
}

impl UpdateError {
    /// For `map_err` on file operations.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl Fn(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            action,
            path: path.clone(),
            source,
        }
    }
}
