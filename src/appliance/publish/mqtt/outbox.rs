// SPDX-License-Identifier: Apache-2.0
//! Messages waiting to be sent and messages waiting for their acknowledgement. Pure: no socket, no clock, no lock.
//!
//! - **Messages** (QoS 1) go out in order and are removed when acknowledged. Messages in flight on a broken connection
//!   return to the head of the queue, in order, and are sent again with the DUP flag. When the queue is full, updates go before
//!   all others: a later update or the end of the track says the same and more.
//! - **States** (QoS 1, retained or not) are one value per topic: a newer value replaces one that still waits, and every value
//!   is sent again on each new connection, in case the broker lost its retained messages.
//! - **Best effort** (QoS 0) is queued only while connected.
//!
//! With a spool, messages that find no place here are in its log only, and are taken from there in order.
//!
//! [`Outbox`] is where the parts meet: [`Queue`] (what waits), [`Flight`] (what is on its way), [`States`], [`Backlog`] (what is in the log
//! only), [`Gaps`] (what is lost), [`Held`] (what the broker refuses for now) and [`Suspicion`] (what it ends connections on).

mod backlog;
mod contents;
mod entry;
mod flight;
mod gaps;
mod held;
mod queue;
mod states;
mod suspicion;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use jetwatch_spool::{Dropped, Gap, GapReason, Record};

pub(super) use self::backlog::LATE_AFTER_MS;
use self::backlog::{Backlog, Origin, SpoolView};
use self::entry::{Entry, Importance, Message, QueuedMessage, Tag};
pub(super) use self::entry::{GivenUp, Outgoing, Overflow, Pace};
use self::flight::Flight;
use self::gaps::Gaps;
use self::held::Held;
pub(super) use self::held::HeldKind;
use self::queue::Queue;
use self::states::States;
use self::suspicion::{Suspicion, Verdict};

/// Most best-effort messages in the queue.
const BEST_EFFORT_MESSAGES: usize = 256;

/// Most new messages that wait before older ones.
const MAX_AHEAD: usize = 1000;

/// Packet identifier of the client's subscription; no message has it.
pub(super) const SUBSCRIBE_ID: u16 = u16::MAX;

/// The queues of one client.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: Queue,
    flight: Flight,
    states: States,
    backlog: Backlog,
    gaps: Gaps,
    held: Held,
    suspicion: Suspicion,
    best_effort: VecDeque<Message>,
    /// Best-effort messages in the buffer that is being written.
    writing: u64,
    connected: bool,
    accepted: u64,
    delivered: u64,
    /// Acknowledgements of messages in flight, of internal ones, too.
    acks: u64,
    dropped: u64,
    /// Of those: messages of best effort.
    best_effort_dropped: u64,
    replaced: u64,
    overflow: Overflow,
    /// Messages that were given up and are to be logged.
    given_up: Vec<GivenUp>,
}

impl Outbox {
    /// Queues at most `limit` messages while they cannot be sent (those in flight are not counted).
    pub fn new(limit: usize) -> Self {
        Self {
            queue: Queue::new(limit),
            flight: Flight::default(),
            states: States::default(),
            backlog: Backlog::default(),
            gaps: Gaps::default(),
            held: Held::default(),
            suspicion: Suspicion::default(),
            best_effort: VecDeque::new(),
            writing: 0,
            connected: false,
            accepted: 0,
            delivered: 0,
            acks: 0,
            dropped: 0,
            best_effort_dropped: 0,
            replaced: 0,
            overflow: Overflow::default(),
            given_up: Vec::new(),
        }
    }

    /// Messages are numbered from `first_own` on, in the numbering `id`.
    pub fn number_from(&mut self, id: u64, first_own: u64) {
        self.gaps.id = id;
        self.backlog.number_from(first_own);
    }

    /// A log has all numbered messages; those behind `acked` are to be sent.
    pub fn use_spool(&mut self, acked: u64, newest_first: bool) {
        self.backlog.use_spool(acked, newest_first);
    }

