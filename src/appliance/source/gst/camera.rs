// SPDX-License-Identifier: Apache-2.0
//! Modes requested from a V4L2 camera, modes that it offers, and the error when they do not match.

use std::str::FromStr;

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::SourceError;
use crate::elements::make;
use jetwatch_config::{SourceUri, V4l2Format};

use super::hardware::VideoHardware;
use super::scaler_elements::NVMM;

/// Name of the camera element in its pipeline.
pub(super) const ELEMENT: &str = "camera";

/// Name of the element behind it, whose caps are those of its mode.
pub(super) const FILTER: &str = "camera-format";

/// Maximum number of sizes that an error lists.
const MAX_LISTED_OFFERS: usize = 24;

/// An environment variable that must be set before a camera is opened, for the GStreamer version in use.
///
/// GStreamer 1.22.0, which Debian 12 has, leaks a reference to a camera's buffer pool, and with it an open file, whenever it
/// stops the camera. Each reconnect would leak one, and a camera that is plugged in again would appear as another device,
/// because the old one is still open. This variable selects a way of stopping without the leak.
#[must_use]
pub fn needed_variable() -> Option<(&'static str, &'static str)> {
    let (major, minor, ..) = gst::version();
    needed_by(major, minor).filter(|(name, _)| std::env::var_os(name).is_none())
}

fn needed_by(major: u32, minor: u32) -> Option<(&'static str, &'static str)> {
    // Later 1.22 releases and others may not need it; it does no harm there.
    ((major, minor) == (1, 22)).then_some(("GST_V4L2_FORCE_DRAIN", "1"))
}

/// The caps of the configured camera mode.
pub(super) fn requested_caps(
    format: V4l2Format,
    size: Option<(u32, u32)>,
    fps: Option<f32>,
) -> gst::Caps {
    let one = |media: &str| {
        let mut structure = gst::Structure::builder(media);
        if let Some((width, height)) = size {
            structure = structure
                .field("width", width.cast_signed())
                .field("height", height.cast_signed());
        }
        if let Some(fps) = fps {
            structure = structure.field("framerate", rates(fps));
        }
        structure.build()
    };
    match format {
        V4l2Format::Raw => gst::Caps::builder_full()
            .structure(one("video/x-raw"))
            .build(),
        V4l2Format::Mjpeg => gst::Caps::builder_full()
            .structure(one("image/jpeg"))
            .build(),
        V4l2Format::H264 => gst::Caps::builder_full()
            .structure(one("video/x-h264"))
            .build(),
        V4l2Format::H265 => gst::Caps::builder_full()
            .structure(one("video/x-h265"))
            .build(),
        V4l2Format::Any if size.is_none() && fps.is_none() => gst::Caps::new_any(),
        V4l2Format::Any => gst::Caps::builder_full()
            .structure(one("video/x-raw"))
            .structure(one("image/jpeg"))
            .build(),
    }
}

/// The rates that are meant by `fps`: it, and that of television which is called so, 1000/1001 of a whole number.
fn rates(fps: f32) -> gst::List {
    let exact = gst::Fraction::approximate_f64((f64::from(fps) * 1000.0).round() / 1000.0);
    let whole = (f64::from(fps) * 1.001).round();
    let is_television = (f64::from(fps) / whole - 1.0).abs() < 0.0015;
    let television = is_television.then(|| gst::Fraction::new(whole as i32 * 1000, 1001));
    let whole = (is_television && fps.fract() != 0.0).then(|| gst::Fraction::new(whole as i32, 1));
    let rates = exact.into_iter().chain(television).chain(whole);
    gst::List::new(rates.collect::<Vec<_>>())
}

/// Least rate that a mode must have to be chosen by its size, in frames per second.
const MIN_CHOSEN_FPS: i32 = 15;

