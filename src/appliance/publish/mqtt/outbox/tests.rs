// SPDX-License-Identifier: Apache-2.0
//! Tests of the outbox: by cases, and by random sequences of operations.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use jetwatch_spool::Class;

const WINDOW: usize = 4;

/// Some time after 1970.
const START_MS: u64 = 1_800_000_000_000;

pub(super) fn message(topic: &str, payload: &str) -> Message {
    Message::new(topic.into(), Bytes::copy_from_slice(payload.as_bytes()))
}

fn push(outbox: &mut Outbox, message: Message) {
    outbox.push(message);
}

fn update(topic: &str, payload: &str) -> Message {
    Message {
        importance: Importance::Update,
        ..message(topic, payload)
    }
}

fn sent(outbox: &mut Outbox) -> Vec<(String, Option<u16>, bool)> {
    std::iter::from_fn(|| outbox.next(WINDOW, &mut { Pace::UNLIMITED }))
        .map(|out| {
            (
                String::from_utf8_lossy(&out.message.payload).into_owned(),
                out.id,
                out.dup,
            )
        })
        .collect()
}

/// Payloads of the messages of [`sent`].
fn texts_sent(outbox: &mut Outbox) -> Vec<String> {
    sent(outbox).into_iter().map(|(text, ..)| text).collect()
}

pub(super) fn adds_up(outbox: &Outbox) {
    let counts = outbox.counts();
    let sum = counts.delivered + counts.dropped + counts.replaced + counts.queued;
    assert_eq!(counts.accepted, sum, "{counts:?}");
}

/// A numbered message that was made at this time.
pub(super) fn tag(seq: u64, at_ms: u64) -> Tag {
    Tag {
        seq,
        at_ms,
        track: 1,
        class: Class::New,
        is_stored: false,
    }
}

/// The same in the log.
fn stored(seq: u64) -> Message {
    message("e", &seq.to_string()).tagged(Tag {
        is_stored: true,
        ..tag(seq, START_MS)
    })
}

#[test]
fn clock_that_is_set_makes_no_message_late_or_young() {
    let mut outbox = Outbox::new(100);
    outbox.number_from(1, 1);
    outbox.connected();
    for seq in 1..=2 {
        let text = message("e", &seq.to_string());
        outbox.push(text.tagged(tag(seq, START_MS + 10_000 * seq)));
    }
    let mut pace = Pace {
        now_ms: START_MS + 20_000,
        tokens: f64::INFINITY,
    };
    let first = outbox.next(WINDOW, &mut pace).expect("the first");
    assert_eq!(first.late_ms, Some(10_000));
    for step_ms in [-3_600_000, 3_600_000] {
        outbox.correct_times(step_ms);
        pace.now_ms = pace.now_ms.saturating_add_signed(step_ms);
        outbox.disconnected();
        outbox.connected();
        let ages = [(); 2].map(|()| {
            let sent = outbox.next(WINDOW, &mut pace);
            sent.and_then(|sent| sent.late_ms)
        });
        assert_eq!(ages, [Some(10_000), None], "{step_ms}");
    }
}

#[test]
fn unacknowledged_messages_are_resent_in_order_with_dup_flag() {
    let mut outbox = Outbox::new(100);
    outbox.connected();
    for n in 0..6 {
        push(&mut outbox, message("e", &n.to_string()));
    }
    assert_eq!(sent(&mut outbox).len(), WINDOW);
    assert!(outbox.acknowledged(2), "an acknowledgement out of order");
    assert!(!outbox.acknowledged(2), "acknowledged twice");
    assert_eq!(outbox.acks(), 1, "counted once");
    outbox.disconnected();
    outbox.connected();
    let again: Vec<_> = sent(&mut outbox)
        .into_iter()
        .map(|(text, _, again)| (text, again))
        .collect();
    let expected = [("0", true), ("2", true), ("3", true), ("4", false)];
    let wanted = expected.map(|(text, again)| (text.to_owned(), again));
    assert_eq!(again, wanted);
    adds_up(&outbox);
    assert_eq!(outbox.counts().delivered, 1);
}

