//! One at a time: the unit and a user's own call must not set and take back at once.

use std::fs::File;

use super::super::{PlatformError, SysRoot};

/// What is locked. It lies in memory, so that nothing of it is left on the disk.
const PATH: &str = "/run/jetwatch-tune.lock";

/// The right to change settings, held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits until nobody else is at work.
    ///
    /// # Errors
    /// The lock cannot be written, which is so for everybody but root.
    pub(super) fn acquire(root: &SysRoot) -> Result<Self, PlatformError> {
        let path = root.path(PATH);
        File::create(&path)
            .and_then(|file| {
                file.lock()?;
                Ok(Self { _file: file })
            })
            .map_err(|source| PlatformError::Write { path, source })
    }
}
