//! Errors of the loader for wrong files: one report with every mistake, no secret in it, and never a panic. Each mistake alone is in
//! `src/appliance/config/mistakes.txt`.
//!
//! `UPDATE_GOLDEN=1 cargo test --test tools config_mistakes` writes `tests/golden/config_mistakes.txt` again; read the
//! difference before keeping it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jetwatch_config::{
    Association, Backend, Broker, ByteTrackConfig, ClassMatch, Config, RtspTransport,
    ScriptedConfig, Secret, SourceUri, TensorRtConfig, TrackerConfig, TrackerKind, V4l2Format,
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

#[test]
fn a_missing_file_names_its_path() {
    let error = Config::load(Path::new("/no/such/jetwatch.yaml"))
        .expect_err("it is not there")
        .to_string();
    assert!(
        error.starts_with("cannot read /no/such/jetwatch.yaml: "),
        "{error}"
    );
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = loaded(MINIMAL);
    assert!(!config.device.is_empty());
    let source = &config.sources[0];
    assert_eq!(source.uri, SourceUri::File("/v.mp4".into()));
    assert!(!source.loop_at_end);
    let waits = [
        source.stall_timeout,
        source.reconnect_wait,
        source.reconnect_max_wait,
    ];
    assert_eq!(waits, [5000, 500, 30_000].map(Duration::from_millis));

    let detector = &config.detector;
    assert_eq!(detector.backend, Backend::Auto);
    assert_eq!(
        (
            detector.precision.as_ref(),
            detector.score_threshold,
            detector.nms_iou
        ),
        (None, None, None)
    );
    assert_eq!(
        (
            detector.batch_size,
            detector.workers,
            detector.threads_per_worker
        ),
        (1, 2, 1)
    );
    assert_eq!(detector.batch_timeout, Duration::from_millis(10));
    assert!(detector.classes.is_empty() && detector.onnxruntime.is_none());
    assert_eq!(detector.tensorrt, TensorRtConfig::default());
    assert_eq!(detector.scripted, ScriptedConfig::default());

    assert_eq!(config.tracker, TrackerConfig::new(TrackerKind::Iou));
    let tracker = &config.tracker;
    assert_eq!(
        (tracker.association, tracker.class_match),
        (Association::Greedy, ClassMatch::Same)
    );
    assert_eq!((tracker.min_iou, tracker.min_new_track_score), (0.2, 0.6));
    assert_eq!(tracker.new_track_share, 0.05);
    assert_eq!((tracker.probation_frames, tracker.max_lost_frames), (3, 30));

    let publish = &config.publish;
    assert_eq!(publish.update_interval, Duration::from_millis(500));
    assert_eq!(publish.stats_interval, Duration::from_secs(10));
    assert!(!publish.detections && publish.json_lines.is_none());
    let mqtt = publish.mqtt.as_ref().expect("MQTT is on by default");
    assert_eq!(
        (mqtt.prefix.as_str(), mqtt.queue_messages),
        ("jetwatch", 10_000)
    );
    assert_eq!(mqtt.client_id, format!("jetwatch-{}", config.device));
    assert_eq!(mqtt.keep_alive, Duration::from_secs(15));
    assert_eq!(
        (config.log.level, config.log.gst_debug.as_str()),
        (log::LevelFilter::Info, "*:1")
    );

    let zone = "    zones: [{name: a, coordinates: '0,0,1,0,1,1'}]\ndetector:";
    let rules = loaded(&MINIMAL.replace("detector:", zone))
        .sources
        .remove(0)
        .rules;
    assert_eq!(rules.zones[0].inertia_frames, 3);

    let camera = loaded(
        "sources:\n - {name: a, uri: 'rtsp://c'}\n - {name: b, uri: 'v4l2:///dev/video0'}\ndetector: {model: m}\n",
    );
    assert!(matches!(
        &camera.sources[0].uri,
        SourceUri::Rtsp { transport: RtspTransport::Tcp, latency, user: None, password: None, .. }
            if *latency == Duration::from_millis(200)
    ));
    assert!(matches!(
        &camera.sources[1].uri,
        SourceUri::V4l2 {
            format: V4l2Format::Any,
            size: None,
            fps: None,
            ..
        }
    ));
    assert_eq!(
        camera.detector.model.as_deref(),
        Some(Path::new("conf/m")),
        "paths count from the file"
    );
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
    assert!(
        with("{mqtt:}").mqtt.is_some(),
        "a section whose keys are all commented out has its defaults"
    );
    let stdout = with("{json_lines: {path: '-'}}").json_lines.expect("on");
    assert_eq!(stdout.path, None);
    let file = with("{json_lines: {path: t.jsonl}}")
        .json_lines
        .expect("on");
    assert_eq!(file.path.as_deref(), Some(Path::new("conf/t.jsonl")));
}

