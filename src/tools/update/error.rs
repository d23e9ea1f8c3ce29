// SPDX-License-Identifier: Apache-2.0
//! Errors of updates.

use std::io;
use std::path::PathBuf;

use jetwatch_files::WriteError;

/// Why an update cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// A program of the system failed.
    #[error("cannot {what}: `{command}` {outcome}")]
    Command {
        /// What was wanted.
        what: String,
        /// The command line.
        command: String,
        /// How it ended, with its last lines.
        outcome: String,
    },
    /// A file or folder cannot be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was wanted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file of the updater is not what it wrote.
    #[error("{} is not usable: {problem}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The repository cannot be trusted, or is missing.
    #[error("the repository is not used: {problem}")]
    Repository {
        /// Why, and what to do.
        problem: String,
    },
    /// A version does not take the present configuration, or its networks do not find what was recorded.
    #[error("version {version} does not work with the present configuration: {problem}")]
    Configuration {
        /// The version.
        version: String,
        /// What its program reports.
        problem: String,
    },
    /// There is no way back, or nothing to do it with.
    #[error("{0}")]
    Refused(String),
    /// Another updater runs.
    #[error("another jetwatch-update runs; wait until it has ended: jetwatch update status")]
    Busy,
    /// Not by this user.
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
