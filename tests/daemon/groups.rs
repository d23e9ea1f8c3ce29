// SPDX-License-Identifier: Apache-2.0
//! Groups of labels from the configuration to the messages: the real binary on a scene with ground truth.

use crate::support;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use support::daemon::{Setup, exits, finish, stdout};

/// A street; a zone about vehicles; a line about everything. The scripted detector has no trams.
fn config(groups: &str) -> String {
    format!(
        "device: test
sources:
  - name: cam
    uri: synthetic://traffic?seed=3&objects=8&width=320&height=180&fps=30&frames=400&realtime=false
    zones: [{{name: road, coordinates: '0,0,1,0,1,1,0,1', objects: [vehicle]}}]
    lines: [{{name: gate, coordinates: '0.5,0,0.5,1'}}]
detector:
  backend: scripted
  groups: {groups}
publish:
  mqtt: off
  detections: true
  update_interval_ms: 0
  json_lines: {{path: events.jsonl}}
"
    )
}

const GROUPS: &str = "{vehicle: [car, bus, truck, tram], two_wheeler: [bicycle, motorcycle]}";

fn group_of(label: &str) -> Value {
    match label {
        "car" | "bus" | "truck" => json!("vehicle"),
        "bicycle" | "motorcycle" => json!("two_wheeler"),
        _ => Value::Null,
    }
}

#[test]
fn messages_count_by_group_as_by_label() {
    let setup = Setup::new(&config(GROUPS));
    let text = exits(0, &mut setup.command("run")).err;
    let warning =
        "detector.groups.vehicle: the model has no label `tram`; the group is used without it";
    assert_once!(text => warning);

    let lines = setup.lines();
    let label_of = |value: &Value| value["label"].as_str().expect("a label").to_owned();
    let (mut events, mut crossings) = (0, 0);
    // Active tracks by label and by group, as last published.
    let mut by_label: BTreeMap<String, u64> = BTreeMap::new();
    let mut by_group: BTreeMap<String, u64> = BTreeMap::new();
    let mut changes = 0;
    for line in &lines {
        match line["kind"].as_str().expect("a kind") {
            "event" => {
                assert_eq!(line["group"], group_of(&label_of(line)), "{line}");
                assert_eq!(line["after"]["group"], line["group"], "{line}");
                events += 1;
            }
            "detections" => {
                for track in line["tracks"].as_array().expect("a list") {
                    assert_eq!(track["group"], group_of(&label_of(track)), "{line}");
                }
            }
            "analytics" if line["type"] == "zone_entered" => {
                assert_eq!(line["group"], "vehicle", "the rule is about nothing else");
            }
            "analytics" => {
                crossings += u64::from(line["type"] == "line_crossed");
                assert_eq!(line["group"], group_of(&label_of(line)), "{line}");
            }
            "count" => {
                let count = line["count"].as_u64().expect("a number");
                by_label.insert(label_of(line), count);
            }
            "group_count" => {
                let group = line["group"].as_str().expect("a name").to_owned();
                let count = line["count"].as_u64().expect("a number");
                // It is published after the counts of the same frame.
                let sum: u64 = by_label
                    .iter()
                    .filter(|(label, _)| group_of(label) == group.as_str())
                    .map(|(_, count)| count)
                    .sum();
                assert_eq!(count, sum, "{line}");
                assert_ne!(by_group.insert(group, count), Some(count), "{line}");
                changes += 1;
            }
            "zone" => {
                let groups = line["groups"].as_array().expect("a list");
                let vehicles = groups.first().map_or(&Value::Null, |group| &group["count"]);
                let count = match vehicles {
                    Value::Null => &json!(0),
                    count => count,
                };
                assert!(groups.len() <= 1 && line["count"] == *count, "{line}");
            }
            _ => {}
        }
    }
    assert!(
        events > 10 && crossings > 0 && changes > 4,
        "{events} {crossings} {changes}"
    );
    assert!(by_group.contains_key("vehicle"), "{by_group:?}");
    assert!(
        by_group
            .values()
            .chain(by_label.values())
            .all(|count| *count == 0)
    );
    let of_gate = |line: &&Value| line["kind"] == "line";
    let gate = lines.iter().rfind(of_gate).expect("the line's counts");
    for group in gate["groups"].as_array().expect("a list") {
        for side in ["to_left", "to_right"] {
            let of_labels = gate["crossings"].as_array().expect("a list").iter();
            let members = of_labels.filter(|entry| group_of(&label_of(entry)) == group["group"]);
            let sum: u64 = members.filter_map(|entry| entry[side].as_u64()).sum();
            assert_eq!(group[side], sum, "{gate}");
        }
    }
}

#[test]
fn group_without_any_label_of_the_model_is_an_error() {
    let setup = Setup::new(&config("{vehicle: [cars, ships]}"));
    let wanted = "detector.groups.vehicle: the model has none of its labels (cars, ships), expected at least one; did you mean car";
    let output = exits(78, &mut setup.command("run"));
    assert!(output.err.contains(wanted), "{}", output.err);
    let printed = exits(1, &mut setup.command("check")).out;
    assert!(printed.contains(wanted), "{printed}");
}

#[test]
fn older_name_of_a_class_means_the_models() {
    let yaml = config("{vehicle: [car, motorbike]}").replace("seed=3", "seed=4");
    let setup = Setup::new(&yaml);
    let wanted = "detector.groups.vehicle: in the model `motorbike` is `motorcycle`";
    assert_once!(exits(0, &mut setup.command("run")).err => wanted);
    let is_motorcycle = |line: &&Value| line["kind"] == "event" && line["label"] == "motorcycle";
    let lines = setup.lines();
    let mut found = lines.iter().filter(is_motorcycle).peekable();
    assert!(found.peek().is_some());
    assert!(found.all(|line| line["group"] == "vehicle"));
    let printed = stdout(&finish(&mut setup.command("check")));
    assert_once!(printed => wanted);
}
