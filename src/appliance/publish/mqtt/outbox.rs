// SPDX-License-Identifier: Apache-2.0
//! Messages waiting to be sent and messages waiting for their acknowledgement. Pure: no socket, no clock, no lock.
//!
//! - **Messages** (QoS 1) go out in order and are removed when acknowledged. Messages in flight on a broken connection
//!   return to the head of the queue, in order, and are sent again with the DUP flag. When the queue is full, updates go before
//!   all others: a later update or the end of the track says the same and more.
//! - **States** (QoS 1, retained or not) are one value per topic: a newer value replaces one that still waits, and every value
//!   is sent again on each new connection, in case the broker lost its retained messages. See `states.rs`.
//! - **Best effort** (QoS 0) is queued only while connected.
//!
//! With a spool, messages that find no place here are in its log only, and are taken from there in order: see `spooled.rs`.

mod entry;
mod held;
mod resend;
mod spooled;
mod states;
mod suspect;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jetwatch_spool::GapReason;

use self::entry::{ASIDE, InFlight, QueueEntry, QueuedMessage, Sent};
pub(super) use self::entry::{GivenUp, Importance, Message, Outgoing, Overflow, Pace, Tag};
use self::held::Held;
pub(super) use self::held::HeldKind;
use self::spooled::Backlog;
pub(super) use self::spooled::LATE_AFTER_MS;
use self::states::State;
use self::suspect::Suspicion;

/// Most best-effort messages in the queue.
const BEST_EFFORT_MESSAGES: usize = 256;

/// Packet identifier of the client's subscription; no message has it.
pub(super) const SUBSCRIBE_ID: u16 = u16::MAX;

/// The queues of one client.
#[derive(Debug)]
pub(super) struct Outbox {
    limit: usize,
    /// Essential messages, and marks of states, in the order of their numbers.
    queue: VecDeque<QueueEntry>,
    /// Updates, in the order of their numbers, which are those of `queue`.
    updates: VecDeque<QueuedMessage>,
    /// Essential messages in `queue`.
    essential: usize,
    last_order: u64,
    overflow: Overflow,
    best_effort: VecDeque<Message>,
    states: Vec<State>,
    state_of: HashMap<Arc<str>, usize>,
    /// Free slots of withdrawn states.
    free: Vec<usize>,
    in_flight: VecDeque<InFlight>,
    /// Best-effort messages in the buffer that is being written.
    writing: u64,
    connected: bool,
    last_id: u16,
    accepted: u64,
    delivered: u64,
    /// Acknowledgements of messages in flight, of internal ones, too.
    acks: u64,
    dropped: u64,
    /// Of those: messages of best effort.
    best_effort_dropped: u64,
    replaced: u64,
    backlog: Backlog,
    held: Held,
    suspicion: Suspicion,
    /// Messages that were given up and are to be logged.
    given_up: Vec<GivenUp>,
}

