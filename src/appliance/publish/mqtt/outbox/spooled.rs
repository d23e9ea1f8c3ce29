// SPDX-License-Identifier: Apache-2.0
//! The part of the outbox that knows of the spool: which messages are in its log only, and what may be sent before older ones.
//!
//! Every numbered message is in the log before it comes here. While there is room, it is in a queue, too. Without room, the outbox is
//! *behind*: new messages are in the log only, and come by [`Outbox::refill`] in their order. Whatever is not acknowledged is
//! at or behind [`SpoolView::cursor`].

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use jetwatch_spool::{Class, Dropped, Gap, GapReason, Record};

use super::entry::{Importance, Message, Pace, QueueEntry, QueuedMessage, Sent, Tag};
use super::held::Held;
use super::{Outbox, State};
use crate::SinkCounts;

/// A message that waited longer, in milliseconds, is late: its age is in it, and it is sent at a limited rate.
pub(in crate::mqtt) const LATE_AFTER_MS: u64 = 2000;

/// Most new messages that wait before older ones.
const MAX_AHEAD: usize = 1000;

/// Most topics of an earlier process that are known: far more than 64 sources have.
const MAX_EARLIER_TOPICS: usize = 1024;

/// Most gaps that wait to be published.
const MAX_GAPS: usize = 16;

/// State of the outbox that only a spool needs.
#[derive(Debug, Default)]
pub(in crate::mqtt) struct Backlog {
    /// There is a log.
    pub is_spooled: bool,
    /// New messages are sent before those that wait.
    pub newest_first: bool,
    /// The log may have messages behind `loaded_to`.
    is_behind: bool,
    /// Every message up to this number was in a queue, or is done.
    loaded_to: u64,
    /// Number of the last message that was pushed.
    last_pushed: u64,
    /// Number of the first message of this process.
    first_own: u64,
    /// Topics of the messages of an earlier process that were taken from the log.
    earlier_topics: HashSet<Arc<str>>,
    /// Identity of the numbering.
    id: u64,
    /// Messages of this process that are in the log only.
    pub count: u64,
    /// Messages that stay in the log when the client ends.
    pub kept: u64,
    /// The cursor when the client ended.
    pub final_cursor: Option<u64>,
    /// New messages that are sent before those in the queues.
    pub ahead: VecDeque<QueuedMessage>,
    /// Numbers behind `loaded_to` of messages that were in `ahead`.
    sent_ahead: HashSet<u64>,
    /// Tracks with messages that wait, and how many.
    waiting_tracks: HashMap<u64, u32>,
    /// The first message is late, and none may be sent now.
    pub is_waiting: bool,
    /// Late messages that were sent.
    pub replayed: u64,
    /// Numbered messages that were passed in.
    pub numbered: u64,
    pub dropped_by_class: [u64; Class::ALL.len()],
    gaps: VecDeque<Gap>,
}

impl Backlog {
    /// Whether nothing waits here or in the log.
    pub fn is_empty(&self) -> bool {
        !self.is_behind && self.ahead.is_empty()
    }
}

/// What the spool has to know of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mqtt) struct SpoolView {
    /// Number of the first message that is not acknowledged, or of the next one.
    pub cursor: u64,
    /// When that message was made; 0 where only the log knows.
    pub oldest_ms: Option<u64>,
    /// Where [`Outbox::refill`] goes on.
    pub loaded_to: u64,
    /// Number of the last message that was pushed.
    pub last_pushed: u64,
    pub needs_refill: bool,
}

impl Outbox {
    /// Messages are numbered from `first_own` on, in the numbering `id`.
    pub fn number_from(&mut self, id: u64, first_own: u64) {
        self.backlog.id = id;
        self.backlog.first_own = first_own;
        self.backlog.loaded_to = first_own - 1;
        self.backlog.last_pushed = first_own - 1;
    }

    /// A log has all numbered messages; those behind `acked` are to be sent.
    pub fn use_spool(&mut self, acked: u64, newest_first: bool) {
        self.backlog.is_spooled = true;
        self.backlog.newest_first = newest_first;
        self.backlog.loaded_to = acked;
        self.backlog.is_behind = acked + 1 < self.backlog.first_own;
    }

