//! The clocks held at their highest for a while, as for a benchmark, and given back at its end, however it ends.
//!
//! A mark in `/run` says who holds them. It is locked for as long as its process lives, so that whoever comes next can
//! tell a holder that works from one that was killed, and gives back what that one could not.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use super::super::{PlatformError, SysRoot};
use super::{
    Clocks, DesiredSettings, Restored, Setting, StepState, TuneError, apply, restore_some,
};

/// It lies in memory: a start of the machine frees the clocks and forgets the mark.
const MARKER: &str = "/run/jetwatch-held-clocks";

/// Clocks that are held. They are given back when it is dropped; [`restore_setting`](Self::give_back) tells how that went.
#[derive(Debug)]
pub struct ClockBoost {
    root: SysRoot,
    /// `None`: they were at their highest before, so that there is nothing to give back.
    marker: Option<File>,
}

impl ClockBoost {
    /// Holds the clocks at the highest that the power mode allows. What a killed holder left is given back before.
    ///
    /// # Errors
    /// As [`apply`]: not allowed, no Jetson, a tool fails. Another process holds them.
    pub fn acquire(root: &SysRoot) -> Result<Self, TuneError> {
        restore_after_crash(root)?;
        let wanted = DesiredSettings {
            clocks: Some(Clocks::Max),
            ..DesiredSettings::default()
        };
        let planned = super::plan(root, &wanted);
        let differs = |step: &super::Step| step.state == StepState::Differs;
        // Before anything is changed: from here on the next one knows that there may be something to give back.
        let mark = match planned.iter().any(differs) {
            true => Some(open_marker(root)?),
            false => None,
        };
        let held = Self {
            root: root.clone(),
            marker: mark,
        };
        // When it fails, what it changed was undone, and the mark goes with `held`.
        apply(root, &wanted)?;
        Ok(held)
    }

    /// Gives them back; empty where they were at their highest before.
    ///
    /// # Errors
    /// They cannot be given back; the record is kept, and the next holder tries again.
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
                "the clocks stay held: {error}; give them back with `jetwatch tune restore`"
            );
        }
    }
}

/// Gives back the clocks of a holder that was killed. Empty: there is none.
///
/// # Errors
/// They cannot be given back.
pub fn restore_after_crash(root: &SysRoot) -> Result<Vec<Restored>, TuneError> {
    let path = root.path(MARKER);
    let Ok(mark) = File::open(&path) else {
        return Ok(Vec::new());
    };
    match mark.try_lock() {
        Ok(()) => free(root),
        // Its holder lives, and will do it.
        Err(TryLockError::WouldBlock) => Ok(Vec::new()),
        Err(TryLockError::Error(source)) => Err(PlatformError::Write { path, source }.into()),
    }
}

/// Frees the clocks, then takes the mark away, so that a failure is tried again.
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
