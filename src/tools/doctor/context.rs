// SPDX-License-Identifier: Apache-2.0
//! Input of the checks: a machine, its configuration, and the daemons that run on it.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::check_report::CheckReport;
use jetwatch_config::{Config, ConfigError};
use jetwatch_platform::{Machine, PlatformError, Process, SysRoot, SystemdUnit};

/// Path of the package's configuration.
pub(super) const CONFIG: &str = "/etc/jetwatch/jetwatch.yaml";

/// Why something of a Jetson is not checked.
pub(super) const NO_JETSON: &str = "this machine is not a Jetson";

/// Folder of the package's test clip.
const TEST_CLIP: &str = "/usr/share/jetwatch";

/// Input of all checks.
pub(super) struct DoctorContext {
    /// Root of the system's files.
    pub(super) root: SysRoot,
    pub(super) machine: Machine,
    /// The configuration: the given one, else the package's; `None` where that does not exist.
    pub(super) config: Option<Result<Config, ConfigError>>,
    config_path: PathBuf,
    /// The configuration for the detector, with the given settings, or why it is not available.
    pub(super) detector: Result<Config, String>,
    /// Folder of the test clip.
    pub(super) test_clip: PathBuf,
    /// Whether this process runs as root.
    pub(super) is_root: bool,
    /// Running daemons.
    pub(super) daemons: Vec<Process>,
}

impl DoctorContext {
    /// Reads the configuration, and finds the machine's properties and running daemons.
    pub(super) fn find(
        root: SysRoot,
        config: Option<PathBuf>,
        detector: Result<Config, String>,
        test_clip: Option<PathBuf>,
    ) -> Self {
        let is_named = config.is_some();
        let config_path = config.unwrap_or_else(|| root.path(CONFIG));
        let is_there = is_named || config_path.exists();
        Self {
            machine: Machine::find(&root),
            config: is_there.then(|| Config::load(&config_path)),
            config_path,
            detector,
            test_clip: test_clip.unwrap_or_else(|| root.path(TEST_CLIP)),
            is_root: rustix::process::geteuid().is_root(),
            daemons: Process::running(&root, "jetwatch", "run").unwrap_or_default(),
            root,
        }
    }

    /// The configuration, if it exists and is valid.
    pub(super) fn config(&self) -> Option<&Config> {
        self.config.as_ref()?.as_ref().ok()
    }

    /// Why the configuration is not available.
    pub(super) fn without_config(&self) -> &'static str {
        match self.config {
            Some(Err(_)) => "the configuration is wrong, see `jetwatch doctor --only config`",
            _ => "there is no configuration",
        }
    }

    /// State of a unit from systemd, or why it is unknown.
    pub(super) fn unit(&self, name: &str) -> Result<SystemdUnit, String> {
        SystemdUnit::find(&self.root, name).map_err(|error| match error {
            PlatformError::NoTool { .. } => {
                format!("systemctl was not found, so the state of {name} is unknown")
            }
            error => error.to_string(),
        })
    }

    /// Adds a missing item of NVIDIA's: wrong on a Jetson, unknown on other machines with such a GPU, which do not need it.
    pub(super) fn missing(&self, report: &mut CheckReport, what: &str, text: &str) {
        if self.machine.is_jetson() {
            report.failed(what, text);
        } else if self.root.exists("/proc/driver/nvidia") {
            report.unknown(what, text);
        } else {
            report.not_applicable(what, "this machine has no NVIDIA GPU");
        }
    }

    /// Adds a read error. Some files are readable only by root.
    pub(super) fn unreadable(&self, report: &mut CheckReport, what: &str, text: &str) {
        if self.is_root {
            report.unknown(what, text);
        } else {
            report.unknown(
                what,
                &format!("{text}; run it as root: sudo jetwatch doctor"),
            );
        }
    }

    pub(super) fn check_config(&self, report: &mut CheckReport) {
        let path = self.config_path.display();
        match &self.config {
            None => report.unknown(
                "configuration",
                &format!("{path} does not exist; give another file with --config"),
            ),
            Some(Ok(config)) => report.ok(
                "configuration",
                &format!(
                    "{path}: {} source(s), device {}",
                    config.sources.len(),
                    config.device
                ),
            ),
            Some(Err(error)) if is_forbidden(&self.config_path) => {
                self.unreadable(report, "configuration", &error.to_string());
            }
            Some(Err(error)) => {
                let problems: Vec<String> = error.to_string().lines().map(str::to_owned).collect();
                report.failed("configuration", &problems.join("; "));
            }
        }
    }
}

/// Whether this user may not read a file.
fn is_forbidden(path: &Path) -> bool {
    File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}