    /// Queues a message that must arrive. When the queue is full, its oldest update is dropped, or its oldest message if it has no update;
    /// but not one that is in the log.
    /// Returns whether this is the first message that is dropped since [`Outbox::take_overflow`].
    pub fn push(&mut self, message: Message) -> bool {
        self.accepted += 1;
        let is_first = self.overflow == Overflow::default();
        if let Some(tag) = message.tag {
            self.backlog.numbered += 1;
            self.backlog.last_pushed = tag.seq;
            if tag.is_stored {
                self.push_stored(message, tag);
                return false;
            }
            if self.backlog.is_behind {
                // It would go before those in the log.
                self.overflowed(&message);
                return is_first;
            }
            self.backlog.loaded_to = tag.seq;
        }
        while self.queue.is_full() {
            let Some(displaced) = self.queue.displace() else {
                self.overflowed(&message);
                return is_first;
            };
            self.overflowed(&displaced);
            if let Some(tag) = displaced.tag {
                self.backlog.completed(tag);
            }
        }
        if let Some(tag) = message.tag {
            self.backlog.waits(tag);
        }
        self.queue.push(message);
        is_first && self.overflow != Overflow::default()
    }

    /// Queues a message that is in the log; without room for it, it stays there only.
    fn push_stored(&mut self, message: Message, tag: Tag) {
        // Never one of a track that has messages among those that wait.
        if self.backlog.newest_first
            && self.connected
            && (self.backlog.is_behind || self.queue.waiting() > 0)
            && self.queue.ahead() < MAX_AHEAD
            && !self.backlog.has_waiting(tag.track)
        {
            self.backlog.goes_ahead(tag);
            return self.queue.push_ahead(message);
        }
        self.backlog.waits(tag);
        if self.backlog.is_behind || self.queue.is_full() {
            self.backlog.is_behind = true;
            self.backlog.count += 1;
            return;
        }
        self.backlog.loaded_to = tag.seq;
        self.queue.push(message);
    }

    /// Drops a message because the queue is full.
    fn overflowed(&mut self, message: &Message) {
        match message.importance {
            Importance::Update => self.overflow.updates += 1,
            Importance::Essential => self.overflow.essential += 1,
        }
        self.dropped += 1;
        self.gaps.note(message.tag, GapReason::Full);
    }

    /// What was dropped since the last call because the queue was full.
    pub fn take_overflow(&mut self) -> Overflow {
        std::mem::take(&mut self.overflow)
    }

