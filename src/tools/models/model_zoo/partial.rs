//! The partial file of a download: `NAME.part`, and `NAME.part.from` with its address and version.
//!
//! It outlives the process, so that the next call can resume. It is locked while it is written, and
//! renamed only when it is complete and verified.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

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

    /// SHA-256 of all bytes, as hexadecimal digits.
    pub(super) fn sha256(&mut self) -> Result<String, FetchError> {
        hash(&mut self.file).map_err(|source| self.error(source))
    }

    /// Renames the file to its final name.
    pub(super) fn finish(self) -> Result<(), FetchError> {
        self.file.sync_all().map_err(|source| self.error(source))?;
        fs::rename(&self.path, &self.target).map_err(|source| FetchError::Write {
            path: self.target.clone(),
            source,
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

/// SHA-256 of the file at `path`, if it exists.
pub(super) fn hash_file(path: &Path) -> Option<String> {
    hash(&mut File::open(path).ok()?).ok()
}

fn hash(file: &mut File) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            len => hasher.update(&buffer[..len]),
        }
    }
    let digits = |byte: &u8| format!("{byte:02x}");
    Ok(hasher.finalize().iter().map(digits).collect())
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}
