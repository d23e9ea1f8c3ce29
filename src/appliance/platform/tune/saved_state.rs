// SPDX-License-Identifier: Apache-2.0
//! The original values of settings, stored on disk so that another process can restore them, also after a crash.
//!
//! Each entry is written before its setting is changed. Clocks and kernel parameters do not survive a reboot, so their
//! entries are valid for one boot only; a power mode and a fan profile persist.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use super::super::{PlatformError, SysRoot};
use super::{Setting, clocks};

/// Folder of the record and of the clocks' store. The daemon's user cannot write there.
const FOLDER: &str = "/var/lib/jetwatch-setup";

const FILE: &str = "/var/lib/jetwatch-setup/tune.json";

/// A random id of each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Original and applied value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedSetting {
    pub(super) before: String,
    pub(super) set: String,
}

/// All current changes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedState {
    start: Option<String>,
    settings: BTreeMap<Setting, SavedSetting>,
}

impl SavedState {
    pub(super) fn exists(root: &SysRoot) -> bool {
        root.exists(FILE)
    }

    /// Reads the record on disk; an empty one when there is none.
    ///
    /// # Errors
    /// The record cannot be read or is damaged. The original values are then unknown, and the user has to decide.
    pub(super) fn load(root: &SysRoot) -> Result<Self, PlatformError> {
        let Some(text) = root.text(FILE)? else {
            return Ok(Self::default());
        };
        serde_json::from_str(&text).map_err(|error| PlatformError::Malformed {
            path: root.path(FILE),
            line: Some(error.line()),
            found: text,
            expected: "the record of jetwatch tune; remove the file if the current settings are right",
        })
    }

    /// Drops the entries that a reboot has undone since the record was written.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(super) fn load_for_boot(&mut self, root: &SysRoot) -> Result<(), PlatformError> {
        let start = root.text(BOOT_ID)?;
        if self.start != start {
            self.start = start;
            for setting in [Setting::PerfEventParanoid, Setting::Clocks] {
                self.settings.remove(&setting);
            }
            clocks::remove_store(root)?;
        }
        self.save(root)
    }

    pub(super) fn has(&self, setting: Setting) -> bool {
        self.settings.contains_key(&setting)
    }

    pub(super) fn get(&self, setting: Setting) -> Option<&SavedSetting> {
        self.settings.get(&setting)
    }

    /// Records the original value of a setting before its change. Only the first value is stored: later ones are
    /// jetwatch's own. Returns whether it is the first.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(super) fn save_setting(
        &mut self,
        root: &SysRoot,
        setting: Setting,
        before: &str,
        set: &str,
    ) -> Result<bool, PlatformError> {
        let is_first = !self.has(setting);
        let saved = self
            .settings
            .entry(setting)
            .or_insert_with(|| SavedSetting {
                before: before.to_owned(),
                set: String::new(),
            });
        saved.set = set.to_owned();
        self.save(root)?;
        Ok(is_first)
    }

    /// Removes a setting that has its original value again; deletes an empty record.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(super) fn remove(&mut self, root: &SysRoot, setting: Setting) -> Result<(), PlatformError> {
        self.settings.remove(&setting);
        self.save(root)
    }

    fn save(&self, root: &SysRoot) -> Result<(), PlatformError> {
        if self.settings.is_empty() {
            root.remove(FILE)?;
            // Fails while the folder has other files.
            let _ = fs::remove_dir(root.path(FOLDER));
            return Ok(());
        }
        let folder = root.path(FOLDER);
        fs::create_dir_all(&folder).map_err(|source| PlatformError::Write {
            path: folder,
            source,
        })?;
        let text =
            serde_json::to_string_pretty(self).expect("a map of strings is always valid JSON");
        root.replace(FILE, &text)
    }
}
