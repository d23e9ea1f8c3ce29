// SPDX-License-Identifier: Apache-2.0
//! Retained messages of a killed daemon: the next run cleans them up. The real binary and a real mosquitto.

use crate::support;

use std::collections::BTreeMap;

use serde_json::Value;
use support::daemon::{Setup, exits, start, terminate, wait_until_some};
use support::publish::clients::{publish, retained};
use support::publish::mosquitto::Mosquitto;

const BASE: &str = "jetwatch/box";

/// `spool`: a key of `publish.mqtt` with its comma, or nothing.
fn yaml(port: u16, objects: u32, others: &str, spool: &str) -> String {
    let scene = format!("synthetic://traffic?seed=1&objects={objects}&width=320&height=180&fps=10");
    format!(
        "device: box\nsources:\n  - name: stays\n    uri: {scene}\n    zones: [{{name: all, coordinates: '0,0,1,0,1,1,0,1'}}]\n{others}\
         commands: {{enabled: true}}\nsource_templates: [{{name: t, source: {{uri: '{scene}'}}}}]\n\
         detector: {{backend: scripted}}\npublish: {{update_interval_ms: 0, json_lines: {{path: events.jsonl}}, mqtt: {{broker: 'mqtt://127.0.0.1:{port}'{spool}}}}}\n"
    )
}

fn state(kept: &BTreeMap<String, String>, source: &str) -> Option<String> {
    let body: Value = serde_json::from_str(kept.get(&format!("{source}/status"))?).ok()?;
    Some(body["state"].as_str()?.to_owned())
}

/// Counts above zero, by source.
fn nonzero_counts<'k>(kept: &'k BTreeMap<String, String>, source: &str) -> Vec<&'k String> {
    let labels = ["person", "car", "bus", "truck", "bicycle"];
    let topics = labels.map(|label| format!("{source}/counts/{label}"));
    let counted = kept.iter().filter(|(topic, _)| topics.contains(topic));
    counted
        .map(|(_, count)| count)
        .filter(|count| *count != "0")
        .collect()
}

/// Topics of a source, below its own.
fn remaining_topics<'k>(kept: &'k BTreeMap<String, String>, source: &str) -> Vec<&'k str> {
    let topics = kept.keys().filter_map(|topic| topic.strip_prefix(source));
    topics.filter_map(|below| below.strip_prefix('/')).collect()
}

#[test]
fn retained_values_of_killed_daemon_are_corrected_at_next_start() {
    correct_retained_values("");
}

#[test]
fn retained_values_are_corrected_while_events_of_killed_daemon_are_replayed() {
    let setup = tempfile::tempdir().expect("a temporary folder can be made");
    let folder = setup.path().display();
    correct_retained_values(&format!(
        ", spool: {{runtime_folder: {folder}/runtime, state_folder: {folder}/state}}"
    ));
}

fn correct_retained_values(spool: &str) {
    let broker = Mosquitto::start();
    let port = broker.port();
    let goes = "  - name: goes\n    uri: synthetic://traffic?seed=1&objects=4&width=320&height=180&fps=10\n    \
                lines: [{name: gate, coordinates: '0.5,0,0.5,1'}]\n";
    let setup = Setup::new(&yaml(port, 4, goes, spool));
    let mut first = start(&mut setup.command("run"));
    wait_until_some("all sources at work", || {
        let add = r#"{"command": "add_source", "template": "t", "name": "extra"}"#;
        assert!(publish(port, &format!("{BASE}/command"), add, &[]));
        let kept = retained(port, BASE);
        let works = |source: &str| !nonzero_counts(&kept, source).is_empty();
        ["stays", "goes", "extra"]
            .into_iter()
            .all(works)
            .then_some(())
    });
    // Events of the last seconds are not acknowledged: the next run sends them again, from the spool.
    broker.freeze();
    let events = || {
        let lines = setup.lines();
        let events = lines.iter().filter(|line| line["kind"] == "event");
        events.count()
    };
    let before = events();
    wait_until_some("events that are not acknowledged", || {
        (events() >= before + 20).then_some(())
    });
    first.kill().expect("it runs");
    let _ = first.wait();
    broker.thaw();
    // Retained messages of others below the same topic.
    let others = [
        ("stays/temperature", "21"),
        ("theirs/counts/person", "3"),
        ("theirs/status", "online"),
        ("goes/note", "hello"),
    ];
    for (topic, value) in others {
        assert!(publish(port, &format!("{BASE}/{topic}"), value, &["-r"]));
    }
    let before = retained(port, BASE);
    assert!(before.contains_key("goes/lines/gate"), "{before:?}");

    std::fs::write(&setup.config, yaml(port, 0, "", spool)).expect("writable");
    let second = start(&mut setup.command("run"));
    let after = wait_until_some("the values put right", || {
        let kept = retained(port, BASE);
        let is_over = |source: &str| state(&kept, source).as_deref() == Some("ended");
        let is_right =
            is_over("goes") && is_over("extra") && nonzero_counts(&kept, "stays").is_empty();
        let is_taken_back = remaining_topics(&kept, "goes") == ["note", "status"]
            && remaining_topics(&kept, "extra") == ["status"];
        (is_right && is_taken_back).then_some(kept)
    });
    assert_eq!(state(&after, "stays").as_deref(), Some("online"));
    assert!(after.contains_key("stays/zones/all"), "{after:?}");
    for (topic, value) in others {
        assert_eq!(after.get(topic).map(String::as_str), Some(value), "{topic}");
    }
    terminate(second);
}

#[test]
fn daemon_publishes_to_broker_that_forbids_reading() {
    let broker = Mosquitto::with_config(|folder| {
        let acl = folder.join("acl");
        std::fs::write(&acl, "topic write jetwatch/#\n").expect("writable");
        format!("allow_anonymous true\nacl_file {}\n", acl.display())
    });
    let text = yaml(broker.port(), 4, "", "").replace("enabled: true", "enabled: false")
        + "log: {level: info}\n";
    let setup = Setup::new(&text);
    let text = exits(0, setup.command("run").args(["--duration", "4s"])).err;
    assert_once!(text => "connected to the MQTT broker");
    let reported = text.matches("cannot read retained messages of a previous run");
    // Not every mosquitto refuses the subscription itself; then there is nothing to see.
    assert!(reported.count() <= 1, "{text}");
    assert!(!text.contains("messages were lost"), "{text}");
}
