// SPDX-License-Identifier: Apache-2.0
//! Sources read through GStreamer: one pipeline per source, one session at a time.
//!
//! [`init`] starts GStreamer once per process. The supervisor runs [`GstSource`].

mod audio;
mod bounded;
mod build;
mod camera;
mod caps_handler;
mod codec_threads;
mod decode;
mod diagnostics;
mod dot;
mod encode;
mod encoded;
mod flush_guard;
mod hardware;
mod http;
mod image_appsrc;
mod introspect;
mod launch;
mod launch_line;
mod log_bridge;
mod messages;
mod orientation;
mod own_scaling;
mod predict_plan;
mod push_tracer;
mod rate_probes;
mod rtsp_packets;
mod rtsp_relay;
mod sample;
mod scaler;
mod scaler_elements;
mod session;
mod skip_probe;
mod stream;
mod sync_gate;
mod tee;
mod thread_names;
mod timing;
pub mod tls;
mod tracks;

use std::sync::OnceLock;

use gstreamer as gst;

use jetwatch_config::{DecoderChoice, SourceConfig};

use super::image_file::ImageFiles;
use super::{SessionEnd, Source, SourceContext, SourceError};

pub(super) use bounded::LateCalls;
use build::BuiltPipeline;
pub use camera::{camera_caps, camera_offers, check_camera_mode, needed_variable};
pub use encode::RawEncoder;
pub use hardware::ElementCheck;
pub use predict_plan::{predict_plan, predict_plan_with};
pub use stream::stream_element;

static STARTED: OnceLock<Result<(), String>> = OnceLock::new();

/// Starts GStreamer and forwards its log to jetwatch's; a second call does nothing.
///
/// `threshold` has the syntax of `GST_DEBUG`; that variable takes precedence if set.
///
/// # Errors
/// GStreamer cannot be initialized.
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

/// GStreamer's version text, such as `GStreamer 1.22.0`; `None` before [`init`].
#[must_use]
pub fn version() -> Option<String> {
    matches!(STARTED.get(), Some(Ok(()))).then(|| gst::version_string().to_string())
}

/// The H.264 encoder for video in CPU memory that comes without an encoded stream.
///
/// # Errors
/// GStreamer does not start, or has none: one sentence, with the packages that have one.
pub fn h264_encoder() -> Result<&'static str, String> {
    init("*:1").map_err(|error| error.to_string())?;
    let encoders = crate::h264_encoders::installed(false)?;
    Ok(encoders.first().map_or("", |encoder| encoder.element))
}

/// All encoders of [`h264_encoder`] that are installed, the best one first; none where GStreamer does not start.
#[must_use]
pub fn h264_encoders() -> Vec<&'static str> {
    let found = init("*:1").map_err(|error| error.to_string());
    let found = found.and_then(|()| crate::h264_encoders::installed(false));
    let found = found.unwrap_or_default();
    found.iter().map(|encoder| encoder.element).collect()
}

/// A source behind one GStreamer pipeline, which is rebuilt for each session.
pub struct GstSource {
    config: SourceConfig,
    late: LateCalls,
    kept: session::Kept,
    /// Sessions in a row in which the machine's video decoder received data and gave no image.
    undecoded: u32,
}

/// Sessions of a live source without an image of the machine's video decoder, after which the CPU decodes.
const MAX_UNDECODED: u32 = 2;

impl GstSource {
    /// Stores the configuration; opens nothing yet.
    #[must_use]
    pub fn new(config: &SourceConfig) -> Self {
        Self {
            config: config.clone(),
            late: LateCalls::default(),
            kept: session::Kept::default(),
            undecoded: 0,
        }
    }

    /// Whether the next session decodes on the CPU after this one, which failed, as the machine's video decoder cannot decode the stream:
    /// what it supports is not all documented.
    fn falls_back(&mut self, built: &BuiltPipeline, source: &str) -> bool {
        if self.config.decoder != DecoderChoice::Auto || !built.diagnostics.is_hardware_fed() {
            return false;
        }
        if built.stall_monitor.frames() > 0 {
            self.undecoded = 0;
            return false;
        }
        self.undecoded += 1;
        let is_live = self.config.uri.is_live();
        if is_live && self.undecoded < MAX_UNDECODED {
            return false;
        }
        self.config.decoder = DecoderChoice::Software;
        log::warn!(source; "the machine's video decoder gives no image of this stream, so the CPU decodes it from now on; set the camera to H.264 with \
                    4:2:0 chroma, or decoder: software to do so at once");
        true
    }
}

impl Source for GstSource {
    fn run_once(
        &mut self,
        context: &SourceContext,
        first_frame: &dyn Fn(),
    ) -> Result<SessionEnd, SourceError> {
        // The daemon starts GStreamer with its configured threshold; tools and tests that open a single source need not.
        init("*:1")?;
        self.late.wait(context)?;
        build::check_source(&self.config.uri, context, &self.late)?;
        let mut is_first = true;
        loop {
            let (parameter, format) = (&self.kept.get_parameter, &self.kept.logged_format);
            let built = build::build(&self.config, context, parameter, format)?;
            let (late, kept) = (&self.late, &mut self.kept);
            let announce = || {
                if is_first {
                    first_frame();
                }
            };
            let result = session::run(&self.config, &built, context, late, kept, &announce);
            if let Some(encoder) = &built.encoder {
                encoder.finish();
            }
            match result {
                Ok(None) => is_first = false,
                Ok(Some(end)) => return Ok(end),
                Err(error) => {
                    let falls_back = self.falls_back(&built, &context.name);
                    if !falls_back || self.config.uri.is_live() {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// One session that plays `images`, a non-empty list, scaled like video.
pub(super) fn play_images(
    config: &SourceConfig,
    images: ImageFiles,
    context: &SourceContext,
    late: &LateCalls,
    first_frame: &dyn Fn(),
) -> Result<SessionEnd, SourceError> {
    init("*:1")?;
    late.wait(context)?;
    let launch = image_appsrc::build(images, config, context)?;
    let kept = &mut session::Kept::default();
    let end = session::run(config, &launch, context, late, kept, first_frame)?;
    Ok(end.unwrap_or(SessionEnd::EndOfMedia))
}
