// SPDX-License-Identifier: Apache-2.0
//! The daemon's systemd unit, and the journal with its log.

use super::check_report::CheckReport;
use super::context::DoctorContext;

const JOURNAL: &str = "/run/systemd/journal/socket";

pub(super) fn run(context: &DoctorContext, report: &mut CheckReport) {
    if !context.root.exists("/run/systemd/system") {
        report.unknown("systemd", "not running on this machine");
    } else {
        unit(context, report);
    }
    journal(context, report);
}

fn unit(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "jetwatch.service";
    let unit = match context.unit(WHAT) {
        Ok(unit) => unit,
        Err(error) => {
            context.unreadable(report, WHAT, &error);
            return;
        }
    };
    let state = format!(
        "{} ({}), restarted {} times by systemd",
        unit.active, unit.sub, unit.restarts
    );
    match unit.active.as_str() {
        _ if !unit.is_known => {
            report.unknown(WHAT, "systemd does not know it: the package is not installed");
            return;
        }
        "active" => report.ok(WHAT, &state),
        "failed" => report.failed(WHAT, &format!("{state}, the last time because of {}; see journalctl -u jetwatch -p warning -b, then sudo systemctl restart jetwatch", unit.result)),
        _ => report.unknown(WHAT, &format!("{state}; start it with: sudo systemctl start jetwatch")),
    }
    match &unit.watchdog {
        Some(interval) => report.ok(
            "watchdog",
            &format!("a daemon that makes no progress for {interval} is restarted"),
        ),
        None => report.failed(
            "watchdog",
            "off: a drop-in sets WatchdogSec= to an empty value; see systemctl cat jetwatch",
        ),
    }
}

fn journal(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "journal";
    if !context.root.exists(JOURNAL) {
        report.unknown(
            WHAT,
            &format!(
                "{JOURNAL} does not exist: journald does not run, and the log goes to the terminal"
            ),
        );
        return;
    }
    let settings = context.root.text("/etc/systemd/journald.conf");
    let settings = settings.ok().flatten().unwrap_or_default();
    let of = |key: &str| {
        let lines = settings.lines().map(str::trim);
        let mut values =
            lines.filter_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
        values.next_back().map(|value| value.trim().to_owned())
    };
    let storage = of("Storage").unwrap_or_else(|| "auto".to_owned());
    let is_kept = match storage.as_str() {
        "persistent" => true,
        "auto" => context.root.exists("/var/log/journal"),
        _ => false,
    };
    match is_kept {
        true => report.ok(WHAT, "kept after a restart of the machine, in /var/log/journal"),
        false => report.unknown(WHAT, "lost when the machine restarts; to keep it: sudo mkdir -p /var/log/journal && sudo systemctl restart systemd-journald"),
    }
    let interval = of("RateLimitIntervalSec").unwrap_or_else(|| "30s".to_owned());
    let burst = of("RateLimitBurst").unwrap_or_else(|| "10000".to_owned());
    match interval.as_str() == "0" || burst == "0" {
        true => report.ok("rate of the journal", "without limit"),
        false => report.ok("rate of the journal", &format!("up to {burst} lines of one service in {interval}; the daemon writes a few per minute")),
    }
}
