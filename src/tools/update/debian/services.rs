// SPDX-License-Identifier: Apache-2.0
//! The daemons' units: their state by systemd, and their health by their files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetwatch_telemetry::health_report::{HealthReport, boot_ms, unit_file};
use jetwatch_telemetry::with_causes;

use super::super::command::{Tool, both};
use super::super::{DaemonState, UpdateError};

/// A health file that is older is not used. Daemons write it every second.
const MAX_HEALTH_AGE_MS: u64 = 5_000;

/// For how long a check may build engines, and for how long it is waited for.
const CHECK_LIMIT: Duration = Duration::from_secs(3600);
const CHECK_TIMEOUT: Duration = Duration::from_secs(3660);

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
        "--property=ActiveState,InvocationID,MainPID,NRestarts",
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
        run: value("InvocationID").to_owned(),
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

/// A check of configurations and their networks, which need not be those that are installed.
#[derive(Debug)]
pub(super) struct Check<'a> {
    /// The version, for errors.
    pub version: &'a str,
    /// The program that checks.
    pub program: &'a Path,
    /// Folders that it finds in the place of others.
    pub replaced: Vec<(PathBuf, PathBuf)>,
    /// Model folders whose records must be usable.
    pub required: Vec<PathBuf>,
}

impl Check<'_> {
    /// Lets the program, as the daemon's user and with its secrets, check the configuration of `unit`.
    ///
    /// # Errors
    /// It cannot be started, or finds something wrong.
    pub(super) fn run(&self, unit: &str) -> Result<(), UpdateError> {
        let config = configuration(unit);
        if !config.exists() {
            return Ok(());
        }
        let mut tool = Tool::new("systemd-run", "check the configuration")
            .limit(CHECK_TIMEOUT)
            .args([
                "--quiet",
                "--pipe",
                "--wait",
                "--collect",
                "--property=User=jetwatch",
                "--property=Group=jetwatch",
                "--property=NoNewPrivileges=yes",
                "--property=ProtectSystem=strict",
                // Engines are built there, and caches are those of the daemon.
                "--property=ReadWritePaths=-/var/lib/jetwatch -/var/cache/jetwatch",
                "--property=PrivateNetwork=yes",
                "--property=PrivateTmp=yes",
                // A network that takes all of the memory must not take the machine along.
                "--property=MemoryMax=70%",
                "--setenv=XDG_CACHE_HOME=/var/cache/jetwatch",
                "--setenv=CUDA_CACHE_PATH=/var/cache/jetwatch/cuda",
            ])
            .args([
                format!("--property=RuntimeMaxSec={}", CHECK_LIMIT.as_secs()),
                format!("--property=EnvironmentFile=-{}", secrets(unit)),
            ])
            .args(self.replaced.iter().map(|(new, installed)| {
                let (new, installed) = (new.display(), installed.display());
                format!("--property=BindReadOnlyPaths={new}:{installed}")
            }))
            .args([self.program])
            .args(["check", "--models", "--config"])
            .args([&config]);
        for folder in &self.required {
            tool = tool.args([Path::new("--prove"), folder]);
        }
        let output = tool.output()?;
        if output.status.success() {
            return Ok(());
        }
        let text = both(&output);
        let lines = text.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        let wrong = lines.iter().filter(|line| line.starts_with("wrong"));
        let mut wrong: Vec<&str> = wrong.copied().collect();
        if wrong.is_empty() {
            wrong = lines;
        }
        Err(UpdateError::Configuration {
            version: self.version.to_owned(),
            problem: match wrong.is_empty() {
                true => format!("{} ended with {}", self.program.display(), output.status),
                false => wrong.join("; "),
            },
        })
    }
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
