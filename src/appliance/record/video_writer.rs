// SPDX-License-Identifier: Apache-2.0
//! Encoding pipeline: `BGRx` images in, a file out.
//!
//! ```text
//!   appsrc ─► videoconvert or nvvidconv ─► caps ─► encoder ─► (parser) ─► muxer ─► filesink
//! ```
//!
//! Only the recorder thread uses it; it blocks here while the encoder is behind.

use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;

use jetwatch_types::{PIXEL_BYTES, Size};

use super::RenderError;
use super::encoders::{Container, EncoderChoice, Setting, package_of};

/// Maximum number of images that wait for the encoder.
const QUEUE_CAPACITY: u64 = 2;

/// Interval of the checks for errors while waiting for the encoder.
const POLL_INTERVAL: gst::ClockTime = gst::ClockTime::from_mseconds(5);

/// Nominal frame rate for encoders that require one; the images have their own timestamps.
const NOMINAL_FPS: i32 = 30;

/// Duration of the first image when no other follows.
const NOMINAL_TIME: gst::ClockTime = gst::ClockTime::from_mseconds(33);

/// A file that is being recorded.
pub(super) struct VideoWriter {
    pipeline: gst::Pipeline,
    source: gst_app::AppSrc,
    bus: gst::Bus,
    pool: gst::BufferPool,
    choice: EncoderChoice,
    stride: usize,
    image_bytes: u64,
    /// Time of the newest image.
    last_pts: Option<Duration>,
}

impl VideoWriter {
    /// Starts a file with images of `size`, whose sides are even. Overwrites an existing file.
    ///
    /// # Errors
    /// An element is missing, or the pipeline does not start.
    pub(super) fn open(choice: &EncoderChoice, size: Size) -> Result<Self, RenderError> {
        let encoder = choice.encoder;
        let pipeline = gst::Pipeline::with_name("record");
        let source = make("appsrc")?
            .downcast::<gst_app::AppSrc>()
            .map_err(|element| failed("appsrc", format!("{} is not an appsrc", element.name())))?;
        let caps = caps("BGRx", size);
        source.set_caps(Some(&caps));
        source.set_format(gst::Format::Time);

        let (converter, filter_caps) = match encoder.needs_nvmm {
            true => (
                "nvvidconv",
                raw_video_caps("NV12").features(["memory:NVMM"]).build(),
            ),
            false => ("videoconvert", raw_video_caps("I420").build()),
        };
        let filter = make("capsfilter")?;
        filter.set_property("caps", filter_caps);
        let compress = make(encoder.element)?;
        for (property, setting) in encoder.settings {
            let value = match setting {
                Setting::Text(text) => (*text).to_owned(),
                Setting::Bitrate => bitrate(size).to_string(),
            };
            set_if_supported(&compress, property, &value);
        }
        if encoder.element == "openh264enc" {
            pass_end_by(&compress);
        }
        let (muxer, _) = choice.container.muxer();
        let file = make("filesink")?;
        file.set_property("location", &choice.path);

        let mut elements = vec![source.clone().upcast(), make(converter)?, filter, compress];
        if let Some(parser) = encoder.parser {
            elements.push(make(parser)?);
        }
        elements.extend([make(muxer)?, file]);
        let linked = pipeline
            .add_many(&elements)
            .and_then(|()| gst::Element::link_many(&elements));
        linked.map_err(|error| failed(encoder.element, error.to_string()))?;

        let bus = pipeline
            .bus()
            .ok_or_else(|| failed("appsrc", "the pipeline has no bus".to_owned()))?;
        let stride = size.width as usize * PIXEL_BYTES;
        let image_bytes = stride as u64 * u64::from(size.height);
        let pool = gst::BufferPool::new();
        let mut settings = pool.config();
        // One buffer each for the queue, the converter, and drawing.
        settings.set_params(
            Some(&caps),
            u32::try_from(image_bytes).unwrap_or(u32::MAX),
            0,
            0,
        );
        let pooled = pool
            .set_config(settings)
            .and_then(|()| pool.set_active(true));
        pooled.map_err(|error| failed("appsrc", error.to_string()))?;
        let writer = Self {
            pipeline,
            source,
            bus,
            pool,
            choice: choice.clone(),
            stride,
            image_bytes,
            last_pts: None,
        };
        if writer.pipeline.set_state(gst::State::Playing).is_err() {
            let fallback = || failed(encoder.element, "the encoder did not start".to_owned());
            return Err(writer
                .bus_error(gst::ClockTime::SECOND)
                .unwrap_or_else(fallback));
        }
        Ok(writer)
    }

    /// Blocks until the encoder accepts an image.
    ///
    /// # Errors
    /// The encoder or the disk failed.
    pub(super) fn wait_for_space(&self) -> Result<(), RenderError> {
        let mut wait = gst::ClockTime::ZERO;
        loop {
            if let Some(error) = self.bus_error(wait) {
                return Err(error);
            }
            if self.source.current_level_bytes() < QUEUE_CAPACITY * self.image_bytes {
                return Ok(());
            }
            wait = POLL_INTERVAL;
        }
    }

