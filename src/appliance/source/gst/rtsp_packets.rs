// SPDX-License-Identifier: Apache-2.0
//! Packets of a camera in front of the session manager of `rtspsrc`, whether they come over TCP or UDP. Called by [`build`](super::build), asked by
//! [`session`](super::session).
//!
//! - A camera may send with another SSRC within a session: it has switched or restarted its encoder. GStreamer takes that for another
//!   stream, with a pad, a buffer and threads of its own. Here, it goes on as the one before, behind a gap in its sequence numbers.
//! - GStreamer ends a stream at its goodbye (RTCP BYE). Some cameras send one and go on: it is held back until packets have stopped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

/// Time without packets after which a stream has paused. Two that are sent at the same time do not alternate.
const PAUSE: Duration = Duration::from_millis(500);

/// Time without packets after a goodbye, after which the stream has ended.
const GOODBYE: Duration = Duration::from_secs(2);

/// Earlier streams of a session that are remembered.
const MAX_LEFT: usize = 8;

/// Sequence numbers that are left out where one stream goes on as another: more than UDP mixes up.
const GAP: u16 = 16;

/// Ticks of a video's timestamps in a second.
const VIDEO_RATE: u32 = 90_000;

/// Length of an RTP header without extensions.
const HEADER: usize = 12;

/// The pad that a track's packets come to.
type Input = gst::glib::WeakRef<gst::Pad>;

/// The packets of one session.
#[derive(Default)]
pub(super) struct RtspPackets {
    tracks: Mutex<Vec<(Input, Arc<Mutex<Track>>)>>,
}

impl RtspPackets {
    /// Watches the packets of `source`, an `rtspsrc`.
    pub(super) fn watch(source: &gst::Element) -> Arc<Self> {
        let this = Arc::new(Self::default());
        let packets = Arc::downgrade(&this);
        source.connect("new-manager", false, move |arguments| {
            let manager: gst::Element = arguments.get(1)?.get().ok()?;
            let packets = packets.clone();
            // A track's pad for media is requested before the one for its reports.
            manager.connect_pad_added(move |_, pad| {
                let Some(packets) = packets.upgrade() else {
                    return;
                };
                if pad.name().starts_with("recv_rtp_sink_") {
                    let track = Arc::default();
                    watch(pad, Arc::clone(&track));
                    packets.tracks.lock().push((pad.downgrade(), track));
                } else if let Some(number) = pad.name().strip_prefix("recv_rtcp_sink_")
                    && let Some(track) = packets.track(number)
                {
                    watch(pad, track);
                }
            });
            None
        });
        this
    }

    /// The newest track of this number.
    fn track(&self, number: &str) -> Option<Arc<Mutex<Track>>> {
        let name = format!("recv_rtp_sink_{number}");
        let tracks = self.tracks.lock();
        let mut newest = tracks.iter().rev();
        let is_it = |pad: gst::Pad| pad.name() == name;
        let found = newest.find(|(pad, _)| pad.upgrade().is_some_and(is_it));
        found.map(|(_, track)| Arc::clone(track))
    }

    /// Ends the streams whose goodbye was no mistake.
    pub(super) fn end_silent(&self) {
        for (pad, track) in &*self.tracks.lock() {
            let is_over = track.lock().is_over(Instant::now());
            if let Some(pad) = pad.upgrade().filter(|_| is_over) {
                pad.send_event(gst::event::Eos::new());
            }
        }
    }
}

