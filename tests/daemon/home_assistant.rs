// SPDX-License-Identifier: Apache-2.0
//! Announcements to Home Assistant at a real mosquitto, by the real binary. What Home Assistant makes of them is tested by
//! `tests/homeassistant`.

use crate::support;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use support::daemon::{Setup, start, terminate, wait_until_some};
use support::publish::clients::{publish, retained};
use support::publish::mosquitto::Mosquitto;

const BOX: &str = "homeassistant/device/jetwatch--box/box/config";
const YARD: &str = "homeassistant/device/jetwatch--box/source--yard/config";

/// A configuration with lines of these names; `more` are further sections.
fn yaml(port: u16, lines: &[&str], more: &str) -> String {
    let scene = "synthetic://traffic?seed=1&objects=6&width=320&height=180&fps=10";
    let line = |name: &&str| format!("{{name: {name}, coordinates: '0.5,0,0.5,1'}}");
    let lines: Vec<String> = lines.iter().map(line).collect();
    let lines = match lines.is_empty() {
        true => String::new(),
        false => format!("    lines: [{}]\n", lines.join(", ")),
    };
    format!(
        "device: box\nsources:\n  - name: yard\n    uri: {scene}\n    classes: [person, car, truck]\n    \
         zones: [{{name: all, coordinates: '0,0,1,0,1,1,0,1'}}]\n{lines}detector: {{backend: scripted}}\n\
         publish: {{stats_interval_s: 1, mqtt: {{broker: 'mqtt://127.0.0.1:{port}'}}}}\n{more}"
    )
}

const ENABLED: &str = "homeassistant: {enabled: true}\n";

/// The discovery messages below the default prefix.
fn announced(port: u16) -> BTreeMap<String, Value> {
    let found = retained(port, "homeassistant");
    let read = |(below, text): (String, String)| {
        let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (format!("homeassistant/{below}"), body)
    };
    found.into_iter().map(read).collect()
}

/// Waits until both messages are there.
fn wait_for_both(port: u16) -> BTreeMap<String, Value> {
    wait_until_some("both messages", || {
        let found = announced(port);
        (found.contains_key(BOX) && found.contains_key(YARD)).then_some(found)
    })
}

#[test]
fn announcements_and_states_come_again_to_a_broker_that_lost_them() {
    let mut broker = Mosquitto::start();
    let port = broker.port();
    let setup = Setup::new(&yaml(port, &["gate"], ENABLED));
    let first = start(&mut setup.command("run"));
    let before = wait_for_both(port);
    assert_eq!(before.len(), 2, "{before:?}");
    let log = terminate(first);
    assert_once!(log => "announced to Home Assistant");

    // The next run finds its own messages there.
    let second = start(&mut setup.command("run"));
    wait_until_some("a run that has read them", || {
        let counts = retained(port, "jetwatch/box/yard/counts/truck");
        (!counts.is_empty() && wait_for_both(port) == before).then_some(())
    });
    broker.kill();
    broker.restart();
    assert_eq!(wait_for_both(port), before);

    // A program that starts may have missed a state.
    let topic = "jetwatch/box/detector";
    let state = || retained(port, topic).remove("");
    let lost = wait_until_some("the detector's state", state);
    assert!(publish(port, topic, "", &["-r"]));
    wait_until_some("it is lost", || state().is_none().then_some(()));
    assert!(publish(port, "homeassistant/status", "offline", &[]));
    assert!(publish(port, "homeassistant/status", "online", &[]));
    assert_eq!(wait_until_some("it is back", state), lost);
    let log = terminate(second);
    assert_once!(log => "Home Assistant has started");
    assert!(!log.contains("unexpected"), "{log}");
}

#[test]
fn chosen_labels_have_a_count_before_they_are_seen() {
    let broker = Mosquitto::start();
    let port = broker.port();
    let text = yaml(port, &[], ENABLED).replace("objects=6", "objects=0");
    let setup = Setup::new(&text);
    let child = start(&mut setup.command("run"));
    let found = wait_for_both(port);
    let components = found[YARD]["cmps"].as_object().expect("components");
    for label in ["person", "car", "truck"] {
        let topic = format!("jetwatch/box/yard/counts/{label}");
        assert_eq!(
            components[&format!("label--{label}--count")]["stat_t"],
            topic.as_str()
        );
        assert_eq!(retained(port, &topic)[""], "0");
    }
    assert!(!components.contains_key("label--bus--count"));
    terminate(child);
}

