// SPDX-License-Identifier: Apache-2.0
//! A segment: a file of records, with a header and, once it is complete, a summary. Reads bytes; the log decides.
//!
//! ```text
//! header: "JWSPOOL\0" │ u32 version │ u32 0 │ u64 identity of the numbering │ u64 first number │ u32 CRC-32 of these │ u32 0
//! ```
//! The summary is a record of its own class at the end. With it, opening reads the end of a segment only.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use jetwatch_files::OFlags;

use super::record::{self, Class, MAX_SEQ, Meta, RecordRef, SUMMARY_CLASS, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"JWSPOOL\0";
const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 40;

/// Segments are far smaller, with one record of 16 MiB as well. A larger one without a summary is none of this program's.
const MAX_BYTES: u64 = 64 << 20;
const CLASSES: usize = Class::ALL.len();
/// Numbers in a summary: oldest and newest time, bytes of dispensable records, and the records of each class.
const SUMMARY_NUMBERS: usize = 3 + CLASSES;
/// A summary is a record without a topic.
const SUMMARY_BYTES: usize = 36 + 8 * SUMMARY_NUMBERS;
/// End of the names of segments.
const EXTENSION: &str = "seg";

/// What is in a segment.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub path: PathBuf,
    pub id: u64,
    /// The number in its name; its first record has it or, after dropping, a greater one.
    pub first_seq: u64,
    /// Number of its last record; `first_seq - 1` for none.
    pub last_seq: u64,
    /// Size of the file, in bytes.
    pub bytes: u64,
    pub oldest_ms: u64,
    pub newest_ms: u64,
    /// Bytes of dispensable records.
    pub dispensable_bytes: u64,
    /// Records of each class.
    pub counts: [u64; CLASSES],
    /// Some of its bytes are damaged: it is put aside and not removed.
    pub is_damaged: bool,
}

impl Segment {
    /// An empty segment.
    pub fn new(folder: &Path, id: u64, first_seq: u64) -> Self {
        Self {
            path: folder.join(name(first_seq)),
            id,
            first_seq,
            last_seq: first_seq.saturating_sub(1),
            bytes: HEADER_BYTES as u64,
            oldest_ms: u64::MAX,
            newest_ms: 0,
            dispensable_bytes: 0,
            counts: [0; CLASSES],
            is_damaged: false,
        }
    }

    /// Number of records.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts a record; `bytes` is not changed.
    pub fn add(&mut self, meta: &Meta) {
        self.last_seq = meta.seq;
        self.oldest_ms = self.oldest_ms.min(meta.at_ms);
        self.newest_ms = self.newest_ms.max(meta.at_ms);
        if meta.class.is_dispensable() {
            self.dispensable_bytes += meta.bytes as u64;
        }
        self.counts[meta.class as usize] += 1;
    }

    /// The summary, as a record.
    pub fn summary(&self) -> Vec<u8> {
        let numbers = [self.oldest_ms, self.newest_ms, self.dispensable_bytes];
        let numbers = numbers.into_iter().chain(self.counts);
        let payload: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        let mut bytes = Vec::with_capacity(SUMMARY_BYTES);
        let numbers = (self.last_seq, self.newest_ms);
        record::write(&mut bytes, numbers, 0, SUMMARY_CLASS, "", &payload);
        bytes
    }
}

/// Name of the segment with this first number.
pub(crate) fn name(first_seq: u64) -> String {
    format!("{first_seq:020}.{EXTENSION}")
}

/// The number in the name of a segment; `None`: another file.
pub(crate) fn number_in(path: &Path) -> Option<u64> {
    let is_segment = path.extension().is_some_and(|found| found == EXTENSION);
    let stem = path.file_stem()?.to_str()?;
    (is_segment && stem.len() == 20)
        .then(|| stem.parse().ok())
        .flatten()
        .filter(|number| *number <= MAX_SEQ)
}

/// The header of a segment.
pub(crate) fn header(id: u64, first_seq: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&id.to_le_bytes());
    bytes[24..32].copy_from_slice(&first_seq.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..32]);
    bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// What a file with the name of a segment is.
pub(crate) enum Found {
    /// A segment, and the bytes at its end that are no records: a torn write.
    Segment { segment: Segment, torn_bytes: u64 },
    /// A segment of another version of this program.
    OtherVersion(u32),
    /// Its header is damaged, so that nothing in it can be trusted.
    Damaged,
    /// A header that was being written when the power failed; it holds no record.
    Empty,
}

