// SPDX-License-Identifier: Apache-2.0
//! What is known of brokers that end the connection instead of refusing a message, or leave it unanswered: because of its size, its
//! topic or its retain flag.
//!
//! The first message without an acknowledgement at such an end is suspected. On the next connection messages go one by one, as many as
//! were on their way: the broker may have read further than it had answered. On every second one suspected values go last.
//! A message at which three connections have ended is given up once the broker has taken another one since then: a broker that takes none
//! has another reason, and loses nothing. Where nothing else is before it, the message is put aside for that. A retained value goes without
//! the retain flag the third time, since some brokers do not allow that flag.
//!
//! A broker that leaves events unanswered for minutes may have lost what keeps them, such as the majority of a queue, while it still takes
//! values. So a message that was left unanswered is given up only once the broker has taken another message, not a value, and has left it
//! unanswered once more since then.
//!
//! Ends of the network do not count: the caller knows them.

use std::collections::HashSet;
use std::sync::Arc;

use super::entry::{Entry, QueuedMessage};

/// Ends of connections with the same first message after which it is given up.
const MAX_ENDS: u32 = 3;

/// Acknowledgements of others after which a suspect is forgotten: it is gone, such as a value that was withdrawn.
const MAX_OTHERS: u32 = 1000;

/// Most suspects, and topics on which one was given up.
const MAX_SUSPECTS: usize = 64;

/// What was on its way when a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suspect {
    /// A message, by its place.
    Message(u64),
    /// A value, by its index.
    State(usize),
}

impl Suspect {
    fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Message(queued) => Self::Message(queued.order),
            Entry::State { index, .. } => Self::State(*index),
        }
    }
}

#[derive(Debug)]
struct Suspected {
    suspect: Suspect,
    /// Connections that have ended at it.
    ends: u32,
    /// Acknowledgements of others since the first of them.
    others: u32,
    /// Those of them that are of messages.
    messages: u32,
    /// One of the ends was that of a connection on which it was left unanswered.
    was_unanswered: bool,
}

impl Suspected {
    /// Whether it is the reason: the broker takes others.
    fn is_guilty(&self) -> bool {
        let others = match self.was_unanswered && matches!(self.suspect, Suspect::Message(_)) {
            true => self.messages,
            false => self.others,
        };
        self.ends >= MAX_ENDS && others > 0
    }
}

#[derive(Debug, Default)]
pub(super) struct Suspicion {
    suspects: Vec<Suspected>,
    /// Further messages that go alone.
    alone: usize,
    /// On the next connection suspected values go last: both what is before and what is behind them gets its turn.
    are_last: bool,
    /// Topics on which a message was given up, and none was taken since: the next one is given up at its first end.
    bad_topics: HashSet<Arc<str>>,
    /// A value was taken without the retain flag that had ended connections with it.
    is_retain_refused: bool,
}

impl Suspicion {
    /// How many of `window` messages may be on their way.
    pub fn window(&self, window: usize) -> usize {
        match !self.suspects.is_empty() || self.alone > 0 {
            true => 1,
            false => window,
        }
    }

    fn find(&self, suspect: Suspect) -> Option<&Suspected> {
        self.suspects.iter().find(|other| other.suspect == suspect)
    }

    /// Whether the value at this index goes without the retain flag.
    pub fn is_without_retain(&self, index: usize) -> bool {
        let suspected = self.find(Suspect::State(index));
        suspected.is_some_and(|suspected| suspected.ends + 1 == MAX_ENDS)
    }

    /// Whether the value at this index goes behind all else.
    pub fn goes_last(&self, index: usize) -> bool {
        self.are_last && self.find(Suspect::State(index)).is_some()
    }

