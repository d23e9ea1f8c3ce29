// SPDX-License-Identifier: Apache-2.0
//! `jetwatch-simulate`: publishes as many devices would, for tests of brokers. Run by the tests of this folder.

use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use jetwatch_config::{
    Broker, Credentials, Durability, MqttConfig, Secret, SpoolConfig, TlsConfig,
};
use jetwatch_publish::{Part, Protocol};
use jetwatch_simulate::{Options, Outages, Progress, simulate};
use jetwatch_telemetry::StopToken;

/// Seconds between two lines of progress.
const PROGRESS_S: u64 = 10;

/// The messages of `--only states`.
const STATES: Part = Part::States {
    with_analytics: false,
    has_spool: false,
};

/// Publish as many devices would, and print what was lost. Times are in seconds.
#[derive(Debug, Parser)]
#[command(name = "jetwatch-simulate")]
struct Arguments {
    /// Simulated devices, each with a connection of its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    boxes: u32,
    /// Events and analytics events of each device in a second, as a mean.
    #[arg(long, value_name = "RATE", default_value_t = 1.0)]
    events_per_s: f64,
    /// Address of a broker: mqtt://HOST:PORT or mqtts://HOST:PORT. Given several times: device n begins with the nth, and tries the others in turn.
    #[arg(long = "broker", value_name = "URL", required = true, value_parser = Broker::parse)]
    brokers: Vec<Broker>,
    /// Time of the measurement, which begins when the last device was started.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    duration: Duration,
    /// Sources of each device.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1000))]
    sources: u16,
    /// Begin of the names of devices and of client ids; a number follows.
    #[arg(long, value_name = "TEXT", default_value = "simulated-")]
    device_prefix: String,
    /// First level of every topic.
    #[arg(long, value_name = "TEXT", default_value = "jetwatch")]
    topic_prefix: String,
    /// Publish only these: what a broker of publish.mqtt has where publish.mqtt.states names another one, or what that one has.
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// User name at the broker. {device} in it is the name of the device.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// File with the password of this user. {device} in the path is the name of the device, here and for certificates and keys.
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// mqtts://: PEM file of the authorities to trust. Default: the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// mqtts://: PEM file of the client's certificate.
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// mqtts://: PEM file of its key.
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// Version of MQTT. Default: 5, and 3.1.1 where the broker does not understand it.
    #[arg(long, value_enum)]
    mqtt: Option<Version>,
    /// MQTT keep-alive.
    #[arg(long, value_name = "SECONDS", default_value = "15", value_parser = parse_seconds)]
    keep_alive: Duration,
    /// Devices that are started in a second.
    #[arg(long, value_name = "RATE", default_value_t = 100.0)]
    connects_per_s: f64,
    /// Mean time between two outages of the network of a device. Default: none.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    outage_every: Option<Duration>,
    /// Mean length of an outage; each is half to one and a half of it.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    outage_length: Duration,
    /// Late messages of each device in a second after an outage, beyond the rate of new ones.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    replay_per_s: u32,
    /// Messages of each device in memory while the broker is away; more are lost, or in the spool.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    queue_messages: u32,
    /// Time between two messages with statistics of a device.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    stats_interval: Duration,
    /// Longest time after the measurement until all messages are acknowledged.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    drain: Duration,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Give each device a spool in this folder: a killed process loses nothing, and the next run goes on with the numbers, with what was not acknowledged, and with --log and --acks.
    #[arg(long, value_name = "FOLDER")]
    spool: Option<PathBuf>,
    /// Write each event that was made to this file, as a line of JSON with device, spool and seq.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write each event that the broker has acknowledged to this file, as a line of JSON with device, spool, seq, made_ms, acked_ms and ack_ms.
    #[arg(long, value_name = "FILE")]
    acks: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Parts of the messages.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Only {
    /// Events and analytics events.
    Events,
    /// Retained values and statistics.
    States,
}

/// Versions of MQTT.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Version {
    #[value(name = "5")]
    V5,
    #[value(name = "3.1.1")]
    V311,
}

