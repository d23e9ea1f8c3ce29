//! Time of images in the elements of a running pipeline: in its video decoder, and in scaling and conversion.
//!
//! Decoders and Jetson converters work on several images at once, on their own threads, and decoders reorder them: outputs are
//! matched by timestamp. Images without one are not timed.

use std::collections::VecDeque;
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use super::thread_names;
use crate::plan::{PlanStep, StepKind};
use jetwatch_telemetry::{Recorder, Span, Stage};

/// More images than any decoder holds. Older entries were dropped by the element; their spans are discarded.
const MAX_IN_FLIGHT: usize = 64;

/// Starts timing the elements of `source` that decode and scale, and names their threads.
pub(super) fn attach(found: &[(gst::Element, Vec<PlanStep>)], source: &str, recorder: &Recorder) {
    let does = |steps: &[PlanStep], kinds: &[StepKind]| {
        let mut steps = steps.iter();
        steps.any(|step| kinds.contains(&step.kind))
    };
    let all = |kinds: &'static [StepKind]| {
        let all = found.iter().filter(move |(_, steps)| does(steps, kinds));
        all.map(|(element, _)| element)
    };
    if let Some(decoder) = all(&[StepKind::Decode]).next_back() {
        time((decoder, decoder), Stage::VideoDecode, source, recorder);
    }
    let mut scalers = all(&[StepKind::Scale, StepKind::Color, StepKind::Copy]);
    if let Some(first) = scalers.next() {
        let last = scalers.next_back().unwrap_or(first);
        time((first, last), Stage::Scale, source, recorder);
    }
}

/// Times buffers from the input of `first` to the output of `last`.
fn time(
    (first, last): (&gst::Element, &gst::Element),
    stage: Stage,
    source: &str,
    recorder: &Recorder,
) {
    // An element that generates images has no sink pad.
    let (Some(entry), Some(exit)) = (first.static_pad("sink"), last.static_pad("src")) else {
        return;
    };
    let in_flight: Arc<Mutex<VecDeque<(gst::ClockTime, Span)>>> = Arc::default();
    let (in_flight_at_entry, entry_recorder) = (Arc::clone(&in_flight), recorder.clone());
    let source = source.to_owned();
    entry.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        thread_names::name_by_stage(&source, stage);
        if let Some(pts) = info.buffer().and_then(|buffer| buffer.pts()) {
            let mut spans = in_flight_at_entry.lock();
            if spans.len() == MAX_IN_FLIGHT {
                spans.pop_front();
            }
            spans.push_back((pts, entry_recorder.span(stage, pts.mseconds())));
        }
        gst::PadProbeReturn::Ok
    });
    let exit_recorder = recorder.clone();
    exit.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        if let Some(pts) = info.buffer().and_then(|buffer| buffer.pts()) {
            let mut spans = in_flight.lock();
            // The newest with that timestamp: a file that restarted may have left older ones.
            let at = spans
                .iter()
                .rposition(|(pts_at_entry, _)| *pts_at_entry == pts);
            if let Some((_, span)) = at.and_then(|at| spans.remove(at)) {
                drop(spans);
                exit_recorder.end(span);
            }
        }
        gst::PadProbeReturn::Ok
    });
}
