// SPDX-License-Identifier: Apache-2.0
//! Serializes changes: the unit and a user's call must not apply and restore at the same time.

use std::fs::File;

use super::super::{PlatformError, SysRoot};

/// The lock file, on tmpfs, so that nothing remains on the disk.
const PATH: &str = "/run/jetwatch-tune.lock";

/// The lock; released when dropped or when the process ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Blocks until no other process holds the lock.
    ///
    /// # Errors
    /// The lock cannot be written, as for every user except root.
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
