// SPDX-License-Identifier: Apache-2.0
//! What takes the images of tracked frames: the recording, the pictures of the page, and the snapshots of tracks.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use jetwatch_publish::track_identity;
use jetwatch_record::{Overlay, Recording, RecordingEnd, SnapshotReport, Snapshots};
use jetwatch_telemetry::{OutputReport, thread_names};
use jetwatch_types::{BudgetedImage, FrameMeta, SourceId, SourceState};

use super::publisher::{ControlMessage, Publisher};
use super::source::TrackedSource;
use crate::web::Previews;

/// What snapshots and the page count.
const PICTURES: &str = "pictures";

/// Longest wait at the end for snapshots to be written.
const SNAPSHOTS_END_TIMEOUT: Duration = Duration::from_secs(3);

/// The consumers of images of a run.
#[derive(Default)]
pub(crate) struct FrameImages {
    pub(crate) recording: Option<Recording>,
    /// Pictures of the page.
    pub(crate) previews: Option<Arc<Previews>>,
    /// `None` where no pictures of tracks are kept.
    pub(crate) snapshots: Option<Snapshots>,
    /// Of the snapshots, once they have ended.
    pub(crate) snapshots_report: Option<SnapshotReport>,
}

impl FrameImages {
    pub(super) fn add_source(&mut self, id: SourceId, name: &str, overlay: Box<Overlay>) {
        if let Some(previews) = &self.previews {
            previews.add(id, name, overlay.clone());
        }
        if let Some(recording) = &mut self.recording {
            recording.add_source(id, name, overlay);
        }
    }

    pub(super) fn remove_source(&mut self, id: SourceId, name: &str) {
        if let Some(previews) = &self.previews {
            previews.remove(id, name);
        }
        if let Some(recording) = &mut self.recording {
            recording.remove_source(id);
        }
    }

    pub(super) fn set_state(&mut self, id: SourceId, state: SourceState) {
        if let Some(recording) = &mut self.recording {
            match state {
                SourceState::Offline => recording.set_offline(id),
                SourceState::Connecting | SourceState::Online => recording.set_online(id),
                // The last image of a file stays.
                SourceState::Ended => {}
            }
        }
    }

    /// Passes the events of a source to its snapshots, before they are published by `publisher`.
    pub(super) fn on_events(
        &mut self,
        id: SourceId,
        source: &mut TrackedSource,
        publisher: &Publisher,
    ) {
        if let Some(snapshots) = self.snapshots.as_mut().filter(|_| source.keeps_snapshots) {
            if !source.events.is_empty() {
                snapshots.limit_published(publisher.max_payload_bytes());
            }
            let (events, name) = (&source.events, source.info.name.as_str());
            snapshots.on_events(id, events, &mut source.snapshot_ids, |event| {
                track_identity(event.started_at, name, event.after.id)
            });
        } else if let Some(previews) = &self.previews {
            previews.on_events(id, &source.info.name, &source.events);
        }
    }

    /// Offers the image of a frame of `source` after it was tracked.
    pub(super) fn on_frame(
        &mut self,
        meta: &FrameMeta,
        source: &TrackedSource,
        image: Option<BudgetedImage>,
    ) {
        let (tracks, mut image) = (&source.visible_tracks, image.map(Arc::new));
        if let Some(previews) = &self.previews {
            previews.offer(meta, image.as_ref(), tracks);
        }
        if let Some(recording) = &mut self.recording {
            // It needs the images itself.
            recording.push(meta, image, tracks);
        } else if let Some(snapshots) = self.snapshots.as_mut().filter(|_| source.keeps_snapshots) {
            snapshots.on_frame(meta, &source.info.name, tracks, &mut image);
        }
    }

    /// Publishes what the snapshots of the last tracks give, until all are written.
    pub(super) fn end_snapshots(
        &mut self,
        control: &Receiver<ControlMessage>,
        publisher: &mut Publisher,
    ) {
        let Some(ending) = self.snapshots.take().map(Snapshots::end) else {
            return;
        };
        let has_ended = || ending.is_finished();
        if !publisher.publish_until(control, SNAPSHOTS_END_TIMEOUT, has_ended) {
            log::warn!("the snapshots of the last tracks are not all written yet");
        }
        let report = ending.report();
        self.snapshots_report = Some(report);
        log::info!(
            files = report.files, failed = report.failed, skipped = report.skipped;
            "snapshots"
        );
    }

    /// What the pictures did so far. The recording states its own figures.
    pub(super) fn outputs(&self) -> Vec<OutputReport> {
        let snapshots = self.snapshots_report.map(|report| OutputReport {
            name: thread_names::SNAPSHOT.to_owned(),
            items: PICTURES.to_owned(),
            accepted: report.files + report.failed + report.skipped,
            delivered: report.files,
            lost: report.failed + report.skipped,
            busy_ms: report.busy.as_secs_f64() * 1e3,
            ..OutputReport::default()
        });
        let page = self.previews.iter();
        let report = |previews: &Arc<Previews>| {
            let meter = previews.meter();
            meter.report(thread_names::WEB_PICTURES, PICTURES)
        };
        let page = page.map(report);
        snapshots.into_iter().chain(page).collect()
    }

    /// Completes the recording.
    pub(super) fn close(self) -> Option<RecordingEnd> {
        self.recording.map(Recording::close)
    }
}