/// One change to a text: at a position (as a fraction of the length), something is inserted, removed or duplicated.
#[derive(Debug, Clone)]
enum Change {
    Insert(String),
    Cut(usize),
    Double(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let syntax = prop::sample::select(vec![
        ":",
        ": ",
        "\n",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "!!int ",
        "'",
        "\"",
        "|",
        ">",
        "#",
        "\t",
        "---\n",
        "~",
        "\u{0}",
        "\u{feff}",
        "%",
        "@",
        "://",
        "0x",
        ".inf",
        "-",
        "?",
        "1e400",
        "ü",
        "\r\n",
        "99999999999999999999",
    ]);
    prop_oneof![
        4 => syntax.prop_map(|text| Change::Insert(text.to_owned())),
        1 => any::<String>().prop_map(Change::Insert),
        2 => (1_usize..40).prop_map(Change::Cut),
        2 => (1_usize..60).prop_map(Change::Double),
    ]
}

fn changed(text: &str, changes: &[(f64, Change)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (place, change) in changes {
        let start = ((chars.len() as f64) * place) as usize;
        let until = |count: &usize| (start + count).min(chars.len());
        match change {
            Change::Insert(text) => drop(chars.splice(start..start, text.chars())),
            Change::Cut(count) => drop(chars.drain(start..until(count))),
            Change::Double(count) => {
                let part = chars[start..until(count)].to_vec();
                drop(chars.splice(start..start, part));
            }
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn loader_does_not_panic_on_any_text(
        example in prop::sample::select(vec!["configs/jetwatch.yaml", "configs/cameras.yaml", "tests/golden/config_mistakes.yaml"]),
        changes in prop::collection::vec((0.0_f64..1.0, change()), 1..8),
    ) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(example);
        let text = changed(&fs::read_to_string(path).expect("readable"), &changes);
        if let Err(error) = Config::from_str("f.yaml", &text) {
            prop_assert!(!error.problems().is_empty());
            // One line per problem, whatever the file contains.
            prop_assert_eq!(error.to_string().lines().count(), error.problems().len() + 1);
        }
    }

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
        assert_eq!(
            tracker(&format!("type: {word}")),
            TrackerConfig::new(kind),
            "{word}"
        );
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
            "sources:\n  - name: a\n    uri: /v.mp4\n    classes: [{named}]\n    zones: [{{name: z, coordinates: '0,0,1,0,1,1', objects: [{named}]}}]\ndetector:\n  model: /m\n  classes: [{kept}]\n  groups: {{vehicle: [car, bus]}}\nsecondary: [{{name: s, model: /s, on: {{classes: [{named}]}}}}]\n"
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
fn defaults_of_secondary_networks_are_the_documented_ones() {
    let networks = "[{name: a, model: /m, on: {secondary: b}}, {name: b, model: /m, on: {classes: [car]}, threshold: 0.4}]";
    let config = loaded(&format!("{MINIMAL}secondary: {networks}\n"));
    let [a, b] = config.secondary.as_slice() else {
        panic!("{:?}", config.secondary);
    };
    assert_eq!((a.on, a.classes.len(), b.on), (Some(1), 0, None));
    assert_eq!(
        (b.classes.as_slice(), b.threshold),
        (&["car".to_owned()][..], Some(0.4))
    );
    assert_eq!((a.batch_size, a.workers, a.vote_frames), (1, 1, 5));
    assert_eq!((a.reinfer_interval, a.threshold), (30, None));
    assert_eq!(a.batch_timeout, Duration::from_millis(10));
    assert_eq!((a.min_object.width, a.min_object.height), (16, 16));
    assert!(loaded(MINIMAL).secondary.is_empty());
}
