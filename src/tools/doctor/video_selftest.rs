//! Self-tests of scaling and decoding on this machine: the same images through different elements, timed one at a time.
//!
//! Opens no source, camera or file.

use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use gstreamer_video::VideoFrameExt;

use jetwatch_platform::UnitElement;
use jetwatch_source::gst::init;
use jetwatch_source::{make_element, set_if_supported};
use jetwatch_types::Size;

use super::test_clip::{TestClip, draw};

/// Caps feature of images in the memory of a Jetson's units.
const NVMM: &str = "memory:NVMM";

/// Input and output size of the scaling test. Small, so that every release uses the same color matrix.
const LARGE: Size = Size::new(640, 352);
const SMALL: Size = Size::new(320, 176);

/// Number of scaled, and of decoded images.
const SCALED_IMAGES: usize = 40;
const DECODED_IMAGES: usize = 12;

/// Timeout for one image.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a test.
#[derive(Debug, Clone)]
pub(super) struct TestResult {
    /// The last image: its samples, without padding.
    pub(super) samples: Vec<u8>,
    /// Time from the first image in to the last one out, per image, in ms.
    pub(super) ms_per_image: f64,
}

/// Mean absolute difference of the samples of two images, 0 to 255; `None` when their sizes differ.
#[must_use]
pub(super) fn difference(one: &[u8], other: &[u8]) -> Option<f64> {
    if one.len() != other.len() || one.is_empty() {
        return None;
    }
    let sum: u64 = one
        .iter()
        .zip(other)
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    Some(sum as f64 / one.len() as f64)
}

/// Scales images of 640×352 to 320×176 and converts them to `BGRx`, like the daemon: on the CPU, or with `converter`, an
/// element of a Jetson. The time includes copies into and out of NVMM. Samples are B, G, R of each pixel.
///
/// # Errors
/// An element is missing or fails; one sentence.
pub(super) fn test_scaling(converter: Option<UnitElement>) -> Result<TestResult, String> {
    init("*:1").map_err(|error| error.to_string())?;
    let mut elements = Vec::new();
    match converter {
        None => {
            let resize = element("videoscale", "scale")?;
            resize.set_property("add-borders", false);
            elements.extend([
                resize,
                filter("size", raw(SMALL, "I420").build())?,
                element("videoconvert", "convert")?,
            ]);
        }
        Some(unit) => {
            elements.extend([
                configured(unit, "upload")?,
                filter("nvmm", raw(LARGE, "NV12").features([NVMM]).build())?,
                configured(unit, "scale")?,
            ]);
        }
    }
    elements.push(filter("image", raw(SMALL, "BGRx").build())?);
    let caps = raw(LARGE, "I420").field("framerate", gst::Fraction::new(30, 1));
    let image = draw(LARGE, 0);
    let images = vec![image; SCALED_IMAGES];
    let (sample, ms_per_picture) = run(&caps.build(), &images, &elements)?;
    let samples = bgr(&sample).ok_or("the image cannot be read")?;
    Ok(TestResult {
        samples,
        ms_per_image: ms_per_picture,
    })
}

/// Decodes a generated H.264 clip: on the CPU, or with `decoder` and `converter`, elements of a Jetson. Returns the planes Y,
/// U and V of the last image, and the expected ones.
///
/// # Errors
/// Those of [`test_scaling`].
pub(super) fn test_decoding(
    units: Option<(UnitElement, UnitElement)>,
) -> Result<(TestResult, Vec<u8>), String> {
    init("*:1").map_err(|error| error.to_string())?;
    let clip = TestClip::new(Size::new(320, 192), DECODED_IMAGES);
    let mut elements = Vec::new();
    match units {
        None => {
            elements.push(element("avdec_h264", "decode")?);
            elements.push(element("videoconvert", "convert")?);
        }
        Some((decoder, converter)) => {
            elements.push(configured(decoder, "decode")?);
            elements.push(configured(converter, "convert")?);
        }
    }
    elements.push(filter("image", raw(clip.size, "I420").build())?);
    let caps = gst::Caps::builder("video/x-h264")
        .field("stream-format", "byte-stream")
        .field("alignment", "au")
        .field("profile", "baseline")
        .field("width", clip.size.width.cast_signed())
        .field("height", clip.size.height.cast_signed())
        .field("framerate", gst::Fraction::new(30, 1))
        .build();
    let (sample, ms_per_picture) = run(&caps, &clip.access_units, &elements)?;
    let samples = planes(&sample).ok_or("the image cannot be read")?;
    let expected = clip.images.into_iter().last().unwrap_or_default();
    Ok((
        TestResult {
            samples,
            ms_per_image: ms_per_picture,
        },
        expected,
    ))
}

fn element(factory: &'static str, name: &str) -> Result<gst::Element, String> {
    make_element(factory, name).map_err(|error| error.to_string())
}

/// An element of a Jetson with its unit set.
fn configured(unit: UnitElement, name: &str) -> Result<gst::Element, String> {
    let element = element(unit.element, name)?;
    if let Some((property, nick)) = unit.setting
        && !set_if_supported(property, &element, nick)
    {
        return Err(format!(
            "{} does not support {property}={nick}",
            unit.element
        ));
    }
    set_if_supported("interpolation-method", &element, "Bilinear");
    set_if_supported("bl-output", &element, "false");
    Ok(element)
}

