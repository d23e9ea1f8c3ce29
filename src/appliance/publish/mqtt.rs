//! The MQTT sink: a thread named `mqtt` with a client that loses nothing while the process lives.
//!
//! A message of QoS 1 counts as delivered when the broker's PUBACK has come, not before; what was under way when a
//! connection broke is sent again, in order. While the broker is away, messages wait in a bounded queue, and the newest
//! value of each retained topic waits beside it. The client speaks MQTT 5.0, since only there a broker says why it
//! refuses a message, and 3.1.1 with brokers that do not know 5.0.
//!
//! ```text
//! accept() ──► Outbox ──► Session ──► broker      outbox: queues, pure       session: one connection
//!  (chain)       ▲  (thread `mqtt`)     │         worker: reconnects      dial: address, TLS, login      link: packets
//!                └────── PUBACK ◄───────┘
//! ```

mod backoff;
pub(crate) mod connect;
pub(crate) mod connection;
mod log_dedup;
mod outbox;
mod retained;
mod retained_cleanup;
mod session;
mod shared;
mod tls;
mod worker;

use std::collections::HashSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use crossbeam_channel::{Receiver, bounded};

use self::connect::{ClientIdentity, connect};
use self::connection::Protocol;
use self::outbox::{Message, Outbox};
use self::retained_cleanup::Cleanup;
use self::session::ONLINE;
use self::shared::Shared;
use self::worker::Worker;
use super::{
    Delivery, Encoder, Publication, PublishError, Sink, SinkCounts, SourceState, Timestamp, Topics,
};
use jetwatch_config::MqttConfig;
use jetwatch_telemetry::{self as telemetry, Heartbeat, Heartbeats, thread_names};

/// Part of the closing deadline that is kept for hanging up and for the thread's end.
const SHUTDOWN_RESERVE: Duration = Duration::from_millis(200);

/// Why a source has ended that only an earlier run had.
const NOT_CONFIGURED_REASON: &str = "not among the sources since the daemon was started again";

/// How often the thread marks that it is alive.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);

/// State of the connection to the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionState {
    /// The first attempt is under way.
    Connecting,
    /// The broker accepted the client.
    Connected,
    /// The last attempt or connection failed; it is tried again.
    Failed {
        /// Why, with what to do about it.
        reason: String,
        /// The broker or a secret said no: trying again helps only after a change, and happens every 30 s.
        refused: bool,
    },
}

/// What a broker said of itself when asked once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerInfo {
    /// Host and port.
    pub address: String,
    /// `5.0` or `3.1.1`.
    pub protocol: &'static str,
    /// Time until the login was accepted, name service and TLS included.
    pub connect_time: Duration,
}

/// Connects, logs in and disconnects, each step within `limit`. Blocks for at most a few times `limit`; starts no thread
/// that outlives it. The error says which step failed and what to do.
pub fn probe(config: &MqttConfig, limit: Duration) -> Result<BrokerInfo, PublishError> {
    let runtime = runtime("mqtt-probe")?;
    // An id of its own: the daemon's would throw a running daemon off its connection.
    let client_id = format!("{}-check-{}", config.client_id, std::process::id());
    let started = Instant::now();
    let result = runtime.block_on(async {
        let mut link = connect(
            config,
            &ClientIdentity {
                client_id,
                will: None,
            },
            limit,
        )
        .await?;
        let connect_time = started.elapsed();
        // DISCONNECT has this one form in both versions. The login worked: a broker that hangs up first does no harm.
        let _ = link.write(&[0xe0, 0], limit).await;
        let protocol = if link.protocol == Protocol::V5 {
            "5.0"
        } else {
            "3.1.1"
        };
        Ok(BrokerInfo {
            address: link.address,
            protocol,
            connect_time,
        })
    });
    // A name service that hangs must not hold the caller up.
    runtime.shutdown_background();
    result
}

