// SPDX-License-Identifier: Apache-2.0
//! What became of the messages of a sink. Each sink counts its own; the statistics add them up.

use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::time::Duration;

/// Message counts of a sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkCounts {
    /// Passed in by the pipeline.
    pub accepted: u64,
    /// Delivered (acknowledged, written).
    pub delivered: u64,
    /// Dropped because the queue was full, writing failed, the broker refused it, or the sink was closed first.
    pub dropped: u64,
    /// Of `dropped`: messages of QoS 0, which are sent while connected only.
    pub best_effort_dropped: u64,
    /// Retained values (states, counts) replaced by a newer value of the same topic before delivery.
    pub replaced: u64,
    /// Still waiting. At any moment `accepted = delivered + dropped + replaced + queued`.
    pub queued: u64,
    /// Of `queued`: in the spool, from which the next start sends them.
    pub spooled: u64,
    /// Time in which the thread of the sink was at work, or waited for its receiver with messages in the queue.
    pub busy: Duration,
}

impl SinkCounts {
    /// Messages that will never arrive, once the sink is closed: dropped ones, and those that still wait and are not in a spool.
    /// Those of QoS 0 that found no connection are not among them.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.dropped - self.best_effort_dropped + self.queued - self.spooled
    }
}

impl Add for SinkCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            accepted: self.accepted + other.accepted,
            delivered: self.delivered + other.delivered,
            dropped: self.dropped + other.dropped,
            best_effort_dropped: self.best_effort_dropped + other.best_effort_dropped,
            replaced: self.replaced + other.replaced,
            queued: self.queued + other.queued,
            spooled: self.spooled + other.spooled,
            busy: self.busy + other.busy,
        }
    }
}

impl AddAssign for SinkCounts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for SinkCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}
