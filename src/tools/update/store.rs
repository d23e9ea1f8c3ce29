// SPDX-License-Identifier: Apache-2.0
//! The updater's folder: the lock, the journal, the status, and the kept packages with their digests.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use jetwatch_files::Sha256Digest;
use jetwatch_telemetry::update_status::{HISTORY_FILE, STATUS_FILE, UpdateStatus};

use super::journal::{JOURNAL_VERSION, Journal, KeptPackage};
use super::{Change, UpdateError};

/// Name of the journal.
const JOURNAL: &str = "journal.json";
/// Updates that are remembered.
const MAX_HISTORY: usize = 50;
/// Name of the list of kept packages.
const KEPT: &str = "kept.json";
/// Folder of kept and fetched packages.
const PACKAGES: &str = "packages";
/// Folder of files that are not complete.
const INCOMING: &str = "incoming";
/// Folder in which the new program is unpacked.
const SCRATCH: &str = "scratch";
/// Space that is taken until a roll-back needs it.
const RESERVE: &str = "reserve";
/// The program that ends an interrupted update.
const PROGRAM: &str = "updater";

/// The kept packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Of the installed version.
    pub current: Vec<KeptPackage>,
    /// Of the version before it.
    pub previous: Vec<KeptPackage>,
    /// That version, in words.
    pub previous_version: Option<String>,
}

