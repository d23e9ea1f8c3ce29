// SPDX-License-Identifier: Apache-2.0
//! The example files, the JSON Schemas, the reference pages and the loader agree: each file loads, also with every commented
//! key in force; every key is shown; the schemas in `configs/` and the pages in `docs/` are made from the declarations.
//!
//! `UPDATE_GOLDEN=1 cargo test --test tools config_files` writes the schemas in `configs/` and the pages in `docs/src/reference`.

use crate::support::generated::check_generated;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_config::{
    Backend, Broker, Config, DefaultValue, Document, KeySpec, Node, Pacing, Secret, Section,
    SourceUri, Value, configuration_page, json_schema, schema_of,
};
use jetwatch_detect::graph;
use jetwatch_detect::model::ModelSpec;
use jetwatch_files::Sha256Digest;
use jetwatch_models::model_zoo::{Entry, entries};
use jetwatch_models::{ModelYamlTemplate, Origin};

use crate::support::schema::Schema;

/// The example files with their texts.
fn examples() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("configs/ is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .map(|path| (path.clone(), fs::read_to_string(&path).expect("readable")))
        .collect();
    files.sort();
    assert!(files.len() >= 2, "{files:?}");
    files
}

fn example(name: &str) -> Config {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("configs")
        .join(name);
    Config::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// `text` with every commented key active: `#key: value` and, below it, `#  key: value` or `#  - key: value`. Prose has
/// one space behind `#`.
fn with_commented_keys(text: &str) -> String {
    let uncommented = |line: &str| {
        let (indent, rest) = line.split_once('#')?;
        if rest.starts_with(' ') && !rest.starts_with("  ") {
            return None;
        }
        let word = rest.trim_start().split_once(':')?.0;
        let word = word.strip_prefix("- ").unwrap_or(word);
        let is_key = !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        (indent.trim().is_empty() && is_key).then(|| format!("{indent}{rest}"))
    };
    text.lines()
        .map(|line| uncommented(line).unwrap_or_else(|| line.to_owned()) + "\n")
        .collect()
}

/// Every key path of the loader, without list indices: `sources.name`.
fn known_paths(keys: &[KeySpec], prefix: &str, paths: &mut BTreeSet<String>) {
    for key in keys {
        let path = format!("{prefix}{}", key.name);
        // A template's source has the keys of `sources`, which are shown there.
        if path == "source_templates.source" {
            paths.insert(path);
            continue;
        }
        if let Some(inner) = key.inner() {
            known_paths(inner, &format!("{path}."), paths);
        }
        assert!(paths.insert(path), "a table lists `{}` twice", key.name);
    }
}

/// Every key path in a value, in the same form.
fn given_paths(node: &Node<'_>, prefix: &str, paths: &mut BTreeSet<String>) {
    match node.value() {
        Value::Map(entries) => {
            for (key, value) in entries {
                paths.insert(format!("{prefix}{key}"));
                if format!("{prefix}{key}") == "source_templates.source" {
                    continue;
                }
                given_paths(&value, &format!("{prefix}{key}."), paths);
            }
        }
        Value::List(items) => items
            .iter()
            .for_each(|item| given_paths(item, prefix, paths)),
        _ => {}
    }
}

fn as_json(node: &Node<'_>) -> serde_json::Value {
    match node.value() {
        Value::Null => serde_json::Value::Null,
        Value::Boolean(value) => value.into(),
        Value::Integer(value) => value.into(),
        Value::Number(value) => value.into(),
        Value::Text(text) => text.into(),
        Value::List(items) => items.iter().map(as_json).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, value)| (*key, as_json(value)))
            .collect(),
    }
}

fn json_of(label: &str, text: &str) -> serde_json::Value {
    let document = Document::parse(label, text).unwrap_or_else(|error| panic!("{error}"));
    as_json(&document.root())
}

#[test]
fn every_example_loads_also_with_its_commented_keys() {
    for (path, text) in examples() {
        let label = path.display().to_string();
        Config::load(&path).unwrap_or_else(|error| panic!("{error}"));
        let full = with_commented_keys(&text);
        assert_ne!(full, text, "{label} shows no commented key");
        Config::from_str(&label, &full)
            .unwrap_or_else(|error| panic!("with commented keys: {error}"));
    }
}