impl Outbox {
    /// Queues at most `limit` messages while they cannot be sent (those in flight are not counted).
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            queue: VecDeque::new(),
            updates: VecDeque::new(),
            essential: 0,
            last_order: 0,
            overflow: Overflow::default(),
            best_effort: VecDeque::new(),
            states: Vec::new(),
            state_of: HashMap::new(),
            free: Vec::new(),
            in_flight: VecDeque::new(),
            writing: 0,
            connected: false,
            last_id: 0,
            accepted: 0,
            delivered: 0,
            acks: 0,
            dropped: 0,
            best_effort_dropped: 0,
            replaced: 0,
            backlog: Backlog::default(),
            held: Held::default(),
            suspicion: Suspicion::default(),
            given_up: Vec::new(),
        }
    }

    /// Queues a message that must arrive. When the queue is full, its oldest update is dropped, or its oldest message if it has no update.
    /// Returns whether this is the first message that is dropped since [`Outbox::take_overflow`].
    pub fn push(&mut self, message: Message, importance: Importance) -> bool {
        self.push_tagged(message, importance, None)
    }

    /// As [`push`](Self::push) for a message with a number, which is in no log.
    pub fn push_tagged(
        &mut self,
        message: Message,
        importance: Importance,
        tag: Option<Tag>,
    ) -> bool {
        self.accepted += 1;
        let before = self.overflow;
        // What is in the log is not dropped for what is in none.
        let keeps_numbered = self.backlog.is_spooled && tag.is_none();
        while self.queued_messages() >= self.limit {
            if !keeps_numbered && let Some(update) = self.updates.pop_front() {
                self.overflow.updates += 1;
                self.note_overflow(update.tag);
            } else {
                // Marks of states may be in front of the oldest message; there are no more of them than topics.
                let oldest = self
                    .queue
                    .iter()
                    .position(|waiting| matches!(waiting, QueueEntry::Message(queued) if !keeps_numbered || queued.tag.is_none()));
                let Some(oldest) = oldest else {
                    if !keeps_numbered {
                        break;
                    }
                    self.dropped += 1;
                    self.overflow.essential += 1;
                    return before == Overflow::default();
                };
                if let Some(QueueEntry::Message(oldest)) = self.queue.remove(oldest) {
                    self.note_overflow(oldest.tag);
                }
                self.essential -= 1;
                self.overflow.essential += 1;
            }
            self.dropped += 1;
        }
        self.enqueue(message, importance, tag);
        before == Overflow::default() && self.overflow != before
    }

    fn enqueue(&mut self, message: Message, importance: Importance, tag: Option<Tag>) {
        let queued = QueuedMessage {
            order: self.next_order(),
            message,
            dup: false,
            tag,
        };
        match importance {
            Importance::Update => self.updates.push_back(queued),
            Importance::Essential => {
                self.queue.push_back(QueueEntry::Message(queued));
                self.essential += 1;
            }
        }
    }

    /// What was dropped since the last call because the queue was full.
    pub fn take_overflow(&mut self) -> Overflow {
        std::mem::take(&mut self.overflow)
    }

    fn next_order(&mut self) -> u64 {
        self.last_order += 1;
        self.last_order
    }

    fn queued_messages(&self) -> usize {
        self.essential + self.updates.len()
    }

    /// Queues a message without delivery guarantee; dropped at once while not connected.
    pub fn push_best_effort(&mut self, message: Message) {
        self.accepted += 1;
        if !self.connected {
            return self.drop_best_effort(1);
        }
        if self.best_effort.len() >= BEST_EFFORT_MESSAGES {
            self.best_effort.pop_front();
            self.drop_best_effort(1);
        }
        self.best_effort.push_back(message);
    }

    /// The next message to write, while fewer than `window` messages are unacknowledged. Late messages are paid from `pace`; where
    /// none may be sent, states and messages of best effort go on.
    pub fn next(&mut self, window: usize, pace: &mut Pace) -> Option<Outgoing> {
        if self.on_way().count() < self.suspicion.window(window)
            && let Some((waiting, importance, is_ahead)) = self.pop_first(pace)
        {
            let id = self.free_id();
            let (sent, outgoing) = match waiting {
                QueueEntry::Message(queued) => {
                    let late_ms = queued.tag.and_then(|tag| self.late_ms(&tag, pace));
                    self.backlog.replayed += u64::from(late_ms.is_some());
                    let outgoing = Outgoing {
                        message: queued.message.clone(),
                        id: Some(id),
                        retain: false,
                        dup: queued.dup,
                        late_ms,
                        tag: queued.tag,
                    };
                    let sent = Sent::Message {
                        queued,
                        importance,
                        is_ahead,
                    };
                    (sent, outgoing)
                }
                QueueEntry::State { index, .. } => {
                    let state = &mut self.states[index];
                    state.queued = false;
                    let counted = std::mem::take(&mut state.counted);
                    let message = state.value.clone();
                    let retain = state.retain && !self.suspicion.is_without_retain(index);
                    (
                        Sent::State { index, counted },
                        Outgoing {
                            message,
                            id: Some(id),
                            retain,
                            dup: false,
                            late_ms: None,
                            tag: None,
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
            dup: false,
            late_ms: None,
            tag: None,
        })
    }

    /// What is first of both queues, or a state where that must wait; and whether it goes before older ones.
    fn pop_first(&mut self, pace: &mut Pace) -> Option<(QueueEntry, Importance, bool)> {
        self.backlog.is_waiting = false;
        if self.held.messages {
            return self.pop_first_state();
        }
        if let Some(ahead) = self.backlog.ahead.pop_front() {
            return Some((QueueEntry::Message(ahead), Importance::Essential, true));
        }
        let essential = self.queue.front().map(QueueEntry::order);
        let update = self.updates.front().map(|queued| queued.order);
        let is_update =
            update.is_some_and(|update| essential.is_none_or(|essential| update < essential));
        let tag = match is_update {
            true => self.updates.front().and_then(|queued| queued.tag),
            false => self.queue.front().and_then(QueueEntry::tag),
        };
        if tag.is_some_and(|tag| self.late_ms(&tag, pace).is_some()) {
            if pace.tokens < 1.0 {
                self.backlog.is_waiting = true;
                return self.pop_first_state();
            }
            pace.tokens -= 1.0;
        }
        if is_update {
            let queued = self.updates.pop_front()?;
            return Some((QueueEntry::Message(queued), Importance::Update, false));
        }
        let entry = self.queue.pop_front()?;
        self.essential -= usize::from(matches!(entry, QueueEntry::Message(_)));
        Some((entry, Importance::Essential, false))
    }

    /// The first state of the queue, where messages must wait.
    fn pop_first_state(&mut self) -> Option<(QueueEntry, Importance, bool)> {
        let is_state = |entry: &QueueEntry| matches!(entry, QueueEntry::State { .. });
        let state = self.queue.iter().position(is_state)?;
        let state = self.queue.remove(state)?;
        Some((state, Importance::Essential, false))
    }

    /// The messages from [`next`](Self::next) since the last call were passed to the operating system.
    pub fn written(&mut self) {
        self.delivered += std::mem::take(&mut self.writing);
    }

    /// The broker acknowledged a message. Returns whether that is progress: a message of the pipeline that was in flight.
    pub fn acknowledged(&mut self, id: u16) -> bool {
        // An acknowledgement of a message that is not in flight is a broker's error, and harmless.
        if !self.is_on_way(id) {
            return false;
        }
        self.clear_suspicion(id, true);
        self.note_taken(id);
        let completed = self.complete(id);
        self.acks += u64::from(completed.is_some());
        let counted = completed.unwrap_or_default();
        self.delivered += counted;
        counted > 0
    }

    /// The broker refused a message for good, or it cannot be sent at all: it is dropped, and a gap says so where it is numbered.
    /// `None`: it was not in flight.
    pub fn refused(&mut self, id: u16) -> Option<GivenUp> {
        if !self.is_on_way(id) {
            return None;
        }
        self.clear_suspicion(id, false);
        self.give_up(id)
    }

    /// Values that were given up may be sent again on the next connection.
    pub fn unblock(&mut self) {
        self.states
            .iter_mut()
            .for_each(|state| state.blocked = None);
    }

    /// Drops a message in flight, or the one aside. A value is not sent again either, on this connection or a later one.
    fn give_up(&mut self, id: u16) -> Option<GivenUp> {
        let found = self.in_flight.iter().find(|in_flight| in_flight.id == id)?;
        let message = self.message_of(&found.sent);
        let given_up = GivenUp {
            topic: Arc::clone(&message.topic),
            bytes: message.payload.len(),
        };
        let index = match found.sent {
            Sent::Message { .. } => None,
            Sent::State { index, .. } => Some(index),
        };
        self.note_dropped(found.sent.tag(), GapReason::Refused);
        let counted = self.complete(id);
        self.dropped += counted.unwrap_or_default();
        if let Some(index) = index {
            self.states[index].blocked = Some(given_up.bytes);
            if self.states[index].is_blocked() {
                self.unqueue_state(index);
            }
        }
        Some(given_up)
    }

    fn message_of<'a>(&'a self, sent: &'a Sent) -> &'a Message {
        match sent {
            Sent::Message { queued, .. } => &queued.message,
            Sent::State { index, .. } => &self.states[*index].value,
        }
    }

    /// Messages that were given up since the last call, but for those of [`refused`](Self::refused).
    pub fn take_given_up(&mut self) -> Vec<GivenUp> {
        std::mem::take(&mut self.given_up)
    }

    /// What was sent and not acknowledged, in the order in which it was sent.
    fn on_way(&self) -> impl Iterator<Item = &InFlight> {
        self.in_flight
            .iter()
            .filter(|in_flight| in_flight.id != ASIDE)
    }

    /// Whether a message of this identifier was sent and not acknowledged.
    pub fn is_on_way(&self, id: u16) -> bool {
        self.on_way().any(|in_flight| in_flight.id == id)
    }

    /// The first message that was sent and not acknowledged.
    pub fn first_on_way(&self) -> Option<u16> {
        self.on_way().next().map(|in_flight| in_flight.id)
    }

    /// A best-effort message was taken from [`next`](Self::next) but cannot be sent at all.
    pub fn unsendable_best_effort(&mut self) {
        self.writing -= 1;
        self.drop_best_effort(1);
    }

    /// Removes a message from those in flight; 1 when it counts, 0 when it was one of the client itself.
    fn complete(&mut self, id: u16) -> Option<u64> {
        // Brokers acknowledge in order, so this nearly always ends at the first.
        let at = self
            .in_flight
            .iter()
            .position(|in_flight| in_flight.id == id)?;
        match self.in_flight.remove(at)?.sent {
            Sent::Message {
                queued, is_ahead, ..
            } => {
                self.completed(queued.tag, is_ahead);
                Some(1)
            }
            Sent::State { index, counted } => {
                self.release_retracted(index);
                Some(u64::from(counted))
            }
        }
    }

    /// Connected: every state is sent before anything else.
    pub fn connected(&mut self) {
        self.connected = true;
        self.held = Held::default();
        self.queue
            .retain(|waiting| matches!(waiting, QueueEntry::Message(_)));
        let mut last = Vec::new();
        for index in (0..self.states.len()).rev() {
            if self.free.contains(&index) {
                continue;
            }
            if self.states[index].is_forgotten() {
                self.release_retracted(index);
                continue;
            }
            if self.states[index].is_blocked() {
                continue;
            }
            self.states[index].queued = true;
            match self.suspicion.goes_last(index) {
                true => last.push(index),
                false => self.queue.push_front(QueueEntry::State { order: 0, index }),
            }
        }
        for index in last.into_iter().rev() {
            let order = self.next_order();
            self.queue.push_back(QueueEntry::State { order, index });
        }
        self.put_suspect_aside();
    }

    /// The connection broke: messages in flight are queued again, before everything else.
    pub fn disconnected(&mut self) {
        self.connected = false;
        let unsent = std::mem::take(&mut self.writing) + self.best_effort.len() as u64;
        self.drop_best_effort(unsent);
        self.best_effort.clear();
        while let Some(InFlight { id, sent }) = self.in_flight.pop_back() {
            match sent {
                Sent::State { index, counted } => self.count_again(index, counted),
                message => self.put_back(message, id != ASIDE),
            }
        }
    }

    /// Whether everything has been delivered.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
            && self.updates.is_empty()
            && self.backlog.is_empty()
            && self.held.is_empty()
            && self.in_flight.is_empty()
            && self.best_effort.is_empty()
            && self.writing == 0
    }

    /// Whether messages that must arrive are waiting.
    pub fn has_messages(&self) -> bool {
        self.queued_messages() > 0
            || !self.backlog.is_empty()
            || self
                .in_flight
                .iter()
                .any(|in_flight| matches!(in_flight.sent, Sent::Message { .. }))
    }

    fn free_id(&mut self) -> u16 {
        loop {
            // Zero is no valid packet identifier, the last is that of a subscription. Fewer messages are in flight than there are
            // identifiers, so this ends.
            self.last_id = self.last_id % (SUBSCRIBE_ID - 1) + 1;
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
mod tests;
