//! From media to pictures: `decodebin` finds and unpacks the video, and who decodes it is chosen here, explicitly.
//!
//! Where the machine has a video decoder, `decodebin` is told to stop at the codecs that it knows, and the decoder is put
//! behind it with its parser. Choosing by the ranks of elements, which `decodebin` does by itself, was refused: ranks differ
//! from release to release, and nothing would say that a stream has quietly gone to the processor. NVIDIA's elements are
//! therefore kept away from `decodebin`, which decodes everything else on the processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::*;

use crate::SourceError;
use crate::elements::{is_excluded_from_autoplug, make, set_if_supported};
use jetwatch_config::DecoderChoice;
use jetwatch_platform::UnitElement;

use super::diagnostics::Findings;
use super::hardware::{VideoHardware, nvdec_supports};

/// Codecs that a Jetson's units may be given.
const CODECS: [&str; 3] = ["video/x-h264", "video/x-h265", "image/jpeg"];

/// Adds a `decodebin` to `pipeline` whose video ends at `entry`, and returns it: media is linked to its sink pad.
pub(super) fn add(
    pipeline: &gst::Pipeline,
    entry: gst::Pad,
    hardware: &VideoHardware,
    options: DecodeOptions,
    diagnostics: &Arc<Findings>,
) -> Result<gst::Element, SourceError> {
    let pad_handler = Arc::new(PadAddedHandler {
        pipeline: pipeline.downgrade(),
        entry,
        hardware: hardware.clone(),
        options,
        diagnostics: Arc::clone(diagnostics),
        is_taken: AtomicBool::new(false),
    });
    let codecs = CODECS
        .into_iter()
        .filter(|codec| hardware.decoder_for(codec, options.choice).is_some());
    let decode = decodebin("decode", codecs, options)?;
    pipeline
        .add(&decode)
        .map_err(|error| SourceError::Build(error.to_string()))?;
    decode.connect_pad_added(move |decode, pad| pad_handler.on_pad_added(decode, pad));
    Ok(decode)
}

/// How the configuration wants it.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecodeOptions {
    pub(super) choice: DecoderChoice,
    /// Threads of a software decoder; 0: one per core.
    pub(super) threads: u32,
}

/// A `decodebin` that gives raw video, and video in `codecs` as it is.
fn decodebin<'c>(
    name: &str,
    codecs: impl Iterator<Item = &'c str>,
    how: DecodeOptions,
) -> Result<gst::Element, SourceError> {
    let decode = make("decodebin", name)?;
    // Only video is decoded; sound and subtitles are left alone.
    let raw = gst::Structure::new_empty("video/x-raw");
    let mut caps = gst::Caps::builder_full().structure_with_any_features(raw);
    for codec in codecs {
        caps = caps.structure(gst::Structure::new_empty(codec));
    }
    decode.set_property("caps", caps.build());
    decode.set_property("expose-all-streams", false);
    limit_threads(&decode, how.threads);
    exclude_factories(&decode, how.choice);
    Ok(decode)
}

/// Sets the number of threads of the software decoder that decodebin chooses, when it makes it.
fn limit_threads(decode: &gst::Element, threads: u32) {
    let Some(bin) = decode.downcast_ref::<gst::Bin>() else {
        return;
    };
    let threads = i32::try_from(threads).unwrap_or(i32::MAX);
    bin.connect_element_added(move |_, element| {
        if element.has_property_with_type("max-threads", i32::static_type()) {
            element.set_property("max-threads", threads);
        }
    });
}

/// Answers decodebin's question whether to try a decoder.
fn exclude_factories(decode: &gst::Element, choice: DecoderChoice) {
    let answers =
        glib::Type::from_name("GstAutoplugSelectResult").and_then(glib::EnumClass::with_type);
    // Without the type there is no such question, which no release that runs here lacks.
    let Some(answers) = answers else { return };
    decode.connect("autoplug-select", false, move |values| {
        let skip = values
            .get(3)
            .is_some_and(|factory| is_excluded_from_autoplug(factory, choice));
        answers.to_value_by_nick(if skip { "skip" } else { "try" })
    });
}

/// Where the video of one session lands.
struct PadAddedHandler {
    pipeline: glib::WeakRef<gst::Pipeline>,
    /// The scaler's pad.
    entry: gst::Pad,
    hardware: VideoHardware,
    options: DecodeOptions,
    diagnostics: Arc<Findings>,
    /// The first video is taken, and no other.
    is_taken: AtomicBool,
}

impl PadAddedHandler {
    /// A stream has appeared.
    fn on_pad_added(self: &Arc<Self>, decode: &gst::Element, pad: &gst::Pad) {
        let media = media_type(pad);
        let is_video = media.starts_with("video/") || CODECS.contains(&media.as_str());
        if !is_video || self.is_taken.swap(true, Ordering::AcqRel) {
            self.diagnostics.add_other_stream(media);
            return;
        }
        let landed = match media.as_str() {
            "video/x-h264" => self.parse(pad, make("h264parse", "parser"), "video/x-h264"),
            "video/x-h265" => self.parse(pad, make("h265parse", "parser"), "video/x-h265"),
            "image/jpeg" => self.decode_jpeg(pad),
            _ => link(pad, &self.entry),
        };
        if let Err(reason) = landed {
            self.end(decode, reason);
        }
    }

