//! Every message that is produced is described by `configs/messages.schema.json`, which is made from the structs of the
//! messages, and wrong ones are refused by it.
//!
//! `UPDATE_GOLDEN=1 cargo test --test daemon publish_wire` writes the schema and `docs/src/reference/messages.md`.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use crate::support::generated::check_generated;

use std::time::Duration;

use jetwatch_config::{Config, SceneRules};
use jetwatch_platform::throttling::{Cause, ThrottleEvent};
use jetwatch_publish::{
    Activity, AnalyticsMessage, DetectorStatus, Encoder, Publication, ReloadProblem, ReloadState,
    ReloadStatus, Reply, Timestamp, message_page, message_schema,
};
use jetwatch_telemetry::update_status::{STATUS_VERSION, UpdateState, UpdateStatus};
use jetwatch_types::SourceState;
use jetwatch_types::{
    AnalyticsEvent, AnalyticsEventKind, Attribute, Attributes, Classes, Crossings, EventKind,
    LabelGroup, Side, TrackId, ZoneCount,
};
use jsonschema::Validator;
use serde_json::{Value, json};
use support::records::{at, event, frame, machine_stats, stats, track};

const DETECTION: Activity<'_> = Activity {
    rule: None,
    switched_on: true,
    scheduled: Some(false),
    next_change: Some(std::time::SystemTime::UNIX_EPOCH),
};

const YARD: Activity<'_> = Activity {
    rule: Some("yard"),
    switched_on: false,
    scheduled: None,
    next_change: None,
};

fn validator() -> Validator {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/messages.schema.json");
    let text = std::fs::read_to_string(path).expect("the schema is part of the project");
    let schema = serde_json::from_str(&text).expect("the schema is JSON");
    jsonschema::draft202012::meta::validate(&schema).expect("the schema is a schema");
    jsonschema::draft202012::new(&schema).expect("the schema can be used")
}

#[test]
fn committed_message_schema_equals_generated_schema() {
    let schema = serde_json::to_string_pretty(&message_schema()).expect("JSON") + "\n";
    check_generated("configs/messages.schema.json", &schema);
    check_generated("docs/src/reference/messages.md", &message_page());
}

#[test]
fn message_page_has_a_table_for_every_link() {
    let page = message_page();
    for wanted in [
        "| [`event`](#event) | `<source>/events` | 1 | no |",
        "| [`source`](#source-state) | `<source>/status` | 1 | yes |",
        "| `box` | array of 4 × number |",
        "`end`: The track ended.",
    ] {
        assert!(page.contains(wanted), "no {wanted} in\n{page}");
    }
    for link in page.split("](#").skip(1) {
        let id = link.split(')').next().expect("closed");
        assert!(page.contains(&format!("{{#{id}}}")), "no heading {id}");
    }
}

