//! One MQTT connection from CONNACK to its end: writes messages from the outbox, settles acknowledged ones.
//! It never reconnects: the worker does.
//!
//! Unacknowledged messages are in one list, in the outbox: they are sent again after a broken connection exactly once and in order, and
//! many messages are sent in one write.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jetwatch_mqtt::{Packet, Property, Protocol, Publish, QoS, Reason, ReasonCode, Value};
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::Connection;
use super::hosted::SentMessage;
use super::outbox::{Message, Outgoing};
use super::refusal::{Refusals, is_temporary};
use super::replay_pace::ReplayPace;
use super::shared::{Closing, Shared};
use crate::PublishError;
use jetwatch_config::MqttConfig;
use jetwatch_telemetry::LogDedup;

/// Most messages without acknowledgement. A larger window hides more of the round trip: 64 allow 640 messages a second at
/// 100 ms; on a local network the limit has no effect.
const WINDOW: usize = 64;

/// Most bytes collected for one write.
const WRITE_BYTES: usize = 64 * 1024;

/// Shortest timeout for a reply, however short the keep-alive is.
const MIN_RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often late messages are sent, a few each time.
const REPLAY_INTERVAL: Duration = Duration::from_millis(20);

/// Payload of the availability topic while the daemon is gone.
pub(super) const OFFLINE: &str = "offline";
/// Payload of the availability topic while the daemon is connected.
pub(super) const ONLINE: &str = "online";

/// A topic that states whether the client is connected. [`ONLINE`] is among the states in the outbox.
#[derive(Debug, Clone)]
pub(super) struct Availability {
    pub topic: Arc<str>,
    /// Payload of the last will.
    pub offline: &'static str,
    /// Payload before a clean end.
    pub stopped: &'static str,
}

/// How a session ended without an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// All was delivered, the end was published, and DISCONNECT was sent.
    Complete,
    /// The deadline passed first; the broker publishes the last will.
    DeadlineExceeded,
}

pub(super) struct Session<'a> {
    connection: Connection,
    shared: &'a Shared,
    availability: Option<&'a Availability>,
    /// Where another program says that it has started: all states are published again then.
    birth_topic: Option<&'a str>,
    config: &'a MqttConfig,
    refusal_log: &'a mut LogDedup,
    refusals: Refusals,
    buffer: BytesMut,
    window: usize,
    last_write: Instant,
    last_read: Instant,
    /// Start of the wait for a reply.
    waiting_since: Option<Instant>,
    ping_sent: bool,
    /// The end was put into the outbox.
    sent_stopped: bool,
    pace: ReplayPace,
    /// When gaps were published.
    gaps_at: Option<Instant>,
    /// At least one message of the pipeline was acknowledged: the connection is good.
    pub confirmed: bool,
}

impl<'a> Session<'a> {
    pub fn new(
        connection: Connection,
        shared: &'a Shared,
        availability: Option<&'a Availability>,
        birth_topic: Option<&'a str>,
        config: &'a MqttConfig,
        refusal_log: &'a mut LogDedup,
    ) -> Self {
        let now = Instant::now();
        Self {
            window: WINDOW.min(connection.receive_maximum),
            connection,
            shared,
            availability,
            birth_topic,
            config,
            refusal_log,
            refusals: Refusals::default(),
            buffer: BytesMut::with_capacity(WRITE_BYTES),
            last_write: now,
            last_read: now,
            waiting_since: None,
            ping_sent: false,
            sent_stopped: false,
            pace: ReplayPace::new(config.spool.max_per_s, now),
            gaps_at: None,
            confirmed: false,
        }
    }

    /// Runs until the connection breaks or the sink is closed. The caller reports connect and disconnect to the outbox.
    pub async fn run(&mut self) -> Result<SessionEnd, PublishError> {
        self.subscribe().await?;
        loop {
            self.write_queued().await?;
            if let Some(closing) = self.shared.closing()
                && let Some(ended) = self.close(closing).await?
            {
                return Ok(ended);
            }
            let timer = self.next_timer();
            tokio::select! {
                packet = self.connection.read() => self.on_packets(packet?).await?,
                () = self.shared.wake.notified() => {}
                () = sleep_until(timer) => self.on_timer().await?,
            }
        }
    }

