//! One at a time: the unit and a user's own call must not set and take back at once.

use std::fs::{self, File};

use super::super::{PlatformError, Root};
use super::record::FOLDER;

/// The right to change settings, held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Makes the folder of the record and waits until nobody else is at work in it.
    ///
    /// # Errors
    /// The folder cannot be written, which is so for everybody but root.
    pub(super) fn take(root: &Root) -> Result<Self, PlatformError> {
        let folder = root.path(FOLDER);
        let path = folder.join("lock");
        fs::create_dir_all(&folder)
            .and_then(|()| File::create(&path))
            .and_then(|file| {
                file.lock()?;
                Ok(Self { _file: file })
            })
            .map_err(|source| PlatformError::Write { path, source })
    }
}
