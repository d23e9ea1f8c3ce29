// SPDX-License-Identifier: Apache-2.0
//! Table of every GStreamer element and property that jetwatch names.
//!
//! Elements are created with [`make`] only, so the table is complete; a test compares it with GStreamer 1.16 and with NVIDIA's
//! documentation of the elements in L4T.

use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::*;
use parking_lot::{Mutex, MutexGuard};

use super::SourceError;
use jetwatch_config::DecoderChoice;

/// An element that the code names.
#[derive(Debug, Clone, Copy)]
pub struct ElementSpec {
    /// Factory name.
    pub name: &'static str,
    /// Debian and Ubuntu package that contains its plug-in.
    pub package: &'static str,
    /// Properties that the code sets.
    pub properties: &'static [&'static str],
}

impl ElementSpec {
    /// Whether it comes with NVIDIA's L4T, and thus exists on a Jetson only.
    #[must_use]
    pub fn is_from_l4t(&self) -> bool {
        self.package == L4T
    }
}

const BASE: &str = "gstreamer1.0-plugins-base";
const GOOD: &str = "gstreamer1.0-plugins-good";
const BAD: &str = "gstreamer1.0-plugins-bad";
const LIBAV: &str = "gstreamer1.0-libav";
const CORE: &str = "libgstreamer1.0-0";
const L4T: &str = "nvidia-l4t-gstreamer";

const fn element(
    name: &'static str,
    package: &'static str,
    properties: &'static [&'static str],
) -> ElementSpec {
    ElementSpec {
        name,
        package,
        properties,
    }
}

/// All elements.
pub const ELEMENTS: &[ElementSpec] = &[
    element("filesrc", CORE, &["location"]),
    element("capsfilter", CORE, &["caps"]),
    element("tee", CORE, &[]),
    // Joins the pads of an RTSP video.
    element("funnel", CORE, &[]),
    // Takes the branches of a `launch:` fragment that are not its video.
    element("fakesink", CORE, &["sync", "async"]),
    element(
        "decodebin",
        BASE,
        &["caps", "connection-speed", "expose-all-streams"],
    ),
    element("videoscale", BASE, &["add-borders"]),
    element("videoconvert", BASE, &[]),
    element("videoflip", GOOD, &["video-direction"]),
    element("videocrop", GOOD, &["left", "right", "top", "bottom"]),
    element("appsrc", BASE, &["format"]),
    element(
        "appsink",
        BASE,
        &["caps", "sync", "async", "max-buffers", "enable-last-sample"],
    ),
    // Created by decodebin, for H.264; the other decoders of its family have the same property.
    element("avdec_h264", LIBAV, &["max-threads"]),
    element(
        "rtspsrc",
        GOOD,
        &[
            "location",
            "protocols",
            "latency",
            "user-id",
            "user-pw",
            "tcp-timeout",
            "timeout",
            "teardown-timeout",
            "tls-database",
        ],
    ),
    element(
        "souphttpsrc",
        GOOD,
        &[
            "location",
            "is-live",
            "do-timestamp",
            "blocksize",
            "retries",
            "timeout",
            "user-id",
            "user-pw",
            "tls-database",
        ],
    ),
    element("udpsrc", GOOD, &["buffer-size"]),
    element("srtsrc", BAD, &[]),
    element("rtmpsrc", BAD, &[]),
    element("v4l2src", GOOD, &["device"]),
    // Before a Jetson's decoder, which needs whole access units with their headers.
    element("h264parse", BAD, &["config-interval"]),
    element("h265parse", BAD, &["config-interval"]),
    element("jpegparse", BAD, &[]),
    // For sound in clips.
    element("aacparse", GOOD, &[]),
    element("rtpmp4gdepay", GOOD, &[]),
    element("nvarguscamerasrc", L4T, &["sensor-id", "sensor-mode"]),
    element("nvv4l2decoder", L4T, &["mjpeg", "enable-max-performance"]),
    element("nvjpegdec", L4T, &[]),
    // Of pictures, and of the self-test.
    element("nvjpegenc", L4T, &[]),
    // Of the video of cameras, and of the self-test.
    element(
        "nvv4l2h264enc",
        L4T,
        &[
            "control-rate",
            "bitrate",
            "peak-bitrate",
            "iframeinterval",
            "idrinterval",
            "insert-sps-pps",
            "maxperf-enable",
        ],
    ),
    element(
        "nvvidconv",
        L4T,
        &[
            "compute-hw",
            "interpolation-method",
            "bl-output",
            "nvbuf-memory-type",
            "output-buffers",
            "flip-method",
            "left",
            "right",
            "top",
            "bottom",
        ],
    ),
];

