// SPDX-License-Identifier: Apache-2.0
//! Streams over `udp://`, `srt://` and `rtmp://`: the element that receives each. Called by [`build`](super::build) and
//! [`predict_plan`](super::predict_plan).

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::SourceError;
use crate::elements::{make, make_optional, set_if_supported};

use super::build::build_error;

/// Bytes of the socket's queue, as far as the kernel allows (net.core.rmem_max): a keyframe comes in one burst.
const UDP_QUEUE: i32 = 4 << 20;

/// The element that receives `location`. For RTMP there is `rtmp2src`, too, since GStreamer 1.18; it gives nothing of some servers that
/// `rtmpsrc` receives, so it is taken only where that one is missing.
#[must_use]
pub fn stream_element(location: &str) -> &'static str {
    match location.split(':').next() {
        Some("udp") => "udpsrc",
        Some("srt") => "srtsrc",
        _ => "rtmpsrc",
    }
}

/// The element that receives `location`, ready to be linked.
///
/// # Errors
/// GStreamer does not have it, or it does not accept the address.
pub(super) fn make_source(location: &str) -> Result<gst::Element, SourceError> {
    let factory = stream_element(location);
    let other = || make_optional("rtmp2src", "stream").filter(|_| factory == "rtmpsrc");
    let source = make(factory, "stream").or_else(|error| other().ok_or(error))?;
    let handler = source.dynamic_cast_ref::<gst::URIHandler>();
    let handler = handler.ok_or_else(|| build_error("the element takes no address"))?;
    let accepted = handler.set_uri(location);
    accepted.map_err(|error| SourceError::Unsupported {
        uri: jetwatch_config::redact(location),
        reason: jetwatch_config::redact(error.message()),
    })?;
    match factory {
        "udpsrc" => {
            source.set_property("buffer-size", UDP_QUEUE);
            remove_rtp_headers(&source);
        }
        // The supervisor of the source tries again; srtsrc does not say why it does.
        "srtsrc" => _ = set_if_supported("auto-reconnect", &source, "false"),
        _ => {}
    }
    Ok(source)
}

/// Passes on the MPEG-TS in packets of RTP.
fn remove_rtp_headers(source: &gst::Element) {
    let Some(output) = source.static_pad("src") else {
        return;
    };
    output.add_probe(gst::PadProbeType::BUFFER, |_, info| {
        if let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data {
            let header = buffer
                .map_readable()
                .map_or(0, |packet| rtp_header(&packet));
            if header > 0
                && let Ok(mut media) = buffer.copy_region(gst::BufferCopyFlags::all(), header..)
            {
                // A part that does not begin at the first byte gets no time. Without it, the demuxer of GStreamer 1.16 waits for ever.
                if let Some(media) = media.get_mut() {
                    media.set_pts(buffer.pts());
                    media.set_dts(buffer.dts());
                }
                *buffer = media;
            }
        }
        gst::PadProbeReturn::Ok
    });
}

/// Bytes of the RTP header (RFC 3550, section 5.1) before whole packets of MPEG-TS; 0: the packet is something else. Senders without RTP may
/// cut packets of MPEG-TS anywhere.
fn rtp_header(packet: &[u8]) -> usize {
    const TS_PACKET: usize = 188;
    let find = || {
        let first = *packet.first().filter(|first| *first >> 6 == 2)?;
        let mut len = 12 + 4 * usize::from(first & 0x0f);
        if first & 0x10 != 0 {
            let words = [*packet.get(len + 2)?, *packet.get(len + 3)?];
            len += 4 + 4 * usize::from(u16::from_be_bytes(words));
        }
        let media = packet.get(len..)?;
        (media.first() == Some(&0x47) && media.len() % TS_PACKET == 0).then_some(len)
    };
    find().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rtp_headers_before_mpeg_ts_are_removed() {
        let media = [[0x47].as_slice(), &[1; 187]].concat();
        let after = |header: &[u8]| [header, &media].concat();
        let plain = [[0x80, 33].as_slice(), &[0; 10]].concat();
        let with_source = [[0x81, 33].as_slice(), &[0; 14]].concat();
        let extended = [[0x90, 96].as_slice(), &[0; 10], &[0, 0, 0, 1, 9, 9, 9, 9]].concat();
        let cut = [[0x80, 33].as_slice(), &[0; 9]].concat();
        let cases = [
            (after(&plain), 12),
            (after(&with_source), 16),
            (after(&extended), 20),
            (after(&[]), 0),
            (media[7..].to_vec(), 0),
            // H.264 in RTP.
            ([plain.as_slice(), &[0x65; 188]].concat(), 0),
            (after(&plain)[..100].to_vec(), 0),
            (cut, 0),
            (vec![0x9f, 33], 0),
            (Vec::new(), 0),
        ];
        for (packet, len) in cases {
            assert_eq!(rtp_header(&packet), len, "{packet:?}");
        }
    }
}
