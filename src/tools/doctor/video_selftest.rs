// SPDX-License-Identifier: Apache-2.0
//! Self-tests of scaling and decoding on this machine: the same images through different elements, each timed separately.
//!
//! Opens no source or camera.

use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use gstreamer_video::VideoFrameExt;

use jetwatch_files::Sha256Digest;
use jetwatch_platform::UnitElement;
use jetwatch_source::gst::init;
use jetwatch_source::{make_element, set_if_supported};
use jetwatch_types::Size;

use super::test_clip::TestClip;

/// Caps feature of images in NVMM.
const NVMM: &str = "memory:NVMM";

/// Input and output size of the scaling test. Small, so that every release uses the same color matrix.
const LARGE: Size = Size::new(640, 352);
const SMALL: Size = Size::new(320, 176);

/// Number of scaled images.
const SCALED_IMAGES: usize = 40;

/// Number of rotated, cut or decoded images where the speed is not of interest.
const FEW_IMAGES: usize = 4;

/// The part of an image of [`LARGE`] that is cut out, with the size of [`SMALL`]: left, right, top and bottom edge.
const PART: [u32; 4] = [160, 480, 88, 264];

/// Timeout of a test for one image.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(10);

/// A Jetson's encoder of pictures. It is not in the table of elements, because a daemon needs none.
const PICTURE_ENCODER: &str = "nvjpegenc";

/// A Jetson's encoder of video.
const VIDEO_ENCODER: &str = "nvv4l2h264enc";

/// What a converter does besides scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Clockwise, by 90 degrees.
    Rotate,
    /// Cuts out a part.
    Cut,
}

/// Output of a test of scaling.
#[derive(Debug, Clone)]
pub(super) struct ScalingResult {
    /// Samples of the last image, without padding.
    pub(super) samples: Vec<u8>,
    /// Time from the first input to the last output, divided by the number of images, in ms.
    pub(super) ms_per_image: f64,
}

/// Output of a test of decoding.
#[derive(Debug, Clone)]
pub(super) struct DecodingResult {
    /// Digest of each image in the order of output: the planes Y, U and V, without padding.
    pub(super) images: Vec<Sha256Digest>,
    /// As in [`ScalingResult`].
    pub(super) ms_per_image: f64,
}

/// Mean difference of two images' samples, 0 to 255; `None` when their sizes differ.
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

/// Scales images of 640×352 to 320×176 and converts them to `BGRx`, as the daemon does: on the CPU, or with `converter`, an
/// element of a Jetson. Copies into and out of the Jetson's memory are part of the time. Samples are B, G, R of each pixel.
///
/// # Errors
/// An element is missing or fails; the text is one sentence.
pub(super) fn test_scaling(converter: Option<UnitElement>) -> Result<ScalingResult, String> {
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
    elements.push(filter("output", raw(SMALL, "BGRx").build())?);
    let caps = raw(LARGE, "I420").field("framerate", gst::Fraction::new(30, 1));
    let images = vec![draw(LARGE); SCALED_IMAGES];
    let mut last = None;
    let ms_per_image = run(&caps.build(), &images, &elements, &mut |sample| {
        last = Some(sample);
    })?;
    let samples = last.as_ref().and_then(bgr);
    let samples = samples.ok_or("the image cannot be read")?;
    Ok(ScalingResult {
        samples,
        ms_per_image,
    })
}

