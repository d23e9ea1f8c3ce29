// SPDX-License-Identifier: Apache-2.0
//! Which messages a client publishes, where events and states have a broker each.

use crate::Publication;

/// The messages of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
    /// All of them.
    #[default]
    Everything,
    /// What is counted and kept: events, analytics events, gaps, media; and the tracks of frames.
    Events,
    /// The rest: states, statistics, pictures, replies. They have no numbers and no spool.
    States {
        /// Also analytics events, which entities and triggers of Home Assistant read.
        with_analytics: bool,
        /// Whether the client for events has a spool, which is announced.
        has_spool: bool,
    },
}

impl Part {
    /// Whether it has the messages with numbers.
    pub(super) fn has_events(self) -> bool {
        !matches!(self, Self::States { .. })
    }

    /// Whether it has the values that a broker retains, but for the availability of the device, which all have.
    pub(super) fn has_states(self) -> bool {
        self != Self::Events
    }

    /// Whether it has this record.
    pub(super) fn has(self, record: &Publication<'_>) -> bool {
        let is_event = matches!(
            record,
            Publication::Events { .. }
                | Publication::Analytics { .. }
                | Publication::Media { .. }
                | Publication::Gap { .. }
                | Publication::Frame { .. }
        );
        match self {
            Self::Everything => true,
            Self::Events => is_event,
            Self::States { with_analytics, .. } => {
                !is_event || (with_analytics && matches!(record, Publication::Analytics { .. }))
            }
        }
    }
}
