// SPDX-License-Identifier: Apache-2.0
//! The clocks of a record.

use std::time::{Instant, SystemTime};

/// Readings of both clocks, taken once per record.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    /// Wall-clock time, for times of day in messages.
    pub wall: SystemTime,
    /// Monotonic time, for latencies.
    pub monotonic: Instant,
}

impl Timestamp {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Self {
        Self {
            wall: SystemTime::now(),
            monotonic: Instant::now(),
        }
    }
}
