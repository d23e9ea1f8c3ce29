// SPDX-License-Identifier: Apache-2.0
//! What is acknowledged, in two slots of one file that are written in turn.
//!
//! Both slots are written when the file is created, so that writing one later needs no free space. A torn slot leaves the other
//! one, which is older: messages are sent again, and none is lost.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use jetwatch_files::OFlags;

use super::SpoolError;
use super::disk::Disk;
use super::record::{MAX_SEQ, u32_at, u64_at};

/// Name of the file.
pub(crate) const NAME: &str = "cursor";

const MAGIC: &[u8; 8] = b"JWCURSOR";
const VERSION: u32 = 1;
/// Used bytes of a slot.
const SLOT_BYTES: usize = 104;
/// Place of the clock's shift in a slot, behind nine numbers: the milliseconds, and its last number behind the acknowledged one.
const CLOCK_AT: usize = 88;
/// Distance of the slots: no sector and no page holds a part of both.
const SLOT_STEP: u64 = 4096;

/// Why messages are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// There was no room for them.
    Full,
    /// They were older than the greatest age.
    Expired,
    /// Their bytes were damaged.
    Damaged,
    /// The broker refused them for good.
    Refused,
}

/// Messages that were dropped: all of them have numbers from `from` to `to`, but others with such numbers may have been kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Identity of the numbering.
    pub id: u64,
    /// Number of the first one.
    pub from: u64,
    /// Number of the last one.
    pub to: u64,
    /// Updates of tracks among them.
    pub updates: u64,
    /// All others.
    pub others: u64,
    /// Why; the newest reason where there are several.
    pub reason: GapReason,
}

impl Gap {
    /// Adds the messages of `other`; false where it is of another numbering.
    pub fn merge(&mut self, other: &Self) -> bool {
        if self.id != other.id {
            return false;
        }
        self.from = self.from.min(other.from);
        self.to = self.to.max(other.to);
        self.updates = self.updates.saturating_add(other.updates);
        self.others = self.others.saturating_add(other.others);
        self.reason = other.reason;
        true
    }
}

/// The contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cursor {
    /// Identity of the numbering.
    pub id: u64,
    /// This record and all before it are acknowledged or dropped.
    pub acked: u64,
    /// Number of the next record, as far as it was known.
    pub next_seq: u64,
    /// Numbers were used that are not in the log: they must not be used again with the same identity.
    pub is_incomplete: bool,
    /// Dropped messages that no subscriber knows of yet.
    pub gap: Option<Gap>,
    /// How the clock was set.
    pub clock: ClockShift,
}

/// The clock was set while messages waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockShift {
    /// Number of the last message from before that.
    pub to: u64,
    /// What is to be added to the times of the messages up to it, in milliseconds.
    pub ms: u64,
}

/// The file with the slots.
#[derive(Debug)]
pub(crate) struct CursorFile {
    file: File,
    generation: u64,
}

impl CursorFile {
    /// Opens or creates the file in `folder`, with the newest readable slot.
    pub fn open(
        folder: &Path,
        disk: &mut Disk,
        synced: bool,
    ) -> Result<(Self, Option<Cursor>), SpoolError> {
        let path = folder.join(NAME);
        let file = jetwatch_files::open_own(&path, OFlags::RDWR | OFlags::CREATE)
            .map_err(SpoolError::io("create", &path))?;
        let found = read_file(&file);
        let length = file
            .metadata()
            .map_err(SpoolError::io("read", &path))?
            .len();
        if length < 2 * SLOT_STEP {
            // Zeros that are written, not a hole: a hole would need a block later.
            let zeros = [0; SLOT_STEP as usize];
            for slot in 0..2 {
                let known = found.filter(|(generation, _)| generation % 2 == slot);
                if known.is_none() {
                    disk.write_at(&file, &zeros, slot * SLOT_STEP)
                        .map_err(SpoolError::io("write", &path))?;
                }
            }
            if synced {
                disk.sync(&file).map_err(SpoolError::io("sync", &path))?;
            }
        }
        let (generation, cursor) = found.unzip();
        let opened = Self {
            file,
            generation: generation.unwrap_or(0),
        };
        Ok((opened, cursor))
    }

