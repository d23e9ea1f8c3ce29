// SPDX-License-Identifier: Apache-2.0
//! The operations of the log on files, in one place, so that a test can let each of them fail.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// An operation that is about to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A file is created.
    Create,
    /// This many bytes are written.
    Write(usize),
    /// A file is synced.
    Sync,
    /// A folder is synced.
    SyncFolder,
    /// A file is renamed.
    Rename,
    /// A file is removed.
    Remove,
    /// A file is shortened.
    Truncate,
}

/// Called before each operation. `Ok(bytes)`: it is done, of a write the first `bytes` only, after which the disk is full.
type Fault = Box<dyn FnMut(Operation) -> io::Result<usize> + Send>;

/// The disk, or one that fails on command.
#[derive(Default)]
pub struct Disk {
    fault: Option<Fault>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl Disk {
    /// A disk that asks `fault` before each operation; for tests.
    pub fn failing(fault: impl FnMut(Operation) -> io::Result<usize> + Send + 'static) -> Self {
        Self {
            fault: Some(Box::new(fault)),
        }
    }

    fn before(&mut self, operation: Operation) -> io::Result<usize> {
        match &mut self.fault {
            Some(fault) => fault(operation),
            None => Ok(usize::MAX),
        }
    }

    pub(crate) fn create(&mut self, path: &Path) -> io::Result<File> {
        self.before(Operation::Create)?;
        OpenOptions::new()
            .append(true)
            .read(true)
            .create_new(true)
            .open(path)
    }

    /// Writes all of `bytes` at the end of `file`, or a part of them before an error.
    pub(crate) fn append(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        let allowed = self.before(Operation::Write(bytes.len()))?;
        if allowed < bytes.len() {
            file.write_all(&bytes[..allowed])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all(bytes)
    }

    pub(crate) fn write_at(&mut self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let allowed = self.before(Operation::Write(bytes.len()))?;
        if allowed < bytes.len() {
            file.write_all_at(&bytes[..allowed], offset)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all_at(bytes, offset)
    }

    pub(crate) fn sync(&mut self, file: &File) -> io::Result<()> {
        self.before(Operation::Sync)?;
        file.sync_data()
    }

    pub(crate) fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.before(Operation::SyncFolder)?;
        File::open(folder)?.sync_all()
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(Operation::Rename)?;
        fs::rename(from, to)
    }

    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.before(Operation::Remove)?;
        fs::remove_file(path)
    }

    pub(crate) fn truncate(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        self.before(Operation::Truncate)?;
        file.set_len(bytes)
    }
}