/// Rotates or cuts images of 640×352, as the daemon does: on the CPU, or with `converter`, an element of a Jetson. Samples are the planes
/// Y, U and V.
///
/// # Errors
/// Those of [`test_scaling`].
pub(super) fn test_change(
    change: Change,
    converter: Option<UnitElement>,
) -> Result<ScalingResult, String> {
    init("*:1").map_err(|error| error.to_string())?;
    let [left, right, top, bottom] = PART;
    let output = match change {
        Change::Rotate => Size::new(LARGE.height, LARGE.width),
        Change::Cut => SMALL,
    };
    let mut elements = Vec::new();
    let set = |element: &gst::Element, property: &'static str, value: &str| {
        if !element.has_property(property) {
            return Err(format!("{} has no property {property}", element.name()));
        }
        element.set_property_from_str(property, value);
        Ok(())
    };
    match (change, converter) {
        (Change::Rotate, None) => {
            let rotate = element("videoflip", "rotate")?;
            set(&rotate, "video-direction", "90r")?;
            elements.push(rotate);
        }
        (Change::Cut, None) => {
            let cut = element("videocrop", "cut")?;
            for (side, pixels) in [
                ("left", left),
                ("right", LARGE.width - right),
                ("top", top),
                ("bottom", LARGE.height - bottom),
            ] {
                set(&cut, side, &pixels.to_string())?;
            }
            elements.push(cut);
        }
        (_, Some(unit)) => {
            let upload = configured(unit, "upload")?;
            let changed = configured(unit, "change")?;
            match change {
                Change::Rotate => set(&changed, "flip-method", "clockwise")?,
                Change::Cut => {
                    for (side, pixels) in [
                        ("left", left),
                        ("right", right),
                        ("top", top),
                        ("bottom", bottom),
                    ] {
                        set(&changed, side, &pixels.to_string())?;
                    }
                }
            }
            let nvmm = filter("nvmm", raw(LARGE, "NV12").features([NVMM]).build())?;
            elements.extend([upload, nvmm, changed]);
        }
    }
    // The elements of the CPU need no size, and `videoflip` 1.20 has the rotated one with the first image only.
    if converter.is_some() {
        elements.push(filter("output", raw(output, "I420").build())?);
    }
    let caps = raw(LARGE, "I420").field("framerate", gst::Fraction::new(30, 1));
    last_planes(&caps.build(), &vec![draw(LARGE); FEW_IMAGES], &elements)
}

/// Decodes a JPEG file with `decoder` and `converter`, elements of a Jetson. Samples are the planes Y, U and V.
///
/// # Errors
/// Those of [`test_scaling`].
pub(super) fn test_jpeg(
    decoder: UnitElement,
    converter: UnitElement,
    size: Size,
    file: &[u8],
) -> Result<ScalingResult, String> {
    init("*:1").map_err(|error| error.to_string())?;
    let mut elements = Vec::new();
    let decode = configured(decoder, "decode")?;
    // The video decoder needs whole images; the JPEG decoder finds their boundaries itself.
    if set_if_supported("mjpeg", &decode, "true") {
        elements.push(element("jpegparse", "parse")?);
    }
    elements.extend([
        decode,
        configured(converter, "convert")?,
        filter("output", raw(size, "I420").build())?,
    ]);
    let caps = gst::Caps::builder("image/jpeg")
        .field("width", size.width.cast_signed())
        .field("height", size.height.cast_signed())
        .field("framerate", gst::Fraction::new(30, 1))
        .build();
    last_planes(&caps, &vec![file.to_vec(); FEW_IMAGES], &elements)
}

/// Encodes images of gray shades as JPEG files, as the daemon does for pictures: with `converter`, an element of a Jetson, and its JPEG
/// encoder. Samples are B, G, R of each pixel of the last file.
///
/// # Errors
/// Those of [`test_scaling`]; the file cannot be decoded.
pub(super) fn test_pictures(
    converter: UnitElement,
    size: Size,
    pixels: &[u8],
) -> Result<ScalingResult, String> {
    init("*:1").map_err(|error| error.to_string())?;
    let elements = [
        configured(converter, "upload")?,
        filter("nvmm", raw(size, "I420").features([NVMM]).build())?,
        element(PICTURE_ENCODER, "encoder")?,
    ];
    let caps = raw(size, "BGRx").field("framerate", gst::Fraction::new(30, 1));
    let mut file = None;
    let images = vec![pixels.to_vec(); FEW_IMAGES];
    let ms_per_image = run(&caps.build(), &images, &elements, &mut |sample| {
        let bytes = sample
            .buffer()
            .and_then(|buffer| buffer.map_readable().ok());
        file = bytes.map(|bytes| bytes.to_vec());
    })?;
    let image = jetwatch_pixels::decode(file.ok_or("the file cannot be read")?)?;
    let (pixels, _) = image.pixels.as_chunks::<4>();
    Ok(ScalingResult {
        samples: pixels
            .iter()
            .flat_map(|[b, g, r, _]| [*b, *g, *r])
            .collect(),
        ms_per_image,
    })
}

