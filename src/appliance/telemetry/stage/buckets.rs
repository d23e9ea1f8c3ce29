// SPDX-License-Identifier: Apache-2.0
//! Counts of ranges in fixed buckets, for metrics: sums over machines and rates over time need the same limits everywhere, which
//! the quantiles of a summary do not have.

use std::time::Duration;

use super::Stage;

/// Upper limits of the buckets. A time that equals a limit counts in its bucket; longer ones than the last have a bucket of their
/// own.
pub const STAGE_BUCKETS: [Duration; 14] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
];

/// Ranges of one stage by their time.
#[derive(Debug, Clone, PartialEq)]
pub struct StageHistogram {
    /// The stage.
    pub stage: Stage,
    /// Ranges in each bucket of [`STAGE_BUCKETS`], then those that took longer.
    pub counts: [u64; STAGE_BUCKETS.len() + 1],
    /// Sum of their times.
    pub sum: Duration,
}

impl StageHistogram {
    /// Number of ranges.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The counts while they grow.
#[derive(Debug, Clone, Default)]
pub(super) struct Buckets([u64; STAGE_BUCKETS.len() + 1]);

impl Buckets {
    pub(super) fn add(&mut self, time: Duration) {
        let bucket = STAGE_BUCKETS.partition_point(|limit| *limit < time);
        self.0[bucket] += 1;
    }

    pub(super) fn histogram(&self, stage: Stage, sum: Duration) -> StageHistogram {
        StageHistogram {
            stage,
            counts: self.0,
            sum,
        }
    }
}