/// Passes on the packets of a track on `pad`, be they media or reports: some cameras send both to one port.
fn watch(pad: &gst::Pad, track: Arc<Mutex<Track>>) {
    pad.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
        let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data else {
            return gst::PadProbeReturn::Ok;
        };
        let (mut header, now) = ([0; HEADER], Instant::now());
        // Both copies panic where there is less; cameras send empty packets, too.
        let is_long = buffer.size() >= HEADER;
        let is_media = is_long && buffer.copy_to_slice(0, &mut header).is_ok() && is_rtp(&header);
        let mut track = track.lock();
        let is_passed = match is_media {
            true => {
                let media = pad.current_caps();
                let media = media.as_ref().and_then(|caps| caps.structure(0));
                // Encrypted packets are bound to their header.
                if media.is_some_and(|media| media.name() == "application/x-srtp") {
                    return gst::PadProbeReturn::Ok;
                }
                let rate = media.and_then(|media| media.get::<i32>("clock-rate").ok());
                let rate = rate.and_then(|rate| u32::try_from(rate).ok());
                let former = header;
                let is_passed = track.pass(&mut header, rate.unwrap_or(VIDEO_RATE), now);
                if is_passed && header != former {
                    let _ = buffer.make_mut().copy_from_slice(0, &header);
                }
                is_passed
            }
            false => match buffer.map_readable() {
                Ok(report) => track.pass_report(&report, now),
                Err(_) => true,
            },
        };
        match is_passed {
            true => gst::PadProbeReturn::Ok,
            false => gst::PadProbeReturn::Drop,
        }
    });
}

/// Whether a packet is one of media, not a report (RFC 5761).
fn is_rtp(header: &[u8; HEADER]) -> bool {
    header[0] >> 6 == 2 && !(64..96).contains(&(header[1] & 0x7f))
}

/// What one track sends.
#[derive(Default)]
struct Track {
    /// `None`: nothing yet.
    stream: Option<Stream>,
    /// SSRCs of others, and when they sent last.
    left: VecDeque<(u32, Instant)>,
    /// A goodbye that is held back.
    goodbye: Option<Instant>,
}

/// The stream that is passed on.
struct Stream {
    /// SSRC that all packets get: that of the first one.
    kept: u32,
    /// SSRC that the camera uses now.
    source: u32,
    /// What is added to sequence numbers and timestamps.
    shift: (u16, u32),
    /// Sequence number and timestamp of the last packet, with it.
    last: (u16, u32),
    /// When it came.
    at: Instant,
}

impl Track {
    /// Changes the header of a packet so that it continues the stream; `rate`: ticks of its timestamps in a second. `false`: the packet is
    /// not of the stream, which goes on meanwhile.
    fn pass(&mut self, header: &mut [u8; HEADER], rate: u32, now: Instant) -> bool {
        let [_, _, s0, s1, t0, t1, t2, t3, c0, c1, c2, c3] = *header;
        let sequence = u16::from_be_bytes([s0, s1]);
        let time = u32::from_be_bytes([t0, t1, t2, t3]);
        let source = u32::from_be_bytes([c0, c1, c2, c3]);
        let stream = self.stream.get_or_insert(Stream {
            kept: source,
            source,
            shift: (0, 0),
            last: (sequence, time),
            at: now,
        });
        if source != stream.source {
            let is_known = |(known, _): &(u32, Instant)| *known == source;
            let known = self.left.iter().position(is_known);
            let known = known.and_then(|at| self.left.remove(at));
            let has_paused = |at: Instant| now - at >= PAUSE;
            let is_taken = has_paused(stream.at) || known.is_none_or(|(_, at)| has_paused(at));
            self.left.push_back(match is_taken {
                true => (stream.source, stream.at),
                false => (source, now),
            });
            if self.left.len() > MAX_LEFT {
                self.left.pop_front();
            }
            if !is_taken {
                return false;
            }
            let elapsed = (now - stream.at).as_micros() * u128::from(rate) / 1_000_000;
            let next = stream.last.1.wrapping_add(elapsed as u32);
            stream.shift = (
                stream.last.0.wrapping_add(GAP).wrapping_sub(sequence),
                next.wrapping_sub(time),
            );
            stream.source = source;
        }
        stream.at = now;
        stream.last = (
            sequence.wrapping_add(stream.shift.0),
            time.wrapping_add(stream.shift.1),
        );
        header[2..4].copy_from_slice(&stream.last.0.to_be_bytes());
        header[4..8].copy_from_slice(&stream.last.1.to_be_bytes());
        header[8..].copy_from_slice(&stream.kept.to_be_bytes());
        self.goodbye = self.goodbye.filter(|at| now - *at < GOODBYE);
        true
    }

