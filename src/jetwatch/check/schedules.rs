// SPDX-License-Identifier: Apache-2.0
//! What the schedules of a configuration say now, for `jetwatch check`.

use std::time::SystemTime;

use jetwatch_config::Config;
use jetwatch_doctor::CheckReport;

/// Reports each schedule: those with names, and those of sources and rules.
pub(super) fn check(config: &Config, now: SystemTime, report: &mut CheckReport) {
    for named in &config.schedules {
        let what = format!("schedule {}", named.name);
        report.ok(&what, &named.schedule.describe(now));
    }
    for source in &config.sources {
        if let Some(schedule) = &source.schedule {
            let text = format!("detection: {}", schedule.describe(now));
            report.ok(&format!("source {}", source.name), &text);
        }
        for (rule, schedule) in source.rules.names().zip(source.rules.schedules()) {
            if let Some(schedule) = schedule {
                let text = format!("rule {rule}: {}", schedule.describe(now));
                report.ok(&format!("source {}", source.name), &text);
            }
        }
    }
}
