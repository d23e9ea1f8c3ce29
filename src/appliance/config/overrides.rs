// SPDX-License-Identifier: Apache-2.0
//! Keys that are set from outside of the file, as by a command line or by a benchmark that tries several values.
//!
//! They change the tree before it is read, so that they are checked as if they stood in the file.

use super::Document;
use super::redact::quoted;
use super::schema::{KeySpec, nearest};
use super::yaml::tree::{MapEntry, Spanned, YamlValue};
use super::{Config, Section};

impl Document {
    /// Sets the key at `path` to `value`, which is written as it would stand in the file.
    ///
    /// `path` is a key's whole path (`detector.batch_size`, `sources[0].uri`) or its last part where only one key of the
    /// file ends so (`batch_size`). `sources.KEY` sets the key of every source. Problems are reported by
    /// [`finish`](Self::finish).
    pub(super) fn set(&mut self, path: &str, value: &str) {
        let full = match resolve_key(path) {
            Ok(full) => full,
            Err(hint) => {
                self.record(
                    None,
                    &quoted(path),
                    "unknown key".to_owned(),
                    None,
                    Some(hint),
                );
                return;
            }
        };
        let tree = match Self::parse("the value", value) {
            Ok(document) => match document.into_value() {
                Ok(tree) => tree,
                Err(what) => return self.record(None, &full, what, None, None),
            },
            Err(_) => {
                let what = "its value is not YAML".to_owned();
                return self.record(None, &full, what, None, None);
            }
        };
        let steps: Vec<&str> = full.split('.').collect();
        let root = self.root_mut();
        if !insert_value(root, &steps, &tree) {
            let what = "the list has no such item".to_owned();
            self.record(None, &full, what, None, None);
        }
    }
}

/// Puts `value` where `steps` lead from `at`; maps on the way are made where they are missing. False: a list is too short.
fn insert_value(at: &mut Spanned, steps: &[&str], value: &YamlValue) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        at.value = value.clone();
        return true;
    };
    let (key, index) = match step.split_once('[') {
        Some((key, index)) => (key, index.trim_end_matches(']').parse::<usize>().ok()),
        None => (*step, None),
    };
    if !matches!(at.value, YamlValue::Map(_)) {
        // A word such as `off`, or nothing, makes room for the key.
        at.value = YamlValue::Map(Vec::new());
    }
    let YamlValue::Map(entries) = &mut at.value else {
        return false;
    };
    let entry = match entries.iter().position(|entry| entry.key == key) {
        Some(entry) => entry,
        None => {
            entries.push(MapEntry {
                key: key.to_owned(),
                span: None,
                value: Spanned {
                    span: None,
                    value: YamlValue::Null,
                },
            });
            entries.len() - 1
        }
    };
    let found = &mut entries[entry].value;
    match (&mut found.value, index) {
        (YamlValue::List(items), Some(index)) => match items.get_mut(index) {
            Some(item) => insert_value(item, rest, value),
            None => false,
        },
        (YamlValue::List(items), None) if !rest.is_empty() => {
            items.iter_mut().all(|item| insert_value(item, rest, value))
        }
        (_, Some(_)) => false,
        (_, None) => insert_value(found, rest, value),
    }
}

/// The whole path of a key; or what could have been meant.
fn resolve_key(path: &str) -> Result<String, String> {
    let mut known = Vec::new();
    collect("", Config::KEYS, &mut known);
    let bare = without_indices(path);
    if known.contains(&bare) {
        return Ok(path.to_owned());
    }
    let last = |full: &String| full.rsplit('.').next() == Some(bare.as_str());
    let mut ends_so: Vec<&String> = known.iter().filter(|full| last(full)).collect();
    // Short names are those of the detector and of the sources; where a source overrides the detector's, of the detector.
    let is_of = |full: &str, section: &str| full.split('.').next() == Some(section);
    for section in ["commands", "secondary", "sources"] {
        let is_other = |full: &&String| !is_of(full, section);
        let wins =
            |full: &&String| is_other(full) && (section != "sources" || is_of(full, "detector"));
        if ends_so.iter().any(wins) {
            ends_so.retain(is_other);
        }
    }
    match ends_so.as_slice() {
        [one] => return Ok((*one).clone()),
        [] => {}
        several => {
            let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
            return Err(format!("several keys end so: {}", names.join(", ")));
        }
    }
    let names = || known.iter().map(String::as_str);
    let lasts = names().map(|full| full.rsplit('.').next().unwrap_or(full));
    let near = nearest(&bare, names()).or_else(|| {
        let near = nearest(&bare, lasts)?;
        names().find(|full| full.rsplit('.').next() == Some(near))
    });
    Err(match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "see the keys in configs/jetwatch.yaml".to_owned(),
    })
}