/// An element as installed on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElementState {
    /// It is not installed.
    Missing,
    /// It is installed.
    Present {
        /// Version of its plug-in.
        version: String,
        /// Properties that the code sets, each with its type.
        properties: Vec<(&'static str, String)>,
        /// Properties that are missing or cannot be set to the required type.
        wrong: Vec<String>,
    },
}

/// Types of properties that are set by value; the others are set by text, and checked when they are set.
const TYPES: &[(&str, &str, &str)] = &[
    ("filesrc", "location", "gchararray"),
    ("capsfilter", "caps", "GstCaps"),
    ("decodebin", "caps", "GstCaps"),
    ("decodebin", "connection-speed", "guint64"),
    ("decodebin", "expose-all-streams", "gboolean"),
    ("videoscale", "add-borders", "gboolean"),
    ("appsrc", "format", "GstFormat"),
    ("appsink", "caps", "GstCaps"),
    ("fakesink", "sync", "gboolean"),
    ("fakesink", "async", "gboolean"),
    ("appsink", "sync", "gboolean"),
    ("appsink", "async", "gboolean"),
    ("appsink", "max-buffers", "guint"),
    ("appsink", "enable-last-sample", "gboolean"),
    ("avdec_h264", "max-threads", "gint"),
    ("rtspsrc", "location", "gchararray"),
    ("rtspsrc", "latency", "guint"),
    ("rtspsrc", "user-id", "gchararray"),
    ("rtspsrc", "user-pw", "gchararray"),
    ("rtspsrc", "tcp-timeout", "guint64"),
    ("rtspsrc", "timeout", "guint64"),
    ("rtspsrc", "teardown-timeout", "guint64"),
    ("rtspsrc", "tls-database", "GTlsDatabase"),
    ("souphttpsrc", "location", "gchararray"),
    ("souphttpsrc", "is-live", "gboolean"),
    ("souphttpsrc", "do-timestamp", "gboolean"),
    ("souphttpsrc", "blocksize", "guint"),
    ("souphttpsrc", "retries", "gint"),
    ("souphttpsrc", "timeout", "guint"),
    ("souphttpsrc", "user-id", "gchararray"),
    ("souphttpsrc", "user-pw", "gchararray"),
    ("souphttpsrc", "tls-database", "GTlsDatabase"),
    ("udpsrc", "buffer-size", "gint"),
    ("h264parse", "config-interval", "gint"),
    ("h265parse", "config-interval", "gint"),
    ("v4l2src", "device", "gchararray"),
    ("nvarguscamerasrc", "sensor-id", "gint"),
    ("nvarguscamerasrc", "sensor-mode", "gint"),
    ("nvv4l2decoder", "mjpeg", "gboolean"),
    ("nvv4l2decoder", "enable-max-performance", "gboolean"),
    ("nvvidconv", "bl-output", "gboolean"),
];

/// Inspects an element of the table. GStreamer must be initialized.
#[must_use]
pub fn inspect_element(entry: &ElementSpec) -> ElementState {
    let found = gst::ElementFactory::find(entry.name).and_then(|found| found.load().ok());
    let class = found
        .as_ref()
        .and_then(|found| glib::Class::<glib::Object>::from_type(found.element_type()));
    let (Some(found), Some(class)) = (found, class) else {
        return ElementState::Missing;
    };
    let (mut properties, mut wrong) = (Vec::new(), Vec::new());
    for property in entry.properties {
        let Some(spec) = class.find_property(property) else {
            wrong.push(format!("{property} is missing"));
            continue;
        };
        let kind = spec.value_type().name().to_owned();
        let required = TYPES
            .iter()
            .find(|(element, name, _)| *element == entry.name && name == property);
        if let Some((.., required)) = required
            && kind != *required
        {
            wrong.push(format!("{property} is a {kind}, expected {required}"));
        } else if !spec.flags().contains(glib::ParamFlags::WRITABLE) {
            wrong.push(format!("{property} cannot be set"));
        }
        properties.push((*property, kind));
    }
    let plugin = found.plugin();
    ElementState::Present {
        version: plugin.map_or_else(String::new, |plugin| plugin.version().to_string()),
        properties,
        wrong,
    }
}

