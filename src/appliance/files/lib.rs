// SPDX-License-Identifier: Apache-2.0
//! Files that are written whole or not at all: the content goes to a temporary file of a unique name in the same folder, is
//! synced, and is renamed into place; then the folder is synced. A reader sees the old content or all of the new, and so does
//! the next start after a power failure.
//!
//! A file that exists keeps its permissions and its owner; a new one gets those that the process gives to new files. A symbolic link is
//! replaced, not followed, unless the caller asks for its [target](target_of). Not for files of the kernel, which are written in place, and not for downloads that are resumed.
//!
//! With them the [digests](Sha256Digest) by which contents are verified.

mod digest;
mod open;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

pub use open::{OFlags, open_below, open_own, remove_below, target_of};

pub use digest::{NoDigest, Sha256Digest, Sha256Hasher, for_each_chunk};

/// End of the names of temporary files, which begin with a dot. Only a killed process leaves one.
pub const PARTIAL: &str = ".partial";

/// A file that cannot be written. A target that existed is as before, unless only the sync of its folder failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct WriteError {
    /// What failed: `create a file in`, `create`, `write`, `replace` or `sync`.
    pub action: &'static str,
    /// The folder or file.
    pub path: PathBuf,
    /// The error of the operating system.
    pub source: io::Error,
}

/// Writes `bytes` to the file at `path`.
///
/// # Errors
/// The folder or the file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_with(path, |file| file.write_all(bytes))
}

/// Writes what `fill` writes to the file at `path`.
///
/// # Errors
/// `fill` fails, or the folder or the file cannot be written.
pub fn write_with<T>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<T>,
) -> Result<T, WriteError> {
    let mut pending = PendingFile::create(path)?;
    let written = fill(pending.file()).map_err(|source| failed("write", path, source))?;
    pending.commit()?;
    Ok(written)
}

/// A temporary file that becomes the file at a path on [`commit`](Self::commit). Dropped before, it is removed.
///
/// For contents that come piece by piece, and for several files that are named only when all of them are on the disk.
#[derive(Debug)]
pub struct PendingFile {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl PendingFile {
    /// An empty temporary file in the folder of `path`.
    ///
    /// # Errors
    /// `path` has no file name, or the folder cannot be written.
    pub fn create(path: &Path) -> Result<Self, WriteError> {
        let name = path.file_name().ok_or_else(|| {
            let what = "the path does not end in a file name";
            failed(
                "write",
                path,
                io::Error::new(io::ErrorKind::InvalidInput, what),
            )
        })?;
        let mut prefix = OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        let folder = folder_of(path);
        // The permissions of a new file, without the umask, and not those of a private temporary file.
        let create = |path: &Path| File::create_new(path);
        let temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(PARTIAL)
            .make_in(folder, create)
            .map_err(|source| failed("create a file in", folder, source))?;
        let pending = Self {
            temporary,
            path: path.to_owned(),
        };
        let file = pending.temporary.as_file();
        let given = match path.exists() {
            true => copy_access(path, file),
            // What root makes in the folder of a service is for the service.
            false => match fs::metadata(folder) {
                Ok(folder) if rustix::process::geteuid().is_root() => give(file, &folder),
                _ => Ok(()),
            },
        };
        given.map_err(|source| failed("write", path, source))?;
        Ok(pending)
    }

    /// The temporary file, for writing.
    pub fn file(&mut self) -> &mut File {
        self.temporary.as_file_mut()
    }

    /// Syncs the content to the disk.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn sync(&self) -> Result<(), WriteError> {
        let synced = self.temporary.as_file().sync_all();
        synced.map_err(|source| failed("write", &self.path, source))
    }

    /// Syncs the content, renames the file to its path, and syncs the folder.
    ///
    /// # Errors
    /// The disk is full or fails, or the path cannot be replaced.
    pub fn commit(self) -> Result<(), WriteError> {
        self.sync()?;
        let renamed = self.temporary.persist(&self.path);
        renamed.map_err(|error| failed("replace", &self.path, error.error))?;
        sync_dir(folder_of(&self.path))
    }

    /// Renames the file to its path without a sync. A reader sees the old content or all of the new; a power failure may leave
    /// either, or an empty file. For values that are written again soon, so that the device is spared.
    ///
    /// # Errors
    /// The path cannot be replaced.
    pub fn replace(self) -> Result<(), WriteError> {
        let renamed = self.temporary.persist(&self.path);
        renamed.map_err(|error| failed("replace", &self.path, error.error))?;
        Ok(())
    }
}

/// Gives `file` the permissions and the owner of the one at `model`; the owner as far as this user may.
///
/// # Errors
/// `model` cannot be looked at, or the permissions cannot be set.
pub(crate) fn copy_access(model: &Path, file: &File) -> io::Result<()> {
    let model = fs::metadata(model)?;
    give(file, &model)?;
    file.set_permissions(model.permissions())
}

/// Gives `file` the owner of `model`, as far as this user may: root alone may give files away.
fn give(file: &File, model: &fs::Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (model.uid(), model.gid()) {
        let _ = std::os::unix::fs::fchown(file, Some(model.uid()), Some(model.gid()));
    }
    Ok(())
}