/// Looks into the file at `path`. Of a complete segment only the header and the summary are read.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn inspect(path: &Path, first_seq: u64) -> io::Result<Found> {
    let file = jetwatch_files::open_own(path, OFlags::RDONLY)?;
    let length = file.metadata()?.len();
    let mut start = [0; HEADER_BYTES];
    if length < HEADER_BYTES as u64 {
        return Ok(Found::Empty);
    }
    file.read_exact_at(&mut start, 0)?;
    // Blocks without their contents: the power failed before the first sync.
    if start == [0; HEADER_BYTES] {
        return Ok(Found::Empty);
    }
    if &start[..8] != MAGIC {
        return Ok(Found::Damaged);
    }
    let version = u32_at(&start, 8);
    if version != VERSION {
        return Ok(Found::OtherVersion(version));
    }
    if u32_at(&start, 32) != crc32fast::hash(&start[..32]) || u64_at(&start, 24) != first_seq {
        return Ok(Found::Damaged);
    }
    let id = u64_at(&start, 16);
    if let Some(mut segment) = read_summary(&file, length, path, id, first_seq) {
        segment.bytes = length;
        return Ok(Found::Segment {
            segment,
            torn_bytes: 0,
        });
    }
    if length > MAX_BYTES {
        return Ok(Found::Damaged);
    }
    let bytes = fs::read(path)?;
    let mut segment = Segment::new(path.parent().unwrap_or(Path::new("")), id, first_seq);
    let mut reader = Reader::new(&bytes, first_seq);
    while let Some((meta, _)) = reader.next_record() {
        segment.add(&meta);
    }
    segment.is_damaged = reader.damage > 0;
    segment.bytes = reader.at as u64;
    Ok(Found::Segment {
        segment,
        torn_bytes: length - reader.at as u64,
    })
}

fn read_summary(file: &File, length: u64, path: &Path, id: u64, first_seq: u64) -> Option<Segment> {
    let at = length.checked_sub(SUMMARY_BYTES as u64)?;
    let mut bytes = [0; SUMMARY_BYTES];
    file.read_exact_at(&mut bytes, at).ok()?;
    let found = record::read(&bytes, 0).filter(|found| found.code == SUMMARY_CLASS)?;
    if found.payload.len() != 8 * SUMMARY_NUMBERS {
        return None;
    }
    let number = |index: usize| u64_at(found.payload, 8 * index);
    let mut segment = Segment::new(path.parent()?, id, first_seq);
    segment.last_seq = found.seq;
    segment.oldest_ms = number(0);
    segment.newest_ms = number(1);
    segment.dispensable_bytes = number(2);
    for (index, count) in segment.counts.iter_mut().enumerate() {
        *count = number(3 + index);
    }
    // What cannot be is not believed; then all of the segment is read.
    let is_plausible = segment.counts.iter().all(|count| *count <= length)
        && segment.dispensable_bytes <= length
        && segment.last_seq.saturating_add(1) >= first_seq;
    is_plausible.then_some(segment)
}

/// Reads the records of a segment one after another, past damaged bytes.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    /// Behind the last record that was read.
    pub at: usize,
    last_seq: u64,
    /// Damaged places that were passed.
    pub damage: u64,
}

impl<'a> Reader<'a> {
    /// Reads behind the header; `first_seq` is the number in the name.
    pub fn new(bytes: &'a [u8], first_seq: u64) -> Self {
        Self::at(bytes, HEADER_BYTES, first_seq.saturating_sub(1))
    }

    /// Reads from `at`, behind the record `last_seq`.
    pub fn at(bytes: &'a [u8], at: usize, last_seq: u64) -> Self {
        Self {
            bytes,
            at,
            last_seq,
            damage: 0,
        }
    }

    /// The next record and its place.
    pub(crate) fn next_record(&mut self) -> Option<(Meta, RecordRef<'a>)> {
        loop {
            if self.at >= self.bytes.len() {
                return None;
            }
            let read = record::read(self.bytes, self.at);
            // Numbers grow, except that a summary has that of the last record.
            let follows =
                |found: &RecordRef<'_>| found.seq > self.last_seq || found.code == SUMMARY_CLASS;
            let (start, found) = match read.filter(follows) {
                Some(found) => (self.at, found),
                None => {
                    let next = record::find_next(self.bytes, self.at, self.last_seq)?;
                    self.damage += 1;
                    next
                }
            };
            self.at = found.end;
            let Some(class) = found.class() else { continue };
            self.last_seq = found.seq;
            let meta = Meta {
                seq: found.seq,
                at_ms: found.at_ms,
                class,
                bytes: found.end - start,
            };
            return Some((meta, found));
        }
    }
}
