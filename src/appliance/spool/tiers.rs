// SPDX-License-Identifier: Apache-2.0
//! The spool of a client: a front log that survives the process, and a back log that survives the power.

mod append;

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use parking_lot::Mutex;
use rustix::fs::fstatfs;

use self::append::{append, append_in_order};
use super::SpoolError;
use super::cursor::{ClockShift, Gap};
use super::disk::Disk;
use super::folder::{self, LogStatus, Opened};
use super::log::{Log, LogOptions};
use super::overflow::Overflow;
use super::record::{Batch, Record};
use super::room::Dropped;
use super::segment::{HEADER_BYTES, Reader};

/// Greatest size of the front log, which is in memory as a rule.
const FRONT_MAX_BYTES: u64 = 32 << 20;

/// Segments of the front log, which are removed as soon as they are acknowledged or copied.
const FRONT_SEGMENT_BYTES: u64 = 256 << 10;

/// Segments of the back log.
const BACK_SEGMENT_BYTES: u64 = 1 << 20;

/// Bytes that are copied from the front to the back log in one write.
const COPY_BYTES: usize = 1 << 20;

/// Folder of the front log inside of that of the back log, where there is no other place for it.
const FRONT_INSIDE: &str = "front";

const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58f6;

/// Where a spool is, and how large it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// Of the front log, on tmpfs.
    pub front: PathBuf,
    /// Of the back log, on a device; `None`: nothing is kept for a power cut.
    pub back: Option<PathBuf>,
    /// Greatest size, in bytes.
    pub max_bytes: u64,
}

/// A folder that cannot be used as wished; the spool works without it.
#[derive(Debug)]
pub enum FolderProblem {
    /// The front log cannot be opened; it is inside of the folder of the back log, or there is no spool.
    Front(SpoolError),
    /// The back log cannot be opened: a power cut takes what waits.
    Back(SpoolError),
    /// The front log is on a device, which is written for each message.
    FrontOnDevice(PathBuf),
    /// What opening found in a folder.
    Repaired(PathBuf, Opened),
}

/// What is in a spool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpoolStatus {
    /// The front log.
    pub front: LogStatus,
    /// The back log; `None`: there is none.
    pub back: Option<LogStatus>,
}

impl SpoolStatus {
    /// Bytes of both logs.
    pub fn bytes(&self) -> u64 {
        self.front.bytes + self.back.as_ref().map_or(0, |back| back.bytes)
    }
}

/// Where [`Spool::write`] has stored a batch.
#[derive(Debug)]
pub struct Stored {
    /// [`Spool::persist`] is to be called soon.
    pub is_pressed: bool,
    /// Why the batch is in memory only, until the front log has room or `persist` has copied it: a crash loses it.
    pub only_in_memory: Option<SpoolError>,
}

/// Messages of one client until they are acknowledged. Writers and readers may be several threads, but one thread alone reads and copies.
#[derive(Debug)]
pub struct Spool {
    id: u64,
    next_seq: u64,
    /// Locked after that of the back log, and before `overflow`.
    front: Mutex<Log>,
    back: Option<Mutex<Log>>,
    /// Newer than all in the front log.
    overflow: Mutex<Overflow>,
}

impl Spool {
    /// Opens the logs; `None` where neither folder can be used. The folders around them must exist.
    #[must_use]
    pub fn open(folders: &Folders) -> (Option<Self>, Vec<FolderProblem>) {
        let mut problems = Vec::new();
        let new_id = random_id();
        let open = |folder: &Path, options, problems: &mut Vec<FolderProblem>| {
            let (log, opened) = Log::open(folder, options, Disk::default(), new_id)?;
            if opened != Opened::default() {
                problems.push(FolderProblem::Repaired(folder.to_owned(), opened));
            }
            Ok::<_, SpoolError>(log)
        };
        let back_options = LogOptions {
            segment_bytes: BACK_SEGMENT_BYTES.min(folders.max_bytes / 8),
            max_bytes: folders.max_bytes,
            is_synced: true,
        };
        let back = folders.back.as_deref().and_then(|folder| {
            let opened = open(folder, back_options, &mut problems);
            opened
                .map_err(|error| problems.push(FolderProblem::Back(error)))
                .ok()
        });
        let max_bytes = FRONT_MAX_BYTES.min(folders.max_bytes);
        let front_options = LogOptions {
            segment_bytes: FRONT_SEGMENT_BYTES.min(max_bytes / 8),
            max_bytes,
            is_synced: false,
        };
        let mut front = open(&folders.front, front_options, &mut problems);
        if let (Err(_), Some(folder)) = (&front, folders.back.as_ref().filter(|_| back.is_some())) {
            let inside = folder.join(FRONT_INSIDE);
            let other = open(&inside, front_options, &mut problems);
            if let Err(error) = std::mem::replace(&mut front, other) {
                problems.push(FolderProblem::Front(error));
            }
        }
        let mut front = match front {
            Ok(front) => front,
            Err(error) => {
                problems.push(FolderProblem::Front(error));
                return (None, problems);
            }
        };
        if !is_in_memory(&front.folder) {
            problems.push(FolderProblem::FrontOnDevice(front.folder.clone()));
        }
        let (last, acked) = back
            .as_ref()
            .map_or((0, 0), |back| (back.next_seq() - 1, back.acked()));
        if last >= front.next_seq() {
            // The front log was lost with the power. What it had is unknown, so its numbering does not go on.
            front.renumber(new_id, last + 1);
        }
        front.ack(acked);
        let spool = Self {
            id: front.id(),
            next_seq: front.next_seq(),
            front: Mutex::new(front),
            back: back.map(Mutex::new),
            overflow: Mutex::default(),
        };
        let acked = spool.acked();
        spool.ack(acked);
        (Some(spool), problems)
    }

