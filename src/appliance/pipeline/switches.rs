// SPDX-License-Identifier: Apache-2.0
//! What commands have switched: detection and rules of sources, and their score thresholds. Kept in a file, so that it outlasts a
//! restart; values that are as configured are not in it.
//!
//! Owned by the thread that executes commands; the tracking stage receives each change as an input.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use jetwatch_config::{Config, SourceConfig};

/// Version of the file.
const VERSION: u32 = 1;

/// Greatest size of the file that is read: far more than 64 sources with all their rules have.
const MAX_BYTES: u64 = 1 << 20;

/// What is switched of one source.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceSwitches {
    /// Its frames do not go through the network.
    #[serde(default)]
    pub(crate) detection_off: bool,
    /// Names of the rules that are off.
    #[serde(default)]
    pub(crate) rules_off: BTreeSet<String>,
    /// In place of the configured one.
    #[serde(default)]
    pub(crate) score_threshold: Option<f32>,
}

/// A change of one source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SwitchChange {
    /// Detection is switched on or off.
    Detection(bool),
    /// A rule is switched on or off.
    Rule(String, bool),
    /// The score threshold is set.
    ScoreThreshold(f32),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    sources: BTreeMap<String, SourceSwitches>,
}

/// The switches of all sources.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    /// `None`: they do not outlast the daemon.
    path: Option<PathBuf>,
    sources: BTreeMap<String, SourceSwitches>,
}

impl Switches {
    /// The switches of the last run with this configuration; none where commands are not enabled. Logs what is wrong with their
    /// file, which is put aside where it is damaged.
    pub(crate) fn load(config: &Config) -> Self {
        let Some(mqtt) = config
            .publish
            .mqtt
            .as_ref()
            .filter(|_| config.commands.enabled)
        else {
            return Self::default();
        };
        let mut switches = Self::read(&config.commands.switches_file(&mqtt.client_id));
        switches.retain(config.sources.iter());
        switches
    }

    fn read(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new("/"));
        // Fails where the folder around it is missing, which is looked at next.
        let _ = std::fs::create_dir(folder);
        if !folder.is_dir() {
            log::info!(
                "switches are not kept over restarts: there is no folder {}, and it cannot be made (commands.state_folder)",
                folder.display()
            );
            return Self::default();
        }
        let sources = match read_file(path) {
            Ok(sources) => sources,
            Err(problem) => {
                let aside = path.with_extension("damaged");
                match std::fs::rename(path, &aside) {
                    Ok(()) => log::warn!(
                        "the switches in {} are not used: {problem}; the file is {} from now on, and everything is switched on",
                        path.display(),
                        aside.display()
                    ),
                    Err(error) => log::warn!(
                        "the switches in {} are not used: {problem}; the file cannot be put aside: {error}",
                        path.display()
                    ),
                }
                BTreeMap::new()
            }
        };
        Self {
            path: Some(path.to_owned()),
            sources,
        }
    }

    /// What is switched of the source `name`.
    pub(crate) fn of(&self, name: &str) -> SourceSwitches {
        self.sources.get(name).cloned().unwrap_or_default()
    }

    /// Records a change of the source `name`, and writes the file.
    pub(crate) fn set(&mut self, name: &str, change: &SwitchChange) {
        let source = self.sources.entry(name.to_owned()).or_default();
        match change {
            SwitchChange::Detection(on) => source.detection_off = !on,
            SwitchChange::Rule(rule, true) => {
                source.rules_off.remove(rule);
            }
            SwitchChange::Rule(rule, false) => {
                source.rules_off.insert(rule.clone());
            }
            SwitchChange::ScoreThreshold(threshold) => source.score_threshold = Some(*threshold),
        }
        self.store();
    }

    /// Forgets all other sources than `known`, and rules that they do not have.
    pub(crate) fn retain<'s>(&mut self, known: impl Iterator<Item = &'s SourceConfig> + Clone) {
        let before = self.sources.clone();
        self.sources.retain(|name, switches| {
            let Some(source) = known.clone().find(|source| source.name == *name) else {
                return false;
            };
            let rules = &source.rules;
            switches
                .rules_off
                .retain(|rule| rules.names().any(|name| name == rule));
            *switches != SourceSwitches::default()
        });
        if self.sources != before {
            self.store();
        }
    }

    fn store(&self) {
        let Some(path) = &self.path else {
            return;
        };
        let stored = Stored {
            version: VERSION,
            sources: self.sources.clone(),
        };
        let text = serde_json::to_vec_pretty(&stored).expect("text keys and finite numbers");
        if let Err(error) = jetwatch_files::write(path, &text) {
            log::warn!(
                "switches are not kept over restarts: {error}: {}",
                error.source
            );
        }
    }
}

