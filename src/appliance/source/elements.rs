//! Every GStreamer element and property that jetwatch names, in one table.
//!
//! Elements are made through [`make`] only, so that the table cannot lack one; a test compares it with GStreamer 1.16 and
//! with what NVIDIA documents of the elements that come with L4T.

use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::*;

use super::SourceError;
use jetwatch_config::DecoderChoice;

/// An element that the code names.
#[derive(Debug, Clone, Copy)]
pub struct ElementSpec {
    /// Factory name.
    pub name: &'static str,
    /// Debian and Ubuntu package with its plug-in.
    pub package: &'static str,
    /// Properties that the code sets.
    pub properties: &'static [&'static str],
}

impl ElementSpec {
    /// Whether it comes with NVIDIA's L4T, and so is on a Jetson alone.
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

/// All of them.
pub const ELEMENTS: &[ElementSpec] = &[
    element("filesrc", CORE, &["location"]),
    element("capsfilter", CORE, &["caps"]),
    element("identity", CORE, &[]),
    element("tee", CORE, &[]),
    element("decodebin", BASE, &["caps", "expose-all-streams"]),
    element("videoscale", BASE, &["add-borders"]),
    element("videoconvert", BASE, &[]),
    element("videocrop", GOOD, &["left", "right", "top", "bottom"]),
    element("appsrc", BASE, &["format"]),
    element(
        "appsink",
        BASE,
        &["caps", "sync", "async", "max-buffers", "enable-last-sample"],
    ),
    // Made by decodebin, for H.264; the other decoders of its family have the same property.
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
        ],
    ),
    element("v4l2src", GOOD, &["device"]),
    // Before a Jetson's decoder, which wants whole pictures with their headers.
    element("h264parse", BAD, &[]),
    element("h265parse", BAD, &[]),
    element("jpegparse", BAD, &[]),
    element("nvarguscamerasrc", L4T, &["sensor-id", "sensor-mode"]),
    element("nvv4l2decoder", L4T, &["mjpeg", "enable-max-performance"]),
    element("nvjpegdec", L4T, &[]),
    element(
        "nvvidconv",
        L4T,
        &[
            "compute-hw",
            "interpolation-method",
            "bl-output",
            "nvbuf-memory-type",
            "output-buffers",
            "left",
            "right",
            "top",
            "bottom",
        ],
    ),
];

/// An element as GStreamer has it here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElementState {
    /// It is missing.
    Missing,
    /// It is here.
    Present {
        /// Version of its plug-in.
        version: String,
        /// Properties that the code sets, each with its type.
        properties: Vec<(&'static str, String)>,
        /// Properties that it lacks, or that cannot be set to what the code sets.
        wrong: Vec<String>,
    },
}

/// Types of properties that are set to values of these types; the others are set by words, which are asked for when they are set.
const TYPES: &[(&str, &str, &str)] = &[
    ("filesrc", "location", "gchararray"),
    ("capsfilter", "caps", "GstCaps"),
    ("decodebin", "caps", "GstCaps"),
    ("decodebin", "expose-all-streams", "gboolean"),
    ("videoscale", "add-borders", "gboolean"),
    ("appsrc", "format", "GstFormat"),
    ("appsink", "caps", "GstCaps"),
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
    ("v4l2src", "device", "gchararray"),
    ("nvarguscamerasrc", "sensor-id", "gint"),
    ("nvarguscamerasrc", "sensor-mode", "gint"),
    ("nvv4l2decoder", "mjpeg", "gboolean"),
    ("nvv4l2decoder", "enable-max-performance", "gboolean"),
    ("nvvidconv", "bl-output", "gboolean"),
];

/// Looks at an element of the table. GStreamer must have been started.
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
        let wanted = TYPES
            .iter()
            .find(|(element, name, _)| *element == entry.name && name == property);
        if let Some((.., wanted)) = wanted
            && kind != *wanted
        {
            wrong.push(format!("{property} is a {kind}, expected {wanted}"));
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

/// Whether GStreamer has the element, with a property that takes a word if one is asked for; else why not.
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
    let Some((property, word)) = setting else {
        return Ok(());
    };
    let class = glib::Class::<glib::Object>::from_type(found.element_type()).ok_or_else(missing)?;
    match class.find_property(property) {
        None => Err(format!(
            "GStreamer element {factory} of this release has no property {property}, so that nothing says what it would run on"
        )),
        Some(spec) if format_setting(&spec, word).is_none() => Err(format!(
            "property {property} of GStreamer element {factory} does not know {word}"
        )),
        Some(_) => Ok(()),
    }
}

