// SPDX-License-Identifier: Apache-2.0
//! One recorded run of two cameras through the encoders of other systems' shapes: each message fits the schema of its shape in
//! `configs/`, and all of them are those of `tests/golden/formats/`.
//!
//! `UPDATE_GOLDEN=1 cargo test --test daemon formats::` writes the golden files; read the difference before keeping it.

#[allow(dead_code)] // Each test file uses its part of the shared code.
use crate::support::publish as support;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use crate::support::generated::check_generated;
use crate::support::schema::Schema;
use jetwatch_config::{Config, FormatConfig, SceneRules};
use jetwatch_publish::{
    AnalyticsMessage, Format, FormatMessage, Motion, Publication, SourceInfo, SourceName, Utc,
    format_of,
};
use jetwatch_types::{
    AnalyticsEvent, AnalyticsEventKind, Attribute, Classes, EventKind, LabelGroup, Side,
    SourceState, Track, TrackEvent, TrackId, TrackState,
};
use serde_json::{Value, json};
use support::records::{at, frame, machine_stats, track};

const LABELS: [&str; 4] = ["person", "car", "truck", "dog"];

fn classes() -> Classes {
    let vehicle = LabelGroup {
        name: "vehicle".to_owned(),
        labels: ["car", "truck"].map(str::to_owned).into(),
    };
    Classes::new(&LABELS.map(str::to_owned), &[vehicle])
}

