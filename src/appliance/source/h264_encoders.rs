// SPDX-License-Identifier: Apache-2.0
//! Table of the H.264 encoders for video that comes without a stream which could be kept: raw and Motion JPEG cameras. Encoders of a
//! Jetson come first. Those of the CPU are not in the table of elements, because a machine needs only one.
//!
//! Its settings differ from those of annotated video: the bit rate has a limit, and each stream begins again every few seconds.

use gstreamer as gst;

use crate::elements::{is_installed, make_optional, set_if_supported, set_number};

/// Time between two keyframes at most, in seconds: the length by which a clip may begin too early.
pub(crate) const KEYFRAME_INTERVAL_S: u32 = 2;

/// A property of an encoder.
#[derive(Debug, Clone, Copy)]
enum Setting {
    Text(&'static str),
    /// The limit of the bit rate, in kbit/s or in bit/s.
    Kilobits,
    Bits,
    /// Images from one keyframe to the next.
    KeyframeDistance,
}

/// An encoder, its package, and its properties, which are set where the element has them: releases differ.
#[derive(Debug)]
pub(crate) struct H264Encoder {
    pub(crate) element: &'static str,
    package: &'static str,
    /// Whether it takes images in NVMM only.
    pub(crate) needs_nvmm: bool,
    settings: &'static [(&'static str, Setting)],
}

/// In the order of preference.
const ENCODERS: &[H264Encoder] = &[
    H264Encoder {
        element: "nvv4l2h264enc",
        package: "nvidia-l4t-gstreamer",
        needs_nvmm: true,
        settings: &[
            ("control-rate", Setting::Text("variable_bitrate")),
            ("bitrate", Setting::Bits),
            ("peak-bitrate", Setting::Bits),
            ("iframeinterval", Setting::KeyframeDistance),
            ("idrinterval", Setting::KeyframeDistance),
            ("insert-sps-pps", Setting::Text("true")),
            ("maxperf-enable", Setting::Text("true")),
        ],
    },
    // Constant quality below the limit: a scene at rest costs few bytes. One thread: the CPU also runs the network.
    H264Encoder {
        element: "x264enc",
        package: "gstreamer1.0-plugins-ugly",
        needs_nvmm: false,
        settings: &[
            ("speed-preset", Setting::Text("ultrafast")),
            ("tune", Setting::Text("zerolatency")),
            ("pass", Setting::Text("qual")),
            ("quantizer", Setting::Text("23")),
            ("bitrate", Setting::Kilobits),
            ("vbv-buf-capacity", Setting::Text("1000")),
            ("threads", Setting::Text("1")),
            ("key-int-max", Setting::KeyframeDistance),
        ],
    },
    H264Encoder {
        element: "openh264enc",
        package: "gstreamer1.0-plugins-bad",
        needs_nvmm: false,
        settings: &[
            ("rate-control", Setting::Text("bitrate")),
            ("bitrate", Setting::Bits),
            ("max-bitrate", Setting::Bits),
            ("complexity", Setting::Text("low")),
            ("multi-thread", Setting::Text("1")),
            ("gop-size", Setting::KeyframeDistance),
        ],
    },
];

impl H264Encoder {
    /// Sets the properties of `element`, which encodes `fps` images per second.
    pub(crate) fn configure(&self, element: &gst::Element, max_bitrate_kbps: u32, fps: u32) {
        for (property, setting) in self.settings {
            let number = match setting {
                Setting::Text(text) => {
                    set_if_supported(property, element, text);
                    continue;
                }
                Setting::Kilobits => max_bitrate_kbps,
                Setting::Bits => max_bitrate_kbps.saturating_mul(1000),
                Setting::KeyframeDistance => fps.saturating_mul(KEYFRAME_INTERVAL_S).max(1),
            };
            set_number(property, element, number);
        }
    }

    /// Makes the element.
    pub(crate) fn make(&self) -> Result<gst::Element, String> {
        make_optional(self.element, "encoder")
            .ok_or_else(|| format!("GStreamer cannot make {}", self.element))
    }
}

/// The encoders that are installed, the best one first. Images in NVMM (`in_nvmm`), and encoders that need them, need L4T's
/// converter. GStreamer must be initialized.
///
/// # Errors
/// There is none; the packages that have one.
pub(crate) fn installed(in_nvmm: bool) -> Result<Vec<&'static H264Encoder>, String> {
    installed_from(in_nvmm, &is_installed)
}

fn installed_from(
    in_nvmm: bool,
    is_installed: &dyn Fn(&str) -> bool,
) -> Result<Vec<&'static H264Encoder>, String> {
    let usable = |encoder: &&H264Encoder| {
        let needs_converter = in_nvmm || encoder.needs_nvmm;
        is_installed(encoder.element) && (!needs_converter || is_installed("nvvidconv"))
    };
    let found: Vec<_> = ENCODERS.iter().filter(usable).collect();
    if found.is_empty() {
        let names = ENCODERS.iter().filter(|encoder| !encoder.needs_nvmm);
        let names: Vec<_> = names
            .map(|encoder| format!("{} ({})", encoder.package, encoder.element))
            .collect();
        return Err(format!(
            "this machine has no H.264 encoder; install one of {}",
            names.join(", ")
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(in_nvmm: bool, installed: &[&str]) -> Result<Vec<&'static str>, String> {
        let found = installed_from(in_nvmm, &|name| installed.contains(&name));
        found.map(|found| found.iter().map(|encoder| encoder.element).collect())
    }

    #[test]
    fn hardware_comes_first_and_needs_its_converter() {
        let all = ["nvv4l2h264enc", "x264enc", "openh264enc", "nvvidconv"];
        assert_eq!(names(true, &all).as_deref(), Ok(&all[..3]));
        assert_eq!(names(false, &all[..3]).as_deref(), Ok(&all[1..3]));
        assert!(names(true, &all[..3]).is_err(), "nothing reads NVMM");
        let error = names(false, &[]).expect_err("no encoder");
        assert!(
            error.contains("gstreamer1.0-plugins-ugly (x264enc)"),
            "{error}"
        );
        assert!(!error.contains("nvidia"), "{error}");
    }
}
