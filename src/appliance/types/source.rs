// SPDX-License-Identifier: Apache-2.0
//! Identity and state of a source.

/// Index of a source in the configuration's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u16);

impl SourceId {
    /// The index as a `usize`.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

crate::named_enum! {
    /// State of one source as published.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SourceState {
        /// Being opened; no frame yet.
        Connecting = "connecting",
        /// Frames arrive.
        Online = "online",
        /// Failed or stalled; a live source reconnects.
        Offline = "offline",
        /// Reached the end of its stream.
        Ended = "ended",
    }

    /// The name used in messages and reports.
    pub fn name;
}
