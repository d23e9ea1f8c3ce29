//! What the broker has kept below this device's topics from an earlier run: read once, on a connection of its own, so that a
//! broker that minds says so there and not to the client that publishes.

use std::collections::HashSet;
use std::time::Duration;

use bytes::BytesMut;
use mqtt5::QoS;
use mqtt5::packet::Packet;
use mqtt5::packet::publish::PublishPacket;
use mqtt5::packet::subscribe::SubscribePacket;
use mqtt5::transport::packet_io::encode_packet_to_buffer;
use tokio::time::{Instant, timeout_at};

use super::connect::{ClientIdentity, connect};
use super::connection::{Connection, Protocol, lost};
use crate::PublishError;
use jetwatch_config::MqttConfig;

/// Longest time of each step of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Nothing says which value is the last; after this long without one, it was.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest that values are read, however many there are.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Most values taken: far more than 64 sources have.
const MAX_MESSAGES: usize = 16_384;
/// Longest value taken; those of this program's own are shorter.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// A topic and the value that the broker has kept for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RetainedMessage {
    pub topic: String,
    pub value: Vec<u8>,
}

/// What was read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RetainedSnapshot {
    pub messages: Vec<RetainedMessage>,
    /// Topics at which something was published meanwhile: whoever did is there.
    pub published_meanwhile: HashSet<String>,
}

/// Reads the values kept for the topics that match `filters`, in two seconds or a few. Nothing is published.
///
/// # Errors
/// The broker lets this client neither in nor read any of them, or goes away meanwhile.
pub(super) async fn read(
    config: &MqttConfig,
    filters: &[String],
) -> Result<RetainedSnapshot, PublishError> {
    let identity = ClientIdentity {
        client_id: format!("{}-kept-{}", config.client_id, std::process::id()),
        will: None,
    };
    let mut link = connect(config, &identity, CONNECT_TIMEOUT).await?;
    let mut found = RetainedSnapshot::default();
    subscribe(&mut link, filters, &mut found).await?;
    let received = receive(&mut link, &mut found).await;
    // The goodbye is a courtesy.
    let _ = link.write(&[0xe0, 0], IDLE_TIMEOUT).await;
    received.map(|()| found)
}

impl RetainedSnapshot {
    /// Takes in a message; whether it is a kept value.
    fn add(&mut self, publish: &PublishPacket) -> bool {
        match publish.retain {
            true if publish.payload.len() <= MAX_VALUE_BYTES => {
                self.messages.push(RetainedMessage {
                    topic: publish.topic_name.clone(),
                    value: publish.payload.to_vec(),
                })
            }
            false if self.published_meanwhile.len() < MAX_MESSAGES => {
                self.published_meanwhile.insert(publish.topic_name.clone());
            }
            _ => {}
        }
        publish.retain
    }
}

async fn subscribe(
    link: &mut Connection,
    filters: &[String],
    found: &mut RetainedSnapshot,
) -> Result<(), PublishError> {
    let mut packet = match link.protocol {
        Protocol::V5 => SubscribePacket::new(1),
        Protocol::V311 => SubscribePacket::new_v311(1),
    };
    for filter in filters {
        // Unacknowledged: all of them come at once.
        packet = packet.add_filter(filter, QoS::AtMostOnce);
    }
    let mut buffer = BytesMut::new();
    encode_packet_to_buffer(&Packet::Subscribe(packet), &mut buffer)
        .map_err(|error| lost(&link.address, &error))?;
    link.write(&buffer, CONNECT_TIMEOUT).await?;
    let address = link.address.clone();
    let latest = Instant::now() + CONNECT_TIMEOUT;
    let mut answer = timeout_at(latest, link.read()).await;
    // A broker may send what matches before it answers.
    while let Ok(Ok(Packet::Publish(publish))) = &answer
        && found.messages.len() < MAX_MESSAGES
        && Instant::now() < latest
    {
        found.add(publish);
        answer = timeout_at(latest, link.read()).await;
    }
    match answer {
        Ok(Ok(Packet::SubAck(answer))) => {
            // What it does let be read is better than nothing.
            match answer.reason_codes.iter().any(|code| code.is_success()) {
                true => Ok(()),
                false => Err(PublishError::SubscriptionRefused {
                    address,
                    filter: filters.join("', '"),
                }),
            }
        }
        Ok(Ok(other)) => Err(PublishError::Lost {
            address,
            reason: format!("it answered SUBSCRIBE with {}", other.packet_type_name()),
        }),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(PublishError::Timeout {
            address,
            step: "subscribing",
            waited: CONNECT_TIMEOUT,
        }),
    }
}

async fn receive(link: &mut Connection, found: &mut RetainedSnapshot) -> Result<(), PublishError> {
    let latest = Instant::now() + READ_TIMEOUT;
    let mut idle_deadline = Instant::now() + IDLE_TIMEOUT;
    // Looked at here as well: while others publish without a pause, reading never waits.
    while found.messages.len() < MAX_MESSAGES && Instant::now() < idle_deadline.min(latest) {
        let Ok(packet) = timeout_at(idle_deadline.min(latest), link.read()).await else {
            break;
        };
        match packet? {
            // Others are no reason to wait longer.
            Packet::Publish(publish) => {
                if found.add(&publish) {
                    idle_deadline = Instant::now() + IDLE_TIMEOUT;
                }
            }
            Packet::PingResp => {}
            other => {
                return Err(PublishError::Lost {
                    address: link.address.clone(),
                    reason: format!("the broker sent {}", other.packet_type_name()),
                });
            }
        }
    }
    Ok(())
}
