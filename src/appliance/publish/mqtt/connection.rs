// SPDX-License-Identifier: Apache-2.0
//! An open MQTT connection: bytes to packets and back, and the error text of its end. Independent of message contents.

use std::collections::HashMap;
use std::time::Duration;

use bytes::BytesMut;
use jetwatch_mqtt::{
    Filters, Packet, Properties, Property, Protocol, Publish, QoS, Subscribe, SubscribeOptions,
    decode,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use super::known::Features;
use super::outbox::SUBSCRIBE_ID;
use crate::PublishError;
use crate::reaction::Feature;

/// Largest packet accepted from a broker; a publisher receives only short replies, a subscriber whole messages.
pub(crate) const MAX_PACKET_BYTES: usize = 1 << 20;

/// Numbers of topics that are kept; a broker may send anything.
const MAX_ALIASES: usize = 1024;

/// Least room for one read.
const READ_BYTES: usize = 4096;

/// An open connection, accepted by the broker.
pub(crate) struct Connection {
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// Bytes that were read beyond the last packet.
    pub pending: BytesMut,
    pub protocol: Protocol,
    /// Topics by the numbers that the broker has given them, which it is not asked to do.
    pub aliases: HashMap<u32, String>,
    /// Keep-alive, as set by the broker.
    pub keep_alive: Duration,
    /// The broker's receive maximum, in unacknowledged messages.
    pub receive_maximum: usize,
    /// The broker's largest packet, in bytes.
    pub max_packet_bytes: usize,
    /// What the broker does not have.
    pub without: Features,
    /// Filters may have wildcards.
    pub has_wildcards: bool,
    /// Whether it takes messages of QoS 2.
    pub has_qos2: bool,
    /// The client id, as assigned by the broker where it has done so.
    pub client_id: String,
    /// For error texts.
    pub address: String,
}

impl Connection {
    /// Reads one packet. Cancel-safe: no byte is lost.
    pub async fn read(&mut self) -> Result<Packet, PublishError> {
        loop {
            if let Some(packet) = self.buffered()? {
                return Ok(packet);
            }
            self.pending.reserve(READ_BYTES);
            match self.reader.read_buf(&mut self.pending).await {
                Ok(0) => return Err(self.closed("the broker closed it")),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    // Of TLS, such as an alert.
                    return Err(self.lost(error));
                }
                Err(error) => return Err(self.closed(error)),
            }
        }
    }

    /// The next packet of what was read already.
    pub fn buffered(&mut self) -> Result<Option<Packet>, PublishError> {
        let mut packet = decode(&mut self.pending, self.protocol, MAX_PACKET_BYTES)
            .map_err(|error| self.lost(format!("{error}; does an MQTT broker listen there?")))?;
        if let Some(Packet::Publish(publish)) = &mut packet {
            self.resolve(publish);
        }
        Ok(packet)
    }

    /// Gives a message that has the number of a topic in its place the topic. Some brokers send such messages although CONNECT has not
    /// allowed any number.
    fn resolve(&mut self, publish: &mut Publish) {
        let Some(alias) = publish.properties.number(Property::TOPIC_ALIAS) else {
            return;
        };
        if publish.topic.is_empty() {
            if let Some(topic) = self.aliases.get(&alias) {
                publish.topic = topic.as_str().into();
            }
        } else if self.aliases.len() < MAX_ALIASES || self.aliases.contains_key(&alias) {
            self.aliases.insert(alias, publish.topic.to_string());
        }
    }

    /// Writes one packet, within `limit`.
    pub async fn send(&mut self, packet: &Packet, limit: Duration) -> Result<(), PublishError> {
        let mut buffer = BytesMut::new();
        packet
            .encode(self.protocol, &mut buffer)
            .map_err(|error| self.lost(error))?;
        self.write(&buffer, limit).await
    }

    /// Asks for what matches `filters`, within `limit`; the answer is to be read.
    pub async fn subscribe<'a>(
        &mut self,
        filters: impl Iterator<Item = &'a str>,
        qos: QoS,
        limit: Duration,
    ) -> Result<(), PublishError> {
        let filters = filters.map(|filter| (filter, SubscribeOptions::new(qos)));
        let subscribe = Packet::Subscribe(Subscribe {
            id: SUBSCRIBE_ID,
            filters: Filters::new(filters).map_err(|error| self.lost(error))?,
            properties: Default::default(),
        });
        self.send(&subscribe, limit).await
    }

    /// Subscribes to `filters`, as far as the broker has wildcards, and waits for the answer; `early` is called for messages that come before it,
    /// as the standard allows. Returns the filters that the broker refuses.
    ///
    /// # Errors
    /// All are refused, or the connection ends.
    pub async fn subscribe_to_all<'f>(
        &mut self,
        filters: &[&'f str],
        qos: QoS,
        limit: Duration,
        mut early: impl FnMut(Publish),
    ) -> Result<Vec<&'f str>, PublishError> {
        let is_possible = |filter: &&str| self.has_wildcards || !filter.contains(['+', '#']);
        let (asked, mut refused): (Vec<&str>, Vec<&str>) =
            filters.iter().partition(|f| is_possible(f));
        let latest = Instant::now() + limit;
        let mut is_open = !asked.is_empty();
        if is_open {
            self.subscribe(asked.iter().copied(), qos, limit).await?;
        }
        while is_open {
            let answer = timeout_at(latest, self.read()).await;
            match answer.map_err(|_| PublishError::Timeout {
                address: self.address.clone(),
                step: "subscribing",
                waited: limit,
            })?? {
                Packet::SubAck(answer) => {
                    let answers = asked.iter().zip(answer.codes());
                    let errors = answers.filter(|(_, code)| code.is_error());
                    refused.extend(errors.map(|(filter, _)| filter));
                    is_open = false;
                }
                // A broker that never stops must not make this endless.
                Packet::Publish(publish) if Instant::now() < latest => early(publish),
                other => {
                    return Err(self.lost(format!("it answered SUBSCRIBE with {}", other.name())));
                }
            }
        }
        match refused.len() < filters.len() {
            true => Ok(refused),
            false => Err(PublishError::SubscriptionRefused {
                address: self.address.clone(),
                filter: refused.join("', '"),
            }),
        }
    }

    /// Writes whole packets, within `limit`.
    pub async fn write(&mut self, packets: &[u8], limit: Duration) -> Result<(), PublishError> {
        let write = async {
            self.writer.write_all(packets).await?;
            self.writer.flush().await
        };
        match timeout(limit, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.closed(error)),
            Err(_) => Err(PublishError::Timeout {
                address: self.address.clone(),
                step: "taking data",
                waited: limit,
            }),
        }
    }

    /// Ends the connection. What was to be done is done: a failure is harmless.
    pub async fn disconnect(&mut self, limit: Duration) {
        let _ = self
            .send(&Packet::Disconnect(Default::default()), limit)
            .await;
    }

    /// Waits for a message on `topic`; what else comes is dropped.
    pub async fn wait_for(&mut self, topic: &str) -> Result<(), PublishError> {
        loop {
            if let Packet::Publish(publish) = self.read().await?
                && *publish.topic == *topic
            {
                return Ok(());
            }
        }
    }

    /// Takes in what CONNACK says of the broker.
    pub fn accept(&mut self, properties: &Properties) {
        let number = |property| properties.number(property);
        let is_missing = |property| number(property) == Some(0);
        // A longer one would let a broker that is gone be noticed late, and none at all is not a reason to stop asking.
        if let Some(seconds) = number(Property::SERVER_KEEP_ALIVE).filter(|&seconds| seconds > 0) {
            self.keep_alive = self.keep_alive.min(Duration::from_secs(seconds.into()));
        }
        if let Some(maximum) = number(Property::RECEIVE_MAXIMUM) {
            self.receive_maximum = maximum.max(1) as usize;
        }
        if let Some(bytes) = number(Property::MAXIMUM_PACKET_SIZE) {
            self.max_packet_bytes = bytes as usize;
        }
        if is_missing(Property::RETAIN_AVAILABLE) {
            self.without = self.without.with(Feature::Retain);
        }
        if is_missing(Property::MAXIMUM_QOS) {
            self.without = self.without.with(Feature::QoS1);
        }
        self.has_qos2 = number(Property::MAXIMUM_QOS).is_none();
        self.has_wildcards = !is_missing(Property::WILDCARD_SUBSCRIPTION_AVAILABLE);
        if let Some(id) = properties.text(Property::ASSIGNED_CLIENT_IDENTIFIER) {
            id.clone_into(&mut self.client_id);
        }
    }

    /// How the connection ended, as an error.
    pub fn lost(&self, reason: impl ToString) -> PublishError {
        PublishError::Lost {
            address: self.address.clone(),
            reason: reason.to_string(),
        }
    }

    fn closed(&self, reason: impl ToString) -> PublishError {
        PublishError::Closed {
            address: self.address.clone(),
            reason: reason.to_string(),
        }
    }
}
