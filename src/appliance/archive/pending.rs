// SPDX-License-Identifier: Apache-2.0
//! A file of the archive that is being written.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Advice, fadvise};

use super::archive::Archive;
use super::error::{ArchiveError, io_error, is_no_space};
use super::folder::sync_folder;
use super::item::{Item, MediaId};

/// A file that is being written, from [`Archive::begin`](Archive::begin). Dropped without [`finish`](Self::finish), what was
/// written is kept as an incomplete file, and an empty file is deleted.
#[derive(Debug)]
pub struct Pending {
    archive: Archive,
    item: Item,
    path: PathBuf,
    /// `None` once it was finished or discarded.
    file: Option<File>,
}

/// What is known of a file at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    /// Capture time of its last picture.
    pub to: SystemTime,
    /// It does not hold all that it should.
    pub is_incomplete: bool,
}

impl Finish {
    /// The end of a complete file.
    pub const fn complete(to: SystemTime) -> Self {
        Self {
            to,
            is_incomplete: false,
        }
    }

    /// The end of a file that lacks something.
    pub const fn incomplete(to: SystemTime) -> Self {
        Self {
            to,
            is_incomplete: true,
        }
    }
}

impl Pending {
    pub(crate) fn new(archive: Archive, item: Item, path: PathBuf, file: File) -> Self {
        Self {
            archive,
            item,
            path,
            file: Some(file),
        }
    }

    /// Its id.
    pub fn id(&self) -> &MediaId {
        &self.item.id
    }

    /// What is known of it now.
    pub fn item(&self) -> &Item {
        &self.item
    }

    /// Its file, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the tracks that it is about, where more have come since it was begun.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn set_tracks(&mut self, tracks: &[String]) -> Result<(), ArchiveError> {
        if self.item.tracks == tracks {
            return Ok(());
        }
        self.item.tracks = tracks.to_vec();
        self.archive.set_tracks(&self.item.id, tracks)
    }

    /// Syncs the file and its folder, then marks it as ready in the index. Blocks until the device has it.
    ///
    /// # Errors
    /// The file cannot be synced, or the index not be written. The file stays, and the next [`Archive::open`](Archive::open) takes it
    /// into the index.
    pub fn finish(mut self, end: Finish) -> Result<Item, ArchiveError> {
        self.finish_in_place(end)
    }

    /// Deletes the file, as if it had never been begun.
    ///
    /// # Errors
    /// The file cannot be deleted, or the index not be written.
    pub fn discard(mut self) -> Result<(), ArchiveError> {
        self.file = None;
        self.archive.forget(&self.item)
    }

    fn finish_in_place(&mut self, end: Finish) -> Result<Item, ArchiveError> {
        let Some(file) = self.file.take() else {
            return Ok(self.item.clone());
        };
        let synced = file.sync_all().and_then(|()| file.metadata());
        let bytes = synced.map_err(|error| self.failed("sync", error))?.len();
        // It is read again seldom: the memory is worth more for other files. Refused, nothing is lost.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        if let Some(folder) = self.path.parent() {
            sync_folder(folder)?;
        }
        self.archive.finish(&self.item.id, end, bytes)
    }

    fn failed(&self, action: &'static str, error: io::Error) -> ArchiveError {
        if is_no_space(&error) {
            self.archive.set_full(true);
        }
        io_error(action, &self.path)(error)
    }

    fn check<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && is_no_space(error)
        {
            self.archive.set_full(true);
        }
        result
    }
}

/// A write for which there is no room fails with an error for which [`is_no_space`] is true, and stops all recording:
/// [`Archive::is_full`].
impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        self.check(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Pending {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.file {
            Some(file) => file.seek(to),
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(file) = &self.file else {
            return;
        };
        let is_empty = file.metadata().is_ok_and(|about| about.len() == 0);
        let ended = match is_empty {
            true => {
                self.file = None;
                self.archive.forget(&self.item)
            }
            false => self
                .finish_in_place(Finish::incomplete(SystemTime::now()))
                .map(|_| ()),
        };
        if let Err(error) = ended {
            log::warn!("{error}");
        }
    }
}
