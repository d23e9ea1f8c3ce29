// SPDX-License-Identifier: Apache-2.0
//! The MQTT sink: a thread named `mqtt` with a client that loses no QoS 1 message while the process runs.
//!
//! A message of QoS 1 counts as delivered when the broker's PUBACK has arrived, not before; unacknowledged messages of a
//! broken connection are sent again, in order. While the broker is unavailable, messages wait in a bounded queue, together
//! with the newest value of each retained topic. The client uses MQTT 5.0, because only there a broker reports why it
//! refuses a message, and 3.1.1 with brokers without 5.0.
//!
//! ```text
//! accept() ──► Outbox ──► Session ──► broker      outbox: queues, pure       session: one connection
//! (pipeline)    ▲  (thread `mqtt`)     │         worker: reconnects      connect: address, TLS, login, packets
//!                └────── PUBACK ◄───────┘
//! ```

mod announcer;
pub(crate) mod backoff;
mod best_effort;
mod client;
pub(crate) mod connect;
pub(crate) mod connection;
mod format_sink;
mod hosted;
pub(crate) mod known;
mod memory;
mod message;
mod monitor;
mod outbox;
mod part;
mod probe;
mod refusal;
mod replay_pace;
mod retained;
mod retained_cleanup;
mod session;
mod shared;
mod spooler;
mod tls;
pub(crate) mod wall_clock;
mod worker;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tokio::sync::mpsc::unbounded_channel;

use self::announcer::Announcer;
use self::client::Client;
pub use self::format_sink::FormatSink;
pub use self::hosted::{DeliveryObserver, HostedClient, HostedLink, HostedOptions, SentMessage};
use self::message::Message;
pub use self::monitor::MqttMonitor;
use self::outbox::Outbox;
pub use self::part::Part;
pub use self::probe::{BrokerInfo, Rehearsal, RehearsalOptions, probe, rehearse};
use self::retained_cleanup::Cleanup;
use self::session::{Availability, OFFLINE, ONLINE};
use self::shared::Shared;
use self::spooler::Spooler;
pub(crate) use self::spooler::create_folders;
pub use self::spooler::spool_folders;
pub(crate) use self::tls::acceptor;
use self::worker::{Discovery, Worker};
use super::home_assistant::{HomeAssistant, HomeAssistantOptions, Observer};
use super::wire::bare_payload;
use super::{
    Delivery, Encoder, Publication, PublishError, Sink, SinkCounts, SourceInfo, SourceState,
    SpoolStats, Timestamp, Topics,
};
use jetwatch_config::{MqttConfig, Replay};
use jetwatch_spool::Spool;
use jetwatch_telemetry::{Heartbeat, Heartbeats, thread_names};
use jetwatch_types::Classes;

/// Reason in the `ended` state of a source that only an earlier run had.
const NOT_CONFIGURED_REASON: &str = "not in the configuration since the daemon's restart";

/// Heartbeat interval of the thread.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);

/// State of the connection to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// The first attempt is in progress.
    Connecting,
    /// The broker accepted the client.
    Connected,
    /// The last attempt or connection failed; it is tried again.
    Failed {
        /// The error and its remedy.
        reason: String,
        /// The broker or a credential was rejected: retries happen only every 30 s, as they succeed only after a change.
        refused: bool,
    },
}

/// Beats at each turn of the runtime. Waiting for the network lets it turn; a blocked task does not.
async fn send_heartbeats(heartbeat: &Heartbeat) {
    loop {
        heartbeat.busy();
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
    }
}

/// An async runtime for the thread `name`.
///
/// # Errors
/// The operating system gives no resources for it.
pub(super) fn runtime(name: &'static str) -> Result<tokio::runtime::Runtime, PublishError> {
    tokio::runtime::Builder::new_current_thread()
        .thread_name(name)
        .enable_io()
        .enable_time()
        .build()
        .map_err(|source| PublishError::Thread { name, source })
}

