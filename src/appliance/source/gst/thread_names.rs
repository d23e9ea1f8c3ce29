// SPDX-License-Identifier: Apache-2.0
//! Names of GStreamer's streaming threads: the source and what the thread does, such as `front-door:video_decode`.
//!
//! A thread starts with the element that owns it; GStreamer reports that on the thread itself. Once an image passes the decoder
//! or the scaler on it, it is named after that stage; one that does both is named after the decoder.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;

use jetwatch_telemetry::{self as telemetry, Stage};

thread_local! {
    /// The stage that the thread is named after.
    static NAMED_AFTER: Cell<Option<Stage>> = const { Cell::new(None) };
    /// The source that the thread works for.
    static SOURCE: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// The source that the calling thread works for; `None`: it is not a streaming thread.
pub(super) fn source() -> Option<Arc<str>> {
    SOURCE.with_borrow(Clone::clone)
}

/// Names every streaming thread of the pipeline of `bus` when it starts. A bus takes one such handler.
pub(super) fn attach(bus: &gst::Bus, source: &str) {
    let source: Arc<str> = source.into();
    bus.set_sync_handler(move |_, message| {
        let gst::MessageView::StreamStatus(status) = message.view() else {
            return gst::BusSyncReply::Pass;
        };
        match status.type_() {
            gst::StreamStatusType::Enter => {
                NAMED_AFTER.set(None);
                SOURCE.set(Some(Arc::clone(&source)));
                let owner = status.owner();
                let element = owner.factory().map_or_else(
                    || owner.name().to_string(),
                    |factory| factory.name().to_string(),
                );
                telemetry::rename_thread(&format!("{source}:{element}"));
            }
            // GLib keeps the thread for others, and GStreamer does not report each use of it.
            gst::StreamStatusType::Leave => SOURCE.set(None),
            _ => {}
        }
        gst::BusSyncReply::Pass
    });
}

/// Names the calling thread after the first stage of an image's way that it runs. The first call on a thread may be for a later
/// stage: images are on their way already when the stages are first watched.
pub(super) fn name_by_stage(source: &str, stage: Stage) {
    let is_earlier = match NAMED_AFTER.get() {
        None => true,
        Some(named) => stage == Stage::VideoDecode && named != stage,
    };
    if is_earlier {
        NAMED_AFTER.set(Some(stage));
        telemetry::rename_thread(&format!("{source}:{}", stage.name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_left_its_pipeline_has_no_source() {
        gst::init().expect("GStreamer starts");
        let (bus, pipeline) = (gst::Bus::new(), gst::Pipeline::new());
        attach(&bus, "gate");
        let post = |kind| {
            let status = gst::message::StreamStatus::new(kind, pipeline.upcast_ref());
            bus.post(status).expect("it is taken");
        };
        for (kind, wanted) in [
            (gst::StreamStatusType::Enter, Some("gate")),
            (gst::StreamStatusType::Create, Some("gate")),
            (gst::StreamStatusType::Leave, None),
        ] {
            post(kind);
            assert_eq!(source().as_deref(), wanted, "{kind:?}");
        }
    }
}
