// SPDX-License-Identifier: Apache-2.0
//! Pad probe that drops frames without inference before they are scaled.
//!
//! ```text
//!   entry ─► probe ─► scaling steps ─► sink                  without full images: a skipped frame is dropped before all work
//!   entry ─► tee ─┬─► probe ─► scaling steps ─► sink
//!                 └─► full-entry ─► … ─► full-sink           with full images: a skipped frame keeps only its full image
//! ```
//!
//! Everything runs on the streaming thread, without a queue: a frame that passes the probe is the next at the sink.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::{Mutex, MutexGuard};

use crate::{FrameHandler, FullImage, SourceContext};
use jetwatch_types::{Crop, FrameMeta, Image, PixelAspect, Size};

use super::own_scaling::OwnScaling;
use super::scaler::StallMonitor;

/// Image size and crop from the newest caps.
#[derive(Debug, Clone, Copy)]
pub(super) struct CapsInfo {
    /// Size of the whole image.
    pub(super) size: Size,
    /// The part that is scaled; `None`: the whole image.
    pub(super) crop: Option<Crop>,
    /// Shape of the pixels of the whole image.
    pub(super) pixels: PixelAspect,
    /// What is left to do with the images at the sink; `None`: elements have done all.
    pub(super) own_scaling: Option<OwnScaling>,
    /// The same for full images.
    pub(super) full_scaling: Option<OwnScaling>,
}

impl CapsInfo {
    /// Value before the first caps.
    pub(super) fn empty() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            size: Size::new(1, 1),
            crop: None,
            pixels: PixelAspect::default(),
            own_scaling: None,
            full_scaling: None,
        }))
    }
}

/// Data from the probe to the sinks about the current frame.
#[derive(Default)]
pub(super) struct ProbeState {
    /// Number of the frame that passed.
    seq: Option<u64>,
    /// A skipped frame whose full image follows.
    skipped: Option<FrameMeta>,
}

/// The probe of one session. Does not exist when no frame skips inference.
#[derive(Clone)]
pub(super) struct SkipProbe {
    handler: Arc<dyn FrameHandler>,
    /// The full image of skipped frames.
    full_image: FullImage,
    state: Arc<Mutex<ProbeState>>,
}

impl SkipProbe {
    /// The probe for this source; `None` when all frames go through inference.
    pub(super) fn from_context(context: &SourceContext) -> Option<Self> {
        let skipped_image = context.skipped_image?;
        // Without the branch for full images there are none.
        let full_image = match context.full_image {
            FullImage::None => FullImage::None,
            FullImage::SourceSize => skipped_image,
            // A frame whose image is wanted does not skip.
            FullImage::OnDemand => FullImage::None,
        };
        Some(Self {
            handler: Arc::clone(&context.handler),
            full_image,
            state: Arc::default(),
        })
    }

    /// Whether the probe is in the network's branch only, so that skipped frames keep their full image.
    pub(super) fn keeps_full_images(&self) -> bool {
        self.full_image == FullImage::SourceSize
    }

    /// Decides about each buffer at `pad`. The first of a session always passes: without it the pipeline would not start playing.
    pub(super) fn install(
        &self,
        pad: &gst::Pad,
        context: &SourceContext,
        caps_info: &Arc<Mutex<CapsInfo>>,
        stall_monitor: &Arc<StallMonitor>,
    ) {
        let (probe, id, counters) = (self.clone(), context.id, Arc::clone(&context.counters));
        let (caps_info, progress) = (Arc::clone(caps_info), Arc::clone(stall_monitor));
        pad.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            let previous = probe.state().skipped.take();
            if let Some(previous) = previous {
                probe.forward_skipped(previous, None, &progress);
            }
            let seq = counters.next_seq();
            if progress.frames() == 0 || !probe.handler.should_skip(id) {
                probe.state().seq = Some(seq);
                return gst::PadProbeReturn::Ok;
            }
            let meta = FrameMeta {
                source: id,
                seq,
                pts: info
                    .buffer()
                    .and_then(|buffer| buffer.pts())
                    .map(Into::into),
                captured_at: SystemTime::now(),
                received_at: Instant::now(),
                source_size: lock(&caps_info).size,
            };
            progress.count();
            if probe.keeps_full_images() {
                probe.state().skipped = Some(meta);
            } else {
                probe.forward_skipped(meta, None, &progress);
            }
            // With `Drop`, GStreamer would unreference the buffer that the binding has already taken.
            gst::PadProbeReturn::Handled
        });
    }

    /// Number of the frame that has just passed.
    pub(super) fn passed_seq(&self) -> Option<u64> {
        self.state().seq.take()
    }

    /// The skipped frame to which the current full image belongs, if any.
    pub(super) fn take_skipped(&self) -> Option<FrameMeta> {
        self.state().skipped.take()
    }

    /// Delivers a skipped frame. The handler may block the streaming thread.
    pub(super) fn forward_skipped(
        &self,
        meta: FrameMeta,
        full_image: Option<Image>,
        stall_monitor: &StallMonitor,
    ) {
        stall_monitor.delivering(|| self.handler.skipped(meta, full_image));
    }

    fn state(&self) -> MutexGuard<'_, ProbeState> {
        lock(&self.state)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock()
}
