// SPDX-License-Identifier: Apache-2.0
//! Checks of outputs that need no connection. Called by `jetwatch check`.

use jetwatch_config::Config;
use jetwatch_doctor::CheckReport;
use jetwatch_publish as publish;

/// Checks that the file of JSON lines can be written.
pub(super) fn check_json_lines(config: &Config, report: &mut CheckReport) {
    let lines = config.publish.json_lines.as_ref();
    let Some(path) = lines.and_then(|lines| lines.path.as_ref()) else {
        return;
    };
    match publish::check_json_lines(path) {
        Ok(()) => report.ok("json_lines", &format!("{} can be written", path.display())),
        Err(error) => report.failed("json_lines", &error.to_string()),
    }
}

/// Checks what each webhook needs.
pub(super) fn check_webhooks(config: &Config, report: &mut CheckReport) {
    for webhook in &config.publish.webhooks {
        let subject = format!("webhook {}", webhook.name);
        match publish::check_webhook(webhook) {
            Ok(()) => report.ok(&subject, &format!("posts to {}", webhook.url.origin())),
            // Only the unit sees its credentials.
            Err(reason) if reason.contains("/run/credentials/") => {
                report.unknown(&subject, &reason)
            }
            Err(reason) => report.failed(&subject, &reason),
        }
    }
}
