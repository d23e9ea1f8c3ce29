// SPDX-License-Identifier: Apache-2.0
//! From media to images: `decodebin` demuxes and parses the video, and the decoder is selected here, explicitly.
//!
//! Where the machine has a video decoder, `decodebin` is configured to stop at the codecs that it supports, and the decoder
//! is linked after it with its parser. Selecting by element ranks, as `decodebin` does, was rejected: ranks differ between
//! releases, and a silent fallback to the CPU would not be visible. NVIDIA's elements are therefore excluded from
//! `decodebin`, which decodes everything else on the CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};

use gstreamer as gst;
use gstreamer::glib;
use gstreamer::prelude::*;

use crate::SourceError;
use crate::elements::{is_excluded_from_autoplug, make, set_if_supported};
use parking_lot::Mutex;

use jetwatch_config::DecoderChoice;
use jetwatch_nvidia::mapped_code;
use jetwatch_platform::UnitElement;
use jetwatch_types::Size;

use super::audio;
use super::codec_threads::CodecThreads;
use super::diagnostics::SessionDiagnostics;
use super::encoded::EncodedCapture;
use super::hardware::{VideoHardware, nvdec_supports};
use super::sync_gate::SyncGate;
use super::tracks::Tracks;

/// Codecs that a Jetson's units can decode.
const CODECS: [&str; 3] = ["video/x-h264", "video/x-h265", "image/jpeg"];

/// Variants of a playlist above this are left out, where it has others; in kbit/s.
const MAX_VARIANT: u64 = 20_000;

/// Done when the first decoder was made.
static FIRST_DECODER: Once = Once::new();

/// Codecs whose streams can be kept as they are.
const KEPT_CODECS: [&str; 2] = ["video/x-h264", "video/x-h265"];

/// Adds a `decodebin` to `pipeline` whose video is linked to `entry`. Returns it; media is linked to its sink pad.
/// `capture` receives the encoded stream before it is decoded, also what `gate` holds back.
pub(super) fn add(
    pipeline: &gst::Pipeline,
    entry: gst::Pad,
    hardware: &VideoHardware,
    options: DecodeOptions,
    diagnostics: &Arc<SessionDiagnostics>,
    capture: Option<EncodedCapture>,
    gate: Option<Arc<SyncGate>>,
) -> Result<gst::Element, SourceError> {
    let is_kept = |codec: &str| capture.is_some() && KEPT_CODECS.contains(&codec);
    let codecs: Vec<&str> = CODECS
        .into_iter()
        .filter(|codec| is_kept(codec) || hardware.decoder_for(codec, options.choice).is_some())
        .collect();
    let wants_audio = capture.as_ref().is_some_and(|capture| capture.wants_audio);
    let pad_handler = Arc::new(PadAddedHandler {
        pipeline: pipeline.downgrade(),
        entry,
        hardware: hardware.clone(),
        options,
        diagnostics: Arc::clone(diagnostics),
        gate: gate.clone(),
        capture,
        tracks: Tracks::new(options.track),
        video_pads: Mutex::default(),
        is_sound_taken: AtomicBool::new(false),
    });
    let codecs = codecs.into_iter().map(gst::Structure::new_empty);
    let sound = wants_audio.then(audio::aac_caps);
    let decode = decodebin("decode", codecs.chain(sound), options, diagnostics, gate)?;
    if wants_audio {
        note_other_sound(&decode, diagnostics);
    }
    pipeline
        .add(&decode)
        .map_err(|error| SourceError::Build(error.to_string()))?;
    pad_handler.tracks.observe(&decode);
    let handler = Arc::clone(&pad_handler);
    decode.connect_pad_added(move |_, pad| handler.on_pad_added(pad));
    decode.connect_no_more_pads(move |decode| pad_handler.on_all_pads(decode));
    Ok(decode)
}

/// The configured decoding.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecodeOptions {
    pub(super) choice: DecoderChoice,
    /// Threads of a software decoder; 0: one per core.
    pub(super) threads: u32,
    /// The number of the video track to take.
    pub(super) track: Option<u32>,
}

