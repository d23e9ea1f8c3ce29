// SPDX-License-Identifier: Apache-2.0
//! Gaps, and what the spool dropped, as JSON.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use super::value::{SpoolId, Utc};
use super::words::GapReasonWord;
use jetwatch_spool::Gap;

/// Messages will not arrive, as the spool, or the queue without one, dropped them. Sent before later messages.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "gap", title = "Gap", deny_unknown_fields)]
pub(super) struct GapBody {
    pub spool: SpoolId,
    /// Number of the first of them.
    #[schemars(range(min = 1))]
    pub from: u64,
    /// Number of the last of them. Some between the two may have been kept.
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