/// Sets a property that not every release of the element has, or not with this word. Returns whether it was set.
pub fn set_if_supported(property: &'static str, element: &gst::Element, word: &str) -> bool {
    let known = element
        .find_property(property)
        .and_then(|spec| format_setting(&spec, word));
    if let Some(word) = &known {
        element.set_property_from_str(property, word);
    }
    known.is_some()
}

/// Sets a property to a number; false where the element has none of this name that takes it.
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

/// Whether decodebin must leave a factory out: NVIDIA's decoders are put in place by us alone, and where the processor is to
/// decode, so are all others that the GPU or another unit runs.
pub(super) fn is_excluded_from_autoplug(factory: &glib::Value, choice: DecoderChoice) -> bool {
    let Ok(factory) = factory.get::<gst::ElementFactory>() else {
        return false;
    };
    let name = factory.name();
    let is_of_l4t = ELEMENTS
        .iter()
        .any(|facts| facts.is_from_l4t() && facts.name == name);
    is_of_l4t || (choice == DecoderChoice::Software && factory.klass().contains("Hardware"))
}

/// A word as this property spells it; `None` where it does not take it. Releases differ in large and small letters.
fn format_setting(spec: &glib::ParamSpec, word: &str) -> Option<String> {
    let Some(class) = glib::EnumClass::with_type(spec.value_type()) else {
        let taken = glib::Value::deserialize(word, spec.value_type()).is_ok();
        return taken.then(|| word.to_owned());
    };
    let mut words = class.values().iter().map(glib::EnumValue::nick);
    words
        .find(|known| known.eq_ignore_ascii_case(word))
        .map(str::to_owned)
}

fn package_of(factory: &str) -> &'static str {
    let facts = ELEMENTS.iter().find(|facts| facts.name == factory);
    facts.map_or(CORE, |facts| facts.package)
}

/// Makes the element `factory` of [`ELEMENTS`], called `name` in its pipeline.
///
/// # Errors
/// The element is not installed: [`SourceError::MissingElement`] with its package.
pub fn make(factory: &'static str, name: &str) -> Result<gst::Element, SourceError> {
    debug_assert!(
        ELEMENTS.iter().any(|facts| facts.name == factory),
        "{factory} is not in the table of elements"
    );
    gst::ElementFactory::make(factory)
        .name(name)
        .build()
        .map_err(|_| SourceError::MissingElement {
            element: factory,
            package: package_of(factory),
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
        "video/mpegts" | "video/x-av1" | "application/mxf" | "video/x-dirac" => BAD,
        "application/ogg" | "video/x-theora" | "video/x-raw" => BASE,
        "video/mpeg" if cfg!(target_arch = "x86_64") => {
            "gstreamer1.0-plugins-bad gstreamer1.0-libav"
        }
        _ => LIBAV,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_needs_its_property_and_value() {
        gst::init().expect("GStreamer starts");
        let cases = [
            ("videoscale", None, None),
            ("videoscale", Some(("add-borders", "true")), None),
            // Releases differ in large and small letters.
            ("videoscale", Some(("method", "BILINEAR")), None),
            (
                "videoscale",
                Some(("method", "VIC")),
                Some("does not know VIC"),
            ),
            (
                "videoscale",
                Some(("compute-hw", "VIC")),
                Some("has no property compute-hw"),
            ),
            (
                "nvvidconv-of-nobody",
                None,
                Some("is missing; install it with"),
            ),
        ];
        for (factory, setting, wanted) in cases {
            match (require_element(factory, setting), wanted) {
                (Ok(()), None) => {}
                (Err(reason), Some(wanted)) => assert!(reason.contains(wanted), "{reason}"),
                (found, wanted) => panic!("{factory} {setting:?}: {found:?}, not {wanted:?}"),
            }
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