    /// The broker has ended the connection, or has left a message unanswered, and `first` for this topic is the first of `on_way` messages
    /// on their way. Returns whether it is the reason, and is to be given up.
    pub fn ended(
        &mut self,
        first: &Entry,
        topic: &Arc<str>,
        on_way: usize,
        is_unanswered: bool,
    ) -> bool {
        let suspect = Suspect::of(first);
        self.alone = self.alone.max(on_way);
        self.are_last = !self.are_last;
        // Of several on their way, one behind the first may be the reason.
        let is_bad = on_way == 1 && !is_unanswered && self.bad_topics.contains(topic);
        let is_it = |known: &Suspected| known.suspect == suspect;
        let at = self.suspects.iter().position(is_it).unwrap_or_else(|| {
            self.suspects.truncate(MAX_SUSPECTS - 1);
            self.suspects.push(Suspected {
                suspect,
                ends: 0,
                others: 0,
                messages: 0,
                was_unanswered: false,
            });
            self.suspects.len() - 1
        });
        let suspected = &mut self.suspects[at];
        suspected.ends += 1;
        suspected.was_unanswered |= is_unanswered;
        let is_reason = is_bad || suspected.is_guilty();
        if is_reason {
            self.convict(at, topic);
        }
        is_reason
    }

    fn convict(&mut self, at: usize, topic: &Arc<str>) {
        self.suspects.remove(at);
        if self.bad_topics.len() < MAX_SUSPECTS {
            self.bad_topics.insert(Arc::clone(topic));
        }
    }

    /// The place of the first message at which enough connections have ended: it goes aside when one begins, so that another one can
    /// show whether the broker takes any.
    pub fn to_put_aside(&self) -> Option<u64> {
        let suspects = self.suspects.iter();
        let orders = suspects.filter_map(|suspected| match suspected.suspect {
            Suspect::Message(order) if suspected.ends >= MAX_ENDS => Some(order),
            _ => None,
        });
        orders.min()
    }

    /// Whether a value was taken without the retain flag that had ended connections with it; true once.
    pub fn take_retain_refused(&mut self) -> bool {
        std::mem::take(&mut self.is_retain_refused)
    }

    /// The broker has answered `entry` for this topic. `is_taken`: it has acknowledged it; `is_retained`: it is a value to be retained.
    pub fn answered(&mut self, entry: &Entry, topic: &str, is_taken: bool, is_retained: bool) {
        self.alone = self.alone.saturating_sub(1);
        let suspect = Suspect::of(entry);
        if is_taken {
            self.bad_topics.remove(topic);
        }
        if let Suspect::State(index) = suspect
            && is_taken
            && is_retained
            && self.is_without_retain(index)
        {
            self.is_retain_refused = true;
        }
        let is_message = matches!(suspect, Suspect::Message(_));
        self.suspects.retain_mut(|other| {
            other.others += u32::from(is_taken);
            other.messages += u32::from(is_taken && is_message);
            other.suspect != suspect && other.others < MAX_OTHERS
        });
    }

    /// What is to be done with the message aside, now that the broker has answered another one; `None`: it waits.
    pub fn judge(&mut self, aside: &QueuedMessage) -> Option<Verdict> {
        let suspect = Suspect::Message(aside.order);
        let is_guilty = |other: &Suspected| other.suspect == suspect && other.is_guilty();
        let at = self.suspects.iter().position(is_guilty)?;
        let suspected = &mut self.suspects[at];
        if suspected.was_unanswered {
            // The broker may have taken no message until now: one more attempt.
            suspected.ends = MAX_ENDS - 1;
            return Some(Verdict::TryAgain);
        }
        self.convict(at, &aside.message.topic);
        Some(Verdict::GiveUp)
    }
}