/// The sink that publishes to an MQTT broker.
#[derive(Debug)]
pub struct MqttSink {
    part: Part,
    shared: Arc<Shared>,
    encoder: Encoder,
    topics: Topics,
    /// The current sources.
    present: HashSet<String>,
    /// The values retained by the broker from an earlier run have not been checked yet.
    is_cleanup_pending: bool,
    client: Client,
    /// Messages of one call of `publish`.
    pending: Vec<Message>,
    spooler: Option<Spooler>,
    /// Late messages sent, and when that was counted.
    replayed: (u64, Instant),
    /// Where entities are announced.
    observer: Option<Observer>,
}

impl MqttSink {
    /// Starts the thread and returns at once: it connects in the background and retries without end. `labels` are the
    /// model's, in the order of their class numbers.
    ///
    /// With [`Broker::Embedded`](jetwatch_config::Broker::Embedded) this connects to the address given there; the broker itself is started by
    /// [`EmbeddedBroker::start`](super::EmbeddedBroker::start).
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        config: &MqttConfig,
        device: &str,
        labels: &[String],
    ) -> Result<Self, PublishError> {
        Self::start_with_heartbeat(
            config,
            device,
            &Classes::new(labels, &[]),
            &Heartbeats::default(),
            None,
            Part::Everything,
        )
    }

    /// As [`MqttSink::start`], with groups of labels, and the thread's heartbeat among `heartbeats`. An unavailable or slow broker is no stall.
    /// `home_assistant`: what is announced there, or withdrawn. Only the messages of `part` are published.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start_with_heartbeat(
        config: &MqttConfig,
        device: &str,
        classes: &Classes,
        heartbeats: &Heartbeats,
        home_assistant: Option<HomeAssistantOptions>,
        part: Part,
    ) -> Result<Self, PublishError> {
        let spool = part.has_events().then(|| spooler::open(config)).flatten();
        let (mut sink, worker) = Self::prepare(
            config,
            device,
            classes,
            spool.as_ref(),
            home_assistant,
            part,
        );
        sink.spooler = spool
            .map(|spool| Spooler::start(spool, &config.spool, Arc::clone(&sink.shared), heartbeats))
            .transpose()?;
        let name = match part {
            Part::States { .. } => thread_names::MQTT_STATES,
            _ => thread_names::MQTT,
        };
        sink.client = Client::start(name, worker, heartbeats)?;
        Ok(sink)
    }

    /// The sink without threads, and the worker that its thread runs.
    fn prepare(
        config: &MqttConfig,
        device: &str,
        classes: &Classes,
        spool: Option<&Spool>,
        home_assistant: Option<HomeAssistantOptions>,
        part: Part,
    ) -> (Self, Worker) {
        let topics = Topics::new(&config.prefix, device, classes);
        let mut outbox = Outbox::new(config.queue_messages);
        let (id, first_seq) = spool.map_or_else(
            || (jetwatch_spool::random_id(), 1),
            |spool| (spool.id(), spool.next_seq()),
        );
        if part.has_events() {
            outbox.number_from(id, first_seq);
        }
        if let Some(spool) = spool {
            let newest_first = config.spool.replay == Replay::NewestFirst;
            outbox.use_spool(spool.acked(), newest_first);
            if let Some(gap) = spool.kept_gap() {
                outbox.add_gap(gap);
            }
        }
        let (discovery, observer) = match home_assistant {
            Some(options) => {
                let is_enabled = options.config.enabled;
                let (facts, received) = unbounded_channel();
                let has_spool = match part {
                    Part::States { has_spool, .. } => has_spool,
                    _ => spool.is_some(),
                };
                let state = HomeAssistant::new(options, &config.prefix, device, classes, has_spool);
                let discovery = Discovery {
                    prefix: state.topic_prefix(),
                    filter: state.filter(),
                    birth_topic: state.birth_topic(),
                    facts: facts.clone(),
                    announcer: Announcer::new(state, received),
                };
                let observer = is_enabled.then(|| Observer::new(facts, classes));
                (Some(discovery), observer)
            }
            None => (None, None),
        };
        let mut encoder = Encoder::new(device, classes);
        let gap_encoder = part
            .has_events()
            .then(|| (encoder.clone(), Arc::clone(topics.gap())));
        if part.has_events() {
            encoder.number_from(id, first_seq);
        }
        // Set first, so that it is sent first on every connection.
        let online = Bytes::from_static(ONLINE.as_bytes());
        outbox.set_internal_state(Message::new(Arc::clone(topics.status()), online));
        let shared = Arc::new(Shared::new(outbox, gap_encoder));
        let retained_filters = match part.has_states() {
            true => topics.retained_filters().into(),
            false => Vec::new(),
        };
        let worker = Worker {
            brokers: config.for_each_broker(),
            shared: Arc::clone(&shared),
            availability: Some(Availability {
                topic: Arc::clone(topics.status()),
                offline: OFFLINE,
                stopped: OFFLINE,
            }),
            retained_filters,
            queue_key: "publish.mqtt.queue_messages",
            discovery,
            protocol: None,
        };
        let client = Client::hosted(thread_names::MQTT, Arc::clone(&shared));
        let sink = Self {
            part,
            shared,
            encoder,
            topics,
            present: HashSet::new(),
            is_cleanup_pending: false,
            client,
            pending: Vec::new(),
            spooler: None,
            replayed: (0, Instant::now()),
            observer,
        };
        (sink, worker)
    }

    /// A view of this sink's state.
    #[must_use]
    pub fn monitor(&self) -> MqttMonitor {
        MqttMonitor::new(Arc::clone(&self.shared))
    }

    /// Cleans up values retained from an earlier run, once they were read.
    fn clean_up_retained(&mut self) {
        let Some(mut found) = self.shared.take_retained() else {
            return;
        };
        self.is_cleanup_pending = false;
        let actions = {
            let outbox = self.shared.outbox();
            // What this client sent for the earlier run is no other client's.
            let live = &mut found.published_meanwhile;
            live.retain(|topic| !outbox.has_earlier(topic));
            retained_cleanup::plan_cleanup(&found, &self.topics, &self.present, |topic| {
                outbox.has_state(topic)
            })
        };
        if actions.is_empty() {
            return;
        }
        log::info!(values = actions.len(); "cleaning up stale retained messages from a previous run");
        let now = SystemTime::now();
        for remedy in actions {
            match remedy {
                Cleanup::Clear { topic } => self.shared.outbox().clear_retained(topic.into()),
                Cleanup::ZeroCount { source, label } => {
                    self.publish(&Publication::count(&source, &label, 0, now));
                }
                Cleanup::ZeroGroupCount { source, group } => {
                    self.publish(&Publication::group_count(&source, &group, 0, now));
                }
                Cleanup::MarkEnded { source } => {
                    let reason = Some(NOT_CONFIGURED_REASON);
                    let ended = SourceState::Ended;
                    self.publish(&Publication::source_state(&source, ended, reason, now));
                    // Its state stays retained, as that of every removed source.
                    drop(self.topics.remove_source(&source));
                }
            }
        }
        self.shared.wake.notify_one();
    }

    fn shut_down(&mut self, deadline: Duration) {
        self.client.close(deadline);
        if let Some(spooler) = self.spooler.take() {
            spooler.end();
        }
    }
}

