// SPDX-License-Identifier: Apache-2.0
//! Gaps and statistics of the spool as JSON.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use super::value::{SpoolId, Utc, finite, whole_milliseconds};
use super::words::GapReasonWord;
use crate::SpoolStats;
use jetwatch_spool::Gap;

/// Messages will not arrive: they were dropped by the spool, or by the queue where there is none. Sent when the broker is there, before later messages.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "gap", title = "Gap", deny_unknown_fields)]
pub(super) struct GapBody {
    pub spool: SpoolId,
    /// Number of the first of them.
    #[schemars(range(min = 1))]
    pub from: u64,
    /// Number of the last of them. Messages between the two may have been kept: updates of tracks are dropped first.
    #[schemars(range(min = 1))]
    pub to: u64,
    /// How many.
    #[schemars(range(min = 1))]
    pub messages: u64,
    /// Updates of tracks among them.
    pub updates: u64,
    pub reason: GapReasonWord,
    /// When this message was made.
    pub at: Utc,
}

impl GapBody {
    pub(super) fn new(gap: &Gap, at: SystemTime) -> Self {
        Self {
            spool: SpoolId(gap.id),
            from: gap.from,
            to: gap.to,
            messages: gap.updates + gap.others,
            updates: gap.updates,
            reason: gap.reason.into(),
            at: Utc(at),
        }
    }
}

/// Messages that wait outside of the process until the broker has acknowledged them.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "spool_stats",
    title = "Statistics of the spool",
    deny_unknown_fields
)]
pub(super) struct SpoolStatsBody<'a> {
    /// Identity of the numbering, as in messages.
    pub spool: &'a str,
    /// Size of the folder on tmpfs, in bytes.
    pub runtime_bytes: u64,
    /// Size of the folder on a device, in bytes; null where there is none, so that a power cut takes what waits.
    pub state_bytes: Option<u64>,
    /// Age of the oldest message that is not acknowledged, in milliseconds; null for none.
    pub oldest_age_ms: Option<u64>,
    /// Late messages sent per second.
    #[schemars(range(min = 0))]
    pub replay_per_s: f64,
    /// Messages dropped since the start, by kind.
    pub dropped: SpoolDroppedBody,
}

/// Messages that the spool dropped.
#[derive(Serialize, JsonSchema)]
#[schemars(
    rename = "spool_dropped",
    title = "Messages dropped by the spool",
    deny_unknown_fields
)]
pub(super) struct SpoolDroppedBody {
    /// Updates of tracks.
    pub update: u64,
    /// Begins of tracks.
    pub new: u64,
    /// Ends of tracks.
    pub end: u64,
    /// Analytics events.
    pub analytics: u64,
    /// Others.
    pub other: u64,
}

impl<'a> SpoolStatsBody<'a> {
    pub(super) fn new(stats: &'a SpoolStats) -> Self {
        let [update, new, end, analytics, other] = stats.dropped;
        Self {
            spool: &stats.id,
            runtime_bytes: stats.runtime_bytes,
            state_bytes: stats.state_bytes,
            oldest_age_ms: stats.oldest_age.map(whole_milliseconds),
            replay_per_s: finite(stats.replay_rate),
            dropped: SpoolDroppedBody {
                update,
                new,
                end,
                analytics,
                other,
            },
        }
    }
}
