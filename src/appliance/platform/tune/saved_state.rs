//! What the settings were before, kept on disk so that another process can give them back, also after a crash.
//!
//! Each entry is written before its setting is changed. Clocks and the kernel's parameters do not outlive a start of the
//! machine, so their entries count for the start that they were made in alone; a power mode and a fan profile stay.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use super::super::{PlatformError, SysRoot};
use super::{Setting, clocks};

/// Where the record lies, with the clocks' store. The daemon's user cannot write there.
const FOLDER: &str = "/var/lib/jetwatch-setup";

const FILE: &str = "/var/lib/jetwatch-setup/tune.json";

/// A number that is new at every start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What a setting was, and what was made of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedSetting {
    pub(super) before: String,
    pub(super) set: String,
}

/// All that is changed now.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedState {
    start: Option<String>,
    settings: BTreeMap<Setting, SavedSetting>,
}

impl SavedState {
    pub(super) fn exists(root: &SysRoot) -> bool {
        root.exists(FILE)
    }

    /// The record on disk; an empty one where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is damaged, in which case a human has to look: it cannot be guessed what was before.
    pub(super) fn load(root: &SysRoot) -> Result<Self, PlatformError> {
        let Some(text) = root.text(FILE)? else {
            return Ok(Self::default());
        };
        serde_json::from_str(&text).map_err(|error| PlatformError::Malformed {
            path: root.path(FILE),
            line: Some(error.line()),
            found: text,
            expected: "what jetwatch tune has written; remove the file if the settings are right as they are",
        })
    }

    /// Drops what a start of the machine has undone by itself since the record was written.
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

    /// Remembers what a setting was before it is changed. The first value counts: what was set in between is ours. Says
    /// whether it is the first.
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
        let kept = self
            .settings
            .entry(setting)
            .or_insert_with(|| SavedSetting {
                before: before.to_owned(),
                set: String::new(),
            });
        kept.set = set.to_owned();
        self.save(root)?;
        Ok(is_first)
    }

    /// Forgets a setting that is as it was; an empty record is removed.
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
            // Others may keep something there; then it stays.
            let _ = fs::remove_dir(root.path(FOLDER));
            return Ok(());
        }
        let folder = root.path(FOLDER);
        fs::create_dir_all(&folder).map_err(|source| PlatformError::Write {
            path: folder,
            source,
        })?;
        let text = serde_json::to_string_pretty(self).expect("texts alone are always JSON");
        root.replace(FILE, &text)
    }
}
