//! Which encoders are known, and which of them is taken for a file: the first of the table that is installed and that the file's kind
//! can hold. A Jetson's own comes first.

use std::fmt;
use std::path::{Path, PathBuf};

use gstreamer as gst;

use super::RenderError;

const BASE: &str = "gstreamer1.0-plugins-base";
const GOOD: &str = "gstreamer1.0-plugins-good";
const BAD: &str = "gstreamer1.0-plugins-bad";
const UGLY: &str = "gstreamer1.0-plugins-ugly";
const LIBAV: &str = "gstreamer1.0-libav";
const L4T: &str = "nvidia-l4t-gstreamer";

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// `.mp4`; it can be played only once it was completed.
    Mp4,
    /// `.mkv`; it can be played up to where it ends, however it ended.
    Matroska,
    /// `.webm`; likewise.
    WebM,
}

impl Container {
    /// By the ending of the file's name.
    ///
    /// # Errors
    /// It has none of those that are known.
    pub fn from_path(path: &Path) -> Result<Self, RenderError> {
        let suffix = path.extension().map(|suffix| suffix.to_string_lossy());
        match suffix.as_deref().map(str::to_ascii_lowercase).as_deref() {
            Some("mp4") => Ok(Self::Mp4),
            Some("mkv") => Ok(Self::Matroska),
            Some("webm") => Ok(Self::WebM),
            other => Err(RenderError::Suffix {
                path: path.to_owned(),
                found: other.map_or_else(
                    || "its name has no ending".to_owned(),
                    |suffix| format!("its name ends in .{suffix}"),
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

/// How video is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    H264,
    Mpeg4,
    Vp8,
}

/// A value of an encoder's property.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    Word(&'static str),
    /// Bits in a second that suit the picture.
    Bitrate,
}

/// An encoder and how it is used.
#[derive(Debug)]
pub struct Encoder {
    pub(super) element: &'static str,
    pub(super) package: &'static str,
    pub(super) codec: Codec,
    /// What makes of its output what files hold, where that takes something.
    pub(super) parser: Option<&'static str>,
    /// Whether it takes pictures in a Jetson's memory alone.
    pub(super) is_of_jetson: bool,
    /// Set where the element has them: releases differ.
    pub(super) settings: &'static [(&'static str, Setting)],
}

impl fmt::Display for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.element)
    }
}

/// In the order of preference.
const ENCODERS: &[Encoder] = &[
    Encoder {
        element: "nvv4l2h264enc",
        package: L4T,
        codec: Codec::H264,
        parser: Some("h264parse"),
        is_of_jetson: true,
        settings: &[
            ("bitrate", Setting::Bitrate),
            ("insert-sps-pps", Setting::Word("true")),
            ("maxperf-enable", Setting::Word("true")),
        ],
    },
    // One thread: the processor has a network to run, and what the recording cannot keep up with is dropped.
    Encoder {
        element: "x264enc",
        package: UGLY,
        codec: Codec::H264,
        parser: None,
        is_of_jetson: false,
        settings: &[
            ("speed-preset", Setting::Word("ultrafast")),
            ("tune", Setting::Word("zerolatency")),
            ("pass", Setting::Word("qual")),
            ("quantizer", Setting::Word("21")),
            ("threads", Setting::Word("1")),
            ("key-int-max", Setting::Word("60")),
        ],
    },
    Encoder {
        element: "openh264enc",
        package: BAD,
        codec: Codec::H264,
        parser: Some("h264parse"),
        is_of_jetson: false,
        settings: &[
            ("bitrate", Setting::Bitrate),
            ("complexity", Setting::Word("low")),
            ("gop-size", Setting::Word("60")),
        ],
    },
    Encoder {
        element: "avenc_mpeg4",
        package: LIBAV,
        codec: Codec::Mpeg4,
        parser: None,
        is_of_jetson: false,
        settings: &[("bitrate", Setting::Bitrate)],
    },
    Encoder {
        element: "vp8enc",
        package: GOOD,
        codec: Codec::Vp8,
        parser: None,
        is_of_jetson: false,
        settings: &[
            ("target-bitrate", Setting::Bitrate),
            ("deadline", Setting::Word("1")),
            ("cpu-used", Setting::Word("8")),
            ("threads", Setting::Word("1")),
        ],
    },
];

/// A file, its kind, and what encodes for it.
#[derive(Debug, Clone)]
pub struct EncoderChoice {
    /// The file.
    pub path: PathBuf,
    /// Its kind.
    pub container: Container,
    /// What encodes.
    pub encoder: &'static Encoder,
}

impl EncoderChoice {
    /// Picks an encoder for a file. GStreamer must have been started.
    ///
    /// # Errors
    /// The file's ending says nothing, or no encoder is installed that its kind can hold.
    pub fn select(path: &Path) -> Result<Self, RenderError> {
        Self::select_from(path, &|element| {
            gst::ElementFactory::find(element).is_some()
        })
    }

    fn select_from(path: &Path, is_installed: &dyn Fn(&str) -> bool) -> Result<Self, RenderError> {
        let container = Container::from_path(path)?;
        let fits = |encoder: &&Encoder| container.supports(encoder.codec);
        let usable = |encoder: &&Encoder| {
            is_installed(encoder.element)
                && encoder.parser.is_none_or(is_installed)
                && (!encoder.is_of_jetson || is_installed("nvvidconv"))
        };
        let encoder = ENCODERS.iter().filter(fits).find(usable);
        let encoder = encoder.ok_or_else(|| RenderError::NoEncoder {
            path: path.to_owned(),
            container: container.name(),
            packages: ENCODERS
                .iter()
                .filter(fits)
                .filter(|encoder| !encoder.is_of_jetson)
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

/// The package of an element that no encoder names.
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
        for (name, installed, wanted) in cases {
            assert_eq!(chosen(name, installed).as_deref(), Ok(wanted), "{name}");
        }
    }

    #[test]
    fn a_missing_encoder_and_a_missing_suffix_are_errors() {
        let cases: [(&str, &[&str], &str); 5] = [
            (
                "a.mp4",
                &["vp8enc"],
                "no encoder for MP4 is installed; install one of gstreamer1.0-plugins-ugly",
            ),
            (
                "a.webm",
                &["x264enc"],
                "no encoder for WebM is installed; install one of gstreamer1.0-plugins-good",
            ),
            (
                "a.avi",
                &[],
                "its name ends in .avi, expected a name that ends in .mp4, .mkv or .webm",
            ),
            ("video", &[], "its name has no ending"),
            (".mp4", &[], "its name has no ending"),
        ];
        for (name, installed, wanted) in cases {
            let said = chosen(name, installed).expect_err(name);
            assert!(said.contains(wanted), "{name}: {said}");
        }
    }
}