    /// Identity of the numbering of new records.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Number of the first record of this process.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Number of the last record that is acknowledged with all before it.
    pub fn acked(&self) -> u64 {
        let back = self.back.as_ref().map_or(0, |back| back.lock().acked());
        self.front.lock().acked().max(back)
    }

    /// Whether there is a log that survives a power cut.
    pub fn has_back(&self) -> bool {
        self.back.is_some()
    }

    /// Whether the front log holds so much that [`persist`](Self::persist) is to be called soon.
    pub fn is_pressed(&self) -> bool {
        self.front.lock().is_pressed() || self.overflow.lock().is_pressed()
    }

    /// Stores `batch` so that it survives the process, or in memory where the front log has no room.
    ///
    /// # Errors
    /// The front log is full or cannot be written, and too much is in memory already; its numbering does not go on in a later process.
    pub fn write(&self, batch: &Batch) -> Result<Stored, SpoolError> {
        let mut front = self.front.lock();
        let mut overflow = self.overflow.lock();
        match append_in_order(&mut front, &mut overflow, batch) {
            Ok(()) => Ok(Stored {
                is_pressed: front.is_pressed(),
                only_in_memory: None,
            }),
            Err(error) => {
                front.mark_incomplete();
                if !overflow.push(batch) {
                    return Err(error);
                }
                Ok(Stored {
                    is_pressed: overflow.is_pressed(),
                    only_in_memory: Some(error),
                })
            }
        }
    }

    /// Copies what is not acknowledged to the back log and syncs it there; room is made for it. Returns what was dropped for that.
    ///
    /// # Errors
    /// The device is full or fails. What could not be copied is still in the front log.
    pub fn persist(&self, dropped: &mut Vec<Dropped>) -> Result<(), SpoolError> {
        let Some(back) = &self.back else {
            return Ok(());
        };
        let mut back = back.lock();
        let acked = self.front.lock().acked();
        back.ack(acked);
        loop {
            // Behind what was copied, also if that was dropped meanwhile.
            let after = (back.next_seq() - 1).max(acked);
            // The front log is not held while the device is written.
            let (batch, is_pressed) = {
                let mut front = self.front.lock();
                let mut overflow = self.overflow.lock();
                overflow.forget(after);
                let mut batch = front.read_encoded(after, COPY_BYTES)?;
                if batch.is_empty() {
                    batch = overflow.first().cloned().unwrap_or_default();
                }
                let is_large = front.bytes() > front.options.max_bytes / 2;
                (batch, is_large || overflow.is_pressed())
            };
            if batch.is_empty() {
                break;
            }
            append(&mut back, &batch, is_pressed, dropped)?;
        }
        back.sync()?;
        let safe = back.next_seq() - 1;
        drop(back);
        self.front.lock().release(safe)
    }

    /// Makes room in the front log when it is nearly full. Only where [`persist`](Self::persist) cannot.
    ///
    /// # Errors
    /// A segment cannot be read or written.
    pub fn shrink_front(&self, dropped: &mut Vec<Dropped>) -> Result<(), SpoolError> {
        let mut front = self.front.lock();
        while front.bytes() > front.options.max_bytes / 4 * 3 {
            let before = front.bytes();
            dropped.extend(front.shrink()?);
            if front.bytes() >= before {
                break;
            }
        }
        Ok(())
    }

    /// Drops what is from before `before_ms` of its number, in milliseconds since 1970.
    ///
    /// # Errors
    /// A segment cannot be read or removed.
    pub fn expire(
        &self,
        before_ms: impl Fn(u64) -> u64,
        dropped: &mut Vec<Dropped>,
    ) -> Result<(), SpoolError> {
        let mut copied = 0;
        if let Some(back) = &self.back {
            let mut back = back.lock();
            copied = back.next_seq() - 1;
            while let Some(gone) = back.expire(&before_ms)? {
                dropped.push(gone);
            }
        }
        let mut front = self.front.lock();
        while let Some(mut gone) = front.expire(&before_ms)? {
            // What was copied is the back log's.
            gone.keep_behind(copied);
            dropped.extend((!gone.is_empty()).then_some(gone));
        }
        Ok(())
    }

