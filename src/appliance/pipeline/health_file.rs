// SPDX-License-Identifier: Apache-2.0
//! The thread that writes the health of a run to a file every second; see [`HealthReport`]. It starts before the detector is loaded,
//! which may take minutes, and removes the file at the end. The folder is in memory of the kernel: nothing is synced.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use jetwatch_config::{Config, SourceConfig};
use jetwatch_files::PendingFile;
use jetwatch_publish::ConnectionState;
use jetwatch_telemetry::health_report::{
    HEALTH_VERSION, HealthReport, MqttHealth, SourceHealth, boot_ms,
};
use jetwatch_telemetry::{FailureLog, recent_log, thread_names};

use super::PipelineError;
use super::health::is_ready;
use super::run_state::RunState;
use super::threads::spawn;

/// Interval at which the file is written.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// The file of a run; nothing where none is wanted.
pub(super) struct HealthFile {
    /// Dropped to end the thread.
    writer: Option<(Sender<()>, JoinHandle<()>)>,
}

impl HealthFile {
    /// Starts the thread; `started`: when the process did. It reads the parts of `run` as they start.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub(super) fn start(
        path: Option<PathBuf>,
        started: Instant,
        config: &Config,
        run: &Arc<RunState>,
    ) -> Result<Self, PipelineError> {
        let Some(path) = path else {
            return Ok(Self { writer: None });
        };
        let sources = config.sources.iter();
        let (stop, stopped) = bounded::<()>(0);
        let mut writer = Writer {
            run: Arc::clone(run),
            first_frame_waits: sources.map(SourceConfig::first_frame_timeout).collect(),
            started_boot_ms: boot_ms().saturating_sub(whole_ms(started.elapsed())),
            changes: Changes::default(),
        };
        let thread = spawn(thread_names::HEALTH, move || {
            let mut failures = FailureLog::default();
            loop {
                match writer.write(&path) {
                    Ok(()) => failures.reset(),
                    Err(error) if failures.admit(&error, Instant::now()).is_some() => {
                        log::warn!("the health of the daemon is not known to others: {error}");
                    }
                    Err(_) => {}
                }
                if stopped.recv_timeout(WRITE_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            // It may have never been written.
            let _ = fs::remove_file(&path);
        })?;
        Ok(Self {
            writer: Some((stop, thread)),
        })
    }
}

impl Drop for HealthFile {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.writer.take() {
            drop(stop);
            // A panic has been logged by the panic hook.
            let _ = thread.join();
        }
    }
}

struct Writer {
    run: Arc<RunState>,
    first_frame_waits: Vec<Duration>,
    started_boot_ms: u64,
    changes: Changes,
}

impl Writer {
    fn write(&mut self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_vec(&self.report()).map_err(|error| error.to_string())?;
        let mut file =
            PendingFile::create(path).map_err(|error| format!("{error}: {}", error.source))?;
        file.file()
            .write_all(&text)
            .map_err(|error| error.to_string())?;
        file.replace()
            .map_err(|error| format!("{error}: {}", error.source))
    }

    fn report(&mut self) -> HealthReport {
        let now = Instant::now();
        let loaded = self.run.loaded.get();
        let ready = loaded.is_some_and(|loaded| {
            is_ready(&loaded.stats, &self.first_frame_waits, loaded.at.elapsed())
        });
        let counts = loaded.map(|loaded| loaded.stats.source_frames());
        let sources = counts.unwrap_or_default().into_iter();
        let sources = sources.map(|(name, state, frames, detected)| SourceHealth {
            last_frame_age_ms: self.changes.age_ms(&name, frames, now),
            state: state.name().to_owned(),
            name,
            frames,
            detected,
        });
        let sources = sources.collect();
        let monitor = loaded.and_then(|_| self.run.mqtt.get());
        let mqtt = monitor.map(|monitor| {
            let acknowledged = monitor.acknowledged();
            MqttHealth {
                connected: monitor.connection_state() == ConnectionState::Connected,
                acknowledged,
                // No source has an empty name.
                last_acknowledged_age_ms: self.changes.age_ms("", acknowledged, now),
                queued: monitor.counts().queued,
            }
        });
        let building = self.run.building.lock().clone();
        HealthReport {
            version: HEALTH_VERSION,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_boot_ms: self.started_boot_ms,
            written_boot_ms: boot_ms(),
            ready,
            builds_engine: loaded.is_none() && building.is_some(),
            waits_for: match loaded {
                Some(_) => None,
                None => Some(building.unwrap_or_else(|| "its detector".to_owned())),
            },
            errors: recent_log::error_count(),
            sources,
            mqtt,
        }
    }
}

/// When counters changed last, as seen once per [`WRITE_INTERVAL`].
#[derive(Default)]
struct Changes {
    seen: Vec<(String, u64, Instant)>,
}

impl Changes {
    /// Time since the counter `name`, which is `count` now, changed; `None`: it is zero.
    fn age_ms(&mut self, name: &str, count: u64, now: Instant) -> Option<u64> {
        if count == 0 {
            // Also a source that was removed and added again.
            self.seen.retain(|(known, ..)| known != name);
            return None;
        }
        match self.seen.iter_mut().find(|(known, ..)| known == name) {
            Some((_, last, at)) => {
                if *last != count {
                    (*last, *at) = (count, now);
                }
                Some(whole_ms(now.duration_since(*at)))
            }
            None => {
                self.seen.push((name.to_owned(), count, now));
                Some(0)
            }
        }
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_counts_from_the_last_change() {
        let (mut changes, start) = (Changes::default(), Instant::now());
        let mut age = |count, ms| changes.age_ms("a", count, start + Duration::from_millis(ms));
        assert_eq!(age(0, 0), None);
        assert_eq!(age(3, 1_000), Some(0));
        assert_eq!(age(3, 2_500), Some(1_500));
        assert_eq!(age(4, 3_000), Some(0));
        assert_eq!(age(0, 4_000), None);
        assert_eq!(age(4, 9_000), Some(0));
    }

    #[test]
    fn file_is_written_while_the_detector_loads_and_removed_at_the_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("health-a.json");
        let text = "sources: [{name: a, uri: /v.mp4}]\ndetector: {model: /m}\n";
        let config = Config::from_str("f.yaml", text).expect("a good file");
        let (started, run) = (Instant::now(), Arc::default());
        let file = HealthFile::start(Some(path.clone()), started, &config, &run).expect("started");
        let report = loop {
            if let Some(report) = HealthReport::read(&path).expect("readable") {
                break report;
            }
            std::thread::yield_now();
        };
        assert_eq!(report.waits_for.as_deref(), Some("its detector"));
        assert!(!report.ready && report.pid == std::process::id());
        drop(file);
        assert!(!path.exists());
    }
}