    /// Puts the parser there, which tells what the stream is like; then the decoder follows.
    fn parse(
        self: &Arc<Self>,
        pad: &gst::Pad,
        parser: Result<gst::Element, SourceError>,
        media: &'static str,
    ) -> Result<(), String> {
        let parser = parser.map_err(|error| error.to_string())?;
        let (sink, src) = (static_pad(&parser, "sink")?, static_pad(&parser, "src")?);
        self.add(&parser)?;
        let landing = Arc::downgrade(self);
        let is_decided = AtomicBool::new(false);
        src.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |src, info| {
            let event = info.event().map(|event| event.view());
            if let (Some(gst::EventView::Caps(event)), Some(landing)) = (event, landing.upgrade())
                && !is_decided.swap(true, Ordering::AcqRel)
                && let Err(reason) = landing.choose_decoder(src, media, event.caps())
                && let Some(parser) = src.parent_element()
            {
                landing.end(&parser, reason);
            }
            gst::PadProbeReturn::Ok
        });
        parser
            .sync_state_with_parent()
            .map_err(|error| error.to_string())?;
        link(pad, &sink)
    }

    /// The decoder for a parsed stream of these caps.
    fn choose_decoder(
        &self,
        parsed: &gst::Pad,
        media: &'static str,
        caps: &gst::CapsRef,
    ) -> Result<(), String> {
        let stream = caps.structure(0);
        let chroma = stream.and_then(|stream| stream.get::<String>("chroma-format").ok());
        let bits = stream.and_then(|stream| stream.get::<u32>("bit-depth-luma").ok());
        let reason = match nvdec_supports(media, chroma.as_deref(), bits) {
            Err(reason) => reason,
            Ok(()) => match self.hardware.decoder_for(media, self.options.choice) {
                Some(unit) => return self.decode_by(parsed, unit),
                None => format!("nothing decodes {media}"),
            },
        };
        if self.options.choice == DecoderChoice::Hardware {
            return Err(format!(
                "decoder is hardware, but {reason}; let the camera send something else, or set decoder to auto"
            ));
        }
        self.diagnostics
            .add_note(format!("the CPU decodes, not NVDEC: {reason}"));
        self.decode_on_cpu(parsed)
    }

    fn decode_jpeg(&self, pad: &gst::Pad) -> Result<(), String> {
        let unit = self
            .hardware
            .decoder_for("image/jpeg", self.options.choice)
            .ok_or("nothing decodes image/jpeg")?;
        // The video decoder takes whole pictures alone; the JPEG decoder finds their ends itself.
        if unit.element == "nvjpegdec" {
            return self.decode_by(pad, unit);
        }
        let parser = make("jpegparse", "parser").map_err(|error| error.to_string())?;
        let (sink, src) = (static_pad(&parser, "sink")?, static_pad(&parser, "src")?);
        self.add(&parser)?;
        parser
            .sync_state_with_parent()
            .map_err(|error| error.to_string())?;
        self.decode_by(&src, unit)?;
        link(pad, &sink)
    }

    /// Puts a decoder of the machine between `encoded` and the scaler.
    fn decode_by(&self, encoded: &gst::Pad, unit: UnitElement) -> Result<(), String> {
        let decoder = make(unit.element, "decoder").map_err(|error| error.to_string())?;
        // The decoder's clock follows its load otherwise, and several cameras at once come too late.
        set_if_supported("enable-max-performance", &decoder, "true");
        if encoded_is_jpeg(encoded) {
            set_if_supported("mjpeg", &decoder, "true");
        }
        let (sink, src) = (static_pad(&decoder, "sink")?, static_pad(&decoder, "src")?);
        self.add(&decoder)?;
        link(&src, &self.entry)?;
        decoder
            .sync_state_with_parent()
            .map_err(|error| error.to_string())?;
        link(encoded, &sink)
    }

    /// Puts a second `decodebin` there, which decodes on the processor.
    fn decode_on_cpu(&self, encoded: &gst::Pad) -> Result<(), String> {
        let decode = decodebin("processor", std::iter::empty(), self.options)
            .map_err(|error| error.to_string())?;
        self.add(&decode)?;
        let entry = self.entry.clone();
        decode.connect_pad_added(move |decode, pad| {
            if let Err(reason) = link(pad, &entry) {
                gst::element_error!(decode, gst::CoreError::Negotiation, ("{reason}"));
            }
        });
        let sink = static_pad(&decode, "sink")?;
        decode
            .sync_state_with_parent()
            .map_err(|error| error.to_string())?;
        link(encoded, &sink)
    }

    fn add(&self, element: &gst::Element) -> Result<(), String> {
        let pipeline = self.pipeline.upgrade().ok_or("the pipeline is gone")?;
        pipeline.add(element).map_err(|error| error.to_string())
    }

    /// Ends the session for a reason of ours.
    fn end(&self, element: &gst::Element, reason: String) {
        self.diagnostics.reject(reason.clone());
        gst::element_error!(element, gst::CoreError::Negotiation, ("{reason}"));
    }
}

/// A parser's own pad has no caps before its first buffer, but its template tells what it parses.
fn encoded_is_jpeg(pad: &gst::Pad) -> bool {
    media_type(pad) == "image/jpeg"
}

pub(super) fn media_type(pad: &gst::Pad) -> String {
    pad.current_caps()
        .or_else(|| Some(pad.query_caps(None)))
        .and_then(|caps| caps.structure(0).map(|media| media.name().to_string()))
        .unwrap_or_else(|| "unknown".to_owned())
}

fn static_pad(element: &gst::Element, name: &str) -> Result<gst::Pad, String> {
    let missing = || format!("{} has no pad named {name}", element.name());
    element.static_pad(name).ok_or_else(missing)
}

fn link(from: &gst::Pad, to: &gst::Pad) -> Result<(), String> {
    from.link(to).map(|_| ()).map_err(|error| {
        let owner = |pad: &gst::Pad| {
            pad.parent_element().map_or_else(
                || "an element".to_owned(),
                |element| element.name().to_string(),
            )
        };
        format!("cannot link {} to {}: {error}", owner(from), owner(to))
    })
}
