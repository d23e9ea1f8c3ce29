// SPDX-License-Identifier: Apache-2.0
//! State of a systemd unit.

use std::time::Duration;

use super::command::Tool;
use super::{PlatformError, SysRoot};

const SYSTEMCTL_TIMEOUT: Duration = Duration::from_secs(5);

/// State of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemdUnit {
    /// Whether the unit exists.
    pub is_known: bool,
    /// `active`, `inactive`, `failed`, `activating` or `deactivating`.
    pub active: String,
    /// The sub-state, such as `running` or `auto-restart`.
    pub sub: String,
    /// Result of the last run, such as `success`, `exit-code` or `watchdog`.
    pub result: String,
    /// Number of automatic restarts.
    pub restarts: u32,
    /// Watchdog interval, as systemd formats it; `None`: no watchdog.
    pub watchdog: Option<String>,
}

impl SystemdUnit {
    /// Queries systemd with `systemctl`; blocks for up to 5 s.
    ///
    /// # Errors
    /// systemd is not installed, does not run, or does not respond in time.
    pub fn find(root: &SysRoot, name: &str) -> Result<Self, PlatformError> {
        let properties = "--property=LoadState,ActiveState,SubState,Result,NRestarts,WatchdogUSec";
        let output = Tool::SYSTEMCTL.run_with_timeout(
            root,
            &["show", properties, name],
            SYSTEMCTL_TIMEOUT,
        )?;
        Ok(Self::read(&output.done()?.text))
    }

    fn read(text: &str) -> Self {
        let of = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|line| line.strip_prefix('='))
                .unwrap_or_default()
        };
        let watchdog = of("WatchdogUSec");
        Self {
            is_known: of("LoadState") == "loaded",
            active: of("ActiveState").to_owned(),
            sub: of("SubState").to_owned(),
            result: of("Result").to_owned(),
            restarts: of("NRestarts").parse().unwrap_or(0),
            watchdog: (!matches!(watchdog, "" | "0" | "infinity")).then(|| watchdog.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemctl_output_is_parsed() {
        let unit = SystemdUnit::read(
            "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=2\nWatchdogUSec=30s\n",
        );
        assert!(unit.is_known);
        assert_eq!(
            (unit.active.as_str(), unit.sub.as_str()),
            ("active", "running")
        );
        assert_eq!((unit.restarts, unit.watchdog.as_deref()), (2, Some("30s")));
        let missing =
            SystemdUnit::read("LoadState=not-found\nActiveState=inactive\nWatchdogUSec=0\n");
        assert!(!missing.is_known && missing.watchdog.is_none());
    }
}