/// The folder, locked for one updater.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// The running program.
    program: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens the folder, which is made where it is missing, for this process alone.
    ///
    /// # Errors
    /// It belongs to another user, others can write to it, it cannot be made, or another updater uses it.
    pub fn open(folder: &Path) -> Result<Self, UpdateError> {
        let make = |path: &Path| {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
            made.map_err(UpdateError::file("create", path))
        };
        make(folder)?;
        // Its parent as well: who can rename the folder can put another one in its place.
        for path in [Some(folder), folder.parent()].into_iter().flatten() {
            check_owner(path)?;
        }
        let path = folder.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(UpdateError::file("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(UpdateError::Busy),
            Err(TryLockError::Error(source)) => {
                return Err(UpdateError::file("lock", path)(source));
            }
        }
        make(&folder.join(PACKAGES))?;
        Ok(Self {
            folder: folder.to_owned(),
            program: PathBuf::from("/proc/self/exe"),
            _lock: lock,
        })
    }

    /// A small file in place of the running program.
    #[cfg(test)]
    pub(crate) fn with_program(self, program: &Path) -> Self {
        Self {
            program: program.to_owned(),
            ..self
        }
    }

    /// The transaction that is under way.
    ///
    /// # Errors
    /// The file cannot be read, or is of another version.
    pub fn journal(&self) -> Result<Option<Journal>, UpdateError> {
        let journal: Option<Journal> = self.read(JOURNAL)?;
        match journal {
            Some(journal) if journal.version != JOURNAL_VERSION => Err(UpdateError::Corrupt {
                path: self.folder.join(JOURNAL),
                problem: format!("its version is {}", journal.version),
            }),
            journal => Ok(journal),
        }
    }

    /// Writes the transaction; it is on the disk when this returns.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub(crate) fn set_journal(&self, journal: &Journal) -> Result<(), UpdateError> {
        self.write(JOURNAL, journal)
    }

    /// The transaction is over.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn clear_journal(&self) -> Result<(), UpdateError> {
        self.remove(JOURNAL)?;
        Ok(jetwatch_files::sync_dir(&self.folder)?)
    }

    /// What was last said of updates.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn status(&self) -> Result<Option<UpdateStatus>, UpdateError> {
        let path = self.folder.join(STATUS_FILE);
        UpdateStatus::read(&path).map_err(UpdateError::file("read", path))
    }

    /// Replaces it.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub(crate) fn set_status(&self, status: &UpdateStatus) -> Result<(), UpdateError> {
        self.write(STATUS_FILE, status)
    }

    /// Replaces it by that of an update which is over, and remembers this.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub(crate) fn set_last_status(&self, status: &UpdateStatus) -> Result<(), UpdateError> {
        // An unreadable list is replaced.
        let history: Option<Vec<UpdateStatus>> = self.read(HISTORY_FILE).ok().flatten();
        let mut history = history.unwrap_or_default();
        history.push(status.clone());
        history.drain(..history.len().saturating_sub(MAX_HISTORY));
        self.write(HISTORY_FILE, &history)?;
        self.set_status(status)
    }

    pub(crate) fn kept(&self) -> Result<Kept, UpdateError> {
        Ok(self.read(KEPT)?.unwrap_or_default())
    }

    pub(crate) fn set_kept(&self, kept: &Kept) -> Result<(), UpdateError> {
        self.write(KEPT, kept)
    }

    /// An empty folder for files that are not complete.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn incoming(&self) -> Result<PathBuf, UpdateError> {
        self.empty_folder(INCOMING)
    }

    /// An empty folder for the new program.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn scratch(&self) -> Result<PathBuf, UpdateError> {
        self.empty_folder(SCRATCH)
    }

    fn empty_folder(&self, name: &str) -> Result<PathBuf, UpdateError> {
        self.remove_folder(name)?;
        let path = self.folder.join(name);
        let made = DirBuilder::new().mode(0o755).create(&path);
        made.map_err(UpdateError::file("create", &path))?;
        Ok(path)
    }

    /// Moves a complete package file into the store; it is on the disk when this returns.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn adopt(
        &self,
        file: &Path,
        package: &str,
        version: &str,
    ) -> Result<KeptPackage, UpdateError> {
        let sha256 = digest(file)?;
        // A version may have characters that a file name has not.
        let name = format!("{package}_{}.deb", &sha256.to_string()[..16]);
        jetwatch_files::rename(file, &self.folder.join(PACKAGES).join(&name))?;
        Ok(KeptPackage {
            package: package.to_owned(),
            version: version.to_owned(),
            file: name,
            sha256,
        })
    }

    /// The path of a kept package, whose content is what it was.
    ///
    /// # Errors
    /// It is missing, or was changed.
    pub fn verified(&self, kept: &KeptPackage) -> Result<PathBuf, UpdateError> {
        let path = self.folder.join(PACKAGES).join(&kept.file);
        if digest(&path)? != kept.sha256 {
            return Err(UpdateError::Corrupt {
                path,
                problem: "its content has changed since it was kept".to_owned(),
            });
        }
        Ok(path)
    }

    /// Removes what neither the journal nor the list of kept packages names.
    ///
    /// # Errors
    /// A file cannot be read or removed.
    pub fn clean(&self) -> Result<(), UpdateError> {
        self.remove_folder(INCOMING)?;
        self.remove_folder(SCRATCH)?;
        let (kept, journal) = (self.kept()?, self.journal()?);
        let of_change = |change: Change| [change.old, change.new].into_iter().flatten();
        let under_way = journal.into_iter().flat_map(|journal| journal.changes);
        let named: Vec<String> = under_way
            .flat_map(of_change)
            .chain(kept.current)
            .chain(kept.previous)
            .map(|kept| kept.file)
            .collect();
        let folder = self.folder.join(PACKAGES);
        let entries = fs::read_dir(&folder).map_err(UpdateError::file("read", &folder))?;
        for entry in entries {
            let entry = entry.map_err(UpdateError::file("read", &folder))?;
            if !named.iter().any(|name| entry.file_name() == name.as_str()) {
                let path = entry.path();
                fs::remove_file(&path).map_err(UpdateError::file("remove", path))?;
            }
        }
        Ok(())
    }

    /// Removes the file of a package, so that a roll-back has its space.
    ///
    /// # Errors
    /// The disk fails.
    pub fn discard(&self, kept: &KeptPackage) -> Result<(), UpdateError> {
        self.remove(&format!("{PACKAGES}/{}", kept.file))
    }

    /// Takes `bytes` of the disk until [`release_reserve`](Self::release_reserve), so that a roll-back has room if something fills the
    /// disk meanwhile.
    ///
    /// # Errors
    /// There is not so much space.
    pub fn reserve(&self, bytes: u64) -> Result<(), UpdateError> {
        let path = self.folder.join(RESERVE);
        let file = File::create(&path).map_err(UpdateError::file("create", &path))?;
        let taken =
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes.max(1));
        if let Err(error) = taken {
            self.remove(RESERVE)?;
            return Err(UpdateError::Refused(format!(
                "there is no room on the disk of {} for {} MiB, which the new and the earlier version need: {error}; free some",
                self.folder.display(),
                bytes.div_ceil(1 << 20)
            )));
        }
        Ok(())
    }

    /// Gives that space back.
    ///
    /// # Errors
    /// The disk fails.
    pub fn release_reserve(&self) -> Result<(), UpdateError> {
        self.remove(RESERVE)
    }

    /// Puts a copy of the running program aside: it ends this update after a power cut, whatever the new one is worth.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub(crate) fn keep_program(&self) -> Result<(), UpdateError> {
        let program = &self.program;
        let mut source = File::open(program).map_err(UpdateError::file("open", program))?;
        let path = self.folder.join(PROGRAM);
        let mut pending = jetwatch_files::PendingFile::create(&path)?;
        let copied = std::io::copy(&mut source, pending.file()).and_then(|_| {
            pending
                .file()
                .set_permissions(fs::Permissions::from_mode(0o755))
        });
        copied.map_err(UpdateError::file("write", &path))?;
        Ok(pending.commit()?)
    }

    /// Removes that copy.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn drop_program(&self) -> Result<(), UpdateError> {
        self.remove(PROGRAM)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, UpdateError> {
        let path = self.folder.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(UpdateError::file("read", path)(source)),
        };
        let value = serde_json::from_str(&text).map_err(|error| UpdateError::Corrupt {
            path,
            problem: error.to_string(),
        })?;
        Ok(Some(value))
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), UpdateError> {
        let path = self.folder.join(name);
        jetwatch_files::write_with(&path, |file| {
            serde_json::to_writer_pretty(&mut *file, value)?;
            file.write_all(b"\n")?;
            file.set_permissions(fs::Permissions::from_mode(0o644))
        })?;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), UpdateError> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(UpdateError::file("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    fn remove_folder(&self, name: &str) -> Result<(), UpdateError> {
        let path = self.folder.join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(UpdateError::file("remove", path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// The folder is this user's, and no other can write to it.
fn check_owner(path: &Path) -> Result<(), UpdateError> {
    let found = fs::symlink_metadata(path).map_err(UpdateError::file("read", path))?;
    let problem = if !found.is_dir() {
        "it is no folder"
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        "it belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "other users can write to it"
    } else {
        return Ok(());
    };
    Err(UpdateError::Corrupt {
        path: path.to_owned(),
        problem: problem.to_owned(),
    })
}

fn digest(path: &Path) -> Result<Sha256Digest, UpdateError> {
    Sha256Digest::of_file(path).map_err(UpdateError::file("read", path))
}
