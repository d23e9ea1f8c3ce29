//! A small simulation with the embedded broker: what a subscriber receives is what the list of events has.

use std::collections::BTreeSet;
use std::net::TcpListener;

use jetwatch_config::{Broker, SpoolConfig, TlsConfig};
use jetwatch_publish::{EmbeddedBroker, Subscriber};
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
            prefix: "jetwatch".to_owned(),
            client_id: "simulated".to_owned(),
            credentials: None,
            tls: TlsConfig::default(),
            keep_alive: Duration::from_secs(15),
            queue_messages: 10_000,
            spool: SpoolConfig::default(),
            also: Vec::new(),
        },
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
    }
}

/// Device, `spool` and `seq` of an event, or of a line of the list.
fn number(line: &Value) -> (String, String, u64) {
    let text = |key: &str| line[key].as_str().expect("a text").to_owned();
    let seq = line["seq"].as_u64().expect("a number");
    (text("device"), text("spool"), seq)
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
        let list = std::fs::read_to_string(&log).expect("the list");
        let sent: BTreeSet<_> = list
            .lines()
            .map(|line| number(&serde_json::from_str(line).expect("JSON")))
            .collect();
        assert_eq!(sent.len() as u64, summary.events);
        let mut received = BTreeSet::new();
        while received.len() < sent.len() {
            let message = subscriber.recv_timeout(Duration::from_secs(20));
            let (topic, payload) = message.expect("all events arrive");
            if topic.ends_with("/events") || topic.ends_with("/analytics") {
                received.insert(number(&serde_json::from_slice(&payload).expect("JSON")));
            }
        }
        assert_eq!(received, sent);
        let late = Subscriber::start(&config, "jetwatch/#").expect("the broker runs");
        let retained = late.recv_timeout(Duration::from_secs(1));
        assert_eq!(retained, None, "a retained value stays");
    }
}
