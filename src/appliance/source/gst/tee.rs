//! The picture at source size beside the network's: a second branch of the pipeline, made only where a later step asked for it.
//!
//! ```text
//!   entry ─► fork (tee) ─┬─► trunk ─► steps that scale ──────────► sink
//!                        └─► view-entry ─► a step to BGRx ─► view-sink
//! ```
//!
//! There is no queue in it either: the tee pushes each buffer through the trunk and then through the view's branch, on one
//! thread, so that the view that comes is that of the frame that has just come.

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;

use crate::SourceError;
use crate::elements::make;

use super::hardware::VideoHardware;
use super::scaler_elements::AttachPoints;

const TEE: &str = "fork";
const MAIN_BRANCH: &str = "trunk";
const FULL_IMAGE_ENTRY: &str = "view-entry";

/// Names of the elements that must listen before anything pushes a picture.
pub(super) const PROBE_POINTS: &[&str] = &[TEE, MAIN_BRANCH, FULL_IMAGE_ENTRY];

/// The fork and its branches, already in the pipeline.
pub(super) struct ImageTee {
    /// Where the steps for the network begin.
    pub(super) main_branch: gst::Element,
    entry: gst::Element,
    sink: gst_app::AppSink,
}

impl ImageTee {
    /// Adds it behind `input`.
    pub(super) fn add(pipeline: &gst::Pipeline, input: &gst::Element) -> Result<Self, SourceError> {
        let failed = |error: gst::glib::BoolError| SourceError::Build(error.to_string());
        let tee = make("tee", TEE)?;
        // No identity: it copies buffers that it shares with the other branch, and what lies in NVMM cannot be copied so.
        let main_branch = make("capsfilter", MAIN_BRANCH)?;
        let entry = make("capsfilter", FULL_IMAGE_ENTRY)?;
        let sink = make("appsink", "view-sink")?
            .downcast::<gst_app::AppSink>()
            .map_err(|element| SourceError::Build(format!("{} is no appsink", element.name())))?;
        sink.set_property("sync", false);
        sink.set_property("enable-last-sample", false);
        sink.set_property("max-buffers", 1_u32);
        // Both branches are fed by one thread, which waits in the trunk's sink until the pipeline plays. A pipeline that waited
        // for a picture here too would never play.
        sink.set_property("async", false);
        let taken = gst::Caps::builder("video/x-raw").field("format", "BGRx");
        sink.set_caps(Some(&taken.build()));
        pipeline
            .add_many([&tee, &main_branch, &entry, sink.upcast_ref()])
            .map_err(failed)?;
        // In this order: a tee serves its pads in the order in which they were made.
        gst::Element::link_many([input, &tee, &main_branch]).map_err(failed)?;
        tee.link(&entry).map_err(failed)?;
        Ok(Self {
            main_branch,
            entry,
            sink,
        })
    }

    /// Where the chain of the view's step stands.
    pub(super) fn attach_points(
        &self,
        pipeline: &gst::Pipeline,
        equipment: &VideoHardware,
    ) -> AttachPoints {
        AttachPoints {
            pipeline: pipeline.downgrade(),
            entry: self.entry.downgrade(),
            sink: self.sink.upcast_ref::<gst::Element>().downgrade(),
            hardware: equipment.clone(),
            prefix: "view-",
        }
    }

    /// Calls `on_image` on the streaming thread for each view.
    pub(super) fn on_full_image(
        &self,
        mut on_sample: impl FnMut(&gst_app::AppSink) -> Result<gst::FlowSuccess, gst::FlowError>
        + Send
        + 'static,
    ) {
        let callbacks = gst_app::AppSinkCallbacks::builder();
        self.sink
            .set_callbacks(callbacks.new_sample(move |sink| on_sample(sink)).build());
    }
}
