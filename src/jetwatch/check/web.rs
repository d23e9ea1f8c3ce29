// SPDX-License-Identifier: Apache-2.0
//! Checks that the page can be offered as `jetwatch run` would offer it.

use jetwatch_config::Config;
use jetwatch_doctor::CheckReport;
use jetwatch_platform::SysRoot;
use jetwatch_web::WebError;

use super::is_daemon_running;

pub(super) fn check(config: &Config, root: &SysRoot, report: &mut CheckReport) {
    const WHAT: &str = "web";
    for line in jetwatch_web::check(&config.web) {
        match line {
            Ok(text) => report.ok(WHAT, &text),
            Err(WebError::PortInUse { address }) if is_daemon_running(root) => {
                let text = format!("{address} is in use while a jetwatch daemon runs");
                report.ok(WHAT, &text);
            }
            Err(error) => report.failed(WHAT, &error.to_string()),
        }
    }
}
