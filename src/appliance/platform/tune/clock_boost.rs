//! Holds the clocks at their maximum for a limited time, such as a benchmark, and restores them at its end, on every exit path.
//!
//! A file in `/run` identifies the holder. It is locked while its process runs, so that the next holder can
//! distinguish a running holder from a killed one, and restores the clocks of the latter.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use super::super::{PlatformError, SysRoot};
use super::{
    Clocks, DesiredSettings, Restored, Setting, StepState, TuneError, apply, restore_some,
};

/// On tmpfs: a reboot frees the clocks and removes the file.
const MARKER: &str = "/run/jetwatch-held-clocks";

/// Held clocks. Dropping restores them; [`restore_setting`](Self::give_back) returns the result.
#[derive(Debug)]
pub struct ClockBoost {
    root: SysRoot,
    /// `None`: they were at their maximum before, so that there is nothing to restore.
    marker: Option<File>,
}

impl ClockBoost {
    /// Holds the clocks at the maximum of the power mode. Clocks of a killed holder are restored first.
    ///
    /// # Errors
    /// As [`apply`]: no permission, no Jetson, a tool fails. Another process holds them.
    pub fn acquire(root: &SysRoot) -> Result<Self, TuneError> {
        restore_after_crash(root)?;
        let wanted = DesiredSettings {
            clocks: Some(Clocks::Max),
            ..DesiredSettings::default()
        };
        let planned = super::plan(root, &wanted);
        let differs = |step: &super::Step| step.state == StepState::Differs;
        // Before any change: from here on the next holder sees that there may be something to restore.
        let mark = match planned.iter().any(differs) {
            true => Some(open_marker(root)?),
            false => None,
        };
        let held = Self {
            root: root.clone(),
            marker: mark,
        };
        // On failure the changes were undone, and dropping `held` removes the file.
        apply(root, &wanted)?;
        Ok(held)
    }

    /// Restores the clocks; empty where they were at their maximum before.
    ///
    /// # Errors
    /// They cannot be restored; the record is kept, and the next holder tries again.
    pub fn restore(mut self) -> Result<Vec<Restored>, TuneError> {
        self.release()
    }

    fn release(&mut self) -> Result<Vec<Restored>, TuneError> {
        let Some(mark) = self.marker.take() else {
            return Ok(Vec::new());
        };
        let restored = free(&self.root);
        drop(mark);
        restored
    }
}

impl Drop for ClockBoost {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            log::error!(
                "the clocks are still held: {error}; restore them with `jetwatch tune restore`"
            );
        }
    }
}

/// Restores the clocks of a killed holder. Empty: there is none.
///
/// # Errors
/// They cannot be restored.
pub fn restore_after_crash(root: &SysRoot) -> Result<Vec<Restored>, TuneError> {
    let path = root.path(MARKER);
    let Ok(mark) = File::open(&path) else {
        return Ok(Vec::new());
    };
    match mark.try_lock() {
        Ok(()) => free(root),
        // Its holder is running, and will restore them.
        Err(TryLockError::WouldBlock) => Ok(Vec::new()),
        Err(TryLockError::Error(source)) => Err(PlatformError::Write { path, source }.into()),
    }
}

/// Frees the clocks, then removes the file, so that a failure is retried.
fn free(root: &SysRoot) -> Result<Vec<Restored>, TuneError> {
    let restored = restore_some(root, &[Setting::Clocks])?;
    let path = root.path(MARKER);
    fs::remove_file(&path).map_err(|source| PlatformError::Write { path, source })?;
    Ok(restored)
}

fn open_marker(root: &SysRoot) -> Result<File, PlatformError> {
    let path = root.path(MARKER);
    make(&path).map_err(|source| PlatformError::Write { path, source })
}

fn make(path: &Path) -> std::io::Result<File> {
    let file = File::create(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(std::io::Error::other(
            "another benchmark holds the clocks; wait for its end",
        )),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
