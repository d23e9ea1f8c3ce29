// SPDX-License-Identifier: Apache-2.0
//! What is announced for given sources, labels and machines, and what of it changes.

mod schedules;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::SourceInfo;
use jetwatch_config::{
    DirectionRule, HomeAssistantConfig, LineRule, Polygon, SceneRules, Segment, StationaryRule,
    ZoneRule,
};
use jetwatch_types::LabelGroup;

const LABELS: [&str; 4] = ["person", "car", "traffic light", "bus"];

fn options(enabled: bool) -> HomeAssistantOptions {
    HomeAssistantOptions {
        config: HomeAssistantConfig {
            enabled,
            prefix: "homeassistant".to_owned(),
        },
        has_commands: false,
        stats_interval: Duration::from_secs(10),
        model: Some("Test board".to_owned()),
    }
}

fn labels() -> Vec<String> {
    LABELS.map(str::to_owned).to_vec()
}

fn home_assistant_with(options: HomeAssistantOptions) -> HomeAssistant {
    let group = LabelGroup {
        name: "vehicle".to_owned(),
        labels: vec!["car".to_owned(), "bus".to_owned()],
    };
    let classes = Classes::new(&labels(), &[group]);
    HomeAssistant::new(options, "jetwatch", "gate", &classes, true)
}

fn zone(name: &str, objects: &[&str]) -> ZoneRule {
    ZoneRule {
        name: name.to_owned(),
        area: Polygon::new(vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]).expect("a polygon"),
        inertia_frames: 3,
        loitering: Some(Duration::from_secs(5)),
        object_threshold: Some(3),
        objects: objects.iter().map(|&label| label.to_owned()).collect(),
        schedule: None,
    }
}

fn segment() -> Segment {
    Segment::new(&[[0.0, 0.0], [1.0, 0.0]]).expect("a line")
}

fn rules() -> SceneRules {
    SceneRules {
        zones: vec![zone("drive", &[]), zone("door", &["person"])],
        lines: vec![LineRule {
            name: "gate".to_owned(),
            line: segment(),
            inertia_frames: 3,
            objects: Vec::new(),
            schedule: None,
        }],
        directions: vec![DirectionRule {
            name: "north".to_owned(),
            line: segment(),
            tolerance_degrees: 45.0,
            min_distance: 0.05,
            schedule: None,
        }],
        stationary: Some(StationaryRule {
            after: Duration::from_secs(5),
            min_iou: 0.8,
            inertia_frames: 3,
            objects: Vec::new(),
            schedule: None,
        }),
    }
}

fn source(name: &str, has_chosen_labels: bool, rules: SceneRules) -> SourceInfo {
    SourceInfo {
        name: name.to_owned(),
        labels: labels(),
        has_chosen_labels,
        rules,
        has_schedule: false,
        has_pictures: false,
        has_motion: false,
    }
}

/// The messages as JSON; null for an empty one.
fn read(messages: &[DiscoveryMessage]) -> BTreeMap<String, Value> {
    let read = |message: &DiscoveryMessage| {
        let body = serde_json::from_slice(&message.payload).unwrap_or_default();
        (message.topic.clone(), body)
    };
    messages.iter().map(read).collect()
}

fn earlier(messages: &[DiscoveryMessage]) -> Fact {
    let pair = |message: &DiscoveryMessage| (message.topic.clone(), message.payload.to_vec());
    Fact::Earlier(messages.iter().map(pair).collect())
}

fn ids(message: &Value) -> BTreeSet<String> {
    let components = message["cmps"].as_object().expect("components");
    components.keys().cloned().collect()
}

const YARD: &str = "homeassistant/device/jetwatch--gate/source--yard/config";
const BOX: &str = "homeassistant/device/jetwatch--gate/box/config";

fn known(info: SourceInfo) -> Fact {
    Fact::Source(Box::new(Source::new(&info)))
}

/// Adds a label of the whole image of the source `yard`, or of one of its zones.
fn see(state: &mut HomeAssistant, zone: Option<&str>, label: &str) {
    let mut source = state.sources["yard"].clone();
    let labels = match zone {
        Some(zone) => source.seen.zones.entry(zone.to_owned()).or_default(),
        None => &mut source.seen.labels,
    };
    labels.insert(label.to_owned());
    state.take(Fact::Source(Box::new(source)));
}

