// SPDX-License-Identifier: Apache-2.0
//! Table of known encoders, and selection of one for a file: the first that is installed and that the container supports.
//! Hardware encoders of a Jetson come first.

use std::fmt;
use std::path::{Path, PathBuf};

use gstreamer as gst;
use gstreamer::prelude::*;

use super::RenderError;

const BASE: &str = "gstreamer1.0-plugins-base";
const GOOD: &str = "gstreamer1.0-plugins-good";
const BAD: &str = "gstreamer1.0-plugins-bad";
const UGLY: &str = "gstreamer1.0-plugins-ugly";
const LIBAV: &str = "gstreamer1.0-libav";
const L4T: &str = "nvidia-l4t-gstreamer";

/// Containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// `.mp4`; playable only after it was completed.
    Mp4,
    /// `.mkv`; playable up to its end, also when truncated.
    Matroska,
    /// `.webm`; playable up to its end, also when truncated.
    WebM,
}

impl Container {
    /// The container for the extension of a file name.
    ///
    /// # Errors
    /// The extension is missing or unknown.
    pub fn from_path(path: &Path) -> Result<Self, RenderError> {
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy());
        match suffix.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("mp4") => Ok(Self::Mp4),
            Some("mkv") => Ok(Self::Matroska),
            Some("webm") => Ok(Self::WebM),
            other => Err(RenderError::Suffix {
                path: path.to_owned(),
                found: other.map_or_else(
                    || "the name has no extension".to_owned(),
                    |suffix| format!("the name ends in .{suffix}"),
                ),
            }),
        }
    }

    pub(super) const fn muxer(self) -> (&'static str, &'static str) {
        match self {
            Self::Mp4 => ("mp4mux", GOOD),
            Self::Matroska => ("matroskamux", GOOD),
            Self::WebM => ("webmmux", GOOD),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Mp4 => "MP4",
            Self::Matroska => "Matroska",
            Self::WebM => "WebM",
        }
    }

    fn supports(self, codec: Codec) -> bool {
        match self {
            Self::Mp4 => codec != Codec::Vp8,
            Self::Matroska => true,
            Self::WebM => codec == Codec::Vp8,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    H264,
    Mpeg4,
    Vp8,
}

/// A value of an encoder's property.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    Text(&'static str),
    /// Bit rate in bits per second, from the image size.
    Bitrate,
}

/// An encoder and its settings.
#[derive(Debug)]
pub struct Encoder {
    pub(super) element: &'static str,
    pub(super) package: &'static str,
    pub(super) codec: Codec,
    /// Parser between the encoder and the muxer, where one is needed.
    pub(super) parser: Option<&'static str>,
    /// Whether it accepts only images in NVMM (Jetson device memory).
    pub(super) needs_nvmm: bool,
    /// Properties, set when the element has them: releases differ.
    pub(super) settings: &'static [(&'static str, Setting)],
}

impl fmt::Display for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.element)
    }
}

/// Known encoders in the order of preference.
const ENCODERS: &[Encoder] = &[
    Encoder {
        element: "nvv4l2h264enc",
        package: L4T,
        codec: Codec::H264,
        parser: Some("h264parse"),
        needs_nvmm: true,
        settings: &[
            ("bitrate", Setting::Bitrate),
            ("insert-sps-pps", Setting::Text("true")),
            ("maxperf-enable", Setting::Text("true")),
        ],
    },
    // One thread: the CPU also runs the network, and frames are dropped when the encoder is behind.
    Encoder {
        element: "x264enc",
        package: UGLY,
        codec: Codec::H264,
        parser: None,
        needs_nvmm: false,
        settings: &[
            ("speed-preset", Setting::Text("ultrafast")),
            ("tune", Setting::Text("zerolatency")),
            ("pass", Setting::Text("qual")),
            ("quantizer", Setting::Text("21")),
            ("threads", Setting::Text("1")),
            ("key-int-max", Setting::Text("60")),
        ],
    },
    Encoder {
        element: "openh264enc",
        package: BAD,
        codec: Codec::H264,
        parser: Some("h264parse"),
        needs_nvmm: false,
        settings: &[
            ("bitrate", Setting::Bitrate),
            ("complexity", Setting::Text("low")),
            ("gop-size", Setting::Text("60")),
        ],
    },
    Encoder {
        element: "avenc_mpeg4",
        package: LIBAV,
        codec: Codec::Mpeg4,
        parser: None,
        needs_nvmm: false,
        settings: &[("bitrate", Setting::Bitrate)],
    },
    Encoder {
        element: "vp8enc",
        package: GOOD,
        codec: Codec::Vp8,
        parser: None,
        needs_nvmm: false,
        settings: &[
            ("target-bitrate", Setting::Bitrate),
            ("deadline", Setting::Text("1")),
            ("cpu-used", Setting::Text("8")),
            ("threads", Setting::Text("1")),
        ],
    },
];