fn read_file(path: &Path) -> Result<BTreeMap<String, SourceSwitches>, String> {
    let size = match std::fs::metadata(path) {
        Ok(found) => found.len(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.to_string()),
    };
    if size > MAX_BYTES {
        return Err(format!("it has {size} bytes, expected {MAX_BYTES} at most"));
    }
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let stored: Stored = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if stored.version != VERSION {
        return Err(format!(
            "it has version {}, expected {VERSION}",
            stored.version
        ));
    }
    let is_score = |score: f32| (0.0..=1.0).contains(&score);
    let mut sources = stored.sources.values();
    if !sources.all(|source| source.score_threshold.is_none_or(is_score)) {
        return Err("it has a score threshold outside of 0 to 1".to_owned());
    }
    Ok(stored.sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &Path, rest: &str) -> Config {
        let text = format!(
            "sources:\n  - name: cam\n    uri: synthetic://traffic\n    lines: [{{name: gate, coordinates: '0,0,1,1'}}]\n\
             detector: {{backend: scripted}}\npublish: {{mqtt: {{client_id: box}}}}\n\
             commands: {{enabled: true, state_folder: {}}}\n{rest}",
            folder.display()
        );
        Config::from_str("f.yaml", &text).expect("a good file")
    }

    #[test]
    fn switches_outlast_the_run_and_go_with_their_sources_and_rules() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(&folder.path().join("switches"), "");
        let mut switches = Switches::load(&config);
        assert_eq!(switches.of("cam"), SourceSwitches::default());
        switches.set("cam", &SwitchChange::Detection(false));
        switches.set("cam", &SwitchChange::Rule("gate".to_owned(), false));
        switches.set("cam", &SwitchChange::ScoreThreshold(0.75));
        switches.set("other", &SwitchChange::Detection(false));
        let kept = Switches::load(&config);
        assert_eq!(kept.of("cam"), switches.of("cam"));
        let cam = kept.of("cam");
        assert!(cam.detection_off && cam.rules_off.contains("gate"));
        assert_eq!(cam.score_threshold, Some(0.75));
        // No such source.
        assert_eq!(kept.of("other"), SourceSwitches::default());
        let mut source = config.sources[0].clone();
        source.rules.lines.clear();
        switches.retain(std::iter::once(&source));
        assert!(Switches::load(&config).of("cam").rules_off.is_empty());
        switches.set("cam", &SwitchChange::Detection(true));
        assert!(!Switches::load(&config).of("cam").detection_off);
    }

    #[test]
    fn damaged_files_are_put_aside_and_the_daemon_starts() {
        for damage in [
            "",
            "{",
            "[]",
            r#"{"version": 2, "sources": {}}"#,
            r#"{"version": 1, "sources": {"cam": {"score_threshold": 7}}}"#,
            r#"{"version": 1, "sources": {"cam": {"detection": false}}}"#,
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("box.json");
            std::fs::write(&path, damage).expect("writable");
            let mut switches = Switches::load(&config(folder.path(), ""));
            assert_eq!(switches.of("cam"), SourceSwitches::default(), "{damage}");
            let aside = std::fs::read_to_string(folder.path().join("box.damaged"));
            assert_eq!(aside.expect("it is put aside"), damage);
            switches.set("cam", &SwitchChange::Detection(false));
            assert!(
                Switches::load(&config(folder.path(), ""))
                    .of("cam")
                    .detection_off
            );
        }
    }

    #[test]
    fn without_a_folder_switches_last_as_long_as_the_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(&folder.path().join("missing/switches"), "");
        let mut switches = Switches::load(&config);
        switches.set("cam", &SwitchChange::Detection(false));
        assert!(switches.of("cam").detection_off);
        assert!(!Switches::load(&config).of("cam").detection_off);
    }
}
