//! The retained message of each topic.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;

use super::Limits;
use super::message::Message;
use crate::topic;

#[derive(Debug, Default)]
pub(super) struct Retained(BTreeMap<Arc<str>, Arc<Message>>);

impl Retained {
    /// Whether `message` has a place, were it to be kept.
    pub fn has_place(&mut self, message: &Message, limits: &Limits, now: Instant) -> bool {
        if message.payload.is_empty() {
            return true;
        }
        if message.payload.len() > limits.retained_bytes {
            return false;
        }
        if self.0.len() >= limits.retained && !self.0.contains_key(&message.topic) {
            self.0.retain(|_, kept| !kept.has_expired(now));
        }
        self.0.len() < limits.retained || self.0.contains_key(&message.topic)
    }

    /// Keeps `message` in place of the one before it; an empty one deletes that.
    pub fn keep(&mut self, message: &Arc<Message>) {
        match message.payload.is_empty() {
            true => self.0.remove(&message.topic),
            false => self
                .0
                .insert(Arc::clone(&message.topic), Arc::clone(message)),
        };
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
        self.0
            .range::<str, _>((Bound::Included(literal), Bound::Unbounded))
            .take_while(move |(topic, _)| topic.starts_with(literal))
            .filter(move |(topic, kept)| topic::matches(filter, topic) && !kept.has_expired(now))
            .map(|(_, kept)| kept)
    }
}
