//! Every GStreamer element and property that jetwatch names, in one table.
//!
//! Elements are made through [`make`] only, so that the table cannot lack one; a test compares it with GStreamer 1.16.

use gstreamer as gst;

use super::SourceError;

/// An element that the code names.
#[derive(Debug, Clone, Copy)]
pub struct ElementFacts {
    /// Factory name.
    pub name: &'static str,
    /// Debian and Ubuntu package with its plug-in.
    pub package: &'static str,
    /// Properties that the code sets.
    pub properties: &'static [&'static str],
}

const BASE: &str = "gstreamer1.0-plugins-base";
const GOOD: &str = "gstreamer1.0-plugins-good";
const LIBAV: &str = "gstreamer1.0-libav";
const CORE: &str = "libgstreamer1.0-0";

/// All of them.
pub const ELEMENTS: &[ElementFacts] = &[
    ElementFacts {
        name: "filesrc",
        package: CORE,
        properties: &["location"],
    },
    ElementFacts {
        name: "capsfilter",
        package: CORE,
        properties: &["caps"],
    },
    ElementFacts {
        name: "decodebin",
        package: BASE,
        properties: &["caps", "expose-all-streams"],
    },
    ElementFacts {
        name: "videoscale",
        package: BASE,
        properties: &["add-borders"],
    },
    ElementFacts {
        name: "videoconvert",
        package: BASE,
        properties: &[],
    },
    ElementFacts {
        name: "appsrc",
        package: BASE,
        properties: &["format"],
    },
    ElementFacts {
        name: "appsink",
        package: BASE,
        properties: &["caps", "sync", "max-buffers", "enable-last-sample"],
    },
    // Made by decodebin, for H.264; the other decoders of its family have the same property.
    ElementFacts {
        name: "avdec_h264",
        package: LIBAV,
        properties: &["max-threads"],
    },
    ElementFacts {
        name: "rtspsrc",
        package: GOOD,
        properties: &[
            "location",
            "protocols",
            "latency",
            "user-id",
            "user-pw",
            "tcp-timeout",
            "timeout",
        ],
    },
    ElementFacts {
        name: "v4l2src",
        package: GOOD,
        properties: &["device"],
    },
];

/// Makes an element of the table under a name of its own.
pub(super) fn make(factory: &'static str, name: &str) -> Result<gst::Element, SourceError> {
    let facts = ELEMENTS.iter().find(|facts| facts.name == factory);
    let package = facts.map_or(CORE, |facts| facts.package);
    debug_assert!(facts.is_some(), "{factory} is not in the table of elements");
    gst::ElementFactory::make(factory)
        .name(name)
        .build()
        .map_err(|_| SourceError::MissingElement {
            element: factory,
            package,
        })
}

/// Package that usually decodes or demuxes a media type; the best guess for others.
pub(super) fn package_for(media_type: &str) -> &'static str {
    match media_type {
        "video/quicktime"
        | "video/x-matroska"
        | "video/webm"
        | "video/x-msvideo"
        | "video/x-flv"
        | "application/x-rtp"
        | "image/jpeg"
        | "image/png"
        | "video/x-vp8"
        | "video/x-vp9"
        | "multipart/x-mixed-replace"
        | "application/x-rtsp" => GOOD,
        "video/mpegts" | "video/x-av1" | "application/mxf" | "video/x-dirac" => {
            "gstreamer1.0-plugins-bad"
        }
        "application/ogg" | "video/x-theora" | "video/x-raw" => BASE,
        "video/mpeg" if cfg!(target_arch = "x86_64") => {
            "gstreamer1.0-plugins-bad gstreamer1.0-libav"
        }
        _ => LIBAV,
    }
}
