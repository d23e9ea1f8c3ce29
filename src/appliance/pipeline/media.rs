// SPDX-License-Identifier: Apache-2.0
//! The archive of a run: opens the folder of `record`, deletes by its rules on a thread named `retention`, and passes every change to
//! the tracking stage, which publishes it.
//!
//! A folder that cannot be used stops recording, not detection: it is logged, and `jetwatch check` says it before.

use std::time::{Duration, SystemTime};

use crossbeam_channel::Sender;

use jetwatch_archive::{Archive, ArchiveError, Item, Limits, MediaKind, Usage};
use jetwatch_config::{Config, RetentionConfig};
use jetwatch_publish::MediaStats;
use jetwatch_record::{PictureObserver, SnapshotSettings, Snapshots};
use jetwatch_types::Classes;

use super::PipelineError;
use super::clips::repair;
use super::shared::Shared;
use super::track::ControlMessage;

/// Time between two looks at what is to be deleted.
const INTERVAL: Duration = Duration::from_secs(5);

/// Files that are deleted at once at most; then more may be due.
const BATCH: usize = 100;

/// The limits of the archive that `retention` gives.
pub fn archive_limits(retention: &RetentionConfig) -> Limits {
    let days = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
    Limits {
        max_age: retention.max_age_days.map(days),
        max_bytes_per_source: retention.max_bytes_per_source,
        min_free_bytes: retention.min_free_bytes,
        min_free_percent: retention.min_free_percent,
    }
}

/// Opens the archive, where the configuration keeps anything. Its changes go to `control`.
pub(super) fn open(config: &Config, control: &Sender<ControlMessage>) -> Option<Archive> {
    if !config.has_media() {
        return None;
    }
    let folder = config.record.folder_path();
    let archive = Archive::closed(folder, archive_limits(&config.record.retention));
    if let Err(error) = reopen(&archive) {
        log::error!(
            "nothing is recorded: {error}; detection goes on, the folder is tried again every {} s",
            INTERVAL.as_secs()
        );
    }
    let control = control.clone();
    archive.observe(Box::new(move |item| {
        if is_published(item) {
            // Fails where the tracking stage has ended, and with it all sinks.
            let _ = control.send(ControlMessage::Media(Box::new(item.clone())));
        }
    }));
    Some(archive)
}

/// Opens an archive that is closed, after what a kill has left was repaired.
fn reopen(archive: &Archive) -> Result<(), ArchiveError> {
    repair(archive.folder());
    let healed = archive.reopen()?;
    if !healed.is_nothing() {
        log::warn!("{}: healed: {healed}", archive.folder().display());
    }
    Ok(())
}

/// Continuous recording has no messages, and a snapshot none before it is complete.
fn is_published(item: &Item) -> bool {
    use jetwatch_archive::MediaState;
    match item.kind {
        MediaKind::Continuous => false,
        MediaKind::Snapshot => item.state != MediaState::Recording,
        MediaKind::Clip => true,
    }
}

/// Starts the snapshots, where the configuration has them and there is an archive.
pub(super) fn start_snapshots(
    config: &Config,
    classes: &Classes,
    archive: Option<&Archive>,
    control: &Sender<ControlMessage>,
) -> Result<Option<Snapshots>, PipelineError> {
    let Some(archive) = archive.filter(|_| config.has_snapshots()) else {
        return Ok(None);
    };
    let snapshots = &config.record.snapshots;
    let settings = SnapshotSettings {
        quality: snapshots.quality,
        max_width: snapshots.max_width,
        labels: classes.labels().to_vec(),
        wanted: wanted_classes(classes, &snapshots.labels),
        draws: snapshots.drawn,
    };
    let observer = snapshots.mqtt.then(|| -> PictureObserver {
        let control = control.clone();
        Box::new(move |picture| {
            let _ = control.send(ControlMessage::Snapshot(picture));
        })
    });
    let started = Snapshots::start(archive.clone(), settings, observer)?;
    Ok(Some(started))
}

