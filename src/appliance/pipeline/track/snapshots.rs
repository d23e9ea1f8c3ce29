// SPDX-License-Identifier: Apache-2.0
//! What the tracking stage does for snapshots: it passes on the steps of tracks and the images, and publishes while the thread
//! ends.

use std::sync::Arc;

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use jetwatch_publish::track_identity;
use jetwatch_types::{BudgetedImage, FrameMeta, SourceId};

use super::{ControlMessage, TrackStage};

/// Longest wait at the end for snapshots to be written.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval at which the end of the thread is looked for.
const END_INTERVAL: Duration = Duration::from_millis(5);

impl TrackStage {
    /// Passes the steps of tracks of a source to its snapshots; before they are published.
    pub(super) fn note_track_steps(&mut self, id: SourceId) {
        let source = &mut self.sources[id.index()];
        if let Some(snapshots) = self.snapshots.as_mut().filter(|_| source.keeps_snapshots) {
            if !source.events.is_empty() {
                let limits = self.sinks.iter().map(|sink| sink.max_payload_bytes());
                snapshots.limit_published(limits.min().unwrap_or(usize::MAX));
            }
            let (events, name) = (&source.events, source.name.as_str());
            snapshots.on_events(id, events, &mut source.snapshot_ids, |event| {
                track_identity(event.started_at, name, event.after.id)
            });
        }
    }

    /// Offers the image of a frame to the snapshots, which take it where it shows a track better than before.
    pub(super) fn offer_image(&mut self, meta: &FrameMeta, image: &mut Option<Arc<BudgetedImage>>) {
        let source = &self.sources[meta.source.index()];
        if let Some(snapshots) = self.snapshots.as_mut().filter(|_| source.keeps_snapshots) {
            snapshots.on_frame(meta, &source.name, &source.visible_tracks, image);
        }
    }

    /// Publishes what the snapshots of the last tracks give, until all are written.
    pub(super) fn end_snapshots(&mut self, control: &Receiver<ControlMessage>) {
        let Some(snapshots) = self.snapshots.take() else {
            return;
        };
        let ending = snapshots.end();
        let until = Instant::now() + END_TIMEOUT;
        loop {
            let has_ended = ending.is_finished();
            match control.recv_timeout(END_INTERVAL) {
                Ok(message) => {
                    self.publish_control(message);
                    continue;
                }
                // No other sender is left; the thread may still write.
                Err(RecvTimeoutError::Disconnected) if !has_ended => {
                    std::thread::sleep(END_INTERVAL);
                }
                Err(_) => {}
            }
            if has_ended {
                break;
            }
            if Instant::now() >= until {
                log::warn!("the snapshots of the last tracks are not all written yet");
                break;
            }
        }
        let report = ending.report();
        log::info!(
            files = report.files, failed = report.failed, skipped = report.skipped;
            "snapshots"
        );
    }
}
