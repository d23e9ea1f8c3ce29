// SPDX-License-Identifier: Apache-2.0
//! Records as bytes. Pure.
//!
//! ```text
//! u32 length of the body │ u32 CRC-32 of the body │ body
//! body: u64 number │ u64 ms since 1970 │ u64 track │ u8 class │ u8 0 │ u16 length of the topic │ topic │ payload
//! ```
//! Numbers are little-endian.

/// Bytes before the body.
const PREFIX_BYTES: usize = 8;

/// Bytes of a body before the topic.
const FIXED_BYTES: usize = 28;

/// Largest body. A length beyond it is damage.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Numbers of two records that stand one behind the other differ by less: with a greater step, the bytes are no record.
const MAX_STEP: u64 = 1 << 32;

/// Greatest number of a record. A greater one is damage: no daemon comes so far, and the next one must fit as well.
pub(crate) const MAX_SEQ: u64 = 1 << 62;

/// Class of the record at the end of a complete segment, see `segment.rs`.
pub(crate) const SUMMARY_CLASS: u8 = 255;

/// What a message is about; decides what is dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// An update of a track.
    Update,
    /// The begin of a track.
    New,
    /// The end of a track.
    End,
    /// An analytics event.
    Analytics,
    /// Anything else.
    Other,
}

impl Class {
    /// All classes, in the order of their numbers in files.
    pub const ALL: [Self; 5] = [
        Self::Update,
        Self::New,
        Self::End,
        Self::Analytics,
        Self::Other,
    ];

    /// Its name, as in statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::New => "new",
            Self::End => "end",
            Self::Analytics => "analytics",
            Self::Other => "other",
        }
    }

    /// Whether it is dropped before all that are not: a later message says the same, or it is of no lasting use.
    #[must_use]
    pub(crate) const fn is_dispensable(self) -> bool {
        matches!(self, Self::Update | Self::Other)
    }

    const fn code(self) -> u8 {
        self as u8
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number; the records of a log have growing numbers.
    pub seq: u64,
    /// When it was stored, in milliseconds since 1970.
    pub at_ms: u64,
    /// Stands for its track; 0: none.
    pub track: u64,
    /// What it is about.
    pub class: Class,
    /// Identity of the numbering that `seq` belongs to.
    pub id: u64,
    /// MQTT topic.
    pub topic: String,
    /// MQTT payload.
    pub payload: Vec<u8>,
}

/// Place of a record in the bytes of a batch or a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub seq: u64,
    pub at_ms: u64,
    pub class: Class,
    /// Length of the record, in bytes.
    pub bytes: usize,
}

/// Records to be appended at once.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Identity of the numbering.
    pub(crate) id: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: Vec<Meta>,
}

impl Batch {
    /// An empty batch of records of the numbering `id`.
    pub fn new(id: u64) -> Self {
        Self {
            id,
            ..Self::default()
        }
    }

    /// Adds a record, whose number must be greater than those before it.
    pub fn push(
        &mut self,
        (seq, at_ms): (u64, u64),
        class: Class,
        track: u64,
        topic: &str,
        payload: &[u8],
    ) {
        let start = self.bytes.len();
        write(
            &mut self.bytes,
            (seq, at_ms),
            track,
            class.code(),
            topic,
            payload,
        );
        self.records.push(Meta {
            seq,
            at_ms,
            class,
            bytes: self.bytes.len() - start,
        });
    }

    /// Removes all records; the memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Size of all records, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The number of the last record.
    pub fn last_seq(&self) -> Option<u64> {
        self.records.last().map(|meta| meta.seq)
    }

    pub(crate) fn push_encoded(&mut self, meta: Meta, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.records.push(meta);
    }
}

/// Appends a record to `out`.
pub(crate) fn write(
    out: &mut Vec<u8>,
    (seq, at_ms): (u64, u64),
    track: u64,
    class: u8,
    topic: &str,
    payload: &[u8],
) {
    let start = out.len();
    let length = FIXED_BYTES + topic.len() + payload.len();
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(&at_ms.to_le_bytes());
    out.extend_from_slice(&track.to_le_bytes());
    out.extend_from_slice(&[class, 0]);
    out.extend_from_slice(&(topic.len() as u16).to_le_bytes());
    out.extend_from_slice(topic.as_bytes());
    out.extend_from_slice(payload);
    let crc = crc32fast::hash(&out[start + PREFIX_BYTES..]);
    out[start + 4..start + PREFIX_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// A record inside of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordRef<'a> {
    pub seq: u64,
    pub at_ms: u64,
    pub track: u64,
    /// The class as in the file.
    pub code: u8,
    pub topic: &'a str,
    pub payload: &'a [u8],
    /// The whole record.
    pub raw: &'a [u8],
    /// Where the next record begins.
    pub end: usize,
}

impl RecordRef<'_> {
    /// The class; `None` for a summary.
    pub fn class(&self) -> Option<Class> {
        Class::from_code(self.code)
    }

    pub(crate) fn to_record(self, id: u64) -> Option<Record> {
        Some(Record {
            seq: self.seq,
            at_ms: self.at_ms,
            track: self.track,
            class: self.class()?,
            id,
            topic: self.topic.to_owned(),
            payload: self.payload.to_vec(),
        })
    }
}

/// The record at `at`; `None` where there is no whole and undamaged one.
pub(crate) fn read(bytes: &[u8], at: usize) -> Option<RecordRef<'_>> {
    let prefix = bytes.get(at..at + PREFIX_BYTES)?;
    let length = u32_at(prefix, 0) as usize;
    if !(FIXED_BYTES..=MAX_BODY_BYTES).contains(&length) {
        return None;
    }
    let body = bytes.get(at + PREFIX_BYTES..at + PREFIX_BYTES + length)?;
    let code = body[24];
    let topic_bytes = usize::from(u16::from_le_bytes([body[26], body[27]]));
    let is_class = code == SUMMARY_CLASS || Class::from_code(code).is_some();
    let is_plausible =
        is_class && FIXED_BYTES + topic_bytes <= length && u64_at(body, 0) <= MAX_SEQ;
    if !is_plausible || crc32fast::hash(body) != u32_at(prefix, 4) {
        return None;
    }
    let (topic, payload) = body[FIXED_BYTES..].split_at(topic_bytes);
    Some(RecordRef {
        seq: u64_at(body, 0),
        at_ms: u64_at(body, 8),
        track: u64_at(body, 16),
        code,
        topic: std::str::from_utf8(topic).ok()?,
        payload,
        raw: &bytes[at..at + PREFIX_BYTES + length],
        end: at + PREFIX_BYTES + length,
    })
}

/// The first undamaged record behind the damage at `at`, and its place.
pub(crate) fn find_next(bytes: &[u8], at: usize, after: u64) -> Option<(usize, RecordRef<'_>)> {
    // The number is looked at before the checksum is computed, which keeps the search fast.
    let is_plausible = |start: usize| {
        let seq = bytes
            .get(start + PREFIX_BYTES..start + PREFIX_BYTES + 8)
            .map(|number| u64_at(number, 0));
        seq.is_some_and(|seq| seq > after && seq - after < MAX_STEP)
    };
    (at + 1..bytes.len())
        .filter(|&start| is_plausible(start))
        .find_map(|start| read(bytes, start).map(|record| (start, record)))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