/// Notes sound that is not kept.
fn note_other_sound(decode: &gst::Element, diagnostics: &Arc<SessionDiagnostics>) {
    let diagnostics = Arc::clone(diagnostics);
    // For each stream that is found; what `decodebin` does with it stays its own matter.
    decode.connect("autoplug-continue", false, move |values| {
        let caps = values.get(2).and_then(|caps| caps.get::<gst::Caps>().ok());
        if let Some(caps) = caps.filter(|caps| audio::is_other_sound(caps))
            && let Some(stream) = caps.structure(0)
        {
            audio::note_other(&diagnostics, stream.name());
        }
        Some(true.to_value())
    });
}

/// A `decodebin` that outputs raw video, and what is in `codecs` without decoding it.
fn decodebin(
    name: &str,
    codecs: impl Iterator<Item = gst::Structure>,
    options: DecodeOptions,
    diagnostics: &SessionDiagnostics,
    gate: Option<Arc<SyncGate>>,
) -> Result<gst::Element, SourceError> {
    let decode = make("decodebin", name)?;
    // Only video is decoded; subtitles, and sound that is not kept, are ignored.
    let raw = gst::Structure::new_empty("video/x-raw");
    let mut caps = gst::Caps::builder_full().structure_with_any_features(raw);
    for codec in codecs {
        caps = caps.structure(codec);
    }
    decode.set_property("caps", caps.build());
    decode.set_property("expose-all-streams", false);
    // Else a playlist begins with its first variant, perhaps sound alone, and changes between sizes later.
    decode.set_property("connection-speed", MAX_VARIANT);
    on_elements(&decode, options.threads, &diagnostics.codec_threads, gate);
    exclude_factories(&decode, options.choice);
    Ok(decode)
}

/// Sets the number of threads of the software decoder that decodebin creates, lets `codec_threads` find them, and attaches `gate` to
/// its parser of video.
fn on_elements(
    decode: &gst::Element,
    threads: u32,
    codec_threads: &Arc<CodecThreads>,
    gate: Option<Arc<SyncGate>>,
) {
    let Some(bin) = decode.downcast_ref::<gst::Bin>() else {
        return;
    };
    let threads = i32::try_from(threads).unwrap_or(i32::MAX);
    let codec_threads = Arc::clone(codec_threads);
    bin.connect_element_added(move |_, element| {
        if is_class(element, &["Demuxer"]) {
            element.connect_pad_added(|_, pad| {
                take_data_while_unlinked(pad);
                leave_out_alpha(pad);
            });
        }
        if is_class(element, &["Parser", "Video"]) {
            take_colors_of_bitstream(element);
            if let (Some(gate), Some(parsed)) = (&gate, element.static_pad("src")) {
                gate.attach(&parsed);
            }
        }
        if is_video_decoder(element) {
            // Its plug-in may have loaded a hundred libraries, most of whose code is not needed again.
            FIRST_DECODER.call_once(|| _ = mapped_code::release());
            codec_threads.observe(element);
        }
        if element.has_property_with_type("max-threads", i32::static_type()) {
            element.set_property("max-threads", threads);
        }
    });
}

/// Lets elements that would take the first form which those behind them accept give another one where they can.
///
/// - JPEG decoders give images in their own colors. That of GStreamer 1.20 fails where the first form becomes RGB after the first image.
/// - Start codes, not lengths, are before the units of H.264 and H.265 over RTP: some cameras send a keyframe and its parameter sets as one
///   unit, with start codes between.
pub(super) fn prefer_forms(pipeline: &gst::Pipeline) {
    pipeline.connect_deep_element_added(move |_, _, element| {
        let factory = element.factory().map(|factory| factory.name());
        let codec = match factory.as_deref() {
            Some("jpegdec") => None,
            Some("rtph264depay") => Some("video/x-h264"),
            Some("rtph265depay") => Some("video/x-h265"),
            _ => return,
        };
        let own = match codec {
            None => gst::Caps::builder("video/x-raw").field(
                "format",
                gst::List::new(["I420", "Y42B", "Y444", "Y41B", "GRAY8"]),
            ),
            Some(codec) => gst::Caps::builder(codec)
                .field("stream-format", "byte-stream")
                .field("alignment", "au"),
        };
        let (own, Some(output)) = (own.build(), element.static_pad("src")) else {
            return;
        };
        let answered = gst::PadProbeType::QUERY_DOWNSTREAM | gst::PadProbeType::PULL;
        output.add_probe(answered, move |pad, info| {
            if let Some(query) = info.query_mut()
                && let gst::QueryViewMut::Caps(query) = query.view_mut()
                && let Some(mut accepted) = query.result_owned()
            {
                if accepted.is_any() {
                    accepted = pad.pad_template_caps();
                }
                let mut ordered = accepted.intersect_with_mode(&own, gst::CapsIntersectMode::First);
                ordered.merge(accepted);
                query.set_result(&ordered);
            }
            gst::PadProbeReturn::Ok
        });
    });
}

