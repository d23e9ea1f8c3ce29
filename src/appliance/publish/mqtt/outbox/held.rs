//! The part of the outbox for a broker that refuses messages for now: they return to their places, and wait until the session
//! releases them.

use super::Outbox;
use super::entry::{Importance, InFlight, QueueEntry, QueuedMessage, Sent};

/// What waits because the broker refused it.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// No message is sent: a refused one is the first of the queue, and others would overtake it.
    pub messages: bool,
    /// Indexes of refused states, whose marks are not in the queue.
    pub states: Vec<usize>,
}

impl Held {
    /// Whether no state waits. Messages that wait are in the queues.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mqtt) enum HeldKind {
    /// A message: all messages wait, so that their order stays.
    Message,
    /// A state: it alone waits.
    State,
}

impl Outbox {
    /// The broker refused a message and may take it later. `None`: it was not in flight.
    pub fn refused_for_now(&mut self, id: u16) -> Option<HeldKind> {
        let is_it = |in_flight: &InFlight| in_flight.id == id;
        let at = self.in_flight.iter().position(is_it)?;
        match self.in_flight.remove(at)?.sent {
            Sent::Message {
                order,
                message,
                importance,
                tag,
                is_ahead,
            } => {
                let queued = QueuedMessage {
                    order,
                    message,
                    // The broker has not kept it: what is sent later is no repeat.
                    dup: false,
                    tag,
                };
                self.put_back(queued, importance, is_ahead);
                self.held.messages = true;
                Some(HeldKind::Message)
            }
            Sent::State { index, counted } => {
                self.count_again(index, counted);
                let state = &mut self.states[index];
                // A newer value that waits is sent in its place.
                if !state.queued && !state.is_forgotten() {
                    state.queued = true;
                    self.held.states.push(index);
                }
                self.release_retracted(index);
                Some(HeldKind::State)
            }
        }
    }

    /// Messages may be sent again.
    pub fn release_messages(&mut self) {
        self.held.messages = false;
    }

    /// Refused states may be sent again, before everything else.
    pub fn release_states(&mut self) {
        for index in self.held.states.drain(..).rev() {
            self.queue.push_front(QueueEntry::State { order: 0, index });
        }
    }

    /// Queues a message that was in flight at its place, which is before those that were made later.
    pub(super) fn put_back(
        &mut self,
        queued: QueuedMessage,
        importance: Importance,
        is_ahead: bool,
    ) {
        let order = queued.order;
        if is_ahead {
            let ahead = &mut self.backlog.ahead;
            let at = ahead.partition_point(|other| other.order < order);
            ahead.insert(at, queued);
            return;
        }
        match importance {
            Importance::Update => {
                let at = self.updates.partition_point(|other| other.order < order);
                self.updates.insert(at, queued);
            }
            Importance::Essential => {
                let at = self.queue.partition_point(|other| other.order() < order);
                self.queue.insert(at, QueueEntry::Message(queued));
                self.essential += 1;
            }
        }
    }