    /// Whether a report (RTCP) is passed on. Its numbers and times are not those of a stream that has been changed.
    fn pass_report(&mut self, mut report: &[u8], now: Instant) -> bool {
        const BYE: u8 = 203;
        while let [_, kind, high, low, ..] = *report {
            if kind == BYE {
                self.goodbye.get_or_insert(now);
                return false;
            }
            let len = 4 * (1 + usize::from(u16::from_be_bytes([high, low])));
            report = report.get(len..).unwrap_or_default();
        }
        let is_changed = |stream: &Stream| stream.source != stream.kept || stream.shift != (0, 0);
        !self.stream.as_ref().is_some_and(is_changed)
    }

    /// Whether no packet has come since a goodbye; once for each.
    fn is_over(&mut self, now: Instant) -> bool {
        let last = self.stream.as_ref().map(|stream| stream.at);
        let is_over = self
            .goodbye
            .is_some_and(|at| now - last.map_or(at, |last| last.max(at)) >= GOODBYE);
        is_over && self.goodbye.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(source: u32, sequence: u16, time: u32) -> [u8; HEADER] {
        let mut header = [0x80, 96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        header[2..4].copy_from_slice(&sequence.to_be_bytes());
        header[4..8].copy_from_slice(&time.to_be_bytes());
        header[8..].copy_from_slice(&source.to_be_bytes());
        header
    }

    #[test]
    fn another_ssrc_goes_on_as_the_stream_before() {
        let (mut track, begin) = (Track::default(), Instant::now());
        // Milliseconds, SSRC, sequence number, timestamp; and what is passed on.
        #[rustfmt::skip]
        let cases = [
            (0, 7, 65_530, u32::MAX - 8999, Some((65_530, u32::MAX - 8999))),
            (100, 7, 65_531, 0, Some((65_531, 0))),
            // A new one is taken at once, and what is left of the one before is not.
            (200, 8, 100, 50, Some((11, 9000))),
            (210, 7, 65_532, 9000, None),
            (300, 8, 101, 9050, Some((12, 18_000))),
            (950, 8, 102, 67_550, Some((13, 76_500))),
            // It returns after a pause.
            (1000, 7, 3, 77, Some((29, 81_000))),
            (1010, 8, 103, 72_050, None),
            // Another one goes on where this one has paused.
            (1400, 8, 104, 107_150, None),
            (1510, 8, 105, 117_050, Some((45, 126_900))),
        ];
        for (at, source, sequence, time, wanted) in cases {
            let mut header = packet(source, sequence, time);
            let now = begin + Duration::from_millis(at);
            let is_passed = track.pass(&mut header, VIDEO_RATE, now);
            let found = is_passed.then_some(header);
            assert_eq!(found, wanted.map(|(it, time)| packet(7, it, time)), "{at}");
        }
    }

    #[test]
    fn sources_without_end_are_not_all_remembered() {
        let (mut track, now) = (Track::default(), Instant::now());
        for source in 0..1000 {
            assert!(track.pass(&mut packet(source, 1, 1), VIDEO_RATE, now));
        }
        assert_eq!(track.left.len(), MAX_LEFT);
    }

    #[test]
    fn a_goodbye_counts_where_packets_stop() {
        let sender = [0x80, 200, 0, 1, 0, 0, 0, 7];
        let goodbye = [&sender[..], &[0x81, 203, 0, 1, 0, 0, 0, 7]].concat();
        let (mut track, begin) = (Track::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(!track.pass_report(&goodbye, at(0)) && !track.is_over(at(1)));
        assert!(track.is_over(at(2)) && !track.is_over(at(9)));
        assert!(!track.pass_report(&goodbye, at(10)));
        let mut pass = |source, seconds| {
            let is_passed = track.pass(&mut packet(source, 1, 1), VIDEO_RATE, at(seconds));
            (is_passed, track.is_over(at(seconds + 1)))
        };
        assert_eq!([pass(7, 11), pass(7, 12), pass(7, 13)], [(true, false); 3]);
        assert!(!track.is_over(at(20)), "it went on");
        assert!(track.pass_report(&sender, at(21)));
        assert!(track.pass(&mut packet(8, 1, 1), VIDEO_RATE, at(21)));
        assert!(!track.pass_report(&sender, at(22)), "of the stream before");
    }
}
