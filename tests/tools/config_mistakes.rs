//! Errors of the loader for wrong files: one report with every mistake, no secret in it, and never a panic.
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

#[test]
fn contradictory_keys_are_rejected() {
    let source = |keys: &str| format!("sources: [{{name: a, {keys}}}]\ndetector: {{model: m}}\n");
    let mqtt = |keys: &str| format!("{MINIMAL}publish: {{mqtt: {{{keys}}}}}\n");
    let cases = [
        (
            source("uri: 'csi://0', loop: true"),
            "a CSI camera has no end to start over at",
        ),
        (
            source("uri: 'synthetic://traffic', loop: true"),
            "the scene has no end; add frames=",
        ),
        (
            source("uri: 'synthetic://traffic', fps: 5"),
            "write it into the uri: synthetic://traffic?width=…",
        ),
        (
            source("uri: 'rtsp://c', user: u"),
            "sources[0].user: given without a password; add password_file",
        ),
        (
            source("uri: 'rtsp://c', password: p"),
            "sources[0].password: given without user",
        ),
        (
            source("uri: 'rtsp://c', user: u, password: p, password_env: P"),
            "sources[0].password_env: given beside password; keep one",
        ),
        (
            source("uri: 'rtsp://u:p@c', password_env: P, user: u"),
            "credentials are both in the uri and in keys",
        ),
        (
            source("uri: 'launch:a ! b', latency_ms: 5"),
            "only for RTSP cameras, and this source is a launch fragment",
        ),
        (
            source("uri: /dev/video0"),
            "a camera is written v4l2:///dev/video0",
        ),
        (
            "sources: [{name: a, uri: /v.mp4}]\ndetector: {backend: scripted}\n".to_owned(),
            "detector.backend: scripted needs the ground truth of a synthetic source, and the source `a` has none",
        ),
        (
            "sources: [{name: a, uri: 'synthetic://traffic'}]\n".to_owned(),
            "f.yaml:1: detector.model: missing",
        ),
        (
            mqtt("broker: 'mqtt://b', listen: '0.0.0.0:1883'"),
            "publish.mqtt.listen: only for the embedded broker",
        ),
        (
            mqtt("broker: 'mqtt://b', tls: {ca_file: ca}"),
            "publish.mqtt.tls: needs a broker with mqtts://",
        ),
        (
            mqtt("tls: {ca_file: ca}"),
            "publish.mqtt.tls: not for the embedded broker",
        ),
        (
            mqtt("listen: '0.0.0.0:1883'"),
            "publish.mqtt.listen: 0.0.0.0:1883 is open to the network, and the broker has no password",
        ),
        (
            mqtt("listen: '0.0.0.0:1883', user: u, password: ''"),
            "publish.mqtt.password: empty, and 0.0.0.0:1883 is open to the network",
        ),
        (
            mqtt("broker: 'mqtts://b', tls: {key_file: k}"),
            "publish.mqtt.tls.key_file: given without cert_file",
        ),
        (
            mqtt("broker: 'mqtts://b', user: u"),
            "publish.mqtt.user: given without a password",
        ),
        (
            mqtt("client_id: 'a b'"),
            "found \"a b\", expected an MQTT client id",
        ),
        (
            format!("{MINIMAL}publish: {{mqtt: false}}\n"),
            "found false, expected off or a map; write mqtt: off",
        ),
    ];
    for (text, wanted) in cases {
        let found = report(&text);
        assert!(
            found.contains(wanted),
            "{text} gave\n{found}\ninstead of\n{wanted}"
        );
        assert!(
            found.ends_with("1 problem in f.yaml"),
            "{text} gave\n{found}"
        );
    }
}