    /// Queues a message before all others.
    pub fn push_first(&mut self, message: Message) {
        self.accepted += 1;
        self.queue.push_first(message);
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

    fn drop_best_effort(&mut self, count: u64) {
        self.dropped += count;
        self.best_effort_dropped += count;
    }

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

    fn upsert_state(&mut self, value: Message, retain: bool) -> usize {
        let index = self.states.set(value, retain);
        if self.states[index].is_blocked() {
            self.unqueue_state(index);
        } else {
            self.queue_state(index);
        }
        index
    }

    fn queue_state(&mut self, index: usize) {
        if !std::mem::replace(&mut self.states[index].queued, true) {
            self.queue.push_state(index);
        }
    }

    /// It is not sent, as far as it is not on its way.
    fn unqueue_state(&mut self, index: usize) {
        self.states[index].queued = false;
        self.held.states.retain(|&held| held != index);
        self.queue.remove_state(index);
    }

    /// Clears a retained state at the broker by an empty retained message. It is removed once that is acknowledged.
    pub fn retract(&mut self, topic: &Arc<str>) {
        if self.has_state(topic) {
            self.clear_retained(Arc::clone(topic));
            self.uncount_state(topic);
        }
    }

    /// Clears all retained states but that of `kept`, as [`retract`](Self::retract).
    pub fn retract_all_but(&mut self, kept: &str) {
        let topics = self.states.topics().into_iter();
        for topic in topics.filter(|topic| topic.as_ref() != kept) {
            self.retract(&topic);
        }
    }

    /// Clears a retained value of an earlier run by an empty retained message, which is not counted.
    pub fn clear_retained(&mut self, topic: Arc<str>) {
        self.upsert_state(Message::new(topic, Bytes::new()), true);
    }

    /// The value of a topic from [`set_latest`](Self::set_latest) is not sent again, on this connection or a later one.
    pub fn forget(&mut self, topic: &str) {
        if let Some(index) = self.uncount_state(topic) {
            // The mark of a free slot.
            self.states[index].value.payload = Bytes::new();
            self.unqueue_state(index);
            self.release_state(index);
        }
    }

    /// Another value, or none, is in place of that of a topic; returns its index.
    fn uncount_state(&mut self, topic: &str) -> Option<usize> {
        let index = self.states.find(topic)?;
        let was_counted = std::mem::take(&mut self.states[index].counted);
        self.replaced += u64::from(was_counted);
        Some(index)
    }

    /// Frees the slot of a state whose withdrawal was acknowledged.
    fn release_state(&mut self, index: usize) {
        let state = &self.states[index];
        let is_withdrawn = state.value.payload.is_empty() && !state.queued;
        if is_withdrawn && !self.flight.has_state(index) {
            self.states.free(index);
        }
    }

    /// Sends every state once more, behind what waits.
    pub fn resend_states(&mut self) {
        for index in self.states.indexes() {
            if !self.states[index].is_blocked() {
                self.queue_state(index);
            }
        }
    }

    /// Values that were given up may be sent again on the next connection.
    pub fn unblock(&mut self) {
        self.states
            .iter_mut()
            .for_each(|state| state.blocked = None);
    }

    /// Whether this topic has a value that is sent on every connection.
    pub fn has_state(&self, topic: &str) -> bool {
        self.states.find(topic).is_some()
    }

    /// Whether this topic has a value that is not being withdrawn.
    pub fn has_value(&self, topic: &str) -> bool {
        let index = self.states.find(topic);
        index.is_some_and(|index| !self.states[index].value.payload.is_empty())
    }

    /// Whether the broker acknowledged the newest value of this topic, or it has none.
    pub fn is_acknowledged(&self, topic: &str) -> bool {
        let index = self.states.find(topic);
        index.is_none_or(|index| !self.states[index].queued && !self.flight.has_state(index))
    }

    /// The next message to write, while fewer than `window` messages are unacknowledged. Late messages are paid from `pace`; where
    /// none may be sent, states and messages of best effort go on.
    pub fn next(&mut self, window: usize, pace: &mut Pace) -> Option<Outgoing> {
        if self.flight.len() < self.suspicion.window(window)
            && let Some(mut entry) = self.pop_first(pace)
        {
            let (mut dup, mut late_ms, mut retain) = (false, None, false);
            match &mut entry {
                Entry::Message(queued) => {
                    dup = queued.dup;
                    late_ms = self.backlog.late_ms(queued.tag(), pace);
                    self.backlog.replayed += u64::from(late_ms.is_some());
                }
                Entry::State { index, counted, .. } => {
                    let state = &mut self.states[*index];
                    state.queued = false;
                    *counted = std::mem::take(&mut state.counted);
                    retain = state.retain && !self.suspicion.is_without_retain(*index);
                }
            }
            return Some(Outgoing {
                message: self.states.message_of(&entry).clone(),
                id: Some(self.flight.send(entry)),
                retain,
                dup,
                late_ms,
            });
        }
        let message = self.best_effort.pop_front()?;
        self.writing += 1;
        Some(Outgoing {
            message,
            id: None,
            retain: false,
            dup: false,
            late_ms: None,
        })
    }

    /// What is first, or a state where messages must wait.
    fn pop_first(&mut self, pace: &mut Pace) -> Option<Entry> {
        self.backlog.is_waiting = false;
        if self.held.messages {
            return self.queue.pop_state();
        }
        if let Some(ahead) = self.queue.pop_ahead() {
            return Some(ahead);
        }
        if self.backlog.late_ms(self.queue.next_tag(), pace).is_some() {
            if pace.tokens < 1.0 {
                self.backlog.is_waiting = true;
                return self.queue.pop_state();
            }
            pace.tokens -= 1.0;
        }
        self.queue.pop()
    }

    /// The messages from [`next`](Self::next) since the last call were passed to the operating system.
    pub fn written(&mut self) {
        self.delivered += std::mem::take(&mut self.writing);
    }

    /// A best-effort message was taken from [`next`](Self::next) but cannot be sent at all.
    pub fn unsendable_best_effort(&mut self) {
        self.writing -= 1;
        self.drop_best_effort(1);
    }

    /// The broker acknowledged a message. Returns whether that is progress: a message of the pipeline that was in flight.
    pub fn acknowledged(&mut self, id: u16) -> bool {
        self.answered(id, true);
        // An acknowledgement of a message that is not in flight is a broker's error, and harmless.
        let Some(entry) = self.flight.remove(id) else {
            return false;
        };
        if let Some(queued) = entry.message() {
            self.held.taken(queued.order);
        }
        self.acks += 1;
        let counted = self.complete(&entry);
        self.delivered += counted;
        counted > 0
    }

    /// The broker refused a message for good, or it cannot be sent at all: it is dropped, and a gap says so where it is numbered.
    /// `None`: it was not in flight.
    pub fn refused(&mut self, id: u16) -> Option<GivenUp> {
        self.answered(id, false);
        let entry = self.flight.remove(id)?;
        Some(self.give_up(&entry))
    }

    /// The broker refused a message and may take it later. `None`: it was not in flight.
    /// `in_doubt`: it may be about this message.
    pub fn refused_for_now(&mut self, id: u16, in_doubt: bool) -> Option<HeldKind> {
        self.answered(id, false);
        let queued = match self.flight.remove(id)? {
            Entry::Message(queued) => queued,
            Entry::State { index, counted, .. } => {
                self.count_again(index, counted);
                let state = &mut self.states[index];
                // A newer value that waits is sent in its place.
                if !state.queued && !state.is_forgotten() {
                    state.queued = true;
                    self.held.states.push(index);
                }
                self.release_state(index);
                return Some(HeldKind::State);
            }
        };
        if in_doubt && let Some(is_last) = self.held.refused_alone(queued.order) {
            match is_last {
                true => self.give_up_later(&Entry::Message(queued)),
                false => self.flight.put_aside(queued),
            }
            return Some(HeldKind::Aside);
        }
        let was_aside = self.return_aside();
        self.held.refused(queued.order, in_doubt, was_aside);
        // The broker has not kept it: what is sent later is not a repeat.
        self.queue.put_back(queued, false);
        Some(HeldKind::Message)
    }

    /// A value that was in flight waits again, unless a newer one does.
    fn count_again(&mut self, index: usize, counted: bool) {
        if !counted {
            return;
        }
        let state = &mut self.states[index];
        if state.is_forgotten() || std::mem::replace(&mut state.counted, true) {
            self.replaced += 1;
        }
    }

    /// The broker has answered the message `id`; `is_taken`: it has acknowledged it.
    fn answered(&mut self, id: u16, is_taken: bool) {
        let Some(entry) = self.flight.get(id) else {
            return;
        };
        let message = self.states.message_of(entry);
        let is_retained = matches!(entry, Entry::State { index, .. } if self.states[*index].retain);
        self.suspicion
            .answered(entry, &message.topic, is_taken, is_retained);
        let aside = self.flight.aside();
        match aside.and_then(|aside| self.suspicion.judge(aside)) {
            None => {}
            Some(Verdict::TryAgain) => {
                self.return_aside();
            }
            Some(Verdict::GiveUp) => {
                if let Some(aside) = self.flight.take_aside() {
                    self.give_up_later(&Entry::Message(aside));
                }
            }
        }
    }

    /// The broker has ended the connection, or, where `is_unanswered`, has left a message unanswered. To be called before
    /// [`disconnected`](Self::disconnected).
    pub fn ended_by_broker(&mut self, is_unanswered: bool) {
        let Some((id, first)) = self.flight.first() else {
            return;
        };
        let topic = &self.states.message_of(first).topic;
        let on_way = self.flight.len();
        if self.suspicion.ended(first, topic, on_way, is_unanswered)
            && let Some(entry) = self.flight.remove(id)
        {
            self.give_up_later(&entry);
        }
    }

    /// Drops a message that was in flight, or aside. A value is not sent again either, on this connection or a later one.
    fn give_up(&mut self, entry: &Entry) -> GivenUp {
        let message = self.states.message_of(entry);
        let given_up = GivenUp {
            topic: Arc::clone(&message.topic),
            bytes: message.payload.len(),
        };
        self.gaps.note(entry.tag(), GapReason::Refused);
        self.dropped += self.complete(entry);
        if let Entry::State { index, .. } = *entry {
            self.states[index].blocked = Some(given_up.bytes);
            if self.states[index].is_blocked() {
                self.unqueue_state(index);
            }
        }
        given_up
    }

    /// As [`give_up`](Self::give_up), for [`take_given_up`](Self::take_given_up).
    fn give_up_later(&mut self, entry: &Entry) {
        let given_up = self.give_up(entry);
        self.given_up.push(given_up);
    }

    /// Messages that were given up since the last call, but for those of [`refused`](Self::refused).
    pub fn take_given_up(&mut self) -> Vec<GivenUp> {
        std::mem::take(&mut self.given_up)
    }

    /// Whether a value was taken without the retain flag that had ended connections with it; true once.
    pub fn take_retain_refused(&mut self) -> bool {
        self.suspicion.take_retain_refused()
    }

    /// Ends the way of what was in flight; 1 when it counts, 0 when it was one of the client itself.
    fn complete(&mut self, entry: &Entry) -> u64 {
        match entry {
            Entry::Message(queued) => {
                if let Some(tag) = queued.tag().filter(|_| !queued.is_ahead) {
                    self.backlog.completed(tag);
                }
                if !self.has_messages() {
                    self.backlog.none_waits();
                }
                1
            }
            Entry::State { index, counted, .. } => {
                self.release_state(*index);
                u64::from(*counted)
            }
        }
    }

    /// Messages may be sent again.
    pub fn release_messages(&mut self) {
        self.held.messages = false;
        self.put_aside(self.held.to_put_aside());
    }

    /// Refused states may be sent again, before everything else.
    pub fn release_states(&mut self) {
        for index in self.held.states.drain(..).rev() {
            self.queue.push_state_first(index);
        }
    }

    /// Takes the message at this place out of the queues, where others can show whether the broker takes any.
    fn put_aside(&mut self, order: Option<u64>) {
        if let Some(order) = order.filter(|_| self.queue.messages() > 1)
            && let Some(queued) = self.queue.take(order)
        {
            self.flight.put_aside(queued);
        }
    }

    /// Whether a message is aside.
    pub fn has_aside(&self) -> bool {
        self.flight.aside().is_some()
    }

    /// Puts the message that is aside back at its place; returns whether there was one.
    pub fn return_aside(&mut self) -> bool {
        let aside = self.flight.take_aside();
        let is_there = aside.is_some();
        if let Some(aside) = aside {
            self.queue.put_back(aside, false);
        }
        is_there
    }

    /// Connected: every state is sent before anything else.
    pub fn connected(&mut self) {
        self.connected = true;
        self.held = Held::default();
        self.queue.remove_states();
        let mut last = Vec::new();
        for index in self.states.indexes().into_iter().rev() {
            let state = &mut self.states[index];
            if state.is_forgotten() {
                self.release_state(index);
            } else if !state.is_blocked() {
                state.queued = true;
                match self.suspicion.goes_last(index) {
                    true => last.push(index),
                    false => self.queue.push_state_first(index),
                }
            }
        }
        for index in last.into_iter().rev() {
            self.queue.push_state(index);
        }
        self.put_aside(self.suspicion.to_put_aside());
    }

    /// The connection broke: messages in flight are queued again, before everything else.
    pub fn disconnected(&mut self) {
        self.connected = false;
        let unsent = std::mem::take(&mut self.writing) + self.best_effort.len() as u64;
        self.drop_best_effort(unsent);
        self.best_effort.clear();
        self.return_aside();
        while let Some(entry) = self.flight.pop_last() {
            match entry {
                Entry::Message(queued) => self.queue.put_back(queued, true),
                Entry::State { index, counted, .. } => self.count_again(index, counted),
            }
        }
    }

    /// Drops everything that has not arrived; returns how many messages of the pipeline that were.
    pub fn abandon(&mut self) -> u64 {
        self.disconnected();
        let mut states = 0;
        for state in self.states.iter_mut() {
            states += u64::from(std::mem::take(&mut state.counted));
            state.queued = false;
        }
        let messages = self.queue.messages() as u64;
        let mut lost = messages + states;
        if self.backlog.is_spooled {
            let cursor = self.spool_view().cursor;
            self.backlog.final_cursor.get_or_insert(cursor);
            self.backlog.kept += messages;
            lost = states;
        }
        self.held = Held::default();
        self.queue.clear();
        self.dropped += lost;
        lost
    }

    /// What the spool has to know.
    pub fn spool_view(&self) -> SpoolView {
        let in_flight = self.flight.messages().filter_map(QueuedMessage::tag);
        let first = in_flight.chain(self.queue.first_tags());
        let first = first.min_by_key(|tag| tag.seq);
        let backlog = &self.backlog;
        let behind = backlog.is_behind.then_some((backlog.loaded_to + 1, 0));
        let first = first.map(|tag| (tag.seq, tag.at_ms)).into_iter();
        let first = first.chain(behind).min();
        let cursor = first.map_or(backlog.last_pushed + 1, |(seq, _)| seq);
        SpoolView {
            cursor: backlog.final_cursor.unwrap_or(cursor),
            oldest_ms: first.map(|(_, at)| at),
            loaded_to: backlog.loaded_to,
            last_pushed: backlog.last_pushed,
            needs_refill: self.needs_refill(),
        }
    }

    /// Whether messages from the log are wanted.
    pub fn needs_refill(&self) -> bool {
        self.backlog.is_behind && self.queue.is_half_empty()
    }

    /// Messages that may be taken from the log now.
    pub fn room(&self) -> usize {
        self.queue.room()
    }

    /// Takes what the log has behind `view.loaded_to`, in order; nothing: the log has no more.
    pub fn refill(&mut self, view: &SpoolView, records: Vec<Record>) {
        if records.is_empty() && self.backlog.last_pushed == view.last_pushed {
            // What was not found is lost, such as damaged records.
            self.dropped += self.backlog.exhausted();
            return;
        }
        for record in records {
            let topic: Arc<str> = record.topic.into();
            let Some(origin) = self.backlog.loaded(record.seq, &topic) else {
                continue;
            };
            self.accepted += u64::from(origin == Origin::Earlier);
            let message = Message::new(topic, Bytes::from(record.payload));
            self.queue.push(message.tagged(Tag {
                seq: record.seq,
                at_ms: record.at_ms,
                track: record.track,
                class: record.class,
                is_stored: true,
            }));
        }
    }

    /// Whether messages of an earlier process were taken from the log for this topic.
    pub fn has_earlier(&self, topic: &str) -> bool {
        self.backlog.has_earlier(topic)
    }

    /// The log has dropped messages.
    pub fn drop_stored(&mut self, dropped: &Dropped) {
        let by_class = self.gaps.dropped_by_class.iter_mut();
        for (sum, count) in by_class.zip(dropped.by_class) {
            *sum += count;
        }
        let queued = self.queue.remove(&dropped.seqs.iter().copied().collect());
        self.dropped += queued + self.backlog.dropped(dropped);
        // Which tracks they were of is not known for all: with each of them in order, only `newest_first` waits longer.
        self.gaps.add(dropped.gap());
    }

    /// The clock was set: it went forward by this many milliseconds. The ages of messages stay as they were.
    pub fn correct_times(&mut self, step_ms: i64) {
        let in_flight = self.flight.messages_mut();
        let tags = in_flight.chain(self.queue.messages_mut());
        for tag in tags.filter_map(|queued| queued.message.tag.as_mut()) {
            *tag = tag.shifted(step_ms);
        }
    }

    /// Notes messages that no subscriber will receive.
    pub fn add_gap(&mut self, gap: Gap) {
        self.gaps.add(gap);
    }

    /// The gaps that are to be published now.
    pub fn take_gaps(&mut self) -> Vec<Gap> {
        self.gaps.take()
    }

    /// The newest gap that waits to be published.
    pub fn last_gap(&self) -> Option<Gap> {
        self.gaps.last()
    }

    /// Whether a late message is first, and none may be sent now.
    pub fn is_waiting(&self) -> bool {
        self.backlog.is_waiting
    }
}

#[cfg(test)]
mod tests;