    async fn subscribe(&mut self) -> Result<(), PublishError> {
        let Some(topic) = self.birth_topic else {
            return Ok(());
        };
        let (limit, topic) = (self.response_timeout(), std::iter::once(topic));
        self.connection
            .subscribe(topic, QoS::AtMostOnce, limit)
            .await
    }

    /// A message of the subscription. A retained one is no start that happens now, and a new connection sends all states anyway.
    fn on_message(&mut self, message: &Publish) {
        if !message.retain && message.payload.as_ref() == ONLINE.as_bytes() {
            log::info!(topic = &*message.topic; "Home Assistant has started; publishing all states again");
            self.shared.outbox().resend_states();
        }
    }

    /// One step of closing.
    async fn close(&mut self, closing: Closing) -> Result<Option<SessionEnd>, PublishError> {
        if Instant::now() >= closing.deadline {
            // MQTT 5 can request the last will; with 3.1.1 the broker publishes it because no DISCONNECT was sent.
            if self.connection.protocol == Protocol::V5 {
                let with_will = Reason::new(ReasonCode::DISCONNECT_WITH_WILL);
                self.send(&Packet::Disconnect(with_will)).await?;
            }
            return Ok(Some(SessionEnd::DeadlineExceeded));
        }
        let idle = {
            let outbox = self.shared.outbox();
            outbox.is_empty() || outbox.may_end()
        };
        if idle && (self.sent_stopped || self.availability.is_none()) {
            self.send(&Packet::Disconnect(Reason::default())).await?;
            return Ok(Some(SessionEnd::Complete));
        }
        if idle && let Some(known) = self.availability {
            self.sent_stopped = true;
            let payload = Bytes::from_static(known.stopped.as_bytes());
            let value = Message::new(Arc::clone(&known.topic), payload);
            self.shared.outbox().set_internal_state(value);
            self.write_queued().await?;
        }
        Ok(None)
    }

    /// Writes as much as the window allows, many messages at a time.
    async fn write_queued(&mut self) -> Result<(), PublishError> {
        loop {
            self.buffer.clear();
            {
                let mut outbox = self.shared.outbox();
                if outbox.last_gap().is_some() && self.are_gaps_due() {
                    self.shared.publish_gaps(&mut outbox);
                }
                self.refusals.release(Instant::now(), &mut outbox);
                let window = self.refusals.window(self.window);
                let now_ms = self.shared.now_ms(&mut outbox);
                let mut pace = self.pace.now(now_ms, outbox.progress().0);
                while self.buffer.len() < WRITE_BYTES
                    && let Some(outgoing) = outbox.next(window, &mut pace)
                {
                    let id = outgoing.id;
                    let is_late = outgoing.late_ms.is_some();
                    let tag = outgoing.tag;
                    let expires_in_s =
                        tag.map(|tag| expiry_s(tag.at_ms, now_ms, self.config.spool.max_age));
                    if let Err(reason) =
                        encode(outgoing, expires_in_s, &self.connection, &mut self.buffer)
                    {
                        match id {
                            Some(id) => drop(outbox.refused(id)),
                            None => outbox.unsendable_best_effort(),
                        }
                        log_refusal(self.refusal_log, &reason);
                    } else if let Some(id) = id {
                        let message = SentMessage {
                            packet_id: id,
                            is_late,
                            number: tag.map(|tag| (tag.seq, tag.at_ms)),
                        };
                        self.shared.observe(|observer| observer.sent(message));
                    }
                }
                self.pace.left(pace);
            }
            if self.buffer.is_empty() {
                return Ok(());
            }
            self.connection
                .write(&self.buffer, self.response_timeout())
                .await?;
            self.last_write = Instant::now();
            self.shared
                .observe(|observer| observer.written(self.buffer.len()));
            let mut outbox = self.shared.outbox();
            outbox.written();
            if outbox.awaits_ack() {
                self.waiting_since.get_or_insert(self.last_write);
            }
        }
    }

