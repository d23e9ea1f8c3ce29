// SPDX-License-Identifier: Apache-2.0
//! Holds encoded images of a live stream back that refer to images which were never received: until its first keyframe, and after a
//! loss. A decoder shows them grey or smeared. Called by [`decode`](super::decode), asked by [`session`](super::session).
//!
//! The limits are there because a stream with intra refresh has no keyframes, and bad images are more than none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use super::scaler::StallMonitor;

/// Maximum wait for the first keyframe. Cameras with smart codecs send one in 10 to 20 s.
const MAX_FIRST_WAIT: Duration = Duration::from_secs(25);
/// Maximum wait for a keyframe after a loss.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// What a parser says about an encoded image.
#[derive(Clone, Copy)]
struct Unit {
    /// It refers to earlier ones.
    is_delta: bool,
    /// Something before it is missing.
    follows_gap: bool,
    /// Presentation timestamp.
    pts: Option<gst::ClockTime>,
}

/// State of the gate.
enum Gate {
    /// Nothing passes before a keyframe, until the instant, which is set by the first image.
    Closed { until: Option<Instant> },
    /// A keyframe has passed. What is shown before it refers to images before it: `None` when that is over.
    Open { keyframe: Option<gst::ClockTime> },
    /// No keyframe came in time: all passes until the next one.
    Forced,
}

impl Gate {
    fn admit(&mut self, unit: Unit, now: Instant) -> bool {
        if !unit.is_delta {
            *self = Self::Open { keyframe: unit.pts };
            return true;
        }
        if unit.follows_gap && matches!(self, Self::Open { .. }) {
            *self = Self::Closed {
                until: Some(now + MAX_WAIT),
            };
        }
        match self {
            Self::Closed { until } => {
                let until = *until.get_or_insert(now + MAX_FIRST_WAIT);
                if now >= until {
                    *self = Self::Forced;
                }
                now >= until
            }
            Self::Open { keyframe } => {
                let is_leading = keyframe.is_some() && unit.pts < *keyframe;
                if !is_leading {
                    *keyframe = None;
                }
                !is_leading
            }
            Self::Forced => true,
        }
    }
}

/// The gate of one session.
pub(super) struct SyncGate {
    gate: Mutex<Gate>,
    stall_monitor: Arc<StallMonitor>,
    is_attached: AtomicBool,
    /// Encoded images that were held back.
    held: AtomicU64,
}

impl SyncGate {
    pub(super) fn new(stall_monitor: &Arc<StallMonitor>) -> Arc<Self> {
        Arc::new(Self {
            gate: Mutex::new(Gate::Closed { until: None }),
            stall_monitor: Arc::clone(stall_monitor),
            is_attached: AtomicBool::new(false),
            held: AtomicU64::new(0),
        })
    }

    /// Holds back what comes out of `parsed`, the pad of a parser; the first one that is given counts.
    pub(super) fn attach(self: &Arc<Self>, parsed: &gst::Pad) {
        if self.is_attached.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        parsed.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
            let Some(buffer) = info.buffer() else {
                return gst::PadProbeReturn::Ok;
            };
            let flags = buffer.flags();
            let unit = Unit {
                is_delta: flags.contains(gst::BufferFlags::DELTA_UNIT),
                follows_gap: flags
                    .intersects(gst::BufferFlags::DISCONT | gst::BufferFlags::CORRUPTED),
                pts: buffer.pts(),
            };
            // A header alone is not an image.
            if flags.contains(gst::BufferFlags::HEADER) && unit.pts.is_none() {
                return gst::PadProbeReturn::Ok;
            }
            let is_admitted = this.gate.lock().admit(unit, Instant::now());
            this.stall_monitor.mark_data(!is_admitted);
            match is_admitted {
                true => gst::PadProbeReturn::Ok,
                false => {
                    this.held.fetch_add(1, Ordering::Relaxed);
                    // With `Drop`, GStreamer would unreference the buffer that the binding has already taken.
                    gst::PadProbeReturn::Handled
                }
            }
        });
    }

    /// Whether data comes and all of it is held back.
    pub(super) fn is_waiting(&self) -> bool {
        self.held() > 0 && matches!(*self.gate.lock(), Gate::Closed { .. })
    }

    /// Encoded images that were held back so far.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the units pass: `K` is a keyframe, `p` a delta unit, `x` one after a gap, `b` one that is shown before the last keyframe;
    /// each is half a second after the one before it.
    fn passed(units: &str) -> String {
        let (mut gate, start) = (Gate::Closed { until: None }, Instant::now());
        let units = units.chars().enumerate();
        let passed = units.filter(|(index, kind)| {
            let shown = *index as u64 * 500 - if *kind == 'b' { 1100 } else { 0 };
            let unit = Unit {
                is_delta: *kind != 'K',
                follows_gap: *index == 0 || *kind == 'x',
                pts: Some(gst::ClockTime::from_mseconds(shown)),
            };
            gate.admit(unit, start + Duration::from_millis(*index as u64 * 500))
        });
        passed.map(|(_, kind)| kind).collect()
    }

    #[test]
    fn nothing_passes_before_a_keyframe_and_after_a_loss() {
        assert_eq!(passed("pppKppp"), "Kppp");
        assert_eq!(passed("KppxppKpp"), "KppKpp");
        assert_eq!(passed("Kpp"), "Kpp", "a stream that begins well");
    }

    #[test]
    fn images_shown_before_the_keyframe_that_opened_the_gate_are_held_back() {
        assert_eq!(passed("ppppKbbpbp"), "Kpbp", "only leading ones");
    }

    #[test]
    fn a_stream_without_keyframes_passes_after_a_limit() {
        let first = MAX_FIRST_WAIT.as_millis() as usize / 500;
        assert_eq!(passed(&"p".repeat(first + 3)), "ppp");
        let later = MAX_WAIT.as_millis() as usize / 500;
        let text = format!("Kx{}xpK", "p".repeat(later + 1));
        // And a further loss changes nothing.
        assert_eq!(passed(&text), "KppxpK");
    }
}
