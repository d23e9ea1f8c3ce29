// SPDX-License-Identifier: Apache-2.0
//! The interface through which a source delivers frames, states and its processing plan.

use jetwatch_types::{
    AccessUnit, AudioFormat, AudioUnit, Frame, FrameMeta, Image, SourceId, SourceState,
    StreamFormat,
};

use super::ProcessingPlan;

/// Whether the source should continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The source continues.
    Continue,
    /// The pipeline is stopping.
    Stop,
}

/// Receives everything that a source delivers. [`frame`](Self::frame), [`should_skip`](Self::should_skip) and
/// [`skipped`](Self::skipped) are called on the thread that delivers frames (GStreamer's streaming thread, or the supervisor
/// when there is none), the others on the supervisor's thread.
pub trait FrameHandler: Send + Sync {
    /// Receives a frame. May block (files) or drop an older frame (live sources).
    fn frame(&self, frame: Frame) -> Flow;

    /// Decides once, before the next frame is scaled or drawn, whether it skips inference. Called only when
    /// [`SourceContext::skipped_image`](super::SourceContext::skipped_image) is set.
    fn should_skip(&self, source: SourceId) -> bool {
        let _ = source;
        false
    }

    /// Decides once, before the full image of a frame is made, whether it is needed. Called only with
    /// [`FullImage::OnDemand`](super::FullImage::OnDemand).
    fn wants_full_image(&self, source: SourceId) -> bool {
        let _ = source;
        false
    }

    /// Receives a frame that skips inference, with its full image if one was requested and is available.
    fn skipped(&self, meta: FrameMeta, full_image: Option<Image>) {
        let _ = (meta, full_image);
    }

    /// An encoded stream begins, or its format changes: the access units that follow do not continue earlier ones. Called on
    /// GStreamer's streaming thread, and only where [`SourceContext::wants_access_units`](super::SourceContext::wants_access_units)
    /// is set.
    fn stream_started(&self, source: SourceId, format: StreamFormat) {
        let _ = (source, format);
    }

    /// Receives an encoded image before it is decoded, in the order of decoding. Called on the thread that feeds the decoder, so
    /// it must not block.
    fn access_unit(&self, source: SourceId, unit: AccessUnit) {
        let _ = (source, unit);
    }

    /// A stream of encoded sound begins, or its format changes. Called on GStreamer's streaming thread, and only where
    /// [`SourceContext::wants_audio`](super::SourceContext::wants_audio) is set.
    fn audio_started(&self, source: SourceId, format: AudioFormat) {
        let _ = (source, format);
    }

    /// Receives encoded sound as it comes, which may be before the video of that time or after it. Must not block.
    fn audio_unit(&self, source: SourceId, unit: AudioUnit) {
        let _ = (source, unit);
    }

    /// The state of the source has changed; `reason` explains a failure.
    fn state_changed(&self, source: SourceId, state: SourceState, reason: Option<String>) {
        let _ = (source, state, reason);
    }

    /// The source has ended. Called once, as the last call: no frame follows.
    fn ended(&self, source: SourceId) {
        let _ = source;
    }

    /// The work of each element in a session. Called with the first frame of the session.
    fn plan(&self, plan: &ProcessingPlan) {
        let _ = plan;
    }
}
