// SPDX-License-Identifier: Apache-2.0
//! The part of the outbox that holds one value per topic.

use std::sync::Arc;

use bytes::Bytes;

use super::Outbox;
use super::entry::{InFlight, Message, QueueEntry, Sent};

/// The value of one topic.
#[derive(Debug)]
pub(super) struct State {
    pub value: Message,
    /// The broker keeps it for later subscribers.
    pub retain: bool,
    /// A mark is in the queue.
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

impl Outbox {
    /// Sets a state from the pipeline.
    pub fn set_state(&mut self, value: Message) {
        self.set_counted(value, true);
    }

    /// As [`set_state`](Self::set_state), not retained: it reaches those who are subscribed, once more on each connection.
    pub fn set_latest(&mut self, value: Message) {
        self.set_counted(value, false);
    }

    fn set_counted(&mut self, value: Message, retain: bool) {
        self.accepted += 1;
        let index = self.upsert_state(value, retain);
        let state = &mut self.states[index];
        let is_blocked = state.is_blocked();
        if std::mem::replace(&mut state.counted, !is_blocked) {
            self.replaced += 1;
        }
        self.dropped += u64::from(is_blocked);
    }

    /// Sets a state of the client itself, which is not counted.
    pub fn set_internal_state(&mut self, value: Message) {
        self.upsert_state(value, true);
    }

    /// Clears a retained state at the broker by an empty retained message. It is removed once that is acknowledged.
    pub fn retract(&mut self, topic: &Arc<str>) {
        if !self.state_of.contains_key(topic) {
            return;
        }
        let index = self.upsert_state(Message::new(Arc::clone(topic), Bytes::new()), true);
        if std::mem::take(&mut self.states[index].counted) {
            self.replaced += 1;
        }
    }

    /// Clears all retained states but that of `kept`, as [`retract`](Self::retract).
    pub fn retract_all_but(&mut self, kept: &str) {
        let topics: Vec<Arc<str>> = self.state_of.keys().map(Arc::clone).collect();
        for topic in topics.iter().filter(|topic| topic.as_ref() != kept) {
            self.retract(topic);
        }
    }

    /// Clears a retained value of an earlier run by an empty retained message, which is not counted.
    pub fn clear_retained(&mut self, topic: Arc<str>) {
        self.upsert_state(Message::new(topic, Bytes::new()), true);
    }

    /// The value of a topic from [`set_latest`](Self::set_latest) is not sent again, on this connection or a later one.
    pub fn forget(&mut self, topic: &str) {
        let Some(&index) = self.state_of.get(topic) else {
            return;
        };
        let state = &mut self.states[index];
        if std::mem::take(&mut state.counted) {
            self.replaced += 1;
        }
        // The mark of a free slot.
        state.value.payload = Bytes::new();
        self.unqueue_state(index);
        self.release_retracted(index);
    }

    /// It is not sent, as far as it is not on its way.
    pub(super) fn unqueue_state(&mut self, index: usize) {
        self.states[index].queued = false;
        self.held.states.retain(|&held| held != index);
        self.queue.retain(
            |waiting| !matches!(waiting, QueueEntry::State { index: other, .. } if *other == index),
        );
    }

    /// Whether this topic has a value that is sent on every connection.
    pub fn has_state(&self, topic: &str) -> bool {
        self.state_of.contains_key(topic)
    }

    /// Frees the slot of a state whose withdrawal was acknowledged.
    pub(super) fn release_retracted(&mut self, index: usize) {
        let state = &self.states[index];
        let is_under_way = |in_flight: &InFlight| matches!(in_flight.sent, Sent::State { index: other, .. } if other == index);
        if state.value.payload.is_empty()
            && !state.queued
            && !self.in_flight.iter().any(is_under_way)
            && self.state_of.remove(&state.value.topic).is_some()
        {
            self.free.push(index);
        }
    }

    fn upsert_state(&mut self, value: Message, retain: bool) -> usize {
        let index = match self.state_of.get(&value.topic) {
            Some(&index) => {
                self.states[index].value = value;
                index
            }
            None => {
                let index = self.free.pop().unwrap_or(self.states.len());
                self.state_of.insert(Arc::clone(&value.topic), index);
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
        };
        self.states[index].retain = retain;
        if self.states[index].is_blocked() {
            self.unqueue_state(index);
        } else if !std::mem::replace(&mut self.states[index].queued, true) {
            let order = self.next_order();
            self.queue.push_back(QueueEntry::State { order, index });
        }
        index
    }
}