impl Sink for MqttSink {
    fn name(&self) -> String {
        self.client.name().to_owned()
    }

    fn publish(&mut self, record: &Publication<'_>) {
        if self.is_cleanup_pending {
            self.clean_up_retained();
        }
        if let Some(observer) = &mut self.observer {
            observer.observe(record);
        }
        if !self.part.has(record) {
            return;
        }
        let (topic, delivery) = self.topics.resolve(record);
        // One message per event, in their order.
        let number = self.encoder.next_number();
        let first_seq = number.unwrap_or(0);
        let tags = number.map(|first_seq| self.shared.tags(record, first_seq));
        let mut tags = tags.unwrap_or_default().into_iter();
        let mut pending = std::mem::take(&mut self.pending);
        let expires_in_s = message::expires_in_s(record);
        let mut push = |payload: &[u8]| {
            // One allocation of the exact size: the encoder's buffer is reused, and the payload is shared from here on.
            let message = Message {
                expires_in_s,
                ..Message::new(Arc::clone(&topic), Bytes::copy_from_slice(payload))
            };
            pending.push(match tags.next() {
                Some(tag) => message.tagged(tag),
                None => message,
            });
        };
        match (record, bare_payload(record)) {
            (Publication::Snapshot { jpeg, .. }, _) => push(jpeg),
            (_, Some(payload)) => push(payload.as_bytes()),
            (_, None) => self.encoder.encode(record, Timestamp::now(), push),
        }
        if let Publication::Reply { reply, .. } = record {
            pending.extend(message::response(reply, pending.first()));
        }
        // First into the log: what is sent is known to the next process.
        if let Some(spooler) = &mut self.spooler {
            spooler.store(&mut pending);
        }
        let mut overflows = false;
        let mut outbox = self.shared.outbox();
        // Of a clock that was set just now.
        let shift = self.shared.clock().shift(first_seq);
        for mut message in pending.drain(..) {
            message.tag = message.tag.map(|tag| tag.shifted(shift));
            match delivery {
                Delivery::State => outbox.set_state(message),
                Delivery::AtMostOnce => outbox.push_best_effort(message),
                Delivery::AtLeastOnce => overflows |= outbox.push(message),
            }
        }
        self.pending = pending;
        // Without a connection the thread does not wait for messages; a new connection checks for them first.
        let listening = outbox.is_connected();
        drop(outbox);
        if overflows {
            log::warn!(
                "the queue of MQTT messages is full (publish.mqtt.queue_messages): updates of tracks are dropped, then the oldest messages, \
                 until the broker takes messages again"
            );
        }
        if listening {
            self.shared.wake.notify_one();
        }
    }

