//! The thread that subscribes to `<prefix>/<device>/command` and reconnects while the broker is unavailable. It only
//! forwards payloads; replies are published by the sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{PublishError, Subscriber, Topics};
use jetwatch_config::MqttConfig;
use jetwatch_types::Classes;

/// Interval between connection attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which the thread checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Listens until it is dropped.
pub struct CommandListener {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl CommandListener {
    /// Starts the thread and returns at once. `on_payload` gets each command's payload, on that thread. Retained messages are
    /// ignored: they would be executed again at every connection.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        config: &MqttConfig,
        device: &str,
        on_payload: impl Fn(Vec<u8>) + Send + 'static,
    ) -> Result<Self, PublishError> {
        let topic = Topics::new(&config.prefix, device, &Classes::default())
            .command()
            .to_owned();
        let (config, stop) = (config.clone(), Arc::new(AtomicBool::new(false)));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("mqtt-commands".to_owned())
            .spawn(move || listen(&config, &topic, &stopping, on_payload))
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

fn listen(config: &MqttConfig, topic: &str, stop: &AtomicBool, on_payload: impl Fn(Vec<u8>)) {
    let stops = || stop.load(Ordering::Acquire);
    let mut last_logged = None;
    while !stops() {
        let reason = match Subscriber::start_fresh(config, topic) {
            Ok(subscriber) => {
                log::info!(topic; "listening for commands");
                last_logged = None;
                loop {
                    if stops() {
                        return;
                    }
                    if let Some((_, payload)) = subscriber.recv_timeout(POLL_INTERVAL) {
                        on_payload(payload);
                    } else if let Some(reason) = subscriber.ended() {
                        break reason;
                    }
                }
            }
            Err(error) => error.to_string(),
        };
        if last_logged.as_ref() != Some(&reason) {
            log::warn!("command subscription failed: {reason}");
            last_logged = Some(reason);
        }
        let again = Instant::now() + RETRY_INTERVAL;
        while !stops() && Instant::now() < again {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
