// SPDX-License-Identifier: Apache-2.0
//! The sink of one item of `publish.mqtt.also`: a [`Format`] and a client of its own, so that nothing here delays or displaces our
//! own messages. It has no spool: what waits is in memory.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::client::Client;
use super::message::{Importance, Message};
use super::outbox::Outbox;
use super::session::{Availability, OFFLINE, ONLINE};
use super::shared::Shared;
use super::worker::Worker;
use crate::{
    Format, FormatDelivery, FormatMessage, Publication, PublishError, Sink, SinkCounts, SourceInfo,
};
use jetwatch_config::{FormatConfig, FormatKind, MqttConfig};
use jetwatch_telemetry::{Heartbeats, thread_names};

/// Payload of the availability topic after a clean end.
const STOPPED: &str = "stopped";

/// The key that limits the queue.
const QUEUE_KEY: &str = "publish.mqtt.also[].queue_messages";

/// The sink that publishes in the shape of another system.
pub struct FormatSink {
    format: Box<dyn Format>,
    shared: Arc<Shared>,
    client: Client,
    /// Messages of one call.
    messages: Vec<FormatMessage>,
}

impl FormatSink {
    /// Starts a client like that of `mqtt`, with another client id, and returns at once. `format` is the shape of `config`, and
    /// `same` items of that format are before it.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        mqtt: &MqttConfig,
        config: &FormatConfig,
        same: usize,
        format: Box<dyn Format>,
        heartbeats: &Heartbeats,
    ) -> Result<Self, PublishError> {
        let mqtt = MqttConfig {
            client_id: mqtt.client_id.clone() + &config.client_suffix(same),
            ..mqtt.clone()
        };
        let mut outbox = Outbox::new(config.queue_messages);
        let availability = format.availability().map(|topic| Availability {
            topic,
            offline: OFFLINE,
            stopped: STOPPED,
        });
        if let Some(Availability { topic, .. }) = &availability {
            // Set first, so that it is sent first on every connection.
            let online = Bytes::from_static(ONLINE.as_bytes());
            outbox.set_internal_state(Message::new(Arc::clone(topic), online));
        }
        let shared = Arc::new(Shared::new(outbox, None));
        let worker = Worker {
            brokers: mqtt.for_each_broker(),
            shared: Arc::clone(&shared),
            availability,
            retained_filters: Vec::new(),
            queue_key: QUEUE_KEY,
            discovery: None,
            protocol: None,
        };
        let name = match config.format {
            FormatKind::Frigate => thread_names::MQTT_FRIGATE,
            FormatKind::DeepStream => thread_names::MQTT_DEEPSTREAM,
        };
        Ok(Self {
            format,
            client: Client::start(name, worker, heartbeats)?,
            shared,
            messages: Vec::new(),
        })
    }

    /// Queues what `encode` appends to the list of messages.
    fn queue(&mut self, encode: impl FnOnce(&mut dyn Format, &mut Vec<FormatMessage>)) {
        encode(&mut *self.format, &mut self.messages);
        if self.messages.is_empty() {
            return;
        }
        let mut overflows = false;
        let mut outbox = self.shared.outbox();
        for FormatMessage {
            topic,
            payload,
            delivery,
        } in self.messages.drain(..)
        {
            let importance = match delivery {
                FormatDelivery::Update | FormatDelivery::Last => Importance::Update,
                _ => Importance::Essential,
            };
            let message = Message {
                importance,
                ..Message::new(topic, payload.into())
            };
            match delivery {
                FormatDelivery::Event | FormatDelivery::Update => overflows |= outbox.push(message),
                FormatDelivery::Latest => outbox.set_latest(message),
                FormatDelivery::Last => {
                    outbox.forget(&message.topic);
                    overflows |= outbox.push(message);
                }
                FormatDelivery::BestEffort => outbox.push_best_effort(message),
            }
        }
        let is_connected = outbox.is_connected();
        drop(outbox);
        if overflows {
            log::warn!(
                "the queue of MQTT messages of another format is full ({QUEUE_KEY}): updates of tracks are dropped, then the oldest \
                 messages, until the broker takes messages again"
            );
        }
        if is_connected {
            self.shared.wake.notify_one();
        }
    }
}

impl Sink for FormatSink {
    fn name(&self) -> String {
        self.client.name().to_owned()
    }

    fn publish(&mut self, record: &Publication<'_>) {
        self.queue(|format, out| format.encode(record, SystemTime::now(), out));
    }

    fn source_added(&mut self, source: &SourceInfo) {
        self.queue(|format, out| format.source_added(source, out));
    }

    fn source_removed(&mut self, source: &str) {
        self.queue(|format, out| format.source_removed(source, SystemTime::now(), out));
    }

    fn needs_frames(&self) -> bool {
        self.format.needs_frames()
    }

    fn counts(&self) -> SinkCounts {
        self.shared.counts()
    }

    fn max_payload_bytes(&self) -> usize {
        self.shared.max_payload_bytes()
    }

    fn close(mut self: Box<Self>, deadline: Duration) -> SinkCounts {
        self.queue(|format, out| format.finish(SystemTime::now(), out));
        self.client.close(deadline);
        self.counts()
    }
}

impl Drop for FormatSink {
    /// A sink that was not closed disconnects without DISCONNECT: the broker publishes the last will.
    fn drop(&mut self) {
        if self.client.is_open() {
            self.client.close(Duration::ZERO);
        }
    }
}