/// Encodes images of gray shades as H.264, as the daemon does for clips, and decodes them, all with elements of a Jetson. Samples are B, G, R
/// of each pixel of the last image.
///
/// # Errors
/// Those of [`test_scaling`].
pub(super) fn test_encoding(
    converter: UnitElement,
    decoder: UnitElement,
    size: Size,
    pixels: &[u8],
) -> Result<ScalingResult, String> {
    init("*:1").map_err(|error| error.to_string())?;
    let encoder = element(VIDEO_ENCODER, "encoder")?;
    set_if_supported("insert-sps-pps", &encoder, "true");
    let elements = [
        configured(converter, "upload")?,
        filter("nvmm", raw(size, "NV12").features([NVMM]).build())?,
        encoder,
        element("h264parse", "parse")?,
        configured(decoder, "decode")?,
        configured(converter, "convert")?,
        filter("output", raw(size, "BGRx").build())?,
    ];
    let caps = raw(size, "BGRx").field("framerate", gst::Fraction::new(30, 1));
    let mut last = None;
    let images = vec![pixels.to_vec(); FEW_IMAGES];
    let ms_per_image = run(&caps.build(), &images, &elements, &mut |sample| {
        last = bgr(&sample);
    })?;
    Ok(ScalingResult {
        samples: last.ok_or("the image cannot be read")?,
        ms_per_image,
    })
}

/// The planes of the last image that `elements` make of `images`.
fn last_planes(
    caps: &gst::Caps,
    images: &[Vec<u8>],
    elements: &[gst::Element],
) -> Result<ScalingResult, String> {
    let mut last = None;
    let ms_per_image = run(caps, images, elements, &mut |sample| {
        last = planes(&sample);
    })?;
    Ok(ScalingResult {
        samples: last.ok_or("the image cannot be read")?,
        ms_per_image,
    })
}

/// Smooth shades in the planes Y, U and V of an image; all samples are within 16 to 235.
fn draw(size: Size) -> Vec<u8> {
    let (width, height) = (size.width as usize, size.height as usize);
    let shade = |x: usize, width: usize| 16 + (x * 219 / width.max(1)) as u8;
    let mut planes = Vec::with_capacity(width * height * 3 / 2);
    for y in 0..height {
        planes.extend((0..width).map(|x| shade((x + y) % (2 * width), 2 * width)));
    }
    for y in 0..height / 2 {
        planes.extend((0..width / 2).map(|_| shade(y, height / 2) / 2 + 64));
    }
    for _ in 0..height / 2 {
        planes.extend((0..width / 2).map(|x| shade(x, width / 2) / 2 + 64));
    }
    planes
}

