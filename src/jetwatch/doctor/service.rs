//! systemd's unit of the daemon, and the journal that its log goes to.

use super::subject::Subject;
use crate::lines::Lines;

const JOURNAL: &str = "/run/systemd/journal/socket";

pub(super) fn examine(subject: &Subject, lines: &mut Lines) {
    if !subject.root.exists("/run/systemd/system") {
        lines.unknown("systemd", "it does not run here");
    } else {
        unit(subject, lines);
    }
    journal(subject, lines);
}

fn unit(subject: &Subject, lines: &mut Lines) {
    const WHAT: &str = "jetwatch.service";
    let unit = match subject.unit(WHAT) {
        Ok(unit) => unit,
        Err(error) => {
            subject.unreadable(lines, WHAT, &error);
            return;
        }
    };
    let state = format!(
        "{} ({}), started anew {} times by systemd",
        unit.active, unit.sub, unit.restarts
    );
    match unit.active.as_str() {
        _ if !unit.is_known => {
            lines.unknown(WHAT, "systemd does not know it: the package is not installed");
            return;
        }
        "active" => lines.ok(WHAT, &state),
        "failed" => lines.wrong(WHAT, &format!("{state}, the last time because of {}; see journalctl -u jetwatch -p warning -b, then sudo systemctl restart jetwatch", unit.result)),
        _ => lines.unknown(WHAT, &format!("{state}; start it with: sudo systemctl start jetwatch")),
    }
    match &unit.watchdog {
        Some(interval) => lines.ok(
            "watchdog",
            &format!("a daemon that makes no progress for {interval} is started anew"),
        ),
        None => lines.wrong(
            "watchdog",
            "off: WatchdogSec= is set to nothing in a drop-in; see systemctl cat jetwatch",
        ),
    }
}

fn journal(subject: &Subject, lines: &mut Lines) {
    const WHAT: &str = "journal";
    if !subject.root.exists(JOURNAL) {
        lines.unknown(
            WHAT,
            &format!(
                "{JOURNAL} is not there: journald does not run, and the log goes to the terminal"
            ),
        );
        return;
    }
    let settings = subject.root.text("/etc/systemd/journald.conf");
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
        "auto" => subject.root.exists("/var/log/journal"),
        _ => false,
    };
    match is_kept {
        true => lines.ok(WHAT, "kept over a restart of the machine, in /var/log/journal"),
        false => lines.unknown(WHAT, "lost when the machine restarts; to keep it: sudo mkdir -p /var/log/journal && sudo systemctl restart systemd-journald"),
    }
    let interval = of("RateLimitIntervalSec").unwrap_or_else(|| "30s".to_owned());
    let burst = of("RateLimitBurst").unwrap_or_else(|| "10000".to_owned());
    match interval.as_str() == "0" || burst == "0" {
        true => lines.ok("rate of the journal", "without limit"),
        false => lines.ok("rate of the journal", &format!("up to {burst} lines of one service in {interval}; the daemon writes some in a minute")),
    }
}