#[test]
fn every_config_key_is_in_an_example() {
    let (mut known, mut shown) = (BTreeSet::new(), BTreeSet::new());
    known_paths(Config::KEYS, "", &mut known);
    for (path, text) in examples() {
        let document = Document::parse(&path.display().to_string(), &with_commented_keys(&text))
            .expect("YAML");
        given_paths(&document.root(), "", &mut shown);
    }
    // The file chooses the names of groups and of schedules, and a window stands wherever a name may.
    let is_chosen =
        |path: &str| path.starts_with("detector.groups.") || path.starts_with("schedules.");
    shown.retain(|path: &String| !is_chosen(path) && !path.contains(".schedule."));
    // Only one of three ways to give a password is allowed, and one of two to name brokers: the others are shown in comments next to it.
    // There are two sections with brokers: for events and for states.
    let prose: String = examples().into_iter().map(|(_, text)| text).collect();
    let unshown: Vec<_> = known.difference(&shown).collect();
    for path in &unshown {
        let name = path.rsplit('.').next().expect("a name");
        assert!(
            (name.starts_with("password") || name == "brokers")
                && prose.contains(&format!("`{name}: ")),
            "{path} is not shown"
        );
    }
    assert!(shown.is_subset(&known) && unshown.len() <= 6, "{unshown:?}");
}

#[test]
fn the_box_of_a_fleet_has_a_broker_for_events_and_one_for_states() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fleet/jetwatch.yaml");
    let config = Config::load(&path).unwrap_or_else(|error| panic!("{error}"));
    let mqtt = config.publish.mqtt.expect("MQTT is on");
    let states = mqtt.for_states().expect("a broker for states");
    let brokers = [mqtt.for_each_broker().len(), states.for_each_broker().len()];
    assert_eq!(brokers, [3, 1]);
}

#[test]
fn commented_keys_have_default_values() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let text = fs::read_to_string(format!("{folder}/configs/jetwatch.yaml")).expect("readable");
    let full = Document::parse("jetwatch.yaml", &with_commented_keys(&text)).expect("YAML");
    let mut checked = 0;
    check_defaults(Config::KEYS, &full.root(), &mut checked);
    assert!(checked >= 25, "only {checked} defaults were found");
}

/// Compares the values in the file with the declared defaults, for keys that the file shows with their default.
fn check_defaults(keys: &[KeySpec], node: &Node<'_>, checked: &mut usize) {
    // Set to other values for the first run, on purpose.
    let changed = ["backend", "min_visible"];
    let nodes = match node.value() {
        Value::List(items) => items,
        _ => vec![node.clone()],
    };
    for node in nodes {
        let Value::Map(entries) = node.value() else {
            continue;
        };
        for (name, value) in entries {
            let key = keys
                .iter()
                .find(|key| key.name == name)
                .expect("a known key");
            if let Some(inner) = key.inner() {
                check_defaults(inner, &value, checked);
                continue;
            }
            let wanted = match key.default {
                DefaultValue::Required | DefaultValue::Absent => continue,
                _ if changed.contains(&name) => continue,
                DefaultValue::Boolean(value) => serde_json::Value::from(value),
                DefaultValue::Integer(value) => value.into(),
                DefaultValue::Number(value) => value.into(),
                DefaultValue::Text(value) => value.into(),
            };
            assert_eq!(as_json(&value), wanted, "{}", value.path());
            *checked += 1;
        }
    }
}

#[test]
fn committed_schema_equals_generated_schema() {
    let schema = serde_json::to_string_pretty(&json_schema()).expect("JSON") + "\n";
    check_generated("configs/jetwatch.schema.json", &schema);
}

#[test]
fn committed_model_schema_equals_generated_schema() {
    let schema = schema_of("jetwatch model", ModelSpec::KEYS);
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    check_generated("configs/model.schema.json", &text);
    check_generated("docs/src/reference/model.md", &ModelSpec::reference_page());
}

#[test]
fn every_model_yaml_follows_the_schema() {
    let schema = schema_of("jetwatch model", ModelSpec::KEYS);
    let mut schema = Schema::new(schema);
    let entries = entries().expect("the manifests are right");
    assert!(entries.len() >= 6, "{} manifests", entries.len());
    let mut texts: Vec<_> = entries
        .iter()
        .map(|entry| {
            (
                entry.name.clone(),
                entry.model_yaml(Sha256Digest::of(b"file")),
            )
        })
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/street-nano");
    let own = fs::read_to_string(folder.join("model.yaml")).expect("readable");
    texts.push(("street-nano".to_owned(), own));
    // As `jetwatch model init` writes it.
    let file = "street-nano_fp32.onnx";
    let network = graph::read(&folder.join(file)).expect("a network");
    let template = ModelYamlTemplate::new(&network, None, None, None).expect("a layout fits");
    let origin = Origin {
        name: "street",
        file,
        sha256: Sha256Digest::of(b"file"),
        weights: &[],
        labels_file: None,
    };
    texts.push(("template".to_owned(), template.text(origin)));
    for (name, text) in texts {
        schema.accepts(&json_of(&name, &text));
        let wrong = text.replace("license:", "licence:");
        schema.refuses(&json_of(&name, &wrong));
    }
    schema.check();
}

