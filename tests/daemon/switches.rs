// SPDX-License-Identifier: Apache-2.0
//! Switches over MQTT with the real daemon and mosquitto: detection, rules and score thresholds, and their retained states.

use crate::support;
use crate::support::publish;

use std::collections::BTreeMap;
use std::process::Child;

use publish::clients::{self, retained};
use publish::mosquitto::Mosquitto;
use serde_json::{Value, json};
use support::daemon::{Setup, start, terminate, wait_until_some};

/// A daemon with one source and a zone of the whole image.
struct Switched {
    broker: Mosquitto,
    setup: Setup,
    child: Child,
}

impl Switched {
    /// With these keys of `commands`. `before` publishes what the broker has before the daemon starts.
    fn start(commands: &str, before: &[(&str, &str)]) -> Self {
        let broker = Mosquitto::start();
        for (topic, payload) in before {
            send(&broker, topic, payload, &["-r"]);
        }
        let setup = Setup::new("");
        let yaml = format!(
            "device: box\nsources:\n  - name: cam\n    uri: 'synthetic://traffic?objects=6&width=160&height=90&fps=10'\n\
             \x20   zones: [{{name: all, coordinates: '0,0,1,0,1,1,0,1'}}]\n\
             detector: {{backend: scripted, score_threshold: 0.25}}\n\
             publish:\n  stats_interval_s: 1\n  mqtt:\n    broker: 'mqtt://127.0.0.1:{}'\n\
             \x20   spool: {{runtime_folder: {folder}/front, state_folder: {folder}/back}}\n\
             \x20 json_lines: {{path: events.jsonl}}\ncommands: {{{commands}}}\n",
            broker.port(),
            folder = setup.folder.path().display(),
        );
        std::fs::write(&setup.config, yaml).expect("writable");
        let child = start(&mut setup.command("run"));
        Self {
            broker,
            setup,
            child,
        }
    }

    /// With commands, once it takes them.
    fn start_listening(before: &[(&str, &str)]) -> Self {
        let daemon = Self::start("enabled: true, state_folder: switches", before);
        daemon.wait_until_listening("first");
        daemon
    }

    fn wait_until_listening(&self, id: &str) {
        wait_until_some("an answer", || {
            let command = json!({"id": id, "command": "remove_source", "name": "missing"});
            self.publish("command", &command.to_string());
            let mut lines = self.setup.lines().into_iter();
            lines.find(|line| line["id"] == id)
        });
    }

    fn publish(&self, topic: &str, payload: &str) {
        send(&self.broker, topic, payload, &[]);
    }

    /// Retained values below the source, by their topics.
    fn kept(&self) -> BTreeMap<String, String> {
        retained(self.broker.port(), "jetwatch/box/cam")
    }

    fn wait_for_kept(&self, name: &str, wanted: &str) {
        wait_until_some(&format!("{name} {wanted}"), || {
            (self.kept().get(name)? == wanted).then_some(())
        });
    }

    /// Publishes on a topic that sets something; returns the reply.
    fn set(&self, topic: &str, payload: &str) -> Value {
        // Commands of `wait_until_listening`, which have an id, may be answered in between.
        let replies = || -> Vec<Value> {
            let replies = self.setup.lines_of("reply").into_iter();
            replies.filter(|reply| reply["id"].is_null()).collect()
        };
        let before = replies().len();
        self.publish(topic, payload);
        wait_until_some("the reply", || replies().get(before).cloned())
    }

    fn set_ok(&self, topic: &str, payload: &str) {
        let reply = self.set(topic, payload);
        let found = (&reply["ok"], &reply["name"]);
        assert_eq!(found, (&json!(true), &json!("cam")), "{reply}");
    }

