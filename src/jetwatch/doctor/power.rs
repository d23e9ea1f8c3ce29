//! Whether the machine is set as the configuration wants it, and what slows it down.

use super::subject::Subject;
use crate::lines::Lines;
use crate::tune::wanted;
use jetwatch_platform::throttling::held_gpu;
use jetwatch_platform::tune::{StepState, plan};
use jetwatch_platform::{PowerModes, Readings};

pub(super) fn examine(subject: &Subject, lines: &mut Lines) {
    settings(subject, lines);
    let readings = Readings::read(&subject.root, &subject.machine);
    let mut causes = readings.throttled();
    if causes.is_empty() {
        let seen = readings.throttles.len() + readings.rails.len();
        match seen {
            0 => lines.unknown("throttling", "this machine tells of none"),
            _ => lines.ok("throttling", "nothing slows the machine down now"),
        }
    }
    causes.sort();
    for cause in causes {
        lines.wrong("throttling", &format!("{cause}; see to the cooling, the power supply and the power mode (`jetwatch tune status`)"));
    }
    for counter in &readings.over_current {
        let what = format!("over-current {}", counter.name);
        match counter.count {
            0 => lines.ok(&what, "never since the machine started"),
            count => lines.unknown(&what, &format!("{count} times since the machine started; a stronger power supply or a lower power mode helps, where it goes on")),
        }
    }
    if let Some(gpu) = held_gpu(&readings) {
        let mhz = |hz: Option<u64>| hz.unwrap_or_default() / 1_000_000;
        let mode = PowerModes::current(&subject.root).ok();
        let mode = mode.map_or_else(String::new, |mode| format!(" {mode}"));
        lines.ok(
            "clock of the GPU",
            &format!(
                "held at {} MHz by the power mode{mode}; its highest is {} MHz",
                mhz(gpu.max_hz),
                mhz(gpu.hardware_hz)
            ),
        );
    }
    for unreadable in &readings.unreadable {
        subject.unreadable(lines, "readings", &unreadable.reason);
    }
}

fn settings(subject: &Subject, lines: &mut Lines) {
    let Some(config) = subject.config() else {
        lines.unknown("settings", subject.without_config());
        return;
    };
    let steps = plan(&subject.root, &wanted(&config.tune));
    if steps.is_empty() {
        lines.ok("settings", "the configuration names none below `tune`");
    }
    for step in steps {
        let what = format!("setting {}", step.setting.name());
        let real = step.real.as_deref().unwrap_or("unknown");
        match step.state {
            StepState::Right => lines.ok(&what, real),
            StepState::Differs => lines.wrong(
                &what,
                &format!("{real}, wanted {}: sudo jetwatch tune apply", step.wanted),
            ),
            // Some of what is asked only root may see.
            StepState::Refused(reason) if step.real.is_none() && !subject.is_root => {
                subject.unreadable(lines, &what, &reason);
            }
            StepState::Refused(reason) => lines.wrong(&what, &reason),
        }
    }
}
