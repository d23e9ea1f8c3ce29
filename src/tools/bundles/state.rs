//! What is installed of one bundle, what was, and a switch that has not ended: one file, replaced atomically. A power cut leaves the
//! state before a step or after it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jetwatch_files::Sha256Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::error::io;
use super::manifest::FORMAT;
use super::store;
use super::{BundleError, BundleName, Store};

/// Maximum number of entries of the history; the oldest are removed.
const MAX_HISTORY: usize = 100;

/// State of one bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Number of the format: 1.
    pub format: u32,
    /// Name of the bundle.
    pub name: BundleName,
    /// The version in use.
    pub current: Option<Installed>,
    /// The version before it, for a rollback.
    pub previous: Option<Installed>,
    /// The highest serial number that was installed and worked, with its archive. It is never lowered.
    pub highest: Option<Highest>,
    /// The configuration before the first bundle that brought one; kept for ever.
    pub original: Option<Sha256Digest>,
    /// A switch that has begun, and neither worked nor failed yet.
    pub(crate) pending: Option<Pending>,
    /// What was done, oldest first.
    pub history: Vec<HistoryEntry>,
}

/// A version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Installed {
    /// Its serial number.
    pub serial: u64,
    /// SHA-256 of its archive, which names its folder.
    pub sha256: Sha256Digest,
    /// The configuration that was in force when another version with a configuration took over; it returns with this version.
    pub configuration: Option<Sha256Digest>,
}

/// A serial number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Highest {
    /// The number.
    pub serial: u64,
    /// SHA-256 of the archive that had it.
    pub sha256: Sha256Digest,
}

/// A switch that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pending {
    pub(crate) action: Action,
    pub(crate) to: Installed,
    /// The file that the switch replaces.
    pub(crate) configuration: Option<ConfigurationSwitch>,
}

/// A configuration that is replaced. Both contents are kept in the store before it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigurationSwitch {
    pub(crate) path: PathBuf,
    /// `None`: there was no file.
    pub(crate) before: Option<Sha256Digest>,
    pub(crate) after: Sha256Digest,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A bundle was installed.
    Install,
    /// The version before was chosen by hand.
    Rollback,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The version is in use.
    InUse,
    /// The version did not pass its gate; nothing was switched.
    Refused,
    /// The version was switched to, did not work, and was switched away from.
    RolledBack,
    /// The machine or the process ended before the version had proven itself; the version before is in use.
    Interrupted,
}

impl Action {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Rollback => "rollback",
        }
    }
}

impl Outcome {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InUse => "in-use",
            Self::Refused => "refused",
            Self::RolledBack => "rolled-back",
            Self::Interrupted => "interrupted",
        }
    }
}

/// One entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    /// When it ended, in RFC 3339.
    pub time: String,
    /// What was done.
    pub action: Action,
    /// How it ended.
    pub outcome: Outcome,
    /// Serial number of the version.
    pub serial: u64,
    /// SHA-256 of its archive.
    pub sha256: Sha256Digest,
    /// Why, and what was measured.
    pub text: String,
}

impl State {
    pub(crate) fn new(name: &BundleName) -> Self {
        Self {
            format: FORMAT,
            name: name.clone(),
            current: None,
            previous: None,
            highest: None,
            original: None,
            pending: None,
            history: Vec::new(),
        }
    }

    /// Whether a switch has begun and not ended.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.pending.is_some()
    }

    /// Reads the states of all bundles in the store in `folder`, without its lock: each is whole, as it is replaced atomically.
    ///
    /// # Errors
    /// One cannot be read, or is not a state.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>, BundleError> {
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut states = Vec::new();
        for name in store::names(folder)? {
            states.extend(Self::load_file(store::state_file(folder, &name))?);
        }
        Ok(states)
    }

    /// Reads the state of `name` in `store`; `None`: there is none.
    ///
    /// # Errors
    /// It cannot be read or is not a state: it is not replaced by an empty one, because it holds the highest serial number.
    pub fn load(store: &Store, name: &BundleName) -> Result<Option<Self>, BundleError> {
        Self::load_file(store.state_file(name))
    }

    fn load_file(path: PathBuf) -> Result<Option<Self>, BundleError> {
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io("read", &path)(error)),
        };
        let wrong = |problem: String| BundleError::Store {
            path: path.clone(),
            problem: format!(
                "{problem}; restore the file from a backup, or remove it and the versions with it: then older versions are accepted again"
            ),
        };
        let state: Self = serde_json::from_slice(&text)
            .map_err(|error| wrong(format!("it is no state of a bundle: {error}")))?;
        match state.format {
            FORMAT => Ok(Some(state)),
            other => Err(wrong(format!("it has format {other}, expected {FORMAT}"))),
        }
    }

    /// Writes the state.
    pub(crate) fn save(&self, store: &Store) -> Result<(), BundleError> {
        let path = store.state_file(&self.name);
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| BundleError::Store {
            path: path.clone(),
            problem: error.to_string(),
        })?;
        text.push(b'\n');
        Ok(jetwatch_files::write(&path, &text)?)
    }

    pub(crate) fn push_history(
        &mut self,
        action: Action,
        outcome: Outcome,
        version: &Installed,
        text: &str,
    ) {
        self.history.push(HistoryEntry {
            time: format!("{:.0}", Timestamp::now()),
            action,
            outcome,
            serial: version.serial,
            sha256: version.sha256,
            text: text.to_owned(),
        });
        let surplus = self.history.len().saturating_sub(MAX_HISTORY);
        self.history.drain(..surplus);
    }

    /// The versions and configurations that the store keeps for it.
    pub(crate) fn kept(&self) -> (Vec<Sha256Digest>, Vec<Sha256Digest>) {
        let pending = self.pending.as_ref();
        let installed = [self.current.as_ref(), self.previous.as_ref()];
        let installed = installed.into_iter().flatten();
        let installed = installed.chain(pending.map(|pending| &pending.to));
        let (versions, mut configurations): (Vec<_>, Vec<_>) = installed
            .map(|version| (version.sha256, version.configuration))
            .unzip();
        configurations.push(self.original);
        if let Some(switch) = pending.and_then(|pending| pending.configuration.as_ref()) {
            configurations.extend([switch.before, Some(switch.after)]);
        }
        (versions, configurations.into_iter().flatten().collect())
    }
}