    /// Detected frames and frames of the source in the statistics that follow.
    fn next_frames(&self) -> (u64, u64) {
        let before = self.setup.lines_of("stats").len();
        let stats = wait_until_some("statistics of a source that is online", || {
            let later = self.setup.lines_of("stats").into_iter().skip(before);
            let mut online = later.filter(|stats| stats["sources"][0]["state"] == "online");
            online.next()
        });
        let source = &stats["sources"][0];
        let number = |value: &Value| value.as_u64().expect("a number");
        (number(&stats["detected_frames"]), number(&source["frames"]))
    }

    /// Whether the statistics that follow show frames, but none that is detected.
    fn has_no_detection(&self) {
        // Those that are being collected may have frames from before.
        self.next_frames();
        let (detected, frames) = self.next_frames();
        let (detected_later, frames_later) = self.next_frames();
        assert_eq!(detected, detected_later);
        assert!(frames < frames_later, "{frames} {frames_later}");
    }

    fn zone_count(&self) -> Option<u64> {
        let zone: Value = serde_json::from_str(self.kept().get("zones/all")?).expect("JSON");
        zone["count"].as_u64()
    }

    fn wait_for_zone(&self, is_wanted: impl Fn(u64) -> bool) {
        wait_until_some("the zone", || {
            self.zone_count().filter(|count| is_wanted(*count))
        });
    }

    fn end(self) {
        terminate(self.child);
    }

    fn restart(self) -> Self {
        terminate(self.child);
        std::fs::remove_file(self.setup.path("events.jsonl")).expect("it was written");
        let child = start(&mut self.setup.command("run"));
        let daemon = Self { child, ..self };
        daemon.wait_until_listening("next");
        daemon
    }
}

fn send(broker: &Mosquitto, topic: &str, payload: &str, options: &[&str]) {
    let topic = format!("jetwatch/box/{topic}");
    assert!(clients::publish(broker.port(), &topic, payload, options));
}

#[test]
fn detection_that_is_off_stops_inference_and_is_kept_over_restarts() {
    let daemon = Switched::start_listening(&[]);
    daemon.wait_for_kept("detect", "ON");
    daemon.wait_for_kept("rules/all", "ON");
    daemon.wait_for_kept("score_threshold", "0.25");
    daemon.wait_for_zone(|count| count > 0);

    daemon.set_ok("cam/detect/set", "OFF");
    daemon.wait_for_kept("detect", "OFF");
    daemon.wait_for_zone(|count| count == 0);
    let kept = daemon.kept();
    let counts: Vec<_> = kept
        .iter()
        .filter(|(name, _)| name.starts_with("counts/"))
        .collect();
    assert!(!counts.is_empty(), "{kept:?}");
    assert!(counts.iter().all(|(_, count)| *count == "0"), "{kept:?}");
    let events = daemon.setup.lines_of("event");
    let of_kind = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(of_kind("new"), of_kind("end"), "all tracks have ended");
    daemon.has_no_detection();
    // Nothing is tracked.
    assert_eq!(daemon.setup.lines_of("event").len(), events.len());
    let states: Vec<Value> = daemon
        .setup
        .lines_of("source")
        .iter()
        .map(|line| line["state"].clone())
        .collect();
    assert_eq!(states, ["connecting", "online"], "it stays online");

    let daemon = daemon.restart();
    daemon.wait_for_kept("detect", "OFF");
    daemon.has_no_detection();
    assert_eq!(daemon.next_frames().0, 0, "nor from the start");
    assert_eq!(daemon.setup.lines_of("event"), [Value::Null; 0]);

    daemon.publish(
        "command",
        r#"{"id": "on", "command": "set_detection", "name": "cam", "on": true}"#,
    );
    daemon.wait_for_kept("detect", "ON");
    daemon.wait_for_zone(|count| count > 0);
    let (detected, _) = daemon.next_frames();
    assert!(detected > 0);
    daemon.end();
}