/// Replaces the text of a file by `after`, with `before` kept in the file of the same name and `.previous`, whose path it returns. Both
/// have the mode and owner of the file: they hold the same secrets.
///
/// # Errors
/// One of the two cannot be written; the file is as it was before.
pub fn replace_text(path: &Path, before: &str, after: &str) -> Result<PathBuf, WriteError> {
    let mut previous = path.as_os_str().to_owned();
    previous.push(".previous");
    let previous = PathBuf::from(previous);
    for (target, text) in [(&*previous, before), (path, after)] {
        write_with(target, |file| {
            copy_access(path, file)?;
            file.write_all(text.as_bytes())
        })?;
    }
    Ok(previous)
}

/// Writes a secret as the one line of a file for its owner alone (0600), in a folder for its owner alone, which is made where there is none.
/// Returns whether it was written: a file that has it already is kept.
///
/// # Errors
/// The file has another secret, or cannot be written.
pub fn store_secret(path: &Path, secret: &str) -> Result<bool, WriteError> {
    let line = format!("{secret}\n");
    match fs::read_to_string(path) {
        Ok(stored) if stored == line => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => {
            let another = || io::Error::new(io::ErrorKind::AlreadyExists, "it has another secret");
            return Err(failed("replace", path, other.err().unwrap_or_else(another)));
        }
    }
    let folder = folder_of(path);
    if !folder.is_dir() {
        let made = fs::DirBuilder::new().mode(0o700).create(folder);
        made.map_err(|source| failed("create", folder, source))?;
    }
    write_with(path, |file| {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(line.as_bytes())
    })?;
    Ok(true)
}

/// Syncs the file at `from`, which another program or an earlier run wrote, renames it to `to` on the same file system, and
/// syncs the folder of `to`.
///
/// # Errors
/// `from` cannot be opened, the disk fails, or `to` cannot be replaced.
pub fn rename(from: &Path, to: &Path) -> Result<(), WriteError> {
    let synced = File::open(from).and_then(|file| file.sync_all());
    synced.map_err(|source| failed("sync", from, source))?;
    fs::rename(from, to).map_err(|source| failed("replace", to, source))?;
    sync_dir(folder_of(to))
}

/// Syncs the names in `folder` to the disk.
///
/// # Errors
/// The folder cannot be opened or synced.
pub fn sync_dir(folder: &Path) -> Result<(), WriteError> {
    let synced = File::open(folder).and_then(|opened| opened.sync_all());
    synced.map_err(|source| failed("sync", folder, source))
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> WriteError {
    WriteError {
        action,
        path: path.to_owned(),
        source,
    }
}

/// The folder of a file; the current one for a bare name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a readable folder");
        entries
            .map(|entry| entry.expect("readable").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn content_is_replaced_and_permissions_stay() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a.json");
        fs::write(&path, "old and longer").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("set");
        write(&path, b"new").expect("written");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["a.json"]);
        // Root alone can make files of other users.
        if fs::metadata(&path).expect("there").uid() == 0 {
            std::os::unix::fs::chown(&path, Some(65534), Some(65534)).expect("root may");
            write(&path, b"newer").expect("written");
            let found = fs::metadata(&path).expect("there");
            assert_eq!(
                (found.uid(), found.gid(), found.mode() & 0o777),
                (65534, 65534, 0o640)
            );
            let service = folder.path().join("service");
            fs::create_dir(&service).expect("created");
            std::os::unix::fs::chown(&service, Some(65534), Some(65534)).expect("root may");
            write(&service.join("users"), b"new").expect("written");
            let found = fs::metadata(service.join("users")).expect("there");
            assert_eq!((found.uid(), found.gid()), (65534, 65534));
        }
    }

    #[test]
    fn new_files_get_the_permissions_of_other_new_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [own, other] = ["own", "other"].map(|name| folder.path().join(name));
        write(&own, b"").expect("written");
        fs::write(&other, "").expect("written");
        let mode = |path| fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&own), mode(&other));
    }

    #[test]
    fn failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        write(&path, b"old").expect("written");
        let failed = write_with(&path, |file| {
            file.write_all(b"half")?;
            Err::<(), _>(io::Error::other("no space"))
        });
        let error = failed.expect_err("an error");
        let text = format!("cannot write {}", path.display());
        assert_eq!(
            (error.to_string(), error.source.to_string()),
            (text, "no space".to_owned())
        );
        assert_eq!(fs::read(&path).expect("readable"), b"old");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn paths_without_a_file_name_are_refused() {
        let error = write(Path::new(".."), b"").expect_err("no file");
        assert_eq!(error.source.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn pending_file_gets_its_name_on_commit_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        let mut pending = PendingFile::create(&path).expect("writable");
        pending.file().write_all(b"content").expect("written");
        assert!(!path.exists());
        pending.commit().expect("renamed");
        drop(PendingFile::create(&path).expect("writable"));
        assert_eq!(fs::read(&path).expect("readable"), b"content");
        let mut pending = PendingFile::create(&path).expect("writable");
        pending.file().write_all(b"later").expect("written");
        pending.replace().expect("renamed");
        assert_eq!(fs::read(&path).expect("readable"), b"later");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn missing_folder_is_named_in_the_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = folder.path().join("missing");
        let error = write(&missing.join("a"), b"").expect_err("no folder");
        assert_eq!(error.path, missing);
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn rename_replaces_the_file_of_that_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        write(&to, b"old").expect("written");
        write(&from, b"new").expect("written");
        rename(&from, &to).expect("renamed");
        assert_eq!(fs::read(&to).expect("readable"), b"new");
        assert_eq!(names(folder.path()), ["to"]);
    }
}
