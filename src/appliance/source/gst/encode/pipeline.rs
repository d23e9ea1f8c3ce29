// SPDX-License-Identifier: Apache-2.0
//! The pipeline of an encoder: images in, access units to the handler of the source. Only the thread of the encoder uses it.
//!
//! ```text
//!   appsrc ─► videoconvert or nvvidconv ─► caps ─► encoder ─► h264parse ─► kept-format ─► fakesink
//!                                                                                └ probe: access units
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use parking_lot::Mutex;

use super::super::encoded::{EncodedCapture, UnitTimes};
use super::super::scaler_elements::{NVMM, format_of};
use super::super::thread_names;
use super::RawImage;
use crate::elements::make;
use crate::h264_encoders::H264Encoder;

/// Interval of the checks for errors while the encoder has an image.
const POLL_INTERVAL: gst::ClockTime = gst::ClockTime::from_mseconds(2);

/// Longest time for an image, and for what is in the encoder at the end.
const PUSH_TIMEOUT: Duration = Duration::from_secs(5);
const DRAIN_TIMEOUT: gst::ClockTime = gst::ClockTime::from_mseconds(1000);

/// Encoders that keep timestamps in microseconds change them by less than this.
const ROUNDING: Duration = Duration::from_micros(2);

/// Most images whose times are remembered: more than an encoder holds.
const MAX_TIMES: usize = 64;

pub(super) struct EncoderPipeline {
    pipeline: gst::Pipeline,
    source: gst_app::AppSrc,
    bus: gst::Bus,
    /// Caps of the images as they come.
    caps: gst::Caps,
    last_pts: Option<Duration>,
    element: &'static str,
    times: Arc<Times>,
}

/// Times of the images that are in the encoder. Some encoders add an offset to timestamps, others round them.
#[derive(Default)]
struct Times {
    images: Mutex<VecDeque<(Duration, SystemTime)>>,
    has_output: AtomicBool,
}

impl EncoderPipeline {
    /// Starts an encoder for images with these caps.
    pub(super) fn open(
        encoder: &'static H264Encoder,
        caps: &gst::Caps,
        capture: &EncodedCapture,
        name: &str,
    ) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", encoder.element);
        let in_nvmm = in_nvmm(caps);
        let (pushed, fps) = with_rate(caps, capture.limits.max_fps);
        let pipeline = gst::Pipeline::with_name(&format!("encode-{name}"));
        let make = |factory, name| make(factory, name).map_err(|error| error.to_string());
        let source = make("appsrc", "images")?
            .downcast::<gst_app::AppSrc>()
            .map_err(|element| format!("{} is not an appsrc", element.name()))?;
        source.set_caps(Some(&pushed));
        source.set_property_from_str("format", "time");

