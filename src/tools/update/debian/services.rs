//! The daemons' units: their state by systemd, and their health by their files.

use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_telemetry::health_report::{HealthReport, boot_ms, unit_file};
use jetwatch_telemetry::with_causes;

use super::super::command::{Tool, both};
use super::super::{DaemonState, UpdateError};

/// A health file that is older is not used. Daemons write it every second.
const MAX_HEALTH_AGE_MS: u64 = 5_000;

/// Seconds that the new program has to check a configuration.
const CHECK_LIMIT_S: u32 = 60;

/// Names of the daemon's units: jetwatch.service, and its instances.
pub(super) fn units() -> Result<Vec<String>, UpdateError> {
    let tool = Tool::new("systemctl", "list the daemons").args([
        "list-units",
        "--all",
        "--plain",
        "--no-legend",
        "--no-pager",
        "jetwatch.service",
        "jetwatch@*.service",
    ]);
    let text = tool.text()?;
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(names
        .filter(|name| name.starts_with("jetwatch"))
        .map(str::to_owned)
        .collect())
}

/// State and health of a unit.
pub(super) fn state(unit: &str) -> Result<DaemonState, UpdateError> {
    let tool = Tool::new("systemctl", "read the state of a daemon").args([
        "show",
        "--property=ActiveState,MainPID,NRestarts",
        unit,
    ]);
    let text = tool.text()?;
    let value = |name: &str| {
        let found = text.lines().filter_map(|line| line.split_once('='));
        found
            .clone()
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value)
    };
    let active = value("ActiveState");
    let pid = value("MainPID").parse().unwrap_or(0);
    Ok(DaemonState {
        unit: unit.to_owned(),
        is_active: matches!(active, "active" | "activating" | "reloading"),
        is_failed: active == "failed",
        restarts: value("NRestarts").parse().unwrap_or(0),
        has_process: pid != 0,
        runs_installed_program: runs_installed_program(pid),
        health: health(unit, pid),
    })
}

/// Whether the program of the process `pid` is still in the file system.
fn runs_installed_program(pid: u32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    program.is_ok_and(|program| !program.to_string_lossy().ends_with(" (deleted)"))
}

/// What the process `pid` has written last.
fn health(unit: &str, pid: u32) -> Option<HealthReport> {
    match HealthReport::read(&unit_file(&configuration(unit))) {
        Ok(report) => report
            .filter(|report| report.pid == pid && report.age_ms(boot_ms()) <= MAX_HEALTH_AGE_MS),
        Err(error) => {
            log::debug!("{}", with_causes(&error));
            None
        }
    }
}

fn name(unit: &str) -> &str {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    name.strip_prefix("jetwatch@").unwrap_or(name)
}

/// The configuration of a unit.
fn configuration(unit: &str) -> PathBuf {
    Path::new("/etc/jetwatch").join(format!("{}.yaml", name(unit)))
}

/// The file with a unit's secrets.
fn secrets(unit: &str) -> String {
    match name(unit) {
        "jetwatch" => "/etc/jetwatch/secrets.env".to_owned(),
        name => format!("/etc/jetwatch/secrets-{name}.env"),
    }
}

/// Starts a unit again, and does not wait for it.
pub(super) fn restart(unit: &str) -> Result<(), UpdateError> {
    let systemctl = |args: &[&str]| Tool::new("systemctl", "restart a daemon").args(args).text();
    systemctl(&["daemon-reload"])?;
    // Fails where the unit has not failed before.
    let _ = systemctl(&["reset-failed", unit]);
    systemctl(&["restart", "--no-block", unit]).map(drop)
}

/// Ends the processes of a unit that does not end by itself.
pub(super) fn kill(unit: &str) -> Result<(), UpdateError> {
    let args = ["kill", "--signal=SIGKILL", unit];
    let mut tool = Tool::new("systemctl", "kill a daemon").args(args);
    // Fails where it has ended meanwhile.
    tool.output().map(drop)
}

/// Lets `program`, as the daemon's user and with its secrets, check the configuration of `unit`.
pub(super) fn check_configuration(
    version: &str,
    program: &Path,
    unit: &str,
) -> Result<(), UpdateError> {
    let config = configuration(unit);
    if !config.exists() {
        return Ok(());
    }
    let mut tool = Tool::new("systemd-run", "let the new version check the configuration").args([
        "--quiet",
        "--pipe",
        "--wait",
        "--collect",
        "--property=User=jetwatch",
        "--property=Group=jetwatch",
        "--property=NoNewPrivileges=yes",
        "--property=ProtectSystem=strict",
        "--property=PrivateNetwork=yes",
        "--property=PrivateTmp=yes",
    ]);
    tool = tool.args([
        format!("--property=RuntimeMaxSec={CHECK_LIMIT_S}"),
        format!("--property=EnvironmentFile=-{}", secrets(unit)),
    ]);
    tool = tool.args([
        program,
        Path::new("check"),
        Path::new("--file-only"),
        Path::new("--config"),
        &config,
    ]);
    let output = tool.output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = both(&output);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    Err(UpdateError::Configuration {
        version: version.to_owned(),
        problem: match lines.is_empty() {
            true => format!("{} ended with {}", program.display(), output.status),
            false => lines.join("; "),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_have_files_of_their_own() {
        assert_eq!(
            configuration("jetwatch.service"),
            Path::new("/etc/jetwatch/jetwatch.yaml")
        );
        assert_eq!(
            configuration("jetwatch@gate.service"),
            Path::new("/etc/jetwatch/gate.yaml")
        );
        assert_eq!(secrets("jetwatch.service"), "/etc/jetwatch/secrets.env");
        assert_eq!(
            secrets("jetwatch@gate.service"),
            "/etc/jetwatch/secrets-gate.env"
        );
    }

    #[test]
    fn own_program_is_the_installed_one() {
        assert!(runs_installed_program(std::process::id()));
        assert!(!runs_installed_program(0));
    }
}
