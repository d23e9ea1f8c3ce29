// SPDX-License-Identifier: Apache-2.0
//! The image at source size in addition to the network's: a second branch of the pipeline, only where a later stage needs it.
//!
//! ```text
//!   entry ─► tee ─┬─► main-branch ─► scaling steps ────► sink
//!                 └─► full-entry ─► a step to BGRx ─► full-sink
//! ```
//!
//! The step is left out where [`own_scaling`] does its work.
//!
//! Neither branch has a queue: the tee pushes each buffer through the main branch and then through the full-image branch, on
//! one thread, so a full image belongs to the frame that has just arrived.

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;

use crate::SourceError;
use crate::elements::make;

use super::hardware::VideoHardware;
use super::own_scaling;
use super::scaler_elements::AttachPoints;

const TEE: &str = "tee";
const MAIN_BRANCH: &str = "main-branch";
const FULL_IMAGE_ENTRY: &str = "full-entry";

/// Names of the elements that must be started before any element pushes an image.
pub(super) const PROBE_POINTS: &[&str] = &[TEE, MAIN_BRANCH, FULL_IMAGE_ENTRY];

/// The tee and its branches, added to the pipeline.
pub(super) struct ImageTee {
    /// Where images arrive.
    pub(super) input: gst::Pad,
    /// First element of the network's branch.
    pub(super) main_branch: gst::Element,
    entry: gst::Element,
    sink: gst_app::AppSink,
}

impl ImageTee {
    /// Adds the tee behind `input`.
    pub(super) fn add(pipeline: &gst::Pipeline, input: &gst::Element) -> Result<Self, SourceError> {
        let failed = |error: gst::glib::BoolError| SourceError::Build(error.to_string());
        let tee = make("tee", TEE)?;
        // Not `identity`: it copies buffers that it shares with the other branch, and buffers in NVMM cannot be copied so.
        let main_branch = make("capsfilter", MAIN_BRANCH)?;
        let entry = make("capsfilter", FULL_IMAGE_ENTRY)?;
        let sink = make("appsink", "full-sink")?
            .downcast::<gst_app::AppSink>()
            .map_err(|element| {
                SourceError::Build(format!("{} is not an appsink", element.name()))
            })?;
        sink.set_property("sync", false);
        sink.set_property("enable-last-sample", false);
        sink.set_property("max-buffers", 1_u32);
        // One thread feeds both branches; it waits in the main branch's sink until the pipeline plays. If the pipeline also waited
        // for an image here, it would never play.
        sink.set_property("async", false);
        sink.set_caps(Some(&own_scaling::accepted_caps(None, true)));
        pipeline
            .add_many([&tee, &main_branch, &entry, sink.upcast_ref()])
            .map_err(failed)?;
        // In this order: a tee serves its pads in the order of their creation.
        gst::Element::link_many([input, &tee, &main_branch]).map_err(failed)?;
        tee.link(&entry).map_err(failed)?;
        let input = tee
            .static_pad("sink")
            .ok_or_else(|| SourceError::Build("tee has no sink pad".to_owned()))?;
        Ok(Self {
            input,
            main_branch,
            entry,
            sink,
        })
    }

    /// Attach points of the full-image branch's conversion.
    pub(super) fn attach_points(
        &self,
        pipeline: &gst::Pipeline,
        hardware: &VideoHardware,
    ) -> AttachPoints {
        AttachPoints {
            pipeline: pipeline.downgrade(),
            entry: self.entry.downgrade(),
            sink: self.sink.upcast_ref::<gst::Element>().downgrade(),
            hardware: hardware.clone(),
            prefix: "full-",
        }
    }

    /// Drops each image of the full-image branch, before any work on it, for which `is_wanted` is false on the streaming thread.
    pub(super) fn drop_unwanted(&self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) {
        let Some(pad) = self.entry.static_pad("sink") else {
            return;
        };
        pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| match is_wanted() {
            true => gst::PadProbeReturn::Ok,
            false => gst::PadProbeReturn::Handled,
        });
    }

    /// Calls `on_sample` on the streaming thread for each full image.
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