    /// Queues a message that is in the log.
    pub fn push_stored(&mut self, message: Message, importance: Importance, tag: Tag) {
        self.accepted += 1;
        self.backlog.numbered += 1;
        self.backlog.last_pushed = tag.seq;
        if self.may_go_ahead(&tag) {
            let order = self.next_order();
            if self.backlog.is_behind {
                self.backlog.sent_ahead.insert(tag.seq);
            } else {
                self.backlog.loaded_to = tag.seq;
            }
            self.backlog.ahead.push_back(QueuedMessage {
                order,
                message,
                dup: false,
                tag: Some(tag),
            });
            return;
        }
        if self.backlog.newest_first {
            *self.backlog.waiting_tracks.entry(tag.track).or_default() += 1;
        }
        if self.backlog.is_behind || self.queued_messages() >= self.limit {
            self.backlog.is_behind = true;
            self.backlog.count += 1;
            return;
        }
        self.backlog.loaded_to = tag.seq;
        self.enqueue(message, importance, Some(tag));
    }

    /// Whether a new message goes before those that wait. Never one of a track that has messages among them.
    fn may_go_ahead(&self, tag: &Tag) -> bool {
        self.backlog.newest_first
            && self.connected
            && (self.backlog.is_behind || self.queued_messages() > 0)
            && self.backlog.ahead.len() < MAX_AHEAD
            && !self.backlog.waiting_tracks.contains_key(&tag.track)
    }

    /// A numbered message that is in no log, because it could not be written. Returns as [`push`](Self::push).
    pub fn push_unstored(&mut self, message: Message, importance: Importance, tag: Tag) -> bool {
        self.backlog.numbered += 1;
        self.backlog.last_pushed = tag.seq;
        if !self.backlog.is_behind {
            self.backlog.loaded_to = tag.seq;
            return self.push_tagged(message, importance, Some(tag));
        }
        // It would go before those in the log.
        self.accepted += 1;
        self.dropped += 1;
        let is_first = self.overflow == super::Overflow::default();
        match importance {
            Importance::Update => self.overflow.updates += 1,
            Importance::Essential => self.overflow.essential += 1,
        }
        self.note_overflow(Some(tag));
        is_first
    }

    /// What the spool has to know.
    pub fn spool_view(&self) -> SpoolView {
        let in_flight = self
            .in_flight
            .iter()
            .filter_map(|in_flight| in_flight.sent.tag());
        let first = [
            self.queue.iter().find_map(QueueEntry::tag),
            self.updates.iter().find_map(|queued| queued.tag),
            self.backlog.ahead.iter().find_map(|queued| queued.tag),
        ];
        let first = in_flight
            .chain(first.into_iter().flatten())
            .min_by_key(|tag| tag.seq);
        let backlog = &self.backlog;
        let behind = backlog.is_behind.then_some((backlog.loaded_to + 1, 0));
        let first = first.map(|tag| (tag.seq, tag.at_ms));
        let first = match (first, behind) {
            (Some(first), Some(behind)) => Some(first.min(behind)),
            (first, behind) => first.or(behind),
        };
        SpoolView {
            cursor: backlog
                .final_cursor
                .unwrap_or_else(|| first.map_or(backlog.last_pushed + 1, |(seq, _)| seq)),
            oldest_ms: first.map(|(_, at)| at),
            loaded_to: backlog.loaded_to,
            last_pushed: backlog.last_pushed,
            needs_refill: self.needs_refill(),
        }
    }

    /// Whether messages from the log are wanted.
    pub fn needs_refill(&self) -> bool {
        self.backlog.is_behind && self.queued_messages() <= self.limit / 2
    }

