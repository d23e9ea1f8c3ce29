//! The thread that subscribes to `<prefix>/<device>/command` and to the topics of switches, and reconnects while the broker is unavailable. It only
//! forwards payloads; replies are published by the sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{CommandMessage, PublishError, ReplyTo, Subscriber, Topics};
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
    /// Starts the thread and returns at once. `on_command` gets each command, on that thread. Retained messages are
    /// ignored: they would be executed again at every connection.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        config: &MqttConfig,
        device: &str,
        on_command: impl Fn(CommandMessage) + Send + 'static,
    ) -> Result<Self, PublishError> {
        let topics = Topics::new(&config.prefix, device, &Classes::default());
        let (config, stop) = (config.clone(), Arc::new(AtomicBool::new(false)));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("mqtt-commands".to_owned())
            .spawn(move || listen(&config, &topics, &stopping, on_command))
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
    stop: &AtomicBool,
    on_command: impl Fn(CommandMessage),
) {
    let (topic, set_filters) = (topics.command(), topics.set_filters());
    let stops = || stop.load(Ordering::Acquire);
    let mut failures = FailureLog::default();
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
                        on_command(CommandMessage {
                            sets: topics.set_topic(&received.topic),
                            reply_to: received.reply_to.filter(|to| may_reply(to, topics)),
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

/// Whether the daemon publishes a reply there. The topics of the daemon itself would mislead its subscribers.
fn may_reply(to: &ReplyTo, topics: &Topics) -> bool {
    let status = topics.status();
    let own = status.strip_suffix("status").unwrap_or(status);
    let topic = &to.topic;
    let is_topic =
        !topic.is_empty() && !topic.starts_with('$') && !topic.contains(['+', '#', '\0']);
    let may = is_topic && !topic.starts_with(own);
    if !may {
        log::warn!(
            "no reply is published on the response topic {topic:?} of a command: expected a topic without wildcards outside of {own}"
        );
    }
    may
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_topics_of_the_daemon_itself_are_refused() {
        let topics = Topics::new("jetwatch", "box", &Classes::default());
        let may = |topic: &str| {
            let topic = topic.to_owned();
            let to = ReplyTo {
                topic,
                correlation: None,
            };
            may_reply(&to, &topics)
        };
        assert!(may("operator/7/replies"));
        assert!(may("jetwatch/boxes/replies"));
        for topic in [
            "",
            "a/+",
            "a/#",
            "$SYS/x",
            "a\0b",
            "jetwatch/box/status",
            "jetwatch/box/command",
        ] {
            assert!(!may(topic), "{topic:?}");
        }
    }
}
