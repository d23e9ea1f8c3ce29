// SPDX-License-Identifier: Apache-2.0
//! The folder of an archive: its lock, the names of its files, and the space on its device.

use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use jetwatch_files::OFlags;
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock, statvfs};
use rustix::io::Errno;

use super::error::{ArchiveError, io_error};
use super::item::MediaId;

/// Name of the file that the one writing process holds.
const LOCK: &str = "lock";

/// Longest name of a source.
const MAX_NAME_BYTES: usize = 128;

/// Space on a device, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Free for this process.
    pub free: u64,
    /// In all.
    pub total: u64,
}

impl Space {
    /// The space on the device of `folder`.
    ///
    /// # Errors
    /// The folder is not there.
    pub fn of(folder: &Path) -> Result<Self, ArchiveError> {
        let found = statvfs(folder).map_err(|errno| io_error("read", folder)(errno.into()))?;
        Ok(Self {
            free: found.f_bavail.saturating_mul(found.f_frsize),
            total: found.f_blocks.saturating_mul(found.f_frsize),
        })
    }
}

/// Makes `folder`, not those around it, and takes its lock.
pub(crate) fn lock(folder: &Path) -> Result<File, ArchiveError> {
    match fs::create_dir(folder) {
        Err(error) if !folder.is_dir() => return Err(io_error("create", folder)(error)),
        _ => {}
    }
    let path = folder.join(LOCK);
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let file = jetwatch_files::open_own(&path, flags).map_err(io_error("open", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(ArchiveError::Locked {
            path: folder.to_owned(),
        }),
        Err(errno) => Err(io_error("open", path)(errno.into())),
    }
}

/// Whether another process holds the lock of `folder`.
pub(crate) fn is_locked(folder: &Path) -> bool {
    matches!(lock(folder), Err(ArchiveError::Locked { .. }))
}

/// The path of a file below the folder: `SOURCE/YYYY-MM-DD/HHMMSS-ID.EXTENSION`, by UTC.
pub(crate) fn item_path(
    source: &str,
    from: SystemTime,
    id: &MediaId,
    extension: &str,
) -> Result<PathBuf, ArchiveError> {
    if !is_source_name(source) {
        return Err(ArchiveError::Name(source.to_owned()));
    }
    let time = Timestamp::try_from(from).unwrap_or_default();
    let time = jiff::tz::TimeZone::UTC.to_datetime(time);
    let (date, clock) = (time.date(), time.time());
    let day = format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day());
    let (hour, minute, second) = (clock.hour(), clock.minute(), clock.second());
    let name = format!("{hour:02}{minute:02}{second:02}-{id}.{extension}");
    Ok([source, &day, &name].iter().collect())
}

/// Whether `text` can be the name of a folder here: no step in a path, and none of the archive's own files.
fn is_source_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && !text.starts_with('.')
        && text != LOCK
        && !text.starts_with(super::index::FILE)
        && text.chars().all(is_plain)
}

/// `relative` below `folder`, where it is a file there and no link leads out of it.
pub(crate) fn proven_path(folder: &Path, relative: &Path) -> Result<PathBuf, ArchiveError> {
    let outside = |path: &Path| ArchiveError::Outside {
        path: path.to_owned(),
    };
    let is_below = relative
        .components()
        .all(|step| matches!(step, Component::Normal(_)));
    let path = folder.join(relative);
    if !is_below || relative.as_os_str().is_empty() {
        return Err(outside(&path));
    }
    let real = path.canonicalize().map_err(io_error("open", &path))?;
    match real.starts_with(folder) {
        true => Ok(real),
        false => Err(outside(&path)),
    }
}

/// Waits until the names in `folder` are on the device.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), ArchiveError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(io_error("sync", folder))
}

/// A file that has the name of one of the archive's.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) id: MediaId,
    pub(crate) source: String,
    /// Below the folder.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
    /// Nobody may write to it: the mark of a file that is pinned.
    pub(crate) is_read_only: bool,
}

