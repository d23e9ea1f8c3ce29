// SPDX-License-Identifier: Apache-2.0
//! Still images into the scaling half: decoded one by one, on demand, on the thread that scales them.
//!
//! There is no queue: the next image is decoded only when the pipeline requests it.

use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;

use crate::elements::make;
use crate::image_file::{self, ImageFiles};
use crate::{SourceContext, SourceError};
use jetwatch_config::SourceConfig;
use jetwatch_pixels::BgrxImage;
use jetwatch_telemetry::{Recorder, Stage, StopToken};

use super::build::{BuiltPipeline, build_error};
use super::diagnostics::SessionDiagnostics;
use super::hardware::VideoHardware;
use super::scaler;

/// State of the image list: files, position and loop.
struct Feeder {
    images: ImageFiles,
    recorder: Recorder,
    stop: StopToken,
    loop_at_end: bool,
    /// Index of the next file.
    next: usize,
    /// Number of images in the previous rounds.
    index_offset: usize,
    /// Whether any file of this round was readable: a round without any must be the last.
    any_readable: bool,
}

/// Builds a pipeline that plays `images`, a non-empty list, in order.
///
/// # Errors
/// An element is missing, or elements cannot be linked.
pub(super) fn build(
    images: ImageFiles,
    config: &SourceConfig,
    context: &SourceContext,
) -> Result<BuiltPipeline, SourceError> {
    let pipeline = gst::Pipeline::with_name(&context.name);
    let hardware = VideoHardware::detect(&context.machine);
    let diagnostics = Arc::new(SessionDiagnostics::default());
    let scaler = scaler::add(&pipeline, context, &hardware, config, &diagnostics, None)?;
    if context.wants_access_units {
        log::warn!(source = context.name.as_str(); "nothing of it is recorded as video: still images have none");
    }
    let source = make("appsrc", "images")?
        .downcast::<gst_app::AppSrc>()
        .map_err(|element| SourceError::Build(format!("{} is not an appsrc", element.name())))?;
    source.set_property_from_str("format", "time");
    let mut feeder = Feeder {
        images,
        recorder: context.recorder.clone(),
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
        gate: None,
        http: None,
        pipeline,
        stall_monitor: scaler.stall_monitor,
        diagnostics,
        launch_bin: None,
        encoder: None,
        packets: None,
        _relay: None,
    })
}

impl Feeder {
    /// Pushes the next readable image, or end-of-stream.
    fn feed(&mut self, source: &gst_app::AppSrc) {
        // An error of either call means that the pipeline is shutting down, which the supervisor handles.
        let _ = match self.next_image() {
            Some((index, image)) => sample(index, image).map(|sample| source.push_sample(&sample)),
            None => Some(source.end_of_stream()),
        };
    }

    /// The next image and its index, counted on over all rounds.
    fn next_image(&mut self) -> Option<(usize, BgrxImage)> {
        while !self.stop.is_stopped() {
            if self.next == self.images.files.len() {
                if !self.loop_at_end || !self.any_readable {
                    return None;
                }
                self.index_offset += self.next;
                self.next = 0;
                self.any_readable = false;
            }
            let index = self.next;
            self.next += 1;
            let path = &self.images.files[index];
            let decoding = self.recorder.range(Stage::VideoDecode, 1);
            let read = image_file::read(path, self.images.is_turned);
            drop(decoding);
            match read {
                Ok(image) => {
                    self.any_readable = true;
                    return Some((self.index_offset + index, image));
                }
                Err(reason) => (self.images.on_unreadable)(index, path, &reason),
            }
        }
        None
    }
}

/// An image as a sample with its index in seconds as the timestamp; `None` for a size that caps cannot express.
fn sample(index: usize, image: BgrxImage) -> Option<gst::Sample> {
    let caps = gst::Caps::builder("video/x-raw")
        .field("format", "BGRx")
        .field("width", i32::try_from(image.size.width).ok()?)
        .field("height", i32::try_from(image.size.height).ok()?)
        .field("framerate", gst::Fraction::new(1, 1))
        .build();
    let mut buffer = gst::Buffer::from_mut_slice(image.pixels);
    let time = gst::ClockTime::try_from(Duration::from_secs(index as u64)).ok()?;
    buffer.get_mut()?.set_pts(time);
    Some(gst::Sample::builder().buffer(&buffer).caps(&caps).build())
}