/// Checks that GStreamer has the element, with a property that accepts the given text if there is one.
///
/// # Errors
/// The reason, with the remedy.
pub(super) fn require_element(
    factory: &'static str,
    setting: Option<(&'static str, &'static str)>,
) -> Result<(), String> {
    let package = package_of(factory);
    let missing = || {
        format!(
            "GStreamer element {factory} is missing; install it with: apt-get install {package}"
        )
    };
    let found = gst::ElementFactory::find(factory)
        .and_then(|found| found.load().ok())
        .ok_or_else(missing)?;
    let Some((property, nick)) = setting else {
        return Ok(());
    };
    let class = glib::Class::<glib::Object>::from_type(found.element_type()).ok_or_else(missing)?;
    match class.find_property(property) {
        None => Err(format!(
            "GStreamer element {factory} of this release has no property {property}, so the unit that it runs on is unknown"
        )),
        Some(spec) if format_setting(&spec, nick).is_none() => Err(format!(
            "property {property} of GStreamer element {factory} does not accept {nick}"
        )),
        Some(_) => Ok(()),
    }
}

/// Sets a property that not every release of the element has, or not with this value. Returns whether it was set.
pub fn set_if_supported(property: &'static str, element: &gst::Element, nick: &str) -> bool {
    let accepted = element
        .find_property(property)
        .and_then(|spec| format_setting(&spec, nick));
    if let Some(nick) = &accepted {
        element.set_property_from_str(property, nick);
    }
    accepted.is_some()
}

/// Sets a property to a number; false when the element has no such property of an integer type.
pub(super) fn set_number(property: &'static str, element: &gst::Element, number: u32) -> bool {
    let Some(spec) = element.find_property(property) else {
        return false;
    };
    let kind = spec.value_type();
    match (kind, i32::try_from(number)) {
        (kind, Ok(number)) if kind == i32::static_type() => element.set_property(property, number),
        (kind, _) if kind == u32::static_type() => element.set_property(property, number),
        _ => return false,
    }
    true
}

/// Whether decodebin must not use a factory: only jetwatch itself adds NVIDIA's decoders. With software decoding, all other
/// decoders that run on a GPU or another unit are excluded, too.
pub(super) fn is_excluded_from_autoplug(factory: &glib::Value, choice: DecoderChoice) -> bool {
    let Ok(factory) = factory.get::<gst::ElementFactory>() else {
        return false;
    };
    let name = factory.name();
    let is_of_l4t = ELEMENTS
        .iter()
        .any(|entry| entry.is_from_l4t() && entry.name == name);
    is_of_l4t || (choice == DecoderChoice::Software && factory.klass().contains("Hardware"))
}

/// A value in the spelling of this property; `None` when it is not accepted. Releases differ in upper and lower case.
fn format_setting(spec: &glib::ParamSpec, nick: &str) -> Option<String> {
    let Some(class) = glib::EnumClass::with_type(spec.value_type()) else {
        let is_accepted = glib::Value::deserialize(nick, spec.value_type()).is_ok();
        return is_accepted.then(|| nick.to_owned());
    };
    let mut nicks = class.values().iter().map(glib::EnumValue::nick);
    nicks
        .find(|other| other.eq_ignore_ascii_case(nick))
        .map(str::to_owned)
}

fn package_of(factory: &str) -> &'static str {
    let entry = ELEMENTS.iter().find(|entry| entry.name == factory);
    entry.map_or(CORE, |entry| entry.package)
}

/// Creates the element `factory` of [`ELEMENTS`] with the name `name`.
///
/// # Errors
/// The element is not installed: [`SourceError::MissingElement`] with its package.
///
/// # Panics
/// In debug builds, when the element is not in [`ELEMENTS`].
pub fn make(factory: &'static str, name: &str) -> Result<gst::Element, SourceError> {
    debug_assert!(
        ELEMENTS.iter().any(|facts| facts.name == factory),
        "{factory} is not in the table of elements"
    );
    make_optional(factory, name).ok_or_else(|| SourceError::MissingElement {
        element: factory,
        package: package_of(factory),
    })
}

/// To be held while elements are made. GLib deadlocks where one thread registers a type while another one initializes a class that
/// needs it, as the first elements for HTTP and for SRT do with `GSocketAddress`; GStreamer then makes no element at all any more.
pub(crate) fn creation_lock() -> MutexGuard<'static, ()> {
    static CREATION: Mutex<()> = Mutex::new(());
    CREATION.lock()
}

/// Whether GStreamer has an element.
pub(crate) fn is_installed(factory: &str) -> bool {
    gst::ElementFactory::find(factory).is_some()
}

/// Creates an element that is not in [`ELEMENTS`], because a machine needs only one of several; `None`: it is not installed.
pub(crate) fn make_optional(factory: &str, name: &str) -> Option<gst::Element> {
    let _one_at_a_time = creation_lock();
    gst::ElementFactory::make(factory).name(name).build().ok()
}

