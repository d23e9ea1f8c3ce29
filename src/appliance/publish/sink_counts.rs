// SPDX-License-Identifier: Apache-2.0
//! What became of the messages of a sink. Each sink counts its own; the statistics add them up.

use std::iter::Sum;
use std::ops::Add;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

/// Message counts, summed over the sinks: accepted = delivered + dropped + replaced + queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(
    rename = "message_counts",
    title = "Message counts",
    deny_unknown_fields
)]
pub struct SinkCounts {
    /// Passed to a sink.
    pub accepted: u64,
    /// Acknowledged by the broker, or written.
    pub delivered: u64,
    // The queue was full, writing failed, the broker refused it, or the sink was closed first.
    /// Given up.
    pub dropped: u64,
    /// Of `dropped`: messages of QoS 0, which are sent while connected only.
    #[serde(skip)]
    pub best_effort_dropped: u64,
    /// Retained values that a newer one replaced.
    pub replaced: u64,
    /// Not delivered yet.
    pub queued: u64,
    /// Of those: in the spool.
    pub spooled: u64,
    /// Time in which the thread of the sink was at work, or waited for its receiver with messages in the queue.
    #[serde(skip)]
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

impl Sum for SinkCounts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}