/// Drops data of a demuxer's pad while nothing is linked to it. A demuxer that finds its streams one after the other, as that of FLV, would
/// otherwise end at the first data of the sound, which is not decoded.
fn take_data_while_unlinked(pad: &gst::Pad) {
    let data = gst::PadProbeType::BUFFER | gst::PadProbeType::BUFFER_LIST;
    pad.add_probe(data, |pad, _| match pad.is_linked() {
        true => gst::PadProbeReturn::Remove,
        false => gst::PadProbeReturn::Drop,
    });
}

/// Lets decoders take VP8 and VP9 with transparency, as if it had none: `decodebin` finds no decoder for it where only some formats are wanted.
fn leave_out_alpha(pad: &gst::Pad) {
    let Some(mut caps) = pad.current_caps() else {
        return;
    };
    if caps.iter().any(|stream| stream.has_field("codec-alpha")) {
        let streams = caps.make_mut().iter_mut();
        streams.for_each(|stream| stream.remove_field("codec-alpha"));
        let stored = pad.store_sticky_event(&gst::event::Caps::new(&caps));
        log::debug!("{} without its transparency: {stored:?}", pad.name());
    }
}

/// Takes the colors that a container describes out of the caps before `parser`, which then names those of the bitstream. A demuxer for
/// MP4 tells the matrix and not the range, and parser and decoder believe it.
fn take_colors_of_bitstream(parser: &gst::Element) {
    let Some(input) = parser.static_pad("sink") else {
        return;
    };
    input.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, |_, info| {
        let has_colors = |stream: &gst::StructureRef| stream.has_field("colorimetry");
        change_caps(info, has_colors, |stream| {
            stream.remove_field("colorimetry")
        });
        gst::PadProbeReturn::Ok
    });
}

/// Where `info` is of an event with caps of which the first `is_meant`, changes each of them.
pub(super) fn change_caps(
    info: &mut gst::PadProbeInfo<'_>,
    is_meant: impl Fn(&gst::StructureRef) -> bool,
    change: impl Fn(&mut gst::StructureRef),
) {
    let Some(gst::EventView::Caps(event)) = info.event().map(|event| event.view()) else {
        return;
    };
    let mut caps = event.caps_owned();
    if caps.structure(0).is_some_and(is_meant) {
        caps.make_mut().iter_mut().for_each(change);
        info.data = Some(gst::PadProbeData::Event(gst::event::Caps::new(&caps)));
    }
}

fn is_video_decoder(element: &gst::Element) -> bool {
    is_class(element, &["Decoder"]) && !is_class(element, &["Audio"])
}

fn is_class(element: &gst::Element, words: &[&str]) -> bool {
    let factory = element.factory();
    factory.is_some_and(|factory| words.iter().all(|word| factory.klass().contains(word)))
}

/// Handles decodebin's `autoplug-select` signal: which decoders it may use.
fn exclude_factories(decode: &gst::Element, choice: DecoderChoice) {
    let results =
        glib::Type::from_name("GstAutoplugSelectResult").and_then(glib::EnumClass::with_type);
    // Only without the type is there no such signal; every supported release has it.
    let Some(results) = results else { return };
    decode.connect("autoplug-select", false, move |values| {
        let skip = values
            .get(3)
            .is_some_and(|factory| is_excluded_from_autoplug(factory, choice));
        results.to_value_by_nick(if skip { "skip" } else { "try" })
    });
}