    fn source_added(&mut self, source: &SourceInfo) {
        self.present.insert(source.name.clone());
        if let Some(observer) = &mut self.observer {
            observer.source_added(source);
        }
    }

    fn sources_ready(&mut self) {
        self.is_cleanup_pending = self.part.has_states() && self.shared.request_retained();
    }

    fn source_removed(&mut self, source: &str) {
        self.present.remove(source);
        let stale = self.topics.remove_source(source);
        if self.part.has_states() {
            let mut outbox = self.shared.outbox();
            stale.for_each(|topic| outbox.retract(&topic));
        }
        if let Some(observer) = &mut self.observer {
            observer.source_removed(source);
        }
        self.shared.wake.notify_one();
    }

    fn counts(&self) -> SinkCounts {
        self.shared.counts()
    }

    fn mqtt_monitor(&self) -> Option<MqttMonitor> {
        Some(self.monitor())
    }

    fn max_payload_bytes(&self) -> usize {
        self.shared.max_payload_bytes()
    }

    fn spool_stats(&mut self) -> Option<SpoolStats> {
        let spooler = self.spooler.as_ref()?;
        let (replayed, dropped, oldest) = {
            let mut outbox = self.shared.outbox();
            let oldest = self.shared.oldest_message(&mut outbox);
            (outbox.progress().1, outbox.dropped_by_class(), oldest)
        };
        let now = Instant::now();
        let (before, since) = std::mem::replace(&mut self.replayed, (replayed, now));
        let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
        Some(spooler.stats((replayed - before) as f64 / seconds, dropped, oldest))
    }

    fn close(mut self: Box<Self>, deadline: Duration) -> SinkCounts {
        if self.is_cleanup_pending {
            self.clean_up_retained();
        }
        self.shut_down(deadline);
        self.counts()
    }
}

impl Drop for MqttSink {
    /// A sink that was not closed disconnects without DISCONNECT: the broker publishes the last will.
    fn drop(&mut self) {
        if self.client.is_open() {
            self.shut_down(Duration::ZERO);
        }
    }
}