/// Marks each turn of the runtime, for ever: waiting for the network lets it turn, being stuck does not.
async fn send_heartbeats(pulse: &Heartbeat) {
    loop {
        pulse.busy();
        tokio::time::sleep(HEARTBEAT_INTERVAL).await;
    }
}

pub(super) fn runtime(name: &'static str) -> Result<tokio::runtime::Runtime, PublishError> {
    tokio::runtime::Builder::new_current_thread()
        .thread_name(name)
        .enable_io()
        .enable_time()
        .build()
        .map_err(|source| PublishError::Thread { name, source })
}

/// Sees the state of an [`MqttSink`] from elsewhere, also after the sink was given away.
#[derive(Debug, Clone)]
pub struct MqttMonitor {
    shared: Arc<Shared>,
}

impl MqttMonitor {
    /// State of the connection.
    #[must_use]
    pub fn connection_state(&self) -> ConnectionState {
        self.shared.connection_state().clone()
    }

    /// What became of the messages so far.
    #[must_use]
    pub fn counts(&self) -> SinkCounts {
        self.shared.outbox().counts()
    }
}

/// The sink that publishes to an MQTT broker.
#[derive(Debug)]
pub struct MqttSink {
    shared: Arc<Shared>,
    encoder: Encoder,
    topics: Topics,
    /// The sources that there are now.
    present: HashSet<String>,
    /// What the broker has kept from an earlier run is still to be looked at.
    is_cleanup_pending: bool,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

impl MqttSink {
    /// Starts the thread and returns at once: whether the broker is there is the thread's business, and it never stops
    /// trying. `labels` are the model's, in the order of their class numbers. Fails only when no thread can be started.
    ///
    /// With [`Broker::Embedded`](jetwatch_config::Broker::Embedded) this connects to the address given there; the broker itself is started by
    /// [`EmbeddedBroker::start`](super::EmbeddedBroker::start).
    pub fn start(
        config: &MqttConfig,
        device: &str,
        labels: &[String],
    ) -> Result<Self, PublishError> {
        Self::start_with_heartbeat(config, device, labels, &Heartbeats::default())
    }