/// Handler of decodebin's new pads in one session.
struct PadAddedHandler {
    pipeline: glib::WeakRef<gst::Pipeline>,
    /// Input pad of the scaler.
    entry: gst::Pad,
    hardware: VideoHardware,
    options: DecodeOptions,
    diagnostics: Arc<SessionDiagnostics>,
    /// Receives the encoded stream.
    capture: Option<EncodedCapture>,
    /// Holds back what cannot be decoded.
    gate: Option<Arc<SyncGate>>,
    tracks: Arc<Tracks>,
    /// Video of which one is to be taken.
    video_pads: Mutex<Vec<gst::Pad>>,
    /// The first stream of sound is used, and no other.
    is_sound_taken: AtomicBool,
}

impl PadAddedHandler {
    /// Handles a new stream.
    fn on_pad_added(&self, pad: &gst::Pad) {
        let media = media_type(pad);
        if let Some(capture) = self.capture.as_ref().filter(|it| it.wants_audio)
            && media == audio::AAC
            && !self.is_sound_taken.swap(true, Ordering::AcqRel)
        {
            if let Some(pipeline) = self.pipeline.upgrade() {
                audio::keep(&pipeline, pad, None, capture);
            }
            return;
        }
        let is_video = media.starts_with("video/") || CODECS.contains(&media.as_str());
        match is_video {
            true => self.video_pads.lock().push(pad.clone()),
            false => self.diagnostics.add_other_stream(media),
        }
    }

    /// All streams are known, and none has sent anything: one of them is taken. The same for those that replace them later, as where
    /// the tables of an MPEG transport stream change.
    fn on_all_pads(self: &Arc<Self>, decode: &gst::Element) {
        let pads = std::mem::take(&mut *self.video_pads.lock());
        let linked = self.tracks.choose(&pads).and_then(|choice| {
            let Some(choice) = choice.filter(|_| !self.entry.is_linked()) else {
                return Ok(());
            };
            if let Some(note) = choice.note {
                self.diagnostics.add_note(note);
            }
            let pad = &choice.pad;
            match media_type(pad).as_str() {
                "video/x-h264" => self.parse(pad, make("h264parse", "parser"), "video/x-h264"),
                "video/x-h265" => self.parse(pad, make("h265parse", "parser"), "video/x-h265"),
                "image/jpeg" => self.decode_jpeg(pad),
                _ => link(pad, &self.entry),
            }
        });
        if let Err(reason) = linked {
            self.end(decode, reason);
        }
    }

