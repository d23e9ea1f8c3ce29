// SPDX-License-Identifier: Apache-2.0
//! The health of a running daemon, as one JSON file that other programs read: `jetwatch health`, updates, and scripts that mark a
//! slot of the machine as good. The daemon writes it every second to the runtime folder of its unit and removes it when it ends.
//!
//! Times are milliseconds since the start of the machine, which nothing sets: see [`boot_time`].

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::boot_time;

/// Number of the format; a reader refuses others.
pub const HEALTH_VERSION: u32 = 1;

/// Folder of the files of units.
pub(crate) const HEALTH_FOLDER: &str = "/run/jetwatch";

/// Largest file that is read, in bytes: some hundred sources.
const MAX_BYTES: u64 = 1 << 20;

/// What the daemon writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HealthReport {
    /// [`HEALTH_VERSION`].
    pub version: u32,
    /// Version of the program.
    pub program: String,
    /// Process that wrote it.
    pub pid: u32,
    /// When that process started.
    pub started_boot_ms: u64,
    /// When this was written.
    pub written_boot_ms: u64,
    /// The start is complete: the first frame of every source was processed, or its time for it is over.
    pub ready: bool,
    /// What the start waits for; `None` where that is nothing special.
    pub waits_for: Option<String>,
    /// It waits for the engine of a network to be built, which may take an hour.
    pub builds_engine: bool,
    /// The sources of the configuration, in its order.
    pub sources: Vec<SourceHealth>,
    /// Lines of the log at the level `error` since the start.
    pub errors: u64,
    /// The connection to the broker; `None`: the configuration has no MQTT, or it has not started yet.
    pub mqtt: Option<MqttHealth>,
}

/// One source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceHealth {
    /// Its name.
    pub name: String,
    /// `connecting`, `online`, `offline` or `ended`.
    pub state: String,
    /// Frames processed since the start.
    pub frames: u64,
    /// Those of them that went through the network; the others skipped it (`interval`).
    pub detected: u64,
    /// Time since the last of them; `None`: there was none.
    pub last_frame_age_ms: Option<u64>,
}

/// The connection to the broker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MqttHealth {
    /// Whether the broker has accepted the client.
    pub connected: bool,
    /// Messages that the broker has acknowledged since the start.
    pub acknowledged: u64,
    /// Time since the last of them; `None`: there was none.
    pub last_acknowledged_age_ms: Option<u64>,
    /// Messages that wait.
    pub queued: u64,
}

/// Which sources have to bring frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequiredSources {
    /// At least one of those that have not ended.
    Any,
    /// All that have not ended.
    All,
    /// These, and no others.
    Named(Vec<String>),
}

/// What makes a daemon healthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Which sources have to bring frames.
    pub sources: RequiredSources,
    /// Frames that such a source has brought since the start of the daemon.
    pub min_frames: u64,
    /// Largest age of its last frame, in milliseconds.
    pub max_frame_age_ms: u64,
    /// Whether the broker must have acknowledged a message since the start, where the daemon has one.
    pub acknowledged: bool,
}

impl Default for Expectation {
    fn default() -> Self {
        Self {
            sources: RequiredSources::Any,
            min_frames: 1,
            max_frame_age_ms: 10_000,
            acknowledged: true,
        }
    }
}

/// A file that is there and cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum HealthFileError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is no health file of version {HEALTH_VERSION}: {problem}; is the daemon of another version?", path.display())]
    Format { path: PathBuf, problem: String },
}

/// The file of the daemon that a unit runs with the configuration `config`.
pub fn unit_file(config: &Path) -> PathBuf {
    let name = config.file_stem().unwrap_or_default().to_string_lossy();
    Path::new(HEALTH_FOLDER).join(format!("health-{name}.json"))
}

/// Milliseconds since the start of the machine.
pub fn boot_ms() -> u64 {
    u64::try_from(boot_time().as_millis()).unwrap_or(u64::MAX)
}

impl HealthReport {
    /// Reads the file at `path`; `None`: there is none. Links are not followed, and a pipe does not block: the folder belongs to
    /// the daemon, and its reader may be root.
    ///
    /// # Errors
    /// It cannot be read, or it is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, HealthFileError> {
        let text = match read_regular(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                let path = path.to_owned();
                return Err(HealthFileError::Read { path, source });
            }
        };
        let format = |problem: String| HealthFileError::Format {
            path: path.to_owned(),
            problem,
        };
        let report: Self =
            serde_json::from_str(&text).map_err(|error| format(error.to_string()))?;
        if report.version != HEALTH_VERSION {
            return Err(format(format!("its version is {}", report.version)));
        }
        Ok(Some(report))
    }

    /// Time since it was written, in milliseconds. A daemon writes it every second.
    #[must_use]
    pub fn age_ms(&self, now_boot_ms: u64) -> u64 {
        now_boot_ms.saturating_sub(self.written_boot_ms)
    }

    /// What is missing of `expected`, one sentence each; empty: the daemon is healthy.
    #[must_use]
    pub fn problems(&self, expected: &Expectation) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.ready {
            let reason = self.waits_for.as_deref();
            let reason = reason.unwrap_or("the first frames of its sources");
            problems.push(format!("the daemon is starting, and waits for {reason}"));
        }
        problems.extend(self.source_problems(expected));
        if let Some(mqtt) = self.mqtt.as_ref().filter(|_| expected.acknowledged) {
            if !mqtt.connected {
                problems.push("the broker is not connected".to_owned());
            }
            if mqtt.acknowledged == 0 {
                let text = "the broker has acknowledged no message since the start";
                problems.push(text.to_owned());
            }
        }
        problems
    }

    fn source_problems(&self, expected: &Expectation) -> Vec<String> {
        let running = self.sources.iter().filter(|source| source.state != "ended");
        let problems = running.clone().map(|source| source.problem(expected));
        match &expected.sources {
            RequiredSources::All => problems.flatten().collect(),
            RequiredSources::Any => {
                let problems: Vec<_> = problems.collect();
                match problems.iter().all(Option::is_some) {
                    true => problems.into_iter().flatten().collect(),
                    false => Vec::new(),
                }
            }
            RequiredSources::Named(names) => {
                let problem = |name: &String| {
                    let mut sources = self.sources.iter();
                    match sources.find(|source| source.name == *name) {
                        Some(source) => source.problem(expected),
                        None => Some(format!("source {name}: the daemon has none of this name")),
                    }
                };
                names.iter().filter_map(problem).collect()
            }
        }
    }
}

