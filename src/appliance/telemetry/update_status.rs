// SPDX-License-Identifier: Apache-2.0
//! What is known of updates of the package, as one JSON file: the updater, which is root, writes it; the daemon reads it and publishes it.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Folder of the updater. Only root writes there.
pub const UPDATE_FOLDER: &str = "/var/lib/jetwatch-setup/update";

/// Name of the file in it.
pub const STATUS_FILE: &str = "status.json";

/// Name of the list of the updates that are over, oldest first.
pub const HISTORY_FILE: &str = "history.json";

/// Number of the format; a reader ignores others.
pub const STATUS_VERSION: u32 = 1;

jetwatch_types::named_enum! {
    /// State of updates.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum UpdateState {
        /// The repository has nothing newer.
        UpToDate = "up_to_date",
        /// The repository has a newer version.
        Available = "available",
        /// An update or a roll-back is under way.
        InProgress = "in_progress",
        /// The last update was installed and is healthy.
        Installed = "installed",
        /// The last update was rolled back: the earlier version runs.
        RolledBack = "rolled_back",
        /// The last update was refused before anything was changed.
        Refused = "refused",
        /// The roll-back has failed: the machine needs a person.
        Failed = "failed",
    }

    /// The word in messages.
    pub fn word;
}

/// What the file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateStatus {
    /// [`STATUS_VERSION`].
    pub version: u32,
    /// The state.
    pub state: UpdateState,
    /// The installed version, with those of packages of models behind it: `1.1.0, street 8`. The others have the same form.
    pub installed: String,
    /// The newest version that the repository has, as far as it is known; else the installed one.
    pub latest: String,
    /// The version that was rolled back, and is not installed again.
    pub held: Option<String>,
    /// The version to which `jetwatch update rollback` returns.
    pub previous: Option<String>,
    /// The step that is under way, or why the last update was not installed.
    pub reason: Option<String>,
    /// When this was found, in milliseconds since 1970.
    pub at_ms: u64,
}

/// The file of this machine.
pub fn status_file() -> PathBuf {
    Path::new(UPDATE_FOLDER).join(STATUS_FILE)
}

impl UpdateStatus {
    /// The updates of this machine that are over, oldest first.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn history() -> io::Result<Vec<Self>> {
        match std::fs::read_to_string(Path::new(UPDATE_FOLDER).join(HISTORY_FILE)) {
            Ok(text) => serde_json::from_str(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Reads the file at `path`; `None`: there is none, or it is of another version.
    ///
    /// # Errors
    /// It cannot be read, or is no such file.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let status: Self = serde_json::from_str(&text).map_err(io::Error::other)?;
        Ok((status.version == STATUS_VERSION).then_some(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_file() {
        for state in [
            UpdateState::UpToDate,
            UpdateState::Available,
            UpdateState::InProgress,
            UpdateState::Installed,
            UpdateState::RolledBack,
            UpdateState::Refused,
            UpdateState::Failed,
        ] {
            let word = serde_json::to_string(&state).expect("JSON");
            assert_eq!(word, format!("\"{}\"", state.word()));
        }
    }

    #[test]
    fn other_versions_are_ignored() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(STATUS_FILE);
        assert!(UpdateStatus::read(&path).expect("none").is_none());
        let status = UpdateStatus {
            version: STATUS_VERSION,
            state: UpdateState::Installed,
            installed: "1.1".to_owned(),
            latest: "1.1".to_owned(),
            held: None,
            previous: Some("1.0".to_owned()),
            reason: None,
            at_ms: 5,
        };
        let text = serde_json::to_string(&status).expect("JSON");
        std::fs::write(&path, &text).expect("written");
        assert_eq!(UpdateStatus::read(&path).expect("read"), Some(status));
        std::fs::write(&path, text.replace("\"version\":1", "\"version\":9")).expect("written");
        assert!(UpdateStatus::read(&path).expect("read").is_none());
    }
}