#[test]
fn packet_ids_wrap_without_zero_or_in_flight_ids() {
    let mut outbox = Outbox::new(10);
    outbox.connected();
    push(&mut outbox, message("e", "slow"));
    assert_eq!(
        outbox
            .next(WINDOW, &mut { Pace::UNLIMITED })
            .and_then(|out| out.id),
        Some(1)
    );
    for _ in 0..u32::from(u16::MAX) * 2 {
        push(&mut outbox, message("e", "quick"));
        let id = outbox
            .next(WINDOW, &mut { Pace::UNLIMITED })
            .and_then(|out| out.id)
            .expect("space in the window");
        assert!(id > 1, "{id}");
        assert!(outbox.acknowledged(id));
    }
    assert!(outbox.acknowledged(1), "the slow one was kept apart");
}

#[test]
fn full_outbox_drops_oldest_message_but_no_state() {
    let mut outbox = Outbox::new(3);
    outbox.set_state(message("s", "state"));
    for n in 0..5 {
        push(&mut outbox, message("e", &n.to_string()));
    }
    assert_eq!(outbox.counts().dropped, 2);
    outbox.connected();
    let texts: Vec<_> = texts_sent(&mut outbox);
    assert_eq!(texts, ["state", "2", "3", "4"]);
    adds_up(&outbox);
}

#[test]
fn message_without_a_number_takes_no_place_of_one_in_the_log() {
    let mut outbox = Outbox::new(2);
    outbox.number_from(1, 1);
    outbox.use_spool(0, false);
    for seq in 1..=3 {
        outbox.push(stored(seq));
    }
    assert!(outbox.push(message("command/reply", "{}")));
    assert_eq!(outbox.spool_view().cursor, 1);
    assert!(outbox.take_gaps().is_empty());
    outbox.connected();
    let sent: Vec<String> = texts_sent(&mut outbox);
    assert_eq!(sent, ["1", "2"]);
    adds_up(&outbox);
}

#[test]
fn message_in_the_log_is_not_displaced_by_one_that_is_not_and_is_read_back() {
    let mut outbox = Outbox::new(2);
    outbox.number_from(1, 1);
    outbox.use_spool(0, false);
    // The log takes the first, and not the next ones.
    outbox.push(stored(1));
    for seq in [2, 3] {
        outbox.push(message("e", &seq.to_string()).tagged(tag(seq, START_MS)));
    }
    let gap = outbox.take_gaps().pop().expect("the second was displaced");
    assert_eq!((gap.from, gap.to), (2, 2));
    outbox.connected();
    assert_eq!(texts_sent(&mut outbox), ["1", "3"]);
    outbox.disconnected();
    // Without any other, the new one has no place.
    let mut outbox = Outbox::new(2);
    outbox.number_from(1, 1);
    outbox.use_spool(0, false);
    outbox.push(stored(1));
    outbox.push(stored(2));
    assert!(outbox.push(message("e", "3").tagged(tag(3, START_MS))));
    let gap = outbox.take_gaps().pop().expect("the third was dropped");
    assert_eq!((gap.from, gap.to), (3, 3));
    assert_eq!(outbox.spool_view().cursor, 1, "the log keeps the others");
    // What is in the log only comes from there, in its order.
    outbox.push(stored(4));
    outbox.connected();
    assert_eq!(texts_sent(&mut outbox), ["1", "2"]);
    for id in [1, 2] {
        assert!(outbox.acknowledged(id));
    }
    let view = outbox.spool_view();
    assert_eq!((view.cursor, view.needs_refill), (4, true));
    outbox.refill(&view, vec![record(4)]);
    assert_eq!(texts_sent(&mut outbox), ["4"]);
    adds_up(&outbox);
}

#[test]
fn full_outbox_drops_updates_before_essential_messages_and_keeps_order() {
    let mut outbox = Outbox::new(4);
    let mut first = Vec::new();
    for (text, importance) in [
        ("new1", Importance::Essential),
        ("update1a", Importance::Update),
        ("new2", Importance::Essential),
        ("update1b", Importance::Update),
        ("end1", Importance::Essential),
        ("update2", Importance::Update),
    ] {
        first.push(outbox.push(Message {
            importance,
            ..message("e", text)
        }));
    }
    // Reported once, when the first one is dropped.
    assert_eq!(first, [false, false, false, false, true, false]);
    outbox.connected();
    let texts = |outbox: &mut Outbox| -> Vec<String> { texts_sent(outbox) };
    assert_eq!(texts(&mut outbox), ["new1", "new2", "end1", "update2"]);
    let overflow = Overflow {
        updates: 2,
        essential: 0,
    };
    assert_eq!(outbox.take_overflow(), overflow);
    // Those in flight come again in the same order, between the others.
    outbox.disconnected();
    outbox.push(message("e", "end2"));
    outbox.connected();
    assert_eq!(texts(&mut outbox), ["new1", "new2", "end1", "end2"]);
    // Without updates the oldest goes.
    outbox.disconnected();
    assert!(!outbox.push(message("e", "new3")), "reported before");
    outbox.connected();
    assert_eq!(texts(&mut outbox), ["new2", "end1", "end2", "new3"]);
    let overflow = Overflow {
        updates: 1,
        essential: 1,
    };
    assert_eq!(outbox.take_overflow(), overflow);
    adds_up(&outbox);
}

