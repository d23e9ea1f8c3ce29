//! Still images into the scaling half: decoded one by one, on demand, on the thread that scales them.
//!
//! There is no queue: the pipeline takes an image, and only then the next one is decoded.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;

use crate::elements::make;
use crate::image_codec::{self, BgrxImage};
use crate::image_folder::UnreadableHandler;
use crate::{SourceContext, SourceError};
use jetwatch_config::SourceConfig;
use jetwatch_telemetry::StopToken;

use super::build::BuiltPipeline;
use super::diagnostics::Findings;
use super::hardware::VideoHardware;
use super::scaler;

/// The pictures of a source, and how far they were shown.
struct Feeder {
    files: Arc<[PathBuf]>,
    on_unreadable: UnreadableHandler,
    stop: StopToken,
    loop_at_end: bool,
    /// Place of the next file.
    next: usize,
    /// Places of the rounds before this one.
    index_offset: usize,
    /// Whether any file of this round could be read: a round without any must be the last.
    any_readable: bool,
}

/// Builds a pipeline that shows `files`, which are not empty, in their order.
pub(super) fn build(
    files: Arc<[PathBuf]>,
    on_unreadable: UnreadableHandler,
    config: &SourceConfig,
    context: &SourceContext,
) -> Result<BuiltPipeline, SourceError> {
    let pipeline = gst::Pipeline::with_name(&context.name);
    let equipment = VideoHardware::detect(&context.machine);
    let findings = Arc::new(Findings::default());
    let scaler = scaler::add(&pipeline, context, &equipment, config, &findings)?;
    let source = make("appsrc", "pictures")?
        .downcast::<gst_app::AppSrc>()
        .map_err(|element| SourceError::Build(format!("{} is no appsrc", element.name())))?;
    source.set_property_from_str("format", "time");
    let mut feeder = Feeder {
        files,
        on_unreadable,
        stop: context.stop.clone(),
        loop_at_end: config.loop_at_end,
        next: 0,
        index_offset: 0,
        any_readable: false,
    };
    source.set_callbacks(
        gst_app::AppSrcCallbacks::builder()
            .need_data(move |source, _| feeder.feed(source))
            .build(),
    );
    pipeline.add(&source).map_err(build_error)?;
    let output = source
        .static_pad("src")
        .ok_or_else(|| SourceError::Build("appsrc has no source pad".to_owned()))?;
    output.link(&scaler.input).map_err(build_error)?;
    Ok(BuiltPipeline {
        pipeline,
        stall_monitor: scaler.stall_monitor,
        diagnostics: findings,
    })
}

impl Feeder {
    /// Gives the next picture that can be read, or the end.
    fn feed(&mut self, source: &gst_app::AppSrc) {
        // A refusal by either call means that the pipeline is on its way down, which is not this thread's to report.
        let _ = match self.next_image() {
            Some((place, picture)) => {
                sample(place, picture).map(|sample| source.push_sample(&sample))
            }
            None => Some(source.end_of_stream()),
        };
    }

    /// The next picture with its place, rounds counted on.
    fn next_image(&mut self) -> Option<(usize, BgrxImage)> {
        while !self.stop.is_stopped() {
            if self.next == self.files.len() {
                if !self.loop_at_end || !self.any_readable {
                    return None;
                }
                self.index_offset += self.next;
                self.next = 0;
                self.any_readable = false;
            }
            let place = self.next;
            self.next += 1;
            match image_codec::read(&self.files[place]) {
                Ok(picture) => {
                    self.any_readable = true;
                    return Some((self.index_offset + place, picture));
                }
                Err(reason) => (self.on_unreadable)(place, &self.files[place], &reason),
            }
        }
        None
    }
}

/// A picture as a sample whose time is its place in seconds; `None` for a size that no caps can say.
fn sample(place: usize, image: BgrxImage) -> Option<gst::Sample> {
    let caps = gst::Caps::builder("video/x-raw")
        .field("format", "BGRx")
        .field("width", i32::try_from(image.size.width).ok()?)
        .field("height", i32::try_from(image.size.height).ok()?)
        .field("framerate", gst::Fraction::new(1, 1))
        .build();
    let mut buffer = gst::Buffer::from_mut_slice(image.pixels);
    let time = gst::ClockTime::try_from(Duration::from_secs(place as u64)).ok()?;
    buffer.get_mut()?.set_pts(time);
    Some(gst::Sample::builder().buffer(&buffer).caps(&caps).build())
}

fn build_error(error: impl std::fmt::Display) -> SourceError {
    SourceError::Build(error.to_string())
}
