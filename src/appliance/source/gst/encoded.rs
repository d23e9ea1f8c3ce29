//! The encoded stream of a source, taken before its decoder. Called by [`decode`](super::decode).
//!
//! ```text
//!   h264parse ─► kept-format ─► decoder
//!                     └ probe: a copy of each access unit to the handler
//! ```
//!
//! A probe and not a `tee` with an `appsink`: it has no queue, no state and no flow of its own, so that it can neither hold the
//! decoder up nor end the session. Its work is one copy.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::elements::make;
use crate::{FrameHandler, SourceContext, SourceError};
use jetwatch_types::{AccessUnit, Size, SourceId, StreamFormat, VideoCodec};

/// Where the encoded stream of a source goes.
#[derive(Clone)]
pub(super) struct EncodedCapture {
    id: SourceId,
    handler: Arc<dyn FrameHandler>,
}

impl EncodedCapture {
    /// That of this source; `None`: the stream is not requested.
    pub(super) fn of(context: &SourceContext) -> Option<Self> {
        context.wants_access_units.then(|| Self {
            id: context.id,
            handler: Arc::clone(&context.handler),
        })
    }

    /// The filter behind `parser`, whose stream of `media` it gives to the handler: whole access units as a byte stream, with
    /// the parameter sets before each keyframe. All decoders accept that.
    pub(super) fn filter(
        &self,
        parser: &gst::Element,
        media: &str,
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
        self.watch(&output);
        Ok(filter)
    }

    fn watch(&self, output: &gst::Pad) {
        let (id, handler) = (self.id, Arc::clone(&self.handler));
        output.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
            if let Some(gst::EventView::Caps(event)) = info.event().map(|event| event.view())
                && let Some(format) = format_of(event.caps())
            {
                handler.stream_started(id, format);
            }
            gst::PadProbeReturn::Ok
        });
        let (id, handler) = (self.id, Arc::clone(&self.handler));
        output.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            if let Some(unit) = info.buffer().and_then(access_unit) {
                handler.access_unit(id, unit);
            }
            gst::PadProbeReturn::Ok
        });
    }
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
fn access_unit(buffer: &gst::Buffer) -> Option<AccessUnit> {
    let mapped = buffer.map_readable().ok()?;
    Some(AccessUnit {
        bytes: Arc::from(mapped.as_slice()),
        pts: buffer.pts().map(Duration::from),
        dts: buffer.dts().map(Duration::from),
        duration: buffer.duration().map(Duration::from),
        captured_at: SystemTime::now(),
        is_keyframe: !buffer.flags().contains(gst::BufferFlags::DELTA_UNIT),
    })
}
