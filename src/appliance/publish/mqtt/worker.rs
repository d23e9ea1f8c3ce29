//! The life of the `mqtt` thread: connect, serve, wait, for ever, until the sink is closed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::ConnectionState;
use super::backoff::Backoff;
use super::connect::{ClientIdentity, address_of, connect};
use super::connection::Connection;
use super::log_dedup::LogDedup;
use super::retained;
use super::session::{OFFLINE, Session, SessionEnd};
use super::shared::Shared;
use crate::PublishError;
use jetwatch_config::MqttConfig;

/// Longest time of each step of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection this old was good, even if no message was acknowledged on it.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// So many connections in a row that were accepted and ended within [`STABLE_AFTER`] look like two clients of one id that throw
/// each other off: not every broker says so.
const TAKEOVER_SUSPECT_COUNT: u32 = 3;

pub(super) struct Worker {
    pub config: MqttConfig,
    pub shared: Arc<Shared>,
    /// The availability topic.
    pub status: Arc<str>,
    /// Which of the device's topics have values that the broker keeps.
    pub retained_filters: [String; 4],
}

impl Worker {
    /// Runs until the sink is closed and its deadline is kept.
    pub async fn run(self) {
        let mut backoff = Backoff::default();
        let mut failures = LogDedup::default();
        let mut refusals = LogDedup::default();
        let mut short = 0;
        let broker = address_of(&self.config);
        loop {
            let closing = self.shared.closing();
            let Some(attempt) = self.connect().await else {
                // Interrupted by closing: the next one is the last, and knows its deadline.
                continue;
            };
            let error = match attempt {
                Ok(link) => {
                    let repeats = failures.reset();
                    log::info!(broker = broker.as_str(), repeats; "connected to the MQTT broker");
                    *self.shared.connection_state() = ConnectionState::Connected;
                    let started = Instant::now();
                    self.shared.outbox().connected();
                    let status = Arc::clone(&self.status);
                    let mut session = Session::new(
                        link,
                        &self.shared,
                        status,
                        &self.config.client_id,
                        &mut refusals,
                    );
                    let ended = tokio::select! {
                        ended = session.run() => ended,
                        never = self.read_retained() => match never {},
                    };
                    if session.confirmed || started.elapsed() >= STABLE_AFTER {
                        backoff.reset();
                    }
                    short = match started.elapsed() < STABLE_AFTER {
                        true => short + 1,
                        false => 0,
                    };
                    session.shutdown().await;
                    self.shared.outbox().disconnected();
                    match ended {
                        Ok(SessionEnd::Complete) => return,
                        Ok(SessionEnd::DeadlineExceeded) => return self.abandon(),
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            let wait = if error.is_refusal() {
                backoff.refused()
            } else {
                backoff.failed()
            };
            let mut reason = error.to_string();
            if short >= TAKEOVER_SUSPECT_COUNT && matches!(error, PublishError::Lost { .. }) {
                reason += &format!(
                    ", {short} times in a row soon after it was accepted: is another client connected as '{}'? Give each daemon its \
                     own `device`, and its own publish.mqtt.client_id where that is set",
                    self.config.client_id
                );
            }
            self.report(&mut failures, &error, &reason, wait);
            *self.shared.connection_state() = ConnectionState::Failed {
                reason,
                refused: error.is_refusal(),
            };
            // One attempt is made after closing was asked for: with a broker that is away, more would only delay the end.
            if closing.is_some() {
                return self.abandon();
            }
            self.pause(wait).await;
        }
    }

    /// Reads what the broker has kept, once somebody asks for it. Where the connection ends meanwhile, the next one begins anew.
    async fn read_retained(&self) -> Infallible {
        loop {
            if self.shared.is_retained_requested() {
                let read = retained::read(&self.config, &self.retained_filters).await;
                if let Err(error) = &read {
                    // A broker may well say no: publishing needs none of this.
                    log::info!(
                        "what an earlier run has left at the broker cannot be seen, and stays: {error}"
                    );
                }
                self.shared.set_retained(read.ok());
            }
            self.shared.retained_requested.notified().await;
        }
    }

    /// One attempt; `None` when the sink was closed meanwhile.
    async fn connect(&self) -> Option<Result<Connection, PublishError>> {
        let identity = ClientIdentity {
            client_id: self.config.client_id.clone(),
            will: Some((self.status.as_ref().to_owned(), OFFLINE.to_owned())),
        };
        let Some(closing) = self.shared.closing() else {
            // Closing must not wait for a broker that does not answer.
            return tokio::select! {
                link = connect(&self.config, &identity, CONNECT_TIMEOUT) => Some(link),
                () = self.closed() => None,
            };
        };
        let left = closing.deadline.saturating_duration_since(Instant::now());
        let link = timeout(left, connect(&self.config, &identity, left)).await;
        Some(link.unwrap_or_else(|_| {
            let address = address_of(&self.config);
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

    /// Says each failure once; repeats are counted and told with the next line that differs.
    fn report(&self, failures: &mut LogDedup, error: &PublishError, reason: &str, wait: Duration) {
        let Some(repeats) = failures.admit(reason) else {
            return;
        };
        let queued = self.shared.outbox().counts().queued;
        let retry_s = wait.as_secs_f32();
        if error.is_refusal() {
            log::error!(queued, repeats, retry_s; "{reason}");
        } else {
            log::warn!(queued, repeats, retry_s; "{reason}; trying again");
        }
    }

    fn abandon(&self) {
        let lost = self.shared.outbox().abandon();
        if lost > 0 {
            log::warn!(lost; "messages were still waiting for the MQTT broker at the end; they are lost");
        }
    }
}
