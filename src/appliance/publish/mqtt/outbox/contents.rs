// SPDX-License-Identifier: Apache-2.0
//! What an outbox has, and counts of it. Nothing here changes it.

use jetwatch_spool::Class;

use super::Outbox;
use crate::SinkCounts;

impl Outbox {
    /// Whether the client may end now: what is left is in the log and would be sent late.
    pub fn may_end(&self) -> bool {
        self.backlog.is_spooled
            && (self.held.messages
                || self.has_aside()
                || self.backlog.is_waiting && self.queue.ahead() == 0)
            && self.best_effort.is_empty()
            && self.writing == 0
            && !self.states.iter().any(|state| state.queued)
            && !self.awaits_ack()
    }

    /// Whether everything has been delivered.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
            && !self.backlog.is_behind
            && self.held.states.is_empty()
            && self.flight.is_empty()
            && self.best_effort.is_empty()
            && self.writing == 0
    }

    /// Whether messages that must arrive are waiting.
    pub fn has_messages(&self) -> bool {
        self.queue.messages() > 0
            || self.backlog.is_behind
            || self.flight.messages().next().is_some()
    }

    /// Whether a message of this identifier was sent and not acknowledged.
    pub fn is_on_way(&self, id: u16) -> bool {
        self.flight.get(id).is_some()
    }

    /// The first message that was sent and not acknowledged.
    pub fn first_on_way(&self) -> Option<u16> {
        self.flight.first().map(|(id, _)| id)
    }

    /// Whether a reply from the broker is due.
    pub fn awaits_ack(&self) -> bool {
        self.first_on_way().is_some()
    }

    /// Whether a connection is open, so that messages are waited for.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Messages that stay in the log when the client ends.
    pub fn kept(&self) -> u64 {
        self.backlog.count + self.backlog.kept
    }

    /// Numbered messages that were passed in, and late ones that were sent.
    pub fn progress(&self) -> (u64, u64) {
        (self.backlog.numbered, self.backlog.replayed)
    }

    /// Messages that were dropped, by class.
    pub fn dropped_by_class(&self) -> [u64; Class::ALL.len()] {
        self.gaps.dropped_by_class
    }

    /// Messages that the broker has acknowledged, internal ones too.
    pub fn acks(&self) -> u64 {
        self.acks
    }

    /// Current message counts.
    pub fn counts(&self) -> SinkCounts {
        let messages = self.queue.messages() + self.flight.messages().count();
        let messages = messages as u64 + self.kept();
        let states =
            self.states.iter().filter(|state| state.counted).count() + self.flight.counted_states();
        SinkCounts {
            accepted: self.accepted,
            delivered: self.delivered,
            dropped: self.dropped,
            best_effort_dropped: self.best_effort_dropped,
            replaced: self.replaced,
            queued: messages + (self.best_effort.len() + states) as u64 + self.writing,
            spooled: match self.backlog.is_spooled {
                true => messages,
                false => 0,
            },
            ..SinkCounts::default()
        }
    }
}
