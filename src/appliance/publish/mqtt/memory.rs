// SPDX-License-Identifier: Apache-2.0
//! What a client remembers from one connection to the next: of its brokers, and for the log.

use std::time::Instant;

use super::best_effort::BestEffort;
use super::known::Known;
use super::outbox::GivenUp;
use crate::reaction::Feature;
use jetwatch_telemetry::FailureLog;

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
        // Sources and tracks are many; what ends in the same level is of one kind.
        let level = topic.rsplit('/').next().unwrap_or(topic);
        // Behind the code a broker has words of its own.
        let reason_kind = reason.split(':').next().unwrap_or(reason);
        let reason_kind: String = reason_kind
            .chars()
            .filter(|c| !c.is_ascii_digit())
            .collect();
        let kind = format!("{what} {level} {reason_kind}");
        if let Some(repeats) = self.is_logged(&kind) {
            let topic = &**topic;
            log::error!(topic, bytes, repeats; "a message is dropped, {what}: {reason}; check what the broker allows this user to publish, and its limits");
        }
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