#[test]
fn nothing_is_announced_before_the_messages_of_an_earlier_run_were_read() {
    let mut state = home_assistant_with(options(true));
    state.take(known(source("yard", true, rules())));
    assert_eq!(state.messages(), []);
    assert!(state.count_topics().is_empty());
    state.take(Fact::Earlier(Vec::new()));
    let messages = state.messages();
    assert_eq!(read(&messages).into_keys().collect::<Vec<_>>(), [BOX, YARD]);
    assert_eq!(state.messages(), [], "they are published");
}

#[test]
fn messages_have_the_keys_that_home_assistant_accepts() {
    let mut state = home_assistant_with(HomeAssistantOptions {
        has_commands: true,
        ..options(true)
    });
    state.take(known(source("yard", true, rules())));
    state.take(known(source("street-1", true, rules())));
    let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    state.take(Fact::Sensors(Sensors {
        temperatures: named(&["GPU-therm", "it's \"hot\""]),
        rails: named(&["VDD_IN", "CPU"]),
    }));
    state.take(Fact::Earlier(Vec::new()));
    let messages = read(&state.messages());
    assert_eq!(messages.len(), 3);
    let mut unique = BTreeSet::new();
    let mut identifiers = BTreeSet::new();
    for (topic, message) in &messages {
        let keys: Vec<&String> = message.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["avty", "avty_mode", "cmps", "dev", "o", "qos"]);
        let is_id = |text: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            !text.is_empty() && text.bytes().all(is_allowed)
        };
        assert!(topic.split('/').all(is_id), "{topic}");
        for key in message["dev"].as_object().expect("an object").keys() {
            let known = ["ids", "name", "mf", "mdl", "sw", "via_device"];
            assert!(known.contains(&key.as_str()), "{key}");
        }
        let id = message["dev"]["ids"][0].as_str().expect("an id");
        assert!(is_id(id) && identifiers.insert(id.to_owned()), "{id}");
        let is_list = |value: &Value| {
            let entries = value.as_array().expect("a list");
            entries.iter().all(|entry| entry["t"].is_string())
        };
        assert!(is_list(&message["avty"]));
        for (id, component) in message["cmps"].as_object().expect("components") {
            assert!(is_id(id), "{id}");
            assert!(component["p"].is_string(), "{component}");
            let keys = component.as_object().expect("an object");
            assert!(!keys.contains_key("avty_t") && !keys.contains_key("cdevs"));
            assert!(component.get("avty").is_none_or(is_list));
            match component["p"].as_str() {
                Some("device_automation") => {
                    for key in ["atype", "type", "stype", "t", "pl", "val_tpl"] {
                        assert!(component[key].is_string(), "{key}: {component}");
                    }
                }
                _ => {
                    let id = component["uniq_id"].as_str().expect("a unique id");
                    assert!(is_id(id) && unique.insert(id.to_owned()), "{id}");
                    assert!(component["name"].is_string() && component["stat_t"].is_string());
                }
            }
        }
    }
    assert_eq!(messages[YARD]["dev"]["via_device"], "jetwatch--gate");
    assert_eq!(messages[BOX]["dev"]["ids"][0], "jetwatch--gate");
}

#[test]
fn chosen_labels_have_entities_from_the_start() {
    let mut state = home_assistant_with(options(true));
    let with_motion = SourceInfo {
        has_motion: true,
        ..source("yard", true, rules())
    };
    state.take(known(with_motion));
    state.take(Fact::Earlier(Vec::new()));
    let messages = read(&state.messages());
    let ids = ids(&messages[YARD]);
    for wanted in [
        "connection",
        "motion",
        "label--person--occupancy",
        "label--traffic-20light--count",
        "group--vehicle--count",
        "zone--drive--occupancy",
        "zone--drive--overcrowded",
        "zone--drive--label--car--count",
        "zone--drive--group--vehicle--occupancy",
        "line--gate--left",
        "line--gate--right",
        "analytics",
        "trigger--zone_entered--door--None",
        "trigger--line_crossed--gate--right",
        "trigger--direction--north--None",
        "trigger--moving--None--None",
    ] {
        assert!(ids.contains(wanted), "{wanted}: {ids:?}");
    }
    // It is about one label alone.
    assert!(!ids.iter().any(|id| id.starts_with("zone--door--label")));
    let yard = &messages[YARD]["cmps"];
    assert_eq!(
        yard["label--traffic-20light--count"]["stat_t"],
        "jetwatch/gate/yard/counts/traffic_light"
    );
    assert_eq!(
        yard["analytics"]["evt_typ"],
        serde_json::json!([
            "zone_entered",
            "zone_left",
            "loitering",
            "overcrowding",
            "overcrowding_over",
            "line_crossed",
            "direction",
            "stationary",
            "moving"
        ])
    );
    // Labels and a group.
    assert_eq!(state.count_topics()[0].1.len(), LABELS.len() + 1);
}

