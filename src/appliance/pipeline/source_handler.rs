// SPDX-License-Identifier: Apache-2.0
//! The [`FrameHandler`] of the daemon: frames go to the batcher, states to the tracking stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jetwatch_media::SourceStream;
use jetwatch_source::{Flow, FrameHandler};
use jetwatch_telemetry::{Stage, StopToken};
use jetwatch_types::{
    AccessUnit, AudioFormat, AudioUnit, Frame, FrameMeta, Image, SourceId, SourceState,
    StreamFormat,
};

use super::image_budgets::ImageBudgets;
use super::shared::Shared;
use super::track::{REMOVED_REASON, TrackInput};
use super::web::Previews;

/// Connects one source to the batcher and to the tracking stage.
pub(super) struct SourceHandler {
    pub(super) shared: Shared,
    /// Limits the full images that later stages keep.
    pub(super) image_budgets: Option<ImageBudgets>,
    /// Pictures of the page.
    pub(super) previews: Option<Arc<Previews>>,
    /// Whether the source is live; others wait for the later stages.
    pub(super) is_live: bool,
    /// Takes the encoded video; `None` where it is not recorded.
    pub(super) stream: Option<Arc<SourceStream>>,
    /// Ends this source.
    pub(super) stop: StopToken,
    /// Set once the source has ended without a failure.
    pub(super) has_ended: Arc<AtomicBool>,
}

impl SourceHandler {
    /// Waits while the recording has too many frames of files to draw.
    fn wait_for_consumers(&self) {
        if let Some(budgets) = self.image_budgets.as_ref().filter(|_| !self.is_live) {
            budgets.wait_for_room(&|| self.stop.is_stopped());
        }
    }
}

impl FrameHandler for SourceHandler {
    fn frame(&self, frame: Frame) -> Flow {
        let seq = frame.meta.seq;
        let _range = self
            .shared
            .recorder
            .range_with_payload(Stage::Enqueue, 1, seq);
        if !self.shared.batcher.is_detecting(frame.meta.source) {
            // The first of a session, or of a source that cannot skip.
            self.skipped(frame.meta, frame.full_image);
            return Flow::Continue;
        }
        self.wait_for_consumers();
        self.shared.batcher.push(frame)
    }

    fn should_skip(&self, source: SourceId) -> bool {
        let previews = self.previews.as_ref();
        if !self.shared.batcher.is_detecting(source) && previews.is_some_and(|p| p.is_due(source)) {
            // Its picture is wanted all the same.
            return false;
        }
        self.shared.batcher.should_skip(source)
    }

    fn wants_full_image(&self, source: SourceId) -> bool {
        let previews = self.previews.as_ref();
        previews.is_some_and(|previews| previews.request(source))
    }

    fn skipped(&self, meta: FrameMeta, full_image: Option<Image>) {
        self.wait_for_consumers();
        let full_image = full_image.zip(self.image_budgets.as_ref());
        let full_image = full_image.and_then(|(image, budgets)| budgets.keep(image, self.is_live));
        self.shared.batcher.push_skipped(meta, full_image);
    }

    fn stream_started(&self, _source: SourceId, format: StreamFormat) {
        if let Some(stream) = &self.stream {
            stream.start(format);
        }
    }

    fn access_unit(&self, _source: SourceId, unit: AccessUnit) {
        if let Some(stream) = &self.stream {
            stream.push(unit);
        }
    }

    fn audio_started(&self, _source: SourceId, format: AudioFormat) {
        if let Some(stream) = &self.stream {
            stream.start_sound(format);
        }
    }

    fn audio_unit(&self, _source: SourceId, unit: AudioUnit) {
        if let Some(stream) = &self.stream {
            stream.push_sound(unit);
        }
    }

    fn state_changed(&self, id: SourceId, state: SourceState, reason: Option<String>) {
        match state {
            SourceState::Online => {
                self.shared.batcher.set_running(id, true);
            }
            SourceState::Offline => {
                self.shared.batcher.set_running(id, false);
                self.shared.batcher.mark_discontinuity(id);
            }
            SourceState::Ended => {
                self.shared.batcher.set_running(id, false);
                self.has_ended.store(true, Ordering::Release);
            }
            // A file counts as running from its start; a camera that was offline still is.
            SourceState::Connecting => {}
        }
        let is_removed =
            state == SourceState::Ended && self.stop.is_stopped() && !self.shared.stop.is_stopped();
        let reason = match is_removed {
            true => Some(REMOVED_REASON.to_owned()),
            false => reason,
        };
        let message = TrackInput::SourceState { id, state, reason };
        let _ = self.shared.inputs.send(message);
    }

    fn ended(&self, id: SourceId) {
        self.shared.batcher.close(id);
        // The tracking stage may have processed the last result before the queue was closed.
        let _ = self.shared.inputs.send(TrackInput::QueueClosed { id });
    }
}
