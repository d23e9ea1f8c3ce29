// SPDX-License-Identifier: Apache-2.0
//! Events and states with a broker each (`publish.mqtt.states`): the real daemon and two real mosquittos.

use crate::support;

use std::collections::BTreeMap;
use std::time::Duration;

use jetwatch_publish::Subscriber;
use serde_json::Value;
use support::daemon::{Setup, finish, start, terminate, wait_until_some};
use support::publish::clients::publish;
use support::publish::mosquitto::Mosquitto;

const SCENE: &str = "synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=60";

fn setup(events: &Mosquitto, states: &Mosquitto) -> Setup {
    Setup::new(&format!(
        "device: box\nsources: [{{name: cam, uri: '{SCENE}', lines: [{{name: gate, coordinates: '0.5,0,0.5,1'}}]}}]\n\
         detector: {{backend: scripted}}\nhomeassistant: {{enabled: true}}\ncommands: {{enabled: true, state_folder: state}}\n\
         publish:\n  stats_interval_s: 1\n  detections: true\n  mqtt:\n    broker: mqtt://127.0.0.1:{}\n    spool: {{runtime_folder: run, state_folder: spool}}\n    \
         states: {{broker: 'mqtt://127.0.0.1:{}'}}\n",
        events.port(),
        states.port()
    ))
}

/// What has arrived: by topic, the newest payload.
struct Seen {
    subscriber: Subscriber,
    messages: BTreeMap<String, Vec<u8>>,
}

impl Seen {
    fn at(broker: &Mosquitto) -> Self {
        Self {
            subscriber: Subscriber::start(&broker.client(), "#").expect("subscribed"),
            messages: BTreeMap::new(),
        }
    }

    fn update(&mut self) {
        while let Some((topic, payload)) = self.subscriber.recv_timeout(Duration::ZERO) {
            self.messages.insert(topic, payload.to_vec());
        }
    }

    /// Waits for topics with these ends.
    fn wait_for(&mut self, ends: &[&str]) {
        for end in ends {
            wait_until_some(end, || {
                self.update();
                self.has(end).then_some(())
            });
        }
    }

    fn has(&self, end: &str) -> bool {
        self.messages.keys().any(|topic| topic.ends_with(end))
    }

    fn json(&self, topic: &str) -> Value {
        serde_json::from_slice(&self.messages[topic]).expect("JSON")
    }

    /// Waits until the availability of the device is `wanted`.
    fn wait_for_status(&mut self, wanted: &str) {
        wait_until_some(wanted, || {
            self.update();
            let status = self.messages.get("jetwatch/box/status");
            (status.map(Vec::as_slice) == Some(wanted.as_bytes())).then_some(())
        });
    }
}

#[test]
fn each_kind_of_message_goes_to_its_broker() {
    let (events, states) = (Mosquitto::start(), Mosquitto::start());
    let (mut at_events, mut at_states) = (Seen::at(&events), Seen::at(&states));
    let setup = setup(&events, &states);
    let mut child = start(&mut setup.command("run"));
    at_events.wait_for(&["/status", "cam/events", "cam/analytics", "cam/detections"]);
    at_states.wait_for(&[
        "box/status",
        "cam/status",
        "cam/counts/car",
        "cam/lines/gate",
        "box/stats",
        "box/detector",
        "cam/detect",
        "cam/analytics",
        "/config",
    ]);
    // Before the subscription of the daemon, commands are lost.
    wait_until_some("a reply", || {
        let remove = r#"{"command": "remove_source", "name": "missing"}"#;
        assert!(publish(states.port(), "jetwatch/box/command", remove, &[]));
        at_states.update();
        at_states.has("command/reply").then_some(())
    });
    at_events.update();
    let allowed = ["status", "events", "analytics", "detections"];
    for topic in at_events.messages.keys() {
        let last = topic.rsplit('/').next().expect("a level");
        assert!(allowed.contains(&last), "{topic} has no place among events");
        assert!(topic != "jetwatch/box/cam/status", "a state among events");
    }
    assert!(!at_states.has("/events") && !at_states.has("/detections"));
    let event = at_events.json("jetwatch/box/cam/events");
    assert!(
        event["seq"].is_u64() && event["spool"].is_string(),
        "{event}"
    );
    assert!(at_events.json("jetwatch/box/cam/analytics")["seq"].is_u64());
    let copied = at_states.json("jetwatch/box/cam/analytics");
    let found = copied.get("seq");
    assert_eq!(found, None, "only what is kept has a number: {copied}");
    let discovered = at_states.messages.keys();
    let discovered: Vec<_> = discovered
        .filter(|topic| topic.starts_with("homeassistant/"))
        .collect();
    assert!(!discovered.is_empty());
    // The whole installation in two commands.
    let check = finish(&mut setup.command("check"));
    let printed = String::from_utf8_lossy(&check.stdout);
    for (what, broker) in [("broker", &events), ("broker for states", &states)] {
        let line = format!("ok     {what}: 127.0.0.1:{}", broker.port());
        assert!(printed.contains(&line), "{line}: {printed}");
    }
    let subscribed = finish(setup.command("subscribe").args(["--duration", "3s"]));
    let printed = String::from_utf8_lossy(&subscribed.stdout);
    for topic in ["jetwatch/box/cam/events {", "jetwatch/box/cam/counts/car "] {
        let lines = printed.lines().count();
        assert!(printed.contains(topic), "{topic} is not in {lines} lines");
    }
    // SIGKILL: both have the last will.
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    at_events.wait_for_status("offline");
    at_states.wait_for_status("offline");
    at_states.messages.clear();
    let child = start(&mut setup.command("run"));
    at_events.wait_for_status("online");
    at_states.wait_for_status("online");
    // Until the pipeline runs, SIGTERM ends the process at once. Events of the first process may come before.
    at_states.wait_for(&["box/stats"]);
    terminate(child);
    at_events.wait_for_status("offline");
    at_states.wait_for_status("offline");
}

#[test]
fn one_broker_away_does_not_delay_the_other() {
    let (events, mut states) = (Mosquitto::start(), Mosquitto::start());
    let setup = setup(&events, &states);
    states.kill();
    let mut at_events = Seen::at(&events);
    let child = start(&mut setup.command("run"));
    at_events.wait_for(&["cam/events", "cam/analytics"]);
    let check = finish(&mut setup.command("check"));
    let printed = String::from_utf8_lossy(&check.stdout);
    assert_has!(printed => "wrong  broker for states: cannot connect");
    states.restart();
    let mut at_states = Seen::at(&states);
    at_states.wait_for(&["box/status", "cam/status", "cam/counts/car", "/config"]);
    let errors = terminate(child);
    // Each client names itself in what it logs.
    assert_has!(errors => "jetwatch-box-states");
}