#[test]
fn catalogue_manifests_follow_their_schema() {
    let schema = schema_of("jetwatch catalogue manifest", Entry::KEYS);
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    check_generated("models/catalogue/manifest.schema.json", &text);
    let mut schema = Schema::new(schema);
    for entry in entries().expect("the manifests are right") {
        let name = format!("models/catalogue/{}.yaml", entry.name);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&name);
        let text = fs::read_to_string(path).expect("readable");
        assert!(
            text.starts_with("# yaml-language-server: $schema=manifest.schema.json\n"),
            "{name}"
        );
        schema.accepts(&json_of(&name, &text));
    }
    schema.check();
}

#[test]
fn committed_reference_equals_generated_reference() {
    check_generated("docs/src/reference/configuration.md", &configuration_page());
}

#[test]
fn the_examples_follow_the_schema_and_name_it() {
    let mut schema = Schema::new(json_schema());
    for (path, text) in examples() {
        let label = path.display().to_string();
        assert!(
            text.starts_with("# yaml-language-server: $schema=jetwatch.schema.json\n"),
            "{label}"
        );
        for text in [&text, &with_commented_keys(&text)] {
            schema.accepts(&json_of(&label, text));
        }
    }
    schema.check();
}

#[test]
fn schema_rejects_what_loader_rejects() {
    let mut schema = Schema::new(json_schema());
    let source = "sources: [{name: a, uri: synthetic://traffic}]\ndetector: {backend: scripted}\n";
    schema.accepts(&json_of("good", source));
    Config::from_str("good", source).unwrap_or_else(|error| panic!("{error}"));
    for wrong in [
        "zones: []",
        "device: ''",
        "publish: {mqtt: on}",
        "publish: {mqtt: {tls: {ca: x}}}",
        "publish: {json_lines: {}}",
        "publish: {json_lines:}",
        "publish: {stats_interval_s: 0}",
        "tracker: {min_iou: 0}",
        "tracker: {min_iou: 1.01}",
        "tracker: {association: best}",
        "tracker: {type: nvdcf}",
        "tracker: {tentative_min_iou: 0}",
        "tracker: {min_score: 1.5}",
        "secondary: []",
        "secondary: [{name: a}]",
        "secondary: [{name: a, model: m, vote_frames: 0}]",
        "log: info",
    ] {
        let text = format!("{source}{wrong}\n");
        assert!(
            Config::from_str("wrong", &text).is_err(),
            "the loader accepts {wrong}"
        );
        schema.refuses(&json_of("wrong", &text));
    }
    schema.check();
}

#[test]
fn quickstart_config_needs_no_model_camera_or_broker() {
    let config = example("jetwatch.yaml");
    assert_eq!(config.detector.backend, Backend::Scripted);
    assert_eq!(config.detector.model, None);
    assert!(
        matches!(&config.sources[0].uri, SourceUri::Synthetic(scene) if scene.pacing == Pacing::Realtime)
    );
    let listen = "127.0.0.1:1883".parse().expect("an address");
    let found = config.publish.mqtt.expect("MQTT is on").broker;
    assert_eq!(found, Broker::Embedded { listen });
}

#[test]
fn cameras_example_loads_as_documented() {
    let config = example("cameras.yaml");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
    let kinds: Vec<_> = config
        .sources
        .iter()
        .map(|source| source.uri.kind())
        .collect();
    let wanted = [
        "rtsp", "rtsp", "rtsp", "http", "http", "stream", "v4l2", "csi", "file", "launch",
    ];
    assert_eq!(kinds, wanted);
    let password = |index: usize| match &config.sources[index].uri {
        SourceUri::Rtsp { password, .. } => password.clone().expect("a password"),
        other => panic!("{other}"),
    };
    assert!(password(0) == Secret::File(folder.join("secrets/gate")));
    assert!(
        matches!(password(1), Secret::Env { name, file } if name == "YARD_PASSWORD" && file == folder.join("secrets-cameras.env"))
    );
    assert!(password(2) == Secret::Inline("change me".to_owned()));
    assert!(
        matches!(
            &config.sources[6].uri,
            SourceUri::V4l2 {
                size: Some((1280, 720)),
                fps: Some(fps),
                ..
            } if (*fps - 30.0).abs() < f32::EPSILON
        ),
        "{:?}",
        config.sources[6]
    );
    assert!(config.sources[8].loop_at_end && !config.sources[0].loop_at_end);
    assert_eq!(config.sources[4].ca_file, Some(folder.join("tls/yard.pem")));
    let mqtt = config.publish.mqtt.as_ref().expect("MQTT is on");
    let wanted = Broker::Url {
        host: "broker.example".to_owned(),
        port: 8883,
        tls: true,
    };
    assert_eq!(mqtt.broker, wanted);
    assert_eq!(mqtt.client_id, "jetwatch-gate-north");
    assert_eq!(mqtt.tls.ca_file, Some(folder.join("tls/ca.pem")));
    let debug = format!("{config:#?}");
    assert!(!debug.contains("change me"), "{debug}");
}