#[test]
fn contradictory_timeouts_are_reported_at_their_keys() {
    let source = |keys: &str| {
        format!("sources:\n - name: a\n   uri: /v.mp4\n   {keys}\ndetector: {{model: m}}\n")
    };
    let found = report(&source("reconnect_wait_ms: 60000"));
    assert!(
        found.starts_with(
            "f.yaml:4: sources[0].reconnect_wait_ms: the longest wait, 30000 ms, is shorter"
        ),
        "{found}"
    );
    let found = report(&source("reconnect_max_wait_ms: soon"));
    assert!(
        found.ends_with("1 problem in f.yaml"),
        "no comparison with a value that is wrong: {found}"
    );
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
fn invalid_scene_rules_are_rejected_with_position() {
    let with = |rules: &str| {
        let rules = rules.replace('\n', "\n    ");
        let text = MINIMAL.replace("detector:", &format!("    {rules}\ndetector:"));
        let report = report(&text);
        report.lines().next().unwrap_or_default().to_owned()
    };
    let cases = [
        (
            "zones:\n- {name: a, coordinates: \"0,0,1,1,1,0,0,1\"}",
            "f.yaml:5: sources[0].zones[0].coordinates: the sides from point 1 and from point 3 meet, expected a border that goes around once",
        ),
        (
            "zones:\n- {name: a, coordinates: \"0,0,1,0,1,1.5\"}",
            "f.yaml:5: sources[0].zones[0].coordinates: point 3 lies at 1,1.5, outside of the image; expected both from 0 to 1",
        ),
        (
            "zones:\n- {name: a, coordinates: \"0,0,1,0,1,1,0,1\"}\n- {name: b, coordinates: \"0.5,0.5,0.6,0.5,0.6,0.6\"}",
            "f.yaml:6: sources[0].zones[1].coordinates: it overlaps the zone `a`, so that an object there is counted in both; move one of them, or write allow_overlap: true where that is meant",
        ),
        (
            "zones:\n- {name: a, coordinates: \"0,0,1,0,1,1\", overlap: allowed}",
            "f.yaml:5: sources[0].zones[0].overlap: unknown key; known here: name, coordinates, inertia_frames, loitering_time_s, object_threshold, objects, schedule, allow_overlap",
        ),
        (
            "lines:\n- {name: a, coordinates: \"0.5,0.5,0.5,0.5\"}",
            "f.yaml:5: sources[0].lines[0].coordinates: both ends are the same point, expected two",
        ),
        (
            "lines:\n- {name: a b, coordinates: \"0,0,1,1\"}",
            "f.yaml:5: sources[0].lines[0].name: found \"a b\", expected letters, digits, `-` and `_`, at most 64",
        ),
        (
            "zones:\n- {name: gate, coordinates: \"0,0,1,0,1,1\"}\nlines:\n- {name: Gate, coordinates: \"0,0,1,1\"}",
            "f.yaml:7: sources[0].lines[0].name: `gate` is the name of an earlier zone, line or direction of this source (case is ignored); choose another name",
        ),
        (
            "directions:\n- {name: a, coordinates: \"0,0,1,1\", tolerance_degrees: 181}",
            "f.yaml:5: sources[0].directions[0].tolerance_degrees: found 181, expected a number from 0 to 180",
        ),
        (
            "stationary: {objects: [car, car]}",
            "f.yaml:4: sources[0].stationary.objects[1]: \"car\" is given twice",
        ),
    ];
    for (rules, wanted) in cases {
        assert_eq!(with(rules), wanted);
    }
    let overlapping = "    zones:\n    - {name: a, coordinates: \"0,0,1,0,1,1,0,1\"}\n    - {name: b, coordinates: \"0,0,1,0,1,1\", allow_overlap: true}\n";
    let config = loaded(&MINIMAL.replace("detector:", &format!("{overlapping}detector:")));
    assert_eq!(config.sources[0].rules.zones.len(), 2);
    assert_eq!(config.sources[0].rules.zones[0].inertia_frames, 3);

    let text = format!("{MINIMAL}  classes: [person]\n").replace(
        "detector:",
        "    zones: [{name: a, coordinates: \"0,0,1,0,1,1\", objects: [person, car]}]\ndetector:",
    );
    let wanted = "f.yaml:4: sources[0].zones[0].objects: `car` is not among detector.classes; add it there, or leave it out here";
    assert_eq!(report(&text).lines().next(), Some(wanted));
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
    let reported = report(&text("person, car", "bus"));
    for wanted in [
        "f.yaml:4: sources[0].classes: `bus` is not in detector.classes",
        "f.yaml:5: sources[0].zones[0].objects: `bus` is not among detector.classes",
        "f.yaml:10: secondary[0].on.classes: detector.classes does not keep `bus`",
    ] {
        assert!(reported.contains(wanted), "{reported}");
    }
    let reported = report(&text("person", "vehicle"));
    assert!(
        reported.contains("sources[0].classes: `vehicle` is not in detector.classes"),
        "{reported}"
    );
    assert!(loaded(MINIMAL).detector.groups.is_empty());
}

/// A file with these secondary networks.
fn with_secondary(networks: &str) -> String {
    format!("{MINIMAL}secondary: {networks}\n")
}

#[test]
fn conflicting_secondary_networks_are_rejected() {
    let cases = [
        (
            "[{name: a, model: m, on: {secondary: b}}]",
            "f.yaml:6: secondary[0].on.secondary: there is no secondary network of this name; leave it out to run on the detector's objects",
        ),
        (
            "[{name: a, model: m, on: {secondary: a}}]",
            "secondary[0].on.secondary: it would wait for itself: a on a",
        ),
        (
            "[{name: a, model: m}, {name: A, model: m}]",
            "secondary[1].name: another secondary network has this name",
        ),
        (
            "[{name: a b, model: m}]",
            "secondary[0].name: found \"a b\", expected letters, digits",
        ),
        (
            "[{name: a}]",
            "secondary[0].model: missing, expected a path",
        ),
        (
            "[{name: a, model: m, min_object: 32}]",
            "secondary[0].min_object: found 32, expected WIDTHxHEIGHT",
        ),
        (
            "[{name: a, model: m, min_object: 4x0}]",
            "secondary[0].min_object: found \"4x0\", expected WIDTHxHEIGHT",
        ),
        (
            "[{name: a, model: m, batch_size: 257}]",
            "secondary[0].batch_size: found 257, expected a whole number of crops from 1 to 256",
        ),
        (
            "[{name: a, model: m, on: {clases: [car]}}]",
            "secondary[0].on.clases: unknown key; did you mean `classes`?",
        ),
        (
            "[{name: a, model: m}]\ntracker: {appearance: b}",
            "f.yaml:7: tracker.appearance: there is no secondary network of this name; known here: a",
        ),
        (
            "[{name: a, model: m}]\ntracker: {output_embedding: true}",
            "f.yaml:7: tracker.output_embedding: nothing computes embeddings; name a secondary network in tracker.appearance",
        ),
        (
            "[{name: a, model: m}, {name: b, model: m, on: {secondary: a}}]\ntracker: {appearance: b}",
            "secondary[1].on: tracker.appearance names this network, which runs before there are tracks; remove `on.secondary`",
        ),
        (
            "[{name: a, model: m}, {name: b, model: m, on: {secondary: a}}]\ntracker: {appearance: a}",
            "secondary[1].on: `a` gives embeddings for tracker.appearance, and no objects; run on tracked objects",
        ),
        (
            "[{name: a, model: m}]\ntracker: {camera_motion: affine}",
            "f.yaml:7: tracker.camera_motion: found \"affine\", expected one of off, similarity",
        ),
        ("[]", "secondary: found an empty list"),
    ];
    for (networks, wanted) in cases {
        let found = report(&with_secondary(networks));
        assert!(found.contains(wanted), "{networks} gave\n{found}");
        assert!(found.ends_with("1 problem in f.yaml"), "{found}");
    }
    let limited = "sources: [{name: a, uri: /v.mp4}]\ndetector: {model: m, classes: [person]}\n\
        secondary: [{name: a, model: m, on: {classes: [person, car]}}]\n";
    let wanted = "secondary[0].on.classes: detector.classes does not keep `car`; add it there";
    assert!(report(limited).contains(wanted), "{}", report(limited));
}

#[test]
fn secondary_network_cycle_is_reported_with_path() {
    let circle = "[{name: a, model: m, on: {secondary: c}}, {name: b, model: m, on: {secondary: a}}, \
        {name: c, model: m, on: {secondary: b}}, {name: d, model: m, on: {secondary: a}}]";
    let found = report(&with_secondary(circle));
    for wanted in [
        "secondary[0].on.secondary: it would wait for itself: a on c on b on a",
        "secondary[1].on.secondary: it would wait for itself: b on a on c on b",
        "secondary[2].on.secondary: it would wait for itself: c on b on a on c",
    ] {
        assert!(found.contains(wanted), "{found}");
    }
    assert!(found.ends_with("3 problems in f.yaml"), "{found}");
}

#[test]
fn defaults_of_secondary_networks_are_the_documented_ones() {
    let config = loaded(&with_secondary(
        "[{name: a, model: /m, on: {secondary: b}}, {name: b, model: /m, on: {classes: [car]}, threshold: 0.4}]",
    ));
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

#[test]
fn template_is_validated_against_detector_like_source() {
    let with = |detector: &str, source: &str| {
        format!(
            "sources: [{{name: a, uri: synthetic://traffic}}]\ndetector:\n{detector}source_templates:\n  - name: t\n    source:\n{source}"
        )
    };
    let scene = "      uri: synthetic://traffic\n";
    let detector = "  backend: scripted\n  score_threshold: 0.3\n  classes: [person, car]\n";
    let zone = "      zones: [{name: z, coordinates: '0,0,1,0,1,1,0,1', objects: [persn]}]\n";
    let own = format!("{scene}      score_threshold: 0.1\n      classes: [dragon]\n{zone}");
    let reported = report(&with(detector, &own));
    for wanted in [
        "f.yaml:10: source_templates[0].source.score_threshold: 0.1 is below detector.score_threshold",
        "f.yaml:11: source_templates[0].source.classes: `dragon` is not in detector.classes",
        "f.yaml:12: source_templates[0].source.zones[0].objects: `persn` is not among detector.classes",
    ] {
        assert!(reported.contains(wanted), "{reported}");
    }
    let reported = report(&with(
        "  backend: scripted\n",
        "      uri: rtsp://camera/1\n",
    ));
    let wanted = "detector.backend: scripted needs the ground truth of a synthetic source, and the template `t` has none";
    assert!(reported.contains(wanted), "{reported}");
    loaded(&with(detector, scene));
}