    /// A value that was in flight waits again, unless a newer one does.
    pub(super) fn count_again(&mut self, index: usize, counted: bool) {
        if !counted {
            return;
        }
        let state = &mut self.states[index];
        if state.is_forgotten() || std::mem::replace(&mut state.counted, true) {
            self.replaced += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use jetwatch_spool::{Class, GapReason};

    use super::super::entry::{Message, Pace, Tag};
    use super::*;

    fn message(topic: &str, payload: &str) -> Message {
        Message::new(Arc::from(topic), Bytes::copy_from_slice(payload.as_bytes()))
    }

    /// Payloads and packet identifiers of what may be sent now.
    fn sent(outbox: &mut Outbox, window: usize) -> Vec<(String, u16)> {
        std::iter::from_fn(|| outbox.next(window, &mut { Pace::UNLIMITED }))
            .map(|out| {
                let text = String::from_utf8_lossy(&out.message.payload).into_owned();
                (text, out.id.expect("QoS 1"))
            })
            .collect()
    }

    fn texts(sent: Vec<(String, u16)>) -> Vec<String> {
        sent.into_iter().map(|(text, _)| text).collect()
    }

    fn adds_up(outbox: &Outbox) {
        let counts = outbox.counts();
        let sum = counts.delivered + counts.dropped + counts.replaced + counts.queued;
        assert_eq!(counts.accepted, sum, "{counts:?}");
    }

    fn tagged(outbox: &mut Outbox, seq: u64, importance: Importance) {
        let class = match importance {
            Importance::Update => Class::Update,
            Importance::Essential => Class::New,
        };
        let tag = Tag {
            seq,
            at_ms: 0,
            track: 1,
            class,
        };
        outbox.push_tagged(message("e", &seq.to_string()), importance, Some(tag));
    }

    #[test]
    fn refused_messages_return_to_their_places_and_all_messages_wait() {
        let mut outbox = Outbox::new(100);
        outbox.number_from(7, 1);
        outbox.connected();
        for seq in 1..=6 {
            let importance = match seq % 2 {
                0 => Importance::Update,
                _ => Importance::Essential,
            };
            tagged(&mut outbox, seq, importance);
        }
        let first = sent(&mut outbox, 4);
        // The third was accepted; the others were refused, in any order.
        assert!(outbox.acknowledged(first[2].1));
        for at in [3, 0, 1] {
            assert_eq!(outbox.refused_for_now(first[at].1), Some(HeldKind::Message));
        }
        assert_eq!(outbox.refused_for_now(first[0].1), None, "refused twice");
        assert_eq!(sent(&mut outbox, 4), []);
        assert_eq!(outbox.counts().queued, 5);
        assert_eq!(outbox.spool_view().cursor, 1, "the log keeps it");
        outbox.set_state(message("s", "state"));
        assert_eq!(texts(sent(&mut outbox, 4)), ["state"]);
        adds_up(&outbox);
        outbox.release_messages();
        assert_eq!(texts(sent(&mut outbox, 100)), ["1", "2", "4", "5", "6"]);
        adds_up(&outbox);
        assert_eq!(outbox.last_gap(), None);
    }

    #[test]
    fn broken_connection_keeps_the_order_of_refused_messages_and_those_behind_them() {
        let mut outbox = Outbox::new(100);
        outbox.connected();
        for seq in 1..=4 {
            tagged(&mut outbox, seq, Importance::Essential);
        }
        let first = sent(&mut outbox, 3);
        outbox.refused_for_now(first[1].1);
        outbox.disconnected();
        outbox.connected();
        assert_eq!(texts(sent(&mut outbox, 10)), ["1", "2", "3", "4"]);
        adds_up(&outbox);
    }

    #[test]
    fn refused_state_waits_alone_and_its_newest_value_is_sent() {
        let mut outbox = Outbox::new(100);
        outbox.connected();
        outbox.set_state(message("s", "1"));
        outbox.set_state(message("t", "1"));
        let first = sent(&mut outbox, 10);
        assert_eq!(outbox.refused_for_now(first[0].1), Some(HeldKind::State));
        assert!(outbox.acknowledged(first[1].1));
        assert!(!outbox.is_acknowledged("s") && !outbox.is_empty());
        outbox.set_state(message("s", "2"));
        tagged(&mut outbox, 1, Importance::Essential);
        let message_alone = sent(&mut outbox, 10);
        assert_eq!(texts(message_alone.clone()), ["1"]);
        assert!(outbox.acknowledged(message_alone[0].1));
        adds_up(&outbox);
        outbox.release_states();
        let again = sent(&mut outbox, 10);
        assert_eq!(texts(again.clone()), ["2"]);
        assert!(outbox.acknowledged(again[0].1));
        assert!(outbox.is_empty());
        adds_up(&outbox);
        // One that is forgotten while it waits is not sent.
        outbox.set_latest(message("u", "1"));
        let last = sent(&mut outbox, 10);
        outbox.refused_for_now(last[0].1);
        outbox.forget("u");
        outbox.release_states();
        assert_eq!(sent(&mut outbox, 10), []);
        assert!(outbox.is_empty());
        adds_up(&outbox);
    }

    #[test]
    fn message_that_is_refused_for_good_leaves_a_gap() {
        let mut outbox = Outbox::new(100);
        outbox.number_from(7, 1);
        outbox.connected();
        tagged(&mut outbox, 1, Importance::Essential);
        tagged(&mut outbox, 2, Importance::Update);
        for (_, id) in sent(&mut outbox, 10) {
            assert!(outbox.refused(id));
        }
        let gap = outbox.last_gap().expect("a gap");
        assert_eq!((gap.id, gap.from, gap.to), (7, 1, 2));
        assert_eq!((gap.updates, gap.others), (1, 1));
        assert_eq!(gap.reason, GapReason::Refused);
        assert_eq!(outbox.counts().dropped, 2);
        adds_up(&outbox);
    }
}
