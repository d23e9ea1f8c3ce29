//! JPEG by a Jetson's NVJPG: one image in, one file out. The caller waits for it.
//!
//! ```text
//!   appsrc (BGRx) ─► nvvidconv ─► I420 in NVMM ─► nvjpegenc ─► appsink
//! ```

use std::time::{Duration, Instant};

use bytes::Bytes;
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;

use jetwatch_types::Size;

/// The encoder.
pub(crate) const ELEMENT: &str = "nvjpegenc";

/// What is needed of L4T.
pub(crate) const ELEMENTS: [&str; 2] = [ELEMENT, "nvvidconv"];

/// Longest wait for a file, and the interval at which errors are looked for meanwhile.
const TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: gst::ClockTime = gst::ClockTime::from_mseconds(20);

/// Distance of the timestamps of two images; they have no meaning.
const STEP: Duration = Duration::from_millis(1);

/// The pipeline for images of one size in one quality.
pub(crate) struct JpegPipeline {
    size: Size,
    pipeline: gst::Pipeline,
    source: gst_app::AppSrc,
    sink: gst_app::AppSink,
    /// Images so far.
    images: u32,
}

impl JpegPipeline {
    /// Starts the encoder.
    ///
    /// # Errors
    /// An element is missing or does not start.
    pub(crate) fn open(size: Size, quality: u8) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{ELEMENT}: {error}");
        let make = |factory: &str| {
            let made = gst::ElementFactory::make(factory).build();
            made.map_err(|_| failed(&format!("GStreamer cannot make {factory}")))
        };
        let side = |side: u32| i32::try_from(side).map_err(|_| failed(&"the image is too large"));
        let caps = gst::Caps::builder("video/x-raw")
            .field("format", "BGRx")
            .field("width", side(size.width)?)
            .field("height", side(size.height)?)
            .field("framerate", gst::Fraction::new(0, 1))
            .build();
        let source = make("appsrc")?
            .downcast::<gst_app::AppSrc>()
            .map_err(|element| failed(&format!("{} is not an appsrc", element.name())))?;
        source.set_caps(Some(&caps));
        source.set_format(gst::Format::Time);
        let filter = make("capsfilter")?;
        let encoded = gst::Caps::builder("video/x-raw")
            .features(["memory:NVMM"])
            .field("format", "I420")
            .build();
        filter.set_property("caps", encoded);
        let encoder = make(ELEMENT)?;
        if encoder.find_property("quality").is_some() {
            encoder.set_property_from_str("quality", &quality.to_string());
        }
        let sink = make("appsink")?
            .downcast::<gst_app::AppSink>()
            .map_err(|element| failed(&format!("{} is not an appsink", element.name())))?;
        sink.set_property("sync", false);
        let elements = [
            source.clone().upcast(),
            make("nvvidconv")?,
            filter,
            encoder,
            sink.clone().upcast(),
        ];
        let pipeline = gst::Pipeline::with_name("pictures");
        pipeline
            .add_many(&elements)
            .and_then(|()| gst::Element::link_many(&elements))
            .map_err(|error| failed(&error))?;
        let opened = Self {
            size,
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
        let mut buffer = gst::Buffer::from_slice(pixels.to_vec());
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
            _ => Err(format!("{ELEMENT}: what it gives is no JPEG file")),
        }
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
        reported.unwrap_or_else(|| format!("{ELEMENT}: it gives no picture"))
    }

    /// The error that an element has reported. Takes all messages, so that they do not collect.
    fn reported(&self) -> Option<String> {
        let message = self
            .pipeline
            .bus()?
            .pop_filtered(&[gst::MessageType::Error])?;
        match message.view() {
            gst::MessageView::Error(error) => {
                Some(format!("{ELEMENT}: {}", error.error().message()))
            }
            _ => None,
        }
    }
}

impl Drop for JpegPipeline {
    fn drop(&mut self) {
        if let Err(error) = self.pipeline.set_state(gst::State::Null) {
            log::warn!("cannot stop {ELEMENT}: {error}");
        }
    }
}
