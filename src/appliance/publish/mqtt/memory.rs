// SPDX-License-Identifier: Apache-2.0
//! What a client remembers from one connection to the next: of its brokers, and for the log.

use std::collections::HashSet;
use std::time::Instant;

use super::best_effort::BestEffort;
use super::known::Known;
use super::outbox::GivenUp;
use crate::reaction::Feature;
use jetwatch_telemetry::FailureLog;

/// Kinds of topics on which messages that are dropped are logged by themselves; further ones share a line.
const MAX_TOPIC_KINDS: usize = 8;

/// Levels behind which a topic ends in the name of a label, a group or a rule.
const LEVELS_OF_NAMES: [&str; 6] = ["counts", "groups", "zones", "lines", "rules", "snapshots"];

/// The memory of one client.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// One for each broker.
    pub known: Vec<Known>,
    pub best_effort: BestEffort,
    /// Connections in a row that ended after a subscription that the broker has not allowed.
    pub subscribe_ends: u32,
    /// What a broker can cause without end is logged once, then after 1, 2, 4 minutes.
    log: FailureLog,
    /// Kinds of topics of messages that were dropped, as far as they are logged by themselves.
    topic_kinds: HashSet<String>,
}

impl Memory {
    pub fn new(brokers: usize) -> Self {
        Self {
            known: vec![Known::default(); brokers],
            ..Self::default()
        }
    }

    /// `Some(repeats)` when an event of `kind` is to be logged now.
    pub fn is_logged(&mut self, kind: &str) -> Option<u64> {
        self.log.admit_kind(kind.to_owned(), Instant::now())
    }

    /// A message is dropped for good: `what` the broker does, and why.
    pub fn log_given_up(&mut self, message: &GivenUp, what: &str, reason: &str) {
        let GivenUp { topic, bytes } = message;
        let kind = self.kind_of(topic, what, reason);
        if let Some(repeats) = self.is_logged(&kind) {
            let topic = &**topic;
            log::error!(topic, bytes, repeats; "a message is dropped, {what}: {reason}; check what the broker allows this user to publish, and its limits");
        }
    }

    fn kind_of(&mut self, topic: &str, what: &str, reason: &str) -> String {
        // Sources, tracks and names are many; what ends in the same level is of one kind.
        let mut levels = topic.rsplit('/');
        let mut level = levels.next().unwrap_or(topic);
        if let Some(parent) = levels.next().filter(|it| LEVELS_OF_NAMES.contains(it)) {
            level = parent;
        }
        if !self.topic_kinds.contains(level) {
            match self.topic_kinds.len() < MAX_TOPIC_KINDS {
                true => drop(self.topic_kinds.insert(level.to_owned())),
                false => level = "others",
            }
        }
        // Behind the code a broker has words of its own.
        let reason = reason.split(':').next().unwrap_or(reason);
        FailureLog::kind_of(&format!("{what} {level} {reason}"))
    }

    /// The broker with this number does not have `feature`.
    pub fn leave_out(&mut self, broker: usize, feature: Feature) {
        self.known[broker].leave_out(feature);
        self.log_missing(broker, feature);
    }

    /// Logs once what the broker with this number does not have.
    pub fn log_missing(&mut self, broker: usize, feature: Feature) {
        if self.known[broker].log(feature) {
            log::warn!(
                "the MQTT broker does not have all that is used, which goes on without: {}",
                feature.missing()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_denied_topics_are_logged_in_few_lines() {
        let mut memory = Memory::new(1);
        let mut lines = 0;
        for letter in ('a'..='z').chain('a'..='z') {
            for topic in [
                format!("jetwatch/gate/door/counts/{letter}"),
                format!("gate/{letter}"),
            ] {
                let kind = memory.kind_of(&topic, "the broker refuses it", "0x87: not authorized");
                lines += usize::from(memory.is_logged(&kind).is_some());
            }
        }
        assert_eq!(lines, MAX_TOPIC_KINDS + 1);
    }
}
