// SPDX-License-Identifier: Apache-2.0
//! The sources: whether the box has their cameras, modes and elements, and which of its units would process them.

use jetwatch_config::{Config, DecoderChoice, SourceConfig, SourceUri, V4l2Format};
use jetwatch_source::{ELEMENTS, ElementSpec, gst};
use jetwatch_types::{Placement, Size};

use super::super::{Facts, Found};
use crate::CheckReport;

/// Elements of every pipeline.
const COMMON: [&str; 6] = [
    "capsfilter",
    "tee",
    "decodebin",
    "videoscale",
    "videoconvert",
    "appsink",
];

/// The elements that the sources of `config` need on any machine, in the order of the table.
pub(super) fn needed_elements(config: &Config) -> Vec<&'static ElementSpec> {
    let mut names: Vec<&str> = Vec::new();
    for source in &config.sources {
        let own = match &source.uri {
            SourceUri::Synthetic(_) | SourceUri::Images(_) => continue,
            SourceUri::Rtsp { .. } => Some("rtspsrc"),
            SourceUri::Http { .. } => Some("souphttpsrc"),
            SourceUri::Stream(location) => Some(gst::stream_element(location)),
            SourceUri::V4l2 { .. } => Some("v4l2src"),
            SourceUri::File(_) => Some("filesrc"),
            // The plan has the camera's element.
            SourceUri::Csi { .. } | SourceUri::Launch(_) => None,
        };
        names.extend(own.iter().chain(&COMMON));
        if source.decoder == DecoderChoice::Software {
            names.push("avdec_h264");
        }
    }
    let specs = ELEMENTS.iter();
    specs.filter(|spec| names.contains(&spec.name)).collect()
}

/// Checks one source.
pub(super) fn check(
    config: &Config,
    source: &SourceConfig,
    facts: &Facts,
    (input, placement): (Size, Placement),
    report: &mut CheckReport,
) {
    let what = format!("source {}", source.name);
    let problem = match &source.uri {
        SourceUri::V4l2 { .. } => v4l2(source, facts, report),
        SourceUri::Csi { sensor, .. } => csi(*sensor, facts),
        SourceUri::File(path) | SourceUri::Images(path) => {
            let text = format!("whether the box has {} is not checked", path.display());
            report.unknown(&what, &text);
            None
        }
        SourceUri::Rtsp { .. }
        | SourceUri::Http { .. }
        | SourceUri::Stream(_)
        | SourceUri::Launch(_) => {
            report.unknown(&what, "not opened: jetwatch check on the box does");
            None
        }
        SourceUri::Synthetic(_) => None,
    };
    if let Some(problem) = problem {
        report.failed(&what, &problem);
    }
    let check = |element: &'static str, setting: Option<(&'static str, &'static str)>| {
        require_element(facts, element, setting)
    };
    let plan = format!("plan {}", source.name);
    match gst::predict_plan_with(source, &facts.machine, &check, input, placement) {
        Ok(expected) => {
            report.ok(&plan, &expected.to_string());
            for note in &expected.notes {
                report.ok(&plan, note);
            }
        }
        Err(error) => report.failed(&plan, &error.to_string()),
    }
    let is_kept = config.record.has_clips(source) || config.record.is_continuous(source);
    if is_kept && let Some(problem) = no_stream(source, facts) {
        report.failed(&what, &problem);
    }
}

/// What is wrong with a V4L2 camera of the box.
fn v4l2(source: &SourceConfig, facts: &Facts, report: &mut CheckReport) -> Option<String> {
    let SourceUri::V4l2 { device, .. } = &source.uri else {
        return None;
    };
    let what = format!("source {}", source.name);
    // Names below /dev/v4l are links to the node of a camera, and the facts have the node.
    if !device.to_string_lossy().starts_with("/dev/video") {
        let text = format!(
            "{} is not checked: the facts have /dev/video* only",
            device.display()
        );
        report.unknown(&what, &text);
        return None;
    }
    let Some(camera) = facts.cameras.iter().find(|camera| camera.device == *device) else {
        let others = facts.cameras.iter();
        let others: Vec<_> = others
            .map(|camera| format!("{} ({})", camera.device.display(), camera.name))
            .collect();
        return Some(match others.is_empty() {
            true => format!("the box has no {}, and no other camera", device.display()),
            false => format!(
                "the box has no {}, it has {}",
                device.display(),
                others.join(", ")
            ),
        });
    };
    match &camera.modes {
        Found::Missing(reason) => {
            let text = format!("{}: its modes are not known: {reason}", camera.name);
            report.unknown(&what, &text);
            None
        }
        Found::Found(modes) => match gst::check_camera_mode(&source.uri, modes) {
            Ok(()) => {
                let text = format!("{}, {}", device.display(), camera.name);
                report.ok(&what, &text);
                None
            }
            Err(reason) => Some(format!("{}: {reason}", device.display())),
        },
    }
}

/// What is wrong with a CSI camera of the box; that it is a Jetson is checked with its plan.
fn csi(sensor: u32, facts: &Facts) -> Option<String> {
    let cameras = u32::try_from(facts.csi_cameras.len()).unwrap_or(u32::MAX);
    if !facts.machine.is_jetson() || sensor < cameras {
        return None;
    }
    Some(match cameras {
        0 => "the device tree of the box has no CSI camera; a connected one needs its overlay (sudo /opt/nvidia/jetson-io/jetson-io.py)".to_owned(),
        _ => format!(
            "the box has no sensor {sensor}, its device tree has {cameras}, numbered from 0: {}",
            facts.csi_cameras.join(", ")
        ),
    })
}

/// Why video of a source that is to be kept cannot be encoded.
fn no_stream(source: &SourceConfig, facts: &Facts) -> Option<String> {
    let needs_encoder = match &source.uri {
        SourceUri::V4l2 { format, .. } => !matches!(format, V4l2Format::H264 | V4l2Format::H265),
        SourceUri::Csi { .. } => true,
        _ => false,
    };
    let gstreamer = facts.gstreamer.get().ok()?;
    (needs_encoder && gstreamer.h264_encoders.is_empty()).then(|| {
        "record keeps its video, but the box has no H.264 encoder; install gstreamer1.0-plugins-ugly (x264enc), or set record: {clips: \
         false, continuous: false} for it"
            .to_owned()
    })
}

/// Whether the box has an element with a property. Its values are not in the facts.
fn require_element(
    facts: &Facts,
    element: &'static str,
    setting: Option<(&'static str, &'static str)>,
) -> Result<(), String> {
    let found = facts.gstreamer.get()?.elements.get(element);
    let Some(found) = found else {
        let specs = ELEMENTS.iter().find(|spec| spec.name == element);
        let package = specs.map_or("", |spec| spec.package);
        return Err(format!(
            "GStreamer element {element} is missing on the box; install it with: apt-get install {package}"
        ));
    };
    match setting {
        Some((property, _)) if !found.properties.iter().any(|name| name == property) => Err(
            format!("GStreamer element {element} of the box has no property {property}"),
        ),
        _ => Ok(()),
    }
}