/// The mode to take of a camera with the modes `offered` where no rate is configured: the largest at [`MIN_CHOSEN_FPS`] or more, raw
/// before Motion JPEG; left to itself, GStreamer takes the largest, which many cameras send at 2 frames per second. `None`: none is so
/// fast.
fn chosen_caps(offered: &gst::Caps) -> Option<gst::Caps> {
    let fast = gst::FractionRange::new(
        gst::Fraction::new(MIN_CHOSEN_FPS, 1),
        gst::Fraction::new(i32::MAX, 1),
    );
    let side = |mode: &gst::StructureRef, name| {
        let side = mode.get::<i32>(name).ok();
        let range = || Some(mode.get::<gst::IntRange<i32>>(name).ok()?.max());
        side.or_else(range).map(i64::from)
    };
    let modes = ["image/jpeg", "video/x-raw"].map(|media| {
        let wanted = gst::Caps::builder(media).field("framerate", fast);
        offered.intersect(&wanted.build())
    });
    let area = |mode: &&gst::StructureRef| Some(side(mode, "width")? * side(mode, "height")?);
    // The last of the largest.
    let best = modes.iter().flat_map(|caps| caps.iter()).max_by_key(area)?;
    let mut best = best.to_owned();
    for name in ["width", "height"] {
        let pixels = i32::try_from(side(&best, name)?).ok()?;
        best.set(name, pixels);
    }
    best.remove_field("format");
    Some(gst::Caps::builder_full().structure(best).build())
}

/// Chooses the mode of the V4L2 camera in `pipeline`, which is open, where the configuration leaves it open.
pub(super) fn choose_mode(uri: &SourceUri, pipeline: &gst::Pipeline) {
    let SourceUri::V4l2 {
        format: V4l2Format::Any,
        size,
        fps: None,
        ..
    } = uri
    else {
        return;
    };
    let wanted = requested_caps(V4l2Format::Any, *size, None);
    let camera = pipeline
        .by_name(ELEMENT)
        .and_then(|camera| camera.static_pad("src"));
    let chosen = camera.and_then(|pad| chosen_caps(&pad.query_caps(Some(&wanted))));
    if let (Some(caps), Some(filter)) = (chosen, pipeline.by_name(FILTER)) {
        filter.set_property("caps", caps);
    }
}

/// The caps of the configured mode of a CSI camera, which delivers `NV12` in NVMM.
pub(super) fn csi_caps(size: Option<(u32, u32)>, fps: Option<f32>) -> gst::Caps {
    let mut caps = gst::Caps::builder("video/x-raw")
        .features([NVMM])
        .field("format", "NV12");
    if let Some((width, height)) = size {
        caps = caps
            .field("width", width.cast_signed())
            .field("height", height.cast_signed());
    }
    if let Some(fps) = fps {
        caps = caps.field("framerate", rates(fps));
    }
    caps.build()
}

/// Checks that this machine has what a CSI camera needs.
pub(super) fn check_csi(hardware: &VideoHardware, sensor: u32) -> Result<(), SourceError> {
    match &hardware.camera {
        Ok(_) => Ok(()),
        Err(reason) => Err(SourceError::Unsupported {
            uri: format!("csi://{sensor}"),
            reason: format!("{reason}; a USB camera is v4l2:///dev/videoN"),
        }),
    }
}

/// The remedy for a failing camera, whose driver reports little; `None` for other sources.
pub(super) fn hint(uri: &SourceUri, element: &str, message: &str) -> Option<&'static str> {
    match uri {
        _ if element != ELEMENT => None,
        SourceUri::Csi { .. } => Some(
            "check that the camera's daemon runs (systemctl status nvargus-daemon), that the sensor is connected (ls /dev/video*), \
             that its number is right, and that it supports the requested size and rate",
        ),
        // The kernel refuses to start the stream: ENOSPC.
        SourceUri::V4l2 { .. } if message.contains("Failed to allocate required memory") => Some(
            "its USB bus may have no bandwidth left, as with two cameras at one hub: set format: mjpeg, a smaller size or a lower rate, or \
             plug it into a port of another bus",
        ),
        _ => None,
    }
}

/// The error with the modes that the camera offers, if `message` means that it does not offer the requested one.
pub(super) fn format_error(
    uri: &SourceUri,
    pipeline: &gst::Pipeline,
    message: &gst::message::Error,
) -> Option<SourceError> {
    let SourceUri::V4l2 {
        device,
        format,
        size,
        fps,
    } = uri
    else {
        return None;
    };
    if !message.debug()?.contains("not-negotiated") {
        return None;
    }
    // The camera is still open, so its pad has the offered caps.
    let offered = pipeline
        .by_name(ELEMENT)?
        .static_pad("src")?
        .query_caps(None);
    let requested = requested_caps(*format, *size, *fps);
    // When they do match, an element behind the camera is the cause, and GStreamer's message is all there is.
    if requested.can_intersect(&offered) {
        return None;
    }
    Some(SourceError::CameraFormat {
        device: device.clone(),
        requested: requested_format(*format, *size, *fps),
        offered: describe(&offered),
    })
}

