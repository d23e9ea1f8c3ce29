// SPDX-License-Identifier: Apache-2.0
//! JPEG by an element of GStreamer: one image in, one file out. The caller waits for it.
//!
//! ```text
//!   appsrc (BGRx) ─► nvvidconv ─► I420 in NVMM ─► nvjpegenc ─► appsink
//!   appsrc (I420) ─► jpegenc ─► appsink
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use rustix::process::{getpriority_process, setpriority_process};

use jetwatch_pixels::JpegColors;
use jetwatch_types::Size;

/// An encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JpegElement {
    /// A Jetson's NVJPG.
    Nvjpegenc,
    /// libjpeg-turbo on the CPU.
    Jpegenc,
}

impl JpegElement {
    /// Those that GStreamer has here, the preferred one first.
    pub(crate) fn available() -> VecDeque<Self> {
        let all = [Self::Nvjpegenc, Self::Jpegenc].into_iter();
        all.filter(|element| element.is_available()).collect()
    }

    /// Its name in GStreamer.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nvjpegenc => "nvjpegenc",
            Self::Jpegenc => "jpegenc",
        }
    }

    fn is_available(self) -> bool {
        let is_installed = |element: &&str| gst::ElementFactory::find(element).is_some();
        gst::init().is_ok()
            && match self {
                Self::Nvjpegenc => ["nvjpegenc", "nvvidconv"].iter().all(is_installed),
                Self::Jpegenc => is_installed(&"jpegenc"),
            }
    }

    /// Format of the images that go into the pipeline.
    const fn format(self) -> &'static str {
        match self {
            Self::Nvjpegenc => "BGRx",
            Self::Jpegenc => "I420",
        }
    }
}

/// Longest wait for a file, and the interval at which errors are looked for meanwhile.
const TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: gst::ClockTime = gst::ClockTime::from_mseconds(20);

/// Distance of the timestamps of two images; they have no meaning.
const STEP: Duration = Duration::from_millis(1);

/// The pipeline for images of one size in one quality.
pub(crate) struct JpegPipeline {
    element: JpegElement,
    size: Size,
    colors: JpegColors,
    pipeline: gst::Pipeline,
    source: gst_app::AppSrc,
    sink: gst_app::AppSink,
    /// Images so far.
    images: u32,
}

