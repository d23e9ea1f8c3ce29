// SPDX-License-Identifier: Apache-2.0
//! The files of a log: what is found in a folder, what is put aside, and the lock.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use jetwatch_files::OFlags;
use rustix::fs::{FlockOperation, flock};

use super::cursor::read_cursor;
use super::disk::Disk;
use super::record::Class;
use super::segment::{self, Found, Segment};
use super::{SpoolError, room};

/// Name of the file whose lock shows that a process writes.
const LOCK: &str = "lock";

/// What was found in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opened {
    /// Bytes that were cut off: the torn write of a power cut.
    pub torn_bytes: u64,
    /// Damaged segments. Undamaged records in them are kept.
    pub damaged: Vec<PathBuf>,
    /// Segments of other versions, put aside.
    pub other_versions: Vec<PathBuf>,
}

/// What is in a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogStatus {
    /// Size of its segments, in bytes.
    pub bytes: u64,
    /// Records; among the first there may be some that are acknowledged.
    pub records: u64,
    /// Records by class, in the order of [`Class::ALL`].
    pub by_class: [u64; Class::ALL.len()],
    /// Time of the oldest record, in milliseconds since 1970.
    pub oldest_ms: Option<u64>,
    /// Number of the last record that is acknowledged with all before it.
    pub acked: u64,
    /// Number of the last record.
    pub last_seq: Option<u64>,
    /// Number of segments.
    pub segments: usize,
}

/// What is in `segments`.
pub(crate) fn status(segments: &VecDeque<Segment>, acked: u64) -> LogStatus {
    let mut status = LogStatus {
        acked,
        segments: segments.len(),
        last_seq: segments.back().map(|segment| segment.last_seq),
        ..LogStatus::default()
    };
    for segment in segments {
        status.bytes += segment.bytes;
        if segment.last_seq <= acked {
            continue;
        }
        status.records += segment.count();
        for (sum, count) in status.by_class.iter_mut().zip(segment.counts) {
            *sum += count;
        }
        if segment.count() > 0 {
            let oldest = status.oldest_ms.unwrap_or(u64::MAX);
            status.oldest_ms = Some(oldest.min(segment.oldest_ms));
        }
    }
    status
}

/// The segments and the cursor of a folder, without changing or locking it.
pub(crate) fn look_into(folder: &Path) -> std::io::Result<(VecDeque<Segment>, LogStatus)> {
    let segments = find_segments(folder, None)?;
    let acked = read_cursor(folder).map_or(0, |cursor| cursor.acked);
    let status = status(&segments, acked);
    Ok((segments, status))
}

/// Whether a process holds the log in `folder`.
pub(crate) fn is_locked(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join(LOCK)) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

pub(crate) fn lock(folder: &Path) -> Result<File, SpoolError> {
    let path = folder.join(LOCK);
    let file = jetwatch_files::open_own(&path, OFlags::RDWR | OFlags::CREATE)
        .map_err(SpoolError::io("create", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(SpoolError::Locked {
            path: folder.to_owned(),
        }),
        Err(error) => Err(SpoolError::io("lock", &path)(error.into())),
    }
}

/// Bytes `start` to `end` of a file.
pub(crate) fn read_from(path: &Path, start: usize, end: u64) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = vec![0; (end as usize).saturating_sub(start)];
    file.read_exact_at(&mut bytes, start as u64)?;
    Ok(bytes)
}

/// Removes a segment, or puts it aside when it is damaged.
pub(crate) fn remove(disk: &mut Disk, segment: &Segment) -> Result<(), SpoolError> {
    match segment.is_damaged {
        true => put_aside(disk, &segment.path, "damaged")
            .map_err(SpoolError::io("rename", &segment.path)),
        false => disk
            .remove(&segment.path)
            .map_err(SpoolError::io("remove", &segment.path)),
    }
}

pub(crate) fn put_aside(disk: &mut Disk, path: &Path, why: &str) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(why);
    disk.rename(path, Path::new(&name))
}

/// The segments of a folder in order. With `repair`, torn ends are cut off and unusable files put aside.
pub(crate) fn find_segments(
    folder: &Path,
    mut repair: Option<(&mut Opened, &mut Disk)>,
) -> std::io::Result<VecDeque<Segment>> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == room::PARTIAL) && repair.is_some() {
            // A segment was being written again when the process ended; the one that it would have replaced is still there.
            let _ = fs::remove_file(&path);
        }
        found.extend(segment::number_in(&path).map(|number| (number, path)));
    }
    found.sort();
    let mut segments = VecDeque::with_capacity(found.len());
    for (number, path) in found {
        // A file that cannot be read at all is left where it is; its name is not used by another segment.
        let Ok(inspected) = segment::inspect(&path, number) else {
            continue;
        };
        match (inspected, &mut repair) {
            (
                Found::Segment {
                    segment,
                    torn_bytes,
                },
                repair,
            ) => {
                if let Some((opened, disk)) = repair {
                    opened.torn_bytes += torn_bytes;
                    if segment.count() == 0 {
                        // Nothing but a torn write; its name is needed by the next segment.
                        let _ = disk.remove(&path);
                        continue;
                    }
                    if torn_bytes > 0
                        && let Ok(file) = File::options().write(true).open(&path)
                    {
                        let _ = disk.truncate(&file, segment.bytes);
                    }
                    if segment.is_damaged {
                        opened.damaged.push(path);
                    }
                }
                segments.push_back(segment);
            }
            (Found::OtherVersion(version), Some((opened, disk))) => {
                let _ = put_aside(disk, &path, &format!("version-{version}"));
                opened.other_versions.push(path);
            }
            (Found::Damaged, Some((opened, disk))) => {
                let _ = put_aside(disk, &path, "damaged");
                opened.damaged.push(path);
            }
            (Found::Empty, Some((_, disk))) => drop(disk.remove(&path)),
            (_, None) => {}
        }
    }
    Ok(segments)
}
