// SPDX-License-Identifier: Apache-2.0
//! The part of the outbox for a subscriber that announces itself, and for values that follow one another.

use super::entry::{QueueEntry, Sent};
use super::{InFlight, Outbox};

impl Outbox {
    /// Sends every state once more, behind what waits.
    pub fn resend_states(&mut self) {
        for index in 0..self.states.len() {
            let state = &self.states[index];
            if self.free.contains(&index) || state.queued || state.is_blocked() {
                continue;
            }
            self.states[index].queued = true;
            let order = self.next_order();
            self.queue.push_back(QueueEntry::State { order, index });
        }
    }

    /// Whether this topic has a value that is not being withdrawn.
    pub fn has_value(&self, topic: &str) -> bool {
        let index = self.state_of.get(topic);
        index.is_some_and(|&index| !self.states[index].value.payload.is_empty())
    }

    /// Whether the broker acknowledged the newest value of this topic, or it has none.
    pub fn is_acknowledged(&self, topic: &str) -> bool {
        let Some(&index) = self.state_of.get(topic) else {
            return true;
        };
        let is_own = |in_flight: &InFlight| matches!(in_flight.sent, Sent::State { index: other, .. } if other == index);
        !self.states[index].queued && !self.in_flight.iter().any(is_own)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::entry::{Message, Pace};
    use super::*;

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