fn requested_format(format: V4l2Format, size: Option<(u32, u32)>, fps: Option<f32>) -> String {
    let mut parts = Vec::new();
    match format {
        V4l2Format::Any => {}
        V4l2Format::Raw => parts.push("raw".to_owned()),
        V4l2Format::Mjpeg => parts.push("mjpeg".to_owned()),
        V4l2Format::H264 => parts.push("h264".to_owned()),
        V4l2Format::H265 => parts.push("h265".to_owned()),
    }
    parts.extend(size.map(|(width, height)| format!("{width}×{height}")));
    parts.extend(fps.map(|fps| format!("{fps} frames/s")));
    parts.join(" ")
}

/// The pixel formats, sizes and frame rates that the V4L2 camera `device` offers, as text. Opens it without starting it.
///
/// # Errors
/// GStreamer does not start, or the camera cannot be opened; one sentence.
pub fn camera_offers(device: &str) -> Result<String, String> {
    offered_caps(device).map(|caps| describe(&caps))
}

/// The same as GStreamer's caps, one text for each format and size, which [`check_camera_mode`] reads.
///
/// # Errors
/// As for [`camera_offers`].
pub fn camera_caps(device: &str) -> Result<Vec<String>, String> {
    let caps = offered_caps(device)?;
    Ok(caps.iter().map(|mode| mode.to_string()).collect())
}

/// Checks that a camera with the modes `offered`, from [`camera_caps`], has the mode that `uri` requests; other sources have none.
///
/// # Errors
/// It has not, or the texts are no caps; one sentence.
pub fn check_camera_mode(uri: &SourceUri, offered: &[String]) -> Result<(), String> {
    let SourceUri::V4l2 {
        format, size, fps, ..
    } = uri
    else {
        return Ok(());
    };
    super::init("*:1").map_err(|error| error.to_string())?;
    let mut caps = gst::Caps::new_empty();
    for mode in offered {
        let mode = gst::Caps::from_str(mode)
            .map_err(|_| format!("found {mode:?}, expected caps of GStreamer"))?;
        caps.merge(mode);
    }
    if requested_caps(*format, *size, *fps).can_intersect(&caps) {
        return Ok(());
    }
    Err(format!(
        "the camera does not offer {}, it offers: {}",
        requested_format(*format, *size, *fps),
        describe(&caps)
    ))
}

fn offered_caps(device: &str) -> Result<gst::Caps, String> {
    super::init("*:1").map_err(|error| error.to_string())?;
    let camera = make("v4l2src", ELEMENT).map_err(|error| error.to_string())?;
    camera.set_property("device", device);
    let ready = camera.set_state(gst::State::Ready);
    let pad = camera
        .static_pad("src")
        .ok_or("the camera has no source pad")?;
    let offered = ready.map(|_| pad.query_caps(None));
    let _ = camera.set_state(gst::State::Null);
    offered.map_err(|_| "the camera cannot be opened".to_owned())
}

/// Formats, sizes and rates, in the camera's order and without duplicates. Raw pixel formats are not distinguished.
pub(super) fn describe(caps: &gst::Caps) -> String {
    let mut offers: Vec<String> = Vec::new();
    for structure in caps.iter() {
        let format = match structure.name().as_str() {
            "video/x-raw" => "raw",
            "image/jpeg" => "mjpeg",
            "video/x-h264" => "h264",
            "video/x-h265" => "h265",
            // jetwatch cannot request the others.
            _ => continue,
        };
        let text = |field: &str| {
            structure
                .value(field)
                .map_or_else(|_| "any".to_owned(), number_text)
        };
        let offer = format!(
            "{format} {}×{} at {} frames/s",
            text("width"),
            text("height"),
            text("framerate")
        );
        if !offers.contains(&offer) {
            offers.push(offer);
        }
    }
    if offers.is_empty() {
        return format!("nothing that jetwatch reads: {caps}");
    }
    let more = offers.len().saturating_sub(MAX_LISTED_OFFERS);
    offers.truncate(MAX_LISTED_OFFERS);
    let mut text = offers.join("; ");
    if more > 0 {
        text = format!("{text}; and {more} more");
    }
    text
}

