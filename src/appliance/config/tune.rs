// SPDX-License-Identifier: Apache-2.0
//! `tune`: settings of the machine.

use super::Words;
use super::section::Section;

/// Settings of the machine, for `jetwatch tune`. `None`: left as it is.
///
/// Which values this machine has is known only there, and is checked by `jetwatch tune`.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default)]
pub struct TuneConfig {
    /// Power mode, as /etc/nvpmodel.conf lists them. Default: left as it is.
    #[key(text = "a power mode of this machine: its name, or its number in quotes, such as \"8\"")]
    pub power_mode: Option<String>,
    /// max: jetson_clocks holds the maximum of the power mode.
    #[key(default = "leave")]
    pub clocks: ClockTuning,
    /// Fan profile, as /etc/nvfancontrol.conf lists them. Default: left as it is.
    #[key(text = "a profile of this machine's fan, such as cool or quiet")]
    pub fan_profile: Option<String>,
    /// Who may profile: kernel.perf_event_paranoid. Default: left as it is.
    #[key(range = -1..=4)]
    pub perf_event_paranoid: Option<i32>,
    /// Restore all settings when the unit jetwatch-tune stops.
    #[key(default = false)]
    pub restore_on_stop: bool,
}

/// What to do about the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Words)]
pub enum ClockTuning {
    /// The system scales them as it likes.
    #[default]
    Leave,
    /// They are held at the maximum that the power mode allows.
    Max,
}
