// SPDX-License-Identifier: Apache-2.0
//! One MQTT connection from CONNACK to its end: writes messages from the outbox, settles acknowledged ones.
//! It never reconnects: the worker does.
//!
//! Unacknowledged messages are in one list, in the outbox: they are sent again after a broken connection exactly once and in order, and
//! many messages are sent in one write.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jetwatch_mqtt::{Ack, Packet, Property, Protocol, Publish, QoS, Reason, ReasonCode, Value};
use tokio::time::{Instant, sleep_until, timeout};

use super::connection::Connection;
use super::hosted::SentMessage;
use super::memory::Memory;
use super::message::Message;
use super::outbox::{GivenUp, Outgoing};
use super::refusal::Refusals;
use super::replay_pace::ReplayPace;
use super::shared::{Closing, Shared};
use crate::PublishError;
use crate::reaction::{Feature, Reaction, reactions};
use jetwatch_config::MqttConfig;

/// Most messages without acknowledgement. A larger window hides more of the round trip: 64 allow 640 messages a second at
/// 100 ms; on a local network the limit has no effect.
const WINDOW: usize = 64;

/// Most bytes collected for one write.
const WRITE_BYTES: usize = 64 * 1024;

/// Shortest timeout for a reply, however short the keep-alive is.
const MIN_RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest wait for what a broker has sent before it closed the connection.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

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
    memory: &'a mut Memory,
    /// Number of the broker.
    broker: usize,
    refusals: Refusals,
    buffer: BytesMut,
    window: usize,
    last_write: Instant,
    last_read: Instant,
    /// Start of the wait for a reply.
    waiting_since: Option<Instant>,
    /// Pings on their way.
    pings: VecDeque<Ping>,
    /// What the next ping is to prove.
    unproven: Ping,
    /// The first message without an acknowledgement, and since when it is that.
    first: Option<(u16, Instant)>,
    /// What the broker is answered.
    replies: Vec<Packet>,
    /// The end was put into the outbox.
    sent_stopped: bool,
    pace: ReplayPace,
    /// When gaps were published.
    gaps_at: Option<Instant>,
    /// At least one message of the pipeline was acknowledged: the connection is good.
    pub confirmed: bool,
    /// The broker has not allowed the subscription, or not yet.
    pub lacks_subscription: bool,
    /// The last message that was answered was refused: brokers end the connection after that.
    pub has_refused: bool,
}

/// What the answer to a ping proves: that the broker has read what was written before it.
#[derive(Debug, Default)]
struct Ping {
    /// Messages that are sent with QoS 0, because the broker has no other.
    ids: Vec<u16>,
    /// Messages of best effort.
    best_effort: bool,
}

impl Ping {
    fn is_needed(&self) -> bool {
        self.best_effort || !self.ids.is_empty()
    }
}

impl<'a> Session<'a> {
    pub fn new(
        connection: Connection,
        shared: &'a Shared,
        availability: Option<&'a Availability>,
        birth_topic: Option<&'a str>,
        config: &'a MqttConfig,
        memory: &'a mut Memory,
        broker: usize,
    ) -> Self {
        let now = Instant::now();
        Self {
            window: WINDOW.min(connection.receive_maximum),
            connection,
            shared,
            availability,
            birth_topic,
            config,
            memory,
            broker,
            refusals: Refusals::default(),
            buffer: BytesMut::with_capacity(WRITE_BYTES),
            last_write: now,
            last_read: now,
            waiting_since: None,
            pings: VecDeque::new(),
            unproven: Ping::default(),
            first: None,
            replies: Vec::new(),
            sent_stopped: false,
            pace: ReplayPace::new(config.spool.max_per_s, now),
            gaps_at: None,
            confirmed: false,
            lacks_subscription: false,
            has_refused: false,
        }
    }

    /// Runs until the connection breaks or the sink is closed. The caller reports connect and disconnect to the outbox.
    pub async fn run(&mut self) -> Result<SessionEnd, PublishError> {
        match self.talk().await {
            // What the broker has said before it closed the connection may have arrived.
            Err(error @ PublishError::Closed { .. }) => Err(self.drain().await.unwrap_or(error)),
            ended => ended,
        }
    }

