// SPDX-License-Identifier: Apache-2.0
//! Making room in a log: dispensable records go first, then the oldest; and what is too old goes whatever it is.

use std::fs::{self, File};
use std::io;

use rustix::fs::{FallocateFlags, fallocate};

use super::SpoolError;
use super::cursor::{Gap, GapReason};
use super::folder::{read_from, remove};
use super::log::Log;
use super::record::Class;
use super::segment::{self, Reader, Segment};

/// End of the name of a segment that is written again.
pub(crate) const PARTIAL: &str = "partial";

/// Name of the file that keeps space for [`Log::shrink`].
const RESERVE: &str = "reserve";

/// Records that were dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Identity of their numbering.
    pub id: u64,
    /// Why.
    pub reason: GapReason,
    /// Their numbers, in order; not empty.
    pub seqs: Vec<u64>,
    /// Records by class, in the order of [`Class::ALL`].
    pub by_class: [u64; Class::ALL.len()],
}

impl Dropped {
    fn new(id: u64, reason: GapReason) -> Self {
        Self {
            id,
            reason,
            seqs: Vec::new(),
            by_class: [0; Class::ALL.len()],
        }
    }

    fn add(&mut self, seq: u64, class: Class) {
        self.seqs.push(seq);
        self.by_class[class as usize] += 1;
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.seqs.is_empty()
    }

    /// Forgets the records up to `seq`, whose classes are counted as those of the first ones.
    pub(crate) fn keep_behind(&mut self, seq: u64) {
        let before = self.seqs.len();
        self.seqs.retain(|&dropped| dropped > seq);
        let mut forgotten = (before - self.seqs.len()) as u64;
        for count in &mut self.by_class {
            let taken = forgotten.min(*count);
            *count -= taken;
            forgotten -= taken;
        }
    }

    /// What subscribers are told about them.
    pub fn gap(&self) -> Gap {
        let updates = self.by_class[Class::Update as usize];
        Gap {
            id: self.id,
            from: self.seqs.first().copied().unwrap_or(0),
            to: self.seqs.last().copied().unwrap_or(0),
            updates,
            others: self.by_class.iter().sum::<u64>() - updates,
            reason: self.reason,
        }
    }
}

impl Log {
    /// Makes the log smaller by one step: the oldest segment with dispensable records is written again without them; where there is none,
    /// the oldest segment goes. `None`: nothing is left, or only acknowledged records went.
    ///
    /// # Errors
    /// A segment cannot be read, written or removed.
    pub(crate) fn shrink(&mut self) -> Result<Option<Dropped>, SpoolError> {
        let has_dispensable = |segment: &Segment| segment.dispensable_bytes > 0;
        let is_last_only = !self.segments.iter().rev().skip(1).any(has_dispensable);
        if self.segments.len() == 1 || is_last_only {
            // The one that is written counts, too.
            self.seal();
        }
        match self.segments.iter().position(has_dispensable) {
            Some(index) => match self.compact(index) {
                // No room for the shorter segment beside the longer one: that is what the reserve is for.
                Err(error) if error.is_full() && self.release_reserve() => {
                    let compacted = self.compact(index);
                    self.make_reserve();
                    compacted
                }
                Err(error) if error.is_full() => self.drop_oldest(GapReason::Full),
                compacted => compacted,
            },
            None => self.drop_oldest(GapReason::Full),
        }
    }

    /// Drops the oldest segment if all of its records are from before `before_ms` of its first number.
    ///
    /// # Errors
    /// As [`shrink`](Self::shrink).
    pub fn expire(
        &mut self,
        before_ms: impl Fn(u64) -> u64,
    ) -> Result<Option<Dropped>, SpoolError> {
        match self.segments.front() {
            Some(oldest)
                if oldest.count() > 0 && oldest.newest_ms < before_ms(oldest.first_seq) =>
            {
                if self.segments.len() == 1 {
                    self.seal();
                }
                self.drop_oldest(GapReason::Expired)
            }
            _ => Ok(None),
        }
    }

    fn drop_oldest(&mut self, reason: GapReason) -> Result<Option<Dropped>, SpoolError> {
        let Some(oldest) = self.segments.front() else {
            return Ok(None);
        };
        let mut dropped = Dropped::new(oldest.id, reason);
        let bytes = read_from(&oldest.path, 0, oldest.bytes)
            .map_err(SpoolError::io("read", &oldest.path))?;
        let mut reader = Reader::new(&bytes, oldest.first_seq);
        while let Some((meta, _)) = reader.next_record() {
            if meta.seq > self.cursor.acked {
                dropped.add(meta.seq, meta.class);
            }
        }
        remove(&mut self.disk, oldest)?;
        self.segments.pop_front();
        self.sync_folder()?;
        Ok((!dropped.seqs.is_empty()).then_some(dropped))
    }

    /// Writes a complete segment again without its dispensable and its acknowledged records.
    fn compact(&mut self, index: usize) -> Result<Option<Dropped>, SpoolError> {
        let old = self.segments[index].clone();
        // Places in the file change.
        self.read_position = None;
        let bytes =
            read_from(&old.path, 0, old.bytes).map_err(SpoolError::io("read", &old.path))?;
        let mut dropped = Dropped::new(old.id, GapReason::Full);
        let mut kept = Segment::new(&self.folder, old.id, old.first_seq);
        let mut content = segment::header(old.id, old.first_seq).to_vec();
        let mut reader = Reader::new(&bytes, old.first_seq);
        while let Some((meta, found)) = reader.next_record() {
            if meta.seq <= self.cursor.acked {
                continue;
            }
            if meta.class.is_dispensable() {
                dropped.add(meta.seq, meta.class);
                continue;
            }
            kept.add(&meta);
            content.extend_from_slice(found.raw);
        }
        // The numbers up to the last one stay used.
        kept.last_seq = old.last_seq;
        if kept.count() == 0 {
            remove(&mut self.disk, &old)?;
            self.segments.remove(index);
        } else {
            content.extend_from_slice(&kept.summary());
            kept.bytes = content.len() as u64;
            self.replace(&old, &content)?;
            self.segments[index] = kept;
        }
        self.sync_folder()?;
        Ok((!dropped.seqs.is_empty()).then_some(dropped))
    }

    /// Takes space from a synced log's disk that only [`shrink`](Self::shrink) uses: it works on a full disk, too.
    pub(crate) fn make_reserve(&self) {
        if !self.options.is_synced {
            return;
        }
        let path = self.folder.join(RESERVE);
        let bytes = self.options.segment_bytes + self.options.segment_bytes / 2;
        let options = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        // Without it, on a full disk whole segments are dropped.
        if let Ok(file) = options
            && fallocate(&file, FallocateFlags::empty(), 0, bytes).is_err()
        {
            let _ = fs::remove_file(&path);
        }
    }

    fn release_reserve(&self) -> bool {
        self.options.is_synced && fs::remove_file(self.folder.join(RESERVE)).is_ok()
    }

    fn replace(&mut self, old: &Segment, content: &[u8]) -> Result<(), SpoolError> {
        let partial = old.path.with_extension(format!("seg.{PARTIAL}"));
        let is_synced = self.options.is_synced;
        let disk = &mut self.disk;
        let written = disk.create(&partial).and_then(|mut file| {
            disk.append(&mut file, content)?;
            if is_synced {
                disk.sync(&file)?;
            }
            Ok(())
        });
        let replaced: io::Result<()> = written.and_then(|()| disk.rename(&partial, &old.path));
        replaced.map_err(|error| {
            let _ = fs::remove_file(&partial);
            SpoolError::io("write", &partial)(error)
        })
    }
}
