// SPDX-License-Identifier: Apache-2.0
//! Memory and disks of the box: whether spool, engines, recording and the video in memory fit.

use std::path::Path;

use jetwatch_archive::Space;
use jetwatch_config::{Config, Durability};
use jetwatch_pipeline as pipeline;

use super::super::{Disk, Facts};
use crate::CheckReport;
use crate::platform::{MIN_DISK, MIN_MEMORY};

pub(super) fn check(config: &Config, facts: &Facts, report: &mut CheckReport) {
    check_memory(config, facts, report);
    engines(config, facts, report);
    spool(config, facts, report);
    record(config, facts, report);
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// The memory of a daemon, and the video before a clip of each source.
fn check_memory(config: &Config, facts: &Facts, report: &mut CheckReport) {
    const WHAT: &str = "memory";
    let Some(memory) = facts.memory else {
        return report.unknown(WHAT, "the facts do not contain it");
    };
    let clips = config
        .sources
        .iter()
        .filter(|source| config.record.has_clips(source));
    let rings = clips.count() as u64 * mib(config.record.clips.ring_bytes);
    let [total, free] = [memory.total_bytes, memory.available_bytes].map(mib);
    let needed = MIN_MEMORY + rings;
    let text = match rings {
        0 => format!("{free} MiB of {total} MiB were free"),
        _ => {
            format!("{free} MiB of {total} MiB were free, {rings} are for record.clips.ring_bytes")
        }
    };
    match free < needed {
        true => report.failed(
            WHAT,
            &format!("{text}, expected {needed}: end other programs on the box, or the desktop"),
        ),
        false => report.ok(WHAT, &text),
    }
}

/// The file system of a folder; a result where the facts have none.
fn disk_of<'f>(
    what: &str,
    folder: &Path,
    facts: &'f Facts,
    report: &mut CheckReport,
) -> Option<&'f Disk> {
    let found = facts.disk_of(folder);
    if found.is_none() {
        let text = format!("the facts have no file system for {}", folder.display());
        report.unknown(what, &text);
    }
    found
}

fn engines(config: &Config, facts: &Facts, report: &mut CheckReport) {
    const WHAT: &str = "disk for state and engines";
    let folder = &config.detector.tensorrt.engines;
    let Some(disk) = disk_of(WHAT, folder, facts, report) else {
        return;
    };
    let text = format!(
        "{} MiB were free at {}",
        mib(disk.free_bytes),
        disk.mount.display()
    );
    match mib(disk.free_bytes) < MIN_DISK {
        true => report.failed(
            WHAT,
            &format!("{text}, expected {MIN_DISK}: remove unneeded files"),
        ),
        false => report.ok(WHAT, &text),
    }
}

fn spool(config: &Config, facts: &Facts, report: &mut CheckReport) {
    const WHAT: &str = "spool";
    let Some(mqtt) = &config.publish.mqtt else {
        return;
    };
    if mqtt.spool.durability == Durability::Process {
        return;
    }
    let folder = mqtt.spool.state_path(&mqtt.client_id);
    let Some(disk) = disk_of(WHAT, &folder, facts, report) else {
        return;
    };
    let text = format!(
        "max_bytes is {} MiB, {} of {} MiB were free at {}",
        mib(mqtt.spool.max_bytes),
        mib(disk.free_bytes),
        mib(disk.total_bytes),
        disk.mount.display()
    );
    if disk.kind == "tmpfs" {
        let advice = "it is a tmpfs, which loses messages with the power: name a folder on a device in spool.state_folder";
        report.failed(WHAT, &format!("{}: {advice}", folder.display()));
    } else if mqtt.spool.max_bytes > disk.total_bytes {
        report.failed(WHAT, &format!("{text}: lower publish.mqtt.spool.max_bytes"));
    } else if mqtt.spool.max_bytes > disk.free_bytes {
        // Messages that wait already are part of both.
        report.unknown(
            WHAT,
            &format!("{text}: a long outage may fill the disk first"),
        );
    } else {
        report.ok(WHAT, &text);
    }
}

fn record(config: &Config, facts: &Facts, report: &mut CheckReport) {
    const WHAT: &str = "record";
    if !config.has_media() {
        return;
    }
    let folder = config.record.folder_path();
    let Some(disk) = disk_of(WHAT, folder, facts, report) else {
        return;
    };
    let space = Space {
        free: disk.free_bytes,
        total: disk.total_bytes,
    };
    let limits = pipeline::archive_limits(&config.record.retention);
    let reserve = limits.min_free(space);
    let text = format!(
        "{}: {} of {} MiB were free at {}, {} stay free by record.retention",
        folder.display(),
        mib(space.free),
        mib(space.total),
        disk.mount.display(),
        mib(reserve)
    );
    let kept = limits.max_bytes_per_source;
    let kept = kept.map(|bytes| bytes.saturating_mul(config.sources.len() as u64));
    if reserve >= space.total {
        report.failed(WHAT, &format!("{text}: nothing would be recorded"));
    } else if space.free < reserve {
        report.unknown(
            WHAT,
            &format!("{text}: files will be deleted, or nothing recorded"),
        );
    } else if kept.is_some_and(|kept| kept > space.total - reserve) {
        let advice =
            "max_bytes_per_source of all sources is more than that: files are deleted earlier";
        report.unknown(WHAT, &format!("{text}; {advice}"));
    } else {
        report.ok(WHAT, &text);
    }
}
