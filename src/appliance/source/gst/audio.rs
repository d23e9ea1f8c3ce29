// SPDX-License-Identifier: Apache-2.0
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
use parking_lot::Mutex;

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

fn aac_caps_of(stream_format: &str) -> gst::Structure {
    let mut caps = aac_caps();
    caps.set("stream-format", stream_format);
    caps
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
    // The parser of GStreamer 1.16 does not take the headers away.
    let adts = aac_caps_of("adts");
    let caps = gst::Caps::builder_full().structure(aac_caps_of("raw"));
    filter.set_property("caps", caps.structure(adts).build());
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
    let described = Mutex::new(None);
    output.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
        if let Some(buffer) = info.buffer()
            && let Some(time) = running_time(pad, buffer)
            && let Ok(mapped) = buffer.map_readable()
        {
            let Some((format, frame)) = without_header(&mapped) else {
                known.sound(time, Arc::from(mapped.as_slice()));
                return gst::PadProbeReturn::Ok;
            };
            let mut described = described.lock();
            if described.as_ref() != Some(&format) {
                known.audio_started(format.clone());
                *described = Some(format);
            }
            known.sound(time, Arc::from(frame));
        }
        gst::PadProbeReturn::Ok
    });
}

/// The format in the ADTS header of a frame, and the frame without it; `None` where it has none, or one that does not say how the
/// channels are arranged.
///
/// Source: ISO/IEC 13818-7, `adts_frame`. A raw frame does not begin as a header does: that would be an extension element.
fn without_header(bytes: &[u8]) -> Option<(AudioFormat, &[u8])> {
    const RATES: [u32; 13] = [
        96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025,
        8000, 7350,
    ];
    let [sync, flags, kind, layout, _, _, blocks, ..] = *bytes else {
        return None;
    };
    let has_checksum = flags & 1 == 0;
    let (profile, rate) = (kind >> 6, kind >> 2 & 15);
    let channels = (kind & 1) << 2 | layout >> 6;
    if sync != 0xff || flags & 0xf6 != 0xf0 || channels == 0 || blocks & 3 != 0 {
        return None;
    }
    let config = u16::from(profile + 1) << 11 | u16::from(rate) << 7 | u16::from(channels) << 3;
    let format = AudioFormat {
        sample_rate: *RATES.get(usize::from(rate))?,
        // The last arrangement is 7.1.
        channels: if channels == 7 { 8 } else { channels.into() },
        config: Arc::from(config.to_be_bytes()),
    };
    let frame = bytes.get(if has_checksum { 9 } else { 7 }..)?;
    Some((format, frame))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_frames_are_read_and_taken_away() {
        #[rustfmt::skip]
        let cases = [
            // AAC-LC, 44.1 kHz, 2 channels, without and with a checksum.
            (&[0xff, 0xf1, 0x50, 0x80, 0x01, 0x3f, 0xfc][..], Some((44_100, 2, [0x12, 0x10]))),
            (&[0xff, 0xf0, 0x50, 0x80, 0x01, 0x7f, 0xfc, 1, 2], Some((44_100, 2, [0x12, 0x10]))),
            // MPEG-2, 16 kHz, 1 channel.
            (&[0xff, 0xf9, 0x60, 0x40, 0x01, 0x3f, 0xfc], Some((16_000, 1, [0x14, 0x08]))),
            (&[0xff, 0xf1, 0x4d, 0xc0, 0x01, 0x3f, 0xfc], Some((48_000, 8, [0x11, 0xb8]))),
            // Channels as the frame itself says; two frames in one; a rate that does not exist; none.
            (&[0xff, 0xf1, 0x50, 0x00, 0x01, 0x3f, 0xfc], None),
            (&[0xff, 0xf1, 0x50, 0x80, 0x01, 0x3f, 0xfd], None),
            (&[0xff, 0xf1, 0x7c, 0x80, 0x01, 0x3f, 0xfc], None),
            (&[0x21, 0x10, 0x50, 0x80, 0x01, 0x3f, 0xfc], None),
            (&[0xff, 0xf1], None),
        ];
        for (header, expected) in cases {
            let bytes = [header, &[7, 8][..]].concat();
            let found = without_header(&bytes).map(|(format, frame)| {
                assert_eq!(frame, [7, 8], "{header:x?}");
                let config = [format.config[0], format.config[1]];
                (format.sample_rate, format.channels, config)
            });
            assert_eq!(found, expected, "{header:x?}");
        }
    }
}
