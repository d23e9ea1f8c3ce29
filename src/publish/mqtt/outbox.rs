//! What waits to be sent and what waits to be acknowledged: the only owner of both. Pure: no socket, no clock, no lock.
//!
//! - **Messages** (QoS 1) go out in order and are forgotten when acknowledged. What was under way when a connection broke
//!   returns to the head of the queue, in order, and goes out again marked as a possible duplicate.
//! - **States** (retained, QoS 1) are one value per topic: a newer value replaces one that still waits, and every value
//!   goes out again on each new connection, so that a broker that forgot them is right again.
//! - **Best effort** (QoS 0) is kept only while connected.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::publish::SinkCounts;

/// Most best-effort messages that wait for the socket.
const BEST_EFFORT_MESSAGES: usize = 256;

/// A topic and its payload.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub topic: Arc<str>,
    pub payload: Bytes,
}

/// One message that is to be written now.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub message: Message,
    /// Packet identifier of QoS 1; `None`: QoS 0.
    pub id: Option<u16>,
    pub retain: bool,
    /// It was sent before, on a connection that broke.
    pub again: bool,
}

/// The queues of one client.
#[derive(Debug)]
pub(super) struct Outbox {
    limit: usize,
    queue: VecDeque<Waiting>,
    queued_messages: usize,
    best_effort: VecDeque<Message>,
    states: Vec<State>,
    state_of: HashMap<Arc<str>, usize>,
    in_flight: VecDeque<InFlight>,
    /// Best-effort messages in the buffer that is being written.
    writing: u64,
    connected: bool,
    last_id: u16,
    accepted: u64,
    delivered: u64,
    dropped: u64,
    replaced: u64,
}

#[derive(Debug)]
enum Waiting {
    Message {
        message: Message,
        again: bool,
    },
    /// The newest value of this state; at most one such mark is in the queue.
    State(usize),
}

#[derive(Debug)]
struct State {
    value: Message,
    /// A mark is in the queue.
    marked: bool,
    /// The value was handed over by the chain and has not been sent.
    counted: bool,
}

#[derive(Debug)]
struct InFlight {
    id: u16,
    sent: Sent,
}

#[derive(Debug)]
enum Sent {
    Message(Message),
    State { index: usize, counted: bool },
}

