// SPDX-License-Identifier: Apache-2.0
//! The part of the outbox for a broker that refuses messages for now: they return to their places, and wait until the session
//! releases them.
//!
//! A message whose refusal may be about itself is put aside after a few attempts, and the next ones are sent. If the broker takes those, the
//! one aside is tried again between them, and given up at last; if not, the broker is full or ill, and all wait again.

use super::Outbox;
use super::entry::{ASIDE, Importance, InFlight, QueueEntry, QueuedMessage, Sent};

/// What waits because the broker refused it.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// No message is sent: a refused one is the first of the queue, and others would overtake it.
    pub messages: bool,
    /// Indexes of refused states, whose marks are not in the queue.
    pub states: Vec<usize>,
    /// The message whose refusal may be about itself.
    doubted: Option<Doubted>,
}

#[derive(Debug)]
struct Doubted {
    /// Its place.
    order: u64,
    /// Refusals in a row.
    refusals: u32,
    /// Another one was taken since the last.
    is_passed: bool,
}

/// Refusals of one message after which it is put aside.
const ASIDE_AFTER: u32 = 3;

/// Refusals after which it is given up, while others are taken.
const MAX_REFUSALS: u32 = 8;

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
    /// A message that is aside: it alone waits.
    Aside,
    /// A state: it alone waits.
    State,
}

impl Outbox {
    /// The broker refused a message and may take it later. `None`: it was not in flight.
    /// `in_doubt`: it may be about this message.
    pub fn refused_for_now(&mut self, id: u16, in_doubt: bool) -> Option<HeldKind> {
        if !self.is_on_way(id) {
            return None;
        }
        self.clear_suspicion(id, false);
        let is_it = |in_flight: &InFlight| in_flight.id == id;
        let at = self.in_flight.iter().position(is_it)?;
        let sent = self.in_flight.remove(at)?.sent;
        let order = match &sent {
            Sent::Message { queued, .. } => queued.order,
            &Sent::State { index, counted } => {
                self.count_again(index, counted);
                let state = &mut self.states[index];
                // A newer value that waits is sent in its place.
                if !state.queued && !state.is_forgotten() {
                    state.queued = true;
                    self.held.states.push(index);
                }
                self.release_retracted(index);
                return Some(HeldKind::State);
            }
        };
        let is_same = |doubted: &&mut Doubted| doubted.order == order;
        if let Some(doubted) = self.held.doubted.as_mut().filter(is_same)
            && in_doubt
            && doubted.is_passed
        {
            doubted.refusals += 1;
            doubted.is_passed = false;
            let is_last = doubted.refusals >= MAX_REFUSALS;
            self.in_flight.push_back(InFlight { id: ASIDE, sent });
            if is_last {
                self.held.doubted = None;
                let given_up = self.give_up(ASIDE);
                self.given_up.extend(given_up);
            }
            return Some(HeldKind::Aside);
        }
        if self.return_aside() {
            // Both are refused: it is not about the first.
            self.held.doubted = None;
        } else if !self.held.messages {
            // Others that were on their way at the same time are part of the same refusal.
            let known = self
                .held
                .doubted
                .take()
                .filter(|known| known.order == order);
            self.held.doubted = in_doubt.then(|| Doubted {
                order,
                refusals: known.map_or(0, |known| known.refusals) + 1,
                is_passed: false,
            });
        }
        // The broker has not kept it: what is sent later is not a repeat.
        self.put_back(sent, false);
        self.held.messages = true;
        Some(HeldKind::Message)
    }

    /// Messages may be sent again.
    pub fn release_messages(&mut self) {
        self.held.messages = false;
        if let Some(doubted) = &self.held.doubted
            && doubted.refusals >= ASIDE_AFTER
            && self.queued_messages() + self.backlog.ahead.len() > 1
        {
            self.put_aside(doubted.order);
        }
    }

    /// Takes the message at this place out of the queues.
    pub(super) fn put_aside(&mut self, order: u64) {
        let place = |queued: &QueuedMessage| queued.order == order;
        let ahead = self.backlog.ahead.iter().position(place);
        let update = self.updates.iter().position(place);
        let essential = self.queue.iter().position(
            |entry| matches!(entry, QueueEntry::Message(queued) if queued.order == order),
        );
        let (queued, importance, is_ahead) = match (ahead, update, essential) {
            (Some(at), ..) => (self.backlog.ahead.remove(at), Importance::Essential, true),
            (_, Some(at), _) => (self.updates.remove(at), Importance::Update, false),
            (.., Some(at)) => match self.queue.remove(at) {
                Some(QueueEntry::Message(queued)) => {
                    self.essential -= 1;
                    (Some(queued), Importance::Essential, false)
                }
                _ => return,
            },
            _ => return,
        };
        if let Some(queued) = queued {
            let sent = Sent::Message {
                queued,
                importance,
                is_ahead,
            };
            self.in_flight.push_back(InFlight { id: ASIDE, sent });
        }
    }

    /// Whether a message is aside.
    pub fn has_aside(&self) -> bool {
        self.in_flight.iter().any(|aside| aside.id == ASIDE)
    }

    /// Puts the message that is aside back at its place; returns whether there was one.
    pub fn return_aside(&mut self) -> bool {
        let at = self.in_flight.iter().position(|aside| aside.id == ASIDE);
        let aside = at.and_then(|at| self.in_flight.remove(at));
        let is_there = aside.is_some();
        if let Some(aside) = aside {
            self.put_back(aside.sent, false);
        }
        is_there
    }