/// All files below `folder` with names of the archive. What cannot be read is logged and left out; links are not followed.
pub(crate) fn scan(folder: &Path) -> Result<Vec<Found>, ArchiveError> {
    let mut found = Vec::new();
    for source in folders_in(folder).map_err(io_error("read", folder))? {
        if !is_source_name(&source) {
            continue;
        }
        let inside = folder.join(&source);
        let days = folders_in(&inside).unwrap_or_else(|error| {
            log::warn!("cannot read {}: {error}", inside.display());
            Vec::new()
        });
        for day in days.iter().filter(|day| is_day(day)) {
            let path = Path::new(&source).join(day);
            if let Err(error) = scan_day(folder, &source, &path, &mut found) {
                log::warn!("cannot read {}: {error}", folder.join(path).display());
            }
        }
    }
    Ok(found)
}

fn folders_in(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(names)
}

fn is_day(name: &str) -> bool {
    name.len() == 10
        && name.char_indices().all(|(at, c)| match at {
            4 | 7 => c == '-',
            _ => c.is_ascii_digit(),
        })
}

fn scan_day(
    folder: &Path,
    source: &str,
    day: &Path,
    found: &mut Vec<Found>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(folder.join(day))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(id_of_name) else {
            continue;
        };
        let about = entry.metadata()?;
        if about.is_file() {
            found.push(Found {
                id,
                source: source.to_owned(),
                path: day.join(&name),
                bytes: about.len(),
                modified: about.modified()?,
                is_read_only: about.permissions().readonly(),
            });
        }
    }
    Ok(())
}

/// The id in `HHMMSS-ID.jpg` or `HHMMSS-ID.mp4`.
fn id_of_name(name: &str) -> Option<MediaId> {
    let (stem, extension) = name.rsplit_once('.')?;
    let (clock, id) = stem.split_once('-')?;
    let is_clock = clock.len() == 6 && clock.bytes().all(|b| b.is_ascii_digit());
    let id = MediaId::parse(id)?;
    let is_snapshot = id.kind() == super::MediaKind::Snapshot;
    let wanted = if is_snapshot { "jpg" } else { "mp4" };
    (is_clock && extension == wanted).then_some(id)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::MediaKind;

    #[test]
    fn names_hold_source_day_and_time() {
        let from = UNIX_EPOCH + Duration::from_secs(1_769_860_800 + 3723);
        let id = MediaId::new(MediaKind::Clip, from);
        let path = item_path("gate", from, &id, "mp4").expect("a name");
        assert_eq!(path, Path::new(&format!("gate/2026-01-31/130203-{id}.mp4")));
        let name = path.file_name().and_then(|name| name.to_str());
        assert_eq!(id_of_name(name.expect("a name")), Some(id.clone()));
        assert_eq!(id_of_name(&format!("130203-{id}.jpg")), None);
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            ".hidden",
            "lock",
            "index.sqlite",
            "a b",
            "ü",
        ] {
            assert!(item_path(bad, from, &id, "mp4").is_err(), "{bad}");
        }
    }

    #[test]
    fn paths_lead_to_no_other_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it is there").join("m");
        fs::create_dir_all(root.join("gate")).expect("created");
        fs::write(root.join("gate/a"), "x").expect("written");
        fs::write(root.join("../secret"), "x").expect("written");
        std::os::unix::fs::symlink("../../secret", root.join("gate/b")).expect("linked");
        assert!(proven_path(&root, Path::new("gate/a")).is_ok());
        for bad in [
            "gate/b",
            "../secret",
            "/etc/passwd",
            "",
            "gate/none",
            "gate/../gate/a",
        ] {
            assert!(proven_path(&root, Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn lock_is_held_by_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let held = lock(folder.path()).expect("it is free");
        assert!(is_locked(folder.path()));
        drop(held);
        assert!(!is_locked(folder.path()));
    }
}
