// SPDX-License-Identifier: Apache-2.0
//! `record` in `jetwatch check`: its folder, as `run` opens it, and the space on its device.

use jetwatch_archive::Archive;
use jetwatch_config::Config;
use jetwatch_pipeline as pipeline;
use jetwatch_record as record;

use super::CheckReport;

/// The folder of `record`, as `run` opens it.
pub(super) fn check(config: &Config, report: &mut CheckReport) {
    if !config.has_media() {
        return;
    }
    let folder = config.record.folder_path();
    let min_free = |space| pipeline::archive_limits(&config.record.retention).min_free(space);
    let mib = |bytes: u64| bytes >> 20;
    match Archive::probe(folder) {
        Ok(space) if space.free < min_free(space) => report.unknown(
            "record",
            &format!(
                "{} has {} MiB free, fewer than the {} MiB of record.retention: files will be deleted, or nothing recorded",
                folder.display(),
                mib(space.free),
                mib(min_free(space))
            ),
        ),
        Ok(space) => report.ok(
            "record",
            &format!("{}, {} MiB free", folder.display(), mib(space.free)),
        ),
        Err(error) => report.failed("record", &format!("{error}; nothing would be recorded")),
    }
}

/// Who encodes the pictures of tracks and of the page, where there are any.
pub(super) fn check_pictures(config: &Config, report: &mut CheckReport) {
    if !config.has_snapshots() && config.web.listen.is_none() {
        return;
    }
    let text = match record::picture_element() {
        Some(element) => format!("large ones are encoded by {element}, others by the program"),
        None => "encoded by the program".to_owned(),
    };
    report.ok("pictures", &text);
}