/// A zone with a threshold, a line and a direction.
fn rules() -> SceneRules {
    let yaml = "sources:
  - name: cam
    uri: synthetic://traffic
    zones: [{name: yard, coordinates: \"0,0,1,0,1,1\", object_threshold: 2}]
    lines: [{name: gate, coordinates: \"0,0.5,1,0.5\"}]
    directions: [{name: out, coordinates: \"0,0,1,0\"}]
detector: {backend: scripted}
";
    let config = Config::from_str("f.yaml", yaml).unwrap_or_else(|error| panic!("{error}"));
    config.sources[0].rules.clone()
}

/// One analytics event of each kind, and another direction.
fn analytics_events() -> Vec<AnalyticsMessage> {
    let dwell = Duration::from_millis(1500);
    let of_zone = [
        AnalyticsEventKind::Overcrowded { zone: 0, count: 2 },
        AnalyticsEventKind::OvercrowdingEnded { zone: 0, count: 1 },
    ];
    let of_track = [
        AnalyticsEventKind::ZoneEntered { zone: 0 },
        AnalyticsEventKind::ZoneLeft { zone: 0, dwell },
        AnalyticsEventKind::Loitering { zone: 0, dwell },
        AnalyticsEventKind::LineCrossed {
            line: 0,
            to: Side::Left,
        },
        AnalyticsEventKind::Direction { direction: Some(0) },
        AnalyticsEventKind::Direction { direction: None },
        AnalyticsEventKind::Stationary { since: dwell },
        AnalyticsEventKind::Moving,
    ];
    let about = |kind, track: Option<TrackId>| AnalyticsMessage {
        event: AnalyticsEvent {
            kind,
            track,
            class: track.map(|_| 1),
            at: at(7),
        },
        started_at: track.map(|_| at(3)),
    };
    let of_track = of_track.map(|kind| about(kind, Some(TrackId(3))));
    let of_zone = of_zone.map(|kind| about(kind, None));
    of_track.into_iter().chain(of_zone).collect()
}

/// Results of a classifier and a detector for one object.
fn attributes() -> Attributes {
    let output = |name: &str, label: &str, xyxy| Attribute {
        name: name.into(),
        label: label.into(),
        score: 0.812_345,
        xyxy,
    };
    let part = Some([10.04, 20.0, 30.0, 40.0]);
    vec![output("color", "red", None), output("parts", "plate", part)].into()
}

fn messages() -> Vec<Value> {
    let labels = ["person".to_owned(), "traffic light".to_owned()];
    let signal = LabelGroup {
        name: "signal".to_owned(),
        labels: labels[1..].to_vec(),
    };
    let classes = Classes::new(&labels, &[signal]);
    let mut encoder = Encoder::new("gate", &classes);
    let meta = frame(7);
    let without_pts = jetwatch_types::FrameMeta {
        pts: None,
        ..frame(8)
    };
    let events = [EventKind::New, EventKind::Update, EventKind::End].map(|kind| event(kind, 3));
    let mut with_embedding = events.clone();
    with_embedding[0].embedding = Some([0.6, -0.8].into());
    let tracks = [
        track(3),
        jetwatch_types::Track {
            class: 1,
            state: jetwatch_types::TrackState::Lost,
            attributes: attributes(),
            ..track(4)
        },
    ];
    let stats = stats();
    let mut records = vec![
        Publication::Events {
            source: "cam",
            frame: &meta,
            events: &events,
            recording: None,
            snapshots: &[],
        },
        Publication::Events {
            source: "cam",
            frame: &without_pts,
            events: &with_embedding,
            recording: None,
            snapshots: &[],
        },
        Publication::Frame {
            source: "cam",
            frame: &meta,
            tracks: &tracks,
        },
        Publication::Frame {
            source: "cam",
            frame: &meta,
            tracks: &[],
        },
        Publication::Count {
            source: "cam",
            label: "traffic light",
            count: 2,
            at: at(7),
        },
        Publication::GroupCount {
            source: "cam",
            group: "signal",
            count: 2,
            at: at(7),
        },
        Publication::Switch {
            source: "cam",
            rule: None,
            on: true,
            at: at(7),
        },
        Publication::Switch {
            source: "cam",
            rule: Some("yard"),
            on: false,
            at: at(7),
        },
        Publication::ScoreThreshold {
            source: "cam",
            threshold: 0.35,
            at: at(7),
        },
        Publication::Active {
            source: "cam",
            activity: &DETECTION,
            at: at(7),
        },
        Publication::Active {
            source: "cam",
            activity: &YARD,
            at: at(7),
        },
        Publication::Source {
            source: "cam",
            state: SourceState::Offline,
            reason: Some("no \"frame\"\nfor 5 s"),
            at: at(7),
        },
        Publication::Stats(&stats),
    ];
    for state in [
        SourceState::Connecting,
        SourceState::Online,
        SourceState::Ended,
    ] {
        records.push(Publication::Source {
            source: "cam",
            state,
            reason: None,
            at: at(7),
        });
    }
    let statuses = [
        DetectorStatus::EngineMissing {
            reason: "it was built by TensorRT 8.5.2, and 8.6.1 is here".to_owned(),
        },
        DetectorStatus::Building {
            elapsed: Duration::from_millis(12_345),
            progress: Some(0.25),
            phase: Some("Building engine".to_owned()),
        },
        DetectorStatus::Building {
            elapsed: Duration::ZERO,
            progress: None,
            phase: None,
        },
        DetectorStatus::Ready {
            runs: "tensorrt, street-nano in int8 (Xavier)".to_owned(),
        },
        DetectorStatus::Failed {
            reason: "no memory".to_owned(),
        },
    ];
    for status in &statuses {
        records.push(Publication::Detector { status, at: at(7) });
    }
    let reloads = [
        (ReloadState::Applied, None, None),
        (ReloadState::Refused, Some("jetwatch.yaml"), Some(7)),
        (ReloadState::Incomplete, None, None),
    ]
    .map(|(state, file, line)| ReloadStatus {
        state,
        added: vec!["yard".to_owned()],
        changed: Vec::new(),
        removed: vec!["gate".to_owned()],
        unchanged: 3,
        problems: Vec::from_iter((state != ReloadState::Applied).then(|| ReloadProblem {
            file: file.map(str::to_owned),
            line,
            key: file.map(|_| "sources[1].uri".to_owned()),
            text: "missing".to_owned(),
        })),
    });
    let replies = [None, Some("no such template")].map(|error| Reply {
        reply_to: None,
        id: error.map(|_| "7".to_owned()),
        name: error.map(|_| "hall-2".to_owned()),
        error: error.map(str::to_owned),
    });
    for reply in &replies {
        records.push(Publication::Reply { reply, at: at(7) });
    }
    let updates = [
        (UpdateState::UpToDate, None),
        (UpdateState::InProgress, Some("waiting for health")),
        (
            UpdateState::RolledBack,
            Some("source yard brings no frames"),
        ),
    ]
    .map(|(state, reason)| UpdateStatus {
        version: STATUS_VERSION,
        state,
        installed: "1.0.0".to_owned(),
        latest: "1.1.0".to_owned(),
        held: (state == UpdateState::RolledBack).then(|| "1.1.0".to_owned()),
        previous: None,
        reason: reason.map(str::to_owned),
        at_ms: 1_700_000_000_000,
    });
    for status in &updates {
        records.push(Publication::Update(status));
    }
    for status in &reloads {
        records.push(Publication::Reload { status, at: at(7) });
    }
    let changes = [true, false].map(|began| ThrottleEvent {
        cause: Cause::Heat("gpu-throttle-alert".to_owned()),
        began,
        detail: if began { "GPU-therm has 97.5 °C" } else { "" }.to_owned(),
        active: Vec::from_iter(began.then(|| Cause::Heat("gpu-throttle-alert".to_owned()))),
        times: 1,
    });
    for change in &changes {
        records.push(Publication::Throttling { change, at: at(7) });
    }
    let (rules, facts) = (rules(), analytics_events());
    records.push(Publication::Analytics {
        source: "cam",
        rules: &rules,
        frame: &meta,
        events: &facts,
        recording: None,
    });
    for overcrowded in [Some(true), None] {
        records.push(Publication::Zone {
            source: "cam",
            zone: &rules.zones[0],
            present: &[ZoneCount { class: 1, count: 2 }],
            overcrowded,
            at: at(7),
        });
    }
    let crossings = [0, 1].map(|class| Crossings {
        class,
        to_left: 2,
        to_right: 5,
    });
    records.push(Publication::Line {
        source: "cam",
        line: &rules.lines[0],
        crossings: &crossings,
        since: at(0),
        at: at(7),
    });
    let machine = machine_stats();
    records.push(Publication::Stats(&machine));
    let mut values = Vec::new();
    for record in &records {
        encoder.encode(record, Timestamp::now(), |json| {
            assert!(!json.contains(&b'\n'), "a message is one line");
            values.push(serde_json::from_slice(json).expect("messages are JSON"));
        });
    }
    values
}

#[test]
fn every_message_fits_the_schema() {
    let validator = validator();
    let messages = messages();
    assert_eq!(messages.len(), 49);
    for message in &messages {
        let problems: Vec<String> = validator
            .iter_errors(message)
            .map(|error| error.to_string())
            .collect();
        assert!(problems.is_empty(), "{message:#}: {problems:?}");
        assert_eq!(
            (&message["version"], &message["device"]),
            (&json!(2), &json!("gate"))
        );
    }
    for kind in [
        "event",
        "detections",
        "count",
        "group_count",
        "switch",
        "score_threshold",
        "analytics",
        "zone",
        "line",
        "source",
        "throttling",
        "update",
        "stats",
    ] {
        assert!(
            messages.iter().any(|message| message["kind"] == kind),
            "no message of kind {kind}"
        );
    }
}

#[test]
fn messages_have_groups_besides_labels() {
    let messages = messages();
    let of_kind = |kind: &str| -> Vec<&Value> {
        let messages = messages.iter();
        messages.filter(|message| message["kind"] == kind).collect()
    };
    assert_eq!(of_kind("group_count")[0]["group"], "signal");
    let event = of_kind("event")[0];
    assert_eq!(
        [&event["label"], &event["group"], &event["after"]["group"]],
        [&json!("person"), &Value::Null, &Value::Null]
    );
    let tracks = &of_kind("detections")[0]["tracks"];
    assert_eq!(tracks[1]["group"], "signal");
    let analytics = of_kind("analytics");
    assert_eq!(analytics[0]["group"], "signal");
    let groups = json!([{ "group": "signal", "count": 2 }]);
    assert_eq!(of_kind("zone")[0]["groups"], groups);
    // A person, who is in no group, has crossed as well.
    let groups = json!([{ "group": "signal", "to_left": 2, "to_right": 5 }]);
    let line = of_kind("line")[0];
    assert_eq!((&line["groups"], &line["to_left"]), (&groups, &json!(4)));
}

#[test]
fn message_schema_rejects_invalid_messages() {
    let validator = validator();
    let messages = messages();
    let changes: [(&str, &str, Value); 20] = [
        ("analytics", "/type", json!("teleported")),
        ("analytics", "/to", json!("up")),
        ("zone", "/present/0/count", json!(-1)),
        ("line", "/crossings/0/to_left", json!("2")),
        ("event", "/type", json!("gone")),
        ("event", "/started_at", json!(1_700_000_000)),
        ("event", "/started_at", json!("2026-01-31T12:00:00Z")),
        ("event", "/id", json!(3)),
        ("event", "/after/box", json!([1, 2, 3])),
        ("event", "/after/box_normalized", json!([0, 0, 1.5, 1])),
        ("event", "/after/score", json!(1.2)),
        ("detections", "/tracks/1/attributes/0/score", json!(1.5)),
        ("stats", "/secondary/0/suggested_batch_size", json!(0)),
        ("source", "/state", json!("asleep")),
        ("stats", "/messages/queued", json!(-1)),
        ("count", "/count", json!("2")),
        ("switch", "/on", json!("ON")),
        ("score_threshold", "/threshold", json!(1.5)),
        ("throttling", "/throttled_by/0/cause", json!("boredom")),
        ("update", "/state", json!("idle")),
    ];
    for (kind, place, wrong) in changes {
        let mut message = messages
            .iter()
            .find(|message| message["kind"] == kind)
            .expect("one of each")
            .clone();
        *message
            .pointer_mut(place)
            .unwrap_or_else(|| panic!("{kind} has {place}")) = wrong;
        assert!(!validator.is_valid(&message), "{message:#}");
    }
    for message in &messages {
        let keys = message.as_object().expect("messages are objects").keys();
        // The only field that is left out where it was not requested.
        for key in keys.filter(|key| *key != "embedding") {
            let mut shorter = message.clone();
            shorter.as_object_mut().expect("an object").remove(key);
            assert!(
                !validator.is_valid(&shorter),
                "{key} is missing in {shorter:#}"
            );
        }
        let mut longer = message.clone();
        longer["surprise"] = json!(1);
        assert!(!validator.is_valid(&longer), "{longer:#}");
    }
}

#[test]
fn events_carry_identity_times_and_boxes() {
    let messages = messages();
    let [new, update, end] = [&messages[0], &messages[1], &messages[2]];
    assert_eq!(
        [&new["type"], &update["type"], &end["type"]],
        ["new", "update", "end"]
    );
    assert_eq!(new["id"], "1700000000.099000-cam-3");
    assert_eq!(new["id"], end["id"]);
    assert_eq!(
        (&new["track_id"], &new["label"]),
        (&json!(3), &json!("person"))
    );
    assert_eq!(new["started_at"], "2023-11-14T22:13:20.099Z");
    assert_eq!(
        (&new["duration_ms"], &end["duration_ms"]),
        (&json!(990), &json!(660))
    );
    assert_eq!(
        new["frame"],
        json!({ "seq": 7, "pts_ms": 231.0, "width": 640, "height": 480 })
    );
    assert_eq!(new["after"]["score"].to_string(), "0.8733");
    assert_eq!(new["after"]["box"].to_string(), "[10.0,20.0,110.0,220.0]");
    assert_eq!(
        new["after"]["box_normalized"].to_string(),
        "[0.01569,0.04167,0.17188,0.45833]"
    );
    assert_eq!(
        (&new["before"], &end["after"]["state"]),
        (&Value::Null, &json!("ended"))
    );
    assert_eq!(new.get("embedding"), None, "only where it was requested");
    assert_eq!(
        messages[3]["embedding"].to_string(),
        r#"{"vector":[0.6,-0.8]}"#
    );
}

#[test]
fn analytics_events_carry_rule_and_track_ids() {
    let messages = messages();
    let analytics_events: Vec<&Value> = messages
        .iter()
        .filter(|m| m["kind"] == "analytics")
        .collect();
    let reported: Vec<_> = analytics_events
        .iter()
        .map(|analytics_event| {
            [
                &analytics_event["type"],
                &analytics_event["name"],
                &analytics_event["to"],
                &analytics_event["duration_ms"],
            ]
        })
        .map(|values| {
            values
                .map(|value| value.to_string().replace('"', ""))
                .join(" ")
        })
        .collect();
    let wanted = [
        "zone_entered yard null null",
        "zone_left yard null 1500",
        "loitering yard null 1500",
        "line_crossed gate left null",
        "direction out null null",
        "direction null null null",
        "stationary null null 1500",
        "moving null null null",
        "overcrowding yard null null",
        "overcrowding_over yard null null",
    ];
    assert_eq!(reported, wanted);
    assert_eq!(
        analytics_events[0]["id"], "1700000000.099000-cam-3",
        "as its events"
    );
    assert_eq!(analytics_events[0]["label"], "traffic light");
    assert_eq!(
        (&analytics_events[8]["id"], &analytics_events[8]["count"]),
        (&Value::Null, &json!(2))
    );
    let zone = messages
        .iter()
        .find(|m| m["kind"] == "zone")
        .expect("a zone");
    assert_eq!(
        zone["present"],
        json!([{"label": "traffic light", "count": 2}])
    );
    assert_eq!(
        (&zone["count"], &zone["overcrowded"]),
        (&json!(2), &json!(true))
    );
    let line = messages
        .iter()
        .find(|m| m["kind"] == "line")
        .expect("a line");
    assert_eq!(
        (&line["to_left"], &line["to_right"]),
        (&json!(4), &json!(10))
    );
}

#[test]
fn attributes_are_part_of_track_message() {
    let messages = messages();
    let detections = messages
        .iter()
        .find(|message| message["kind"] == "detections");
    let tracks = &detections.expect("one of each")["tracks"];
    assert_eq!(tracks[0]["attributes"], json!([]));
    assert_eq!(
        tracks[1]["attributes"].to_string(),
        r#"[{"box":null,"label":"red","name":"color","score":0.8123},{"box":[10.0,20.0,30.0,40.0],"label":"plate","name":"parts","score":0.8123}]"#
    );
}

#[test]
fn machine_stats_have_units() {
    let messages = messages();
    let reported = messages.last().expect("statistics of a machine");
    let machine = &reported["machine"];
    assert_eq!(
        machine["cpus"],
        json!([
            {"cpu": 0, "online": true, "load_percent": 33.3, "mhz": 1420.8, "max_mhz": 1420.8},
            {"cpu": 1, "online": false, "load_percent": null, "mhz": null, "max_mhz": null},
        ])
    );
    assert_eq!(
        machine["engines"],
        json!([{"engine": "gpu", "name": "17000000.gv11b", "load_percent": 42.5, "mhz": 803.25, "max_mhz": 854.25, "hardware_mhz": 1109.25}])
    );
    assert_eq!(
        machine["temperatures"],
        json!([{"zone": "CPU-therm", "celsius": 41.5}, {"zone": "cv0-thermal", "celsius": null}])
    );
    assert_eq!(
        machine["rails"],
        json!([{"rail": "VDD_IN", "mv": 4984, "ma": 1856, "mw": 9250, "limit_ma": 3000, "alarm": false}])
    );
    assert_eq!(
        (&machine["throttled_times"], &machine["read_ms"]),
        (&json!(3), &json!(2.5))
    );
    assert_eq!(messages[6]["machine"], Value::Null, "not read yet");
}
