// SPDX-License-Identifier: Apache-2.0
//! What waits because a broker refuses messages for now: refused messages return to their places, and all wait until the session
//! releases them.
//!
//! A message whose refusal may be about itself is put aside after a few attempts, and the next ones are sent. If the broker takes those, the
//! one aside is tried again between them, and given up at last; if not, the broker is full or ill, and all wait again.

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
    /// The message at this place was refused once more. `Some`: others were taken meanwhile, so that it is about this one; true: for the
    /// last time.
    pub fn refused_alone(&mut self, order: u64) -> Option<bool> {
        let doubted = self.doubted.as_mut()?;
        if doubted.order != order || !doubted.is_passed {
            return None;
        }
        doubted.refusals += 1;
        doubted.is_passed = false;
        let is_last = doubted.refusals >= MAX_REFUSALS;
        if is_last {
            self.doubted = None;
        }
        Some(is_last)
    }

    /// The message at this place was refused, and all messages wait. `in_doubt`: it may be about this one. `was_aside`: another one
    /// was refused before it.
    pub fn refused(&mut self, order: u64, in_doubt: bool, was_aside: bool) {
        // Others that were on their way at the same time are part of the same refusal.
        let is_first = !std::mem::replace(&mut self.messages, true);
        if was_aside {
            // Both are refused: it is not about the first.
            self.doubted = None;
        } else if is_first {
            let known = self.doubted.take().filter(|known| known.order == order);
            self.doubted = in_doubt.then(|| Doubted {
                order,
                refusals: known.map_or(0, |known| known.refusals) + 1,
                is_passed: false,
            });
        }
    }

    /// The broker has taken the message at this place.
    pub fn taken(&mut self, order: u64) {
        let Some(doubted) = &mut self.doubted else {
            return;
        };
        if doubted.order == order {
            self.doubted = None;
        } else {
            doubted.is_passed |= doubted.refusals >= ASIDE_AFTER;
        }
    }

    /// The place of the message that is to be put aside.
    pub fn to_put_aside(&self) -> Option<u64> {
        let doubted = self.doubted.as_ref()?;
        (doubted.refusals >= ASIDE_AFTER).then_some(doubted.order)
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

#[cfg(test)]
mod tests {
    use jetwatch_spool::{Class, GapReason};

    use super::super::Outbox;
    use super::super::entry::{Importance, Pace, Tag};
    use super::super::tests::{adds_up, message, tag};
    use super::*;

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

    fn tagged(outbox: &mut Outbox, seq: u64, importance: Importance) {
        let class = match importance {
            Importance::Update => Class::Update,
            Importance::Essential => Class::New,
        };
        let tag = Tag {
            class,
            ..tag(seq, 0)
        };
        outbox.push(message("e", &seq.to_string()).tagged(tag));
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
            let found = outbox.refused_for_now(first[at].1, false);
            assert_eq!(found, Some(HeldKind::Message));
        }
        // Refused twice.
        assert_eq!(outbox.refused_for_now(first[0].1, false), None);
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
        let found = outbox.refused_for_now(first[0].1, false);
        assert_eq!(found, Some(HeldKind::State));
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
        let found = (&*given_up[0].topic, given_up[0].bytes, given_up.len());
        assert_eq!(found, ("e", 1, 1));
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