impl Outbox {
    /// Keeps at most `limit` messages while they cannot be sent (those under way come on top).
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            queue: VecDeque::new(),
            queued_messages: 0,
            best_effort: VecDeque::new(),
            states: Vec::new(),
            state_of: HashMap::new(),
            in_flight: VecDeque::new(),
            writing: 0,
            connected: false,
            last_id: 0,
            accepted: 0,
            delivered: 0,
            dropped: 0,
            replaced: 0,
        }
    }

    /// Queues a message that must arrive. When the queue is full, the oldest waiting one is dropped.
    pub fn push(&mut self, message: Message) {
        self.accepted += 1;
        while self.queued_messages >= self.limit {
            // Marks of states may stand before the oldest message; there are no more of them than topics.
            let oldest = self
                .queue
                .iter()
                .position(|waiting| matches!(waiting, Waiting::Message { .. }));
            let Some(oldest) = oldest else { break };
            self.queue.remove(oldest);
            self.queued_messages -= 1;
            self.dropped += 1;
        }
        self.queue.push_back(Waiting::Message {
            message,
            again: false,
        });
        self.queued_messages += 1;
    }

    /// Queues a message that is worth nothing later; dropped at once while not connected.
    pub fn push_best_effort(&mut self, message: Message) {
        self.accepted += 1;
        if !self.connected {
            self.dropped += 1;
            return;
        }
        if self.best_effort.len() >= BEST_EFFORT_MESSAGES {
            self.best_effort.pop_front();
            self.dropped += 1;
        }
        self.best_effort.push_back(message);
    }

    /// Sets a state that the chain handed over.
    pub fn set_state(&mut self, value: Message) {
        self.accepted += 1;
        let index = self.place_state(value);
        if std::mem::replace(&mut self.states[index].counted, true) {
            self.replaced += 1;
        }
    }

    /// Sets a state of the client's own, which is in no count.
    pub fn set_own_state(&mut self, value: Message) {
        self.place_state(value);
    }

    fn place_state(&mut self, value: Message) -> usize {
        let index = match self.state_of.get(&value.topic) {
            Some(&index) => {
                self.states[index].value = value;
                index
            }
            None => {
                self.state_of
                    .insert(Arc::clone(&value.topic), self.states.len());
                self.states.push(State {
                    value,
                    marked: false,
                    counted: false,
                });
                self.states.len() - 1
            }
        };
        if !std::mem::replace(&mut self.states[index].marked, true) {
            self.queue.push_back(Waiting::State(index));
        }
        index
    }

    /// The next thing to write, while fewer than `window` messages are unacknowledged.
    pub fn next(&mut self, window: usize) -> Option<Outgoing> {
        if self.in_flight.len() < window
            && let Some(waiting) = self.queue.pop_front()
        {
            let id = self.free_id();
            let (sent, outgoing) = match waiting {
                Waiting::Message { message, again } => {
                    self.queued_messages -= 1;
                    let outgoing = Outgoing {
                        message: message.clone(),
                        id: Some(id),
                        retain: false,
                        again,
                    };
                    (Sent::Message(message), outgoing)
                }
                Waiting::State(index) => {
                    let state = &mut self.states[index];
                    state.marked = false;
                    let counted = std::mem::take(&mut state.counted);
                    let message = state.value.clone();
                    (
                        Sent::State { index, counted },
                        Outgoing {
                            message,
                            id: Some(id),
                            retain: true,
                            again: false,
                        },
                    )
                }
            };
            self.in_flight.push_back(InFlight { id, sent });
            return Some(outgoing);
        }
        let message = self.best_effort.pop_front()?;
        self.writing += 1;
        Some(Outgoing {
            message,
            id: None,
            retain: false,
            again: false,
        })
    }

    /// What [`next`](Self::next) gave out since the last call is in the hands of the operating system.
    pub fn written(&mut self) {
        self.delivered += std::mem::take(&mut self.writing);
    }

    /// The broker acknowledged a message. Returns whether that is progress: a message of the chain that was under way.
    pub fn acknowledged(&mut self, id: u16) -> bool {
        // An acknowledgement of what is not under way is the broker's mistake, and harms nobody.
        let counted = self.settle(id).unwrap_or_default();
        self.delivered += counted;
        counted > 0
    }

    /// The broker refused a message, or it cannot be sent at all: it is given up. Returns whether it was under way.
    pub fn refused(&mut self, id: u16) -> bool {
        let counted = self.settle(id);
        self.dropped += counted.unwrap_or_default();
        counted.is_some()
    }

    /// A best-effort message was taken from [`next`](Self::next) but cannot be sent at all.
    pub fn unsendable_best_effort(&mut self) {
        self.writing -= 1;
        self.dropped += 1;
    }

    /// Takes a message off those under way; 1 when it counts, 0 when it was sent on the client's own account.
    fn settle(&mut self, id: u16) -> Option<u64> {
        // Brokers acknowledge in order, so this nearly always ends at the first.
        let at = self
            .in_flight
            .iter()
            .position(|in_flight| in_flight.id == id)?;
        match self.in_flight.remove(at)?.sent {
            Sent::Message(_) => Some(1),
            Sent::State { counted, .. } => Some(u64::from(counted)),
        }
    }

    /// A connection stands: every state goes out before anything else.
    pub fn connected(&mut self) {
        self.connected = true;
        self.queue
            .retain(|waiting| matches!(waiting, Waiting::Message { .. }));
        for index in (0..self.states.len()).rev() {
            self.states[index].marked = true;
            self.queue.push_front(Waiting::State(index));
        }
    }

    /// The connection broke: what was under way waits again, before everything else.
    pub fn disconnected(&mut self) {
        self.connected = false;
        self.dropped += std::mem::take(&mut self.writing) + self.best_effort.len() as u64;
        self.best_effort.clear();
        while let Some(InFlight { sent, .. }) = self.in_flight.pop_back() {
            match sent {
                Sent::Message(message) => {
                    self.queue.push_front(Waiting::Message {
                        message,
                        again: true,
                    });
                    self.queued_messages += 1;
                }
                Sent::State {
                    index,
                    counted: true,
                } => {
                    // Only the newest value will go out again.
                    if std::mem::replace(&mut self.states[index].counted, true) {
                        self.replaced += 1;
                    }
                }
                Sent::State { counted: false, .. } => {}
            }
        }
    }

    /// Gives up everything that has not arrived; returns how many messages of the chain that were.
    pub fn abandon(&mut self) -> u64 {
        self.disconnected();
        let states = self
            .states
            .iter_mut()
            .filter_map(|state| std::mem::take(&mut state.counted).then_some(()));
        let lost = self.queued_messages as u64 + states.count() as u64;
        self.queue.clear();
        self.queued_messages = 0;
        for state in &mut self.states {
            state.marked = false;
        }
        self.dropped += lost;
        lost
    }

    /// Whether a connection stands, so that someone waits for messages.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Whether everything has arrived.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
            && self.in_flight.is_empty()
            && self.best_effort.is_empty()
            && self.writing == 0
    }

    /// Whether an answer is due.
    pub fn awaits_answer(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// What became of the messages so far.
    pub fn counts(&self) -> SinkCounts {
        let under_way = self.in_flight.iter().filter(|in_flight| {
            matches!(
                in_flight.sent,
                Sent::Message(_) | Sent::State { counted: true, .. }
            )
        });
        let states = self.states.iter().filter(|state| state.counted);
        let waiting =
            self.queued_messages + self.best_effort.len() + under_way.count() + states.count();
        SinkCounts {
            accepted: self.accepted,
            delivered: self.delivered,
            dropped: self.dropped,
            replaced: self.replaced,
            queued: waiting as u64 + self.writing,
        }
    }

    fn free_id(&mut self) -> u16 {
        loop {
            // Zero is no packet identifier. Fewer are under way than there are identifiers, so this ends.
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if self
                .in_flight
                .iter()
                .all(|in_flight| in_flight.id != self.last_id)
            {
                return self.last_id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: usize = 4;

    fn message(topic: &str, payload: &str) -> Message {
        Message {
            topic: topic.into(),
            payload: Bytes::copy_from_slice(payload.as_bytes()),
        }
    }

    fn sent(outbox: &mut Outbox) -> Vec<(String, Option<u16>, bool)> {
        std::iter::from_fn(|| outbox.next(WINDOW))
            .map(|out| {
                (
                    String::from_utf8_lossy(&out.message.payload).into_owned(),
                    out.id,
                    out.again,
                )
            })
            .collect()
    }

    fn adds_up(outbox: &Outbox) {
        let counts = outbox.counts();
        let sum = counts.delivered + counts.dropped + counts.replaced + counts.queued;
        assert_eq!(counts.accepted, sum, "{counts:?}");
    }

    #[test]
    fn what_was_under_way_goes_out_again_in_order_and_marked() {
        let mut outbox = Outbox::new(100);
        outbox.connected();
        for n in 0..6 {
            outbox.push(message("e", &n.to_string()));
        }
        assert_eq!(sent(&mut outbox).len(), WINDOW);
        assert!(outbox.acknowledged(2), "an acknowledgement out of order");
        assert!(!outbox.acknowledged(2), "acknowledged twice");
        outbox.disconnected();
        outbox.connected();
        let again: Vec<_> = sent(&mut outbox)
            .into_iter()
            .map(|(text, _, again)| (text, again))
            .collect();
        let expected = [("0", true), ("2", true), ("3", true), ("4", false)];
        assert_eq!(
            again,
            expected.map(|(text, again)| (text.to_owned(), again))
        );
        adds_up(&outbox);
        assert_eq!(outbox.counts().delivered, 1);
    }

    #[test]
    fn identifiers_go_round_without_zero_and_without_meeting_one_under_way() {
        let mut outbox = Outbox::new(10);
        outbox.connected();
        outbox.push(message("e", "slow"));
        assert_eq!(outbox.next(WINDOW).and_then(|out| out.id), Some(1));
        for _ in 0..u32::from(u16::MAX) * 2 {
            outbox.push(message("e", "quick"));
            let id = outbox
                .next(WINDOW)
                .and_then(|out| out.id)
                .expect("room in the window");
            assert!(id > 1, "{id}");
            assert!(outbox.acknowledged(id));
        }
        assert!(outbox.acknowledged(1), "the slow one was kept apart");
    }

    #[test]
    fn a_full_queue_drops_its_oldest_message_and_no_state() {
        let mut outbox = Outbox::new(3);
        outbox.set_state(message("s", "state"));
        for n in 0..5 {
            outbox.push(message("e", &n.to_string()));
        }
        assert_eq!(outbox.counts().dropped, 2);
        outbox.connected();
        let texts: Vec<_> = sent(&mut outbox)
            .into_iter()
            .map(|(text, ..)| text)
            .collect();
        assert_eq!(texts, ["state", "2", "3", "4"]);
        adds_up(&outbox);
    }

    #[test]
    fn a_state_is_its_newest_value_and_is_repeated_on_every_connection() {
        let mut outbox = Outbox::new(10);
        outbox.set_own_state(message("status", "online"));
        outbox.set_state(message("n", "1"));
        outbox.set_state(message("n", "2"));
        assert_eq!(outbox.counts().replaced, 1);
        outbox.connected();
        let texts: Vec<_> = sent(&mut outbox)
            .into_iter()
            .map(|(text, ..)| text)
            .collect();
        assert_eq!(texts, ["online", "2"]);
        assert!(!outbox.acknowledged(1), "no progress for the chain");
        assert!(outbox.acknowledged(2));
        assert_eq!(
            outbox.counts().delivered,
            1,
            "the client's own state is in no count"
        );
        outbox.set_state(message("n", "3"));
        assert_eq!(sent(&mut outbox).len(), 1);
        outbox.set_state(message("n", "4"));
        assert_eq!(sent(&mut outbox).len(), 1);
        outbox.disconnected();
        assert_eq!(
            outbox.counts().replaced,
            2,
            "of two values under way only the newest waits again"
        );
        outbox.connected();
        let texts: Vec<_> = sent(&mut outbox)
            .into_iter()
            .map(|(text, ..)| text)
            .collect();
        assert_eq!(texts, ["online", "4"]);
        adds_up(&outbox);
    }

    #[test]
    fn best_effort_is_kept_only_while_connected_and_delivered_when_written() {
        let mut outbox = Outbox::new(10);
        outbox.push_best_effort(message("d", "early"));
        outbox.connected();
        outbox.push_best_effort(message("d", "one"));
        outbox.push_best_effort(message("d", "two"));
        assert_eq!(
            sent(&mut outbox),
            [
                ("one".to_owned(), None, false),
                ("two".to_owned(), None, false)
            ]
        );
        outbox.written();
        outbox.push_best_effort(message("d", "late"));
        outbox.disconnected();
        let counts = outbox.counts();
        assert_eq!((counts.delivered, counts.dropped, counts.queued), (2, 2, 0));
    }

    #[test]
    fn refused_and_abandoned_messages_are_counted_as_dropped() {
        let mut outbox = Outbox::new(10);
        outbox.connected();
        outbox.push(message("e", "a"));
        outbox.push(message("e", "b"));
        outbox.set_state(message("n", "1"));
        assert_eq!(outbox.next(1).and_then(|out| out.id), Some(1));
        assert!(outbox.refused(1));
        assert_eq!(outbox.abandon(), 2);
        assert!(outbox.is_empty());
        assert_eq!(outbox.counts().dropped, 3);
        adds_up(&outbox);
    }

    proptest! {
        #[test]
        fn counts_add_up_and_order_holds_whatever_happens(steps in prop::collection::vec(0_u8..8, 1..200)) {
            let mut outbox = Outbox::new(8);
            let mut number = 0_u32;
            let mut delivered: Vec<u32> = Vec::new();
            let mut under_way: VecDeque<(u16, Option<u32>)> = VecDeque::new();
            let mut up = false;
            for step in steps {
                number += 1;
                match step {
                    0 | 1 => outbox.push(message("e", &number.to_string())),
                    2 => outbox.set_state(message("n", &number.to_string())),
                    3 => outbox.push_best_effort(message("d", &number.to_string())),
                    4 if up => {
                        while let Some(out) = outbox.next(WINDOW) {
                            let text = String::from_utf8_lossy(&out.message.payload).into_owned();
                            let Some(id) = out.id else { continue };
                            under_way.push_back((id, (!out.retain).then(|| text.parse().expect("a number"))));
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
                    _ => {}
                }
                adds_up(&outbox);
                prop_assert!(outbox.counts().queued <= 8 + WINDOW as u64 + 1 + BEST_EFFORT_MESSAGES as u64);
            }
            prop_assert!(delivered.is_sorted(), "{delivered:?}");
        }
    }
}
