//! Sources read through GStreamer: one pipeline a source, one session at a time.
//!
//! [`init`] starts GStreamer once for the process. [`GstSource`] is what the supervisor drives.

mod build;
mod camera;
mod decode;
mod diagnostics;
mod dot;
mod hardware;
mod image_appsrc;
mod introspect;
mod log_bridge;
mod messages;
mod predict_plan;
mod sample;
mod scaler;
mod scaler_elements;
mod session;
mod skip_probe;
mod tee;
mod timing;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use gstreamer as gst;

use jetwatch_config::SourceConfig;

use super::image_folder::UnreadableHandler;
use super::{SessionEnd, Source, SourceContext, SourceError};

pub use camera::{camera_offers, needed_variable};
pub use predict_plan::predict_plan;

static STARTED: OnceLock<Result<(), String>> = OnceLock::new();

/// Starts GStreamer and bridges its log into ours; a second call does nothing.
///
/// `threshold` has the syntax of `GST_DEBUG`, which wins when it is set in the environment.
pub fn init(threshold: &str) -> Result<(), SourceError> {
    STARTED
        .get_or_init(|| {
            gst::init().map_err(|error| error.to_string())?;
            log_bridge::install(threshold);
            Ok(())
        })
        .clone()
        .map_err(SourceError::Init)
}

/// GStreamer's version as it says it, such as `GStreamer 1.22.0`; `None` before [`init`].
#[must_use]
pub fn version() -> Option<String> {
    matches!(STARTED.get(), Some(Ok(()))).then(|| gst::version_string().to_string())
}

/// A source behind one GStreamer pipeline, made anew for each session.
pub struct GstSource {
    config: SourceConfig,
}

impl GstSource {
    /// Remembers what to open; nothing is touched yet.
    #[must_use]
    pub fn new(config: &SourceConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

impl Source for GstSource {
    fn run_once(
        &mut self,
        context: &SourceContext,
        first_frame: &dyn Fn(),
    ) -> Result<SessionEnd, SourceError> {
        // The daemon starts it with its configured threshold; tools and tests that open a source alone need not know.
        init("*:1")?;
        let launch = build::build(&self.config, context)?;
        session::run(&self.config, &launch, context, first_frame)
    }
}

/// One session that shows `files`, which are not empty, scaled as video is.
pub(super) fn play_images(
    config: &SourceConfig,
    files: Arc<[PathBuf]>,
    on_unreadable: UnreadableHandler,
    context: &SourceContext,
    first_frame: &dyn Fn(),
) -> Result<SessionEnd, SourceError> {
    init("*:1")?;
    let launch = image_appsrc::build(files, on_unreadable, config, context)?;
    session::run(config, &launch, context, first_frame)
}