/// A number, range or list of numbers without GStreamer's notation of types.
fn number_text(value: &gst::glib::SendValue) -> String {
    let fraction = |fraction: gst::Fraction| {
        let number = f64::from(fraction.numer()) / f64::from(fraction.denom());
        ((number * 100.0).round() / 100.0).to_string()
    };
    if let Ok(number) = value.get::<i32>() {
        number.to_string()
    } else if let Ok(range) = value.get::<gst::IntRange<i32>>() {
        format!("{} to {}", range.min(), range.max())
    } else if let Ok(rate) = value.get::<gst::Fraction>() {
        fraction(rate)
    } else if let Ok(range) = value.get::<gst::FractionRange>() {
        format!("{} to {}", fraction(range.min()), fraction(range.max()))
    } else if let Ok(list) = value.get::<gst::List>() {
        let numbers: Vec<String> = list.iter().map(number_text).collect();
        match numbers.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => "no".to_owned(),
        }
    } else {
        value
            .serialize()
            .map_or_else(|_| "?".to_owned(), |text| text.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_compared_with_recorded_caps() {
        let offered = [
            "video/x-raw, format=(string)YUY2, width=(int)640, height=(int)360, framerate=(fraction){ 30/1, 15/1 }",
            "image/jpeg, width=(int)[ 16, 1920 ], height=(int)[ 16, 1080 ], framerate=(fraction)[ 1/1, 60/1 ]",
        ]
        .map(str::to_owned);
        let uri = |format, size, fps| SourceUri::V4l2 {
            device: "/dev/video0".into(),
            format,
            size,
            fps,
        };
        for (format, size, fps) in [
            (V4l2Format::Any, None, None),
            (V4l2Format::Raw, Some((640, 360)), Some(15.0)),
            (V4l2Format::Any, Some((1280, 720)), Some(60.0)),
        ] {
            check_camera_mode(&uri(format, size, fps), &offered).expect("the camera has it");
        }
        let wanted = uri(V4l2Format::H264, Some((640, 360)), None);
        assert_eq!(
            check_camera_mode(&wanted, &offered).expect_err("it has no H.264"),
            "the camera does not offer h264 640×360, it offers: raw 640×360 at 30 or 15 frames/s; mjpeg 16 to 1920×16 to 1080 at 1 to \
             60 frames/s"
        );
        let wanted = uri(V4l2Format::Raw, Some((640, 360)), Some(25.0));
        check_camera_mode(&wanted, &offered).expect_err("not this rate");
        let text = "video/x-raw, width=(int)[";
        let error = check_camera_mode(&wanted, &[text.to_owned()]).expect_err("no caps");
        assert!(error.starts_with(&format!("found {text:?}")), "{error}");
    }

    #[test]
    fn camera_modes_are_listed_once_without_types() {
        gst::init().expect("GStreamer starts");
        let caps = gst::Caps::from_str(
            "video/x-raw, format=YUY2, width=640, height=360, framerate={ (fraction)30/1, (fraction)25/1, (fraction)15/2 }; \
             video/x-raw, format=NV12, width=640, height=360, framerate={ (fraction)30/1, (fraction)25/1, (fraction)15/2 }; \
             video/mpegts; \
             image/jpeg, width=[ 16, 1920 ], height=[ 16, 1080 ], framerate=[ 1/1, 60/1 ]; \
             video/x-h264, width=1920, height=1080, framerate=30/1",
        )
        .expect("caps");
        assert_eq!(
            describe(&caps),
            "raw 640×360 at 30, 25 or 7.5 frames/s; mjpeg 16 to 1920×16 to 1080 at 1 to 60 frames/s; \
             h264 1920×1080 at 30 frames/s"
        );
        let none = gst::Caps::from_str("video/mpegts").expect("caps");
        assert_eq!(describe(&none), "nothing that jetwatch reads: video/mpegts");
    }

    #[test]
    fn largest_mode_that_is_fast_enough_is_chosen() {
        gst::init().expect("GStreamer starts");
        let chosen = |offered: &str| {
            let offered = gst::Caps::from_str(offered).expect("caps");
            chosen_caps(&offered).map(|caps| describe(&caps))
        };
        // jacksonliam/mjpg-streamer#167, opencv/opencv#9540: the C920.
        let c920 = "video/x-raw, format=YUY2, width=2304, height=1536, framerate=2/1; \
                    video/x-raw, format=YUY2, width=1920, height=1080, framerate=5/1; \
                    video/x-raw, format=YUY2, width=640, height=480, framerate={ (fraction)30/1, (fraction)15/1, (fraction)5/1 }; \
                    image/jpeg, width=1920, height=1080, framerate={ (fraction)30/1, (fraction)5/1 }; \
                    image/jpeg, width=640, height=480, framerate=30/1";
        assert_eq!(
            chosen(c920).as_deref(),
            Some("mjpeg 1920×1080 at 30 frames/s")
        );
        let same = "image/jpeg, width=640, height=480, framerate=30/1; \
                    video/x-raw, format=YUY2, width=640, height=480, framerate=30/1";
        assert_eq!(chosen(same).as_deref(), Some("raw 640×480 at 30 frames/s"));
        let any = "video/x-raw, format=I420, width=[ 16, 1280 ], height=[ 16, 720 ], framerate=[ 0/1, 60/1 ]";
        assert_eq!(
            chosen(any).as_deref(),
            Some("raw 1280×720 at 15 to 60 frames/s")
        );
        assert_eq!(
            chosen("video/x-raw, width=3264, height=2448, framerate=2/1"),
            None
        );
        assert_eq!(
            chosen("video/x-h264, width=640, height=480, framerate=30/1"),
            None
        );
    }

    #[test]
    fn full_bus_is_named() {
        let uri = |text: &str| match text {
            "csi" => SourceUri::Csi {
                sensor: 0,
                mode: None,
                size: None,
                fps: None,
            },
            path => SourceUri::V4l2 {
                device: path.into(),
                format: V4l2Format::Any,
                size: None,
                fps: None,
            },
        };
        // pikvm/ustreamer#53, ros-drivers/usb_cam#204: what v4l2src says of ENOSPC.
        let full = "Failed to allocate required memory (Buffer pool activation failed)";
        let found = hint(&uri("/dev/video0"), ELEMENT, full).expect("a remedy");
        assert!(found.contains("format: mjpeg"), "{found}");
        assert!(hint(&uri("csi"), ELEMENT, full).is_some_and(|hint| hint.contains("nvargus")));
        assert_eq!(hint(&uri("/dev/video0"), "decoder", full), None);
        assert_eq!(hint(&uri("/dev/video0"), ELEMENT, "Device is busy"), None);
    }

    #[test]
    fn rates_of_television_are_meant_by_whole_numbers_and_by_two_decimals() {
        gst::init().expect("GStreamer starts");
        let offers = |rate: &str, fps| {
            let text = format!("video/x-raw, width=640, height=480, framerate={rate}");
            let uri = SourceUri::V4l2 {
                device: "/dev/video0".into(),
                format: V4l2Format::Raw,
                size: None,
                fps: Some(fps),
            };
            check_camera_mode(&uri, &[text]).is_ok()
        };
        // brutella/hkcam#21, TheImagingSource/tiscamera#109.
        for (rate, fps) in [
            ("30000/1001", 30.0),
            ("30000/1001", 29.97),
            ("30/1", 29.97),
            ("60000/1001", 59.94),
            ("60000/1001", 60.0),
            ("15/2", 7.5),
            ("25/2", 12.5),
            ("25/1", 25.0),
        ] {
            assert!(offers(rate, fps), "{rate} {fps}");
        }
        for (rate, fps) in [("25/1", 30.0), ("30000/1001", 29.0), ("15/2", 7.0)] {
            assert!(!offers(rate, fps), "{rate} {fps}");
        }
    }

    #[test]
    fn requested_camera_mode_is_named_as_in_config() {
        assert_eq!(
            requested_format(V4l2Format::Mjpeg, Some((1280, 720)), Some(30.0)),
            "mjpeg 1280×720 30 frames/s"
        );
        assert_eq!(requested_format(V4l2Format::H264, None, None), "h264");
        assert_eq!(
            requested_format(V4l2Format::Any, None, Some(240.0)),
            "240 frames/s"
        );
    }

    #[test]
    fn only_the_leaking_gstreamer_release_is_forced_to_drain() {
        assert_eq!(needed_by(1, 22), Some(("GST_V4L2_FORCE_DRAIN", "1")));
        for version in [(1, 16), (1, 20), (1, 24), (2, 22)] {
            assert_eq!(needed_by(version.0, version.1), None, "{version:?}");
        }
    }
}