#[test]
fn switched_off_withdraws_its_own_messages_alone() {
    let broker = Mosquitto::start();
    let port = broker.port();
    let setup = Setup::new(&yaml(port, &[], ENABLED));
    let first = start(&mut setup.command("run"));
    wait_for_both(port);
    terminate(first);
    let others = [
        "homeassistant/device/jetwatch--box2/box/config",
        "homeassistant/device/jetwatch--box/theirs/config",
    ];
    for topic in others {
        assert!(publish(
            port,
            topic,
            r#"{"o": {"name": "another"}}"#,
            &["-r"]
        ));
    }
    std::fs::write(&setup.config, yaml(port, &[], "")).expect("writable");
    let second = start(&mut setup.command("run"));
    wait_until_some("only those of others", || {
        announced(port)
            .into_keys()
            .eq([others[1], others[0]].map(str::to_owned))
            .then_some(())
    });
    let log = terminate(second);
    assert_has!(log => "devices=2 withdrawn from Home Assistant");
}

#[test]
fn messages_stay_below_the_largest_packet_of_the_broker() {
    let limit = 6000;
    let broker =
        Mosquitto::with_config(|_| format!("allow_anonymous true\nmax_packet_size {limit}\n"));
    let port = broker.port();
    let setup = Setup::new(&yaml(port, &["gate", "exit"], ENABLED));
    let child = start(&mut setup.command("run"));
    wait_for_both(port);
    let texts = retained(port, "homeassistant");
    for (below, text) in &texts {
        let topic = format!("homeassistant/{below}");
        assert!(text.len() + topic.len() < limit, "{topic}: {}", text.len());
    }
    let components = announced(port)[YARD]["cmps"].clone();
    assert!(components.get("line--exit--left").is_some(), "{components}");
    let is_of_zone_label = |id: &String| id.starts_with("zone--all--label--truck");
    let components = components.as_object().expect("an object");
    assert!(!components.keys().any(is_of_zone_label));
    let log = terminate(child);
    assert_once!(log => "not all entities are announced");
    assert!(!log.contains("refused a message"), "{log}");
}

#[test]
fn states_of_updates_are_published_and_announced() {
    let broker = Mosquitto::start();
    let port = broker.port();
    let setup = Setup::new(&yaml(port, &[], ENABLED));
    let root = setup.path("root");
    let file = root.join("var/lib/jetwatch-setup/update/status.json");
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
    let write = |state: &str, reason: Option<&str>| {
        let status = json!({"version": 1, "state": state, "installed": "1.0.0", "latest": "1.1.0", "held": null, "previous": null,
                            "reason": reason, "at_ms": 1_700_000_000_000_u64});
        let new = file.with_extension("new");
        std::fs::write(&new, status.to_string()).expect("written");
        std::fs::rename(&new, &file).expect("renamed");
    };
    let topic = "jetwatch/box/update";
    let state = || -> Option<Value> {
        let text = retained(port, topic).remove("")?;
        Some(serde_json::from_str(&text).expect("JSON"))
    };
    let child = start(setup.command("run").arg("--root").arg(&root));
    let before = wait_for_both(port);
    assert!(before[BOX]["cmps"].get("update").is_none());
    assert_eq!(state(), None);
    write("available", None);
    let found = wait_until_some("a version that is available", state);
    assert_eq!(
        (&found["state"], &found["in_progress"], &found["latest"]),
        (&json!("available"), &json!(false), &json!("1.1.0"))
    );
    assert_eq!(found["at"], "2023-11-14T22:13:20.000Z");
    let entity = wait_until_some("its entity", || {
        announced(port)[BOX]["cmps"].get("update").cloned()
    });
    let wanted = (&json!("update"), &json!(topic));
    assert_eq!((&entity["p"], &entity["stat_t"]), wanted);
    // Just before the updater ends the daemon.
    write("in_progress", Some("installing"));
    terminate(child);
    let found = state().expect("it stays");
    assert_eq!(
        (&found["state"], &found["in_progress"], &found["reason"]),
        (&json!("in_progress"), &json!(true), &json!("installing"))
    );
    write("rolled_back", Some("not healthy"));
    let child = start(setup.command("run").arg("--root").arg(&root));
    wait_until_some("the end of the update", || {
        (state()?["state"] == "rolled_back").then_some(())
    });
    terminate(child);
    assert!(announced(port)[BOX]["cmps"].get("update").is_some());
}