fn filter(name: &str, caps: gst::Caps) -> Result<gst::Element, String> {
    let filter = element("capsfilter", name)?;
    filter.set_property("caps", caps);
    Ok(filter)
}

fn raw(size: Size, format: &str) -> gst::caps::Builder<gst::caps::NoFeature> {
    gst::Caps::builder("video/x-raw")
        .field("format", format)
        .field("width", size.width.cast_signed())
        .field("height", size.height.cast_signed())
}

/// Sends `buffers` through `elements`; returns the last sample, and the time per buffer in ms.
fn run(
    caps: &gst::Caps,
    buffers: &[Vec<u8>],
    elements: &[gst::Element],
) -> Result<(gst::Sample, f64), String> {
    let failed = |error: gst::glib::BoolError| error.to_string();
    let pipeline = gst::Pipeline::new();
    let source = element("appsrc", "source")?
        .downcast::<gst_app::AppSrc>()
        .map_err(|_| "appsrc is something else")?;
    source.set_property("format", gst::Format::Time);
    source.set_caps(Some(caps));
    let sink = element("appsink", "sink")?
        .downcast::<gst_app::AppSink>()
        .map_err(|_| "appsink is something else")?;
    sink.set_property("sync", false);
    sink.set_property("enable-last-sample", false);
    let all: Vec<&gst::Element> = std::iter::once(source.upcast_ref())
        .chain(elements)
        .chain(std::iter::once(sink.upcast_ref()))
        .collect();
    pipeline.add_many(&all).map_err(failed)?;
    gst::Element::link_many(&all).map_err(failed)?;
    let result = push_and_pull(&pipeline, &source, &sink, buffers);
    let _ = pipeline.set_state(gst::State::Null);
    result
}

fn push_and_pull(
    pipeline: &gst::Pipeline,
    source: &gst_app::AppSrc,
    sink: &gst_app::AppSink,
    buffers: &[Vec<u8>],
) -> Result<(gst::Sample, f64), String> {
    let bus_error = |what: &str| {
        let bus = pipeline.bus();
        let error = bus.and_then(|bus| bus.pop_filtered(&[gst::MessageType::Error]));
        match error.as_ref().map(|message| message.view()) {
            Some(gst::MessageView::Error(error)) => {
                let debug = error.debug().unwrap_or_default();
                let reason = debug.lines().last().unwrap_or_default().trim().to_owned();
                format!("{} ({reason})", error.error())
            }
            _ => what.to_owned(),
        }
    };
    pipeline
        .set_state(gst::State::Playing)
        .map_err(|_| bus_error("the elements did not start"))?;
    let started = Instant::now();
    for (buffer, index) in buffers.iter().zip(0_u64..) {
        let mut buffer = gst::Buffer::from_slice(buffer.clone());
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(gst::ClockTime::from_mseconds(33 * index));
            buffer.set_duration(gst::ClockTime::from_mseconds(33));
        }
        source
            .push_buffer(buffer)
            .map_err(|_| bus_error("an image is refused"))?;
    }
    let _ = source.end_of_stream();
    let mut last = None;
    let mut count = 0_usize;
    let timeout = gst::ClockTime::from_nseconds(SAMPLE_TIMEOUT.as_nanos() as u64);
    while let Some(sample) = sink.try_pull_sample(timeout) {
        count += 1;
        last = Some(sample);
        if count == buffers.len() {
            break;
        }
    }
    let elapsed = started.elapsed();
    match last {
        Some(sample) if count == buffers.len() => {
            Ok((sample, elapsed.as_secs_f64() * 1e3 / count as f64))
        }
        _ => Err(bus_error(&format!(
            "{count} of {} images arrived within {} s",
            buffers.len(),
            SAMPLE_TIMEOUT.as_secs()
        ))),
    }
}

/// B, G and R of each pixel of a `BGRx` image, without padding.
fn bgr(sample: &gst::Sample) -> Option<Vec<u8>> {
    let info = gstreamer_video::VideoInfo::from_caps(sample.caps()?).ok()?;
    let frame =
        gstreamer_video::VideoFrameRef::from_buffer_ref_readable(sample.buffer()?, &info).ok()?;
    let stride = usize::try_from(*frame.plane_stride().first()?).ok()?;
    let (width, height) = (frame.width() as usize, frame.height() as usize);
    let mut samples = Vec::with_capacity(width * height * 3);
    for row in frame.plane_data(0).ok()?.chunks(stride).take(height) {
        let pixels = row.get(..width * 4)?.chunks_exact(4);
        samples.extend(pixels.flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]));
    }
    Some(samples)
}

/// Planes Y, U and V without padding.
fn planes(sample: &gst::Sample) -> Option<Vec<u8>> {
    let info = gstreamer_video::VideoInfo::from_caps(sample.caps()?).ok()?;
    let frame =
        gstreamer_video::VideoFrameRef::from_buffer_ref_readable(sample.buffer()?, &info).ok()?;
    let mut samples = Vec::new();
    for plane in 0..3 {
        let stride = usize::try_from(*frame.plane_stride().get(plane as usize)?).ok()?;
        let (width, height) = (frame.comp_width(plane), frame.comp_height(plane));
        let rows = frame.plane_data(plane).ok()?.chunks(stride);
        for row in rows.take(height as usize) {
            samples.extend_from_slice(row.get(..width as usize)?);
        }
    }
    Some(samples)
}
