//! The interface through which a source hands on its frames, its states and its processing plan.

use jetwatch_types::{Frame, FrameMeta, Image, SourceId, SourceState};

use super::ProcessingPlan;

/// Whether the source should go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// More frames are wanted.
    Continue,
    /// The pipeline is stopping.
    Stop,
}

/// Receives everything that a source gives. [`frame`](Self::frame), [`should_skip`](Self::should_skip) and
/// [`skipped`](Self::skipped) are called on the thread that delivers frames (GStreamer's streaming thread, or the
/// supervisor where there is none), the others on the supervisor's thread.
pub trait FrameHandler: Send + Sync {
    /// Takes a frame. It may block (files) or drop an older frame (live sources).
    fn frame(&self, frame: Frame) -> Flow;

    /// Decides once, before the pixels of the next frame are scaled or drawn, whether it skips the network. Asked only where
    /// [`SourceContext::skipped_image`](super::SourceContext::skipped_image) is set.
    fn should_skip(&self, source: SourceId) -> bool {
        let _ = source;
        false
    }

    /// Takes a frame that skips the network, with its full image where one was asked for and could be made.
    fn skipped(&self, meta: FrameMeta, full_image: Option<Image>) {
        let _ = (meta, full_image);
    }

    /// The state of the source has changed.
    fn state_changed(&self, source: SourceId, state: SourceState, reason: Option<String>) {
        let _ = (source, state, reason);
    }

    /// Called once, last: no frame follows.
    fn ended(&self, source: SourceId) {
        let _ = source;
    }

    /// What each element of a session does, known with its first frame.
    fn plan(&self, plan: &ProcessingPlan) {
        let _ = plan;
    }
}