impl JpegPipeline {
    /// Starts the encoder for images with even sides. Its thread has the priority of the caller.
    ///
    /// # Errors
    /// An element is missing or does not start.
    pub(crate) fn open(element: JpegElement, size: Size, quality: u8) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", element.name());
        let make = |factory: &str| {
            let made = gst::ElementFactory::make(factory).build();
            made.map_err(|_| failed(&format!("GStreamer cannot make {factory}")))
        };
        let side = |side: u32| i32::try_from(side).map_err(|_| failed(&"the image is too large"));
        let caps = gst::Caps::builder("video/x-raw")
            .field("format", element.format())
            .field("width", side(size.width)?)
            .field("height", side(size.height)?)
            .field("framerate", gst::Fraction::new(0, 1))
            .build();
        let source = make("appsrc")?
            .downcast::<gst_app::AppSrc>()
            .map_err(|element| failed(&format!("{} is not an appsrc", element.name())))?;
        // Of the thread, too.
        source.set_property("name", "pictures");
        source.set_caps(Some(&caps));
        source.set_format(gst::Format::Time);
        let encoder = make(element.name())?;
        if encoder.find_property("quality").is_some() {
            encoder.set_property_from_str("quality", &quality.to_string());
        }
        let sink = make("appsink")?
            .downcast::<gst_app::AppSink>()
            .map_err(|element| failed(&format!("{} is not an appsink", element.name())))?;
        sink.set_property("sync", false);
        let mut elements = vec![source.clone().upcast(), encoder, sink.clone().upcast()];
        if element == JpegElement::Nvjpegenc {
            let filter = make("capsfilter")?;
            let encoded = gst::Caps::builder("video/x-raw")
                .features(["memory:NVMM"])
                .field("format", "I420")
                .build();
            filter.set_property("caps", encoded);
            elements.splice(1..1, [make("nvvidconv")?, filter]);
        }
        let pipeline = gst::Pipeline::with_name("pictures");
        pipeline
            .add_many(&elements)
            .and_then(|()| gst::Element::link_many(&elements))
            .map_err(|error| failed(&error))?;
        share_priority(&pipeline);
        let opened = Self {
            element,
            size,
            colors: JpegColors::new(size),
            pipeline,
            source,
            sink,
            images: 0,
        };
        match opened.pipeline.set_state(gst::State::Playing) {
            Ok(_) => Ok(opened),
            Err(_) => Err(opened.error()),
        }
    }

    /// Size of its images, in pixels.
    pub(crate) const fn size(&self) -> Size {
        self.size
    }

    /// The JPEG file of an image in `BGRx`, rows without padding.
    ///
    /// # Errors
    /// The encoder fails, or does not answer within 2 s.
    pub(crate) fn encode(&mut self, pixels: &[u8]) -> Result<Bytes, String> {
        let mut buffer = match self.element {
            JpegElement::Nvjpegenc => gst::Buffer::from_slice(pixels.to_vec()),
            JpegElement::Jpegenc => self.converted(pixels)?,
        };
        let time = gst::ClockTime::try_from(STEP * self.images).ok();
        self.images = self.images.wrapping_add(1);
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(time);
        }
        if self.source.push_buffer(buffer).is_err() {
            return Err(self.error());
        }
        let sample = self.wait_for_file()?;
        let file = sample.buffer();
        let file = file.and_then(|buffer| buffer.map_readable().ok());
        match file {
            Some(file) if file.starts_with(&[0xff, 0xd8]) => Ok(Bytes::copy_from_slice(&file)),
            _ => Err(self.failure("what it gives is no JPEG file")),
        }
    }

    /// An image in I420.
    fn converted(&self, pixels: &[u8]) -> Result<gst::Buffer, String> {
        let failed = |_| format!("{}: no memory for an image", self.element.name());
        let mut buffer = gst::Buffer::with_size(self.colors.bytes()).map_err(failed)?;
        if let Some(buffer) = buffer.get_mut() {
            let mut planes = buffer.map_writable().map_err(failed)?;
            self.colors.convert(pixels, &mut planes);
        }
        Ok(buffer)
    }

    fn wait_for_file(&self) -> Result<gst::Sample, String> {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(sample) = self.sink.try_pull_sample(POLL_INTERVAL) {
                return Ok(sample);
            }
            match self.reported() {
                Some(error) => return Err(error),
                None if Instant::now() >= until || self.sink.is_eos() => return Err(self.error()),
                None => {}
            }
        }
    }

    /// What the pipeline says of its failure.
    fn error(&self) -> String {
        let reported = self.reported();
        reported.unwrap_or_else(|| self.failure("it gives no picture"))
    }

    fn failure(&self, reason: &str) -> String {
        format!("{}: {reason}", self.element.name())
    }

    /// The error that an element has reported. Takes all messages, so that they do not collect.
    fn reported(&self) -> Option<String> {
        let message = self
            .pipeline
            .bus()?
            .pop_filtered(&[gst::MessageType::Error])?;
        match message.view() {
            gst::MessageView::Error(error) => Some(self.failure(error.error().message())),
            _ => None,
        }
    }
}

impl Drop for JpegPipeline {
    fn drop(&mut self) {
        if let Err(error) = self.pipeline.set_state(gst::State::Null) {
            log::warn!("cannot stop {}: {error}", self.element.name());
        }
    }
}

/// Gives the threads of `pipeline` the priority of the calling thread, which GStreamer's own do not inherit.
fn share_priority(pipeline: &gst::Pipeline) {
    let (Some(bus), Ok(priority)) = (pipeline.bus(), getpriority_process(None)) else {
        return;
    };
    bus.set_sync_handler(move |_, message| {
        if let gst::MessageView::StreamStatus(status) = message.view()
            && status.type_() == gst::StreamStatusType::Enter
        {
            // Of the thread that reports it. Where it is refused, it competes with frames.
            let _ = setpriority_process(None, priority);
        }
        gst::BusSyncReply::Pass
    });
}