#[test]
fn state_keeps_newest_value_and_is_resent_on_connect() {
    let mut outbox = Outbox::new(10);
    outbox.set_internal_state(message("status", "online"));
    outbox.set_state(message("n", "1"));
    outbox.set_state(message("n", "2"));
    assert_eq!(outbox.counts().replaced, 1);
    outbox.connected();
    let texts: Vec<_> = texts_sent(&mut outbox);
    assert_eq!(texts, ["online", "2"]);
    assert!(!outbox.acknowledged(1), "no progress for the pipeline");
    assert!(outbox.acknowledged(2));
    assert_eq!(outbox.acks(), 2, "the broker has both");
    // The client's own state is in no count.
    assert_eq!(outbox.counts().delivered, 1);
    outbox.set_state(message("n", "3"));
    assert_eq!(sent(&mut outbox).len(), 1);
    outbox.set_state(message("n", "4"));
    assert_eq!(sent(&mut outbox).len(), 1);
    outbox.disconnected();
    // Of two values under way only the newest waits again.
    assert_eq!(outbox.counts().replaced, 2);
    outbox.connected();
    let texts: Vec<_> = texts_sent(&mut outbox);
    assert_eq!(texts, ["online", "4"]);
    adds_up(&outbox);
}

#[test]
fn a_retracted_state_is_cleared_once_and_released_when_acknowledged() {
    let mut outbox = Outbox::new(10);
    let topic: Arc<str> = "n".into();
    outbox.retract(&topic);
    assert!(outbox.is_empty(), "what was never set is not taken back");
    outbox.set_state(message("n", "1"));
    outbox.set_state(message("m", "1"));
    outbox.connected();
    assert_eq!(sent(&mut outbox).len(), 2);
    outbox.retract(&topic);
    assert_eq!(sent(&mut outbox), [(String::new(), Some(3), false)]);
    // The earlier value arrives; the withdrawal itself is lost with the connection, and is sent again.
    assert!(outbox.acknowledged(1));
    outbox.disconnected();
    outbox.connected();
    let again = sent(&mut outbox);
    let texts: Vec<_> = again.iter().map(|(text, ..)| text.as_str()).collect();
    assert_eq!(texts, ["", "1"]);
    for (_, id, _) in again {
        outbox.acknowledged(id.expect("a state has one"));
    }
    outbox.disconnected();
    outbox.connected();
    let left = sent(&mut outbox);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].0, "1");
    // Another topic takes the slot, and the first may return.
    outbox.set_state(message("o", "2"));
    outbox.set_state(message("n", "3"));
    let texts: Vec<_> = texts_sent(&mut outbox);
    assert_eq!(texts, ["2", "3"]);
    assert_eq!(outbox.states.iter().count(), 3);
    adds_up(&outbox);
}

#[test]
fn qos0_is_queued_only_while_connected() {
    let mut outbox = Outbox::new(10);
    outbox.push_best_effort(message("d", "early"));
    outbox.connected();
    outbox.push_best_effort(message("d", "one"));
    outbox.push_best_effort(message("d", "two"));
    let wanted = [
        ("one".to_owned(), None, false),
        ("two".to_owned(), None, false),
    ];
    assert_eq!(sent(&mut outbox), wanted);
    outbox.written();
    outbox.push_best_effort(message("d", "late"));
    outbox.disconnected();
    let counts = outbox.counts();
    assert_eq!((counts.delivered, counts.dropped, counts.queued), (2, 2, 0));
    assert_eq!(counts.best_effort_dropped, 2);
}