    /// Gaps are published at the begin of a connection, and while messages are being dropped once a second.
    fn are_gaps_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self
            .gaps_at
            .is_none_or(|at| now >= at + Duration::from_secs(1));
        if is_due {
            self.gaps_at = Some(now);
        }
        is_due
    }

    /// Handles a packet and all packets already received after it.
    async fn on_packets(&mut self, first: Packet) -> Result<(), PublishError> {
        self.last_read = Instant::now();
        self.on_packet(first)?;
        while let Some(packet) = self.connection.buffered()? {
            self.on_packet(packet)?;
        }
        let (awaits_ack, needs_refill) = {
            let outbox = self.shared.outbox();
            (outbox.awaits_ack(), outbox.needs_refill())
        };
        if needs_refill {
            self.shared.wake_spooler();
        }
        let waits = awaits_ack || self.ping_sent;
        self.waiting_since = waits.then_some(self.last_read);
        Ok(())
    }

    fn on_packet(&mut self, packet: Packet) -> Result<(), PublishError> {
        match packet {
            Packet::PubAck(ack) if is_temporary(ack.code) => {
                let held = self.shared.outbox().refused_for_now(ack.id);
                if let Some(kind) = held {
                    self.shared
                        .observe(|observer| observer.refused(ack.id, true));
                    self.refusals.refused(kind, &ack, self.last_read);
                }
            }
            Packet::PubAck(ack) if ack.code.is_error() => {
                if self.shared.outbox().refused(ack.id) {
                    self.shared
                        .observe(|observer| observer.refused(ack.id, false));
                    log_refusal(self.refusal_log, &ack.explained());
                }
            }
            Packet::PubAck(ack) => {
                self.refusals.acknowledged();
                self.shared
                    .observe(|observer| observer.acknowledged(ack.id));
                if self.shared.outbox().acknowledged(ack.id) {
                    self.confirmed = true;
                }
            }
            Packet::PingResp => self.ping_sent = false,
            Packet::SubAck(answer) => {
                if answer.codes().any(ReasonCode::is_error) {
                    let topic = self.birth_topic.unwrap_or_default();
                    log::warn!(topic; "the broker refused the subscription: states are not published again when Home Assistant starts");
                }
            }
            Packet::Publish(message) if self.birth_topic == Some(&*message.topic) => {
                self.on_message(&message);
            }
            Packet::Disconnect(goodbye) if goodbye.code == ReasonCode::SESSION_TAKEN_OVER => {
                return Err(PublishError::TakenOver {
                    client_id: self.config.client_id.clone(),
                });
            }
            Packet::Disconnect(goodbye) => {
                let reason = format!("the broker ended it: {}", goodbye.explained());
                return Err(self.connection.lost(reason));
            }
            // A client that only publishes receives nothing else.
            other => {
                let reason = format!("unexpected {} from the broker", other.name());
                return Err(self.connection.lost(reason));
            }
        }
        Ok(())
    }

    /// When the next ping, reply timeout or deadline is due.
    fn next_timer(&self) -> Instant {
        let ping = self.last_write + self.connection.keep_alive;
        let answer = self
            .waiting_since
            .map(|since| since + self.response_timeout());
        let deadline = self.shared.closing().map(|closing| closing.deadline);
        let late = self.shared.outbox().is_waiting();
        let late = late.then(|| Instant::now() + REPLAY_INTERVAL);
        [answer, deadline, late, self.refusals.next()]
            .into_iter()
            .flatten()
            .fold(ping, Instant::min)
    }

    async fn on_timer(&mut self) -> Result<(), PublishError> {
        let now = Instant::now();
        if self
            .waiting_since
            .is_some_and(|since| now >= since + self.response_timeout())
        {
            let address = self.connection.address.clone();
            return Err(PublishError::Timeout {
                address,
                step: "acknowledging messages",
                waited: self.response_timeout(),
            });
        }
        if now >= self.last_write + self.connection.keep_alive {
            self.send(&Packet::PingReq).await?;
            self.ping_sent = true;
            self.waiting_since.get_or_insert(now);
        }
        Ok(())
    }

    fn response_timeout(&self) -> Duration {
        self.connection.keep_alive.max(MIN_RESPONSE_TIMEOUT)
    }

    async fn send(&mut self, packet: &Packet) -> Result<(), PublishError> {
        let limit = self.response_timeout();
        self.connection.send(packet, limit).await?;
        self.last_write = Instant::now();
        Ok(())
    }

    /// Shuts the socket down, so that the broker sees the end at once.
    pub async fn shutdown(mut self) {
        use tokio::io::AsyncWriteExt;
        // An error means that the socket is closed already.
        let _ = timeout(
            Duration::from_millis(500),
            self.connection.writer.shutdown(),
        )
        .await;
    }
}