/// Simulates, prints the result, and fails where something was lost.
fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let stop = StopToken::default();
    end_on_signals(stop.clone())?;
    let summary = simulate(options(&arguments)?, &stop, |progress| {
        if progress.elapsed.as_secs() % PROGRESS_S == 0 {
            print_progress(progress);
        }
    })?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        println!("{summary}");
    }
    Ok(match summary.is_good() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// SIGINT and SIGTERM end the measurement, a second one ends the process at once.
fn end_on_signals(stop: StopToken) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot register signal handlers")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if stop.is_stopped() {
                process::exit(128 + signal);
            }
            stop.stop();
        }
    });
    Ok(())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| format!("found {text:?}, expected a number of seconds above 0, such as 20"))
}

fn print_progress(progress: &Progress) {
    eprintln!(
        "{:4} s  {} started, {} connects, {} events, {} messages acknowledged",
        progress.elapsed.as_secs(),
        progress.started,
        progress.connects,
        progress.events,
        progress.acknowledged
    );
}

fn options(args: &Arguments) -> anyhow::Result<Options> {
    for (name, rate) in [
        ("--events-per-s", args.events_per_s),
        ("--connects-per-s", args.connects_per_s),
    ] {
        ensure!(
            (0.001..=100_000.0).contains(&rate),
            "{name} {rate}: expected a number from 0.001 to 100000"
        );
    }
    for (name, text) in [
        ("--device-prefix", &args.device_prefix),
        ("--topic-prefix", &args.topic_prefix),
    ] {
        let is_wrong = |c: char| "/+#$".contains(c) || !c.is_ascii_graphic();
        ensure!(
            !text.is_empty() && text.len() <= 100 && !text.contains(is_wrong),
            "{name} {text:?}: expected 1 to 100 printable ASCII characters without `/`, `+`, `#`, `$` and spaces"
        );
    }
    let part = match args.only {
        None => Part::Everything,
        Some(Only::Events) => Part::Events,
        Some(Only::States) => STATES,
    };
    let of_events = [&args.spool, &args.log, &args.acks];
    ensure!(
        part != STATES || of_events.iter().all(|path| path.is_none()),
        "--spool, --log and --acks are about events, and --only states publishes none"
    );
    let credentials = args.user.clone().zip(args.password_file.clone());
    let mut brokers = args.brokers.clone();
    let broker = brokers.remove(0);
    Ok(Options {
        boxes: args.boxes as usize,
        events_per_s: args.events_per_s,
        sources: usize::from(args.sources),
        duration: args.duration,
        device_prefix: args.device_prefix.clone(),
        mqtt: MqttConfig {
            protocol: None,
            broker,
            alternatives: brokers,
            listen_tls: None,
            states: None,
            prefix: args.topic_prefix.clone(),
            client_id: args.device_prefix.clone(),
            credentials: credentials.map(|(user, path)| Credentials {
                user,
                password: Secret::File(path),
            }),
            tls: TlsConfig {
                ca_file: args.ca_file.clone(),
                cert_file: args.cert_file.clone(),
                key_file: args.key_file.clone(),
            },
            keep_alive: args.keep_alive,
            queue_messages: args.queue_messages as usize,
            spool: SpoolConfig {
                max_per_s: args.replay_per_s,
                durability: Durability::Process,
                runtime_folder: args.spool.clone(),
                ..SpoolConfig::default()
            },
            also: Vec::new(),
        },
        part,
        has_spool: args.spool.is_some(),
        protocol: args.mqtt.map(|version| match version {
            Version::V5 => Protocol::V5,
            Version::V311 => Protocol::V311,
        }),
        connects_per_s: args.connects_per_s,
        outages: args.outage_every.map(|every| Outages {
            every,
            length: args.outage_length,
        }),
        stats_interval: args.stats_interval,
        drain: args.drain,
        seed: args.seed,
        log: args.log.clone(),
        acks: args.acks.clone(),
    })
}
