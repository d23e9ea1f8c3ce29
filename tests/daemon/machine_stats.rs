// SPDX-License-Identifier: Apache-2.0
//! Sensors and throttling in the messages of the real daemon, which runs on virtual Jetsons of files that
//! change while it runs, and on this machine.

use crate::support;
use crate::support::virtual_jetson as jetson;

use std::time::{Duration, Instant};

use jetson::VirtualJetson;
use jetwatch_config::{Broker, Config, MqttConfig};
use jetwatch_publish::Subscriber;
use serde_json::Value;
use support::daemon::{Running, Setup, TEST_TIMEOUT, start, wait_until_some};
use support::ports::free_port;

/// The daemon on a virtual Jetson of files.
struct Measured {
    daemon: Running,
    mqtt: MqttConfig,
}

impl Measured {
    fn start(root: &std::path::Path) -> Self {
        let port = free_port();
        let setup = Setup::new(&format!(
            "device: box\nsources: [{{name: cam, uri: 'synthetic://traffic?seed=3&width=320&height=180&fps=10'}}]\n\
             detector: {{backend: scripted}}\npublish: {{stats_interval_s: 1, mqtt: {{broker: embedded, listen: '127.0.0.1:{port}'}}, \
             json_lines: {{path: events.jsonl}}}}\n"
        ));
        let child = start(setup.command("run").arg("--root").arg(root));
        let config = Config::load(&setup.config).expect("a good configuration");
        let mut mqtt = config.publish.mqtt.expect("MQTT is on");
        mqtt.broker = Broker::Url {
            host: "127.0.0.1".to_owned(),
            port,
            tls: false,
        };
        Self {
            daemon: Running { setup, child },
            mqtt,
        }
    }

    /// A subscriber, as soon as the embedded broker listens.
    fn subscribe(&self, filter: &str) -> Subscriber {
        wait_until_some("a subscription", || {
            Subscriber::start(&self.mqtt, filter).ok()
        })
    }
}

/// The next message that `matches` accepts.
fn next(subscriber: &Subscriber, what: &str, matches: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    while started.elapsed() < TEST_TIMEOUT {
        let Some((_, payload)) = subscriber.recv_timeout(Duration::from_millis(100)) else {
            continue;
        };
        let message: Value = serde_json::from_slice(&payload).expect("JSON");
        if matches(&message) {
            return message;
        }
    }
    panic!("not within {TEST_TIMEOUT:?}: {what}");
}