/// Decodes the test clip: on the CPU, or with `decoder` and `converter`, elements of a Jetson.
///
/// # Errors
/// Those of [`test_scaling`].
pub(super) fn test_decoding(
    units: Option<(UnitElement, UnitElement)>,
    clip: &TestClip,
) -> Result<DecodingResult, String> {
    init("*:1").map_err(|error| error.to_string())?;
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
    elements.push(filter("output", raw(clip.size, "I420").build())?);
    let caps = gst::Caps::builder("video/x-h264")
        .field("stream-format", "byte-stream")
        .field("alignment", "au")
        .field("profile", "high")
        .field("width", clip.size.width.cast_signed())
        .field("height", clip.size.height.cast_signed())
        .field("framerate", gst::Fraction::new(30, 1))
        .build();
    // Copied, because a Jetson's elements have few output buffers.
    let mut images = Vec::with_capacity(clip.images.len());
    let ms_per_image = run(&caps, &clip.access_units, &elements, &mut |sample| {
        images.push(planes(&sample));
    })?;
    let images: Option<Vec<Vec<u8>>> = images.into_iter().collect();
    let images = images.ok_or("an image cannot be read")?;
    Ok(DecodingResult {
        images: images.iter().map(|image| Sha256Digest::of(image)).collect(),
        ms_per_image,
    })
}

fn element(factory: &'static str, name: &str) -> Result<gst::Element, String> {
    make_element(factory, name).map_err(|error| error.to_string())
}

/// An element of a Jetson with the same unit setting as in the daemon.
fn configured(unit: UnitElement, name: &str) -> Result<gst::Element, String> {
    let element = element(unit.element, name)?;
    if let Some((property, nick)) = unit.setting
        && !set_if_supported(property, &element, nick)
    {
        return Err(format!(
            "{} does not accept {property}={nick}",
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

/// Sends `buffers` through `elements`. Passes each sample to `on_sample`, and returns the time per buffer in ms.
fn run(
    caps: &gst::Caps,
    buffers: &[Vec<u8>],
    elements: &[gst::Element],
    on_sample: &mut dyn FnMut(gst::Sample),
) -> Result<f64, String> {
    let failed = |error: gst::glib::BoolError| error.to_string();
    let pipeline = gst::Pipeline::new();
    let source = element("appsrc", "source")?
        .downcast::<gst_app::AppSrc>()
        .map_err(|_| "`appsrc` is another element")?;
    source.set_property("format", gst::Format::Time);
    source.set_caps(Some(caps));
    let sink = element("appsink", "sink")?
        .downcast::<gst_app::AppSink>()
        .map_err(|_| "`appsink` is another element")?;
    sink.set_property("sync", false);
    sink.set_property("enable-last-sample", false);
    let all: Vec<&gst::Element> = std::iter::once(source.upcast_ref())
        .chain(elements)
        .chain(std::iter::once(sink.upcast_ref()))
        .collect();
    pipeline.add_many(&all).map_err(failed)?;
    gst::Element::link_many(&all).map_err(failed)?;
    let result = push_and_pull(&pipeline, &source, &sink, buffers, on_sample);
    let _ = pipeline.set_state(gst::State::Null);
    result
}

fn push_and_pull(
    pipeline: &gst::Pipeline,
    source: &gst_app::AppSrc,
    sink: &gst_app::AppSink,
    buffers: &[Vec<u8>],
    on_sample: &mut dyn FnMut(gst::Sample),
) -> Result<f64, String> {
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
            .map_err(|_| bus_error("an image is rejected"))?;
    }
    let _ = source.end_of_stream();
    let mut count = 0_usize;
    let timeout = gst::ClockTime::from_nseconds(SAMPLE_TIMEOUT.as_nanos() as u64);
    while let Some(sample) = sink.try_pull_sample(timeout) {
        count += 1;
        on_sample(sample);
        if count == buffers.len() {
            break;
        }
    }
    let elapsed = started.elapsed();
    if count < buffers.len() {
        return Err(bus_error(&format!(
            "{count} of {} images arrived within {} s",
            buffers.len(),
            SAMPLE_TIMEOUT.as_secs()
        )));
    }
    Ok(elapsed.as_secs_f64() * 1e3 / count as f64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_image_is_within_the_range_of_video() {
        let image = draw(Size::new(64, 32));
        assert_eq!(image.len(), 64 * 32 * 3 / 2);
        assert!(image.iter().all(|sample| (16..=235).contains(sample)));
    }
}
