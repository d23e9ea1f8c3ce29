// SPDX-License-Identifier: Apache-2.0
//! The encoded stream of a source, taken before its decoder. Called by [`decode`](super::decode).
//!
//! ```text
//!   h264parse ─► kept-format ─► decoder
//!                     └ probe: a copy of each access unit to the handler
//! ```
//!
//! The stream of the encoder of a source that has none of its own ([`encode`](super::encode)) takes the same way.
//!
//! A probe and not a `tee` with an `appsink`: it has no queue, no state and no flow of its own, so that it can neither hold the
//! decoder up nor end the session. Its work is one copy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use super::audio::running_time;
use crate::elements::make;
use crate::{FrameHandler, SourceContext, SourceError};
use jetwatch_config::EncodingConfig;
use jetwatch_types::{
    AccessUnit, AudioFormat, AudioUnit, Size, SourceId, StreamFormat, VideoCodec,
};

/// Where the encoded stream of a source goes.
#[derive(Clone)]
pub(super) struct EncodedCapture {
    id: SourceId,
    handler: Arc<dyn FrameHandler>,
    /// Limits of an encoder, where the source has no such stream.
    pub(super) limits: EncodingConfig,
    /// Whether the source has one.
    is_taken: Arc<AtomicBool>,
    /// Whether sound is requested.
    pub(super) wants_audio: bool,
    sound: Arc<Mutex<SoundClock>>,
}

/// Frames of sound that wait for the first image, whose clock they need.
const MAX_WAITING: usize = 512;

/// Sound on its way to the clock of the video.
#[derive(Default)]
struct SoundClock {
    /// From timestamps of the video to the time since the pipeline began to play, in nanoseconds; `None` before its first image.
    offset: Option<i64>,
    /// Frames with their times since the pipeline began to play.
    waiting: VecDeque<(Duration, Arc<[u8]>)>,
}

/// Presentation and decoding timestamp of a buffer, and when it arrived.
pub(super) type UnitTimes = (Option<Duration>, Option<Duration>, SystemTime);

impl EncodedCapture {
    /// That of this source; `None`: the stream is not requested.
    pub(super) fn of(context: &SourceContext) -> Option<Self> {
        context.wants_access_units.then(|| Self {
            id: context.id,
            handler: Arc::clone(&context.handler),
            limits: context.encoding,
            is_taken: Arc::default(),
            wants_audio: context.wants_audio,
            sound: Arc::default(),
        })
    }

    /// Whether the stream of the source itself is taken in this session.
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// The [`filter`](Self::filter) for the stream of the source itself, with its own timestamps.
    pub(super) fn filter_of_source(
        &self,
        parser: &gst::Element,
        media: &str,
    ) -> Result<gst::Element, SourceError> {
        self.is_taken.store(true, Ordering::Release);
        let capture = self.wants_audio.then(|| self.clone());
        self.filter(parser, media, move |pad, buffer| {
            let times = (buffer.pts(), buffer.dts());
            if let Some(capture) = &capture
                && let (Some(pts), Some(running)) = (times.0, running_time(pad, buffer))
            {
                capture.set_clock(nanos(running) - nanos(pts.into()));
            }
            let (pts, dts) = (times.0.map(Duration::from), times.1.map(Duration::from));
            (pts, dts, SystemTime::now())
        })
    }

    /// An image has come: its timestamp is `offset` nanoseconds before the time since the pipeline began to play.
    fn set_clock(&self, offset: i64) {
        let mut sound = self.sound.lock();
        if sound.offset.replace(offset) != Some(offset) {
            self.forward_sound(&mut sound);
        }
    }

    /// Sound has come, which is played `running` after the pipeline began to play.
    pub(super) fn sound(&self, running: Duration, bytes: Arc<[u8]>) {
        let mut sound = self.sound.lock();
        if sound.waiting.len() == MAX_WAITING {
            sound.waiting.pop_front();
        }
        sound.waiting.push_back((running, bytes));
        self.forward_sound(&mut sound);
    }

    fn forward_sound(&self, sound: &mut SoundClock) {
        let Some(offset) = sound.offset else {
            return;
        };
        for (running, bytes) in sound.waiting.drain(..) {
            if let Ok(pts) = u64::try_from(nanos(running) - offset) {
                let pts = Duration::from_nanos(pts);
                self.handler.audio_unit(self.id, AudioUnit { bytes, pts });
            }
        }
    }

    /// A stream of sound begins.
    pub(super) fn audio_started(&self, format: AudioFormat) {
        self.handler.audio_started(self.id, format);
    }

    /// The filter behind `parser`, whose stream of `media` it gives to the handler: whole access units as a byte stream, with
    /// the parameter sets before each keyframe. All decoders accept that. `times` gives a buffer at the pad its times.
    pub(super) fn filter(
        &self,
        parser: &gst::Element,
        media: &str,
        times: impl Fn(&gst::Pad, &gst::Buffer) -> UnitTimes + Send + Sync + 'static,
    ) -> Result<gst::Element, SourceError> {
        // Before each keyframe.
        parser.set_property("config-interval", -1);
        let filter = make("capsfilter", "kept-format")?;
        let caps = gst::Caps::builder(media)
            .field("stream-format", "byte-stream")
            .field("alignment", "au");
        filter.set_property("caps", caps.build());
        let output = filter
            .static_pad("src")
            .ok_or_else(|| SourceError::Build("capsfilter has no source pad".to_owned()))?;
        self.watch(&output, times);
        Ok(filter)
    }

    fn watch(
        &self,
        output: &gst::Pad,
        times: impl Fn(&gst::Pad, &gst::Buffer) -> UnitTimes + Send + Sync + 'static,
    ) {
        let (id, handler) = (self.id, Arc::clone(&self.handler));
        let known = Mutex::new(None);
        output.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
            // A parser repeats its caps with other fields once it knows more: the stream goes on.
            if let Some(gst::EventView::Caps(event)) = info.event().map(|event| event.view())
                && let Some(format) = format_of(event.caps())
                && known.lock().replace(format) != Some(format)
            {
                handler.stream_started(id, format);
            }
            gst::PadProbeReturn::Ok
        });
        let (id, handler) = (self.id, Arc::clone(&self.handler));
        output.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
            if let Some(buffer) = info.buffer()
                && let Some(unit) = access_unit(buffer, times(pad, buffer))
            {
                handler.access_unit(id, unit);
            }
            gst::PadProbeReturn::Ok
        });
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
}

/// The format of a parser's caps.
fn format_of(caps: &gst::CapsRef) -> Option<StreamFormat> {
    let stream = caps.structure(0)?;
    let codec = match stream.name().as_str() {
        "video/x-h264" => VideoCodec::H264,
        "video/x-h265" => VideoCodec::H265,
        _ => return None,
    };
    let side = |name: &str| stream.get::<i32>(name).ok()?.try_into().ok();
    Some(StreamFormat {
        codec,
        size: Size::new(side("width")?, side("height")?),
    })
}

/// A copy of an encoded buffer. Not the buffer itself: it may belong to the pool of a camera's driver, which has few.
fn access_unit(buffer: &gst::Buffer, (pts, dts, captured_at): UnitTimes) -> Option<AccessUnit> {
    let mapped = buffer.map_readable().ok()?;
    Some(AccessUnit {
        bytes: Bytes::copy_from_slice(&mapped),
        pts,
        dts,
        duration: buffer.duration().map(Duration::from),
        captured_at,
        is_keyframe: !buffer.flags().contains(gst::BufferFlags::DELTA_UNIT),
    })
}
