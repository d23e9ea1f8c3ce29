//! The folder in which bundles are kept, and the lock on it.
//!
//! | name | what |
//! |---|---|
//! | `SHA256/` | the unpacked files of a version; never changed |
//! | `NAME` | a symbolic link to the version in use; replaced atomically |
//! | `.state/NAME.json` | versions, highest serial number, history, and a switch that has not ended |
//! | `.state/SHA256.yaml` | configurations that were replaced or brought along |
//! | `.lock` | locked while `jetwatch model` changes something |
//! | `.staging-…/` | a bundle that is being verified |

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jetwatch_files::{Sha256Digest, sync_dir};
use rustix::fs::{FlockOperation, flock, statvfs};
use tempfile::TempDir;

use super::error::io;
use super::keys::owner_problem;
use super::manifest::Manifest;
use super::{BundleError, BundleName};

const STATE: &str = ".state";
const LOCK: &str = ".lock";
const STAGING: &str = ".staging-";

/// The store, locked against other processes while this value lives.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    lock: File,
    #[cfg(test)]
    pub(crate) on_step: std::cell::RefCell<Option<OnStep>>,
}

/// Sees the disk between two steps of a switch: what a power cut leaves there.
#[cfg(test)]
pub(crate) struct OnStep(pub(crate) Box<dyn FnMut(&str)>);

#[cfg(test)]
impl std::fmt::Debug for OnStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnStep")
    }
}

impl Store {
    /// Opens the store in `folder`, which is made where it is missing, and locks it.
    ///
    /// # Errors
    /// The folder cannot be made or locked, another process holds the lock, or others could change its content.
    pub fn open(folder: &Path) -> Result<Self, BundleError> {
        make_folder(folder)?;
        make_folder(&folder.join(STATE))?;
        let path = folder.join(LOCK);
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io("open", &path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(BundleError::Busy {
                    folder: folder.to_owned(),
                });
            }
            Err(error) => return Err(io("lock", &path)(error.into())),
        }
        Ok(Self {
            folder: folder.to_owned(),
            lock,
            #[cfg(test)]
            on_step: std::cell::RefCell::default(),
        })
    }

    /// The folder of the store.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a version.
    #[must_use]
    pub fn version(&self, sha256: Sha256Digest) -> PathBuf {
        self.folder.join(sha256.to_string())
    }

    /// The link to the version of `name` that is in use.
    #[must_use]
    pub fn link(&self, name: &BundleName) -> PathBuf {
        self.folder.join(name.as_str())
    }

    pub(crate) fn state_file(&self, name: &BundleName) -> PathBuf {
        state_file(&self.folder, name)
    }

    pub(crate) fn state_folder(&self) -> PathBuf {
        self.folder.join(STATE)
    }

    pub(crate) fn kept_configuration(&self, sha256: Sha256Digest) -> PathBuf {
        self.folder.join(STATE).join(format!("{sha256}.yaml"))
    }

    /// The names of all bundles that have a state.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> Result<Vec<BundleName>, BundleError> {
        names(&self.folder)
    }

    /// An empty folder that is removed after use.
    pub(crate) fn temporary(&self) -> Result<TempDir, BundleError> {
        tempfile::Builder::new()
            .prefix(STAGING)
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir_in(&self.folder)
            .map_err(io("create a folder in", &self.folder))
    }

    /// Checks that `needed` bytes are free.
    pub(crate) fn check_space(&self, needed: u64) -> Result<(), BundleError> {
        let found = statvfs(&self.folder)
            .map_err(|error| io("read the free space of", &self.folder)(error.into()))?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        match free >= needed {
            true => Ok(()),
            false => Err(BundleError::NoSpace {
                folder: self.folder.clone(),
                free,
                needed,
            }),
        }
    }

    /// Moves the unpacked files at `content` to their version, where it is not there already.
    pub(crate) fn add_version(
        &self,
        content: &Path,
        sha256: Sha256Digest,
    ) -> Result<PathBuf, BundleError> {
        let path = self.version(sha256);
        if path.exists() {
            // A folder that was damaged since is replaced.
            fs::remove_dir_all(&path).map_err(io("remove", &path))?;
        }
        fs::rename(content, &path).map_err(io("rename to", &path))?;
        sync_dir(&self.folder)?;
        Ok(path)
    }

    /// Checks that the files of a version are those of its manifest.
    pub(crate) fn check_version(&self, sha256: Sha256Digest) -> Result<Manifest, BundleError> {
        let folder = self.version(sha256);
        let damaged = |problem: String| BundleError::Store {
            path: folder.clone(),
            problem: format!("the version is damaged: {problem}; install its bundle again"),
        };
        let manifest = Manifest::read(&folder).map_err(|error| damaged(error.to_string()))?;
        for file in &manifest.files {
            let path = folder.join(&file.path);
            let mut opened = File::open(&path).map_err(io("read", &path))?;
            let found = Sha256Digest::of_reader(&mut opened).map_err(io("read", &path))?;
            if found != file.sha256 {
                return Err(damaged(format!("{} was changed", file.path)));
            }
        }
        Ok(manifest)
    }

    /// Lets the link of `name` lead to a version, or removes it.
    pub(crate) fn set_link(
        &self,
        name: &BundleName,
        target: Option<Sha256Digest>,
    ) -> Result<(), BundleError> {
        let link = self.link(name);
        let Some(target) = target else {
            match fs::remove_file(&link) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(io("remove", &link)(error));
                }
                _ => return Ok(sync_dir(&self.folder)?),
            }
        };
        let target = target.to_string();
        if fs::read_link(&link).is_ok_and(|found| found == Path::new(&target)) {
            return Ok(());
        }
        let new = self.folder.join(format!("{STAGING}link-{name}"));
        let _ = fs::remove_file(&new);
        std::os::unix::fs::symlink(&target, &new).map_err(io("create", &new))?;
        fs::rename(&new, &link).map_err(io("replace", &link))?;
        Ok(sync_dir(&self.folder)?)
    }

    /// Removes temporary files, and versions and configurations that are not among `versions` and `configurations`.
    pub(crate) fn prune(
        &self,
        versions: &[Sha256Digest],
        configurations: &[Sha256Digest],
    ) -> Result<(), BundleError> {
        let is_unused = |name: &str, end: &str, kept: &[Sha256Digest]| {
            let digest = name.strip_suffix(end).and_then(|name| name.parse().ok());
            digest.is_some_and(|digest: Sha256Digest| !kept.contains(&digest))
        };
        remove_from(&self.folder, |name| {
            name.starts_with(STAGING) || is_unused(name, "", versions)
        })?;
        remove_from(&self.state_folder(), |name| {
            name.ends_with(jetwatch_files::PARTIAL) || is_unused(name, ".yaml", configurations)
        })
    }

    /// A point between two steps.
    #[cfg_attr(not(test), allow(clippy::unused_self))]
    pub(crate) fn step(&self, _name: &str) {
        #[cfg(test)]
        if let Some(OnStep(on_step)) = self.on_step.borrow_mut().as_mut() {
            on_step(_name);
        }
    }
}

