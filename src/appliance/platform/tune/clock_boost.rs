// SPDX-License-Identifier: Apache-2.0
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

/// Held clocks. Dropping restores them; [`restore`](Self::restore) also returns the result.
#[derive(Debug)]
pub struct ClockBoost {
    root: SysRoot,
    /// `None`: they were at their maximum before, so there is nothing to restore.
    marker: Option<File>,
}

impl ClockBoost {
    /// Holds the clocks at the maximum of the power mode. Clocks of a killed holder are restored first.
    ///
    /// # Errors
    /// Those of [`apply`]: no permission, not a Jetson, a tool fails. Also when another process holds the clocks.
    pub fn acquire(root: &SysRoot) -> Result<Self, TuneError> {
        restore_after_crash(root)?;
        let desired = DesiredSettings {
            clocks: Some(Clocks::Max),
            ..DesiredSettings::default()
        };
        let planned = super::plan(root, &desired);
        let differs = |step: &super::Step| step.state == StepState::Differs;
        // Before any change, so that the next holder knows that there may be something to restore.
        let marker = match planned.iter().any(differs) {
            true => Some(open_marker(root)?),
            false => None,
        };
        let held = Self {
            root: root.clone(),
            marker,
        };
        // On failure the changes were undone, and dropping `held` removes the file.
        apply(root, &desired)?;
        Ok(held)
    }

    /// Restores the clocks; an empty list when they were at their maximum before.
    ///
    /// # Errors
    /// The clocks cannot be restored; the record is kept, and the next holder tries again.
    pub fn restore(mut self) -> Result<Vec<Restored>, TuneError> {
        self.release()
    }

    fn release(&mut self) -> Result<Vec<Restored>, TuneError> {
        let Some(marker) = self.marker.take() else {
            return Ok(Vec::new());
        };
        let restored = free(&self.root);
        drop(marker);
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

/// Restores the clocks of a killed holder; an empty list when there is none.
///
/// # Errors
/// The clocks cannot be restored.
pub fn restore_after_crash(root: &SysRoot) -> Result<Vec<Restored>, TuneError> {
    let path = root.path(MARKER);
    let Ok(marker) = File::open(&path) else {
        return Ok(Vec::new());
    };
    match marker.try_lock() {
        Ok(()) => free(root),
        // Its holder is still running and will restore them.
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
