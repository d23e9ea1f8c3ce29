// SPDX-License-Identifier: Apache-2.0
//! What waits to be sent: messages in the order in which they were made, and marks of states among them.

use std::collections::{HashSet, VecDeque};

use super::entry::{Entry, Importance, Message, QueuedMessage, Tag};

/// Messages and marks of states, first come, first served.
#[derive(Debug)]
pub(super) struct Queue {
    limit: usize,
    /// Essential messages, and marks of states, in the order of their numbers.
    entries: VecDeque<Entry>,
    /// Updates, in the order of their numbers, which are those of `entries`.
    updates: VecDeque<QueuedMessage>,
    /// New messages that are sent before all of them.
    ahead: VecDeque<QueuedMessage>,
    /// Messages in `entries`.
    essential: usize,
    last_order: u64,
}

impl Queue {
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            entries: VecDeque::new(),
            updates: VecDeque::new(),
            ahead: VecDeque::new(),
            essential: 0,
            last_order: 0,
        }
    }

    /// Messages but for those ahead.
    pub fn waiting(&self) -> usize {
        self.essential + self.updates.len()
    }

    /// Messages that go before the others.
    pub fn ahead(&self) -> usize {
        self.ahead.len()
    }

    pub fn messages(&self) -> usize {
        self.waiting() + self.ahead.len()
    }

    /// Whether there is neither a message nor a mark.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.updates.is_empty() && self.ahead.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    pub fn is_half_empty(&self) -> bool {
        self.waiting() <= self.limit / 2
    }

    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.waiting())
    }

    fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    /// Queues a message behind all others.
    pub fn push(&mut self, message: Message) {
        let order = self.next_order();
        self.put_back(QueuedMessage::new(order, message), false);
    }

    /// Queues a message behind those ahead, and before all others.
    pub fn push_ahead(&mut self, message: Message) {
        let order = self.next_order();
        self.ahead.push_back(QueuedMessage {
            is_ahead: true,
            ..QueuedMessage::new(order, message)
        });
    }

    /// Queues a message before all but those ahead.
    pub fn push_first(&mut self, message: Message) {
        let first = QueuedMessage::new(0, message);
        self.entries.push_front(Entry::Message(first));
        self.essential += 1;
    }

    /// Queues a mark of the state `index` behind all others.
    pub fn push_state(&mut self, index: usize) {
        let order = self.next_order();
        self.entries.push_back(Entry::state(order, index));
    }

    /// Queues a mark of the state `index` before all but those ahead.
    pub fn push_state_first(&mut self, index: usize) {
        self.entries.push_front(Entry::state(0, index));
    }

    /// Queues a message that was taken at its place. `dup`: the broker may have it.
    pub fn put_back(&mut self, queued: QueuedMessage, dup: bool) {
        let order = queued.order;
        let queued = QueuedMessage { dup, ..queued };
        let messages = match (queued.is_ahead, queued.message.importance) {
            (true, _) => &mut self.ahead,
            (false, Importance::Update) => &mut self.updates,
            (false, Importance::Essential) => {
                let at = self.entries.partition_point(|other| other.order() < order);
                self.entries.insert(at, Entry::Message(queued));
                self.essential += 1;
                return;
            }
        };
        let at = messages.partition_point(|other| other.order < order);
        messages.insert(at, queued);
    }

    /// Takes the message that is dropped first out of a full queue: the oldest update, or the oldest message if there is no update. One that
    /// is in the log is never dropped for one that is in none.
    pub fn displace(&mut self) -> Option<Message> {
        let is_loose = |queued: &QueuedMessage| !queued.tag().is_some_and(|tag| tag.is_stored);
        if let Some(at) = self.updates.iter().position(is_loose) {
            return Some(self.updates.remove(at)?.message);
        }
        let is_loose = |entry: &Entry| entry.message().is_some_and(is_loose);
        let at = self.entries.iter().position(is_loose)?;
        self.take_entry(at).map(|queued| queued.message)
    }

    fn take_entry(&mut self, at: usize) -> Option<QueuedMessage> {
        match self.entries.remove(at)? {
            Entry::Message(queued) => {
                self.essential -= 1;
                Some(queued)
            }
            Entry::State { .. } => None,
        }
    }

    /// Takes the message at this place.
    pub fn take(&mut self, order: u64) -> Option<QueuedMessage> {
        for messages in [&mut self.ahead, &mut self.updates] {
            if let Some(at) = messages.iter().position(|queued| queued.order == order) {
                return messages.remove(at);
            }
        }
        let is_it = |entry: &Entry| entry.message().is_some_and(|it| it.order == order);
        let at = self.entries.iter().position(is_it)?;
        self.take_entry(at)
    }

    fn is_update_first(&self) -> bool {
        let entry = self.entries.front().map(Entry::order);
        let update = self.updates.front().map(|queued| queued.order);
        update.is_some_and(|update| entry.is_none_or(|entry| update < entry))
    }

    /// The number of what [`pop`](Self::pop) takes.
    pub fn next_tag(&self) -> Option<Tag> {
        match self.is_update_first() {
            true => self.updates.front()?.tag(),
            false => self.entries.front()?.tag(),
        }
    }

    /// Takes what is first, without those ahead.
    pub fn pop(&mut self) -> Option<Entry> {
        if self.is_update_first() {
            return self.updates.pop_front().map(Entry::Message);
        }
        let entry = self.entries.pop_front()?;
        self.essential -= usize::from(entry.message().is_some());
        Some(entry)
    }

    /// Takes the first message ahead.
    pub fn pop_ahead(&mut self) -> Option<Entry> {
        self.ahead.pop_front().map(Entry::Message)
    }

    /// Takes the first mark of a state.
    pub fn pop_state(&mut self) -> Option<Entry> {
        let is_state = |entry: &Entry| entry.message().is_none();
        let at = self.entries.iter().position(is_state)?;
        self.entries.remove(at)
    }

    /// Removes the marks of the state `index`.
    pub fn remove_state(&mut self, index: usize) {
        self.entries.retain(|entry| !entry.is_state(index));
    }

    /// Removes all marks of states.
    pub fn remove_states(&mut self) {
        self.entries.retain(|entry| entry.message().is_some());
    }

    /// Removes the messages with these numbers, but none ahead; returns how many.
    pub fn remove(&mut self, seqs: &HashSet<u64>) -> u64 {
        let stays = |tag: Option<Tag>| !tag.is_some_and(|tag| seqs.contains(&tag.seq));
        let before = self.waiting();
        self.updates.retain(|queued| stays(queued.tag()));
        self.entries.retain(|entry| stays(entry.tag()));
        let messages = self.entries.iter().filter_map(Entry::message);
        self.essential = messages.count();
        (before - self.waiting()) as u64
    }

    /// The first number of each kind.
    pub fn first_tags(&self) -> impl Iterator<Item = Tag> {
        let firsts = [
            self.entries.iter().find_map(Entry::tag),
            self.updates.iter().find_map(QueuedMessage::tag),
            self.ahead.iter().find_map(QueuedMessage::tag),
        ];
        firsts.into_iter().flatten()
    }

    pub fn messages_mut(&mut self) -> impl Iterator<Item = &mut QueuedMessage> {
        let essential = self.entries.iter_mut().filter_map(Entry::message_mut);
        let others = self.updates.iter_mut().chain(&mut self.ahead);
        essential.chain(others)
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.updates.clear();
        self.ahead.clear();
        self.essential = 0;
    }
}