        let mut elements = vec![source.clone().upcast::<gst::Element>()];
        let size = even_size(caps);
        match in_nvmm || encoder.needs_nvmm {
            true => elements.push(make("nvvidconv", "convert")?),
            false => {
                elements.push(make("videoconvert", "convert")?);
                // Without effect on images that need not be scaled.
                elements.push(make("videoscale", "scale")?);
            }
        }
        let filter = make("capsfilter", "encoder-format")?;
        // Never the format of images in NVMM that come: the converter would pass them on, and an encoder that hangs would keep all
        // images of the camera's pool.
        let is_nv12_in_nvmm =
            in_nvmm && format_of(caps).is_some_and(|image| image.format == "NV12");
        let format = match encoder.needs_nvmm && !is_nv12_in_nvmm {
            true => "NV12",
            false => "I420",
        };
        let mut input = gst::Structure::builder("video/x-raw").field("format", format);
        if let Some((width, height)) = size {
            input = input.field("width", width).field("height", height);
        }
        let features = match encoder.needs_nvmm {
            true => gst::CapsFeatures::new([NVMM]),
            false => gst::CapsFeatures::new_empty(),
        };
        let input = gst::Caps::builder_full().structure_with_features(input.build(), features);
        filter.set_property("caps", input.build());
        let element = encoder.make()?;
        encoder.configure(&element, capture.limits.max_bitrate_kbps, fps);
        let parser = make("h264parse", "parser")?;
        let times = Arc::new(Times::default());
        let kept = {
            let times = Arc::clone(&times);
            capture.filter(&parser, "video/x-h264", move |pad, buffer| {
                times.of(pad, buffer)
            })
        };
        let sink = make("fakesink", "discard")?;
        sink.set_property("sync", false);
        sink.set_property("async", false);
        elements.extend([
            filter,
            element,
            parser,
            kept.map_err(|error| error.to_string())?,
            sink,
        ]);
        pipeline
            .add_many(&elements)
            .and_then(|()| gst::Element::link_many(&elements))
            .map_err(|error| failed(&error))?;
        let bus = pipeline.bus().ok_or_else(|| failed(&"no bus"))?;
        thread_names::attach(&bus, name);
        let opened = Self {
            pipeline,
            source,
            bus,
            caps: caps.clone(),
            last_pts: None,
            element: encoder.element,
            times,
        };
        if opened.pipeline.set_state(gst::State::Playing).is_err() {
            let error = opened.error(gst::ClockTime::SECOND);
            return Err(error.unwrap_or_else(|| failed(&"it does not start")));
        }
        Ok(opened)
    }

    /// Whether an image with these caps and this timestamp continues the stream.
    pub(super) fn continues(&self, caps: &gst::Caps, pts: Duration) -> bool {
        self.caps == *caps && self.last_pts.is_none_or(|last| pts > last)
    }

    /// Whether anything was encoded.
    pub(super) fn has_output(&self) -> bool {
        self.times.has_output.load(Ordering::Relaxed)
    }

    /// Encodes an image; blocks until the encoder has taken it.
    pub(super) fn push(&mut self, image: RawImage) -> Result<(), String> {
        let RawImage {
            buffer,
            pts,
            captured_at,
            ..
        } = image;
        self.last_pts = Some(pts);
        let mut buffer = with_same_pixels(&buffer).map_err(|error| error.to_string())?;
        buffer
            .make_mut()
            .set_pts(gst::ClockTime::try_from(pts).ok());
        self.times.add(pts, captured_at);
        let refused = |error: gst::FlowError| format!("{}: {error}", self.element);
        if let Err(error) = self.source.push_buffer(buffer) {
            let reason = self.error(gst::ClockTime::SECOND);
            return Err(reason.unwrap_or_else(|| refused(error)));
        }
        let begun = Instant::now();
        loop {
            if let Some(error) = self.error(gst::ClockTime::ZERO) {
                return Err(error);
            }
            if self.source.current_level_bytes() == 0 {
                return Ok(());
            }
            if begun.elapsed() > PUSH_TIMEOUT {
                let waited = PUSH_TIMEOUT.as_secs();
                return Err(format!(
                    "{} did not take an image within {waited} s",
                    self.element
                ));
            }
            std::thread::sleep(POLL_INTERVAL.into());
        }
    }

    fn error(&self, wait: gst::ClockTime) -> Option<String> {
        let errors = [gst::MessageType::Error];
        // Without a wait, the timed call of gstreamer-rs 0.25 looks at no message.
        let message = match wait {
            gst::ClockTime::ZERO => self.bus.pop_filtered(&errors)?,
            wait => self.bus.timed_pop_filtered(wait, &errors)?,
        };
        let gst::MessageView::Error(error) = message.view() else {
            return None;
        };
        Some(format!("{}: {}", self.element, error.error().message()))
    }

    /// Ends the stream after what is in the encoder.
    pub(super) fn finish(self) {
        if self.source.end_of_stream().is_ok() {
            let ends = [gst::MessageType::Eos, gst::MessageType::Error];
            self.bus.timed_pop_filtered(DRAIN_TIMEOUT, &ends);
        }
    }
}

