//! Where a source's frames are told apart before they are scaled: those that skip the network go no farther than here.
//!
//! ```text
//!   entry ─► gate ─► steps that scale ─► sink                  without views, a frame that skips is dropped before all work
//!   entry ─► fork ─┬─► gate ─► steps that scale ─► sink
//!                  └─► view-entry ─► … ─► view-sink            with them, its view still comes, and goes on without the rest
//! ```
//!
//! All of it is on the streaming thread, without a queue: what passes the gate is the next at the sink.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::{Mutex, MutexGuard};

use crate::{FrameHandler, FullImage, SourceContext};
use jetwatch_types::{Crop, FrameMeta, Image, Size};

use super::scaler::StallMonitor;

/// What the newest caps say of a source's pictures.
#[derive(Debug, Clone, Copy)]
pub(super) struct CapsInfo {
    /// Size of the whole picture.
    pub(super) size: Size,
    /// The part that is scaled; `None`: all of it.
    pub(super) crop: Option<Crop>,
}

impl CapsInfo {
    /// Nothing has come yet.
    pub(super) fn empty() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            size: Size::new(1, 1),
            crop: None,
        }))
    }
}

/// What the gate tells the sinks of the frame that is on its way.
#[derive(Default)]
pub(super) struct ProbeState {
    /// Number of the frame that passed.
    seq: Option<u64>,
    /// A frame that did not pass, and whose view comes.
    skipped: Option<FrameMeta>,
}

/// The gate of one session; without frames that skip, it does not exist.
#[derive(Clone)]
pub(super) struct SkipProbe {
    handler: Arc<dyn FrameHandler>,
    /// The full image that skipped frames have.
    full_image: FullImage,
    state: Arc<Mutex<ProbeState>>,
}

impl SkipProbe {
    /// For the frames of this source; `None` where all of them go through the network.
    pub(super) fn from_context(context: &SourceContext) -> Option<Self> {
        let skipped_image = context.skipped_image?;
        // Without the branch for views there are none.
        let full_image = match context.full_image {
            FullImage::None => FullImage::None,
            FullImage::SourceSize => skipped_image,
        };
        Some(Self {
            handler: Arc::clone(&context.handler),
            full_image,
            state: Arc::default(),
        })
    }

    /// Whether it stands before the network's branch alone.
    pub(super) fn keeps_full_images(&self) -> bool {
        self.full_image == FullImage::SourceSize
    }

    /// Looks at each buffer that comes through `pad`. The first of a session always passes: without it nothing would play.
    pub(super) fn install(
        &self,
        pad: &gst::Pad,
        context: &SourceContext,
        caps_info: &Arc<Mutex<CapsInfo>>,
        stall_monitor: &Arc<StallMonitor>,
    ) {
        let (gate, id, counters) = (self.clone(), context.id, Arc::clone(&context.counters));
        let (shown, progress) = (Arc::clone(caps_info), Arc::clone(stall_monitor));
        pad.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            let late = gate.state().skipped.take();
            if let Some(late) = late {
                gate.forward_skipped(late, None, &progress);
            }
            let seq = counters.next_seq();
            if progress.frames() == 0 || !gate.handler.should_skip(id) {
                gate.state().seq = Some(seq);
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
                source_size: lock(&shown).size,
            };
            progress.count();
            if gate.keeps_full_images() {
                gate.state().skipped = Some(meta);
            } else {
                gate.forward_skipped(meta, None, &progress);
            }
            // With `Drop`, the core would unreference what the binding has taken out.
            gst::PadProbeReturn::Handled
        });
    }

    /// Number of the frame that has just passed.
    pub(super) fn passed_seq(&self) -> Option<u64> {
        self.state().seq.take()
    }

    /// The frame whose view has just come, if it did not pass.
    pub(super) fn take_skipped(&self) -> Option<FrameMeta> {
        self.state().skipped.take()
    }

    /// Hands on a frame that did not pass. Whoever takes it may make the streaming thread wait.
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