    /// Adds the parser, whose caps describe the stream; then the decoder follows.
    fn parse(
        self: &Arc<Self>,
        pad: &gst::Pad,
        parser: Result<gst::Element, SourceError>,
        media: &'static str,
    ) -> Result<(), String> {
        let parser = parser.map_err(|error| error.to_string())?;
        take_colors_of_bitstream(&parser);
        let (sink, parsed) = (static_pad(&parser, "sink")?, static_pad(&parser, "src")?);
        self.add(&parser)?;
        let filter = self.capture_filter(&parser, media)?;
        let src = match &filter {
            Some(filter) => static_pad(filter, "src")?,
            None => parsed,
        };
        if let Some(gate) = &self.gate {
            gate.attach(&src);
        }
        let handler = Arc::downgrade(self);
        let is_decided = AtomicBool::new(false);
        src.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |src, info| {
            let event = info.event().map(|event| event.view());
            if let (Some(gst::EventView::Caps(event)), Some(handler)) = (event, handler.upgrade())
                && !is_decided.swap(true, Ordering::AcqRel)
                && let Err(reason) = handler.choose_decoder(src, media, event.caps())
                && let Some(parser) = src.parent_element()
            {
                handler.end(&parser, reason);
            }
            gst::PadProbeReturn::Ok
        });
        for element in filter.iter().chain([&parser]) {
            element
                .sync_state_with_parent()
                .map_err(|error| error.to_string())?;
        }
        link(pad, &sink)
    }

    /// Links a filter to the parser that lets the stream pass in the form in which it is kept. `None`: nothing keeps it.
    fn capture_filter(
        &self,
        parser: &gst::Element,
        media: &str,
    ) -> Result<Option<gst::Element>, String> {
        let Some(capture) = &self.capture else {
            return Ok(None);
        };
        let filter = capture
            .filter_of_source(parser, media)
            .map_err(|error| error.to_string())?;
        self.add(&filter)?;
        parser.link(&filter).map_err(|error| error.to_string())?;
        Ok(Some(filter))
    }

    /// Selects the decoder for a parsed stream with these caps.
    fn choose_decoder(
        &self,
        parsed: &gst::Pad,
        media: &'static str,
        caps: &gst::CapsRef,
    ) -> Result<(), String> {
        if self
            .hardware
            .decoder_for(media, self.options.choice)
            .is_none()
        {
            // It is here only because it is kept.
            return self.decode_on_cpu(parsed);
        }
        let stream = caps.structure(0);
        let chroma = stream.and_then(|stream| stream.get::<String>("chroma-format").ok());
        let bits = stream.and_then(|stream| stream.get::<u32>("bit-depth-luma").ok());
        let side = |name| stream.and_then(|stream| stream.get::<i32>(name).ok());
        let size = side("width").zip(side("height"));
        let size =
            size.map(|(width, height)| Size::new(width.unsigned_abs(), height.unsigned_abs()));
        let reason = match nvdec_supports(media, chroma.as_deref(), bits, size) {
            Err(reason) => reason,
            Ok(()) => match self.hardware.decoder_for(media, self.options.choice) {
                Some(unit) => return self.decode_by(parsed, unit),
                None => format!("no decoder for {media}"),
            },
        };
        if self.options.choice == DecoderChoice::Hardware {
            return Err(format!(
                "decoder is hardware, but {reason}; configure the camera to send another format, or set decoder to auto"
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
            .ok_or("no decoder for image/jpeg")?;
        // The video decoder needs whole images; the JPEG decoder finds their boundaries itself.
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

    /// Links a decoder of the machine between `encoded` and the scaler; the CPU's where it does not open its device.
    fn decode_by(&self, encoded: &gst::Pad, unit: UnitElement) -> Result<(), String> {
        let decoder = make(unit.element, "decoder").map_err(|error| error.to_string())?;
        // By default the decoder's clock follows its load, and several cameras that start together come too late.
        set_if_supported("enable-max-performance", &decoder, "true");
        if encoded_is_jpeg(encoded) {
            set_if_supported("mjpeg", &decoder, "true");
        }
        // In the pipeline, its failure would end each session.
        if decoder.set_state(gst::State::Ready).is_err() {
            let _ = decoder.set_state(gst::State::Null);
            let reason = format!(
                "{} does not open its device; it is missing, as in a container without it, or the user may not open it",
                unit.element
            );
            if self.options.choice == DecoderChoice::Hardware {
                return Err(format!("decoder is hardware, but {reason}"));
            }
            self.diagnostics
                .add_note(format!("the CPU decodes: {reason}"));
            return self.decode_on_cpu(encoded);
        }
        let (sink, src) = (static_pad(&decoder, "sink")?, static_pad(&decoder, "src")?);
        let diagnostics = Arc::clone(&self.diagnostics);
        sink.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
            diagnostics.set_hardware_fed();
            gst::PadProbeReturn::Remove
        });
        self.add(&decoder)?;
        link(&src, &self.entry)?;
        decoder
            .sync_state_with_parent()
            .map_err(|error| error.to_string())?;
        link(encoded, &sink)
    }

    /// Adds a second `decodebin`, which decodes on the CPU.
    fn decode_on_cpu(&self, encoded: &gst::Pad) -> Result<(), String> {
        let decode = decodebin(
            "processor",
            std::iter::empty(),
            self.options,
            &self.diagnostics,
            self.gate.clone(),
        )
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
        let pipeline = self
            .pipeline
            .upgrade()
            .ok_or("the pipeline is shutting down")?;
        pipeline.add(element).map_err(|error| error.to_string())
    }

    /// Ends the session with an error of jetwatch.
    fn end(&self, element: &gst::Element, reason: String) {
        self.diagnostics.reject(reason.clone());
        gst::element_error!(element, gst::CoreError::Negotiation, ("{reason}"));
    }
}

/// A parser's pad has no caps before its first buffer, but its template shows the media type.
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
