// SPDX-License-Identifier: Apache-2.0
//! The `mqtt` thread: connects, runs a session, waits, and repeats until the sink is closed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jetwatch_mqtt::Protocol;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until, timeout};

use super::ConnectionState;
use super::announcer::Announcer;
use super::backoff::JitteredBackoff;
use super::connect::{ClientIdentity, address_of, connect_in_turn};
use super::connection::Connection;
use super::known::Known;
use super::memory::Memory;
use super::outbox::Overflow;
use super::retained::{self, RetainedSnapshot};
use super::session::{Availability, Session, SessionEnd};
use super::shared::Shared;
use crate::PublishError;
use crate::home_assistant::Fact;
use jetwatch_config::MqttConfig;
use jetwatch_telemetry::FailureLog;

/// Timeout of each step of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection of this age was stable, even if no message was acknowledged on it.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// After a connection of this age, values that the broker had refused are tried again.
const UNBLOCK_AFTER: Duration = Duration::from_secs(3600);

/// Longest delay after a connection that has taken messages.
const MAX_PRODUCTIVE_PAUSE: Duration = Duration::from_secs(5);

/// Connections in a row that ended on a subscription after which it is left out.
const MAX_SUBSCRIBE_ENDS: u32 = 2;

/// Delay between attempts while the sink is being closed.
const CLOSING_PAUSE: Duration = Duration::from_millis(200);

/// This many successive connections that were accepted and ended within [`STABLE_AFTER`] indicate two clients with one
/// client id that disconnect each other: not every broker reports that.
const TAKEOVER_SUSPECT_COUNT: u32 = 3;

pub(super) struct Worker {
    /// The settings for each broker; at least one.
    pub brokers: Vec<MqttConfig>,
    pub shared: Arc<Shared>,
    /// The availability topic; `None`: no last will.
    pub availability: Option<Availability>,
    /// Topics of the device that may have retained values of an earlier run.
    pub retained_filters: Vec<String>,
    /// The key that limits the queue.
    pub queue_key: &'static str,
    /// Where entities are announced, or those of an earlier run are withdrawn.
    pub discovery: Option<Discovery>,
    /// Only this version of MQTT; `None`: what the broker understands.
    pub protocol: Option<Protocol>,
}

/// Announcements to Home Assistant.
pub(super) struct Discovery {
    /// Begin of the topics of those of this device.
    pub prefix: String,
    /// Filter for them.
    pub filter: String,
    /// Where Home Assistant says that it has started.
    pub birth_topic: Option<String>,
    /// To the announcer.
    pub facts: UnboundedSender<Fact>,
    pub announcer: Announcer,
}

/// The parts of [`Discovery`] that reading needs.
struct Earlier {
    prefix: String,
    filter: String,
    facts: UnboundedSender<Fact>,
}

