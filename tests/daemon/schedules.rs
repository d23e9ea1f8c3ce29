// SPDX-License-Identifier: Apache-2.0
//! Schedules with the real daemon: they change during the run, and a reload changes them without a restart of their sources.

use crate::support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use support::daemon::{Running, Setup, wait_until_some};

/// The file with these keys of the source, and of its zone.
fn file(source: &str, zone: &str) -> String {
    format!(
        "device: box\ntime_zone: UTC\nsources:\n  - name: cam\n    uri: 'synthetic://traffic?objects=6&width=160&height=90&fps=10'\n\
         {source}    zones: [{{name: all, coordinates: '0,0,1,0,1,1,0,1'{zone}}}]\n\
         detector: {{backend: scripted}}\npublish: {{stats_interval_s: 1, mqtt: off, json_lines: {{path: events.jsonl}}}}\n"
    )
}

/// A window that is active now and ends after this many seconds.
fn window(seconds: u64) -> String {
    format!("{{from: '{}', to: '{}'}}", clock(43_200), clock(seconds))
}

/// A time of the day, in UTC, this many seconds from now.
fn clock(after_s: u64) -> String {
    let now = SystemTime::now() + Duration::from_secs(after_s);
    let second = now
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs()
        % 86_400;
    format!(
        "{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

impl Running {
    /// Waits until the newest message about `rule` says this.
    fn wait_for_active(&self, rule: Value, active: bool, scheduled: Value) -> Value {
        wait_until_some(&format!("{rule} {active}"), || {
            let messages = self.setup.lines_of("active");
            let last = messages.iter().rev().find(|line| line["rule"] == rule)?;
            let is_wanted = last["active"] == active && last["scheduled"] == scheduled;
            is_wanted.then(|| last.clone())
        })
    }

    fn wait_for_zone(&self, is_wanted: impl Fn(u64) -> bool) {
        wait_until_some("the zone", || {
            let zones = self.setup.lines_of("zone");
            is_wanted(zones.last()?["count"].as_u64()?).then_some(())
        });
    }

    fn reload_schedules(&self, yaml: &str) {
        let status = self.reload(yaml);
        assert_eq!(status["state"], "applied", "{status}");
        assert_eq!(status["changed"], json!([]), "{status}");
    }
}

#[test]
fn detection_and_its_tracks_end_with_the_schedule_and_begin_again_by_a_reload() {
    let scheduled = |seconds| file(&format!("    schedule: {}\n", window(seconds)), "");
    let daemon = Running::start(&scheduled(36_000));
    let first = daemon.wait_for_active(Value::Null, true, json!(true));
    assert!(first["next_change"].is_string(), "{first}");
    daemon.wait_for_zone(|count| count > 0);
    daemon.reload_schedules(&scheduled(3));
    let last = daemon.wait_for_active(Value::Null, false, json!(false));
    assert_eq!(last["switched_on"], true);
    daemon.wait_for_zone(|count| count == 0);
    let events = daemon.setup.lines_of("event");
    let of_kind = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(of_kind("new"), of_kind("end"), "all tracks have ended");
    assert!(of_kind("new") > 0);

    // Without a schedule detection goes on, and the source was never restarted.
    daemon.reload_schedules(&file("", ""));
    daemon.wait_for_active(Value::Null, true, Value::Null);
    daemon.wait_for_zone(|count| count > 0);
    let states = daemon.setup.lines_of("source");
    let states: Vec<&Value> = states.iter().map(|line| &line["state"]).collect();
    assert_eq!(states, ["connecting", "online"]);
    daemon.stop();
}

#[test]
fn rule_follows_its_schedule_while_detection_goes_on() {
    let scheduled = |seconds| file("", &format!(", schedule: {}", window(seconds)));
    let daemon = Running::start(&scheduled(36_000));
    daemon.wait_for_active(json!("all"), true, json!(true));
    daemon.wait_for_zone(|count| count > 0);
    daemon.reload_schedules(&scheduled(3));
    daemon.wait_for_active(json!("all"), false, json!(false));
    daemon.wait_for_zone(|count| count == 0);
    assert!(
        daemon
            .setup
            .lines_of("active")
            .iter()
            .all(|line| line["rule"] == "all")
    );
    let events = daemon.setup.lines_of("event").len();
    wait_until_some("events", || {
        (daemon.setup.lines_of("event").len() > events).then_some(())
    });
    let zone = format!(
        ", schedule: {{from: '{}', to: '{}'}}",
        clock(3),
        clock(43_200)
    );
    daemon.reload_schedules(&file("", &zone));
    daemon.wait_for_active(json!("all"), true, json!(true));
    daemon.wait_for_zone(|count| count > 0);
    daemon.stop();
}

#[test]
fn check_prints_what_each_schedule_says() {
    let setup = Setup::new("");
    let yaml = file("    schedule: night\n", ", schedule: {days: [sat, sun]}");
    let yaml = format!(
        "{yaml}schedules: {{night: {{from: '22:00', to: '06:00', time_zone: Europe/Berlin}}}}\n"
    );
    std::fs::write(&setup.config, yaml).expect("writable");
    let output = setup
        .command("check")
        .arg("--file-only")
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_has!(text => "schedule night", "detection: ", "rule all: ", "(Europe/Berlin)", "active until");
}
