//! Unpacks a verified archive: the manifest first, then exactly the files that it lists, in its order. Nothing else is accepted:
//! no links, devices, folders, or extensions of the format, whatever their names are.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use jetwatch_files::{Sha256Hasher, for_each_chunk, sync_dir};
use tar::{Archive, Entry};

use super::manifest::{MANIFEST, MAX_MANIFEST_BYTES, Manifest};

/// Permissions of files: the daemon reads them, and only their owner writes them.
const FILE_MODE: u32 = 0o644;

/// Why an archive cannot be unpacked.
#[derive(Debug)]
pub(crate) enum UnpackError {
    /// What is wrong with its content.
    Content(String),
    /// A file cannot be written.
    Io(io::Error),
}

impl From<String> for UnpackError {
    fn from(problem: String) -> Self {
        Self::Content(problem)
    }
}

/// Unpacks `archive` from its current position into the empty `folder`, and syncs all of it to the disk.
pub(crate) fn unpack(archive: impl Read, folder: &Path) -> Result<Manifest, UnpackError> {
    let mut archive = Archive::new(archive);
    // Raw: extensions, such as long names, would be applied to the entries behind them.
    let entries = archive.entries().map_err(no_archive)?.raw(true);
    let mut entries = entries.map(|entry| entry.map_err(no_archive));
    let mut next = |expected: &str| {
        let missing = || UnpackError::from(format!("it ends where {expected} is expected"));
        entries.next().ok_or_else(missing)?
    };
    let mut first = next(MANIFEST)?;
    let bytes = check_entry(&first, MANIFEST)?;
    if bytes > MAX_MANIFEST_BYTES {
        return Err(
            format!("{MANIFEST} has {bytes} bytes, expected {MAX_MANIFEST_BYTES} at most").into(),
        );
    }
    let mut text = Vec::new();
    let read = first.read_to_end(&mut text).map_err(no_archive)?;
    check_length(MANIFEST, read as u64, bytes)?;
    let manifest = Manifest::parse(&text)?;
    let mut file = create(folder, MANIFEST)?;
    file.write_all(&text).map_err(UnpackError::Io)?;
    file.sync_all().map_err(UnpackError::Io)?;
    for listed in &manifest.files {
        let mut entry = next(&listed.path)?;
        let bytes = check_entry(&entry, &listed.path)?;
        if bytes != listed.bytes {
            return Err(format!(
                "{} has {bytes} bytes, expected {} as in {MANIFEST}",
                listed.path, listed.bytes
            )
            .into());
        }
        let mut file = create(folder, &listed.path)?;
        let (mut hasher, mut read) = (Sha256Hasher::default(), 0);
        let mut written = Ok(());
        for_each_chunk(&mut entry, |chunk| {
            read += chunk.len() as u64;
            hasher.update(chunk);
            if written.is_ok() {
                written = file.write_all(chunk);
            }
            Ok(())
        })
        .map_err(no_archive)?;
        written.map_err(UnpackError::Io)?;
        check_length(&listed.path, read, bytes)?;
        let found = hasher.finish();
        if found != listed.sha256 {
            return Err(format!(
                "{} has the SHA-256 {found}, expected {} as in {MANIFEST}",
                listed.path, listed.sha256
            )
            .into());
        }
        file.sync_all().map_err(UnpackError::Io)?;
    }
    if let Some(extra) = entries.next() {
        let extra = extra?;
        let name = String::from_utf8_lossy(&extra.path_bytes()).into_owned();
        return Err(format!("found {name:?} behind the last file of {MANIFEST}").into());
    }
    sync_folders(folder).map_err(UnpackError::Io)?;
    Ok(manifest)
}

/// Checks that `entry` is the plain file `expected`, and gives its size in bytes.
fn check_entry<R: Read>(entry: &Entry<'_, R>, expected: &str) -> Result<u64, UnpackError> {
    let (name, header) = (entry.path_bytes(), entry.header());
    let kind = header.entry_type();
    if !kind.is_file() || name.as_ref() != expected.as_bytes() {
        return Err(format!(
            "found {:?} of the type {kind:?}, expected the file {expected}",
            String::from_utf8_lossy(&name)
        )
        .into());
    }
    entry.header().size().map_err(no_archive)
}

fn check_length(path: &str, read: u64, expected: u64) -> Result<(), UnpackError> {
    match read == expected {
        true => Ok(()),
        false => Err(format!("{path} ends after {read} of {expected} bytes").into()),
    }
}

/// Creates the file `path` below `folder`, which does not exist; its name was checked with the manifest.
fn create(folder: &Path, path: &str) -> Result<File, UnpackError> {
    let path = folder.join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(UnpackError::Io)?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(&path)
        .map_err(UnpackError::Io)?;
    // Whatever the umask of the caller is: the daemon is another user.
    let mode = fs::Permissions::from_mode(FILE_MODE);
    file.set_permissions(mode).map_err(UnpackError::Io)?;
    Ok(file)
}

/// Sets the permissions of `folder` and the folders below it, and syncs their names.
fn sync_folders(folder: &Path) -> io::Result<()> {
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder, mode)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_dir(folder).map_err(|error| error.source)
}

fn no_archive(error: io::Error) -> UnpackError {
    UnpackError::Content(format!("it is no complete tar archive: {error}"))
}
