//! Where a source's frames are told apart before they are scaled: those that skip the network go no farther than here.
//!
//! ```text
//!   entry ─► gate ─► steps that scale ─► sink                  without views, a frame that skips is dropped before all work
//!   entry ─► fork ─┬─► gate ─► steps that scale ─► sink
//!                  └─► view-entry ─► … ─► view-sink            with them, its view still comes, and goes on without the rest
//! ```
//!
//! All of it is on the streaming thread, without a queue: what passes the gate is the next at the sink.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;

use crate::{Skipping, SourceContext, ViewWish};
use jetwatch_types::{Crop, FrameMeta, Picture, Size};

use super::scale::Progress;

/// What the newest caps say of a source's pictures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// Size of the whole picture.
    pub(super) size: Size,
    /// The part that is scaled; `None`: all of it.
    pub(super) crop: Option<Crop>,
}

impl Shown {
    /// Nothing has come yet.
    pub(super) fn nothing() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            size: Size::new(1, 1),
            crop: None,
        }))
    }
}

/// What the gate tells the sinks of the frame that is on its way.
#[derive(Default)]
pub(super) struct Passage {
    /// Number of the frame that passed.
    seq: Option<u64>,
    /// A frame that did not pass, and whose view comes.
    carried: Option<FrameMeta>,
}

/// The gate of one session; without frames that skip, it does not exist.
#[derive(Clone)]
pub(super) struct Gate {
    skipping: Skipping,
    passage: Arc<Mutex<Passage>>,
}

impl Gate {
    /// For the frames of this source; `None` where all of them go through the network.
    pub(super) fn of(context: &SourceContext) -> Option<Self> {
        let skipping = context.skipping.clone()?;
        // Without the branch for views there are none.
        let view = match context.view {
            ViewWish::Nothing => ViewWish::Nothing,
            ViewWish::SourceSize => skipping.view,
        };
        Some(Self {
            skipping: Skipping { view, ..skipping },
            passage: Arc::default(),
        })
    }

    /// Whether it stands before the network's branch alone.
    pub(super) fn leaves_views(&self) -> bool {
        self.skipping.view == ViewWish::SourceSize
    }

    /// Looks at each buffer that comes through `pad`. The first of a session always passes: without it nothing would play.
    pub(super) fn stand_at(
        &self,
        pad: &gst::Pad,
        context: &SourceContext,
        shown: &Arc<Mutex<Shown>>,
        progress: &Arc<Progress>,
    ) {
        let (gate, id, counters) = (self.clone(), context.id, Arc::clone(&context.counters));
        let (shown, progress) = (Arc::clone(shown), Arc::clone(progress));
        pad.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            let late = gate.passage().carried.take();
            if let Some(late) = late {
                gate.hand_on(late, None, &progress);
            }
            let seq = counters.next_seq();
            if progress.frames() == 0 || !(gate.skipping.skips)(id) {
                gate.passage().seq = Some(seq);
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
                entered_at: Instant::now(),
                source_size: lock(&shown).size,
            };
            progress.count();
            if gate.leaves_views() {
                gate.passage().carried = Some(meta);
            } else {
                gate.hand_on(meta, None, &progress);
            }
            // With `Drop`, the core would unreference what the binding has taken out.
            gst::PadProbeReturn::Handled
        });
    }

    /// Number of the frame that has just passed.
    pub(super) fn passed(&self) -> Option<u64> {
        self.passage().seq.take()
    }

    /// The frame whose view has just come, if it did not pass.
    pub(super) fn carried(&self) -> Option<FrameMeta> {
        self.passage().carried.take()
    }

    /// Hands on a frame that did not pass. Whoever takes it may make the streaming thread wait.
    pub(super) fn hand_on(&self, meta: FrameMeta, view: Option<Picture>, progress: &Progress) {
        progress.while_delivering(|| (self.skipping.carry)(meta, view));
    }

    fn passage(&self) -> MutexGuard<'_, Passage> {
        lock(&self.passage)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
