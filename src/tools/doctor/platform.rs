// SPDX-License-Identifier: Apache-2.0
//! The machine itself: model, memory, disks and clock.

use std::path::Path;

use rustix::fs::statvfs;

use super::check_report::CheckReport;
use super::context::DoctorContext;
use jetwatch_config::ENGINES_FOLDER;
use jetwatch_platform::Memory;
use jetwatch_schedule::Zone;

/// Free memory below which the daemon and its network may not fit, in MiB.
pub(super) const MIN_MEMORY: u64 = 400;

/// Free space below which an engine, messages or logs may not fit, in MiB.
pub(super) const MIN_DISK: u64 = 500;

pub(super) fn run(context: &DoctorContext, report: &mut CheckReport) {
    let machine = &context.machine;
    report.ok(
        "machine",
        &format!("{} ({})", machine.describe(), std::env::consts::ARCH),
    );
    for note in &machine.notes {
        report.unknown("machine", note);
    }
    match context.root.text("/proc/sys/kernel/osrelease") {
        Ok(Some(release)) => report.ok("kernel", &release),
        Ok(None) => report.unknown("kernel", "/proc/sys/kernel/osrelease does not exist"),
        Err(error) => report.unknown("kernel", &error.to_string()),
    }
    memory(context, report);
    let engines = context.config().map_or_else(
        || ENGINES_FOLDER.into(),
        |config| config.detector.tensorrt.engines.clone(),
    );
    disk(context, report, "disk for state and engines", &engines);
    disk(
        context,
        report,
        "disk for caches",
        Path::new("/var/cache/jetwatch"),
    );
    clock(context, report);
    time_zones(report);
}

fn memory(context: &DoctorContext, report: &mut CheckReport) {
    match Memory::read(&context.root) {
        Ok(Some(memory)) => {
            let [total, free] = [memory.total, memory.available].map(|bytes| bytes >> 20);
            let output = format!("{free} MiB of {total} MiB are free");
            if free < MIN_MEMORY {
                let advice = format!(
                    "{output}, expected {MIN_MEMORY}: end other programs, or the desktop (`sudo systemctl set-default multi-user.target`)"
                );
                report.failed("memory", &advice);
            } else {
                report.ok("memory", &output);
            }
        }
        _ => report.unknown("memory", "/proc/meminfo does not contain it"),
    }
}

/// Checks the free space of the file system of a folder, which may not exist yet.
fn disk(context: &DoctorContext, report: &mut CheckReport, what: &str, folder: &Path) {
    let wanted = match folder.to_str() {
        Some(text) => context.root.path(text),
        None => folder.to_owned(),
    };
    let Some(there) = wanted.ancestors().find(|folder| folder.is_dir()) else {
        report.unknown(what, &format!("{} does not exist", wanted.display()));
        return;
    };
    match statvfs(there) {
        Ok(space) => {
            let free = (space.f_bavail * space.f_frsize) >> 20;
            let output = format!("{free} MiB are free at {}", there.display());
            if free < MIN_DISK {
                report.failed(what, &format!("{output}, expected {MIN_DISK}: remove unneeded files, such as old engines (`jetwatch engine list`)"));
            } else {
                report.ok(what, &output);
            }
        }
        Err(error) => {
            context.unreadable(report, what, &format!("{}: {error}", there.display()));
        }
    }
}

/// Checks that schedules can be kept: they need the zones of the machine.
fn time_zones(report: &mut CheckReport) {
    const WHAT: &str = "time zones";
    match (Zone::system(), Zone::names().len()) {
        (_, 0) => report.unknown(
            WHAT,
            "there are none in /usr/share/zoneinfo: schedules can use UTC only; install them with: sudo apt install tzdata",
        ),
        (Ok(zone), count) => report.ok(WHAT, &format!("{count}, the system is in {zone}")),
        (Err(error), _) => report.failed(WHAT, &error.to_string()),
    }
}

/// Checks that the clock is synchronized: messages contain its time.
fn clock(context: &DoctorContext, report: &mut CheckReport) {
    const WHAT: &str = "clock";
    if context.root.exists("/run/systemd/timesync/synchronized") {
        report.ok(WHAT, "synchronized by systemd-timesyncd");
    } else if context.root.exists("/run/chrony/chronyd.pid")
        || context.root.exists("/run/chronyd.pid")
    {
        report.ok(WHAT, "kept by chrony; see `chronyc tracking`");
    } else if context.root.exists("/run/systemd/timesync") {
        report.failed(WHAT, "not synchronized: times in messages may be wrong, and certificates of brokers rejected; see `timedatectl timesync-status`");
    } else {
        report.unknown(
            WHAT,
            "neither systemd-timesyncd nor chrony runs; see `timedatectl`",
        );
    }
}
