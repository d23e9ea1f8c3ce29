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
    fps: Option<u32>,
) -> gst::Caps {
    let one = |media: &str| {
        let mut structure = gst::Structure::builder(media);
        if let Some((width, height)) = size {
            structure = structure
                .field("width", width.cast_signed())
                .field("height", height.cast_signed());
        }
        if let Some(fps) = fps {
            structure = structure.field("framerate", gst::Fraction::new(fps.cast_signed(), 1));
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

/// The caps of the configured mode of a CSI camera, which delivers `NV12` in NVMM.
pub(super) fn csi_caps(size: Option<(u32, u32)>, fps: Option<u32>) -> gst::Caps {
    let mut caps = gst::Caps::builder("video/x-raw")
        .features([NVMM])
        .field("format", "NV12");
    if let Some((width, height)) = size {
        caps = caps
            .field("width", width.cast_signed())
            .field("height", height.cast_signed());
    }
    if let Some(fps) = fps {
        caps = caps.field("framerate", gst::Fraction::new(fps.cast_signed(), 1));
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

/// The remedy for a failing CSI camera, whose driver reports little; `None` for other sources.
pub(super) fn csi_hint(uri: &SourceUri, element: &str) -> Option<&'static str> {
    (matches!(uri, SourceUri::Csi { .. }) && element == ELEMENT).then_some(
        "check that the camera's daemon runs (systemctl status nvargus-daemon), that the sensor is connected (ls /dev/video*), \
         that its number is right, and that it supports the requested size and rate",
    )
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

fn requested_format(format: V4l2Format, size: Option<(u32, u32)>, fps: Option<u32>) -> String {
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
            (V4l2Format::Raw, Some((640, 360)), Some(15)),
            (V4l2Format::Any, Some((1280, 720)), Some(60)),
        ] {
            check_camera_mode(&uri(format, size, fps), &offered).expect("the camera has it");
        }
        let wanted = uri(V4l2Format::H264, Some((640, 360)), None);
        assert_eq!(
            check_camera_mode(&wanted, &offered).expect_err("it has no H.264"),
            "the camera does not offer h264 640×360, it offers: raw 640×360 at 30 or 15 frames/s; mjpeg 16 to 1920×16 to 1080 at 1 to \
             60 frames/s"
        );
        let wanted = uri(V4l2Format::Raw, Some((640, 360)), Some(25));
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
    fn requested_camera_mode_is_named_as_in_config() {
        assert_eq!(
            requested_format(V4l2Format::Mjpeg, Some((1280, 720)), Some(30)),
            "mjpeg 1280×720 30 frames/s"
        );
        assert_eq!(requested_format(V4l2Format::H264, None, None), "h264");
        assert_eq!(
            requested_format(V4l2Format::Any, None, Some(240)),
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