    /// Handles what has arrived; returns how the broker ended the connection, if it has said so.
    async fn drain(&mut self) -> Option<PublishError> {
        while let Ok(Ok(packet)) = timeout(DRAIN_TIMEOUT, self.connection.read()).await {
            if let Err(error) = self.on_packet(packet) {
                return Some(error);
            }
        }
        None
    }

    async fn talk(&mut self) -> Result<SessionEnd, PublishError> {
        self.subscribe().await?;
        loop {
            let started = Instant::now();
            self.write_queued().await?;
            if let Some(closing) = self.shared.closing()
                && let Some(ended) = self.close(closing).await?
            {
                return Ok(ended);
            }
            let timer = self.next_timer();
            let waits_for_broker = !self.shared.outbox().is_empty();
            tokio::select! {
                packet = self.connection.read() => self.on_packets(packet?).await?,
                () = self.shared.wake.notified() => {}
                () = sleep_until(timer) => self.on_timer().await?,
            }
            if waits_for_broker {
                self.shared.busy.add(started.elapsed());
            }
        }
    }

    async fn subscribe(&mut self) -> Result<(), PublishError> {
        let Some(topic) = self.birth_topic else {
            return Ok(());
        };
        self.lacks_subscription = true;
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
                    let tag = outgoing.message.tag;
                    let given_up = GivenUp {
                        topic: Arc::clone(&outgoing.message.topic),
                        bytes: outgoing.message.payload.len(),
                    };
                    let expires_in_s =
                        tag.map(|tag| expiry_s(tag.at_ms, now_ms, self.config.spool.max_age));
                    let best_effort = &mut self.memory.best_effort;
                    // Events are tried in any case.
                    let is_blocked =
                        id.is_none() && best_effort.is_blocked(&given_up.topic, given_up.bytes);
                    let encoded = match is_blocked {
                        true => Err("the broker does not take messages of this size".to_owned()),
                        false => encode(outgoing, expires_in_s, &self.connection, &mut self.buffer),
                    };
                    match (encoded, id) {
                        (Err(reason), _) => {
                            match id {
                                Some(id) => drop(outbox.refused(id)),
                                None => outbox.unsendable_best_effort(),
                            }
                            self.memory
                                .log_given_up(&given_up, "it is not sent", &reason);
                        }
                        (Ok(()), Some(id)) => {
                            if self.connection.without.has(Feature::QoS1) {
                                self.unproven.ids.push(id);
                            }
                            let message = SentMessage {
                                packet_id: id,
                                is_late,
                                number: tag.map(|tag| (tag.seq, tag.at_ms)),
                            };
                            self.shared.observe(|observer| observer.sent(message));
                        }
                        (Ok(()), None) => self.unproven.best_effort |= best_effort.wrote(given_up),
                    }
                }
                self.pace.left(pace);
            }
            if self.pings.is_empty() && self.unproven.is_needed() {
                self.ping();
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
            if outbox.awaits_ack() || !self.pings.is_empty() {
                self.waiting_since.get_or_insert(self.last_write);
            }
            self.first = first_on_way(self.first, outbox.first_on_way(), self.last_write);
        }
    }

    /// Puts a ping behind what is in the buffer.
    fn ping(&mut self) {
        self.pings.push_back(std::mem::take(&mut self.unproven));
        Packet::PingReq
            .encode(self.connection.protocol, &mut self.buffer)
            .expect("a packet without fields can be written");
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
        for reply in std::mem::take(&mut self.replies) {
            self.send(&reply).await?;
        }
        let (awaits_ack, needs_refill) = {
            let outbox = self.shared.outbox();
            self.first = first_on_way(self.first, outbox.first_on_way(), self.last_read);
            (outbox.awaits_ack(), outbox.needs_refill())
        };
        if needs_refill {
            self.shared.wake_spooler();
        }
        let waits = awaits_ack || !self.pings.is_empty();
        self.waiting_since = waits.then_some(self.last_read);
        Ok(())
    }

    fn on_packet(&mut self, packet: Packet) -> Result<(), PublishError> {
        match packet {
            // PUBREC in place of PUBACK is the mistake of some brokers: nothing is sent with QoS 2.
            Packet::PubAck(ack) | Packet::PubRec(ack) => self.on_ack(&ack),
            Packet::PingResp => {
                let Ping { ids, best_effort } = self.pings.pop_front().unwrap_or_default();
                if best_effort {
                    self.memory.best_effort.proven();
                }
                for id in ids {
                    self.acknowledged(id);
                }
            }
            Packet::SubAck(answer) => {
                self.lacks_subscription = answer.codes().any(ReasonCode::is_error);
                if self.lacks_subscription && self.memory.is_logged("subscription").is_some() {
                    let topic = self.birth_topic.unwrap_or_default();
                    log::warn!(topic; "the broker refused the subscription: states are not published again when Home Assistant starts");
                }
            }
            Packet::Publish(message) => {
                if self.birth_topic == Some(&*message.topic) {
                    self.on_message(&message);
                }
                // Also of what nobody has asked for: some brokers subscribe clients by themselves.
                let ack = Ack::new(message.id, ReasonCode::SUCCESS);
                match message.qos {
                    QoS::AtMostOnce => {}
                    QoS::AtLeastOnce => self.replies.push(Packet::PubAck(ack)),
                    QoS::ExactlyOnce => self.replies.push(Packet::PubRec(ack)),
                }
            }
            Packet::PubRel(release) => {
                let ack = Ack::new(release.id, ReasonCode::SUCCESS);
                self.replies.push(Packet::PubComp(ack));
            }
            Packet::Disconnect(goodbye) if goodbye.code == ReasonCode::SESSION_TAKEN_OVER => {
                return Err(PublishError::TakenOver {
                    client_id: self.config.client_id.clone(),
                });
            }
            Packet::Disconnect(goodbye) => {
                if let Reaction::Without(feature) = reactions(goodbye.code).disconnect {
                    self.leave_out(feature);
                }
                return Err(PublishError::Disconnected {
                    address: self.connection.address.clone(),
                    code: goodbye.code,
                    reason: goodbye.explained(),
                });
            }
            Packet::Auth(_) => {
                return Err(PublishError::Disconnected {
                    address: self.connection.address.clone(),
                    code: ReasonCode::BAD_AUTHENTICATION_METHOD,
                    reason: "it wants enhanced authentication, which is not supported".to_owned(),
                });
            }
            other => {
                let reason = format!("unexpected {} from the broker", other.name());
                return Err(self.connection.lost(reason));
            }
        }
        Ok(())
    }

    fn on_ack(&mut self, ack: &Ack) {
        if !self.shared.outbox().is_on_way(ack.id) {
            // A message that was acknowledged already, or none of ours: a broker's error, and harmless.
            return;
        }
        self.has_refused = true;
        let (wait, in_doubt) = match reactions(ack.code).message {
            Reaction::Nothing => {
                self.has_refused = false;
                return self.acknowledged(ack.id);
            }
            Reaction::Later => (true, false),
            Reaction::Doubt => (true, true),
            Reaction::Without(feature) if !self.connection.without.has(feature) => {
                self.leave_out(feature);
                let mut outbox = self.shared.outbox();
                outbox.refused_for_now(ack.id, false);
                outbox.release_messages();
                outbox.release_states();
                drop(outbox);
                return self
                    .shared
                    .observe(|observer| observer.refused(ack.id, true));
            }
            // It was on its way before, or that is not the reason.
            Reaction::Without(_) => (true, true),
            Reaction::GiveUp | Reaction::Stop => {
                let given_up = self.shared.outbox().refused(ack.id);
                if let Some(given_up) = given_up {
                    if ack.code == ReasonCode::PACKET_TOO_LARGE {
                        self.shared.refused_bytes(given_up.bytes);
                        self.memory.best_effort.refused_as_too_large(given_up.bytes);
                    }
                    self.memory
                        .log_given_up(&given_up, "the broker refuses it", &ack.explained());
                }
                (false, false)
            }
        };
        self.shared
            .observe(|observer| observer.refused(ack.id, wait));
        if wait {
            let (held, given_up) = {
                let mut outbox = self.shared.outbox();
                let held = outbox.refused_for_now(ack.id, in_doubt);
                (held, outbox.take_given_up())
            };
            for given_up in given_up {
                let what = "the broker refuses it each time, and takes others";
                self.memory.log_given_up(&given_up, what, &ack.explained());
            }
            if let Some(kind) = held {
                self.refusals.refused(kind, self.last_read);
                if let Some(repeats) = self.memory.is_logged(&format!("refuses {}", ack.code)) {
                    let reason = ack.explained();
                    log::warn!(repeats; "the MQTT broker refuses messages for now: {reason}; they wait and are sent again, check the limits of its queues");
                }
            }
        }
    }

    fn acknowledged(&mut self, id: u16) {
        self.refusals.acknowledged();
        self.shared.observe(|observer| observer.acknowledged(id));
        let (is_progress, is_retain_refused) = {
            let mut outbox = self.shared.outbox();
            (outbox.acknowledged(id), outbox.take_retain_refused())
        };
        self.confirmed |= is_progress;
        if is_retain_refused {
            self.leave_out(Feature::Retain);
        }
    }

    /// The broker does not have this: it is left out from now on.
    fn leave_out(&mut self, feature: Feature) {
        self.connection.without = self.connection.without.with(feature);
        self.memory.leave_out(self.broker, feature);
    }

    /// When the next ping, reply timeout or deadline is due.
    fn next_timer(&self) -> Instant {
        let ping = self.last_write + self.connection.keep_alive;
        let timeout = self.response_timeout();
        let answer = self.waiting_since.map(|since| since + timeout);
        let question = self.question();
        let first = self.first.map(|(_, since)| since + 2 * timeout);
        let deadline = self.shared.closing().map(|closing| closing.deadline);
        let late = self.shared.outbox().is_waiting();
        let late = late.then(|| Instant::now() + REPLAY_INTERVAL);
        [
            answer,
            question,
            first,
            deadline,
            late,
            self.refusals.next(),
        ]
        .into_iter()
        .flatten()
        .fold(ping, Instant::min)
    }

    /// When a ping asks whether the broker is there, while an acknowledgement is late.
    fn question(&self) -> Option<Instant> {
        let since = self.waiting_since.filter(|_| self.pings.is_empty())?;
        Some(since + self.response_timeout() / 2)
    }

    async fn on_timer(&mut self) -> Result<(), PublishError> {
        let now = Instant::now();
        let timeout = self.response_timeout();
        let address = || self.connection.address.clone();
        if self
            .waiting_since
            .is_some_and(|since| now >= since + timeout)
        {
            return Err(PublishError::Timeout {
                address: address(),
                step: "acknowledging messages",
                waited: timeout,
            });
        }
        if let Some((_, since)) = self.first
            && now >= since + 2 * timeout
        {
            return Err(PublishError::Unanswered {
                address: address(),
                waited: now - since,
            });
        }
        let is_due = now >= self.last_write + self.connection.keep_alive;
        if is_due || self.question().is_some_and(|at| now >= at) {
            self.buffer.clear();
            self.ping();
            self.connection.write(&self.buffer, timeout).await?;
            self.last_write = now;
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
    } = outgoing;
    let before = buffer.len();
    let id = id.filter(|_| !link.without.has(Feature::QoS1));
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
        qos: match id {
            Some(_) => QoS::AtLeastOnce,
            None => QoS::AtMostOnce,
        },
        id: id.unwrap_or(0),
        retain: retain && !link.without.has(Feature::Retain),
        dup: again && id.is_some(),
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

/// The first message without an acknowledgement, since when it is that.
fn first_on_way(
    before: Option<(u16, Instant)>,
    first: Option<u16>,
    now: Instant,
) -> Option<(u16, Instant)> {
    let first = first?;
    before.filter(|&(id, _)| id == first).or(Some((first, now)))
}
