// SPDX-License-Identifier: Apache-2.0
//! `jetwatch subscribe`: prints the messages of a broker.

use std::io::{ErrorKind, Write, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use jetwatch_config::{Broker, Config, MqttConfig, SpoolConfig, TlsConfig};
use jetwatch_publish::Subscriber;
use jetwatch_telemetry::StopToken;

use super::{Exit, parse_duration, signals};

/// Longest wait for a message, after which a stop is noticed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Messages of one broker before the other has its turn.
const MAX_BURST: usize = 1000;

/// Arguments of `jetwatch subscribe`.
#[derive(Debug, Args)]
pub(super) struct SubscribeArgs {
    /// Configuration file whose broker, user and certificates are used.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["host", "port"])]
    config: Option<PathBuf>,
    /// Host name or address of the broker.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Port of the broker.
    #[arg(long, default_value_t = 1883)]
    port: u16,
    /// Topic filter.
    #[arg(long, default_value = "jetwatch/#")]
    topic: String,
    /// Stop after this time, such as 20s or 5m.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
}

/// Prints one line `topic payload` for each message until it is stopped.
pub(super) fn run(args: &SubscribeArgs) -> anyhow::Result<Exit> {
    let stop = StopToken::default();
    signals::listen(stop.clone(), || {})?;
    let mqtt = mqtt_config(args)?;
    let states = mqtt.for_states();
    let brokers = std::iter::once(&mqtt).chain(&states);
    let subscribers: Vec<Subscriber> = brokers
        .map(|broker| Subscriber::start(broker, &args.topic))
        .collect::<Result<_, _>>()?;
    // One broker is waited for; of two, each has its turn.
    let wait = POLL_INTERVAL / u32::try_from(subscribers.len()).unwrap_or(1);
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    while !stop.is_stopped() && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        for subscriber in &subscribers {
            if let Some(reason) = subscriber.ended() {
                anyhow::bail!("lost the connection to the broker: {reason}");
            }
            let mut next = subscriber.recv_timeout(wait);
            for _ in 0..MAX_BURST {
                let Some((topic, payload)) = next else {
                    break;
                };
                let printed = writeln!(stdout(), "{topic} {}", String::from_utf8_lossy(&payload));
                match printed {
                    Ok(()) => {}
                    // The reader has closed the pipe.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                        return Ok(Exit::Success);
                    }
                    Err(error) => return Err(error.into()),
                }
                next = subscriber.recv_timeout(Duration::ZERO);
            }
        }
    }
    Ok(Exit::Success)
}

fn mqtt_config(args: &SubscribeArgs) -> anyhow::Result<MqttConfig> {
    if let Some(path) = &args.config {
        return Config::load(path)?.publish.mqtt.with_context(|| {
            format!(
                "{} has `publish.mqtt: off`: there is no broker to subscribe to",
                path.display()
            )
        });
    }
    Ok(MqttConfig {
        protocol: None,
        broker: Broker::Url {
            host: args.host.clone(),
            port: args.port,
            tls: false,
        },
        alternatives: Vec::new(),
        listen_tls: None,
        states: None,
        prefix: "jetwatch".to_owned(),
        client_id: "jetwatch".to_owned(),
        credentials: None,
        tls: TlsConfig::default(),
        keep_alive: Duration::from_secs(15),
        queue_messages: 1,
        spool: SpoolConfig::default(),
        also: Vec::new(),
    })
}
