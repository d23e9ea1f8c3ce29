// SPDX-License-Identifier: Apache-2.0
//! Errors of the loader for wrong files: one report with every mistake, no secret in it, and never a panic. Each mistake alone is in
//! `src/appliance/config/mistakes.txt`.
//!
//! `UPDATE_GOLDEN=1 cargo test --test tools config_mistakes` writes `tests/golden/config_mistakes.txt` again; read the
//! difference before keeping it.

use std::fs;
use std::path::Path;

use jetwatch_config::{
    Association, Broker, ByteTrackConfig, Config, ScriptedConfig, Secret, SourceUri,
    TensorRtConfig, TrackerConfig, TrackerKind,
};
use proptest::prelude::*;

/// The minimal configuration that loads.
const MINIMAL: &str = "sources:\n  - name: a\n    uri: /v.mp4\ndetector:\n  model: /m\n";

fn golden(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// The error report for `text`.
fn report(text: &str) -> String {
    match Config::from_str("f.yaml", text) {
        Ok(config) => panic!("accepted: {text}\n{config:#?}"),
        Err(error) => error.to_string(),
    }
}

fn loaded(text: &str) -> Config {
    Config::from_str("conf/f.yaml", text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn all_mistakes_are_reported_in_one_report() {
    let text = fs::read_to_string(golden("config_mistakes.yaml")).expect("readable");
    let error = Config::from_str("jetwatch.yaml", &text).expect_err("it is full of mistakes");
    let found = format!("{error}\n");
    let path = golden("config_mistakes.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &found).expect("written");
    }
    assert_eq!(found, fs::read_to_string(&path).expect("readable"));
    assert!(error.problems().len() >= 40, "{}", error.problems().len());
    assert!(!found.contains("hunter"), "a password is in the report");
}

#[test]
fn config_without_sources_is_reported() {
    let wanted = "f.yaml:1: sources: missing, expected a list of maps with at least one";
    assert!(report("log: {level: info}\ndetector: {model: m}\n").starts_with(wanted));
    assert!(report("log:\n").contains(wanted));
    assert!(report("sources: []\n").contains("found an empty list"));
    assert!(report("just text\n").starts_with("f.yaml:1: found \"just text\", expected a map"));
}

#[test]
fn topics_of_the_device_are_no_names_of_sources() {
    for name in [
        "status",
        "stats",
        "command",
        "detector",
        "Throttling",
        "reload",
        "gap",
    ] {
        let text = MINIMAL.replace("name: a", &format!("name: {name}"));
        assert!(report(&text).contains("is a topic of the device"), "{name}");
    }
}

/// Defaults that are declared with their key are in the reference page, which is compared with the declarations.
#[test]
fn defaults_that_depend_on_other_values_are_those_of_the_documents() {
    let config = loaded(MINIMAL);
    assert!(!config.device.is_empty());
    assert_eq!(config.sources[0].uri, SourceUri::File("/v.mp4".into()));
    assert_eq!(config.detector.precision, None);
    assert_eq!(config.detector.tensorrt, TensorRtConfig::default());
    assert_eq!(config.detector.scripted, ScriptedConfig::default());
    let mqtt = config.publish.mqtt.expect("MQTT is on by default");
    assert_eq!(mqtt.client_id, format!("jetwatch-{}", config.device));
    let found = (config.publish.json_lines, config.secondary);
    assert_eq!(found, (None, Vec::new()));
    let model = loaded("sources: [{name: a, uri: 'rtsp://c'}]\ndetector: {model: m}\n")
        .detector
        .model;
    // Paths count from the file.
    assert_eq!(model.as_deref(), Some(Path::new("conf/m")));
}

#[test]
fn sinks_can_be_chosen() {
    let guarded = loaded(&format!(
        "{MINIMAL}publish: {{mqtt: {{listen: '0.0.0.0:1884', user: u, password_env: P}}}}\n"
    ));
    let mqtt = guarded.publish.mqtt.expect("on");
    let listen = "0.0.0.0:1884".parse().expect("an address");
    assert_eq!(mqtt.broker, Broker::Embedded { listen });
    let credentials = mqtt.credentials.expect("given");
    assert_eq!(credentials.user, "u");
    assert!(credentials.password == Secret::env("P", "conf/f.yaml"));

    let with = |publish: &str| loaded(&format!("{MINIMAL}publish: {publish}\n")).publish;
    let silent = with("{mqtt: off}");
    assert!(silent.mqtt.is_none() && silent.json_lines.is_none());
    // A section whose keys are all commented out has its defaults.
    assert!(with("{mqtt:}").mqtt.is_some());
    let stdout = with("{json_lines: {path: '-'}}").json_lines.expect("on");
    assert_eq!(stdout.path, None);
    let file = with("{json_lines: {path: t.jsonl}}")
        .json_lines
        .expect("on");
    assert_eq!(file.path.as_deref(), Some(Path::new("conf/t.jsonl")));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loader_does_not_panic_or_leak_password_on_any_uri(
        scheme in prop::sample::select(vec!["rtsp://", "RTSPS://", "mqtt://", "synthetic://", "file://", "v4l2://", ""]),
        before in "[a-z0-9%/?#\\[\\]]{0,6}",
        after in "\\PC{0,12}",
    ) {
        let address = format!("{scheme}{before}user:hunter2@{after}");
        if let Err(error) = Config::for_source(&address, Some("m"))
            && !scheme.is_empty()
        {
            prop_assert!(!error.to_string().contains("hunter2"), "{}", error);
        }
    }
}

#[test]
fn defaults_of_the_tracker_depend_on_its_type() {
    let tracker = |keys: &str| {
        loaded(&format!(
            "sources: [{{name: a, uri: 'synthetic://traffic'}}]\ndetector: {{backend: scripted}}\ntracker: {{{keys}}}\n"
        ))
        .tracker
    };
    for (word, kind) in [
        ("iou", TrackerKind::Iou),
        ("sort", TrackerKind::Sort),
        ("bytetrack", TrackerKind::ByteTrack),
        ("ocsort", TrackerKind::OcSort),
    ] {
        assert_eq!(tracker(&format!("type: {word}")), TrackerConfig::new(kind));
    }
    let given = tracker(
        "type: bytetrack, association: greedy, min_iou: 0.4, max_lost_frames: 7, min_new_track_score: 0.3, min_score: 0.2, \
         tentative_score: 0.4, tentative_min_iou: 0.6",
    );
    let wanted = TrackerConfig {
        association: Association::Greedy,
        min_iou: 0.4,
        max_lost_frames: 7,
        min_new_track_score: 0.3,
        new_track_share: 0.0,
        bytetrack: ByteTrackConfig {
            min_score: 0.2,
            tentative_score: 0.4,
            tentative_min_iou: 0.6,
        },
        ..TrackerConfig::new(TrackerKind::ByteTrack)
    };
    assert_eq!(given, wanted);
}

#[test]
fn name_of_a_group_stands_for_its_labels_in_every_list() {
    let text = |kept: &str, named: &str| {
        format!(
            "sources:\n  - name: a\n    uri: /v.mp4\n    classes: [{named}]\n    zones: [{{name: z, coordinates: '0,0,1,0,1,1', objects: [{named}]}}]\ndetector:\n  model: /m\n  classes: [{kept}]\n  groups: {{vehicle: [car, bus]}}\nsecondary: [{{name: s, model: /s, runs_on: {{classes: [{named}]}}}}]\n"
        )
    };
    for (kept, named) in [
        ("vehicle", "car"),
        ("vehicle, person", "vehicle"),
        ("bus", "vehicle"),
        ("person, car", "vehicle, person"),
    ] {
        let config = loaded(&text(kept, named));
        assert_eq!(config.detector.groups[0].name, "vehicle");
        assert_eq!(config.detector.groups[0].labels, ["car", "bus"]);
    }
    assert!(loaded(MINIMAL).detector.groups.is_empty());
}

#[test]
fn secondary_networks_refer_to_each_other_by_their_place() {
    let networks = "[{name: a, model: /m, runs_on: {secondary: b}}, {name: b, model: /m, runs_on: {classes: [car]}, threshold: 0.4}]";
    let config = loaded(&format!("{MINIMAL}secondary: {networks}\n"));
    let [a, b] = config.secondary.as_slice() else {
        panic!("{:?}", config.secondary);
    };
    assert_eq!((a.on, a.classes.len(), b.on), (Some(1), 0, None));
    let found = (b.classes.as_slice(), b.threshold);
    assert_eq!(found, (&["car".to_owned()][..], Some(0.4)));
}
