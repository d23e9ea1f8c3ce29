// SPDX-License-Identifier: Apache-2.0
//! Every message that is produced is described by `configs/messages.schema.json`, which is made from the structs of the
//! messages, and wrong ones are refused by it.
//!
//! `UPDATE_GOLDEN=1 cargo test --test daemon publish_wire` writes the schema, `docs/src/reference/messages.md` and, one of each message,
//! `tests/golden/messages.jsonl`; read the difference before keeping it.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use crate::support::generated::check_generated;
use crate::support::schema::Schema;

use std::time::Duration;

use jetwatch_config::{Config, SceneRules, heading_slug};
use jetwatch_platform::throttling::{Cause, ThrottleEvent};
use jetwatch_publish::{
    Activity, AnalyticsMessage, DetectorStatus, Encoder, Motion, Publication, ReloadProblem,
    ReloadState, ReloadStatus, Reply, ScoreThreshold, SourceName, Switch, Timestamp, Utc,
    message_page, message_schema,
};
use jetwatch_telemetry::update_status::{STATUS_VERSION, UpdateState, UpdateStatus};
use jetwatch_types::SourceState;
use jetwatch_types::{
    AnalyticsEvent, AnalyticsEventKind, Attribute, Attributes, Classes, Crossings, EventKind,
    LabelGroup, Side, TrackId, ZoneCount,
};
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

#[test]
fn committed_message_schema_equals_generated_schema() {
    let schema = serde_json::to_string_pretty(&message_schema()).expect("JSON") + "\n";
    check_generated("configs/messages.schema.json", &schema);
    check_generated("docs/src/reference/messages.md", &message_page());
}

#[test]
fn message_page_has_a_list_for_every_link() {
    let page = message_page();
    assert_has!(page =>
        "Kind `event`; topic `<source>/events`, QoS 1.\n", "Kind `source`; topic `<source>/status`, QoS 1, retained.\n",
        "- `box` (array of 4 × number): ", "`end`: The track ended.");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let slugs: Vec<String> = headings.map(heading_slug).collect();
    for link in page.split("](#").skip(1) {
        let slug = link.split(')').next().expect("closed");
        let found = slugs.iter().filter(|heading| *heading == slug).count();
        assert_eq!(found, 1, "headings {slug}");
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

/// One of each message and of each of its forms, a line each.
fn lines() -> String {
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
        received_at: meta.received_at,
        ..frame(8)
    };
    let now = Timestamp {
        wall: at(40),
        monotonic: meta.received_at + Duration::from_micros(12_500),
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
    #[rustfmt::skip]
    let mut records = vec![
        Publication::Events { source: "cam", frame: &meta, events: &events, recording: None, snapshots: &[] },
        Publication::Events { source: "cam", frame: &without_pts, events: &with_embedding, recording: None, snapshots: &[] },
        Publication::Frame { source: "cam", frame: &meta, tracks: &tracks },
        Publication::Frame { source: "cam", frame: &meta, tracks: &[] },
        Publication::count("cam", "traffic light", 2, at(7)),
        Publication::group_count("cam", "signal", 2, at(7)),
        Publication::Switch(Switch { source: SourceName("cam"), rule: None, on: true, changed_at: Utc(at(7)) }),
        Publication::Switch(Switch { source: SourceName("cam"), rule: Some("yard"), on: false, changed_at: Utc(at(7)) }),
        Publication::ScoreThreshold(ScoreThreshold { source: SourceName("cam"), threshold: 0.35, changed_at: Utc(at(7)) }),
        Publication::Motion(Motion { source: SourceName("cam"), on: true, changed_at: Utc(at(7)) }),
        Publication::Active { source: "cam", activity: &DETECTION, at: at(7) },
        Publication::Active { source: "cam", activity: &YARD, at: at(7) },
        Publication::source_state("cam", SourceState::Offline, Some("no \"frame\"\nfor 5 s"), at(7)),
        Publication::Stats(&stats),
    ];
    for state in [
        SourceState::Connecting,
        SourceState::Online,
        SourceState::Ended,
    ] {
        records.push(Publication::source_state("cam", state, None, at(7)));
    }
    #[rustfmt::skip]
    let statuses = [
        DetectorStatus::EngineMissing { reason: "it was built by TensorRT 8.5.2, and 8.6.1 is here".to_owned() },
        DetectorStatus::Building {
            elapsed: Duration::from_millis(12_345),
            progress: Some(0.25),
            phase: Some("Building engine".to_owned()),
        },
        DetectorStatus::Building { elapsed: Duration::ZERO, progress: None, phase: None },
        DetectorStatus::Ready { runs: "tensorrt, street-nano in int8 (Xavier)".to_owned() },
        DetectorStatus::Failed { reason: "no memory".to_owned() },
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
        at: Utc(at(7)),
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
        records.push(Publication::Reload(status));
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
    let mut lines = Vec::new();
    for record in &records {
        encoder.encode(record, now, |json| {
            assert!(!json.contains(&b'\n'), "a message is one line");
            lines.extend_from_slice(json);
            lines.push(b'\n');
        });
    }
    String::from_utf8(lines).expect("text")
}

fn messages() -> Vec<Value> {
    let lines = lines();
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("messages are JSON"))
        .collect()
}

#[test]
fn each_message_is_its_golden_line() {
    check_generated("tests/golden/messages.jsonl", &lines());
}

#[test]
fn schema_accepts_each_message_and_refuses_invalid_ones() {
    let mut schema = Schema::of_file("messages");
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
        let of_kind = messages.iter().find(|message| message["kind"] == kind);
        let mut message = of_kind.expect("one of each").clone();
        let value = message.pointer_mut(place);
        *value.unwrap_or_else(|| panic!("{kind} has {place}")) = wrong;
        schema.refuses(&message);
    }
    for message in &messages {
        schema.accepts(message);
        let keys = message.as_object().expect("messages are objects").keys();
        // The only field that is left out where it was not requested.
        for key in keys.filter(|key| *key != "embedding") {
            let mut shorter = message.clone();
            shorter.as_object_mut().expect("an object").remove(key);
            schema.refuses(&shorter);
        }
        let mut longer = message.clone();
        longer["surprise"] = json!(1);
        schema.refuses(&longer);
    }
    schema.check();
}
