// SPDX-License-Identifier: Apache-2.0
//! The thread that subscribes to `<prefix>/<device>/command` and to the topics of switches, and reconnects while the broker is unavailable. It only
//! forwards payloads; replies are published by the sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{CommandMessage, PublishError, Subscriber, Topics};
use jetwatch_config::MqttConfig;
use jetwatch_telemetry::FailureLog;
use jetwatch_types::{Backoff, Classes};

/// Intervals between connection attempts, which double.
const RETRY_INTERVALS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];
/// Interval at which the thread checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Listens until it is dropped.
pub struct CommandListener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CommandListener {
    /// Starts the thread and returns at once. `on_command` gets each command, on that thread. `reply_topics`: filters of the response
    /// topics that are used, besides those below the topic of replies. Retained messages are ignored: they would be executed again at every
    /// connection.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        config: &MqttConfig,
        device: &str,
        reply_topics: &[String],
        on_command: impl Fn(CommandMessage) + Send + 'static,
    ) -> Result<Self, PublishError> {
        let topics = Topics::new(&config.prefix, device, &Classes::default());
        let (config, stop) = (config.clone(), Arc::new(AtomicBool::new(false)));
        let reply_topics = reply_topics.to_vec();
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("mqtt-commands".to_owned())
            .spawn(move || listen(&config, &topics, &reply_topics, &stopping, on_command))
            .map_err(|source| PublishError::Thread {
                name: "mqtt-commands",
                source,
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for CommandListener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return;
        };
        let until = Instant::now() + POLL_INTERVAL * 10;
        while !thread.is_finished() {
            if Instant::now() >= until {
                // The thread may be blocked on an unresponsive broker; it holds no resources, so it is not joined.
                return;
            }
            std::thread::sleep(POLL_INTERVAL / 20);
        }
        let _ = thread.join();
    }
}

fn listen(
    config: &MqttConfig,
    topics: &Topics,
    reply_topics: &[String],
    stop: &AtomicBool,
    on_command: impl Fn(CommandMessage),
) {
    let (topic, set_filters) = (topics.command(), topics.set_filters());
    let stops = || stop.load(Ordering::Acquire);
    let mut failures = FailureLog::default();
    let mut unanswered = FailureLog::default();
    let mut backoff = Backoff::new(RETRY_INTERVALS[0], RETRY_INTERVALS[1]);
    while !stops() {
        let (kind, reason) = match Subscriber::start_fresh_with(config, topic, &set_filters) {
            Ok((subscriber, refused)) => {
                if refused.contains(&topic) {
                    log::info!("listening for commands by topics of switches only");
                } else {
                    log::info!(topic; "listening for commands");
                }
                if !refused.is_empty() {
                    log::warn!(
                        "not all commands are available: the broker refuses to subscribe to {}; allow it for this user",
                        refused.join(", ")
                    );
                }
                let started = Instant::now();
                let reason = loop {
                    if stops() {
                        return;
                    }
                    if let Some(received) = subscriber.next(POLL_INTERVAL) {
                        let asked = received.reply_to;
                        let reply_to = asked.filter(|to| {
                            let may = may_reply(&to.topic, topics, reply_topics);
                            // A sender may name another one each time.
                            if !may && let Some(repeats) = unanswered.admit("", Instant::now()) {
                                let topic = &to.topic;
                                log::warn!(repeats; "no reply is published on the response topic {topic:?} of a command: it is neither below {}/ nor in commands.reply_topics", topics.reply());
                            }
                            may
                        });
                        on_command(CommandMessage {
                            sets: topics.set_topic(&received.topic),
                            reply_to,
                            payload: received.payload,
                        });
                    } else if let Some(reason) = subscriber.ended() {
                        break reason;
                    }
                };
                if started.elapsed() >= RETRY_INTERVALS[1] {
                    failures.reset();
                    backoff.reset();
                }
                ("ended".to_owned(), reason)
            }
            Err(error) => (error.kind(), error.to_string()),
        };
        if let Some(repeats) = failures.admit_kind(kind, Instant::now()) {
            log::warn!(repeats; "command subscription failed: {reason}");
        }
        let again = Instant::now() + backoff.advance();
        while !stops() && Instant::now() < again {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Whether the daemon publishes a reply there: other topics of its own would mislead its subscribers, and other programs act on theirs.
fn may_reply(topic: &str, topics: &Topics, allowed: &[String]) -> bool {
    let status = topics.status();
    let own = status.strip_suffix("status").unwrap_or(status);
    let below = topic.strip_prefix(topics.reply());
    let is_below = below.is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'));
    let is_listed = || {
        let mut allowed = allowed.iter();
        !topic.starts_with(own) && allowed.any(|filter| jetwatch_mqtt::matches(filter, topic))
    };
    jetwatch_mqtt::is_valid_topic(topic) && (is_below || is_listed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_go_below_the_own_topic_and_where_the_configuration_says() {
        let topics = Topics::new("jetwatch", "box", &Classes::default());
        let allowed = ["operator/+/replies", "jetwatch/#"].map(str::to_owned);
        let may = |topic: &str| may_reply(topic, &topics, &allowed);
        assert!(may("operator/7/replies"));
        assert!(may("jetwatch/boxes/replies"));
        assert!(may("jetwatch/box/command/reply/7"));
        for topic in [
            "",
            "a/+",
            "operator/#",
            "$SYS/x",
            "a\0b",
            "homeassistant/switch/x/config",
            "operator/7/replies/x",
            "jetwatch/box/command/reply",
            "jetwatch/box/command/reply/",
            "jetwatch/box/status",
            "jetwatch/box/command",
        ] {
            assert!(!may(topic), "{topic:?}");
        }
    }
}