/// By class: whether it is among `labels`, which may be groups; all are where there are none.
fn wanted_classes(classes: &Classes, labels: &[String]) -> Vec<bool> {
    let is_named = |name: &str| labels.iter().any(|label| label == name);
    let count = u16::try_from(classes.labels().len()).unwrap_or(u16::MAX);
    (0..count)
        .map(|class| {
            labels.is_empty()
                || classes.label(class).is_some_and(is_named)
                || classes.group(class).is_some_and(is_named)
        })
        .collect()
}

/// The thread that deletes.
pub(super) struct Retention {
    pub(super) archive: Archive,
    pub(super) shared: Shared,
}

impl Retention {
    /// Runs until the stop.
    pub(super) fn run(self) {
        let mut was_full = false;
        let mut last_error = String::new();
        loop {
            while !self.archive.is_open() {
                if self.shared.stop.wait(INTERVAL) {
                    return;
                }
                match reopen(&self.archive) {
                    Ok(()) => log::info!(
                        "{} can be used: recording begins",
                        self.archive.folder().display()
                    ),
                    Err(error) => log::debug!("nothing is recorded: {error}"),
                }
            }
            // Before anything is deleted by what the index says.
            match self.archive.check() {
                Ok(true) => break,
                Ok(false) => log::error!(
                    "the index of {} is damaged: nothing is recorded until it is made again from the files, in {} s",
                    self.archive.folder().display(),
                    INTERVAL.as_secs()
                ),
                Err(error) => {
                    log::warn!("the index is not checked: {error}");
                    break;
                }
            }
        }
        loop {
            match self.step() {
                Ok(()) => last_error.clear(),
                Err(error) => {
                    let error = error.to_string();
                    if error != last_error {
                        log::error!("retention: {error}");
                        last_error = error;
                    }
                }
            }
            // Also where nothing could be deleted: the device may be full to its end.
            if let Ok(usage) = self.archive.usage(SystemTime::now()) {
                if usage.is_full != was_full {
                    was_full = usage.is_full;
                    log_full(&self.archive, was_full);
                }
                self.shared.stats.set_media(media_stats(&usage));
            }
            if self.shared.stop.wait(INTERVAL) {
                return;
            }
        }
    }

    fn step(&self) -> Result<(), ArchiveError> {
        loop {
            let removed = self.archive.enforce(SystemTime::now())?;
            self.archive.announce_removals()?;
            if let Some(first) = removed.first() {
                let bytes: u64 = removed.iter().map(|item| item.bytes).sum();
                let reason = first.reason.map_or("", |reason| reason.word());
                log::info!(files = removed.len(), bytes, reason; "deleted from {}", self.archive.folder().display());
            }
            if removed.len() < BATCH || self.shared.stop.is_stopped() {
                break;
            }
        }
        Ok(())
    }
}

fn log_full(archive: &Archive, is_full: bool) {
    let folder = archive.folder().display();
    match is_full {
        true => log::error!(
            "{folder} has no space left and nothing that may be deleted: recording stops, detection goes on; unpin or delete \
             files, or change record.retention"
        ),
        false => log::info!("{folder} has space again: recording goes on"),
    }
}

fn media_stats(usage: &Usage) -> MediaStats {
    MediaStats {
        snapshot_bytes: usage.bytes_of(MediaKind::Snapshot),
        clip_bytes: usage.bytes_of(MediaKind::Clip),
        continuous_bytes: usage.bytes_of(MediaKind::Continuous),
        pinned_bytes: usage.pinned_bytes,
        free_bytes: usage.space.free,
        days_left: usage.days_left,
        is_full: usage.is_full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::LabelGroup;

    #[test]
    fn labels_and_groups_select_classes() {
        let labels = ["person", "car", "bus"].map(str::to_owned);
        let group = LabelGroup {
            name: "vehicle".to_owned(),
            labels: labels[1..].to_vec(),
        };
        let classes = Classes::new(&labels, &[group]);
        let wanted = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            wanted_classes(&classes, &names)
        };
        assert_eq!(wanted(&[]), [true; 3]);
        assert_eq!(wanted(&["vehicle"]), [false, true, true]);
        assert_eq!(wanted(&["person", "bus"]), [true, false, true]);
    }
}
