// SPDX-License-Identifier: Apache-2.0
//! The transaction that is under way, on disk: what changes, how far it is, and what was healthy before. Written before a step begins.

use jetwatch_files::Sha256Digest;
use serde::{Deserialize, Serialize};

use super::gate::UnitBaseline;

/// Number of the format.
pub(crate) const JOURNAL_VERSION: u32 = 1;

jetwatch_types::named_enum! {
    /// A step of an update.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Step {
        /// A file of each present package is put aside.
        Keep = "keeping the present version",
        /// The new packages are fetched.
        Fetch = "fetching",
        /// The new program checks the present configuration with the new models.
        Check = "checking the configuration and the models",
        /// The new packages are installed.
        Install = "installing",
        /// The installed program checks the same, and the daemons have to become healthy.
        Verify = "waiting for health",
        /// The new packages become the kept ones.
        Commit = "finishing",
        /// The kept packages are installed again.
        RollBack = "rolling back",
    }

    /// As a participle, for the status.
    pub fn text;
}

impl Step {
    /// Whether the installed packages may differ from those before the update.
    #[must_use]
    pub(crate) fn has_changed_packages(self) -> bool {
        !matches!(self, Self::Keep | Self::Fetch | Self::Check)
    }
}

/// A package file in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPackage {
    /// Name of the package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Name of the file.
    pub file: String,
    /// Digest of its content.
    pub sha256: Sha256Digest,
}

/// One package that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Name of the package.
    pub package: String,
    /// The present version.
    pub from: String,
    /// The new version.
    pub to: String,
    /// File of the present version, once it is kept.
    pub old: Option<KeptPackage>,
    /// File of the new version, once it is fetched.
    pub new: Option<KeptPackage>,
}

/// Beginning of the names of packages with a model.
pub(crate) const MODEL_PREFIX: &str = "jetwatch-model-";

impl Change {
    pub(crate) fn is_model(&self) -> bool {
        self.package.starts_with(MODEL_PREFIX)
    }
}

/// The transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// [`JOURNAL_VERSION`].
    pub version: u32,
    /// The step that has begun.
    pub step: Step,
    /// The versions before, in words.
    pub from: String,
    /// The new versions, in words.
    pub to: String,
    /// The packages; the first is `jetwatch` where it changes.
    pub changes: Vec<Change>,
    /// What has to be healthy afterwards.
    pub baseline: Vec<UnitBaseline>,
    /// Why it rolls back.
    pub reason: Option<String>,
    /// Whether the version that is rolled back is held: it was tried and is bad, or the user asked for it.
    pub hold: bool,
}

impl Journal {
    /// A new transaction.
    pub fn new(step: Step, from: String, to: String, changes: Vec<Change>) -> Self {
        Self {
            version: JOURNAL_VERSION,
            step,
            from,
            to,
            changes,
            baseline: Vec::new(),
            reason: None,
            hold: false,
        }
    }

    /// The packages with models that change.
    pub(crate) fn models(&self) -> Vec<&str> {
        let models = self.changes.iter().filter(|change| change.is_model());
        models.map(|change| change.package.as_str()).collect()
    }
}