/// What is done with a message aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    TryAgain,
    GiveUp,
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use jetwatch_spool::GapReason;

    use super::super::Outbox;
    use super::super::entry::{Outgoing, Pace};
    use super::super::tests::{adds_up, message, tag};

    fn event(outbox: &mut Outbox, seq: u64) {
        outbox.push(message("events", &seq.to_string()).tagged(tag(seq, 0)));
    }

    /// A connection that ends when the broker gets what `is_bad`; returns what it has taken.
    fn connection(outbox: &mut Outbox, is_bad: impl Fn(&Outgoing) -> bool) -> Vec<String> {
        connection_until(outbox, false, is_bad)
    }

    /// As [`connection`]; `is_unanswered`: the broker does not end it, and leaves what is bad unanswered.
    fn connection_until(
        outbox: &mut Outbox,
        is_unanswered: bool,
        is_bad: impl Fn(&Outgoing) -> bool,
    ) -> Vec<String> {
        outbox.connected();
        let mut taken = Vec::new();
        let mut unanswered = Vec::new();
        loop {
            let Some(outgoing) = outbox.next(64, &mut { Pace::UNLIMITED }) else {
                // The window is full, or all is sent: the broker answers.
                if unanswered.is_empty() {
                    return taken;
                }
                for (id, text) in unanswered.drain(..) {
                    outbox.acknowledged(id);
                    taken.push(text);
                }
                continue;
            };
            if is_bad(&outgoing) {
                // It reads faster than it answers.
                outbox.ended_by_broker(is_unanswered);
                outbox.disconnected();
                return taken;
            }
            let text = String::from_utf8_lossy(&outgoing.message.payload).into_owned();
            unanswered.push((outgoing.id.expect("QoS 1"), text));
        }
    }

    #[test]
    fn message_at_which_three_connections_end_is_given_up_alone() {
        let mut outbox = Outbox::new(100);
        outbox.number_from(7, 1);
        (1..=5).for_each(|seq| event(&mut outbox, seq));
        let is_bad = |outgoing: &Outgoing| outgoing.message.payload == "3";
        // The first end suspects an innocent one, which shows itself so on the next connection.
        for expected in [&[][..], &["1", "2"], &[], &[], &["4", "5"]] {
            assert_eq!(connection(&mut outbox, is_bad), expected);
            adds_up(&outbox);
        }
        let given_up = outbox.take_given_up();
        assert_eq!((&*given_up[0].topic, given_up.len()), ("events", 1));
        let gap = outbox.last_gap().expect("a gap");
        assert_eq!((gap.from, gap.to, gap.reason), (3, 3, GapReason::Refused));
        assert!(outbox.is_empty());
    }

    #[test]
    fn message_that_was_on_its_way_with_a_bad_one_is_kept() {
        let mut outbox = Outbox::new(100);
        outbox.set_state(message("status", "online"));
        (1..=3).for_each(|seq| event(&mut outbox, seq));
        let is_bad = |outgoing: &Outgoing| {
            ["1", "3"]
                .map(Bytes::from)
                .contains(&outgoing.message.payload)
        };
        let taken: Vec<String> = (0..12)
            .flat_map(|_| connection(&mut outbox, is_bad))
            .collect();
        assert!(taken.contains(&"2".to_owned()), "{taken:?}");
        assert_eq!(outbox.take_given_up().len(), 2);
        adds_up(&outbox);
    }

    #[test]
    fn ends_at_different_messages_give_none_up() {
        let mut outbox = Outbox::new(100);
        (1..=9).for_each(|seq| event(&mut outbox, seq));
        for bad in 1..=9 {
            for _ in 0..2 {
                connection(&mut outbox, |outgoing| {
                    outgoing.message.payload == bad.to_string()
                });
            }
        }
        connection(&mut outbox, |_| false);
        assert_eq!(outbox.counts().delivered, 9);
        assert!(outbox.take_given_up().is_empty() && outbox.is_empty());
    }

    #[test]
    fn broker_that_takes_nothing_loses_nothing_and_one_that_takes_no_topic_goes_on() {
        let mut outbox = Outbox::new(100);
        outbox.set_state(message("status", "online"));
        (1..=5).for_each(|seq| event(&mut outbox, seq));
        for _ in 0..20 {
            assert_eq!(connection(&mut outbox, |_| true), [""; 0]);
        }
        assert!(outbox.take_given_up().is_empty());
        assert_eq!(outbox.counts().queued, 6);
        // All events of the topic end the connection, and nothing else does.
        for _ in 0..14 {
            connection(&mut outbox, |outgoing| &*outgoing.message.topic == "events");
        }
        assert_eq!(outbox.take_given_up().len(), 5);
        assert_eq!(outbox.counts().queued, 0);
        // One that is taken makes the topic good again.
        event(&mut outbox, 6);
        assert_eq!(connection(&mut outbox, |_| false), ["online", "6"]);
        event(&mut outbox, 7);
        for _ in 0..2 {
            connection(&mut outbox, |outgoing| outgoing.message.payload == "7");
        }
        assert!(outbox.take_given_up().is_empty());
        adds_up(&outbox);
    }

    #[test]
    fn events_without_an_answer_are_kept_while_the_broker_takes_none() {
        let mut outbox = Outbox::new(100);
        (1..=5).for_each(|seq| event(&mut outbox, seq));
        // Values are taken all the time.
        for count in 0..20 {
            outbox.set_state(message("status", &count.to_string()));
            connection_until(&mut outbox, true, |outgoing| {
                &*outgoing.message.topic == "events"
            });
        }
        assert!(outbox.take_given_up().is_empty());
        // One alone is never answered, and others are.
        for _ in 0..12 {
            connection_until(&mut outbox, true, |outgoing| {
                outgoing.message.payload == "3"
            });
        }
        assert_eq!(outbox.take_given_up().len(), 1);
        assert!(outbox.is_empty());
        adds_up(&outbox);
    }

    #[test]
    fn values_that_are_denied_do_not_keep_events_from_their_way() {
        let mut outbox = Outbox::new(100);
        for topic in ["a", "b", "c", "ok"] {
            outbox.set_state(message(topic, "x"));
        }
        (1..=5).for_each(|seq| event(&mut outbox, seq));
        let is_denied = |outgoing: &Outgoing| matches!(&*outgoing.message.topic, "a" | "b" | "c");
        let mut events = 0;
        for number in 1..=14 {
            let taken = connection(&mut outbox, is_denied);
            events += taken.iter().filter(|text| *text != "x").count();
            assert!(number < 6 || events == 5, "{number}: {events}");
        }
        assert_eq!(outbox.take_given_up().len(), 3);
        assert_eq!(connection(&mut outbox, is_denied), ["x"]);
        adds_up(&outbox);
    }

    #[test]
    fn retained_value_is_tried_without_the_flag_and_then_given_up() {
        for is_about_retain in [true, false] {
            let mut outbox = Outbox::new(100);
            outbox.set_state(message("ok", "fine"));
            outbox.set_state(message("picture", "large"));
            event(&mut outbox, 1);
            let is_bad = |outgoing: &Outgoing| match is_about_retain {
                true => outgoing.retain,
                false => outgoing.message.payload.len() > 4,
            };
            let mut is_refused = false;
            for _ in 0..8 {
                connection(&mut outbox, is_bad);
                is_refused |= outbox.take_retain_refused();
                if is_refused {
                    // The caller sends no flag from then on.
                    break;
                }
            }
            assert_eq!(is_refused, is_about_retain);
            adds_up(&outbox);
            let given_up = outbox.take_given_up();
            assert_eq!(given_up.len(), usize::from(!is_about_retain));
            if !is_about_retain {
                // Not sent again with this size, not on another connection either; a smaller one is.
                outbox.set_state(message("picture", "LARGE"));
                assert_eq!(connection(&mut outbox, |_| false), ["fine"]);
                outbox.set_state(message("picture", "xs"));
                assert_eq!(connection(&mut outbox, is_bad), ["fine", "xs"]);
                adds_up(&outbox);
            }
        }
    }
}
