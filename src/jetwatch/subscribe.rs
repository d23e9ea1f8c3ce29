// SPDX-License-Identifier: Apache-2.0
//! `jetwatch subscribe`: prints the messages of a broker.

use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
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
    /// Write pictures and other messages that are no text to files in this folder, the newest of each topic.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

/// Prints one line `topic payload` for each message until it is stopped.
pub(super) fn run(args: &SubscribeArgs) -> anyhow::Result<Exit> {
    if let Some(folder) = &args.save {
        fs::create_dir_all(folder)
            .with_context(|| format!("--save: cannot create {}", folder.display()))?;
    }
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
                let text = match std::str::from_utf8(&payload) {
                    Ok(text) => text.to_owned(),
                    Err(_) => binary(args.save.as_deref(), &topic, &payload)?,
                };
                let printed = writeln!(stdout(), "{topic} {text}");
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

/// A payload that is no text, in words; it is written to `folder`, where there is one.
fn binary(folder: Option<&Path>, topic: &str, payload: &[u8]) -> anyhow::Result<String> {
    let (what, extension) = match payload {
        [0xff, 0xd8, 0xff, ..] => ("JPEG picture", "jpg"),
        [0x89, b'P', b'N', b'G', ..] => ("PNG picture", "png"),
        _ => ("no text", "bin"),
    };
    let text = format!("({what}, {} bytes)", payload.len());
    let Some(folder) = folder else {
        return Ok(text);
    };
    let is_plain = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let name: String = topic
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    let path = folder.join(format!("{name}.{extension}"));
    jetwatch_files::write(&path, payload)
        .with_context(|| format!("--save: cannot write {}", path.display()))?;
    Ok(format!("{text} in {}", path.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_by_kind_and_size() {
        let jpeg = [0xff, 0xd8, 0xff, 0xe0];
        let told = |payload: &[u8]| binary(None, "a", payload).expect("nothing is written");
        assert_eq!(told(&jpeg), "(JPEG picture, 4 bytes)");
        assert_eq!(told(&[0xff]), "(no text, 1 bytes)");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = binary(Some(folder.path()), "jetwatch/../gate/snapshot", &jpeg);
        let path = folder.path().join("jetwatch-..-gate-snapshot.jpg");
        assert!(
            text.expect("written")
                .ends_with(&path.display().to_string())
        );
        assert_eq!(fs::read(path).expect("written"), jpeg);
    }
}