    /// `seq` and all records before it are acknowledged.
    pub fn ack(&self, seq: u64) {
        if let Some(back) = &self.back {
            back.lock().ack(seq);
        }
        self.front.lock().ack(seq);
        self.overflow.lock().forget(seq);
    }

    /// Removes what is acknowledged, and writes the cursor of the front log. That of the back log is written before its segments are
    /// removed, or with `save_back` if it has records.
    ///
    /// # Errors
    /// A cursor cannot be written, or a segment not be removed.
    pub fn trim(&self, save_back: bool) -> Result<(), SpoolError> {
        if let Some(back) = &self.back {
            let mut back = back.lock();
            back.trim()?;
            if save_back && back.last_seq().is_some() {
                back.save()?;
            }
        }
        let mut front = self.front.lock();
        front.trim()?;
        front.save()
    }

    /// At most `max_records` behind `after`, with the damage that was passed.
    ///
    /// # Errors
    /// A segment cannot be read.
    pub fn read(
        &self,
        after: u64,
        max_records: usize,
    ) -> Result<(Vec<Record>, Option<Gap>), SpoolError> {
        if let Some(back) = &self.back {
            let mut back = back.lock();
            if back.last_seq().is_some_and(|last| last > after) {
                let (records, gap) = back.read(after, max_records, COPY_BYTES)?;
                if !records.is_empty() {
                    return Ok((records, gap));
                }
            }
        }
        let mut front = self.front.lock();
        let (records, gap) = front.read(after, max_records, COPY_BYTES)?;
        if !records.is_empty() {
            return Ok((records, gap));
        }
        Ok((self.overflow.lock().read(after, max_records), gap))
    }

    /// Dropped messages that no subscriber knows of yet, kept by [`keep_gap`](Self::keep_gap).
    pub fn kept_gap(&self) -> Option<Gap> {
        let back = self.back.as_ref().and_then(|back| back.lock().cursor.gap);
        self.front.lock().cursor.gap.or(back)
    }

    /// Keeps `gap` with the cursors, for a later process.
    pub fn keep_gap(&self, gap: Option<Gap>) {
        if let Some(back) = &self.back {
            back.lock().cursor.gap = gap;
        }
        self.front.lock().cursor.gap = gap;
    }

    /// What [`keep_clock`](Self::keep_clock) has kept.
    pub fn kept_clock(&self) -> ClockShift {
        let back = self.back.as_ref().map(|back| back.lock().cursor.clock);
        let front = self.front.lock().cursor.clock;
        // The front log may be new.
        match back {
            Some(back) if front.ms == 0 => back,
            _ => front,
        }
    }

    /// Keeps `clock` with the cursors, for a later process.
    pub fn keep_clock(&self, clock: ClockShift) {
        if let Some(back) = &self.back {
            back.lock().cursor.clock = clock;
        }
        self.front.lock().cursor.clock = clock;
    }

    /// What is in it.
    pub fn status(&self) -> SpoolStatus {
        // Never both locks: `persist` takes that of the front log while it holds the other one.
        let back = self.back.as_ref().map(|back| back.lock().status());
        let front = self.front.lock().status();
        SpoolStatus { front, back }
    }
}

/// A number that no other spool has.
#[must_use]
pub fn random_id() -> u64 {
    // Its keys are from the operating system's random numbers.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    if let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        hasher.write_u128(now.as_nanos());
    }
    hasher.finish()
}

/// Whether a folder is in memory, so that writing to it costs no wear.
fn is_in_memory(folder: &Path) -> bool {
    let file = File::open(folder).ok();
    file.and_then(|file| fstatfs(&file).ok())
        .is_some_and(|found| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.f_type))
}

/// Reads the log in the folder `path` without changing it: what is in it, whether a process writes to it, and each unacknowledged record.
///
/// # Errors
/// The folder or a segment cannot be read.
pub fn read_folder(
    path: &Path,
    mut each: impl FnMut(Record),
) -> Result<(LogStatus, bool), SpoolError> {
    let (segments, mut status) = folder::look_into(path).map_err(SpoolError::io("read", path))?;
    status.records = 0;
    status.by_class = Default::default();
    for segment in segments {
        let bytes = fs::read(&segment.path).map_err(SpoolError::io("read", &segment.path))?;
        if bytes.len() < HEADER_BYTES {
            continue;
        }
        let mut reader = Reader::new(&bytes, segment.first_seq);
        while let Some((meta, found)) = reader.next_record() {
            if meta.seq > status.acked {
                status.records += 1;
                status.by_class[meta.class as usize] += 1;
                found.to_record(segment.id).into_iter().for_each(&mut each);
            }
        }
    }
    Ok((status, folder::is_locked(path)))
}

#[cfg(test)]
mod tests;