fn collect(above: &str, keys: &[KeySpec], known: &mut Vec<String>) {
    for key in keys {
        let path = match above {
            "" => key.name.to_owned(),
            above => format!("{above}.{}", key.name),
        };
        // Its keys are those of `sources`, which are meant when one is named by its end.
        if key.name == "source_templates" {
            continue;
        }
        if let Some(inner) = key.inner() {
            collect(&path, inner, known);
        }
        known.push(path);
    }
}

/// `sources[0].uri` as `sources.uri`.
fn without_indices(path: &str) -> String {
    let step = |step: &str| step.split('[').next().unwrap_or(step).to_owned();
    path.split('.').map(step).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Config, SourceUri};

    const FILE: &str = "sources:\n  - name: a\n    uri: synthetic://traffic\n  - name: b\n    uri: synthetic://traffic\ndetector:\n  backend: scripted\npublish:\n  mqtt: off\n";

    fn with(settings: &[(&str, &str)]) -> Result<Config, String> {
        let settings: Vec<(String, String)> = settings
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Config::from_str_with("f.yaml", FILE, &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn overrides_accept_full_path_or_last_key() {
        let config = with(&[
            ("detector.batch_size", "4"),
            ("workers", "3"),
            ("publish.mqtt.broker", "embedded"),
            ("sources.stall_timeout_ms", "1000"),
            ("sources[1].uri", "\"synthetic://traffic?seed=9\""),
            ("detector.classes", "[car]"),
        ])
        .expect("all are keys");
        let found = (config.detector.batch_size, config.detector.workers);
        assert_eq!(found, (4, 3));
        assert!(config.publish.mqtt.is_some(), "the word made room");
        assert!(
            config
                .sources
                .iter()
                .all(|s| s.stall_timeout.as_millis() == 1000)
        );
        // Both are live: a file has longer for its first frame, and so has a stream, for FLV without sound.
        let mut file = config.sources[0].clone();
        let waits = config.sources.iter().map(|s| s.first_frame_timeout());
        assert!(waits.eq([Duration::from_secs(1); 2]));
        file.uri = SourceUri::Stream("rtmp://192.0.2.7/live".into());
        assert_eq!(file.first_frame_timeout(), Duration::from_secs(10));
        file.uri = SourceUri::File("video.mp4".into());
        assert_eq!(file.first_frame_timeout(), Duration::from_secs(20));
        file.stall_timeout = Duration::from_secs(30);
        assert_eq!(file.first_frame_timeout(), Duration::from_secs(30));
        let seed = |source: usize| match &config.sources[source].uri {
            SourceUri::Synthetic(scene) => scene.seed,
            other => panic!("{other:?}"),
        };
        assert_eq!((seed(0), seed(1)), (1, 9));
        assert_eq!(config.detector.classes, ["car"]);
    }

    #[test]
    fn invalid_overrides_are_reported() {
        #[rustfmt::skip]
        let cases: [(&str, &str, &str); 6] = [
            ("detector.batchsize", "4", "did you mean `detector.batch_size`?"),
            ("worker", "4", "did you mean `detector.workers`?"),
            ("xyz", "4", "unknown key"),
            ("user", "x", "several keys end so"),
            ("detector.workers", "many", "detector.workers"),
            ("sources[7].uri", "x", "no such item"),
        ];
        for (key, value, wanted) in cases {
            let error = with(&[(key, value)]).expect_err(key);
            assert!(error.contains(wanted), "{key}: {error}");
        }
    }
}
