// SPDX-License-Identifier: Apache-2.0
//! Appending to the logs of a spool, in order and with room made where that is allowed, and what a log offers for it.

use super::{Batch, Dropped, FRONT_PRESSURE_BYTES, Log, Overflow, SpoolError};
use crate::folder;

/// Appends `batch` behind what waits in memory.
pub(super) fn append_in_order(
    front: &mut Log,
    overflow: &mut Overflow,
    batch: &Batch,
) -> Result<(), SpoolError> {
    while let Some(first) = overflow.first() {
        front.append(first)?;
        let last_seq = first.last_seq().unwrap_or(0);
        overflow.forget(last_seq);
    }
    front.append(batch)
}

/// Appends `batch` to a log; makes room where it is full. Where others have filled the disk, only with `is_pressed`: what is stored there
/// stays as long as new messages have another place.
pub(super) fn append(
    log: &mut Log,
    batch: &Batch,
    is_pressed: bool,
    dropped: &mut Vec<Dropped>,
) -> Result<(), SpoolError> {
    loop {
        let error = match log.append(batch) {
            Ok(()) => return Ok(()),
            Err(error @ SpoolError::Full { .. }) => error,
            Err(error) if error.is_full() && is_pressed => error,
            Err(error) => return Err(error),
        };
        let before = log.bytes();
        dropped.extend(log.shrink()?);
        if log.bytes() >= before {
            return Err(error);
        }
    }
}

impl Log {
    /// Whether it is to be copied or shrunk soon.
    pub(super) fn is_pressed(&self) -> bool {
        self.bytes() > FRONT_PRESSURE_BYTES.min(self.options.max_bytes / 2)
    }

    /// Begins another numbering at `next_seq`.
    pub(super) fn renumber(&mut self, id: u64, next_seq: u64) {
        self.cursor.id = id;
        self.cursor.next_seq = next_seq;
    }

    /// Numbers are in use that are not in the log.
    pub(super) fn mark_incomplete(&mut self) {
        self.cursor.is_incomplete = true;
        // It needs no room. If it fails all the same, a number may be used twice after a crash.
        let _ = self.save();
    }

    /// Removes segments whose records are all in another log, up to `seq`.
    pub(super) fn release(&mut self, seq: u64) -> Result<(), SpoolError> {
        while self.segments.len() > 1
            && let Some(segment) = self.segments.front()
            && segment.last_seq <= seq
        {
            folder::remove(&mut self.disk, segment)?;
            self.segments.pop_front();
        }
        Ok(())
    }
}
