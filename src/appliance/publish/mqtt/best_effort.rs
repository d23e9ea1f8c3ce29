// SPDX-License-Identifier: Apache-2.0
//! Messages of QoS 0 on which a broker ends the connection, such as a picture above a limit that it does not announce. They are not
//! acknowledged: a ping behind a large one proves that the broker has taken it. Pure.

use std::collections::HashMap;

use super::outbox::GivenUp;

/// Messages above this size are proven each time, smaller ones only after a connection has ended for no other reason.
const LARGE_BYTES: usize = 4096;

/// Ends of connections after which messages of this kind and size are not sent any more.
const MAX_ENDS: u32 = 3;

/// Kinds that are remembered: three, and those of formats of the configuration.
const MAX_KINDS: usize = 16;

/// What has ended connections.
#[derive(Debug, Default)]
pub(super) struct BestEffort {
    /// By the last level of the topic.
    kinds: HashMap<String, Ends>,
    /// The largest message that was written and is not proven.
    unproven: Option<GivenUp>,
    /// A message of this size was refused as too large, with QoS 1.
    too_large: Option<usize>,
    /// A connection has ended without a cause: small messages are proven, too, by at most one ping at a time.
    is_alert: bool,
}

#[derive(Debug)]
struct Ends {
    count: u32,
    /// Size of the smallest one.
    bytes: usize,
}

fn kind(topic: &str) -> &str {
    topic.rsplit('/').next().unwrap_or(topic)
}

impl BestEffort {
    /// Whether a message of this size would end the connection.
    pub fn is_blocked(&self, topic: &str, bytes: usize) -> bool {
        let ends = self.kinds.get(kind(topic));
        self.too_large.is_some_and(|known| bytes >= known)
            || ends.is_some_and(|ends| ends.count >= MAX_ENDS && bytes >= ends.bytes)
    }

    /// The broker has refused a message of this size as too large.
    pub fn refused_as_too_large(&mut self, bytes: usize) {
        if bytes > LARGE_BYTES {
            self.too_large = Some(self.too_large.map_or(bytes, |known| known.min(bytes)));
        }
    }

    /// A message is being written; returns whether a ping is to prove it.
    pub fn wrote(&mut self, message: GivenUp) -> bool {
        let needs_proof = message.bytes > LARGE_BYTES || self.is_alert;
        let known = self.unproven.as_ref().map_or(0, |known| known.bytes + 1);
        if needs_proof && message.bytes >= known {
            self.unproven = Some(message);
        }
        needs_proof
    }

    /// The broker has answered a ping that was written behind all of them.
    pub fn proven(&mut self) {
        if let Some(proven) = self.unproven.take()
            && let Some(ends) = self.kinds.get(kind(&proven.topic))
            && proven.bytes >= ends.bytes
        {
            self.kinds.remove(kind(&proven.topic));
        }
    }

    /// The broker has ended the connection; returns what is not sent any more from now on.
    pub fn ended(&mut self) -> Option<GivenUp> {
        let Some(unproven) = self.unproven.take() else {
            self.is_alert = true;
            return None;
        };
        let kind = kind(&unproven.topic).to_owned();
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&kind) {
            self.kinds.clear();
        }
        let ends = self.kinds.entry(kind).or_insert(Ends {
            count: 0,
            bytes: unproven.bytes,
        });
        ends.bytes = ends.bytes.min(unproven.bytes);
        ends.count += 1;
        (ends.count >= MAX_ENDS).then_some(unproven)
    }

    /// A connection ended for another reason.
    pub fn forget_unproven(&mut self) {
        self.unproven = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(topic: &str, bytes: usize) -> GivenUp {
        GivenUp {
            topic: topic.into(),
            bytes,
        }
    }

    #[test]
    fn kind_and_size_that_end_three_connections_are_blocked() {
        let mut sent = BestEffort::default();
        for (end, bytes) in [(1, 9000), (2, 8000), (3, 8500)] {
            assert!(sent.wrote(message("a/tracks/7/snapshot", bytes)));
            assert!(!sent.wrote(message("a/detections", 100)));
            assert_eq!(sent.ended().is_some(), end == 3, "{end}");
        }
        assert!(sent.is_blocked("b/tracks/8/snapshot", 8000));
        assert!(!sent.is_blocked("b/tracks/8/snapshot", 7999));
        assert!(!sent.is_blocked("a/detections", 9000));
    }

    #[test]
    fn what_the_broker_has_taken_is_cleared() {
        let mut sent = BestEffort::default();
        for _ in 0..5 {
            for _ in 0..2 {
                sent.wrote(message("snapshot", 9000));
                assert_eq!(sent.ended(), None);
            }
            sent.wrote(message("snapshot", 9000));
            sent.proven();
        }
        // Small ones are proven after an end without a cause.
        assert!(!sent.wrote(message("stats", 10)));
        assert_eq!(sent.ended(), None);
        assert!(sent.wrote(message("stats", 10)));
        sent.proven();
    }
}
