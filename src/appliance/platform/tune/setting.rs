//! The settings one by one: what each is now, what it may be, and how it is made. Values are texts of one form each.

use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::command::Tool;
use super::super::{PlatformError, PowerModes, SysRoot};
use super::{clocks, fan};

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// Longest that a setting may take to show after its tool has ended: the fan's daemon has to start first.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often is looked meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What can be set, in the order in which it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// nvpmodel's mode; its value is the mode's number.
    PowerMode,
    /// Whether jetson_clocks holds the clocks; `max` or `free`.
    Clocks,
    /// nvfancontrol's profile; its value is the profile's name.
    #[serde(rename = "fan_profile", alias = "fan")]
    Fan,
    /// `kernel.perf_event_paranoid`; its value is a number.
    PerfEventParanoid,
}

impl Setting {
    /// All, in the order in which they are made.
    pub(super) const ALL: [Self; 4] = [
        Self::PowerMode,
        Self::Clocks,
        Self::Fan,
        Self::PerfEventParanoid,
    ];

    /// Its key in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PowerMode => "power_mode",
            Self::Clocks => "clocks",
            Self::Fan => "fan_profile",
            Self::PerfEventParanoid => "perf_event_paranoid",
        }
    }

    /// Its value now.
    ///
    /// # Errors
    /// This machine does not have it, or does not tell.
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
                        why: "this kernel has no perf events, so leave perf_event_paranoid out of the configuration",
                    })
            }
        }
    }

    /// The value that a user's word stands for.
    ///
    /// # Errors
    /// This machine does not have it.
    pub(super) fn resolve(self, root: &SysRoot, wanted: &str) -> Result<String, PlatformError> {
        match self {
            Self::PowerMode => {
                let modes = match PowerModes::read(root) {
                    // Without the tool there is no list either, and the tool is what is to be installed.
                    Err(PlatformError::Missing { .. }) if self.check_tools(root).is_err() => {
                        return self.check_tools(root).map(|()| String::new());
                    }
                    modes => modes?,
                };
                Ok(modes.find(wanted)?.id.to_string())
            }
            Self::Clocks => {
                self.check_tools(root)?;
                Ok(wanted.to_owned())
            }
            Self::Fan => fan::resolve(root, wanted),
            Self::PerfEventParanoid => Ok(wanted.to_owned()),
        }
    }

    /// Whether the tools are there that make it.
    ///
    /// # Errors
    /// One is not.
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

    /// Makes it so. That it is so is seen by [`verify`](Self::verify).
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

    /// Reads back what was set.
    ///
    /// # Errors
    /// It is something else.
    pub(super) fn verify(self, root: &SysRoot, value: &str) -> Result<(), PlatformError> {
        let started = Instant::now();
        loop {
            let real = self.current(root)?;
            if real == value {
                return Ok(());
            }
            // Only the fan's daemon needs time.
            if self != Self::Fan || started.elapsed() > SETTLE_TIMEOUT {
                return Err(PlatformError::NotApplied {
                    wanted: self.describe(root, value),
                    real: self.describe(root, &real),
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

    /// Makes it again what it was. Clocks are given back from their store even when they look free: they may be half so.
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

    /// A value in words.
    pub(super) fn describe(self, root: &SysRoot, value: &str) -> String {
        if self != Self::PowerMode {
            return value.to_owned();
        }
        let modes = PowerModes::read(root).ok();
        let mode = modes.and_then(|modes| modes.by_id(value.parse().ok()?).cloned());
        mode.map_or_else(|| value.to_owned(), |mode| mode.to_string())
    }
}

/// Changes the power mode. Where that needs a reboot, nvpmodel asks for one; without standard input it gets no answer, and
/// the mode stays.
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