    /// As [`MqttSink::start`], with the thread's mark among `pulses`. A broker that is away or slow is no stall.
    pub fn start_with_heartbeat(
        config: &MqttConfig,
        device: &str,
        labels: &[String],
        pulses: &Heartbeats,
    ) -> Result<Self, PublishError> {
        let topics = Topics::new(&config.prefix, device, labels);
        let mut outbox = Outbox::new(config.queue_messages);
        // The first state, so that it is the first thing on every connection.
        outbox.set_internal_state(Message {
            topic: Arc::clone(topics.status()),
            payload: Bytes::from_static(ONLINE.as_bytes()),
        });
        let shared = Arc::new(Shared::new(outbox));
        let worker = Worker {
            config: config.clone(),
            shared: Arc::clone(&shared),
            status: Arc::clone(topics.status()),
            retained_filters: topics.retained_filters(),
        };
        let runtime = runtime("mqtt-resolve")?;
        let (end, ended) = bounded(1);
        let pulse = pulses.register("mqtt");
        let thread = std::thread::Builder::new()
            .name(thread_names::MQTT.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::MQTT);
                runtime.block_on(async {
                    tokio::select! {
                        () = worker.run() => {}
                        () = send_heartbeats(&pulse) => {}
                    }
                });
                drop(pulse);
                runtime.shutdown_background();
                // Nobody listens when the sink was dropped.
                let _ = end.send(());
            })
            .map_err(|source| PublishError::Thread {
                name: thread_names::MQTT,
                source,
            })?;
        Ok(Self {
            shared,
            encoder: Encoder::new(device, labels),
            topics,
            present: HashSet::new(),
            is_cleanup_pending: false,
            thread: Some(thread),
            ended,
        })
    }

    /// A view of this sink that can be kept.
    #[must_use]
    pub fn monitor(&self) -> MqttMonitor {
        MqttMonitor {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Puts right what an earlier run has left at the broker, once that was read.
    fn clean_up_retained(&mut self) {
        let Some(found) = self.shared.take_retained() else {
            return;
        };
        self.is_cleanup_pending = false;
        let actions = {
            let outbox = self.shared.outbox();
            retained_cleanup::plan_cleanup(&found, &self.topics, &self.present, |topic| {
                outbox.has_state(topic)
            })
        };
        if actions.is_empty() {
            return;
        }
        log::info!(values = actions.len(); "the broker had values of an earlier run; they are put right");
        for remedy in actions {
            match remedy {
                Cleanup::Clear { topic } => self.shared.outbox().clear_retained(topic.into()),
                Cleanup::ZeroCount { source, label } => self.publish(&Publication::Count {
                    source: &source,
                    label: &label,
                    count: 0,
                    at: SystemTime::now(),
                }),
                Cleanup::MarkEnded { source } => {
                    self.publish(&Publication::Source {
                        source: &source,
                        state: SourceState::Ended,
                        reason: Some(NOT_CONFIGURED_REASON),
                        at: SystemTime::now(),
                    });
                    // Its state stays, as that of every source that left.
                    drop(self.topics.remove_source(&source));
                }
            }
        }
        self.shared.wake.notify_one();
    }

    fn shut_down(&mut self, deadline: Duration) {
        let now = tokio::time::Instant::now();
        let reserve = SHUTDOWN_RESERVE.min(deadline / 4);
        self.shared.close_by(now + (deadline - reserve));
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A sender that is gone means that the thread ended by a panic, which the hook has told.
        if self.ended.recv_timeout(deadline) == Err(crossbeam_channel::RecvTimeoutError::Timeout) {
            log::warn!(thread = "mqtt"; "not ended after {:.1} s; left behind", deadline.as_secs_f32());
            self.shared.outbox().abandon();
            return;
        }
        let _ = thread.join();
    }
}

impl Sink for MqttSink {
    fn publish(&mut self, record: &Publication<'_>) {
        if self.is_cleanup_pending {
            self.clean_up_retained();
        }
        let (topic, delivery) = self.topics.resolve(record);
        let mut outbox = self.shared.outbox();
        let mut push = |payload: &[u8]| {
            // One allocation of the exact size: the encoder's buffer is reused, and the payload is shared from here on.
            let message = Message {
                topic: Arc::clone(&topic),
                payload: Bytes::copy_from_slice(payload),
            };
            match delivery {
                Delivery::State => outbox.set_state(message),
                Delivery::AtLeastOnce => outbox.push(message),
                Delivery::AtMostOnce => outbox.push_best_effort(message),
            }
        };
        match record {
            // A bare integer, as Frigate and Home Assistant's sensors have it.
            Publication::Count { count, .. } => push(count.to_string().as_bytes()),
            _ => self.encoder.encode(record, Timestamp::now(), push),
        }
        // Without a connection nobody waits for messages, and a new one starts by looking for them.
        let listening = outbox.is_connected();
        drop(outbox);
        if listening {
            self.shared.wake.notify_one();
        }
    }

    fn source_added(&mut self, source: &str) {
        self.present.insert(source.to_owned());
    }

    fn sources_ready(&mut self) {
        self.is_cleanup_pending = self.shared.request_retained();
    }

    fn source_removed(&mut self, source: &str) {
        self.present.remove(source);
        let mut outbox = self.shared.outbox();
        for topic in self.topics.remove_source(source) {
            outbox.retract(&topic);
        }
        drop(outbox);
        self.shared.wake.notify_one();
    }

    fn counts(&self) -> SinkCounts {
        self.shared.outbox().counts()
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
    /// A sink that was not closed ends without a farewell: the broker publishes the last will.
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.shut_down(Duration::ZERO);
        }
    }
}
