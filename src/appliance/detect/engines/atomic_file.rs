// SPDX-License-Identifier: Apache-2.0
//! Atomic writes of the files of the engine cache, and the lock that allows one build at a time.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jetwatch_files::{PARTIAL, PendingFile};

use super::EngineError;
use super::spec::is_engine_name;

/// Name of the file that is locked during a build.
const LOCK: &str = ".lock";

/// How often a build that waits for another looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A file that is written and synced but has not its name yet. Dropped, it is gone.
pub(super) struct AtomicFile {
    pending: PendingFile,
    path: PathBuf,
}

impl AtomicFile {
    /// Writes `bytes` next to `path` and makes sure that they are on the disk.
    pub(super) fn new(path: PathBuf, bytes: &[u8]) -> Result<Self, EngineError> {
        let error = |source| write_error(&path, bytes.len() as u64, source);
        let mut pending = PendingFile::create(&path).map_err(|failed| error(failed.source))?;
        pending.file().write_all(bytes).map_err(error)?;
        pending.sync().map_err(|failed| error(failed.source))?;
        Ok(Self { pending, path })
    }

    /// Gives the file its name, which is then on the disk, too; what has it is replaced.
    pub(super) fn commit(self) -> Result<(), EngineError> {
        let committed = self.pending.commit();
        committed.map_err(|error| folder_error("write", &self.path, error.source))
    }
}

/// Writes one file whole or not at all, with its name safe on the disk.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
    AtomicFile::new(path.to_owned(), bytes)?.commit()
}

/// Makes sure that changes of names in `folder` are on the disk.
pub(super) fn sync_dir(folder: &Path) -> Result<(), EngineError> {
    jetwatch_files::sync_dir(folder).map_err(|error| folder_error("write", folder, error.source))
}

/// The right to change the cache, held until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

/// Makes the folder if need be and takes its lock. While another build holds it, `wait` is called repeatedly with the time
/// waited so far, until it returns `false`: then there is no lock.
pub(super) fn lock(
    folder: &Path,
    wait: &mut dyn FnMut(Duration) -> bool,
) -> Result<Option<Lock>, EngineError> {
    fs::create_dir_all(folder).map_err(|source| folder_error("write", folder, source))?;
    let path = folder.join(LOCK);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(|source| folder_error("write", folder, source))?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) if wait(since.elapsed()) => {
                std::thread::sleep(POLL_INTERVAL)
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(folder_error("write", &path, source)),
        }
    }
}

/// Removes what an interrupted build left in `folder`: half-written files, and engines that have no manifest. The lock must be held.
pub(super) fn remove_leftovers(folder: &Path, _lock: &Lock) -> Result<Vec<PathBuf>, EngineError> {
    let unreadable = |source| folder_error("read", folder, source);
    let mut removed = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_partial = name.starts_with('.') && name.ends_with(PARTIAL);
        let is_orphan = is_engine_name(&name) && !manifest_of(&path).exists();
        if is_partial || is_orphan {
            fs::remove_file(&path).map_err(|source| folder_error("write", &path, source))?;
            log::info!("removed {}, left by an interrupted build", path.display());
            removed.push(path);
        }
    }
    Ok(removed)
}

/// The manifest of the engine at `path`.
pub(super) fn manifest_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

pub(super) fn folder_error(what: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::Folder {
        what,
        path: path.to_owned(),
        source,
    }
}

/// A full disk is reported as such: that is no matter of rights.
fn write_error(path: &Path, bytes: u64, source: io::Error) -> EngineError {
    let is_full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    let folder = path.parent().unwrap_or(Path::new("."));
    if is_full.contains(&source.kind()) {
        return EngineError::Full {
            folder: folder.to_owned(),
            needed: bytes.div_ceil(1 << 20),
            free: super::disk_space::free_bytes(folder).unwrap_or(0) >> 20,
        };
    }
    folder_error("write", path, source)
}

#[cfg(test)]
mod tests;
