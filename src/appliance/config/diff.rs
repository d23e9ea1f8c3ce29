// SPDX-License-Identifier: Apache-2.0
//! What differs between the configuration that runs and one that was read later. Sources may change while the daemon runs,
//! and so may the log's level; all else was decided when it started.

use super::{Config, SourceConfig};

/// What a later configuration does to the sources, by their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceDiff {
    /// New ones, in the order of the file.
    pub added: Vec<SourceConfig>,
    /// Those with another value of any key, in the order of the file.
    pub changed: Vec<SourceConfig>,
    /// Those with other schedules and nothing else, in the order of the file: they go on.
    pub rescheduled: Vec<SourceConfig>,
    /// Names of those that are gone.
    pub removed: Vec<String>,
    /// How many are as they were.
    pub unchanged: usize,
}

impl SourceDiff {
    /// What leads from `before` to `after`.
    pub fn between<'s>(
        before: impl Iterator<Item = &'s SourceConfig> + Clone,
        after: &[SourceConfig],
    ) -> Self {
        let mut changes = Self::default();
        for source in after {
            match before.clone().find(|known| known.name == source.name) {
                Some(known) if known == source => changes.unchanged += 1,
                Some(known) if known.differs_in_schedules(source) => {
                    changes.rescheduled.push(source.clone());
                }
                Some(_) => changes.changed.push(source.clone()),
                None => changes.added.push(source.clone()),
            }
        }
        let is_gone = |known: &&SourceConfig| !after.iter().any(|source| source.name == known.name);
        changes.removed = before
            .filter(is_gone)
            .map(|known| known.name.clone())
            .collect();
        changes
    }

    /// Counts `source` among the changed ones, where it is unchanged: it is to be restarted all the same.
    pub fn restart(&mut self, source: &SourceConfig) {
        let is_named = |known: &SourceConfig| known.name == source.name;
        if !self.added.iter().chain(&self.changed).any(is_named) {
            self.changed.push(source.clone());
            let before = self.rescheduled.len();
            self.rescheduled.retain(|known| !is_named(known));
            if self.rescheduled.len() == before {
                self.unchanged -= 1;
            }
        }
    }
}

/// Keys whose values differ between `now` and `then` and that cannot change while the daemon runs. `tune` is none of them: another
/// program reads it.
#[must_use]
pub fn restart_required_keys(now: &Config, then: &Config) -> Vec<&'static str> {
    let mut keys = Vec::new();
    macro_rules! compare {
        ($($key:literal: $($field:ident).+,)*) => {
            $(if now.$($field).+ != then.$($field).+ {
                keys.push($key);
            })*
        };
    }
    compare! {
        "device": device,
        "detector.backend": detector.backend,
        "detector.model": detector.model,
        "detector.precision": detector.precision,
        "detector.score_threshold": detector.score_threshold,
        "detector.nms_iou": detector.nms_iou,
        "detector.classes": detector.classes,
        "detector.groups": detector.groups,
        "detector.batch_size": detector.batch_size,
        "detector.batch_timeout_ms": detector.batch_timeout,
        "detector.workers": detector.workers,
        "detector.threads_per_worker": detector.threads_per_worker,
        "detector.onnxruntime": detector.onnxruntime,
        "detector.onnx_provider": detector.onnx_provider,
        "detector.tensorrt": detector.tensorrt,
        "detector.scripted": detector.scripted,
    }
    // A key that has no line of its own above.
    let is_named = keys.iter().any(|key| key.starts_with("detector."));
    if now.detector != then.detector && !is_named {
        keys.push("detector");
    }
    compare! {
        "tracker": tracker,
        "publish.mqtt": publish.mqtt,
        "publish.json_lines": publish.json_lines,
        "publish.webhooks": publish.webhooks,
        "publish.update_interval_ms": publish.update_interval,
        "publish.count_hold_ms": publish.count_hold,
        "publish.stats_interval_s": publish.stats_interval,
        "publish.detections": publish.detections,
        "record": record,
        "homeassistant": homeassistant,
        "secondary": secondary,
        "metrics": metrics,
        "web": web,
        "commands": commands,
        "log.gst_debug": log.gst_debug,
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(sources: &str, rest: &str) -> Config {
        let text = format!("device: d\nsources:\n{sources}detector:\n  backend: scripted\n{rest}");
        Config::from_str("f.yaml", &text).expect("a good file")
    }

    fn source(name: &str, more: &str) -> String {
        format!("  - name: {name}\n    uri: synthetic://traffic\n{more}")
    }

    #[test]
    fn sources_are_identified_by_name_and_compared_by_value() {
        let before = config(&(source("a", "") + &source("b", "") + &source("c", "")), "");
        let slower = source("b", "    stall_timeout_ms: 900\n");
        // A key that is written out at its default is no change, and neither is the order.
        let same = source("c", "    stall_timeout_ms: 5000\n");
        let after = config(&(same + &slower + &source("d", "")), "");
        let changes = SourceDiff::between(before.sources.iter(), &after.sources);
        let names = |sources: &[SourceConfig]| -> Vec<String> {
            sources.iter().map(|source| source.name.clone()).collect()
        };
        assert_eq!(names(&changes.added), ["d"]);
        assert_eq!(names(&changes.changed), ["b"]);
        let found = (changes.removed, changes.unchanged);
        assert_eq!(found, (vec!["a".to_owned()], 1));
    }

    #[test]
    fn restart_required_keys_are_listed() {
        let before = config(&source("a", ""), "");
        #[rustfmt::skip]
        let cases: [(&str, &[&str]); 8] = [
            ("", &[]),
            ("  groups: {vehicle: [car]}\n", &["detector.groups"]),
            ("log:\n  level: debug\n", &[]),
            ("tune:\n  clocks: max\n", &[]),
            ("  batch_size: 4\n", &["detector.batch_size"]),
            ("metrics:\n  listen: 127.0.0.1:9273\n", &["metrics"]),
            ("  workers: 3\ntracker:\n  type: sort\npublish:\n  mqtt: off\n", &["detector.workers", "tracker", "publish.mqtt"]),
            ("publish:\n  mqtt:\n    user: u\n    password: other\n", &["publish.mqtt"]),
        ];
        for (rest, wanted) in cases {
            let later = config(&source("z", ""), rest);
            assert_eq!(restart_required_keys(&before, &later), wanted, "{rest}");
        }
    }
}
