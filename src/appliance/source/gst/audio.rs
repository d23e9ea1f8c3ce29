//! The encoded sound of a source: AAC as it comes, for clips. Called by [`decode`](super::decode) and [`build`](super::build).
//!
//! ```text
//!   pad ─► aacparse ─► sound-format ─► fakesink
//!                           └ probe: a copy of each frame to the handler
//! ```
//!
//! Nothing here can end the session or hold the video up: what cannot be kept is logged, and the stream stays unlinked.

use std::sync::Arc;
use std::time::Duration;

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::elements::make;
use jetwatch_types::AudioFormat;

use super::diagnostics::SessionDiagnostics;
use super::encoded::EncodedCapture;

/// Media type of AAC, and of other formats of MPEG.
pub(super) const AAC: &str = "audio/mpeg";

/// Name of AAC in the description of an RTSP server, and the element that unpacks it.
const RTP_AAC: (&str, &str) = ("MPEG4-GENERIC", "rtpmp4gdepay");

/// Versions of MPEG whose sound is AAC.
const AAC_VERSIONS: [i32; 2] = [2, 4];

/// Caps of AAC in any form.
pub(super) fn aac_caps() -> gst::Structure {
    let versions = gst::List::new(AAC_VERSIONS);
    gst::Structure::builder(AAC)
        .field("mpegversion", versions)
        .build()
}

/// Whether a stream with these caps is sound that is not kept.
pub(super) fn is_other_sound(caps: &gst::CapsRef) -> bool {
    let Some(stream) = caps.structure(0) else {
        return false;
    };
    let version = stream.get::<i32>("mpegversion").ok();
    let is_aac = stream.name() == AAC && version.is_none_or(|it| AAC_VERSIONS.contains(&it));
    stream.name().starts_with("audio/") && stream.name() != "audio/x-raw" && !is_aac
}

/// The note about sound that is not kept.
pub(super) fn note_other(diagnostics: &SessionDiagnostics, format: &str) {
    diagnostics.add_note(format!(
        "its sound is not recorded: it is {format}, and only AAC is kept as it comes; set the camera to AAC"
    ));
}

/// The element that unpacks the stream with these caps of RTP, where it is sound.
pub(super) fn rtp_depayloader(caps: &gst::CapsRef) -> Option<Result<&'static str, String>> {
    let stream = caps.structure(0)?;
    if stream.get::<String>("media").ok()? != "audio" {
        return None;
    }
    let name = stream.get::<String>("encoding-name").unwrap_or_default();
    let is_known = name.eq_ignore_ascii_case(RTP_AAC.0);
    Some(is_known.then_some(RTP_AAC.1).ok_or(name))
}

/// Keeps the sound of `pad`, which is AAC, or RTP that `depayloader` unpacks.
pub(super) fn keep(
    pipeline: &gst::Pipeline,
    pad: &gst::Pad,
    depayloader: Option<&'static str>,
    capture: &EncodedCapture,
) {
    if let Err(reason) = attach(pipeline, pad, depayloader, capture) {
        log::warn!(source = pipeline.name().as_str(); "its sound is not recorded: {reason}");
    }
}

fn attach(
    pipeline: &gst::Pipeline,
    pad: &gst::Pad,
    depayloader: Option<&'static str>,
    capture: &EncodedCapture,
) -> Result<(), String> {
    let make = |factory, name| make(factory, name).map_err(|error| error.to_string());
    let mut elements = Vec::new();
    if let Some(depayloader) = depayloader {
        elements.push(make(depayloader, "sound-depayloader")?);
    }
    let filter = make("capsfilter", "sound-format")?;
    let raw = gst::Caps::builder(AAC)
        .field("mpegversion", 4)
        .field("stream-format", "raw");
    filter.set_property("caps", raw.build());
    let sink = make("fakesink", "sound-discard")?;
    sink.set_property("sync", false);
    // A stream without data must not keep the pipeline from playing.
    sink.set_property("async", false);
    elements.extend([make("aacparse", "sound-parser")?, filter.clone(), sink]);
    let output = filter.static_pad("src");
    watch(&output.ok_or("capsfilter has no source pad")?, capture);
    pipeline
        .add_many(&elements)
        .and_then(|()| gst::Element::link_many(&elements))
        .map_err(|error| error.to_string())?;
    for element in elements.iter().rev() {
        element
            .sync_state_with_parent()
            .map_err(|error| error.to_string())?;
    }
    let input = elements[0].static_pad("sink");
    let input = input.ok_or("its parser has no sink pad")?;
    pad.link(&input)
        .map(|_| ())
        .map_err(|error| error.to_string())
}

fn watch(output: &gst::Pad, capture: &EncodedCapture) {
    let known = Arc::new(capture.clone());
    let on_caps = Arc::clone(&known);
    output.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
        if let Some(gst::EventView::Caps(event)) = info.event().map(|event| event.view())
            && let Some(format) = format_of(event.caps())
        {
            on_caps.audio_started(format);
        }
        gst::PadProbeReturn::Ok
    });
    output.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
        if let Some(buffer) = info.buffer()
            && let Some(time) = running_time(pad, buffer)
            && let Ok(mapped) = buffer.map_readable()
        {
            known.sound(time, Arc::from(mapped.as_slice()));
        }
        gst::PadProbeReturn::Ok
    });
}

/// Time of a buffer since the pipeline began to play; `None` where it is before its segment, as the priming of an encoder.
pub(super) fn running_time(pad: &gst::Pad, buffer: &gst::BufferRef) -> Option<Duration> {
    let pts = buffer.pts()?;
    let segment = pad.sticky_event::<gst::event::Segment>(0)?;
    let segment = segment.segment().downcast_ref::<gst::ClockTime>()?;
    Some(segment.to_running_time(pts)?.into())
}

fn format_of(caps: &gst::CapsRef) -> Option<AudioFormat> {
    let stream = caps.structure(0)?;
    let number = |name: &str| stream.get::<i32>(name).ok();
    let config = stream.get::<gst::Buffer>("codec_data").ok()?;
    let config = config.map_readable().ok()?;
    Some(AudioFormat {
        sample_rate: number("rate")?.try_into().ok().filter(|rate| *rate > 0)?,
        channels: number("channels")?.try_into().ok()?,
        config: Arc::from(config.as_slice()),
    })
}
