// SPDX-License-Identifier: Apache-2.0
//! What is known of the spool: which messages are in its log only, and which tracks have messages that wait.
//!
//! Every numbered message is in the log before it is queued. While there is room, it is in a queue, too. Without room, the outbox is
//! *behind*: new messages are in the log only, and come by [`Outbox::refill`](super::Outbox::refill) in their order. Whatever is not
//! acknowledged is at or behind [`SpoolView::cursor`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jetwatch_spool::Dropped;

use super::entry::{Pace, Tag};

/// A message that waited longer, in milliseconds, is late: its age is in it, and it is sent at a limited rate.
pub(in crate::mqtt) const LATE_AFTER_MS: u64 = 2000;

/// Most topics of an earlier process that are known: far more than 64 sources have.
const MAX_EARLIER_TOPICS: usize = 1024;

/// What only a spool needs.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// There is a log.
    pub is_spooled: bool,
    /// New messages are sent before those that wait.
    pub newest_first: bool,
    /// The log may have messages behind `loaded_to`.
    pub is_behind: bool,
    /// Every message up to this number was in a queue, or is done.
    pub loaded_to: u64,
    /// Number of the last message that was pushed.
    pub last_pushed: u64,
    /// Number of the first message of this process.
    first_own: u64,
    /// Topics of the messages of an earlier process that were taken from the log.
    earlier_topics: HashSet<Arc<str>>,
    /// Messages of this process that are in the log only.
    pub count: u64,
    /// Messages that stay in the log when the client ends.
    pub kept: u64,
    /// The cursor when the client ended.
    pub final_cursor: Option<u64>,
    /// Numbers behind `loaded_to` of messages that were sent before older ones.
    sent_ahead: HashSet<u64>,
    /// Tracks with messages that wait, and how many.
    waiting_tracks: HashMap<u64, u32>,
    /// The first message is late, and none may be sent now.
    pub is_waiting: bool,
    /// Late messages that were sent.
    pub replayed: u64,
    /// Numbered messages that were passed in.
    pub numbered: u64,
}

/// What the spool has to know of the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mqtt) struct SpoolView {
    /// Number of the first message that is not acknowledged, or of the next one.
    pub cursor: u64,
    /// When that message was made; 0 where only the log knows.
    pub oldest_ms: Option<u64>,
    /// Where [`Outbox::refill`](super::Outbox::refill) goes on.
    pub loaded_to: u64,
    /// Number of the last message that was pushed.
    pub last_pushed: u64,
    pub needs_refill: bool,
}

impl Backlog {
    /// Messages are numbered from `first_own` on.
    pub fn number_from(&mut self, first_own: u64) {
        self.first_own = first_own;
        self.loaded_to = first_own - 1;
        self.last_pushed = first_own - 1;
    }

    /// A log has all numbered messages; those behind `acked` are to be sent.
    pub fn use_spool(&mut self, acked: u64, newest_first: bool) {
        self.is_spooled = true;
        self.newest_first = newest_first;
        self.loaded_to = acked;
        self.is_behind = acked + 1 < self.first_own;
    }

    /// Notes that a message goes before those that wait.
    pub fn goes_ahead(&mut self, tag: Tag) {
        if self.is_behind {
            self.sent_ahead.insert(tag.seq);
        } else {
            self.loaded_to = tag.seq;
        }
    }

    /// Notes that a message of a track waits.
    pub fn waits(&mut self, tag: Tag) {
        if self.newest_first {
            *self.waiting_tracks.entry(tag.track).or_default() += 1;
        }
    }

    pub fn has_waiting(&self, track: u64) -> bool {
        self.waiting_tracks.contains_key(&track)
    }

    /// A message that waited is acknowledged or refused.
    pub fn completed(&mut self, tag: Tag) {
        if tag.seq < self.first_own {
            return;
        }
        if let Some(count) = self.waiting_tracks.get_mut(&tag.track) {
            *count -= 1;
            if *count == 0 {
                self.waiting_tracks.remove(&tag.track);
            }
        }
    }

    /// No message waits anywhere.
    pub fn none_waits(&mut self) {
        self.waiting_tracks.clear();
    }

    /// The log has no more messages; returns how many were not found in it.
    pub fn exhausted(&mut self) -> u64 {
        self.loaded_to = self.last_pushed;
        self.is_behind = false;
        self.sent_ahead.clear();
        std::mem::take(&mut self.count)
    }

    /// A message was read from the log; returns whether it is to be queued, and whether it is of an earlier process.
    pub fn loaded(&mut self, seq: u64, topic: &Arc<str>) -> Option<Origin> {
        if seq <= self.loaded_to {
            return None;
        }
        self.loaded_to = seq;
        if self.sent_ahead.remove(&seq) {
            return None;
        }
        if seq >= self.first_own {
            self.count = self.count.saturating_sub(1);
            return Some(Origin::Own);
        }
        if self.earlier_topics.len() < MAX_EARLIER_TOPICS {
            self.earlier_topics.insert(Arc::clone(topic));
        }
        Some(Origin::Earlier)
    }

    /// The log has dropped messages; returns how many of them were of this process and in the log only.
    pub fn dropped(&mut self, dropped: &Dropped) -> u64 {
        let is_in_log = |seq: &&u64| {
            **seq > self.loaded_to && **seq >= self.first_own && !self.sent_ahead.contains(seq)
        };
        let in_log = dropped.seqs.iter().filter(is_in_log).count() as u64;
        self.count = self.count.saturating_sub(in_log);
        in_log
    }

    /// Whether messages of an earlier process were taken from the log for this topic.
    pub fn has_earlier(&self, topic: &str) -> bool {
        self.earlier_topics.contains(topic)
    }

    /// The age of a message in milliseconds, if it is late.
    pub fn late_ms(&self, tag: Option<Tag>, pace: &Pace) -> Option<u64> {
        let tag = tag?;
        let age = pace.now_ms.saturating_sub(tag.at_ms);
        (age > LATE_AFTER_MS || tag.seq < self.first_own).then_some(age)
    }
}

/// Which process has made a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// This one, which has counted it.
    Own,
    /// An earlier one.
    Earlier,
}