/// Appends the PUBLISH of `outgoing`, or returns why it cannot be sent to this broker. With MQTT 5 it expires after `expires_in_s`
/// seconds, also in the queue of a subscriber that is away.
fn encode(
    outgoing: Outgoing,
    expires_in_s: Option<u32>,
    link: &Connection,
    buffer: &mut BytesMut,
) -> Result<(), String> {
    let Outgoing {
        message,
        id,
        retain,
        dup: again,
        late_ms,
        tag: _,
    } = outgoing;
    let before = buffer.len();
    let number = |seconds| (Property::MESSAGE_EXPIRY_INTERVAL, Value::Number(seconds));
    let expiry = expires_in_s.or(message.expires_in_s).map(number);
    let data = |data| (Property::CORRELATION_DATA, Value::Binary(data));
    let correlation = message.correlation.as_deref().map(data);
    let packet = Packet::Publish(Publish {
        properties: expiry.into_iter().chain(correlation).collect(),
        topic: message.topic,
        payload: match late_ms {
            Some(late_ms) => with_age(&message.payload, late_ms),
            None => message.payload,
        },
        qos: if id.is_some() {
            QoS::AtLeastOnce
        } else {
            QoS::AtMostOnce
        },
        id: id.unwrap_or(0),
        retain,
        dup: again,
    });
    let result = packet
        .encode(link.protocol, buffer)
        .map_err(|error| error.to_string())
        .and_then(|()| {
            let bytes = buffer.len() - before;
            if bytes > link.max_packet_bytes {
                Err(format!(
                    "a message of {bytes} bytes, and the broker takes at most {}",
                    link.max_packet_bytes
                ))
            } else {
                Ok(())
            }
        });
    if result.is_err() {
        buffer.truncate(before);
    }
    result
}

/// Seconds until a message of `at_ms` is older than `max_age`; at least 1, also where the clock was set.
fn expiry_s(at_ms: u64, now_ms: u64, max_age: Duration) -> u32 {
    let age = Duration::from_millis(now_ms.saturating_sub(at_ms));
    let left = max_age.saturating_sub(age).as_secs();
    u32::try_from(left).unwrap_or(u32::MAX).max(1)
}

/// The JSON object `payload` with its age.
fn with_age(payload: &Bytes, late_ms: u64) -> Bytes {
    let Some(open) = payload.strip_suffix(b"}") else {
        return payload.clone();
    };
    let mut late = open.to_vec();
    late.extend_from_slice(format!(",\"late_ms\":{late_ms}}}").as_bytes());
    late.into()
}

fn log_refusal(refusals: &mut LogDedup, reason: &str) {
    if let Some(repeats) = refusals.admit(reason) {
        log::error!(repeats; "the MQTT broker refused a message: {reason}; the message is dropped, check what the broker allows this user to publish");
    }
}
