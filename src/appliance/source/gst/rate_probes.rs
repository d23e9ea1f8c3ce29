// SPDX-License-Identifier: Apache-2.0
//! Pad probes before scaling that limit or set the rate of a source: `max_fps`, `playback_fps`. Called by [`scaler`](super::scaler).

use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use crate::pacer::{LATE, Pacer};
use crate::rate_limit::RateLimiter;
use crate::{SourceContext, SourceCounters};

use super::scaler::StallMonitor;

/// What [`limit_rate`] reads the time of a frame from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameTime {
    /// Its timestamp, so that a file gives the same frames each time.
    Timestamp,
    /// Its arrival: timestamps of cameras stand still, jump and run at rates of their own.
    Arrival,
}

/// Drops frames above the maximum rate before they are scaled. Dropped frames still count as progress.
pub(super) fn limit_rate(
    input: &gst::Pad,
    limiter: RateLimiter,
    frame_time: FrameTime,
    counters: &Arc<SourceCounters>,
    progress: &Arc<StallMonitor>,
) {
    let (limiter, progress) = (Mutex::new(limiter), Arc::clone(progress));
    let counters = Arc::clone(counters);
    input.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        // Media without timestamps are timed by arrival.
        let time = info.buffer().and_then(|buffer| buffer.pts());
        let time = time.filter(|_| frame_time == FrameTime::Timestamp);
        let time = time.map_or_else(|| progress.elapsed(), Into::into);
        if limiter.lock().admit(time) {
            return gst::PadProbeReturn::Ok;
        }
        progress.mark_alive();
        counters.add_above_max_fps();
        // With `Drop`, GStreamer would unreference the buffer that the binding has already taken.
        gst::PadProbeReturn::Handled
    });
}

/// Holds each frame until it is due, before it is scaled. The decoder works ahead by what its queues hold.
pub(super) fn pace(
    input: &gst::Pad,
    pacer: Pacer,
    context: &SourceContext,
    progress: &Arc<StallMonitor>,
) {
    let (pacer, progress) = (Mutex::new(pacer), Arc::clone(progress));
    let (stop, counters) = (context.stop.clone(), Arc::clone(&context.counters));
    input.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        let time = info.buffer().and_then(|buffer| buffer.pts());
        let now = progress.elapsed();
        let mut pacer = pacer.lock();
        let due = pacer.due(time.map(Into::into), now);
        if now > due + LATE {
            counters.add_late(pacer.skip_to(now));
        } else if due > now {
            // A stop ends the wait; the frame passes and is refused further down.
            let _ = progress.delivering(|| stop.wait(due - now));
        }
        gst::PadProbeReturn::Ok
    });
}
