//! Files that are written whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes `bytes` to the file at `path` as [`write_atomically`] does.
///
/// # Errors
/// Those of [`write_atomically`].
pub fn atomic_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomically(path, |file| file.write_all(bytes))
}

/// Puts what `write` writes into the file at `path`: a reader sees the old content or all of the new, and so does the next
/// start after a power failure. The content goes to a temporary file of a unique name in the same folder, is synced, and is
/// renamed into place; then the folder is synced.
///
/// A file that exists keeps its permissions; a new one gets those that the process gives to new files. A symbolic link at
/// `path` is replaced, not followed.
///
/// # Errors
/// The error of `write`, or the folder or the file cannot be written. The file at `path` is then as before, unless only the
/// sync of its folder failed, and no temporary file is left.
pub fn write_atomically<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path does not end in a file name",
        )
    })?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    // The system takes the process's mask off these.
    let mut temporary = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".new")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    if let Ok(old) = fs::metadata(path) {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    let written = write(temporary.as_file_mut())?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
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
        atomic_write(&path, b"new").expect("written");
        assert_eq!(fs::read(&path).expect("readable"), b"new");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn new_files_get_the_permissions_of_other_new_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [own, other] = ["own", "other"].map(|name| folder.path().join(name));
        atomic_write(&own, b"").expect("written");
        fs::write(&other, "").expect("written");
        let mode = |path| fs::metadata(path).expect("there").permissions().mode();
        assert_eq!(mode(&own), mode(&other));
    }

    #[test]
    fn failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a");
        atomic_write(&path, b"old").expect("written");
        let failed = write_atomically(&path, |file| {
            file.write_all(b"half")?;
            Err::<(), _>(io::Error::other("no space"))
        });
        assert_eq!(failed.expect_err("an error").to_string(), "no space");
        assert_eq!(fs::read(&path).expect("readable"), b"old");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn paths_without_a_file_name_are_refused() {
        let error = atomic_write(Path::new(".."), b"").expect_err("no file");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
