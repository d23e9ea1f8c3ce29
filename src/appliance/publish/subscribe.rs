// SPDX-License-Identifier: Apache-2.0
//! A small subscriber that receives messages as any MQTT client does. Not part of the pipeline: it publishes and stores
//! nothing, and does not reconnect.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use jetwatch_mqtt::{Ack, Packet, Property, Publish, QoS, ReasonCode};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::mqtt::connect::{ClientIdentity, connect_in_turn};
use super::mqtt::connection::Connection;
use super::mqtt::known::Known;
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

impl From<Publish> for Received {
    fn from(packet: Publish) -> Self {
        let correlation = packet.properties.binary(Property::CORRELATION_DATA);
        let response = packet.properties.text(Property::RESPONSE_TOPIC);
        Self {
            topic: packet.topic.as_ref().to_owned(),
            payload: packet.payload.to_vec(),
            reply_to: response.map(|topic| ReplyTo {
                topic: topic.to_owned(),
                correlation: correlation.map(Box::from),
            }),
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

    /// As [`start`](Self::start), also for the filters `others`, and without retained values: only what is published from then on. Returns
    /// the filters that the broker refuses.
    ///
    /// # Errors
    /// As [`start`](Self::start), where all are refused.
    pub(crate) fn start_fresh_with<'f>(
        config: &MqttConfig,
        filter: &'f str,
        others: &'f [String],
    ) -> Result<(Self, Vec<&'f str>), PublishError> {
        Self::start_with(config, filter, others, RetainedPolicy::Ignore)
    }

    fn start_with<'f>(
        config: &MqttConfig,
        filter: &'f str,
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
        let all = std::iter::once(filter).chain(others.iter().map(String::as_str));
        let all: Vec<&str> = all.collect();
        let mut early = Vec::new();
        let keep = |publish| {
            if early.len() < QUEUE_CAPACITY {
                early.push(publish);
            }
        };
        let (mut link, refused) = runtime.block_on(async {
            let identity = ClientIdentity::new(client_id);
            let brokers = config.for_each_broker();
            let mut known = vec![Known::single(); brokers.len()];
            let connecting = connect_in_turn(&brokers, 0, &identity, &mut known, CONNECT_TIMEOUT);
            let (mut link, _) = connecting.await?;
            let qos = QoS::AtLeastOnce;
            let refused = link
                .subscribe_to_all(&all, qos, CONNECT_TIMEOUT, keep)
                .await?;
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
                        result = receive(&mut link, &sender, retained, early) => result,
                        () = stop_here.notified() => {
                            link.disconnect(Duration::from_secs(1)).await;
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

async fn receive(
    link: &mut Connection,
    sender: &Sender<Received>,
    retained: RetainedPolicy,
    early: Vec<Publish>,
) -> Result<(), PublishError> {
    let mut ping = Instant::now() + link.keep_alive;
    let mut answered = true;
    for publish in early {
        take(link, publish, sender, retained).await;
    }
    loop {
        tokio::select! {
            packet = link.read() => {
                answered = true;
                match packet? {
                    Packet::Publish(publish) => {
                        if !take(link, publish, sender, retained).await {
                            return Ok(());
                        }
                    }
                    Packet::PingResp => {}
                    other => return Err(link.lost(format!("the broker sent {}", other.name()))),
                }
            }
            () = sleep_until(ping) => {
                if !answered {
                    let (address, waited) = (link.address.clone(), link.keep_alive);
                    return Err(PublishError::Timeout { address, step: "answering a ping", waited });
                }
                link.send(&Packet::PingReq, CONNECT_TIMEOUT).await?;
                answered = false;
                ping = Instant::now() + link.keep_alive;
            }
        }
    }
}

/// Passes a message on; returns whether the caller is still there.
async fn take(
    link: &mut Connection,
    publish: Publish,
    sender: &Sender<Received>,
    retained: RetainedPolicy,
) -> bool {
    let id = publish.id;
    // Blocks only this thread while the caller is slow: that is the back-pressure. An error: the caller is gone.
    // Without a topic, the broker has given only a number that it has not explained.
    if (retained == RetainedPolicy::Deliver || !publish.retain)
        && !publish.topic.is_empty()
        && sender.send(publish.into()).is_err()
    {
        return false;
    }
    if id > 0 {
        let ack = Packet::PubAck(Ack::new(id, ReasonCode::SUCCESS));
        // A closed connection may have data left to read: read to its end.
        let _ = link.send(&ack, CONNECT_TIMEOUT).await;
    }
    true
}
