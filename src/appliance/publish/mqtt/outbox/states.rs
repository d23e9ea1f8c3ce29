// SPDX-License-Identifier: Apache-2.0
//! One value per topic.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::entry::{Entry, Message};

/// The value of one topic.
#[derive(Debug)]
pub(super) struct State {
    pub value: Message,
    /// The broker keeps it for later subscribers.
    pub retain: bool,
    /// A mark is in the queue, or held.
    pub queued: bool,
    /// The value was passed in by the pipeline and has not been sent.
    pub counted: bool,
    /// A value of so many bytes was given up, since the broker refused it or ended the connection each time that it came.
    pub blocked: Option<usize>,
}

impl State {
    /// Whether it is not sent again.
    pub fn is_forgotten(&self) -> bool {
        !self.retain && self.value.payload.is_empty()
    }

    /// Whether this value would be given up, too. One of half the size may pass: a picture is made smaller.
    pub fn is_blocked(&self) -> bool {
        self.blocked
            .is_some_and(|bytes| 2 * self.value.payload.len() > bytes)
    }
}

/// The values of all topics, by index.
#[derive(Debug, Default)]
pub(super) struct States {
    states: Vec<State>,
    index_of: HashMap<Arc<str>, usize>,
    /// Free slots of withdrawn states.
    free: Vec<usize>,
}

impl Index<usize> for States {
    type Output = State;

    fn index(&self, index: usize) -> &State {
        &self.states[index]
    }
}

impl IndexMut<usize> for States {
    fn index_mut(&mut self, index: usize) -> &mut State {
        &mut self.states[index]
    }
}

impl States {
    /// Sets the value of a topic; returns its index.
    pub fn set(&mut self, value: Message, retain: bool) -> usize {
        if let Some(&index) = self.index_of.get(&value.topic) {
            let state = &mut self.states[index];
            state.value = value;
            state.retain = retain;
            return index;
        }
        let index = self.free.pop().unwrap_or(self.states.len());
        self.index_of.insert(Arc::clone(&value.topic), index);
        let state = State {
            value,
            retain,
            queued: false,
            counted: false,
            blocked: None,
        };
        match self.states.get_mut(index) {
            Some(free) => *free = state,
            None => self.states.push(state),
        }
        index
    }

    /// Index of the value of a topic.
    pub fn find(&self, topic: &str) -> Option<usize> {
        self.index_of.get(topic).copied()
    }

    pub fn topics(&self) -> Vec<Arc<str>> {
        self.index_of.keys().map(Arc::clone).collect()
    }

    /// Indexes of the values that there are, in the order of the slots.
    pub fn indexes(&self) -> Vec<usize> {
        let slots = 0..self.states.len();
        slots.filter(|index| !self.free.contains(index)).collect()
    }

    /// Frees the slot of a withdrawn state.
    pub fn free(&mut self, index: usize) {
        if self
            .index_of
            .remove(&self.states[index].value.topic)
            .is_some()
        {
            self.free.push(index);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &State> {
        self.states.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut State> {
        self.states.iter_mut()
    }

    /// What is sent for `entry`.
    pub fn message_of<'a>(&'a self, entry: &'a Entry) -> &'a Message {
        match entry {
            Entry::Message(queued) => &queued.message,
            Entry::State { index, .. } => &self.states[*index].value,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::Outbox;
    use super::super::entry::{Message, Pace};

    fn state(topic: &str, payload: &'static str) -> Message {
        Message::new(topic.into(), Bytes::from_static(payload.as_bytes()))
    }

    /// Sends and acknowledges all that waits; returns the topics.
    fn deliver(outbox: &mut Outbox) -> Vec<String> {
        let mut topics = Vec::new();
        while let Some(outgoing) = outbox.next(64, &mut Pace { ..Pace::UNLIMITED }) {
            topics.push(outgoing.message.topic.as_ref().to_owned());
            assert!(outgoing.retain);
            if let Some(id) = outgoing.id {
                outbox.acknowledged(id);
            }
        }
        topics
    }

    #[test]
    fn all_states_are_sent_once_more_on_request() {
        let mut outbox = Outbox::new(10);
        for topic in ["a", "b", "c"] {
            outbox.set_internal_state(state(topic, "1"));
        }
        outbox.connected();
        assert_eq!(deliver(&mut outbox), ["a", "b", "c"]);
        outbox.clear_retained("b".into());
        outbox.resend_states();
        outbox.resend_states();
        assert_eq!(deliver(&mut outbox), ["b", "a", "c"]);
        outbox.resend_states();
        assert_eq!(deliver(&mut outbox), ["a", "c"], "b is withdrawn");
    }

    #[test]
    fn value_is_acknowledged_once_the_broker_has_it() {
        let mut outbox = Outbox::new(10);
        outbox.set_internal_state(state("a", "1"));
        assert!(outbox.has_value("a") && !outbox.has_value("b"));
        outbox.connected();
        assert!(!outbox.is_acknowledged("a"));
        let sent = outbox.next(64, &mut Pace { ..Pace::UNLIMITED });
        assert!(!outbox.is_acknowledged("a"));
        let id = sent.and_then(|sent| sent.id).expect("a state has an id");
        outbox.acknowledged(id);
        assert!(outbox.is_acknowledged("a"));
        outbox.clear_retained("a".into());
        assert!(!outbox.has_value("a"));
    }
}
