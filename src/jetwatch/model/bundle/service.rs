//! The running daemon, for the watch over a switch: restarted by systemd or a command, and read from its health file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use jetwatch_bundles::{Health, Service, SourceCount};
use jetwatch_telemetry::health_report::{HealthReport, unit_file};
use jetwatch_telemetry::with_causes;

use super::arguments::SwitchArgs;

/// Maximum length of the output of a command in an error, in characters.
const MAX_OUTPUT_CHARS: usize = 400;

/// The daemon of a configuration.
pub(super) struct RunningDaemon {
    unit: String,
    restart_with: Option<String>,
    health: PathBuf,
}

impl RunningDaemon {
    pub(super) fn new(args: &SwitchArgs) -> Self {
        let of_unit = || unit_file(&args.config);
        Self {
            unit: args.unit.clone(),
            restart_with: args.restart_with.clone(),
            health: args.health.clone().unwrap_or_else(of_unit),
        }
    }
}

impl Service for RunningDaemon {
    fn restart(&mut self) -> Result<(), String> {
        let (mut command, what) = match &self.restart_with {
            Some(text) => {
                let mut command = Command::new("sh");
                command.args(["-c", text]);
                (command, text.clone())
            }
            None => {
                let mut command = Command::new("systemctl");
                // A unit that failed too often is started again.
                command.args(["restart", &self.unit]);
                (command, format!("systemctl restart {}", self.unit))
            }
        };
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("`{what}` cannot be started: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let text: String = text.trim().chars().take(MAX_OUTPUT_CHARS).collect();
        Err(format!("`{what}` ended with {}: {text}", output.status))
    }

    fn health(&mut self) -> Result<Option<Health>, String> {
        let report = HealthReport::read(&self.health).map_err(|error| with_causes(&error))?;
        // The file of a process that was killed stays.
        let report = report.filter(|report| Path::new(&format!("/proc/{}", report.pid)).exists());
        Ok(report.map(|report| Health {
            run: (u64::from(report.pid) << 40) ^ report.started_boot_ms,
            at: Duration::from_millis(report.written_boot_ms),
            is_ready: report.ready,
            errors: report.errors,
            sources: report
                .sources
                .into_iter()
                .map(|source| SourceCount {
                    is_online: source.state == "online",
                    name: source.name,
                    detected: source.detected,
                })
                .collect(),
            acknowledged: report.mqtt.map(|mqtt| mqtt.acknowledged),
        }))
    }
}