    /// Writes `cursor` into the older slot.
    pub fn save(&mut self, cursor: &Cursor, disk: &mut Disk, synced: bool) -> std::io::Result<()> {
        let generation = self.generation + 1;
        let bytes = encode(generation, cursor);
        disk.write_at(&self.file, &bytes, generation % 2 * SLOT_STEP)?;
        if synced {
            disk.sync(&self.file)?;
        }
        self.generation = generation;
        Ok(())
    }
}

/// The newest readable slot of the file in `folder`.
pub(crate) fn read_cursor(folder: &Path) -> Option<Cursor> {
    let file = File::open(folder.join(NAME)).ok()?;
    read_file(&file).map(|(_, cursor)| cursor)
}

fn read_file(file: &File) -> Option<(u64, Cursor)> {
    let read = |slot: u64| {
        let mut bytes = [0; SLOT_BYTES];
        file.read_exact_at(&mut bytes, slot * SLOT_STEP).ok()?;
        decode(&bytes)
    };
    [read(0), read(1)]
        .into_iter()
        .flatten()
        .max_by_key(|(generation, _)| *generation)
}

fn encode(generation: u64, cursor: &Cursor) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    let gap = cursor.gap;
    let reason = match gap.map(|gap| gap.reason) {
        None => 0_u8,
        Some(GapReason::Full) => 1,
        Some(GapReason::Expired) => 2,
        Some(GapReason::Damaged) => 3,
        Some(GapReason::Refused) => 4,
    };
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12] = u8::from(cursor.is_incomplete);
    bytes[13] = reason;
    let numbers = [
        generation,
        cursor.id,
        cursor.acked,
        cursor.next_seq,
        gap.map_or(0, |gap| gap.id),
        gap.map_or(0, |gap| gap.from),
        gap.map_or(0, |gap| gap.to),
        gap.map_or(0, |gap| gap.updates),
        gap.map_or(0, |gap| gap.others),
    ];
    for (index, number) in numbers.into_iter().enumerate() {
        bytes[16 + 8 * index..24 + 8 * index].copy_from_slice(&number.to_le_bytes());
    }
    // Where only acknowledged messages are from before it, it is not needed.
    if let Some(behind @ 1..) = cursor.clock.to.checked_sub(cursor.acked) {
        let behind = u32::try_from(behind).unwrap_or(u32::MAX);
        bytes[CLOCK_AT..CLOCK_AT + 8].copy_from_slice(&cursor.clock.ms.to_le_bytes());
        bytes[CLOCK_AT + 8..CLOCK_AT + 12].copy_from_slice(&behind.to_le_bytes());
    }
    let crc = crc32fast::hash(&bytes[..SLOT_BYTES - 4]);
    bytes[SLOT_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; SLOT_BYTES]) -> Option<(u64, Cursor)> {
    let is_right = &bytes[..8] == MAGIC
        && u32_at(bytes, 8) == VERSION
        && u32_at(bytes, SLOT_BYTES - 4) == crc32fast::hash(&bytes[..SLOT_BYTES - 4]);
    if !is_right {
        return None;
    }
    let number = |index: usize| u64_at(bytes, 16 + 8 * index);
    // What cannot be is not believed, as if the slot were torn.
    if (0..9).any(|index| index != 1 && index != 4 && number(index) > MAX_SEQ) {
        return None;
    }
    let reason = match bytes[13] {
        1 => Some(GapReason::Full),
        2 => Some(GapReason::Expired),
        3 => Some(GapReason::Damaged),
        4 => Some(GapReason::Refused),
        _ => None,
    };
    let gap = reason.map(|reason| Gap {
        id: number(4),
        from: number(5),
        to: number(6),
        updates: number(7),
        others: number(8),
        reason,
    });
    let cursor = Cursor {
        id: number(1),
        acked: number(2),
        next_seq: number(3),
        is_incomplete: bytes[12] != 0,
        gap,
        clock: match u32_at(bytes, CLOCK_AT + 8) {
            // As a version that did not know of it has written.
            0 => ClockShift::default(),
            behind => ClockShift {
                to: number(2) + u64::from(behind),
                ms: u64_at(bytes, CLOCK_AT),
            },
        },
    };
    Some((number(0), cursor))
}
