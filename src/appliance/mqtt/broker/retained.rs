// SPDX-License-Identifier: Apache-2.0
//! The retained message of each topic.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;

use super::Limits;
use super::message::Message;
use crate::topic;

#[derive(Debug, Default)]
pub(super) struct Retained {
    messages: BTreeMap<Arc<str>, Arc<Message>>,
    /// Memory of all of them.
    bytes: usize,
}

impl Retained {
    /// Whether `message` has a place, were it to be kept.
    pub(crate) fn has_place(&mut self, message: &Message, limits: &Limits, now: Instant) -> bool {
        if message.payload.is_empty() {
            return true;
        }
        if message.payload.len() > limits.retained_bytes {
            return false;
        }
        if !self.fits(message, limits) {
            self.messages.retain(|_, kept| !kept.has_expired(now));
            self.bytes = self.messages.values().map(|kept| kept.bytes()).sum();
        }
        self.fits(message, limits)
    }

    /// Whether `message` is within the limits, in place of the one before it.
    fn fits(&self, message: &Message, limits: &Limits) -> bool {
        let before = self.messages.get(&message.topic);
        let count = self.messages.len() + usize::from(before.is_none());
        let bytes = self.bytes - before.map_or(0, |kept| kept.bytes()) + message.bytes();
        count <= limits.retained && bytes <= limits.all_retained_bytes
    }

    /// Keeps `message` in place of the one before it; an empty one deletes that.
    pub fn keep(&mut self, message: &Arc<Message>) {
        let before = match message.payload.is_empty() {
            true => self.messages.remove(&message.topic),
            false => {
                self.bytes += message.bytes();
                let topic = Arc::clone(&message.topic);
                self.messages.insert(topic, Arc::clone(message))
            }
        };
        self.bytes -= before.map_or(0, |before| before.bytes());
    }

    /// The messages for a subscription with `filter`, by topic.
    pub fn matching<'a>(
        &'a self,
        filter: &'a str,
        now: Instant,
    ) -> impl Iterator<Item = &'a Arc<Message>> {
        // All that match begin as the filter does, up to its first wildcard; `a/#` is also for `a`.
        let literal = filter.split(['+', '#']).next().unwrap_or_default();
        let literal = match filter.ends_with("/#") && filter.len() == literal.len() + 1 {
            true => literal.trim_end_matches('/'),
            false => literal,
        };
        self.messages
            .range::<str, _>((Bound::Included(literal), Bound::Unbounded))
            .take_while(move |(topic, _)| topic.starts_with(literal))
            .filter(move |(topic, kept)| topic::matches(filter, topic) && !kept.has_expired(now))
            .map(|(_, kept)| kept)
    }
}
