//! One folder of segments. Called by [`Spool`](super::Spool), which decides what is stored where.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};

use super::cursor::{Cursor, CursorFile, Gap, GapReason, read_cursor};
use super::disk::Disk;
use super::record::{Batch, Class, Meta, Record, RecordRef};
use super::segment::{self, Found, HEADER_BYTES, Reader, Segment};
use super::{SpoolError, cursor, room};

/// Complete segments are removed when there are this many, or when all is acknowledged: each removal writes the folder.
const REMOVE_AT_ONCE: usize = 8;

/// Name of the file whose lock shows that a process writes.
const LOCK: &str = "lock";

/// How a log is written.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// A segment of this size is complete, in bytes.
    pub segment_bytes: u64,
    /// Greatest size, in bytes.
    pub max_bytes: u64,
    /// Syncs what it does to the device, so that it survives a power cut.
    pub is_synced: bool,
}

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

/// Records in a folder.
#[derive(Debug)]
pub struct Log {
    pub(crate) folder: PathBuf,
    pub(crate) disk: Disk,
    pub(crate) options: LogOptions,
    pub(crate) segments: VecDeque<Segment>,
    /// The last segment, while it is written.
    active: Option<File>,
    cursor_file: CursorFile,
    pub(crate) cursor: Cursor,
    saved: Cursor,
    /// Where the last reading ended: number in the name of the segment, place in it, last number.
    pub(crate) read_position: Option<(u64, usize, u64)>,
    /// Keeps the lock.
    _lock: File,
}