    /// The broker takes the message `id`.
    pub(super) fn note_taken(&mut self, id: u16) {
        let Some(doubted) = &mut self.held.doubted else {
            return;
        };
        let taken = self.in_flight.iter().find(|in_flight| in_flight.id == id);
        match taken.map(|taken| &taken.sent) {
            Some(Sent::Message { queued, .. }) if queued.order == doubted.order => {
                self.held.doubted = None;
            }
            Some(Sent::Message { .. }) => doubted.is_passed |= doubted.refusals >= ASIDE_AFTER,
            _ => {}
        }
    }

    /// Refused states may be sent again, before everything else.
    pub fn release_states(&mut self) {
        for index in self.held.states.drain(..).rev() {
            self.queue.push_front(QueueEntry::State { order: 0, index });
        }
    }

    /// Queues a message that was in flight at its place, which is before those that were made later. `dup`: the broker may have it.
    pub(super) fn put_back(&mut self, sent: Sent, dup: bool) {
        let Sent::Message {
            mut queued,
            importance,
            is_ahead,
        } = sent
        else {
            return;
        };
        queued.dup = dup;
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
            assert_eq!(
                outbox.refused_for_now(first[at].1, false),
                Some(HeldKind::Message)
            );
        }
        assert_eq!(
            outbox.refused_for_now(first[0].1, false),
            None,
            "refused twice"
        );
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
        outbox.refused_for_now(first[1].1, false);
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
        assert_eq!(
            outbox.refused_for_now(first[0].1, false),
            Some(HeldKind::State)
        );
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
        outbox.refused_for_now(last[0].1, false);
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
            assert!(outbox.refused(id).is_some());
        }
        let gap = outbox.last_gap().expect("a gap");
        assert_eq!((gap.id, gap.from, gap.to), (7, 1, 2));
        assert_eq!((gap.updates, gap.others), (1, 1));
        assert_eq!(gap.reason, GapReason::Refused);
        assert_eq!(outbox.counts().dropped, 2);
        adds_up(&outbox);
    }

    /// Sends the first message and refuses it, in doubt.
    fn refuse(outbox: &mut Outbox, expected: &str) -> Option<HeldKind> {
        let (text, id) = sent(outbox, 1).remove(0);
        assert_eq!(text, expected);
        let kind = outbox.refused_for_now(id, true);
        adds_up(outbox);
        kind
    }

    /// Sends the first message, which is taken.
    fn take(outbox: &mut Outbox, expected: &str) {
        let (text, id) = sent(outbox, 1).remove(0);
        assert_eq!(text, expected);
        assert!(outbox.acknowledged(id));
        adds_up(outbox);
    }

    #[test]
    fn message_that_alone_is_refused_is_given_up_and_a_full_broker_is_waited_for() {
        let mut outbox = Outbox::new(100);
        outbox.number_from(7, 1);
        outbox.connected();
        (1..=10).for_each(|seq| tagged(&mut outbox, seq, Importance::Essential));
        let put_aside = |outbox: &mut Outbox| {
            for _ in 0..3 {
                assert_eq!(refuse(outbox, "1"), Some(HeldKind::Message));
                assert_eq!(sent(outbox, 1), []);
                outbox.release_messages();
            }
            assert!(outbox.has_aside());
        };
        // The next one is refused, too: all wait, and nothing is lost.
        put_aside(&mut outbox);
        assert_eq!(outbox.spool_view().cursor, 1, "the log keeps the first");
        assert_eq!(refuse(&mut outbox, "2"), Some(HeldKind::Message));
        outbox.release_messages();
        assert!(!outbox.has_aside());
        // The next ones are taken, and it is refused between them: it is about the first.
        put_aside(&mut outbox);
        for next in 2..=6 {
            take(&mut outbox, &next.to_string());
            assert_eq!(outbox.last_gap(), None);
            outbox.return_aside();
            assert_eq!(refuse(&mut outbox, "1"), Some(HeldKind::Aside));
        }
        let given_up = outbox.take_given_up();
        assert_eq!(
            (&*given_up[0].topic, given_up[0].bytes, given_up.len()),
            ("e", 1, 1)
        );
        let gap = outbox.last_gap().expect("a gap");
        assert_eq!((gap.from, gap.to, gap.reason), (1, 1, GapReason::Refused));
        assert_eq!(texts(sent(&mut outbox, 10)), ["7", "8", "9", "10"]);
        adds_up(&outbox);
    }

    #[test]
    fn message_that_is_aside_is_taken_later_or_on_another_connection() {
        let aside = || {
            let mut outbox = Outbox::new(100);
            outbox.connected();
            tagged(&mut outbox, 1, Importance::Update);
            // Alone it waits as long as it must.
            for _ in 0..20 {
                assert_eq!(refuse(&mut outbox, "1"), Some(HeldKind::Message));
                outbox.release_messages();
            }
            assert_eq!(refuse(&mut outbox, "1"), Some(HeldKind::Message));
            tagged(&mut outbox, 2, Importance::Essential);
            outbox.release_messages();
            take(&mut outbox, "2");
            outbox
        };
        let mut outbox = aside();
        outbox.return_aside();
        take(&mut outbox, "1");
        assert!(outbox.is_empty());
        let mut outbox = aside();
        tagged(&mut outbox, 3, Importance::Essential);
        outbox.disconnected();
        outbox.connected();
        assert_eq!(texts(sent(&mut outbox, 10)), ["1", "3"]);
        adds_up(&outbox);
    }
}
