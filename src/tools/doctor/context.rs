//! What is examined: a machine, its configuration, and the daemon that may run on it.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::check_report::CheckReport;
use jetwatch_config::{Config, ConfigError};
use jetwatch_platform::{Machine, PlatformError, Process, SysRoot, SystemdUnit};

/// Where the package puts the configuration.
pub(super) const CONFIG: &str = "/etc/jetwatch/jetwatch.yaml";

/// What all parts look at.
pub(super) struct DoctorContext {
    /// Where the system begins.
    pub(super) root: SysRoot,
    /// What it is.
    pub(super) machine: Machine,
    /// The configuration: that of the command line, else the package's, if it is there.
    pub(super) config: Option<Result<Config, ConfigError>>,
    config_path: PathBuf,
    /// The configuration for the detector, with the settings of the command line; or why there is none.
    pub(super) detector: Result<Config, String>,
    /// Whether root examines.
    pub(super) is_root: bool,
    /// Daemons that run now.
    pub(super) daemons: Vec<Process>,
}

impl DoctorContext {
    /// Looks for the configuration, and for what the machine is.
    pub(super) fn find(
        root: SysRoot,
        config: Option<PathBuf>,
        detector: Result<Config, String>,
    ) -> Self {
        let is_named = config.is_some();
        let config_path = config.unwrap_or_else(|| root.path(CONFIG));
        let is_there = is_named || config_path.exists();
        Self {
            machine: Machine::find(&root),
            config: is_there.then(|| Config::load(&config_path)),
            config_path,
            detector,
            is_root: rustix::process::geteuid().is_root(),
            daemons: Process::running(&root, "jetwatch", "run").unwrap_or_default(),
            root,
        }
    }

    /// The configuration, if it is there and right.
    pub(super) fn config(&self) -> Option<&Config> {
        self.config.as_ref()?.as_ref().ok()
    }

    /// Why there is no configuration to go by.
    pub(super) fn without_config(&self) -> &'static str {
        match self.config {
            Some(Err(_)) => "the configuration is wrong, see `jetwatch doctor --only config`",
            _ => "without a configuration nothing is wanted",
        }
    }

    /// Asks systemd for a unit; a sentence where it does not tell.
    pub(super) fn unit(&self, name: &str) -> Result<SystemdUnit, String> {
        SystemdUnit::find(&self.root, name).map_err(|error| match error {
            PlatformError::NoTool { .. } => {
                format!("systemctl is not here, so nobody can be asked for {name}")
            }
            error => error.to_string(),
        })
    }

    /// Says what does not need to be here on a machine that is no Jetson, and must be on one.
    pub(super) fn missing(&self, report: &mut CheckReport, what: &str, text: &str) {
        if self.machine.is_jetson() {
            report.failed(what, text);
        } else {
            report.unknown(what, text);
        }
    }

    /// Says why something could not be read; who is not root may not read all.
    pub(super) fn unreadable(&self, report: &mut CheckReport, what: &str, text: &str) {
        if self.is_root {
            report.unknown(what, text);
        } else {
            report.unknown(
                what,
                &format!("{text}; ask again as root: sudo jetwatch doctor"),
            );
        }
    }

    pub(super) fn check_config(&self, report: &mut CheckReport) {
        let path = self.config_path.display();
        match &self.config {
            None => report.unknown(
                "configuration",
                &format!("{path} is not there; name another with --config"),
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
