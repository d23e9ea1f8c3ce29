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
use crate::SourceCounters;

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
    Closed {
        until: Option<Instant>,
        /// Something was lost; otherwise the stream has just begun.
        is_loss: bool,
    },
    /// A keyframe has passed. What is shown before it refers to images before it: `None` when that is over.
    Open { keyframe: Option<gst::ClockTime> },
    /// No keyframe came in time: all passes until the next one.
    Forced,
}

impl Gate {
    /// Before the first keyframe of a stream.
    const START: Self = Self::Closed {
        until: None,
        is_loss: false,
    };

    /// Whether what is held back is missing behind a loss.
    const fn is_behind_loss(&self) -> bool {
        matches!(self, Self::Closed { is_loss: true, .. })
    }

    fn admit(&mut self, unit: Unit, now: Instant) -> bool {
        if !unit.is_delta {
            *self = Self::Open { keyframe: unit.pts };
            return true;
        }
        if unit.follows_gap && matches!(self, Self::Open { .. }) {
            *self = Self::Closed {
                until: Some(now + MAX_WAIT),
                is_loss: true,
            };
        }
        match self {
            Self::Closed { until, .. } => {
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
    counters: Arc<SourceCounters>,
    is_attached: AtomicBool,
    /// Encoded images that were held back.
    held: AtomicU64,
}

impl SyncGate {
    /// Images that are missing behind a loss are counted in `counters`.
    pub(super) fn new(
        stall_monitor: &Arc<StallMonitor>,
        counters: &Arc<SourceCounters>,
    ) -> Arc<Self> {
        Arc::new(Self {
            gate: Mutex::new(Gate::START),
            stall_monitor: Arc::clone(stall_monitor),
            counters: Arc::clone(counters),
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
            let mut gate = this.gate.lock();
            let is_admitted = gate.admit(unit, Instant::now());
            if !is_admitted && gate.is_behind_loss() {
                this.counters.add_behind_loss();
            }
            drop(gate);
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
        passed_and_lost(units).0
    }

    /// The same, and the number of those that are missing behind a loss.
    fn passed_and_lost(units: &str) -> (String, usize) {
        let (mut gate, start, mut lost) = (Gate::START, Instant::now(), 0);
        let units = units.chars().enumerate();
        let passed = units.filter(|(index, kind)| {
            let shown = *index as u64 * 500 - if *kind == 'b' { 1100 } else { 0 };
            let unit = Unit {
                is_delta: *kind != 'K',
                follows_gap: *index == 0 || *kind == 'x',
                pts: Some(gst::ClockTime::from_mseconds(shown)),
            };
            let is_admitted = gate.admit(unit, start + Duration::from_millis(*index as u64 * 500));
            lost += usize::from(!is_admitted && gate.is_behind_loss());
            is_admitted
        });
        (passed.map(|(_, kind)| kind).collect(), lost)
    }

    #[test]
    fn images_behind_a_loss_are_counted_and_those_before_the_first_keyframe_are_not() {
        assert_eq!(passed_and_lost("ppKppxppKpp"), ("KppKpp".to_owned(), 3));
        assert_eq!(passed_and_lost("ppppKbbpbp"), ("Kpbp".to_owned(), 0));
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