#[test]
fn rejected_and_abandoned_messages_count_as_dropped() {
    let mut outbox = Outbox::new(10);
    outbox.connected();
    push(&mut outbox, message("e", "a"));
    push(&mut outbox, message("e", "b"));
    outbox.set_state(message("n", "1"));
    assert_eq!(
        outbox
            .next(1, &mut { Pace::UNLIMITED })
            .and_then(|out| out.id),
        Some(1)
    );
    assert!(outbox.refused(1).is_some());
    assert_eq!(outbox.abandon(), 2);
    assert!(outbox.is_empty());
    assert_eq!(outbox.counts().dropped, 3);
    assert_eq!(outbox.counts().best_effort_dropped, 0);
    adds_up(&outbox);
}

proptest! {
    #[test]
    fn outbox_counts_and_order_hold_for_any_sequence(steps in prop::collection::vec(0_u8..13, 1..200)) {
        let mut outbox = Outbox::new(8);
        let mut number = 0_u32;
        let mut delivered: Vec<u32> = Vec::new();
        let mut under_way: VecDeque<(u16, Option<u32>)> = VecDeque::new();
        let mut up = false;
        for step in steps {
            number += 1;
            match step {
                0 | 1 => push(&mut outbox, message("e", &number.to_string())),
                2 => outbox.set_state(message("n", &number.to_string())),
                3 => outbox.push_best_effort(message("d", &number.to_string())),
                4 if up => {
                    while let Some(out) = outbox.next(WINDOW, &mut { Pace::UNLIMITED }) {
                        let text = String::from_utf8_lossy(&out.message.payload).into_owned();
                        let Some(id) = out.id else { continue };
                        let is_message = &*out.message.topic == "e";
                        under_way.push_back((id, is_message.then(|| text.parse().expect("a number"))));
                    }
                    outbox.written();
                }
                5 if up => {
                    if let Some((id, number)) = under_way.pop_front() {
                        outbox.acknowledged(id);
                        delivered.extend(number);
                    }
                }
                6 => { outbox.disconnected(); under_way.clear(); up = false; }
                7 if !up => {
                    outbox.connected();
                    up = true;
                }
                9 => {
                    outbox.push(update("e", &number.to_string()));
                }
                8 => outbox.retract(&"n".into()),
                10 => {
                    // A broker that is full: all on their way are refused, the newest first.
                    while let Some((id, _)) = under_way.pop_back() {
                        prop_assert!(outbox.refused_for_now(id, number.is_multiple_of(2)).is_some());
                        adds_up(&outbox);
                    }
                }
                11 => {
                    outbox.release_messages();
                    outbox.release_states();
                }
                12 if up => {
                    // It ends the connection, perhaps because of what it got.
                    outbox.ended_by_broker(false);
                    adds_up(&outbox);
                    outbox.disconnected();
                    under_way.clear();
                    up = false;
                }
                _ => {}
            }
            adds_up(&outbox);
            prop_assert!(outbox.counts().queued <= 8 + WINDOW as u64 + 2 + BEST_EFFORT_MESSAGES as u64);
        }
        prop_assert!(delivered.is_sorted(), "{delivered:?}");
    }
}

fn record(seq: u64) -> Record {
    Record {
        seq,
        at_ms: START_MS,
        track: seq % 3,
        class: Class::New,
        id: 1,
        topic: "e".into(),
        payload: seq.to_string().into_bytes(),
    }
}

/// What a process does with its outbox and a log, until it is killed.
struct Process {
    outbox: Outbox,
    is_up: bool,
    on_way: VecDeque<u16>,
}

impl Process {
    fn new(first_own: u64, acked: u64, newest_first: bool) -> Self {
        let mut outbox = Outbox::new(3);
        outbox.number_from(1, first_own);
        outbox.use_spool(acked, newest_first);
        Self {
            outbox,
            is_up: false,
            on_way: VecDeque::new(),
        }
    }

    fn push(&mut self, seq: u64, is_stored: bool) {
        let tag = Tag {
            track: seq % 3,
            is_stored,
            ..tag(seq, START_MS)
        };
        self.outbox.push(message("e", &seq.to_string()).tagged(tag));
    }

    fn connect(&mut self, is_up: bool) {
        match is_up {
            true if !self.is_up => self.outbox.connected(),
            false => self.outbox.disconnected(),
            true => return,
        }
        self.on_way.clear();
        self.is_up = is_up;
    }