#[test]
fn rule_that_is_off_has_no_events_and_counts_no_object() {
    let daemon = Switched::start_listening(&[]);
    daemon.wait_for_zone(|count| count > 0);
    daemon.set_ok("cam/rules/all/set", "OFF");
    daemon.wait_for_kept("rules/all", "OFF");
    daemon.wait_for_zone(|count| count == 0);
    let analytics = daemon.setup.lines_of("analytics");
    let of_kind = |kind: &str| {
        analytics
            .iter()
            .filter(|event| event["type"] == kind)
            .count()
    };
    // Every visit has ended.
    assert_eq!(of_kind("zone_entered"), of_kind("zone_left"));
    let (detected, _) = daemon.next_frames();
    let (detected_later, _) = daemon.next_frames();
    assert!(detected_later > detected, "detection goes on");
    assert_eq!(daemon.setup.lines_of("analytics").len(), analytics.len());

    let daemon = daemon.restart();
    daemon.wait_for_kept("rules/all", "OFF");
    daemon.wait_for_zone(|count| count == 0);
    daemon.next_frames();
    assert_eq!(daemon.setup.lines_of("analytics"), [Value::Null; 0]);
    daemon.set_ok("cam/rules/all/set", "ON");
    daemon.wait_for_zone(|count| count > 0);
    daemon.end();
}

#[test]
fn score_threshold_drops_detections_and_stays_within_that_of_the_detector() {
    let daemon = Switched::start_listening(&[]);
    daemon.wait_for_zone(|count| count > 0);
    // No detection has this score.
    daemon.set_ok("cam/score_threshold/set", "1");
    daemon.wait_for_kept("score_threshold", "1.00");
    daemon.set_ok("cam/score_threshold/set", "0.875");
    daemon.wait_for_kept("score_threshold", "0.875");
    let daemon = daemon.restart();
    daemon.wait_for_kept("score_threshold", "0.875");
    for (topic, payload, wanted) in [
        ("cam/score_threshold/set", "0.2", "from 0.25 to 1"),
        ("cam/score_threshold/set", "1.01", "from 0.25 to 1"),
        ("cam/score_threshold/set", "much", "expected a number"),
        ("cam/detect/set", "off", "expected ON or OFF"),
        ("cam/detect/set", "", "expected ON or OFF"),
        ("cam/rules/all/set", "1", "expected ON or OFF"),
        ("cam/rules/none/set", "ON", "it has: all"),
        ("other/detect/set", "OFF", "no source of this name"),
        ("other/rules/all/set", "OFF", "no source of this name"),
    ] {
        let reply = daemon.set(topic, payload);
        let error = reply["error"].as_str().unwrap_or_default();
        assert!(error.contains(wanted), "{topic} {payload}: {reply}");
    }
    let kept = daemon.kept();
    let values = ["detect", "rules/all", "score_threshold"].map(|name| kept[name].as_str());
    assert_eq!(values, ["ON", "ON", "0.875"]);
    daemon.end();
}

#[test]
fn retained_messages_switch_nothing() {
    let before = [("cam/detect/set", "OFF"), ("cam/rules/all/set", "OFF")];
    let daemon = Switched::start_listening(&before);
    daemon.wait_for_kept("detect", "ON");
    daemon.wait_for_zone(|count| count > 0);
    let replies = daemon.setup.lines_of("reply");
    assert!(
        replies.iter().all(|reply| reply["name"] == "missing"),
        "{replies:?}"
    );
    daemon.end();
}

#[test]
fn without_commands_switches_have_states_and_cannot_be_set() {
    let daemon = Switched::start("state_folder: switches", &[]);
    daemon.wait_for_kept("detect", "ON");
    daemon.wait_for_kept("rules/all", "ON");
    daemon.wait_for_kept("score_threshold", "0.25");
    daemon.publish("cam/detect/set", "OFF");
    let (detected, _) = daemon.next_frames();
    daemon.next_frames();
    let (detected_later, _) = daemon.next_frames();
    assert!(detected_later > detected);
    assert_eq!(daemon.kept()["detect"], "ON");
    assert_eq!(daemon.setup.lines_of("reply"), [Value::Null; 0]);
    assert!(!daemon.setup.path("switches").exists(), "nothing is kept");
    daemon.end();
}
