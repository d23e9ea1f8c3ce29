// SPDX-License-Identifier: Apache-2.0
//! A small simulation with the embedded broker: what a subscriber receives is what the list of events has.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;

use jetwatch_config::{Broker, Credentials, Durability, Secret, SpoolConfig, TlsConfig};
use jetwatch_publish::{EmbeddedBroker, Subscriber, round_trip};
use serde_json::Value;

use super::*;

const BOXES: usize = 5;

fn options(port: u16, log: PathBuf, protocol: Protocol) -> Options {
    Options {
        boxes: BOXES,
        events_per_s: 20.0,
        sources: 2,
        duration: Duration::from_secs(3),
        device_prefix: "simulated-".to_owned(),
        mqtt: MqttConfig {
            broker: Broker::Url {
                host: "127.0.0.1".to_owned(),
                port,
                tls: false,
            },
            alternatives: Vec::new(),
            listen_tls: None,
            states: None,
            protocol: None,
            prefix: "jetwatch".to_owned(),
            client_id: "simulated".to_owned(),
            credentials: None,
            tls: TlsConfig::default(),
            keep_alive: Duration::from_secs(15),
            queue_messages: 10_000,
            spool: SpoolConfig::default(),
            also: Vec::new(),
        },
        part: Part::Everything,
        has_spool: false,
        protocol: Some(protocol),
        connects_per_s: 100.0,
        outages: Some(Outages {
            every: Duration::from_secs(2),
            length: Duration::from_millis(500),
        }),
        stats_interval: Duration::from_secs(1),
        drain: Duration::from_secs(60),
        seed: 1,
        log: Some(log),
        acks: None,
    }
}

/// Device, `spool` and `seq` of an event, or of a line of the list.
fn number(line: &Value) -> (String, String, u64) {
    let text = |key: &str| line[key].as_str().expect("a text").to_owned();
    let seq = line["seq"].as_u64().expect("a number");
    (text("device"), text("spool"), seq)
}

/// The events of a list.
fn numbers(path: &Path) -> BTreeSet<(String, String, u64)> {
    let list = std::fs::read_to_string(path).expect("the list");
    let number_of = |line: &str| number(&serde_json::from_str(line).expect("JSON"));
    list.lines().map(number_of).collect()
}

/// Waits until the subscriber has the events that are `wanted`, and no others.
fn receive(subscriber: &Subscriber, wanted: &BTreeSet<(String, String, u64)>) {
    let mut received = BTreeSet::new();
    while received.len() < wanted.len() {
        let message = subscriber.recv_timeout(Duration::from_secs(20));
        let (topic, payload) = message.expect("all events arrive");
        if topic.ends_with("/events") || topic.ends_with("/analytics") {
            received.insert(number(&serde_json::from_slice(&payload).expect("JSON")));
        }
    }
    assert_eq!(&received, wanted);
}

#[test]
fn subscriber_receives_each_event_of_the_list_through_outages_and_no_retained_value_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let _broker = EmbeddedBroker::start(address, None).expect("the port is free");
    for protocol in [Protocol::V5, Protocol::V311] {
        let log = folder.path().join("sent.jsonl");
        let options = options(address.port(), log.clone(), protocol);
        let config = MqttConfig {
            client_id: "reader".to_owned(),
            ..options.mqtt.clone()
        };
        let subscriber = Subscriber::start(&config, "jetwatch/#").expect("the broker runs");
        let summary = simulate(options, &StopToken::default(), |_| {}).expect("it runs");
        assert!(summary.is_good(), "{summary}");
        assert!(summary.reconnects > 0 && summary.connects >= BOXES as u64);
        let sent = numbers(&log);
        assert_eq!(sent.len() as u64, summary.events);
        receive(&subscriber, &sent);
        let late = Subscriber::start(&config, "jetwatch/#").expect("the broker runs");
        // What is retained comes before what is published after the subscription.
        let limit = Duration::from_secs(20);
        round_trip(&config, "later", limit).expect("the broker runs");
        let (topic, _) = late.recv_timeout(limit).expect("the later message");
        assert!(topic.starts_with("jetwatch/later/"), "{topic} stays");
    }
}

#[test]
fn next_run_goes_on_with_the_spools_of_a_run_without_a_broker() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("it is bound");
    drop(free);
    let (log, acks) = (
        folder.path().join("made.jsonl"),
        folder.path().join("acks.jsonl"),
    );
    let options = |seconds, drain_s| {
        let mut options = options(address.port(), log.clone(), Protocol::V5);
        options.mqtt.spool.runtime_folder = Some(folder.path().join("spools"));
        options.mqtt.spool.durability = Durability::Process;
        Options {
            has_spool: true,
            part: Part::Events,
            outages: None,
            acks: Some(acks.clone()),
            duration: Duration::from_secs(seconds),
            drain: Duration::from_secs(drain_s),
            ..options
        }
    };
    let first = simulate(options(1, 0), &StopToken::default(), |_| {}).expect("it runs");
    assert_eq!((first.lost, first.never_connected), (0, BOXES));
    assert!(first.waiting > 0 && first.waiting == first.events);
    // A kill after the write to the spool and before that to the list.
    let list = std::fs::read_to_string(&log).expect("the list");
    let cut = list.trim_end().rfind('\n').expect("several lines") + 5;
    std::fs::write(&log, &list[..cut]).expect("a cut line");
    let _broker = EmbeddedBroker::start(address, None).expect("the port is free");
    let config = MqttConfig {
        client_id: "reader".to_owned(),
        ..options(1, 0).mqtt
    };
    let subscriber = Subscriber::start(&config, "jetwatch/#").expect("the broker runs");
    let second = simulate(options(2, 60), &StopToken::default(), |_| {}).expect("it runs");
    assert!(second.is_good() && second.waiting == 0, "{second}");
    let made = numbers(&log);
    assert_eq!(made.len() as u64, first.events + second.events);
    let spools: BTreeSet<_> = made.iter().map(|(_, spool, _)| spool).collect();
    assert_eq!(spools.len(), BOXES, "the numbering goes on");
    receive(&subscriber, &made);
    assert_eq!(numbers(&acks), made);
}

#[test]
fn names_of_devices_are_in_users_and_paths_and_a_missing_file_is_an_error() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("{device}");
    let options = {
        let mut options = options(1, folder.path().join("made.jsonl"), Protocol::V5);
        options.mqtt.credentials = Some(Credentials {
            user: "{device}".to_owned(),
            password: Secret::File(path),
        });
        options
    };
    for number in 1..BOXES {
        let name = format!("simulated-{number:05}");
        std::fs::write(folder.path().join(&name), "secret").expect("it is written");
        let config = names::config(&options, number - 1, &name);
        assert_eq!(config.client_id, format!("jetwatch-{name}"));
        let credentials = config.credentials.expect("a user");
        assert_eq!(credentials.user, name);
        let password = Secret::File(folder.path().join(name));
        assert_eq!(credentials.password, password);
    }
    let error = simulate(options, &StopToken::default(), |_| {}).expect_err("a file is missing");
    let text = error.to_string();
    assert!(text.contains("--password-file: simulated-00005"), "{text}");
}
