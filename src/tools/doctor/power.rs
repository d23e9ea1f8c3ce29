// SPDX-License-Identifier: Apache-2.0
//! Settings of the machine compared with the configuration, and causes of throttling.

use super::check_report::CheckReport;
use super::context::{DoctorContext, NO_JETSON};
use jetwatch_config::{ClockTuning, TuneConfig};
use jetwatch_platform::throttling::capped_gpu;
use jetwatch_platform::tune::{Clocks, DesiredSettings, StepState, plan};
use jetwatch_platform::{PowerModes, SensorSnapshot};

pub(super) fn run(context: &DoctorContext, report: &mut CheckReport) {
    settings(context, report);
    let readings = SensorSnapshot::read(&context.root, &context.machine);
    let mut causes = readings.throttled();
    if causes.is_empty() {
        let observed = readings.throttles.len() + readings.rails.len();
        match observed {
            0 if !context.machine.is_jetson() => report.not_applicable("throttling", NO_JETSON),
            0 => report.unknown("throttling", "this machine reports none"),
            _ => report.ok("throttling", "nothing slows the machine down now"),
        }
    }
    causes.sort();
    for cause in causes {
        report.failed("throttling", &format!("{cause}; check the cooling, the power supply and the power mode (`jetwatch tune status`)"));
    }
    for counter in &readings.over_current {
        let what = format!("over-current {}", counter.name);
        match counter.count {
            0 => report.ok(&what, "never since the machine started"),
            count => report.unknown(&what, &format!("{count} times since the machine started; if it continues, use a stronger power supply or a lower power mode")),
        }
    }
    if let Some(gpu) = capped_gpu(&readings) {
        let mhz = |hz: Option<u64>| hz.unwrap_or_default() / 1_000_000;
        let mode = PowerModes::current(&context.root).ok();
        let mode = mode.map_or_else(String::new, |mode| format!(" {mode}"));
        report.ok(
            "clock of the GPU",
            &format!(
                "held at {} MHz by the power mode{mode}; its highest is {} MHz",
                mhz(gpu.max_hz),
                mhz(gpu.hardware_hz)
            ),
        );
    }
    for unreadable in &readings.unreadable {
        context.unreadable(report, "readings", &unreadable.reason);
    }
}

fn settings(context: &DoctorContext, report: &mut CheckReport) {
    let Some(config) = context.config() else {
        report.unknown("settings", context.without_config());
        return;
    };
    let steps = plan(&context.root, &desired_settings(&config.tune));
    if steps.is_empty() {
        report.ok("settings", "the configuration has none below `tune`");
    }
    for step in steps {
        let what = format!("setting {}", step.setting.name());
        let real = step.real.as_deref().unwrap_or("unknown");
        match step.state {
            StepState::Right => report.ok(&what, real),
            StepState::Differs => report.failed(
                &what,
                &format!("{real}, wanted {}: sudo jetwatch tune apply", step.wanted),
            ),
            // Some settings are readable only by root.
            StepState::Refused(reason) if step.real.is_none() && !context.is_root => {
                context.unreadable(report, &what, &reason);
            }
            StepState::Refused(reason) => report.failed(&what, &reason),
        }
    }
}

/// The settings of the machine that a configuration requests.
pub fn desired_settings(config: &TuneConfig) -> DesiredSettings {
    DesiredSettings {
        perf_event_paranoid: config.perf_event_paranoid,
        power_mode: config.power_mode.clone(),
        clocks: match config.clocks {
            ClockTuning::Leave => None,
            ClockTuning::Max => Some(Clocks::Max),
        },
        fan_profile: config.fan_profile.clone(),
    }
}
