// SPDX-License-Identifier: Apache-2.0
//! The interface between a source and its supervisor, and the factory of synthetic sources.
//!
//! GStreamer and image folders implement [`Source`] in this crate. The synthetic source is a tool: the program hands its
//! factory in, because the appliance does not depend on tools.

use std::sync::Arc;

use jetwatch_config::SyntheticScene;
use jetwatch_types::Region;

use super::{SourceContext, SourceError};

/// How one session with a source ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The end of the media.
    EndOfMedia,
    /// A stop was requested.
    Stopped,
}

/// A source of frames that can be opened more than once. The supervisor makes it on the thread `source-NAME` and calls it
/// there only.
pub trait Source {
    /// Runs one session: opens the source, delivers its frames, closes it. It blocks until the session ends. After an
    /// error the supervisor decides whether and when to call it again.
    ///
    /// An implementation must:
    ///
    /// - call `first_frame` once, before it delivers the first frame of the session;
    /// - pass each frame to [`FrameHandler::frame`](super::FrameHandler::frame) of [`SourceContext::handler`], at the size
    ///   [`SourceContext::output_size`], numbered by [`SourceCounters::next_seq`](super::SourceCounters::next_seq);
    ///   [`Flow::Stop`](super::Flow::Stop) ends the session with [`SessionEnd::Stopped`];
    /// - return [`SessionEnd::Stopped`] soon (100 ms) after a stop of [`SourceContext::stop`], and use its
    ///   [`wait`](super::StopToken::wait) in place of a sleep;
    /// - mark work that must make progress with `busy` and `idle` of [`SourceContext::heartbeat`]; a wait in the handler
    ///   is idle time;
    /// - where [`SourceContext::skipped_image`] is set, ask
    ///   [`FrameHandler::should_skip`](super::FrameHandler::should_skip) once per frame, before it makes the image for the
    ///   network, and pass a skipped frame to [`FrameHandler::skipped`](super::FrameHandler::skipped). The first frame of a
    ///   session is never skipped, so that a source that cannot deliver fails at once.
    ///
    /// # Errors
    /// The source cannot be opened, or a frame cannot be read or made.
    fn run_once(
        &mut self,
        context: &SourceContext,
        first_frame: &dyn Fn(),
    ) -> Result<SessionEnd, SourceError>;
}

/// Settings of a synthetic source that are no parameters of its scene.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SyntheticOptions {
    /// Start again at frame 0 after the last frame.
    pub loop_at_end: bool,
    /// The part of the image that the network gets; `None`: all.
    pub roi: Option<Region>,
    /// Frames per second of media time at most, above 0; `None`: all frames.
    pub max_fps: Option<f32>,
}

/// Makes the source of a `synthetic://` URI. Called on the thread of the source.
pub type SyntheticFactory =
    Arc<dyn Fn(&SyntheticScene, SyntheticOptions) -> Box<dyn Source> + Send + Sync>;
