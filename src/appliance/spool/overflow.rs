// SPDX-License-Identifier: Apache-2.0
//! Records for which the front log has no room, because others have filled its tmpfs, until they are in the back log.
//!
//! They do not survive the process, so they are copied soon. Pure: [`Spool`](super::Spool) decides when.

use std::collections::VecDeque;

use super::record::{Batch, Record};
use super::segment::Reader;

/// Most bytes that wait here; with more, messages are not stored.
const MAX_BYTES: usize = 8 << 20;

/// From this size on, they are to be copied at once.
const PRESSURE_BYTES: usize = 256 << 10;

/// Batches in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct Overflow {
    batches: VecDeque<Batch>,
    bytes: usize,
}

impl Overflow {
    /// Whether they are to be copied soon.
    pub fn is_pressed(&self) -> bool {
        self.bytes > PRESSURE_BYTES
    }

    /// Keeps a copy of `batch`. False: there is no room.
    pub fn push(&mut self, batch: &Batch) -> bool {
        if self.bytes + batch.bytes() > MAX_BYTES {
            return false;
        }
        self.bytes += batch.bytes();
        self.batches.push_back(batch.clone());
        true
    }

    /// The oldest batch.
    pub fn first(&self) -> Option<&Batch> {
        self.batches.front()
    }

    /// Forgets the batches whose records are all acknowledged, or stored elsewhere, up to `seq`.
    pub fn forget(&mut self, seq: u64) {
        while let Some(batch) = self
            .batches
            .front()
            .filter(|batch| batch.last_seq() <= Some(seq))
        {
            self.bytes -= batch.bytes();
            self.batches.pop_front();
        }
    }

    /// At most `max_records` behind `after`, in order.
    pub fn read(&self, after: u64, max_records: usize) -> Vec<Record> {
        let mut records = Vec::new();
        for batch in &self.batches {
            let mut reader = Reader::at(&batch.bytes, 0, 0);
            while let Some((_, found)) = reader.next_record() {
                if records.len() == max_records {
                    return records;
                }
                if found.seq > after {
                    records.extend(found.to_record(batch.id));
                }
            }
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn batch(seqs: std::ops::RangeInclusive<u64>, bytes: usize) -> Batch {
        let mut batch = Batch::new(7);
        for seq in seqs {
            batch.push((seq, seq), Class::New, 1, "topic", &vec![b'x'; bytes]);
        }
        batch
    }

    #[test]
    fn records_are_read_in_order_until_they_are_forgotten() {
        let mut overflow = Overflow::default();
        for seqs in [5..=6, 7..=7, 8..=10] {
            assert!(overflow.push(&batch(seqs, 3)));
        }
        let seqs = |overflow: &Overflow, after, most| -> Vec<u64> {
            let records = overflow.read(after, most);
            records.iter().map(|record| record.seq).collect()
        };
        assert_eq!(seqs(&overflow, 0, 10), [5, 6, 7, 8, 9, 10]);
        assert_eq!(seqs(&overflow, 6, 3), [7, 8, 9]);
        overflow.forget(8);
        assert_eq!(seqs(&overflow, 0, 10), [8, 9, 10]);
        overflow.forget(10);
        assert!(overflow.first().is_none() && overflow.bytes == 0);
    }

    #[test]
    fn a_batch_beyond_the_limit_is_refused() {
        let mut overflow = Overflow::default();
        let large = batch(1..=1, 1 << 20);
        let kept = (0..20).filter(|_| overflow.push(&large)).count();
        assert_eq!(kept, 7);
        assert!(overflow.is_pressed() && overflow.bytes <= MAX_BYTES);
    }
}