impl SourceHealth {
    fn problem(&self, expected: &Expectation) -> Option<String> {
        let Self {
            name,
            state,
            frames,
            ..
        } = self;
        let age_ms = self.last_frame_age_ms.unwrap_or(u64::MAX);
        let problem = if state != "online" {
            format!("it is {state}")
        } else if *frames < expected.min_frames {
            format!(
                "{frames} frames since the start, expected {}",
                expected.min_frames
            )
        } else if age_ms > expected.max_frame_age_ms {
            format!(
                "its last frame is {age_ms} ms old, expected {} at most",
                expected.max_frame_age_ms
            )
        } else {
            return None;
        };
        Some(format!("source {name}: {problem}"))
    }
}

/// The text of a regular file.
fn read_regular(path: &Path) -> io::Result<String> {
    let file = jetwatch_files::open_own(path, jetwatch_files::OFlags::RDONLY)?;
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, state: &str, frames: u64, age_ms: Option<u64>) -> SourceHealth {
        SourceHealth {
            name: name.to_owned(),
            state: state.to_owned(),
            frames,
            detected: frames / 2,
            last_frame_age_ms: age_ms,
        }
    }

    fn report() -> HealthReport {
        HealthReport {
            version: HEALTH_VERSION,
            program: "1.2.3".to_owned(),
            pid: 7,
            started_boot_ms: 1_000,
            written_boot_ms: 5_000,
            ready: true,
            waits_for: None,
            builds_engine: false,
            errors: 0,
            sources: vec![
                source("gate", "online", 40, Some(30)),
                source("yard", "offline", 3, Some(60_000)),
                source("clip", "ended", 9, Some(90_000)),
            ],
            mqtt: Some(MqttHealth {
                connected: true,
                acknowledged: 4,
                last_acknowledged_age_ms: Some(900),
                queued: 0,
            }),
        }
    }

    #[test]
    fn required_sources_decide() {
        let of = |sources| {
            let expected = Expectation {
                sources,
                ..Expectation::default()
            };
            report().problems(&expected)
        };
        let named = |names: &[&str]| {
            RequiredSources::Named(names.iter().map(ToString::to_string).collect())
        };
        assert_eq!(of(RequiredSources::Any), [""; 0]);
        assert_eq!(of(RequiredSources::All), ["source yard: it is offline"]);
        assert_eq!(of(named(&["gate"])), [""; 0]);
        assert_eq!(
            of(named(&["yard", "roof"])),
            [
                "source yard: it is offline",
                "source roof: the daemon has none of this name"
            ]
        );
    }

    #[test]
    fn frames_must_be_many_and_new() {
        let expected = Expectation {
            min_frames: 41,
            ..Expectation::default()
        };
        let problems = report().problems(&expected);
        assert_eq!(
            problems[0],
            "source gate: 40 frames since the start, expected 41"
        );
        let mut stopped = report();
        stopped.sources[0].last_frame_age_ms = Some(10_001);
        let problems = stopped.problems(&Expectation::default());
        assert_eq!(
            problems[0],
            "source gate: its last frame is 10001 ms old, expected 10000 at most"
        );
    }

    #[test]
    fn broker_and_start_count() {
        let mut waiting = report();
        waiting.ready = false;
        waiting.waits_for = Some("its engine".to_owned());
        waiting.mqtt = Some(MqttHealth {
            connected: false,
            acknowledged: 0,
            last_acknowledged_age_ms: None,
            queued: 3,
        });
        let all = waiting.problems(&Expectation::default());
        assert_eq!(
            all,
            [
                "the daemon is starting, and waits for its engine",
                "the broker is not connected",
                "the broker has acknowledged no message since the start"
            ]
        );
        let without_broker = Expectation {
            acknowledged: false,
            ..Expectation::default()
        };
        assert_eq!(waiting.problems(&without_broker).len(), 1);
    }

    #[test]
    fn only_whole_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("health-a.json");
        assert!(HealthReport::read(&path).expect("nothing").is_none());
        let text = serde_json::to_string(&report()).expect("JSON");
        std::fs::write(&path, &text).expect("written");
        assert_eq!(HealthReport::read(&path).expect("read"), Some(report()));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert!(HealthReport::read(&link).is_err(), "a link");
        assert!(HealthReport::read(folder.path()).is_err(), "a folder");
        std::fs::write(&path, text.replace("\"version\":1", "\"version\":2")).expect("written");
        let error = HealthReport::read(&path).expect_err("another version");
        assert!(error.to_string().contains("its version is 2"), "{error}");
    }

    #[test]
    fn unit_files_are_named_after_configurations() {
        let file = unit_file(Path::new("/etc/jetwatch/gate.yaml"));
        assert_eq!(file, Path::new("/run/jetwatch/health-gate.json"));
    }
}
