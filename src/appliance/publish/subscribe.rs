//! A small subscriber that receives messages as any MQTT client does. Not part of the pipeline: it publishes and stores
//! nothing, and does not reconnect.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::BytesMut;
use crossbeam_channel::{Receiver, Sender, bounded};
use mqtt5::QoS;
use mqtt5::packet::Packet;
use mqtt5::packet::puback::PubAckPacket;
use mqtt5::packet::publish::PublishPacket;
use mqtt5::packet::subscribe::SubscribePacket;
use mqtt5::protocol::v5::properties::{PropertyId, PropertyValue};
use mqtt5::transport::packet_io::encode_packet_to_buffer;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::mqtt::connect::{ClientIdentity, connect_in_turn};
use super::mqtt::connection::{Connection, Protocol, lost};
use super::{PublishError, ReplyTo, mqtt};
use jetwatch_config::MqttConfig;

/// Messages queued for the caller; when the queue is full, the connection is read more slowly.
const QUEUE_CAPACITY: usize = 1024;
/// Timeout of each step of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether retained values are delivered.
#[derive(Clone, Copy, PartialEq)]
enum RetainedPolicy {
    Deliver,
    Ignore,
}

/// A message.
#[derive(Debug)]
pub(crate) struct Received {
    pub topic: String,
    pub payload: Vec<u8>,
    /// Where its sender wants a reply.
    pub reply_to: Option<ReplyTo>,
}

impl From<PublishPacket> for Received {
    fn from(packet: PublishPacket) -> Self {
        let topic = match packet.properties.get(PropertyId::ResponseTopic) {
            Some(PropertyValue::Utf8String(topic)) => Some(topic.clone()),
            _ => None,
        };
        let correlation = match packet.properties.get(PropertyId::CorrelationData) {
            Some(PropertyValue::BinaryData(data)) => Some(data.to_vec().into_boxed_slice()),
            _ => None,
        };
        Self {
            topic: packet.topic_name,
            payload: packet.payload.to_vec(),
            reply_to: topic.map(|topic| ReplyTo { topic, correlation }),
        }
    }
}

/// A subscription that runs until it is dropped or the broker goes away.
#[derive(Debug)]
pub struct Subscriber {
    messages: Receiver<Received>,
    stop: Arc<Notify>,
    ended: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Subscriber {
    /// Connects to the broker of `config` under a client id of its own and subscribes to `filter` with QoS 1. Returns
    /// when the broker has confirmed the subscription: what is published from then on arrives.
    ///
    /// # Errors
    /// As for [`probe`](super::probe), and when the subscription is refused.
    pub fn start(config: &MqttConfig, filter: &str) -> Result<Self, PublishError> {
        Self::start_with(config, filter, &[], RetainedPolicy::Deliver).map(|(started, _)| started)
    }

    /// As [`start`](Self::start), without retained values: only what is published from then on.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_fresh(config: &MqttConfig, filter: &str) -> Result<Self, PublishError> {
        Self::start_with(config, filter, &[], RetainedPolicy::Ignore).map(|(started, _)| started)
    }

    /// As [`start_fresh`](Self::start_fresh), also for the filters `others`; returns those of them that the broker refuses.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn start_fresh_with<'f>(
        config: &MqttConfig,
        filter: &str,
        others: &'f [String],
    ) -> Result<(Self, Vec<&'f str>), PublishError> {
        Self::start_with(config, filter, others, RetainedPolicy::Ignore)
    }

    fn start_with<'f>(
        config: &MqttConfig,
        filter: &str,
        others: &'f [String],
        retained: RetainedPolicy,
    ) -> Result<(Self, Vec<&'f str>), PublishError> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let client_id = format!(
            "{}-subscribe-{}-{number}",
            config.client_id,
            std::process::id()
        );
        let runtime = mqtt::runtime("mqtt-subscribe")?;
        let (mut link, refused) = runtime.block_on(async {
            let identity = ClientIdentity {
                client_id,
                will: None,
                protocol: None,
            };
            let brokers = config.for_each_broker();
            let (mut link, _) = connect_in_turn(&brokers, 0, &identity, CONNECT_TIMEOUT).await?;
            let refused = subscribe_to_all(&mut link, filter, others).await?;
            Ok::<_, PublishError>((link, refused))
        })?;
        let (sender, messages) = bounded(QUEUE_CAPACITY);
        let stop = Arc::new(Notify::new());
        let ended = Arc::new(Mutex::new(None));
        let (stop_here, ended_here) = (Arc::clone(&stop), Arc::clone(&ended));
        let thread = std::thread::Builder::new()
            .name("mqtt-subscribe".to_owned())
            .spawn(move || {
                let result = runtime.block_on(async {
                    tokio::select! {
                        result = receive(&mut link, &sender, retained) => result,
                        () = stop_here.notified() => {
                            // A failed DISCONNECT is harmless.
                            let _ = link.write(&[0xe0, 0], Duration::from_secs(1)).await;
                            Ok(())
                        }
                    }
                });
                runtime.shutdown_background();
                if let Err(error) = result {
                    *ended_here.lock() = Some(error.to_string());
                }
            })
            .map_err(|source| PublishError::Thread {
                name: "mqtt-subscribe",
                source,
            })?;
        let subscriber = Self {
            messages,
            stop,
            ended,
            thread: Some(thread),
        };
        Ok((subscriber, refused))
    }

    /// The next message as topic and payload, retained values first; `None` when none came in time or the connection ended.
    #[must_use]
    pub fn recv_timeout(&self, limit: Duration) -> Option<(String, Vec<u8>)> {
        self.next(limit)
            .map(|received| (received.topic, received.payload))
    }

    /// As [`recv_timeout`](Self::recv_timeout), with where the sender wants a reply.
    pub(crate) fn next(&self, limit: Duration) -> Option<Received> {
        self.messages.recv_timeout(limit).ok()
    }

    /// Why the connection ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        self.ended.lock().clone()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.stop.notify_one();
        // Draining the channel unblocks a thread that waits for space in it.
        self.messages = crossbeam_channel::never();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) async fn subscribe(link: &mut Connection, filter: &str) -> Result<(), PublishError> {
    subscribe_to_all(link, filter, &[]).await.map(drop)
}