    /// Messages that may be taken from the log now.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.queued_messages())
    }

    /// Takes what the log has behind `view.loaded_to`, in order; nothing: the log has no more.
    pub fn refill(&mut self, view: &SpoolView, records: Vec<Record>) {
        if records.is_empty() && self.backlog.last_pushed == view.last_pushed {
            // What was not found is lost, such as damaged records.
            self.dropped += std::mem::take(&mut self.backlog.count);
            self.backlog.loaded_to = self.backlog.last_pushed;
            self.backlog.is_behind = false;
            self.backlog.sent_ahead.clear();
            return;
        }
        for record in records {
            if record.seq <= self.backlog.loaded_to {
                continue;
            }
            self.backlog.loaded_to = record.seq;
            if self.backlog.sent_ahead.remove(&record.seq) {
                continue;
            }
            let topic: Arc<str> = record.topic.into();
            if record.seq >= self.backlog.first_own {
                self.backlog.count = self.backlog.count.saturating_sub(1);
            } else {
                self.accepted += 1;
                if self.backlog.earlier_topics.len() < MAX_EARLIER_TOPICS {
                    self.backlog.earlier_topics.insert(Arc::clone(&topic));
                }
            }
            let importance = match record.class {
                Class::Update => Importance::Update,
                _ => Importance::Essential,
            };
            let tag = Tag {
                seq: record.seq,
                at_ms: record.at_ms,
                track: record.track,
                class: record.class,
            };
            let message = Message::new(topic, Bytes::from(record.payload));
            self.enqueue(message, importance, Some(tag));
        }
    }

    /// Whether messages of an earlier process were taken from the log for this topic.
    pub fn has_earlier(&self, topic: &str) -> bool {
        self.backlog.earlier_topics.contains(topic)
    }

    /// The log has dropped messages.
    pub fn drop_stored(&mut self, dropped: &Dropped) {
        for (sum, count) in self
            .backlog
            .dropped_by_class
            .iter_mut()
            .zip(dropped.by_class)
        {
            *sum += count;
        }
        let gone: HashSet<u64> = dropped.seqs.iter().copied().collect();
        let is_gone = |tag: Option<Tag>| tag.is_some_and(|tag| gone.contains(&tag.seq));
        let before = self.queued_messages();
        self.updates.retain(|queued| !is_gone(queued.tag));
        self.queue.retain(|entry| !is_gone(entry.tag()));
        let messages = self
            .queue
            .iter()
            .filter(|entry| matches!(entry, QueueEntry::Message(_)));
        self.essential = messages.count();
        let queued = (before - self.queued_messages()) as u64;
        let (loaded_to, first_own) = (self.backlog.loaded_to, self.backlog.first_own);
        let in_log = gone
            .iter()
            .filter(|&&seq| seq > loaded_to && seq >= first_own)
            .filter(|seq| !self.backlog.sent_ahead.contains(seq))
            .count() as u64;
        self.backlog.count = self.backlog.count.saturating_sub(in_log);
        self.dropped += queued + in_log;
        // Which tracks they were of is not known for all: with each of them in order, only `newest_first` waits longer.
        self.add_gap(dropped.gap());
    }

    /// A message is acknowledged or refused.
    pub(super) fn completed(&mut self, tag: Option<Tag>, is_ahead: bool) {
        let Some(tag) = tag.filter(|_| self.backlog.newest_first && !is_ahead) else {
            return;
        };
        if tag.seq < self.backlog.first_own {
            return;
        }
        if let Some(count) = self.backlog.waiting_tracks.get_mut(&tag.track) {
            *count -= 1;
            if *count == 0 {
                self.backlog.waiting_tracks.remove(&tag.track);
            }
        }
        if self.backlog.is_empty() && self.queued_messages() == 0 && self.in_flight.is_empty() {
            self.backlog.waiting_tracks.clear();
        }
    }

    /// The clock was set: it went forward by this many milliseconds. The ages of messages stay as they were.
    pub fn correct_times(&mut self, step_ms: i64) {
        let in_flight =
            self.in_flight
                .iter_mut()
                .filter_map(|in_flight| match &mut in_flight.sent {
                    Sent::Message { queued, .. } => queued.tag.as_mut(),
                    Sent::State { .. } => None,
                });
        let queue = self.queue.iter_mut().filter_map(|entry| match entry {
            QueueEntry::Message(queued) => queued.tag.as_mut(),
            QueueEntry::State { .. } => None,
        });
        let others = self.updates.iter_mut().chain(&mut self.backlog.ahead);
        let others = others.filter_map(|queued| queued.tag.as_mut());
        for tag in in_flight.chain(queue).chain(others) {
            *tag = tag.shifted(step_ms);
        }
    }

    /// The age of a message in milliseconds, if it is late.
    pub(super) fn late_ms(&self, tag: &Tag, pace: &Pace) -> Option<u64> {
        let age = pace.now_ms.saturating_sub(tag.at_ms);
        (age > LATE_AFTER_MS || tag.seq < self.backlog.first_own).then_some(age)
    }

    /// Notes a message that was dropped because the queue is full.
    pub(super) fn note_overflow(&mut self, tag: Option<Tag>) {
        self.note_dropped(tag, GapReason::Full);
    }

    /// Notes a message that was dropped.
    pub(super) fn note_dropped(&mut self, tag: Option<Tag>, reason: GapReason) {
        let Some(tag) = tag else { return };
        self.backlog.dropped_by_class[tag.class as usize] += 1;
        let is_update = tag.class == Class::Update;
        self.add_gap(Gap {
            id: self.backlog.id,
            from: tag.seq,
            to: tag.seq,
            updates: u64::from(is_update),
            others: u64::from(!is_update),
            reason,
        });
    }

    /// Notes messages that no subscriber will receive.
    pub fn add_gap(&mut self, gap: Gap) {
        let last = self.backlog.gaps.back_mut();
        if last.is_some_and(|last| last.merge(&gap)) {
            return;
        }
        if self.backlog.gaps.len() < MAX_GAPS {
            self.backlog.gaps.push_back(gap);
        }
    }

    /// The gaps that are to be published now.
    pub fn take_gaps(&mut self) -> Vec<Gap> {
        self.backlog.gaps.drain(..).collect()
    }

    /// The newest gap that waits to be published.
    pub fn last_gap(&self) -> Option<Gap> {
        self.backlog.gaps.back().copied()
    }

    /// Queues a message before all others.
    pub fn push_first(&mut self, message: Message) {
        self.queue.push_front(QueueEntry::Message(QueuedMessage {
            order: 0,
            message,
            dup: false,
            tag: None,
        }));
        self.essential += 1;
        self.accepted += 1;
    }

    /// Whether a late message is first, and none may be sent now.
    pub fn is_waiting(&self) -> bool {
        self.backlog.is_waiting
    }

    /// Whether the client may end now: what is left is in the log and would be sent late.
    pub fn may_end(&self) -> bool {
        self.backlog.is_spooled
            && (self.held.messages
                || self.has_aside()
                || self.backlog.is_waiting && self.backlog.ahead.is_empty())
            && self.best_effort.is_empty()
            && self.writing == 0
            && !self.states.iter().any(|state: &State| state.queued)
            && self.first_on_way().is_none()
    }

    /// Messages that stay in the log when the client ends.
    pub fn kept(&self) -> u64 {
        self.backlog.count + self.backlog.kept
    }

    /// Numbered messages that were passed in, and late ones that were sent.
    pub fn progress(&self) -> (u64, u64) {
        (self.backlog.numbered, self.backlog.replayed)
    }

    /// Messages that were dropped, by class.
    pub fn dropped_by_class(&self) -> [u64; Class::ALL.len()] {
        self.backlog.dropped_by_class
    }

    /// Drops everything that has not arrived; returns how many messages of the pipeline that were.
    pub fn abandon(&mut self) -> u64 {
        self.disconnected();
        let states = self
            .states
            .iter_mut()
            .filter_map(|state| std::mem::take(&mut state.counted).then_some(()));
        let states = states.count() as u64;
        let messages = self.essential + self.updates.len() + self.backlog.ahead.len();
        let mut lost = messages as u64 + states;
        if self.backlog.is_spooled {
            let cursor = self.spool_view().cursor;
            self.backlog.final_cursor.get_or_insert(cursor);
            self.backlog.kept += messages as u64;
            lost = states;
        }
        self.held = Held::default();
        self.backlog.ahead.clear();
        self.queue.clear();
        self.updates.clear();
        self.essential = 0;
        for state in &mut self.states {
            state.queued = false;
        }
        self.dropped += lost;
        lost
    }

    /// Counts messages of best effort as dropped.
    pub(super) fn drop_best_effort(&mut self, count: u64) {
        self.dropped += count;
        self.best_effort_dropped += count;
    }

    /// Whether a connection is open, so that messages are waited for.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Current message counts.
    pub fn counts(&self) -> SinkCounts {
        let under_way = |is_counted: fn(&Sent) -> bool| {
            let sent = self.in_flight.iter().map(|in_flight| &in_flight.sent);
            sent.filter(|sent| is_counted(sent)).count()
        };
        let messages = self.queued_messages()
            + self.backlog.ahead.len()
            + under_way(|sent| matches!(sent, Sent::Message { .. }));
        let messages = messages as u64 + self.backlog.count + self.backlog.kept;
        let states = self.states.iter().filter(|state| state.counted).count()
            + under_way(|sent| matches!(sent, Sent::State { counted: true, .. }));
        let waiting = messages + (self.best_effort.len() + states) as u64;
        SinkCounts {
            accepted: self.accepted,
            delivered: self.delivered,
            dropped: self.dropped,
            best_effort_dropped: self.best_effort_dropped,
            replaced: self.replaced,
            queued: waiting + self.writing,
            spooled: match self.backlog.is_spooled {
                true => messages,
                false => 0,
            },
        }
    }

    /// Messages that the broker has acknowledged, internal ones too.
    pub fn acks(&self) -> u64 {
        self.acks
    }

    /// Whether a reply from the broker is due.
    pub fn awaits_ack(&self) -> bool {
        self.first_on_way().is_some()
    }
}
