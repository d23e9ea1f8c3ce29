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

use super::dial::{Hello, dial};
use super::link::{Link, Protocol, lost};
use crate::PublishError;
use jetwatch_config::MqttConfig;

/// Longest time of each step of connecting.
const LIMIT: Duration = Duration::from_secs(10);
/// Nothing says which value is the last; after this long without one, it was.
const QUIET: Duration = Duration::from_secs(2);
/// Longest that values are read, however many there are.
const LONGEST: Duration = Duration::from_secs(10);
/// Most values taken: far more than 64 sources have.
const MOST: usize = 16_384;
/// Longest value taken; those of this program's own are shorter.
const LONGEST_VALUE: usize = 64 * 1024;

/// A topic and the value that the broker has kept for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    pub topic: String,
    pub value: Vec<u8>,
}

/// What was read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    pub kept: Vec<Kept>,
    /// Topics at which something was published meanwhile: whoever did is there.
    pub live: HashSet<String>,
}

/// Reads the values kept for the topics that match `filters`, in two seconds or a few. Nothing is published.
///
/// # Errors
/// The broker lets this client neither in nor read any of them, or goes away meanwhile.
pub(super) async fn read(config: &MqttConfig, filters: &[String]) -> Result<Found, PublishError> {
    let hello = Hello {
        client_id: format!("{}-kept-{}", config.client_id, std::process::id()),
        will: None,
    };
    let mut link = dial(config, &hello, LIMIT).await?;
    let mut found = Found::default();
    subscribe(&mut link, filters, &mut found).await?;
    let received = receive(&mut link, &mut found).await;
    // The goodbye is a courtesy.
    let _ = link.write(&[0xe0, 0], QUIET).await;
    received.map(|()| found)
}

impl Found {
    /// Takes in a message; whether it is a kept value.
    fn take(&mut self, publish: &PublishPacket) -> bool {
        match publish.retain {
            true if publish.payload.len() <= LONGEST_VALUE => self.kept.push(Kept {
                topic: publish.topic_name.clone(),
                value: publish.payload.to_vec(),
            }),
            false if self.live.len() < MOST => {
                self.live.insert(publish.topic_name.clone());
            }
            _ => {}
        }
        publish.retain
    }
}

async fn subscribe(
    link: &mut Link,
    filters: &[String],
    found: &mut Found,
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
    link.write(&buffer, LIMIT).await?;
    let address = link.address.clone();
    let latest = Instant::now() + LIMIT;
    let mut answer = timeout_at(latest, link.read()).await;
    // A broker may send what matches before it answers.
    while let Ok(Ok(Packet::Publish(publish))) = &answer
        && found.kept.len() < MOST
        && Instant::now() < latest
    {
        found.take(publish);
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
            waited: LIMIT,
        }),
    }
}

async fn receive(link: &mut Link, found: &mut Found) -> Result<(), PublishError> {
    let latest = Instant::now() + LONGEST;
    let mut quiet = Instant::now() + QUIET;
    // Looked at here as well: while others publish without a pause, reading never waits.
    while found.kept.len() < MOST && Instant::now() < quiet.min(latest) {
        let Ok(packet) = timeout_at(quiet.min(latest), link.read()).await else {
            break;
        };
        match packet? {
            // Others are no reason to wait longer.
            Packet::Publish(publish) => {
                if found.take(&publish) {
                    quiet = Instant::now() + QUIET;
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