/// The first item of `also`, and the rules of the source `gate`.
fn config(also: &str) -> (FormatConfig, SceneRules) {
    let yaml = format!(
        "sources:
  - name: gate
    uri: rtsp://192.0.2.10/1
    zones:
      - {{name: yard, coordinates: \"0,0,1,0,1,1\", object_threshold: 2, loitering_time_s: 3}}
      - {{name: road, coordinates: \"0,0,0,1,0.9,1\", objects: [vehicle], allow_overlap: true}}
    lines: [{{name: barrier, coordinates: \"0,0.5,1,0.5\"}}]
    stationary: {{threshold_s: 2}}
  - {{name: ramp, uri: rtsp://192.0.2.11/1}}
detector: {{model: /m}}
publish: {{mqtt: {{also: [{also}]}}}}
"
    );
    let config = Config::from_str("f.yaml", &yaml).unwrap_or_else(|error| panic!("{error}"));
    let formats = config.publish.mqtt.expect("MQTT is on").also;
    (formats[0].clone(), config.sources[0].rules.clone())
}

/// Plays publications to one format.
struct Player {
    format: Box<dyn Format>,
    rules: SceneRules,
    /// By source and number of the track: as in its last event.
    tracks: HashMap<(&'static str, u64), TrackEvent>,
    messages: Vec<FormatMessage>,
}

impl Player {
    fn new(also: &str) -> Self {
        let (config, rules) = config(also);
        Self {
            format: format_of(&config, "box", &classes(), "1.2.3"),
            rules,
            tracks: HashMap::new(),
            messages: Vec::new(),
        }
    }

    fn publish(&mut self, record: &Publication<'_>, seq: u64) {
        self.format.encode(record, at(seq), &mut self.messages);
    }

    fn add(&mut self, name: &str, labels: &[&str], rules: SceneRules) {
        let source = SourceInfo {
            name: name.to_owned(),
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            has_chosen_labels: labels.len() < LABELS.len(),
            rules,
            has_schedule: false,
            has_pictures: false,
            has_motion: false,
        };
        self.format.source_added(&source, &mut self.messages);
    }

    fn state(&mut self, source: &'static str, seq: u64, state: SourceState) {
        let record = Publication::source_state(source, state, None, at(seq));
        self.publish(&record, seq);
    }

    /// An event of a track in the frame `seq`; `change` makes the track what it is now.
    fn event(
        &mut self,
        source: &'static str,
        seq: u64,
        kind: EventKind,
        id: u64,
        change: impl FnOnce(&mut Track),
    ) {
        let before = self.tracks.get(&(source, id));
        let mut after = before.map_or_else(|| track(id), |event| event.after.clone());
        if kind == EventKind::End {
            after.state = TrackState::Ended;
        }
        change(&mut after);
        let started_at = before.map_or(at(seq), |event| event.started_at);
        let event = TrackEvent {
            kind,
            before: before.map(|event| event.after.clone()),
            after,
            started_at,
            frame_at: at(seq),
            ended_at: (kind == EventKind::End).then(|| at(seq - 1)),
            duration: Duration::ZERO,
            embedding: (kind == EventKind::New && id == 2).then(|| [0.6, -0.8].into()),
        };
        self.tracks.insert((source, id), event.clone());
        let events = [event];
        let record = Publication::Events {
            source,
            frame: &frame(seq),
            events: &events,
            recording: None,
            snapshots: &[(id == 1).then(|| "snapshot".to_owned())],
        };
        self.publish(&record, seq);
    }

    fn analytics(
        &mut self,
        source: &'static str,
        seq: u64,
        id: Option<u64>,
        kind: AnalyticsEventKind,
    ) {
        let track = id.and_then(|id| self.tracks.get(&(source, id)));
        let events = [AnalyticsMessage {
            event: AnalyticsEvent {
                kind,
                track: id.map(TrackId),
                class: track.map(|event| event.after.class),
                at: at(seq),
            },
            started_at: track.map(|event| event.started_at),
        }];
        let rules = self.rules.clone();
        let record = Publication::Analytics {
            source,
            rules: &rules,
            frame: &frame(seq),
            events: &events,
            recording: None,
        };
        self.publish(&record, seq);
    }

    fn frame(&mut self, source: &'static str, seq: u64, tracks: &[Track]) {
        let record = Publication::Frame {
            source,
            frame: &frame(seq),
            tracks,
        };
        self.publish(&record, seq);
    }

    /// The run.
    fn play(mut self) -> Vec<FormatMessage> {
        use AnalyticsEventKind as Kind;
        let dwell = Duration::from_secs(3);
        self.add("gate", &LABELS[..2], self.rules.clone());
        self.add("ramp", &LABELS, SceneRules::default());
        self.state("gate", 0, SourceState::Connecting);
        self.state("gate", 1, SourceState::Online);
        let (source, on, changed_at) = (SourceName("gate"), true, Utc(at(1)));
        let motion = Motion {
            source,
            on,
            changed_at,
        };
        self.publish(&Publication::Motion(motion), 1);
        self.state("ramp", 1, SourceState::Online);

        // A person who walks, and a little later stands in the yard for a while.
        self.event("gate", 10, EventKind::New, 1, |_| {});
        self.analytics("gate", 15, Some(1), Kind::ZoneEntered { zone: 0 });
        self.event("gate", 25, EventKind::Update, 1, |track| {
            track.score = 0.95;
            track.top_score = 0.95;
            track.xyxy = [30.0, 20.0, 130.0, 225.0];
        });
        // Nothing that Frigate would publish.
        self.event("gate", 26, EventKind::Update, 1, |track| {
            track.xyxy[0] += 2.0
        });

        // A car with attributes, which makes a crowd, stops, and drives on as a truck.
        self.event("gate", 40, EventKind::New, 2, |track| {
            track.class = 1;
            track.xyxy = [200.0, 100.0, 400.0, 220.0];
        });
        self.event("gate", 41, EventKind::Update, 2, |track| {
            let attribute = |name: &str, label: &str, xyxy| Attribute {
                name: name.into(),
                label: label.into(),
                score: 0.75,
                xyxy,
            };
            let plate = Some([280.0, 190.0, 320.0, 205.0]);
            track.attributes = vec![
                attribute("color", "red", None),
                attribute("license", "AB|12", None),
                attribute("parts", "license_plate", plate),
            ]
            .into();
        });
        self.analytics("gate", 60, Some(2), Kind::ZoneEntered { zone: 0 });
        self.analytics("gate", 61, Some(2), Kind::ZoneEntered { zone: 1 });
        self.analytics("gate", 62, None, Kind::Overcrowded { zone: 0, count: 2 });
        self.analytics("gate", 120, Some(1), Kind::Loitering { zone: 0, dwell });
        self.analytics(
            "gate",
            130,
            None,
            Kind::OvercrowdingEnded { zone: 0, count: 1 },
        );
        self.analytics("gate", 200, Some(2), Kind::Stationary { since: dwell });
        self.event("gate", 300, EventKind::Update, 2, |track| track.score = 0.5);
        self.analytics("gate", 400, Some(2), Kind::Moving);
        let crossing = Kind::LineCrossed {
            line: 0,
            to: Side::Left,
        };
        self.analytics("gate", 420, Some(2), crossing);
        self.event("gate", 430, EventKind::Update, 2, |track| track.class = 2);
        self.analytics("gate", 450, Some(1), Kind::ZoneLeft { zone: 0, dwell });
        self.event("gate", 450, EventKind::End, 1, |_| {});

        // A dog at the other camera.
        self.event("ramp", 460, EventKind::New, 3, |track| track.class = 3);
        self.frame("gate", 470, &[]);
        let lost = Track {
            state: TrackState::Lost,
            ..track(9)
        };
        let car = self.tracks[&("gate", 2)].after.clone();
        self.frame("gate", 471, &[track(1), lost, car]);
        self.frame("gate", 472, &[]);
        self.frame("gate", 473, &[]);
        self.analytics("gate", 500, Some(2), Kind::ZoneLeft { zone: 0, dwell });
        self.analytics("gate", 500, Some(2), Kind::ZoneLeft { zone: 1, dwell });
        self.event("gate", 500, EventKind::End, 2, |_| {});
        self.publish(&Publication::Stats(&machine_stats()), 600);
        // Half a minute after the last object.
        self.publish(&Publication::Stats(&machine_stats()), 1500);
        self.event("ramp", 1600, EventKind::End, 3, |_| {});

        // The camera is taken out while its review is open; another object is there at the end.
        self.state("ramp", 1610, SourceState::Offline);
        self.format
            .source_removed("ramp", at(1620), &mut self.messages);
        self.event("gate", 1700, EventKind::New, 4, |_| {});
        self.event("gate", 1710, EventKind::End, 4, |_| {});
        self.format.finish(at(1720), &mut self.messages);
        self.messages
    }
}

/// Topic, delivery and payload, one message a line.
fn text_of(messages: &[FormatMessage]) -> String {
    let mut text = String::new();
    for message in messages {
        let payload = std::str::from_utf8(&message.payload).expect("payloads are text");
        let _ = writeln!(text, "{} {:?} {payload}", message.topic, message.delivery);
    }
    text
}

/// The messages of `topic` as JSON.
fn of_topic(messages: &[FormatMessage], topic: &str) -> Vec<Value> {
    let messages = messages.iter().filter(|message| &*message.topic == topic);
    messages
        .map(|message| serde_json::from_slice(&message.payload).expect("JSON"))
        .collect()
}

const FRIGATE: &str = "{format: frigate, width: 1280, height: 960}";
const FULL: &str = "{format: deepstream, sensors: [{source: gate, id: cam-7, description: gate, location: {lat: 48.5, lon: 9.25}, \
                    place: {id: site, name: Site 1, type: garage, part_id: A2, part_name: aisle 2, level: P1}}]}";
const MINIMAL: &str = "{format: deepstream, payload: minimal}";

#[test]
fn recorded_run_through_each_encoder_equals_its_golden_file() {
    for (name, also) in [
        ("frigate", FRIGATE),
        ("deepstream-full", FULL),
        ("deepstream-minimal", MINIMAL),
    ] {
        let messages = Player::new(also).play();
        let path = format!("tests/golden/formats/{name}.txt");
        check_generated(&path, &text_of(&messages));
    }
}

#[test]
fn every_message_fits_the_schema_of_its_shape() {
    for (also, topic, name, least) in [
        (FRIGATE, "frigate/events", "frigate-events", 15),
        (FRIGATE, "frigate/reviews", "frigate-reviews", 6),
        (FRIGATE, "frigate/stats", "frigate-stats", 2),
        (FULL, "deepstream", "deepstream-full", 8),
        (MINIMAL, "deepstream", "deepstream-minimal", 2),
    ] {
        let mut schema = Schema::of_file(name);
        let messages = of_topic(&Player::new(also).play(), topic);
        assert!(messages.len() >= least, "{topic}: {}", messages.len());
        for message in &messages {
            schema.accepts(message);
            let mut longer = message.clone();
            longer["type"] = json!("surprise");
            match name {
                "frigate-stats" => schema.accepts(&longer),
                _ => schema.refuses(&longer),
            }
            for key in message.as_object().expect("an object").keys() {
                let mut shorter = message.clone();
                shorter.as_object_mut().expect("an object").remove(key);
                schema.refuses(&shorter);
            }
        }
        schema.check();
    }
}

#[test]
fn frigate_events_continue_where_the_last_one_of_the_object_ended() {
    let messages = Player::new(FRIGATE).play();
    let mut last: HashMap<String, Value> = HashMap::new();
    for event in of_topic(&messages, "frigate/events") {
        let mut before = event["before"].clone();
        let id = event["after"]["id"].as_str().expect("an id").to_owned();
        let expected = match event["type"] == "new" {
            true => {
                before["false_positive"] = json!(false);
                assert!(!last.contains_key(&id), "{id} begins once");
                &event["after"]
            }
            false => &last[&id],
        };
        assert_eq!(before, *expected, "{id}");
        last.insert(id, event["after"].clone());
    }
    assert_eq!(last.len(), 4);
}

#[test]
fn deepstream_has_updates_and_frames_on_request() {
    let count = |also: &str| of_topic(&Player::new(also).play(), "deepstream").len();
    let updates = FULL.replacen('{', "{updates: true, ", 1);
    assert!(count(&updates) > count(FULL));
    let needs_frames = |also| Player::new(also).format.needs_frames();
    assert!(needs_frames(MINIMAL) && !needs_frames(FULL));
}

#[test]
fn frigate_alerts_follow_the_labels_and_zones_of_the_configuration() {
    let severities = |reviews: &str| -> Vec<Value> {
        let also = format!("{{format: frigate, reviews: {{{reviews}}}}}");
        let mut player = Player::new(&also);
        player.event("gate", 10, EventKind::New, 1, |_| {});
        player.event("gate", 11, EventKind::New, 2, |track| track.class = 1);
        for id in [1, 2] {
            let entered = AnalyticsEventKind::ZoneEntered { zone: 0 };
            player.analytics("gate", 20, Some(id), entered);
        }
        let events = of_topic(&player.messages, "frigate/events");
        events[2..]
            .iter()
            .map(|event| event["after"]["max_severity"].clone())
            .collect()
    };
    #[rustfmt::skip]
    let cases = [
        ("", json!(["alert", "alert"])),
        ("alert_labels: [vehicle]", json!(["detection", "alert"])),
        ("alert_zones: [road]", json!(["detection", "detection"])),
        ("alert_zones: [road], alert_requires_zone: false", json!(["alert", "alert"])),
        ("alert_zones: [road], detection_labels: [car]", json!([null, "detection"])),
    ];
    for (reviews, wanted) in cases {
        assert_eq!(json!(severities(reviews)), wanted, "{reviews}");
    }
}

/// A time that is set back ends no object and makes nothing negative.
#[test]
fn formats_survive_a_clock_that_is_set_back() {
    let mut player = Player::new(FRIGATE);
    player.event("gate", 1000, EventKind::New, 1, |_| {});
    player.event("gate", 10, EventKind::Update, 1, |track| track.score = 0.99);
    player.event("gate", 11, EventKind::End, 1, |_| {});
    let long_ago = SystemTime::UNIX_EPOCH;
    player.format.finish(long_ago, &mut player.messages);
    let reviews = of_topic(&player.messages, "frigate/reviews");
    let found = reviews.last().map(|review| &review["type"]);
    assert_eq!(found, Some(&json!("end")));
    let mut schema = Schema::of_file("frigate-events");
    for event in of_topic(&player.messages, "frigate/events") {
        schema.accepts(&event);
    }
    schema.check();
}
