// SPDX-License-Identifier: Apache-2.0
//! Values retained by the broker below this device's topics from an earlier run: read once, on a separate connection, so
//! that a refusal by the broker does not affect the publishing client.

use std::collections::HashSet;
use std::time::Duration;

use jetwatch_mqtt::{Packet, Publish, QoS};
use tokio::time::{Instant, timeout_at};

use super::connect::{ClientIdentity, connect};
use super::connection::Connection;
use super::known::Known;
use crate::PublishError;
use jetwatch_config::MqttConfig;

/// Timeout of each step of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// MQTT has no end marker for retained values; after this long without one, the list is complete.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time for reading values, however many there are.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Most values read: far more than 64 sources have.
const MAX_MESSAGES: usize = 16_384;
/// Filters of one SUBSCRIBE: AWS IoT takes no more.
const MAX_FILTERS: usize = 8;
/// Longest value accepted; those of this program are shorter.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// A topic and its retained value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RetainedMessage {
    pub topic: String,
    pub value: Vec<u8>,
}

/// Result of the reading.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RetainedSnapshot {
    pub messages: Vec<RetainedMessage>,
    /// Topics on which something was published meanwhile: another client publishes there.
    pub published_meanwhile: HashSet<String>,
}

/// Reads the values retained for the topics that match `filters`; takes about two seconds. Nothing is published.
///
/// # Errors
/// The broker refuses the connection or every subscription, or the connection ends early.
pub(super) async fn read(
    config: &MqttConfig,
    known: &mut Known,
    filters: &[String],
) -> Result<RetainedSnapshot, PublishError> {
    let client_id = format!("{}-kept-{}", config.client_id, std::process::id());
    let identity = ClientIdentity::new(client_id);
    let mut link = connect(config, &identity, known, CONNECT_TIMEOUT).await?;
    let mut found = RetainedSnapshot::default();
    let mut refused = Ok(());
    let mut is_allowed = false;
    let filters: Vec<&str> = filters.iter().map(String::as_str).collect();
    for filters in filters.chunks(MAX_FILTERS) {
        // QoS 0: all values arrive at once, without acknowledgement.
        let (qos, limit) = (QoS::AtMostOnce, CONNECT_TIMEOUT);
        let early = |publish: Publish| {
            found.add(&publish);
        };
        match link.subscribe_to_all(filters, qos, limit, early).await {
            // Some of the filters are better than none.
            Ok(_) => is_allowed = true,
            Err(error @ PublishError::SubscriptionRefused { .. }) => refused = Err(error),
            Err(error) => return Err(error),
        }
    }
    if !is_allowed {
        refused?;
    }
    let received = receive(&mut link, &mut found).await;
    link.disconnect(IDLE_TIMEOUT).await;
    received.map(|()| found)
}

impl RetainedSnapshot {
    /// Takes out the messages whose topics begin with `prefix`.
    pub fn take_below(&mut self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let is_below = |message: &RetainedMessage| message.topic.starts_with(prefix);
        let (taken, rest) = self.messages.drain(..).partition(is_below);
        self.messages = rest;
        let taken: Vec<RetainedMessage> = taken;
        let pair = |message: RetainedMessage| (message.topic, message.value);
        taken.into_iter().map(pair).collect()
    }

    /// Takes in a message; returns whether it is a retained value.
    fn add(&mut self, publish: &Publish) -> bool {
        match publish.retain {
            true if publish.payload.len() <= MAX_VALUE_BYTES
                && self.messages.len() < MAX_MESSAGES =>
            {
                self.messages.push(RetainedMessage {
                    topic: publish.topic.as_ref().to_owned(),
                    value: publish.payload.to_vec(),
                })
            }
            false if self.published_meanwhile.len() < MAX_MESSAGES => {
                let topic = publish.topic.as_ref().to_owned();
                self.published_meanwhile.insert(topic);
            }
            _ => {}
        }
        publish.retain
    }
}

async fn receive(link: &mut Connection, found: &mut RetainedSnapshot) -> Result<(), PublishError> {
    let latest = Instant::now() + READ_TIMEOUT;
    let mut idle_deadline = Instant::now() + IDLE_TIMEOUT;
    // Checked here as well: while others publish without a pause, reading never blocks.
    while found.messages.len() < MAX_MESSAGES && Instant::now() < idle_deadline.min(latest) {
        let Ok(packet) = timeout_at(idle_deadline.min(latest), link.read()).await else {
            break;
        };
        match packet? {
            // Live messages do not extend the wait.
            Packet::Publish(publish) => {
                if found.add(&publish) {
                    idle_deadline = Instant::now() + IDLE_TIMEOUT;
                }
            }
            Packet::PingResp => {}
            other => return Err(link.lost(format!("the broker sent {}", other.name()))),
        }
    }
    Ok(())
}
