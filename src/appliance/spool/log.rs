// SPDX-License-Identifier: Apache-2.0
//! One folder of segments. Called by [`Spool`](super::Spool), which decides what is stored where.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::cursor::{Cursor, CursorFile, Gap, GapReason};
use super::disk::Disk;
use super::folder::{LogStatus, Opened, find_segments, lock, read_from, remove, status};
use super::record::{Batch, Meta, Record, RecordRef};
use super::segment::{self, HEADER_BYTES, Reader, Segment};
use super::{SpoolError, cursor};

/// Complete segments are removed when there are this many, or when all is acknowledged: each removal writes the folder.
const REMOVE_AT_ONCE: usize = 8;

/// From this size on, the front log is to be copied at once.
const FRONT_PRESSURE_BYTES: u64 = 8 << 20;

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

/// Records in a folder.
///
/// ```
/// use jetwatch_spool::{Batch, Class, Disk, Log, LogOptions};
///
/// let folder = tempfile::tempdir()?;
/// let options = LogOptions { segment_bytes: 1 << 20, max_bytes: 1 << 24, is_synced: true };
/// let (mut log, opened) = Log::open(&folder.path().join("log"), options, Disk::default(), 7)?;
/// let mut batch = Batch::new(7);
/// batch.push((1, 0), Class::New, 9, "box/events", b"first");
/// batch.push((2, 0), Class::End, 9, "box/events", b"second");
/// log.append(&batch)?;
/// let (records, gap) = log.read(1, 10, 1 << 20)?;
/// assert_eq!((records.len(), records[0].payload.as_slice()), (1, b"second".as_slice()));
/// assert!(gap.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
        let mut passed = after;
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
                // Segments with the same numbers come from copied files.
                if found.seq <= passed {
                    continue;
                }
                passed = found.seq;
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
    pub fn next_seq(&self) -> u64 {
        self.cursor.next_seq
    }

    /// Identity of the numbering.
    pub fn id(&self) -> u64 {
        self.cursor.id
    }

    /// Number of the last record that is acknowledged with all before it.
    pub fn acked(&self) -> u64 {
        self.cursor.acked
    }

    /// Number of the last record in it.
    pub fn last_seq(&self) -> Option<u64> {
        self.segments.back().map(|segment| segment.last_seq)
    }

    /// Size of its segments, in bytes.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// What is in it.
    pub fn status(&self) -> LogStatus {
        status(&self.segments, self.cursor.acked)
    }

    /// Whether it is to be copied or shrunk soon.
    pub(crate) fn is_pressed(&self) -> bool {
        self.bytes() > FRONT_PRESSURE_BYTES.min(self.options.max_bytes / 2)
    }

    /// Begins another numbering at `next_seq`.
    pub(crate) fn renumber(&mut self, id: u64, next_seq: u64) {
        self.cursor.id = id;
        self.cursor.next_seq = next_seq;
    }

    /// Numbers are in use that are not in the log.
    pub(crate) fn mark_incomplete(&mut self) {
        self.cursor.is_incomplete = true;
        // It needs no room. If it fails all the same, a number may be used twice after a crash.
        let _ = self.save();
    }

    /// Removes segments whose records are all in another log, up to `seq`.
    pub(crate) fn release(&mut self, seq: u64) -> Result<(), SpoolError> {
        while self.segments.len() > 1
            && let Some(segment) = self.segments.front()
            && segment.last_seq <= seq
        {
            remove(&mut self.disk, segment)?;
            self.segments.pop_front();
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The lock ends with its file.
        self.seal();
        let _ = self.save();
    }
}

#[cfg(test)]
mod tests;
