//! The machine itself: what it is, its memory, its disks and its clock.

use std::path::Path;

use rustix::fs::statvfs;

use super::subject::Subject;
use crate::lines::Lines;
use jetwatch_config::ENGINES_FOLDER;

/// Free memory below which the daemon and its network may not fit, in MiB.
const LEAST_MEMORY: u64 = 400;

/// Free space below which an engine, messages or logs may not fit, in MiB.
const LEAST_DISK: u64 = 500;

pub(super) fn examine(subject: &Subject, lines: &mut Lines) {
    let machine = &subject.machine;
    lines.ok(
        "machine",
        &format!("{} ({})", machine.describe(), std::env::consts::ARCH),
    );
    for note in &machine.notes {
        lines.unknown("machine", note);
    }
    match subject.root.text("/proc/sys/kernel/osrelease") {
        Ok(Some(release)) => lines.ok("kernel", &release),
        Ok(None) => lines.unknown("kernel", "/proc/sys/kernel/osrelease is not there"),
        Err(error) => lines.unknown("kernel", &error.to_string()),
    }
    memory(subject, lines);
    let engines = subject.config().map_or_else(
        || ENGINES_FOLDER.into(),
        |config| config.detector.tensorrt.engines.clone(),
    );
    disk(subject, lines, "disk for state and engines", &engines);
    disk(
        subject,
        lines,
        "disk for caches",
        Path::new("/var/cache/jetwatch"),
    );
    clock(subject, lines);
}

fn memory(subject: &Subject, lines: &mut Lines) {
    let text = subject.root.text("/proc/meminfo");
    let text = text.ok().flatten().unwrap_or_default();
    let mib = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib / 1024)
    };
    match (mib("MemTotal:"), mib("MemAvailable:")) {
        (Some(total), Some(free)) => {
            let said = format!("{free} MiB of {total} MiB are free");
            if free < LEAST_MEMORY {
                let advice = format!(
                    "{said}, expected {LEAST_MEMORY}: end other programs, or the desktop (`sudo systemctl set-default multi-user.target`)"
                );
                lines.wrong("memory", &advice);
            } else {
                lines.ok("memory", &said);
            }
        }
        _ => lines.unknown("memory", "/proc/meminfo does not tell"),
    }
}

/// Looks at the file system of a folder, or of what will hold it.
fn disk(subject: &Subject, lines: &mut Lines, what: &str, folder: &Path) {
    let wanted = match folder.to_str() {
        Some(text) => subject.root.path(text),
        None => folder.to_owned(),
    };
    let Some(there) = wanted.ancestors().find(|folder| folder.is_dir()) else {
        lines.unknown(what, &format!("{} is not there", wanted.display()));
        return;
    };
    match statvfs(there) {
        Ok(space) => {
            let free = (space.f_bavail * space.f_frsize) >> 20;
            let said = format!("{free} MiB are free at {}", there.display());
            if free < LEAST_DISK {
                lines.wrong(what, &format!("{said}, expected {LEAST_DISK}: remove what is not needed, such as old engines (`jetwatch engine list`)"));
            } else {
                lines.ok(what, &said);
            }
        }
        Err(error) => {
            subject.unreadable(lines, what, &format!("{}: {error}", there.display()));
        }
    }
}

/// Times in messages are those of the machine's clock.
fn clock(subject: &Subject, lines: &mut Lines) {
    const WHAT: &str = "clock";
    if subject.root.exists("/run/systemd/timesync/synchronized") {
        lines.ok(WHAT, "synchronized by systemd-timesyncd");
    } else if subject.root.exists("/run/chrony/chronyd.pid")
        || subject.root.exists("/run/chronyd.pid")
    {
        lines.ok(WHAT, "kept by chrony; `chronyc tracking` says how well");
    } else if subject.root.exists("/run/systemd/timesync") {
        lines.wrong(WHAT, "not synchronized: times in messages may be wrong, and certificates of brokers refused; see `timedatectl timesync-status`");
    } else {
        lines.unknown(
            WHAT,
            "neither systemd-timesyncd nor chrony is seen; see `timedatectl`",
        );
    }
}