/// Subscribes to `filter` and to `others`; returns those of the others that the broker refuses.
async fn subscribe_to_all<'f>(
    link: &mut Connection,
    filter: &str,
    others: &'f [String],
) -> Result<Vec<&'f str>, PublishError> {
    let mut packet = match link.protocol {
        Protocol::V5 => SubscribePacket::new(1),
        Protocol::V311 => SubscribePacket::new_v311(1),
    };
    packet = packet.add_filter(filter, QoS::AtLeastOnce);
    for other in others {
        packet = packet.add_filter(other, QoS::AtLeastOnce);
    }
    send(link, &Packet::Subscribe(packet)).await?;
    let timed_out = PublishError::Timeout {
        address: link.address.clone(),
        step: "subscribing",
        waited: CONNECT_TIMEOUT,
    };
    // Only SUBACK can come first: mosquitto and the embedded broker send retained values after it.
    match timeout(CONNECT_TIMEOUT, link.read())
        .await
        .map_err(|_| timed_out)??
    {
        Packet::SubAck(answer)
            if answer
                .reason_codes
                .first()
                .is_some_and(|code| code.is_success()) =>
        {
            let answers = others.iter().zip(answer.reason_codes.iter().skip(1));
            let refused = answers.filter(|(_, code)| !code.is_success());
            Ok(refused.map(|(filter, _)| filter.as_str()).collect())
        }
        Packet::SubAck(_) => Err(PublishError::SubscriptionRefused {
            address: link.address.clone(),
            filter: filter.to_owned(),
        }),
        other => {
            let reason = format!("it answered SUBSCRIBE with {}", other.packet_type_name());
            Err(PublishError::Lost {
                address: link.address.clone(),
                reason,
            })
        }
    }
}

async fn receive(
    link: &mut Connection,
    sender: &Sender<Received>,
    retained: RetainedPolicy,
) -> Result<(), PublishError> {
    let mut ping = Instant::now() + link.keep_alive;
    let mut answered = true;
    loop {
        tokio::select! {
            packet = link.read() => {
                answered = true;
                match packet? {
                    Packet::Publish(publish) => {
                        let id = publish.packet_id;
                        // Blocks only this thread while the caller is slow: that is the back-pressure. An error: the caller is gone.
                        if (retained == RetainedPolicy::Deliver || !publish.retain)
                            && sender.send(publish.into()).is_err()
                        {
                            return Ok(());
                        }
                        if let Some(id) = id {
                            // A closed connection may have data left to read: read to its end.
                            let _ = send(link, &Packet::PubAck(PubAckPacket::new(id))).await;
                        }
                    }
                    Packet::PingResp => {}
                    other => {
                        let reason = format!("the broker sent {}", other.packet_type_name());
                        return Err(PublishError::Lost { address: link.address.clone(), reason });
                    }
                }
            }
            () = sleep_until(ping) => {
                if !answered {
                    let (address, waited) = (link.address.clone(), link.keep_alive);
                    return Err(PublishError::Timeout { address, step: "answering a ping", waited });
                }
                send(link, &Packet::PingReq).await?;
                answered = false;
                ping = Instant::now() + link.keep_alive;
            }
        }
    }
}

async fn send(link: &mut Connection, packet: &Packet) -> Result<(), PublishError> {
    let mut buffer = BytesMut::new();
    encode_packet_to_buffer(packet, &mut buffer).map_err(|error| lost(&link.address, &error))?;
    link.write(&buffer, CONNECT_TIMEOUT).await
}