    /// Encodes the image that `draw` writes, at the time `at` from the start. `draw` gets the rows and their stride in bytes,
    /// with undefined contents. Does not block: call [`wait_for_space`](Self::wait_for_space) before.
    ///
    /// # Errors
    /// The pipeline does not accept the image, or has failed.
    pub(super) fn push(
        &mut self,
        at: Duration,
        draw: impl FnOnce(&mut [u8], usize),
    ) -> Result<(), RenderError> {
        let refused = |reason: String| failed("appsrc", reason);
        let buffer = self.pool.acquire_buffer(None);
        let mut buffer = buffer.map_err(|error| refused(error.to_string()))?;
        {
            let owned = buffer
                .get_mut()
                .ok_or_else(|| refused("a buffer is shared".to_owned()))?;
            owned.set_pts(gst::ClockTime::try_from(at).ok());
            // Muxers use the duration of the last image only; players skip that image when it is zero.
            let since_last = self.last_pts.and_then(|shown| at.checked_sub(shown));
            let lasts = since_last.map_or(Ok(NOMINAL_TIME), gst::ClockTime::try_from);
            owned.set_duration(lasts.ok());
            self.last_pts = Some(at);
            let mut rows = owned
                .map_writable()
                .map_err(|error| refused(error.to_string()))?;
            draw(&mut rows, self.stride);
        }
        match self.source.push_buffer(buffer) {
            Ok(_) => Ok(()),
            Err(flow) => {
                let fallback = || refused(flow.to_string());
                Err(self
                    .bus_error(gst::ClockTime::SECOND)
                    .unwrap_or_else(fallback))
            }
        }
    }

    /// Finalizes the file; blocks for at most `deadline`.
    ///
    /// # Errors
    /// The pipeline failed, or did not finish in time.
    pub(super) fn close(self, deadline: Duration) -> Result<(), RenderError> {
        let requested_at = Instant::now();
        // Fails only when the pipeline has failed, which the bus reports.
        let _ = self.source.end_of_stream();
        while let Some(left) = deadline.checked_sub(requested_at.elapsed()) {
            let wait = gst::ClockTime::try_from(left).unwrap_or(gst::ClockTime::SECOND);
            let Some(message) = self.bus.timed_pop(wait) else {
                break;
            };
            if matches!(message.view(), gst::MessageView::Eos(_)) {
                return Ok(());
            }
            if let Some(error) = self.error_in(&message) {
                return Err(error);
            }
        }
        Err(RenderError::Late {
            path: self.choice.path.clone(),
            waited_ms: deadline.as_millis(),
        })
    }

    /// The error on the bus, waiting at most `wait` for one.
    fn bus_error(&self, wait: gst::ClockTime) -> Option<RenderError> {
        let errors = [gst::MessageType::Error];
        // Without a wait, the timed call of gstreamer-rs 0.25 looks at no message.
        let message = match wait {
            gst::ClockTime::ZERO => self.bus.pop_filtered(&errors)?,
            wait => self.bus.timed_pop_filtered(wait, &errors)?,
        };
        self.error_in(&message)
    }

    fn error_in(&self, message: &gst::Message) -> Option<RenderError> {
        let gst::MessageView::Error(error) = message.view() else {
            return None;
        };
        let gst_error = error.error();
        let is_full =
            gst_error.kind::<gst::ResourceError>() == Some(gst::ResourceError::NoSpaceLeft);
        Some(RenderError::Broken {
            path: self.choice.path.clone(),
            element: error.src().map_or_else(
                || "GStreamer".to_owned(),
                |source| source.name().to_string(),
            ),
            reason: gst_error.message().to_owned(),
            is_mp4: matches!(self.choice.container, Container::Mp4),
            advice: match is_full {
                true => "free disk space, or record to another disk",
                false => "check the disk; set GST_DEBUG=3 for details",
            },
        })
    }
}

impl Drop for VideoWriter {
    fn drop(&mut self) {
        if let Err(error) = self.pipeline.set_state(gst::State::Null) {
            log::warn!("cannot stop the recording's pipeline: {error}");
        }
        let _ = self.pool.set_active(false);
    }
}

fn caps(format: &str, size: Size) -> gst::Caps {
    gst::Caps::builder("video/x-raw")
        .field("format", format)
        .field("width", size.width.cast_signed())
        .field("height", size.height.cast_signed())
        .field("framerate", gst::Fraction::new(NOMINAL_FPS, 1))
        .build()
}

fn raw_video_caps(format: &str) -> gst::caps::Builder<gst::caps::NoFeature> {
    gst::Caps::builder("video/x-raw").field("format", format)
}

/// Bit rate of an image of this size, in bits per second: 6 million at 1920×1080.
fn bitrate(size: Size) -> u64 {
    (u64::from(size.width) * u64::from(size.height) * 3).clamp(500_000, 30_000_000)
}

fn make(factory: &'static str) -> Result<gst::Element, RenderError> {
    let made = gst::ElementFactory::make(factory).name(factory).build();
    made.map_err(|error| failed(factory, error.to_string()))
}

fn failed(element: &'static str, reason: String) -> RenderError {
    RenderError::Element {
        element,
        reason,
        package: package_of(element),
    }
}

/// Sets an enum property by its nick, when the element supports it: releases differ, and the defaults work.
fn set_if_supported(element: &gst::Element, property: &str, nick: &str) {
    let spec = element.find_property(property);
    let value = spec.and_then(|spec| gst::glib::Value::deserialize(nick, spec.value_type()).ok());
    match value {
        Some(value) => element.set_property_from_value(property, &value),
        None => log::debug!("{} does not support {property}={nick}", element.name()),
    }
}

/// Passes the end of the stream by the encoder OpenH264, which holds no image at that time: asked for the rest, it writes
/// `cmInitParaError` to standard error.
fn pass_end_by(encoder: &gst::Element) {
    let (Some(sink), Some(src)) = (encoder.static_pad("sink"), encoder.static_pad("src")) else {
        return;
    };
    sink.add_probe(
        gst::PadProbeType::EVENT_DOWNSTREAM,
        move |_, info| match info.event() {
            Some(event) if event.type_() == gst::EventType::Eos => {
                src.push_event(event.clone());
                gst::PadProbeReturn::Handled
            }
            _ => gst::PadProbeReturn::Ok,
        },
    );
}