/// A file, its container, and its encoder.
#[derive(Debug, Clone)]
pub struct EncoderChoice {
    /// The file.
    pub path: PathBuf,
    /// The container.
    pub container: Container,
    /// The encoder.
    pub encoder: &'static Encoder,
}

impl EncoderChoice {
    /// Selects an encoder for a file. GStreamer must be initialized.
    ///
    /// # Errors
    /// The file's extension is unknown, or no installed encoder fits the container.
    pub fn select(path: &Path) -> Result<Self, RenderError> {
        Self::select_from(path, &|element| match ENCODERS
            .iter()
            .find(|encoder| encoder.element == element)
        {
            Some(encoder) if encoder.needs_nvmm => starts(element),
            _ => gst::ElementFactory::find(element).is_some(),
        })
    }

    fn select_from(path: &Path, is_installed: &dyn Fn(&str) -> bool) -> Result<Self, RenderError> {
        let container = Container::from_path(path)?;
        let fits = |encoder: &&Encoder| container.supports(encoder.codec);
        let usable = |encoder: &&Encoder| {
            is_installed(encoder.element)
                && encoder.parser.is_none_or(is_installed)
                && (!encoder.needs_nvmm || is_installed("nvvidconv"))
        };
        let encoder = ENCODERS.iter().filter(fits).find(usable);
        let encoder = encoder.ok_or_else(|| RenderError::NoEncoder {
            path: path.to_owned(),
            container: container.name(),
            packages: ENCODERS
                .iter()
                .filter(fits)
                .filter(|encoder| !encoder.needs_nvmm)
                .map(|encoder| encoder.package)
                .collect(),
        })?;
        Ok(Self {
            path: path.to_owned(),
            container,
            encoder,
        })
    }
}

/// Whether an element opens its device. L4T has its encoders also on machines without NVENC, such as the Orin Nano.
fn starts(element: &str) -> bool {
    let Ok(made) = gst::ElementFactory::make(element).build() else {
        return false;
    };
    let is_ready = made.set_state(gst::State::Ready).is_ok();
    let is_stopped = made.set_state(gst::State::Null).is_ok();
    is_ready && is_stopped
}

/// The package of an element that is not in the table of encoders.
pub(super) fn package_of(element: &str) -> &'static str {
    match element {
        "nvvidconv" => L4T,
        "h264parse" => BAD,
        "mp4mux" | "matroskamux" | "webmmux" => GOOD,
        "videoconvert" | "appsrc" => BASE,
        _ => "libgstreamer1.0-0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(name: &str, installed: &[&str]) -> Result<&'static str, String> {
        let choice =
            EncoderChoice::select_from(Path::new(name), &|element| installed.contains(&element));
        choice
            .map(|choice| choice.encoder.element)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn best_installed_encoder_is_selected() {
        let all: Vec<&str> = ENCODERS.iter().map(|encoder| encoder.element).collect();
        let all = [all.as_slice(), &["h264parse"]].concat();
        let with_converter = [all.as_slice(), &["nvvidconv"]].concat();
        let cases: [(&str, &[&str], &str); 8] = [
            ("a.mp4", &with_converter, "nvv4l2h264enc"),
            ("a.mp4", &all, "x264enc"),
            ("a.MP4", &all[2..], "openh264enc"),
            ("a.mp4", &all[3..], "avenc_mpeg4"),
            ("b/a.mkv", &all[3..], "avenc_mpeg4"),
            ("a.mkv", &all[4..], "vp8enc"),
            ("a.webm", &with_converter, "vp8enc"),
            ("a.b.mkv", &all[1..2], "x264enc"),
        ];
        for (name, installed, expected) in cases {
            assert_eq!(chosen(name, installed).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn a_missing_encoder_and_a_missing_suffix_are_errors() {
        #[rustfmt::skip]
        let cases: [(&str, &[&str], &str); 5] = [
            ("a.mp4", &["vp8enc"], "no encoder for MP4 is installed; install one of gstreamer1.0-plugins-ugly"),
            ("a.webm", &["x264enc"], "no encoder for WebM is installed; install one of gstreamer1.0-plugins-good"),
            ("a.avi", &[], "the name ends in .avi, expected a name that ends in .mp4, .mkv or .webm"),
            ("video", &[], "the name has no extension"),
            (".mp4", &[], "the name has no extension"),
        ];
        for (name, installed, expected) in cases {
            let error = chosen(name, installed).expect_err(name);
            assert!(error.contains(expected), "{name}: {error}");
        }
    }
}
