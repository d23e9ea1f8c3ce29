// SPDX-License-Identifier: Apache-2.0
//! The partial file of a download: `NAME.part`, and `NAME.part.from` with its address and version.
//!
//! It outlives the process, so that the next call can resume. It is locked while it is written, and
//! renamed only when it is complete and verified.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use jetwatch_files::Sha256Digest;

use super::FetchError;

/// A partial file, open and locked.
#[derive(Debug)]
pub(super) struct Partial {
    file: File,
    path: PathBuf,
    target: PathBuf,
    len: u64,
    /// The server's ETag or date of the version that the bytes belong to.
    validator: Option<String>,
}

impl Partial {
    /// Opens the partial file of `target` from `url`, or creates one. Bytes from another address are discarded.
    pub(super) fn open(target: &Path, url: &str) -> Result<Self, FetchError> {
        let path = sibling(target, ".part");
        let error = |source| FetchError::Write {
            path: path.clone(),
            source,
        };
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).map_err(|source| FetchError::Write {
                path: folder.to_owned(),
                source,
            })?;
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FetchError::Busy { path }),
            Err(TryLockError::Error(source)) => return Err(error(source)),
        }
        let len = file.metadata().map_err(error)?.len();
        let origin = fs::read_to_string(sibling(&path, ".from")).unwrap_or_default();
        let (from, validator) = origin.split_once('\n').unwrap_or_default();
        let mut partial = Self {
            file,
            target: target.to_owned(),
            len,
            validator: Some(validator.trim().to_owned()).filter(|text| !text.is_empty()),
            path,
        };
        if from != url && len > 0 {
            partial.restart()?;
        }
        Ok(partial)
    }

    /// Number of bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The server's ETag or date of the version that the bytes belong to.
    pub(super) fn validator(&self) -> Option<&str> {
        self.validator.as_deref()
    }

    /// Discards all bytes.
    pub(super) fn restart(&mut self) -> Result<(), FetchError> {
        // An empty file is not truncated: a device such as /dev/full has no length to set.
        if self.len > 0 {
            self.file.set_len(0).map_err(|source| self.error(source))?;
        }
        self.len = 0;
        self.validator = None;
        Ok(())
    }

    /// Records the version, before the first bytes are written.
    pub(super) fn save_source(
        &mut self,
        url: &str,
        validator: Option<&str>,
    ) -> Result<(), FetchError> {
        let path = sibling(&self.path, ".from");
        fs::write(&path, format!("{url}\n{}\n", validator.unwrap_or("")))
            .map_err(|source| FetchError::Write { path, source })?;
        self.validator = validator.map(str::to_owned);
        Ok(())
    }

    /// Appends `bytes`.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let written = self
            .file
            .seek(SeekFrom::Start(self.len))
            .and_then(|_| self.file.write_all(bytes));
        written.map_err(|source| self.error(source))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// SHA-256 of all bytes.
    pub(super) fn sha256(&mut self) -> Result<Sha256Digest, FetchError> {
        let rewound = self.file.seek(SeekFrom::Start(0));
        let digest = rewound.and_then(|_| Sha256Digest::of_reader(&mut self.file));
        digest.map_err(|source| self.error(source))
    }

    /// Renames the file to its final name.
    pub(super) fn finish(self) -> Result<(), FetchError> {
        // Not a temporary file of `jetwatch_files`: this one outlives the process, under a name that the next call finds.
        jetwatch_files::rename(&self.path, &self.target).map_err(|error| FetchError::Write {
            path: error.path,
            source: error.source,
        })?;
        // Useless without its file; the next download writes it again.
        let _ = fs::remove_file(sibling(&self.path, ".from"));
        Ok(())
    }

    /// Removes the file.
    pub(super) fn discard(self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(sibling(&self.path, ".from"));
    }

    fn error(&self, source: io::Error) -> FetchError {
        FetchError::Write {
            path: self.path.clone(),
            source,
        }
    }
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}
