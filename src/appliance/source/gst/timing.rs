//! Time of images in the elements of a running pipeline: in its video decoder, and in scaling and conversion.
//!
//! Decoders and the Jetson's converters work on several pictures at once, on threads of their own, and decoders give them in
//! another order than they got them: what comes out is found by its time stamp. Pictures without one are not timed.

use std::collections::VecDeque;
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use crate::plan::{PlanStep, StepKind};
use jetwatch_telemetry::{Recorder, Span, Stage};

/// More pictures than any decoder holds. What waits longer was dropped, and its span with it.
const MAX_IN_FLIGHT: usize = 64;

/// Times the elements that were found to decode and to scale, from now on.
pub(super) fn attach(found: &[(gst::Element, Vec<PlanStep>)], recorder: &Recorder) {
    let does = |steps: &[PlanStep], kinds: &[StepKind]| {
        let mut steps = steps.iter();
        steps.any(|step| kinds.contains(&step.kind))
    };
    let all = |kinds: &'static [StepKind]| {
        let all = found.iter().filter(move |(_, steps)| does(steps, kinds));
        all.map(|(element, _)| element)
    };
    if let Some(decoder) = all(&[StepKind::Decode]).next_back() {
        time(decoder, decoder, Stage::VideoDecode, recorder);
    }
    let mut scalers = all(&[StepKind::Scale, StepKind::Color, StepKind::Copy]);
    if let Some(first) = scalers.next() {
        let last = scalers.next_back().unwrap_or(first);
        time(first, last, Stage::Scale, recorder);
    }
}

/// Times what enters `first` and leaves `final_step`.
fn time(first: &gst::Element, last: &gst::Element, stage: Stage, recorder: &Recorder) {
    // A source of pictures has no way in.
    let (Some(entry), Some(exit)) = (first.static_pad("sink"), last.static_pad("src")) else {
        return;
    };
    let in_flight: Arc<Mutex<VecDeque<(gst::ClockTime, Span)>>> = Arc::default();
    let (entering, begins) = (Arc::clone(&in_flight), recorder.clone());
    entry.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        if let Some(pts) = info.buffer().and_then(|buffer| buffer.pts()) {
            let mut inside = entering.lock();
            if inside.len() == MAX_IN_FLIGHT {
                inside.pop_front();
            }
            inside.push_back((pts, begins.span(stage, pts.mseconds())));
        }
        gst::PadProbeReturn::Ok
    });
    let ends = recorder.clone();
    exit.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        if let Some(pts) = info.buffer().and_then(|buffer| buffer.pts()) {
            let mut inside = in_flight.lock();
            // The newest of that time: a file that was started over may have left others behind.
            let at = inside.iter().rposition(|(entered, _)| *entered == pts);
            if let Some((_, span)) = at.and_then(|at| inside.remove(at)) {
                drop(inside);
                ends.end(span);
            }
        }
        gst::PadProbeReturn::Ok
    });
}
