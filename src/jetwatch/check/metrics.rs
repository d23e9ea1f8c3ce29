// SPDX-License-Identifier: Apache-2.0
//! Checks that metrics can be offered as `jetwatch run` would offer them.

use jetwatch_config::Config;
use jetwatch_doctor::CheckReport;
use jetwatch_metrics::MetricsError;
use jetwatch_platform::SysRoot;

use super::is_daemon_running;

pub(super) fn check(config: &Config, root: &SysRoot, report: &mut CheckReport) {
    const WHAT: &str = "metrics";
    for line in jetwatch_metrics::check(&config.metrics) {
        match line {
            Ok(text) => report.ok(WHAT, &text),
            Err(error) if error.is_units_alone() => report.unknown(WHAT, &error.to_string()),
            Err(MetricsError::PortInUse { address }) if is_daemon_running(root) => {
                let text = format!("{address} is in use while a jetwatch daemon runs");
                report.ok(WHAT, &text);
            }
            Err(error) => report.failed(WHAT, &error.to_string()),
        }
    }
}