#[test]
fn other_labels_have_entities_once_they_are_seen_and_keep_them_over_restarts() {
    let mut state = home_assistant_with(options(true));
    state.take(known(source("yard", false, rules())));
    state.take(Fact::Earlier(Vec::new()));
    let before = read(&state.messages());
    assert!(!ids(&before[YARD]).iter().any(|id| id.contains("label--")));
    see(&mut state, None, "car");
    see(&mut state, Some("drive"), "traffic light");
    let messages = state.messages();
    let after = read(&messages);
    assert_eq!(after.len(), 1, "only that source");
    let wanted = [
        "label--car--count",
        "group--vehicle--count",
        "zone--drive--label--traffic-20light--count",
    ];
    let added = ids(&after[YARD]);
    assert!(wanted.iter().all(|id| added.contains(*id)), "{added:?}");

    let mut next = home_assistant_with(options(true));
    next.take(known(source("yard", false, rules())));
    next.take(earlier(&messages));
    let again = read(&next.messages());
    assert_eq!(again[YARD], after[YARD]);
    assert_eq!(next.retiring().count(), 0);

    // The network no longer has the label.
    let mut other = home_assistant_with(options(true));
    let mut info = source("yard", false, rules());
    info.labels.retain(|label| label != "car");
    other.take(known(info));
    other.take(earlier(&messages));
    let message = &read(&other.messages())[YARD];
    let removed = serde_json::json!({ "p": "sensor" });
    assert_eq!(message["cmps"]["label--car--count"], removed);
}

#[test]
fn removed_components_have_their_platform_alone_before_they_are_left_out() {
    let mut state = home_assistant_with(options(true));
    state.take(known(source("yard", true, rules())));
    state.take(Fact::Earlier(Vec::new()));
    let first = state.messages();

    let mut without = rules();
    without.lines.clear();
    // Restarted by a reload.
    state.take(Fact::SourceRemoved("yard".to_owned()));
    assert_eq!(state.messages(), [], "it may come back");
    state.take(known(source("yard", true, without.clone())));
    assert!(!state.drop_leaving());
    let removing = state.messages();
    let message = &read(&removing)[YARD];
    assert_eq!(
        message["cmps"]["line--gate--left"],
        serde_json::json!({ "p": "sensor" })
    );
    assert_eq!(
        message["cmps"]["trigger--line_crossed--gate--left"],
        serde_json::json!({ "p": "device_automation" })
    );
    assert_eq!(state.retiring().collect::<Vec<_>>(), [YARD]);
    state.retired();
    let last = state.messages();
    assert!(!ids(&read(&last)[YARD]).contains("line--gate--left"));
    assert_eq!(state.retiring().count(), 0);

    // The same while the daemon was down, and where it ended between the two.
    for (before, is_removed) in [(&first, true), (&removing, false)] {
        let mut next = home_assistant_with(options(true));
        next.take(known(source("yard", true, without.clone())));
        next.take(earlier(before));
        let message = read(&next.messages());
        let component = &message[YARD]["cmps"]["line--gate--left"];
        assert_eq!(component.is_object(), is_removed, "{component}");
    }
}