    /// Sends what may be sent; `arrived` gets the numbers.
    fn send(&mut self, arrived: &mut Vec<u64>) {
        while self.is_up
            && let Some(out) = self.outbox.next(WINDOW, &mut { Pace::UNLIMITED })
        {
            let text = String::from_utf8_lossy(&out.message.payload).into_owned();
            arrived.push(text.parse().expect("a number"));
            self.on_way.extend(out.id);
        }
    }

    fn acknowledge(&mut self) {
        if let Some(id) = self.on_way.pop_front() {
            assert!(self.outbox.acknowledged(id));
        }
    }

    fn refill(&mut self, log: &[u64]) {
        let view = self.outbox.spool_view();
        if view.needs_refill {
            let behind = log.iter().filter(|seq| **seq > view.loaded_to);
            let records = behind.take(self.outbox.room()).map(|seq| record(*seq));
            self.outbox.refill(&view, records.collect());
        }
    }
}

proptest! {
    #[test]
    fn messages_in_the_log_arrive_in_their_order_over_restarts(
        steps in prop::collection::vec(0_u8..10, 1..200),
        newest_first in prop::bool::ANY,
    ) {
        let (mut log, mut next, mut arrived) = (Vec::new(), 1, Vec::new());
        // The first number of each process.
        let mut processes: Vec<u64> = vec![1];
        let mut process = Process::new(1, 0, newest_first);
        for step in steps {
            match step {
                0..=2 => {
                    log.push(next);
                    process.push(next, true);
                    next += 1;
                }
                3 => {
                    // The log could not be written.
                    process.push(next, false);
                    next += 1;
                }
                4 => process.connect(true),
                5 => process.connect(false),
                6 => process.send(&mut arrived),
                7 => process.acknowledge(),
                8 => process.refill(&log),
                _ => {
                    let acked = process.outbox.spool_view().cursor - 1;
                    process = Process::new(next, acked, newest_first);
                    processes.push(next);
                }
            }
            adds_up(&process.outbox);
        }
        process.connect(true);
        for _ in 0..4 * next {
            process.refill(&log);
            process.send(&mut arrived);
            process.acknowledge();
        }
        prop_assert!(process.outbox.is_empty());
        prop_assert_eq!(process.outbox.spool_view().cursor, next);
        for seq in &log {
            prop_assert!(arrived.contains(seq), "{} of {:?}", seq, arrived);
        }
        // All in order, or those of each track of a process; repeats are those of broken connections.
        let line_of = |seq: u64| match newest_first {
            true => (processes.partition_point(|first| *first <= seq), seq % 3),
            false => (0, 0),
        };
        let mut first = Vec::new();
        for seq in arrived {
            if !first.contains(&seq) {
                let is_later = |other: &u64| line_of(*other) == line_of(seq) && *other > seq;
                prop_assert!(!first.iter().any(is_later), "{} after {:?}", seq, first);
                first.push(seq);
            }
        }
    }
}

#[test]
fn values_that_are_not_retained_are_sent_on_each_connection_until_they_are_forgotten() {
    let mut outbox = Outbox::new(10);
    outbox.set_latest(message("a", "1"));
    outbox.set_latest(message("a", "2"));
    outbox.set_latest(message("b", "3"));
    let next = |outbox: &mut Outbox| {
        let out = outbox.next(WINDOW, &mut { Pace::UNLIMITED })?;
        assert!(!out.retain);
        let payload = String::from_utf8_lossy(&out.message.payload).into_owned();
        Some((payload, out.id.expect("QoS 1")))
    };
    for _ in 0..2 {
        outbox.connected();
        let mut values = Vec::new();
        while let Some((value, id)) = next(&mut outbox) {
            outbox.acknowledged(id);
            values.push(value);
        }
        values.sort();
        assert_eq!(values, ["2", "3"]);
        outbox.disconnected();
    }
    outbox.set_latest(message("a", "4"));
    outbox.connected();
    assert!(next(&mut outbox).is_some());
    // One is in flight, and the other waits.
    outbox.forget("a");
    outbox.forget("b");
    assert_eq!(next(&mut outbox), None);
    outbox.disconnected();
    outbox.connected();
    assert_eq!(next(&mut outbox), None);
    adds_up(&outbox);
    // Their places are free.
    outbox.set_latest(message("c", "5"));
    let found = next(&mut outbox).map(|(value, _)| value);
    assert_eq!(found, Some("5".to_owned()));
    assert!(!outbox.has_state("a") && !outbox.has_state("b"));
    adds_up(&outbox);
}