#[test]
fn throttling_is_reported_once_with_cause() {
    let jetson = VirtualJetson::xavier_nx();
    let heat = "/sys/class/thermal/cooling_device1/cur_state";
    jetson.write("/sys/class/hwmon/hwmon3/curr2_crit_alarm", "0\n");
    // A file that exists and that no user can read.
    jetson.remove("/sys/kernel/debug/cactmon/mc_all");
    jetson.write("/sys/kernel/debug/cactmon/mc_all/in_the_way", "");
    let daemon = Measured::start(&jetson.path("/"));
    let stats = daemon.subscribe("jetwatch/box/stats");
    let events = daemon.subscribe("jetwatch/box/throttling");

    let well = next(&stats, "statistics", |stats| !stats["machine"].is_null());
    let machine = &well["machine"];
    let gpu = &machine["engines"][0];
    assert_eq!(
        (&gpu["engine"], &gpu["load_percent"], &gpu["mhz"]),
        (&"gpu".into(), &42.5.into(), &803.25.into()),
        "{machine:#}"
    );
    assert_eq!(machine["rails"][0]["mw"], 9250, "{machine:#}");
    assert_eq!(machine["throttled_by"], Value::Array(Vec::new()));
    // Counts from before the start of the daemon are published as a number, not as an event.
    assert_eq!(machine["over_current"][1]["count"], 4, "{machine:#}");
    assert!(well["rss_bytes"].as_u64() > Some(1 << 20), "{well:#}");

    let words = |event: &Value| ["type", "cause", "name", "detail"].map(|key| event[key].clone());
    jetson.write(heat, "2\n");
    let began = next(&events, "the begin", |_| true);
    let wanted = [
        "begin",
        "heat",
        "cpu-throttle-alert",
        "CPU-therm has 41.5 °C",
    ];
    assert_eq!(words(&began), wanted, "{began:#}");
    next(&stats, "statistics that know it", |stats| {
        stats["machine"]["throttled_by"][0]["name"] == "cpu-throttle-alert"
    });
    // It flickers: absent in one sample, then present again. No event follows.
    for state in ["0\n", "1\n"] {
        jetson.write(heat, state);
        next(&stats, "the next statistics", |_| true);
    }
    jetson.write("/sys/class/hwmon/hwmon0/oc3_irq_cnt", "6\n");
    let counted = next(&events, "the counter's begin", |_| true);
    let wanted = [
        "begin",
        "over_current",
        "oc3",
        "2 more since the previous reading",
    ];
    assert_eq!(words(&counted), wanted, "{counted:#}");
    assert_eq!(counted["throttled_by"].as_array().map(Vec::len), Some(2));
    jetson.write(heat, "0\n");
    let ended = next(&events, "the last end", |event| {
        event["type"] == "end" && event["throttled_by"].as_array().is_some_and(Vec::is_empty)
    });
    assert_eq!(ended["throttled_times"], 2, "{ended:#}");
    // The newest is retained for late subscribers.
    let late = daemon.subscribe("jetwatch/box/throttling");
    let retained = next(&late, "the retained event", |_| true);
    assert_eq!(retained["throttled_by"], Value::Array(Vec::new()));

    let (setup, log) = daemon.daemon.stop();
    let lines = setup.lines();
    let reported: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line["kind"] == "throttling")
        .filter_map(|line| Some((line["type"].as_str()?, line["name"].as_str()?)))
        .collect();
    assert_eq!(reported.len(), 4, "{reported:?}");
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(count("WARN"), 2, "{log}");
    let found = count("throttling started: too hot (cpu-throttle-alert); CPU-therm has 41.5 °C");
    assert_eq!(found, 1, "{log}");
    assert_eq!(count("throttling ended"), 2, "{log}");
    assert_eq!(count("left out of the statistics"), 1, "{log}");
    assert_eq!(count("cactmon/mc_all"), 1, "{log}");
    assert_eq!(count("machine: GPU 42 %"), 1, "one line a minute: {log}");
}

#[test]
fn capped_gpu_is_reported_once_and_is_not_throttling() {
    let jetson = VirtualJetson::orin_nx();
    jetson.write("/sys/class/thermal/cooling_device0/cur_state", "0\n");
    let daemon = Measured::start(&jetson.path("/"));
    let stats = daemon.subscribe("jetwatch/box/stats");
    for _ in 0..3 {
        let reported = next(&stats, "statistics", |stats| !stats["machine"].is_null());
        let gpu = reported["machine"]["engines"]
            .as_array()
            .and_then(|engines| engines.iter().find(|engine| engine["engine"] == "gpu"))
            .expect("a GPU");
        let found = (&gpu["max_mhz"], &gpu["hardware_mhz"]);
        assert_eq!(found, (&612.0.into(), &918.0.into()), "{gpu}");
        assert_eq!(reported["machine"]["throttled_times"], 0);
    }
    let (_, log) = daemon.daemon.stop();
    let held: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("holds the GPU at 612 MHz, its highest clock is 918 MHz"))
        .collect();
    assert_eq!(held.len(), 1, "{log}");
    assert!(held[0].contains("the power mode 2"), "{}", held[0]);
}

#[test]
fn any_machine_reports_cpu_load() {
    let daemon = Measured::start(std::path::Path::new("/"));
    let stats = daemon.subscribe("jetwatch/box/stats");
    let reported = next(&stats, "a load", |stats| {
        let cpus = stats["machine"]["cpus"].as_array();
        cpus.is_some_and(|cpus| cpus.iter().any(|cpu| cpu["load_percent"].is_number()))
    });
    assert!(reported["machine"]["read_ms"].is_number(), "{reported:#}");
    daemon.daemon.stop();
}