/// A buffer of its own with the pixels of `buffer`, which it keeps. `appsrc` marks the first buffer of a stream, and copies one for that
/// which others still have; pixels in NVMM cannot be copied.
fn with_same_pixels(buffer: &gst::Buffer) -> Result<gst::Buffer, gst::glib::BoolError> {
    let mut own = gst::Buffer::new();
    let to = own.make_mut();
    buffer.copy_into(to, gst::BUFFER_COPY_METADATA, ..)?;
    for memory in buffer.iter_memories_owned() {
        to.append_memory(memory);
    }
    gst::ParentBufferMeta::add(to, buffer);
    Ok(own)
}

impl Drop for EncoderPipeline {
    fn drop(&mut self) {
        if let Err(error) = self.pipeline.set_state(gst::State::Null) {
            log::warn!("cannot stop {}: {error}", self.element);
        }
        self.bus.unset_sync_handler();
    }
}

impl Times {
    fn add(&self, pts: Duration, captured_at: SystemTime) {
        let mut images = self.images.lock();
        if images.len() == MAX_TIMES {
            images.pop_front();
        }
        images.push_back((pts, captured_at));
    }

    /// The times of an encoded image: those of the raw one.
    fn of(&self, pad: &gst::Pad, buffer: &gst::Buffer) -> UnitTimes {
        self.has_output.store(true, Ordering::Relaxed);
        let segment = pad.sticky_event::<gst::event::Segment>(0);
        let running = |time: Option<gst::ClockTime>| -> Option<Duration> {
            let time = time?;
            let Some(segment) = &segment else {
                return Some(time.into());
            };
            let segment = segment.segment().downcast_ref::<gst::ClockTime>()?;
            Some(segment.to_running_time(time)?.into())
        };
        let Some(pts) = running(buffer.pts()) else {
            return (None, None, SystemTime::now());
        };
        let mut images = self.images.lock();
        while images
            .front()
            .is_some_and(|(image, _)| *image + ROUNDING < pts)
        {
            images.pop_front();
        }
        match images.pop_front() {
            Some((image, captured_at)) => (Some(image), None, captured_at),
            None => (Some(pts), None, SystemTime::now()),
        }
    }
}

/// Caps with the rate at which images come after the limit, and that rate.
fn with_rate(caps: &gst::Caps, max_fps: u32) -> (gst::Caps, u32) {
    let given = caps
        .structure(0)
        .and_then(|video| video.get::<gst::Fraction>("framerate").ok());
    let fps = given
        .filter(|rate| rate.numer() > 0 && rate.denom() > 0)
        .map_or(max_fps, |rate| {
            let whole = (rate.numer() + rate.denom() / 2) / rate.denom();
            u32::try_from(whole).unwrap_or(max_fps).clamp(1, max_fps)
        });
    let mut pushed = caps.clone();
    let rate = gst::Fraction::new(i32::try_from(fps).unwrap_or(i32::MAX), 1);
    for video in pushed.make_mut().iter_mut() {
        video.set("framerate", rate);
    }
    (pushed, fps)
}

/// Whether images with these caps are in NVMM.
pub(super) fn in_nvmm(caps: &gst::Caps) -> bool {
    let features = caps.features(0);
    features.is_some_and(|features| features.contains(NVMM))
}

/// The size of the images with even sides, as 4:2:0 needs them.
fn even_size(caps: &gst::Caps) -> Option<(i32, i32)> {
    let video = caps.structure(0)?;
    let side = |name: &str| Some((video.get::<i32>(name).ok()? & !1).max(2));
    Some((side("width")?, side("height")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_buffers_are_pushed_without_a_copy_of_their_pixels() {
        gst::init().expect("GStreamer starts");
        let buffer = gst::Buffer::from_slice([7; 64]);
        let also_held = buffer.clone();
        let mut own = with_same_pixels(&buffer).expect("made");
        assert!(own.get_mut().is_some(), "appsrc would copy it");
        let pixels = |buffer: &gst::Buffer| buffer.peek_memory(0).as_ptr();
        assert_eq!(pixels(&own), pixels(&also_held));
        // It goes back to its pool behind the encoder only.
        let parent = own.meta::<gst::ParentBufferMeta>().expect("kept");
        assert_eq!(parent.parent().as_ptr(), buffer.as_ptr());
    }
}
