// SPDX-License-Identifier: Apache-2.0
//! Appending to the logs of a spool, in order and with room made where that is allowed.

use super::{Batch, Dropped, Log, Overflow, SpoolError};

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