#[test]
fn devices_are_withdrawn_when_their_sources_leave() {
    let mut state = home_assistant_with(options(true));
    for name in ["yard", "street"] {
        state.take(known(source(name, true, rules())));
    }
    state.take(Fact::Earlier(Vec::new()));
    let all = state.messages();
    assert_eq!(all.len(), 3);
    state.take(Fact::SourceRemoved("yard".to_owned()));
    assert!(state.drop_leaving());
    let wanted = [DiscoveryMessage {
        topic: YARD.to_owned(),
        payload: Bytes::new(),
    }];
    assert_eq!(state.messages(), wanted);
    assert_eq!(state.announcement().devices, 2);

    // One that left while the daemon was down.
    let mut next = home_assistant_with(options(true));
    next.take(known(source("street", true, rules())));
    let theirs = DiscoveryMessage {
        topic: "homeassistant/device/jetwatch--gate/other/config".to_owned(),
        payload: Bytes::from_static(br#"{"o": {"name": "other"}, "cmps": {}}"#),
    };
    next.take(earlier(&[all.clone(), vec![theirs]].concat()));
    let messages = next.messages();
    let is_withdrawn = |message: &&DiscoveryMessage| message.payload.is_empty();
    let withdrawn: Vec<_> = messages.iter().filter(is_withdrawn).collect();
    assert_eq!((messages.len(), withdrawn.len()), (3, 1), "{messages:?}");
    assert_eq!(withdrawn[0].topic, YARD);

    // Switched off.
    let mut off = home_assistant_with(options(false));
    off.take(known(source("street", true, rules())));
    off.take(earlier(&all));
    let messages = off.messages();
    assert_eq!(messages.len(), 3);
    assert!(messages.iter().all(|message| message.payload.is_empty()));
    assert!(off.count_topics().is_empty());
    assert_eq!((off.birth_topic(), off.messages().len()), (None, 0));
}

#[test]
fn sensors_of_an_earlier_run_stay_until_the_machine_was_read() {
    let sensors = |zones: &[&str], rails: &[&str]| {
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Fact::Sensors(Sensors {
            temperatures: named(zones),
            rails: named(rails),
        })
    };
    let mut state = home_assistant_with(options(true));
    state.take(sensors(&["GPU-therm", "CPU-therm"], &["VDD_IN", "CPU"]));
    state.take(Fact::Earlier(Vec::new()));
    let messages = state.messages();
    let ids_before = ids(&read(&messages)[BOX]);
    for wanted in [
        "temperature--GPU-2dtherm",
        "power--VDD_IN",
        "rail--CPU",
        "spool_size",
    ] {
        assert!(ids_before.contains(wanted), "{wanted}: {ids_before:?}");
    }
    let mut next = home_assistant_with(options(true));
    next.take(earlier(&messages));
    assert_eq!(next.messages(), messages, "for later connections");
    next.take(sensors(&["GPU-therm"], &["CPU", "SOC"]));
    let message = &read(&next.messages())[BOX];
    let removed = serde_json::json!({ "p": "sensor" });
    assert_eq!(message["cmps"]["temperature--CPU-2dtherm"], removed);
    assert_eq!(message["cmps"]["power--VDD_IN"], removed);
    assert!(message["cmps"]["power--sum"]["uniq_id"].is_string());
    assert_eq!(message["cmps"]["rail--SOC"]["en"], false);
}

#[test]
fn messages_stay_below_the_limit_and_leave_out_zone_labels_first() {
    let mut state = home_assistant_with(options(true));
    state.take(known(source("yard", true, rules())));
    state.take(Fact::Earlier(Vec::new()));
    let whole = state.messages();
    let size = whole.iter().map(|message| message.payload.len()).max();
    let size = size.expect("messages");
    let complete = ids(&read(&whole)[YARD]);
    assert_eq!(state.announcement().left_out, 0);
    for share in [90, 70, 50, 30] {
        let limit = size * share / 100;
        assert!(state.set_max_bytes(limit));
        let mut announced = complete.clone();
        // Those that are left out are removed first.
        for _ in 0..2 {
            for message in state.messages() {
                assert!(message.payload.len() <= limit, "{share}: {message:?}");
                if message.topic == YARD {
                    announced = ids(&read(&[message])[YARD]);
                }
            }
            state.retired();
        }
        let left_out = state.announcement().left_out;
        assert_eq!(complete.len() - announced.len(), left_out, "{share}");
        assert!(left_out > 0);
        let ranks = ["trigger--", "zone--drive--label--", "label--"];
        let of = |ids: &BTreeSet<String>, rank: &str| {
            ids.iter().filter(|id| id.starts_with(rank)).count()
        };
        // Nothing of a rank is there while something of a higher one is missing.
        for (lower, higher) in ranks.iter().zip(&ranks[1..]) {
            let is_whole = of(&announced, higher) == of(&complete, higher);
            assert!(is_whole || of(&announced, lower) == 0, "{share}: {lower}");
        }
        assert!(announced.contains("connection"));
    }
}

#[test]
fn labels_have_a_picture_where_pictures_are_published() {
    let pictures = |has_pictures| -> usize {
        let mut state = home_assistant_with(options(true));
        let mut info = source("yard", true, rules());
        info.has_pictures = has_pictures;
        state.take(known(info));
        state.take(Fact::Earlier(Vec::new()));
        let messages = read(&state.messages());
        let components = messages[YARD]["cmps"].as_object().expect("components");
        let images = components.values().filter(|one| one["p"] == "image");
        let topics = images.filter_map(|one| one["img_t"].as_str());
        topics
            .filter(|topic| topic.contains("/yard/snapshots/"))
            .count()
    };
    assert_eq!(pictures(false), 0);
    assert_eq!(pictures(true), labels().len());
}