impl Worker {
    /// Runs until the sink is closed and its deadline has passed or everything is delivered.
    pub async fn run(mut self) {
        let (mut announcer, birth_topic, earlier) = match self.discovery.take() {
            Some(discovery) => {
                let Discovery {
                    prefix,
                    filter,
                    birth_topic,
                    facts,
                    announcer,
                } = discovery;
                (
                    Some(announcer),
                    birth_topic,
                    Some(Earlier {
                        prefix,
                        filter,
                        facts,
                    }),
                )
            }
            None => (None, None, None),
        };
        let mut backoff = JitteredBackoff::default();
        let mut failures = FailureLog::default();
        let mut memory = Memory::new(self.brokers.len());
        let mut is_loss_logged = true;
        let mut short = 0;
        // Of the last connection: it has taken messages.
        let mut is_productive = false;
        // Where the next attempt begins.
        let mut first = 0;
        loop {
            let closing = self.shared.closing();
            let Some(attempt) = self.connect(first, &mut memory.known).await else {
                // Interrupted by closing: further attempts have its deadline.
                continue;
            };
            first = 0;
            let error = match attempt {
                Ok((link, index)) => {
                    let config = &self.brokers[index];
                    // As often as the loss: two clients with one client id end each other's connections without end.
                    if std::mem::take(&mut is_loss_logged) {
                        let broker = address_of(config);
                        let client = link.client_id.as_str();
                        log::info!(broker = broker.as_str(), client; "connected to the MQTT broker");
                    }
                    *self.shared.connection_state() = ConnectionState::Connected;
                    let started = Instant::now();
                    self.shared.outbox().connected();
                    self.shared.observe(|observer| observer.connected());
                    self.report_overflow();
                    let availability = self.availability.as_ref();
                    let max_packet_bytes = link.max_packet_bytes;
                    self.shared.set_max_packet_bytes(max_packet_bytes);
                    for feature in link.without.iter() {
                        memory.log_missing(index, feature);
                    }
                    let earlier_known = memory.known[index].clone();
                    let is_subscribed = memory.subscribe_ends < MAX_SUBSCRIBE_ENDS;
                    let birth = birth_topic.as_deref().filter(|_| is_subscribed);
                    let mut session = Session::new(
                        link,
                        &self.shared,
                        availability,
                        birth,
                        config,
                        &mut memory,
                        index,
                    );
                    let ended = tokio::select! {
                        ended = session.run() => ended,
                        never = self.read_retained(config, &earlier_known, earlier.as_ref()) => match never {},
                        never = self.announce(announcer.as_mut(), max_packet_bytes) => match never {},
                    };
                    let is_stable = started.elapsed() >= STABLE_AFTER;
                    is_productive = session.confirmed;
                    if is_stable {
                        backoff.reset();
                    } else if !session.confirmed {
                        // It accepts connections and takes no message.
                        first = index + 1;
                    }
                    short = match is_stable {
                        false => short + 1,
                        true => 0,
                    };
                    if short == 0 {
                        failures.reset();
                    }
                    let lacks_subscription = birth.is_some() && session.lacks_subscription;
                    let has_refused = session.has_refused;
                    session.shutdown().await;
                    if birth.is_some() && !lacks_subscription {
                        memory.subscribe_ends = 0;
                    }
                    if let Err(error) = &ended
                        && error.is_end_by_broker()
                    {
                        // After a refusal it is explained. What is given up is no sign of a second client.
                        let is_unanswered = matches!(error, PublishError::Unanswered { .. });
                        if has_refused || self.ended_by_broker(is_unanswered, &mut memory) {
                            short = 0;
                        }
                        memory.subscribe_ends += u32::from(lacks_subscription && !is_stable);
                        if memory.subscribe_ends == MAX_SUBSCRIBE_ENDS && birth.is_some() {
                            let topic = birth_topic.as_deref().unwrap_or_default();
                            log::warn!(topic; "the broker ends the connection after the subscription, which is left out: states are not published again when Home Assistant starts");
                        }
                    }
                    memory.best_effort.forget_unproven();
                    if started.elapsed() >= UNBLOCK_AFTER {
                        self.shared.outbox().unblock();
                    }
                    self.shared.outbox().disconnected();
                    match ended {
                        Ok(SessionEnd::Complete) => return self.abandon(),
                        Ok(SessionEnd::DeadlineExceeded) => return self.abandon(),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            let wait = match (error.is_refusal(), std::mem::take(&mut is_productive)) {
                (true, _) => backoff.refused(),
                (false, true) => backoff.failed().min(MAX_PRODUCTIVE_PAUSE),
                (false, false) => backoff.failed(),
            };
            let (mut kind, mut reason) = (error.kind(), error.to_string());
            if short >= TAKEOVER_SUSPECT_COUNT && matches!(error, PublishError::Closed { .. }) {
                // Logged although the end alone was.
                kind += ", repeatedly";
                reason += &format!(
                    ", {short} times in a row soon after it was accepted: is another client connected as '{}', or does this broker derive \
                     the client id from the user? Give each daemon its own `device`, and its own publish.mqtt.client_id where that is set",
                    self.brokers[0].client_id
                );
            }
            is_loss_logged |= self.report(&mut failures, kind, &error, &reason, wait);
            *self.shared.connection_state() = ConnectionState::Failed {
                reason,
                refused: error.is_refusal(),
            };
            match closing {
                None => self.pause(wait).await,
                // The broker may be back before the deadline; without messages for it that would only delay the end.
                Some(closing)
                    if !error.is_refusal()
                        && self.shared.outbox().has_messages()
                        && Instant::now() + CLOSING_PAUSE < closing.deadline =>
                {
                    sleep_until(Instant::now() + CLOSING_PAUSE).await;
                }
                Some(_) => return self.abandon(),
            }
        }
    }

    /// Reads the retained values, once they are requested. If the connection ends meanwhile, the next one starts over.
    async fn read_retained(
        &self,
        config: &MqttConfig,
        known: &Known,
        earlier: Option<&Earlier>,
    ) -> Infallible {
        loop {
            if self.shared.is_retained_requested() {
                let read = self.read_earlier(config, known, earlier).await;
                if let Err(error) = &read {
                    // A broker may refuse this: publishing does not need it.
                    log::info!(
                        "cannot read retained messages of a previous run; stale ones remain: {error}"
                    );
                }
                let mut found = read.ok();
                if let Some(earlier) = earlier {
                    let announced = found
                        .as_mut()
                        .map(|found| found.take_below(&earlier.prefix));
                    // Fails where the announcer has ended.
                    let _ = earlier
                        .facts
                        .send(Fact::Earlier(announced.unwrap_or_default()));
                }
                self.shared.set_retained(found);
            }
            self.shared.retained_requested.notified().await;
        }
    }

    /// Reads the values of an earlier run, with its announcements where the broker allows it.
    async fn read_earlier(
        &self,
        config: &MqttConfig,
        known: &Known,
        earlier: Option<&Earlier>,
    ) -> Result<RetainedSnapshot, PublishError> {
        let mut filters = self.retained_filters.to_vec();
        if let Some(earlier) = earlier {
            filters.push(earlier.filter.clone());
            match retained::read(config, &mut known.clone(), &filters).await {
                Ok(found) => return Ok(found),
                // Some brokers end the connection for a filter that they do not allow.
                Err(error) => log::debug!("cannot read what an earlier run announced: {error}"),
            }
            filters.pop();
        }
        retained::read(config, &mut known.clone(), &filters).await
    }

    async fn announce(
        &self,
        announcer: Option<&mut Announcer>,
        max_packet_bytes: usize,
    ) -> Infallible {
        match announcer {
            Some(announcer) => announcer.run(&self.shared, max_packet_bytes).await,
            None => std::future::pending().await,
        }
    }

    /// One attempt at each broker, from the one at `first` on, with the index of the one that accepts; `None` when the sink was
    /// closed meanwhile.
    async fn connect(
        &self,
        first: usize,
        known: &mut [Known],
    ) -> Option<Result<(Connection, usize), PublishError>> {
        let identity = ClientIdentity {
            client_id: self.brokers[0].client_id.clone(),
            will: self
                .availability
                .as_ref()
                .map(|known| (known.topic.as_ref().to_owned(), known.offline.to_owned())),
            protocol: self.protocol,
        };
        let Some(closing) = self.shared.closing() else {
            // Closing must not wait for an unresponsive broker.
            return tokio::select! {
                link = connect_in_turn(&self.brokers, first, &identity, known, CONNECT_TIMEOUT) => Some(link),
                () = self.closed() => None,
            };
        };
        let left = closing.deadline.saturating_duration_since(Instant::now());
        // Each broker has its part of what is left.
        let limit = left / u32::try_from(self.brokers.len()).unwrap_or(1);
        let attempt = connect_in_turn(&self.brokers, first, &identity, known, limit);
        let link = timeout(left, attempt).await;
        Some(link.unwrap_or_else(|_| {
            let address = address_of(&self.brokers[0]);
            Err(PublishError::Timeout {
                address,
                step: "connecting",
                waited: left,
            })
        }))
    }

    /// Resolves when the sink is being closed.
    async fn closed(&self) {
        while self.shared.closing().is_none() {
            self.shared.wake.notified().await;
        }
    }

    /// Waits before the next attempt; closing ends the wait.
    async fn pause(&self, wait: Duration) {
        let until = Instant::now() + wait;
        tokio::select! {
            () = sleep_until(until) => {}
            () = self.closed() => {}
        }
    }

    /// Finds the message on which the broker may have ended the connection, and logs those that are given up because of that.
    /// Returns whether there are some.
    fn ended_by_broker(&self, is_unanswered: bool, memory: &mut Memory) -> bool {
        let mut given_up = {
            let mut outbox = self.shared.outbox();
            outbox.ended_by_broker(is_unanswered);
            outbox.take_given_up()
        };
        given_up.extend(memory.best_effort.ended());
        for message in &given_up {
            self.shared.refused_bytes(message.bytes);
            let reason = "3 times in a row";
            memory.log_given_up(message, "the broker ends the connection on it", reason);
        }
        !given_up.is_empty()
    }

    /// Logs a failure, unless it repeats; returns whether it did.
    fn report(
        &self,
        failures: &mut FailureLog,
        kind: String,
        error: &PublishError,
        reason: &str,
        wait: Duration,
    ) -> bool {
        let Some(repeats) = failures.admit_kind(kind, std::time::Instant::now()) else {
            return false;
        };
        let queued = self.shared.outbox().counts().queued;
        let retry_s = wait.as_secs_f32();
        let client = self.brokers[0].client_id.as_str();
        if error.is_refusal() {
            log::error!(queued, repeats, retry_s, client; "{reason}");
        } else {
            log::warn!(queued, repeats, retry_s, client; "{reason}; trying again");
        }
        true
    }

    /// Logs what was dropped while the broker was away.
    fn report_overflow(&self) {
        let Overflow { updates, essential } = self.shared.outbox().take_overflow();
        if updates + essential > 0 {
            log::warn!(updates, other_messages = essential; "messages were dropped because the queue was full ({})", self.queue_key);
        }
    }

    fn abandon(&self) {
        self.report_overflow();
        let (lost, kept) = {
            let mut outbox = self.shared.outbox();
            let lost = outbox.abandon();
            (lost, outbox.kept())
        };
        if kept > 0 {
            log::info!(messages = kept; "messages wait in the spool; the next start sends them");
        }
        if lost > 0 {
            log::warn!(lost; "messages not delivered to the MQTT broker before the deadline are lost");
        }
    }
}
