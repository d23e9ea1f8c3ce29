// SPDX-License-Identifier: Apache-2.0
//! What was sent and not acknowledged.

use std::collections::VecDeque;

use super::SUBSCRIBE_ID;
use super::entry::{Entry, QueuedMessage};

/// What is on its way, in the order in which it was sent, by packet identifier.
#[derive(Debug, Default)]
pub(super) struct Flight {
    sent: VecDeque<(u16, Entry)>,
    /// A message that was on its way and waits outside of the queues until others are answered.
    aside: Option<QueuedMessage>,
    last_id: u16,
}

impl Flight {
    /// Whether nothing is on its way or aside.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.aside.is_none()
    }

    /// What is on its way, without the message aside.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Sends `entry`; returns its packet identifier.
    pub fn send(&mut self, entry: Entry) -> u16 {
        loop {
            // Zero is no valid packet identifier, the last is that of a subscription. Fewer messages are in flight than there are
            // identifiers, so this ends.
            self.last_id = self.last_id % (SUBSCRIBE_ID - 1) + 1;
            if self.get(self.last_id).is_none() {
                self.sent.push_back((self.last_id, entry));
                return self.last_id;
            }
        }
    }

    pub fn first(&self) -> Option<(u16, &Entry)> {
        self.sent.front().map(|(id, entry)| (*id, entry))
    }

    pub fn get(&self, id: u16) -> Option<&Entry> {
        // Brokers acknowledge in order, so this nearly always ends at the first.
        let found = self.sent.iter().find(|(known, _)| *known == id);
        found.map(|(_, entry)| entry)
    }

    pub fn remove(&mut self, id: u16) -> Option<Entry> {
        let at = self.sent.iter().position(|(known, _)| *known == id)?;
        self.sent.remove(at).map(|(_, entry)| entry)
    }

    /// Takes the one that was sent last.
    pub fn pop_last(&mut self) -> Option<Entry> {
        self.sent.pop_back().map(|(_, entry)| entry)
    }

    pub fn aside(&self) -> Option<&QueuedMessage> {
        self.aside.as_ref()
    }

    pub fn take_aside(&mut self) -> Option<QueuedMessage> {
        self.aside.take()
    }

    /// Puts a message aside, where there is none.
    pub fn put_aside(&mut self, queued: QueuedMessage) {
        debug_assert!(self.aside.is_none(), "one message at a time is aside");
        self.aside = Some(queued);
    }

    /// Whether a value of the state `index` is on its way.
    pub fn has_state(&self, index: usize) -> bool {
        self.sent.iter().any(|(_, entry)| entry.is_state(index))
    }

    /// Counted values of states on their way.
    pub fn counted_states(&self) -> usize {
        let is_counted = |entry: &Entry| matches!(entry, Entry::State { counted: true, .. });
        let sent = self.sent.iter();
        sent.filter(|(_, entry)| is_counted(entry)).count()
    }

    /// Messages on their way, and the one aside.
    pub fn messages(&self) -> impl Iterator<Item = &QueuedMessage> {
        let sent = self.sent.iter().filter_map(|(_, entry)| entry.message());
        sent.chain(&self.aside)
    }

    pub fn messages_mut(&mut self) -> impl Iterator<Item = &mut QueuedMessage> {
        let sent = self.sent.iter_mut();
        let sent = sent.filter_map(|(_, entry)| entry.message_mut());
        sent.chain(&mut self.aside)
    }
}