impl Log {
    /// Opens the log in `folder`, which is created; the folder around it must exist. `new_id` is the identity of the numbering where
    /// none can be continued.
    ///
    /// # Errors
    /// The folder cannot be written, or another process holds it.
    pub fn open(
        folder: &Path,
        options: LogOptions,
        mut disk: Disk,
        new_id: u64,
    ) -> Result<(Self, Opened), SpoolError> {
        match fs::create_dir(folder) {
            Ok(()) => {
                if let Some(parent) = folder.parent().filter(|_| options.is_synced) {
                    disk.sync_folder(parent)
                        .map_err(SpoolError::io("sync", parent))?;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(SpoolError::io("create", folder)(error)),
        }
        let lock = lock(folder)?;
        let (cursor_file, found) = CursorFile::open(folder, &mut disk, options.is_synced)?;
        let mut opened = Opened::default();
        let segments = find_segments(folder, Some((&mut opened, &mut disk)))
            .map_err(SpoolError::io("read", folder))?;
        // A file that could not be put aside keeps its name.
        let names = [&opened.damaged, &opened.other_versions]
            .into_iter()
            .flatten();
        let names = names.filter_map(|path| segment::number_in(path));
        let last = segments.iter().map(|segment| segment.last_seq);
        let last = last.chain(names).max();
        let mut cursor = match found {
            // Behind damage, numbers may have been used that are not known.
            Some(cursor) if !cursor.is_incomplete && opened.damaged.is_empty() => cursor,
            found => Cursor {
                id: new_id,
                is_incomplete: false,
                ..found.unwrap_or_default()
            },
        };
        cursor.next_seq = cursor
            .next_seq
            .max(cursor.acked + 1)
            .max(last.map_or(1, |last| last + 1));
        let log = Self {
            folder: folder.to_owned(),
            disk,
            options,
            segments,
            active: None,
            cursor_file,
            cursor,
            saved: found.unwrap_or_default(),
            read_position: None,
            _lock: lock,
        };
        log.make_reserve();
        Ok((log, opened))
    }

    /// Appends `batch`, whose numbers are greater than all before. Of a batch that cannot be written, nothing is in the log.
    ///
    /// # Errors
    /// The disk or the log is full, or writing fails.
    pub fn append(&mut self, batch: &Batch) -> Result<(), SpoolError> {
        let Some((first, last)) = batch.records.first().zip(batch.last_seq()) else {
            return Ok(());
        };
        if self.bytes() + batch.bytes.len() as u64 > self.options.max_bytes {
            return Err(SpoolError::Full {
                path: self.folder.clone(),
                bytes: self.bytes(),
            });
        }
        let fits = |segment: &Segment| {
            segment.id == batch.id && segment.bytes < self.options.segment_bytes
        };
        if self.active.is_some() && !self.segments.back().is_some_and(fits) {
            self.seal();
        }
        if self.active.is_none() {
            self.start_segment(batch.id, first.seq)?;
        }
        let (Some(file), Some(segment)) = (&mut self.active, self.segments.back_mut()) else {
            return Ok(());
        };
        if let Err(error) = self.disk.append(file, &batch.bytes) {
            // What was written of it is cut off; else the segment is complete as it is, and its end counts as torn.
            if self.disk.truncate(file, segment.bytes).is_err() {
                self.active = None;
            }
            return Err(SpoolError::io("write", &segment.path)(error));
        }
        segment.bytes += batch.bytes.len() as u64;
        for meta in &batch.records {
            segment.add(meta);
        }
        self.cursor.next_seq = last + 1;
        self.cursor.is_incomplete = false;
        Ok(())
    }

    fn start_segment(&mut self, id: u64, first_seq: u64) -> Result<(), SpoolError> {
        let segment = Segment::new(&self.folder, id, first_seq);
        let path = &segment.path;
        let mut file = self
            .disk
            .create(path)
            .map_err(SpoolError::io("create", path))?;
        if self.options.is_synced {
            // Its blocks are allocated once and not with each sync. Not all file systems can do this, and it is not needed.
            let _ = fallocate(
                &file,
                FallocateFlags::KEEP_SIZE,
                0,
                self.options.segment_bytes,
            );
        }
        let header = segment::header(id, first_seq);
        let mut written = self.disk.append(&mut file, &header);
        if written.is_ok() && self.options.is_synced {
            written = self.disk.sync_folder(&self.folder);
        }
        if let Err(error) = written {
            // An empty file is removed when the log is opened, if not now.
            let _ = self.disk.remove(path);
            return Err(SpoolError::io("write", path)(error));
        }
        self.active = Some(file);
        self.segments.push_back(segment);
        Ok(())
    }

    /// Completes the last segment: the next record goes into another one.
    pub(crate) fn seal(&mut self) {
        let (Some(mut file), Some(segment)) = (self.active.take(), self.segments.back_mut()) else {
            return;
        };
        // Without a summary, opening reads the whole segment.
        let summary = segment.summary();
        match self.disk.append(&mut file, &summary) {
            Ok(()) => segment.bytes += summary.len() as u64,
            Err(_) => drop(self.disk.truncate(&file, segment.bytes)),
        }
        if self.options.is_synced {
            // The next `sync` is of another file.
            let _ = self.disk.sync(&file);
        }
    }

    /// Syncs what was appended.
    ///
    /// # Errors
    /// The device fails.
    pub fn sync(&mut self) -> Result<(), SpoolError> {
        match &self.active {
            Some(file) => self
                .disk
                .sync(file)
                .map_err(SpoolError::io("sync", &self.folder)),
            None => Ok(()),
        }
    }

    /// `seq` and all records before it are acknowledged.
    pub fn ack(&mut self, seq: u64) {
        self.cursor.acked = self.cursor.acked.max(seq);
        self.cursor.next_seq = self.cursor.next_seq.max(seq + 1);
    }

    /// Removes the segments whose records are all acknowledged, when there are several or no other is left. The cursor is on the disk
    /// before.
    ///
    /// # Errors
    /// The cursor cannot be written, or a segment not be removed.
    pub fn trim(&mut self) -> Result<(), SpoolError> {
        let acked = self.cursor.acked;
        let done = self
            .segments
            .iter()
            .take_while(|segment| segment.last_seq <= acked)
            .count();
        let is_all = done == self.segments.len();
        let done = match self.active {
            // In memory, the segment that is written goes on to be written.
            Some(_) if is_all && !self.options.is_synced => done - 1,
            _ => done,
        };
        if done == 0 || (!is_all && self.options.is_synced && done < REMOVE_AT_ONCE) {
            return Ok(());
        }
        self.save()?;
        if done == self.segments.len() {
            self.active = None;
        }
        for _ in 0..done {
            let Some(segment) = self.segments.front() else {
                break;
            };
            remove(&mut self.disk, segment)?;
            self.segments.pop_front();
        }
        self.sync_folder()
    }

    pub(crate) fn sync_folder(&mut self) -> Result<(), SpoolError> {
        if !self.options.is_synced {
            return Ok(());
        }
        self.disk
            .sync_folder(&self.folder)
            .map_err(SpoolError::io("sync", &self.folder))
    }

    /// Writes the cursor, if it has changed.
    ///
    /// # Errors
    /// Writing fails.
    pub fn save(&mut self) -> Result<(), SpoolError> {
        if self.cursor == self.saved {
            return Ok(());
        }
        self.cursor_file
            .save(&self.cursor, &mut self.disk, self.options.is_synced)
            .map_err(SpoolError::io("write", self.folder.join(cursor::NAME)))?;
        self.saved = self.cursor;
        Ok(())
    }

    /// At most `max_records` and about `max_bytes` of the records behind `after`, in order, with the damaged places that were passed.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn read(
        &mut self,
        after: u64,
        max_records: usize,
        max_bytes: usize,
    ) -> Result<(Vec<Record>, Option<Gap>), SpoolError> {
        let (mut records, mut gap, mut bytes) = (Vec::new(), None, 0);
        let mut last = after;
        self.for_each(after, |id, found, is_behind_damage| {
            if is_behind_damage && found.seq > last + 1 {
                gap.get_or_insert(Gap {
                    id,
                    from: last + 1,
                    to: found.seq - 1,
                    updates: 0,
                    others: found.seq - last - 1,
                    reason: GapReason::Damaged,
                });
            }
            last = found.seq;
            bytes += found.payload.len();
            records.extend(found.to_record(id));
            records.len() < max_records && bytes < max_bytes
        })?;
        Ok((records, gap))
    }

    /// The records behind `after` as they are in the files, at most about `max_bytes` and of one numbering.
    pub(crate) fn read_encoded(
        &mut self,
        after: u64,
        max_bytes: usize,
    ) -> Result<Batch, SpoolError> {
        let mut batch = Batch::default();
        self.for_each(after, |id, found, _| {
            if batch.is_empty() {
                batch.id = id;
            } else if batch.id != id {
                return false;
            }
            let Some(class) = found.class() else {
                return true;
            };
            let meta = Meta {
                seq: found.seq,
                at_ms: found.at_ms,
                class,
                bytes: found.raw.len(),
            };
            batch.push_encoded(meta, found.raw);
            batch.bytes() < max_bytes
        })?;
        Ok(batch)
    }

    /// Calls `each` with every record behind `after` and whether damage was passed before it, until it returns false.
    fn for_each(
        &mut self,
        after: u64,
        mut each: impl FnMut(u64, &RecordRef<'_>, bool) -> bool,
    ) -> Result<(), SpoolError> {
        let position = self.read_position.take();
        for segment in &self.segments {
            if segment.last_seq <= after {
                continue;
            }
            let (start, mut last_seq) = match position {
                Some((first_seq, at, last)) if first_seq == segment.first_seq && last <= after => {
                    (at, last)
                }
                _ => (HEADER_BYTES, segment.first_seq.saturating_sub(1)),
            };
            let bytes = read_from(&segment.path, start, segment.bytes)
                .map_err(SpoolError::io("read", &segment.path))?;
            let mut reader = Reader::at(&bytes, 0, last_seq);
            let mut damage = 0;
            while let Some((_, found)) = reader.next_record() {
                let is_behind_damage =
                    std::mem::replace(&mut damage, reader.damage) < reader.damage;
                if found.seq <= after {
                    continue;
                }
                if !each(segment.id, &found, is_behind_damage) {
                    self.read_position = Some((segment.first_seq, start + reader.at, found.seq));
                    return Ok(());
                }
                last_seq = found.seq;
            }
            self.read_position = Some((segment.first_seq, start + reader.at, last_seq));
        }
        Ok(())
    }

    /// Number of the next record.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.cursor.next_seq
    }

    /// Identity of the numbering.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.cursor.id
    }

    /// Number of the last record that is acknowledged with all before it.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.cursor.acked
    }

    /// Number of the last record in it.
    #[must_use]
    pub fn last_seq(&self) -> Option<u64> {
        self.segments.back().map(|segment| segment.last_seq)
    }

    /// Size of its segments, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// What is in it.
    #[must_use]
    pub fn status(&self) -> LogStatus {
        status(&self.segments, self.cursor.acked)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The lock ends with its file.
        self.seal();
        let _ = self.save();
    }
}

/// What is in `segments`.
fn status(segments: &VecDeque<Segment>, acked: u64) -> LogStatus {
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

fn lock(folder: &Path) -> Result<File, SpoolError> {
    let path = folder.join(LOCK);
    let file = File::options()
        .write(true)
        .read(true)
        .create(true)
        .truncate(false)
        .open(&path)
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

fn put_aside(disk: &mut Disk, path: &Path, why: &str) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(why);
    disk.rename(path, Path::new(&name))
}

/// The segments of a folder in order. With `repair`, torn ends are cut off and unusable files put aside.
fn find_segments(
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

#[cfg(test)]
mod tests;
