// SPDX-License-Identifier: Apache-2.0
//! The individual settings: current value, accepted values, and how each is applied. Values are canonical texts.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::command::Tool;
use super::super::{PlatformError, PowerModes, SysRoot};
use super::{clocks, fan};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Timeout for a setting to take effect after its tool has ended: the fan's daemon has to start first.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of reading the setting back until then.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

jetwatch_types::named_enum! {
    /// The settings, in the order of application.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Setting {
        /// nvpmodel's mode; its value is the mode's number.
        PowerMode = "power_mode",
        /// Whether jetson_clocks holds the clocks; `max` or `free`.
        Clocks = "clocks",
        /// nvfancontrol's profile; its value is the profile's name.
        #[serde(rename = "fan_profile", alias = "fan")]
        Fan = "fan_profile",
        /// `kernel.perf_event_paranoid`; its value is a number.
        PerfEventParanoid = "perf_event_paranoid",
    }

    /// The configuration key.
    pub fn name;
}

impl Setting {
    /// The current value.
    ///
    /// # Errors
    /// This machine does not have the setting, or it cannot be read.
    pub(super) fn current(self, root: &SysRoot) -> Result<String, PlatformError> {
        match self {
            Self::PowerMode => PowerModes::current(root).map(|id| id.to_string()),
            Self::Clocks => clocks::current(root),
            Self::Fan => fan::current(root),
            Self::PerfEventParanoid => {
                let value: Option<i32> = root.number(PARANOID)?;
                value
                    .map(|value| value.to_string())
                    .ok_or_else(|| PlatformError::Missing {
                        path: root.path(PARANOID),
                        why: "this kernel has no perf events, so remove perf_event_paranoid from the configuration",
                    })
            }
        }
    }

    /// The canonical value of a user's input.
    ///
    /// # Errors
    /// This machine does not have the value.
    pub(super) fn resolve(self, root: &SysRoot, requested: &str) -> Result<String, PlatformError> {
        match self {
            Self::PowerMode => {
                let modes = match PowerModes::read(root) {
                    // The list comes with the tool: report the missing tool.
                    Err(PlatformError::Missing { .. }) if self.check_tools(root).is_err() => {
                        return self.check_tools(root).map(|()| String::new());
                    }
                    modes => modes?,
                };
                Ok(modes.find(requested)?.id.to_string())
            }
            Self::Clocks => {
                self.check_tools(root)?;
                Ok(requested.to_owned())
            }
            Self::Fan => fan::resolve(root, requested),
            Self::PerfEventParanoid => Ok(requested.to_owned()),
        }
    }

    /// Checks that the required tools are installed.
    ///
    /// # Errors
    /// One is missing.
    pub(super) fn check_tools(self, root: &SysRoot) -> Result<(), PlatformError> {
        match self {
            Self::PowerMode => Tool::NVPMODEL.check(root),
            Self::Clocks => Tool::JETSON_CLOCKS.check(root),
            Self::Fan => {
                Tool::NVFANCONTROL.check(root)?;
                Tool::SYSTEMCTL.check(root)
            }
            Self::PerfEventParanoid => Ok(()),
        }
    }

    /// Applies the value. [`verify`](Self::verify) reads it back.
    ///
    /// # Errors
    /// The kernel or a tool refuses.
    pub(super) fn set(self, root: &SysRoot, value: &str) -> Result<(), PlatformError> {
        match self {
            Self::PowerMode => set_power_mode(root, value),
            Self::Clocks if value == clocks::MAX => clocks::hold(root),
            Self::Clocks => clocks::free(root),
            Self::Fan => fan::set(root, value),
            Self::PerfEventParanoid => root.write(PARANOID, value),
        }
    }

    /// Reads the setting back; blocks for up to 5 s.
    ///
    /// # Errors
    /// The value still differs after 5 s, or cannot be read.
    pub(super) fn verify(self, root: &SysRoot, value: &str) -> Result<(), PlatformError> {
        let started = Instant::now();
        loop {
            let actual = self.current(root)?;
            if actual == value {
                return Ok(());
            }
            // Only the fan's daemon needs time.
            if self != Self::Fan || started.elapsed() > SETTLE_TIMEOUT {
                return Err(PlatformError::NotApplied {
                    requested: self.describe(root, value),
                    actual: self.describe(root, &actual),
                    detail: if self == Self::Clocks {
                        clocks::detail(root)
                    } else {
                        String::new()
                    },
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Restores the original value. Clocks are restored from their store even when they read as free: some may be held.
    ///
    /// # Errors
    /// As [`set`](Self::set) and [`verify`](Self::verify).
    pub(super) fn revert(self, root: &SysRoot, before: &str) -> Result<(), PlatformError> {
        let is_half = self == Self::Clocks && before == clocks::FREE && root.exists(clocks::STORE);
        if is_half || self.current(root)? != before {
            self.set(root, before)?;
        }
        self.verify(root, before)
    }

    /// A value as text for users.
    pub(super) fn describe(self, root: &SysRoot, value: &str) -> String {
        if self != Self::PowerMode {
            return value.to_owned();
        }
        let modes = PowerModes::read(root).ok();
        let mode = modes.and_then(|modes| modes.by_id(value.parse().ok()?).cloned());
        mode.map_or_else(|| value.to_owned(), |mode| mode.to_string())
    }
}

/// Changes the power mode. Where that needs a reboot, nvpmodel prompts for one; without standard input the prompt fails,
/// and the mode stays.
fn set_power_mode(root: &SysRoot, value: &str) -> Result<(), PlatformError> {
    let output = Tool::NVPMODEL.run(root, &["-m", value])?;
    let id: Option<u32> = value.parse().ok();
    let is_set = PowerModes::current(root).ok() == id;
    if !is_set && output.mentions_reboot() {
        return Err(PlatformError::RebootRequired {
            mode: Setting::PowerMode.describe(root, value),
            id: id.unwrap_or_default(),
        });
    }
    output.done().map(|_| ())
}