impl Drop for Store {
    /// A process that is being started holds a copy of the file until its program begins: closing it here would not unlock it.
    fn drop(&mut self) {
        if let Err(error) = flock(&self.lock, FlockOperation::Unlock) {
            log::warn!("cannot unlock {}: {error}", self.folder.display());
        }
    }
}

/// The names of all bundles that have a state in the store in `folder`.
pub(crate) fn names(folder: &Path) -> Result<Vec<BundleName>, BundleError> {
    let folder = folder.join(STATE);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(io("read", &folder))? {
        let entry = entry.map_err(io("read", &folder))?.file_name();
        let name = entry.to_str().and_then(|name| name.strip_suffix(".json"));
        names.extend(name.and_then(|name| name.parse().ok()));
    }
    names.sort();
    Ok(names)
}

/// The file with the state of `name` in the store in `folder`.
pub(crate) fn state_file(folder: &Path, name: &BundleName) -> PathBuf {
    folder.join(STATE).join(format!("{name}.json"))
}

/// Makes a folder that only its owner can change, and checks that it is one.
fn make_folder(folder: &Path) -> Result<(), BundleError> {
    let made = fs::DirBuilder::new().mode(0o755).create(folder);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(io("create the folder", folder)(error));
        }
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder).map_err(io("read", folder))?;
    let problem = match metadata.is_dir() {
        false => Some("expected a folder, and no link to one".to_owned()),
        true => owner_problem(&metadata),
    };
    problem.map_or(Ok(()), |problem| {
        Err(BundleError::Store {
            path: folder.to_owned(),
            problem,
        })
    })
}

/// Removes the files and folders in `folder` whose names are `unwanted`.
fn remove_from(folder: &Path, unwanted: impl Fn(&str) -> bool) -> Result<(), BundleError> {
    for entry in fs::read_dir(folder).map_err(io("read", folder))? {
        let entry = entry.map_err(io("read", folder))?;
        if !entry.file_name().to_str().is_some_and(&unwanted) {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().map_err(io("read", &path))?;
        let removed = match kind.is_dir() {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.map_err(io("remove", &path))?;
    }
    Ok(())
}