/// Package that usually contains a decoder or demuxer for a media type; the best guess for others.
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
        "video/mpegts" | "video/x-av1" | "application/mxf" | "video/x-dirac" => BAD,
        "application/ogg" | "video/x-theora" | "video/x-raw" => BASE,
        "video/mpeg" if cfg!(target_arch = "x86_64") => {
            "gstreamer1.0-plugins-bad gstreamer1.0-libav"
        }
        _ => LIBAV,
    }
}

/// Whether a decoder or demuxer for media of this kind is installed. Versions of a codec count, and nothing else: other fields
/// may be what is damaged.
pub(super) fn has_decoder(caps: &gst::CapsRef) -> bool {
    const VERSIONS: [&str; 4] = ["mpegversion", "wmvversion", "msmpegversion", "divxversion"];
    let Some(media) = caps.structure(0) else {
        return false;
    };
    let mut kind = gst::Structure::new_empty(media.name());
    for field in VERSIONS {
        if let Ok(version) = media.get::<i32>(field) {
            kind.set(field, version);
        }
    }
    let kind = gst::Caps::builder_full().structure(kind).build();
    let types = gst::ElementFactoryType::DECODER | gst::ElementFactoryType::DEMUXER;
    gst::ElementFactory::factories_with_type(types, gst::Rank::MARGINAL)
        .iter()
        .any(|factory| factory.can_sink_any_caps(&kind))
}

/// What a sink does with the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SinkKind {
    /// It shows them.
    Display,
    /// It discards them, or would pass them to a program.
    Discard,
    /// Sound, files, networks.
    Other,
}

/// What kind of sink `name`, an element of a `launch:` fragment, is; `None`: it is none, as far as this machine knows.
pub(crate) fn sink_kind(name: &str) -> Option<SinkKind> {
    const SOUND: [&str; 5] = ["audio", "alsa", "puls", "jack", "oss"];
    let Some(factory) = gst::ElementFactory::find(name) else {
        // A line for another machine: what would show the images there is not needed here.
        let is_display = name.ends_with("sink") && !SOUND.iter().any(|word| name.contains(word));
        return is_display.then_some(SinkKind::Display);
    };
    let class = factory.metadata("klass").unwrap_or_default().to_owned();
    let is = |word: &str| class.split('/').any(|part| part == word);
    let mut pads = factory.static_pad_templates().into_iter();
    if !is("Sink") || pads.any(|pad| pad.direction() == gst::PadDirection::Src) {
        return None;
    }
    Some(match name {
        "fakesink" | "appsink" => SinkKind::Discard,
        _ if is("Video") => SinkKind::Display,
        _ => SinkKind::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_needs_its_property_and_value() {
        gst::init().expect("GStreamer starts");
        #[rustfmt::skip]
        let cases = [
            ("videoscale", None, None),
            ("videoscale", Some(("add-borders", "true")), None),
            // Releases differ in upper and lower case.
            ("videoscale", Some(("method", "BILINEAR")), None),
            ("videoscale", Some(("method", "VIC")), Some("does not accept VIC")),
            ("videoscale", Some(("compute-hw", "VIC")), Some("has no property compute-hw")),
            ("no-such-element", None, Some("is missing; install it with")),
        ];
        for (factory, setting, expected) in cases {
            match (require_element(factory, setting), expected) {
                (Ok(()), None) => {}
                (Err(reason), Some(expected)) => assert!(reason.contains(expected), "{reason}"),
                (found, expected) => panic!("{factory} {setting:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn sinks_of_images_are_told_from_others() {
        gst::init().expect("GStreamer starts");
        let cases = [
            ("autovideosink", Some(SinkKind::Display)),
            ("fakevideosink", Some(SinkKind::Display)),
            ("nosuchvideosink", Some(SinkKind::Display)),
            ("nosuchalsasink", None),
            ("nosuchelement", None),
            ("fakesink", Some(SinkKind::Discard)),
            ("autoaudiosink", Some(SinkKind::Other)),
            ("filesink", Some(SinkKind::Other)),
            ("queue", None),
            ("videotestsrc", None),
        ];
        for (name, kind) in cases {
            assert_eq!(sink_kind(name), kind, "{name}");
        }
    }

    #[test]
    fn a_property_is_set_only_where_it_is_known() {
        gst::init().expect("GStreamer starts");
        let scale = make("videoscale", "x").expect("it is installed");
        assert!(set_if_supported("add-borders", &scale, "false"));
        assert!(!scale.property::<bool>("add-borders"));
        assert!(!set_if_supported("compute-hw", &scale, "VIC"));
        assert!(!set_if_supported("add-borders", &scale, "perhaps"));
    }
}
