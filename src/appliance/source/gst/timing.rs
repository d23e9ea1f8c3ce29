// SPDX-License-Identifier: Apache-2.0
//! Times in the elements of a running pipeline, in its video decoder, and in scaling and conversion: how long threads are at
//! work there, and how long images stay.
//!
//! Decoders and Jetson converters work on several images at once, on their own threads, and decoders reorder them: for their stay,
//! outputs are matched by timestamp. Images without one are not timed. A stay contains waits for what comes behind.

use std::collections::VecDeque;
use std::sync::Arc;

use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use super::diagnostics::SessionDiagnostics;
use super::push_tracer::{WatchGuard, watch, watch_threads};
use super::thread_names;
use crate::plan::{PlanStep, StepKind};
use jetwatch_platform::VideoUnit;
use jetwatch_telemetry::{Recorder, Span, Stage};

/// More images than any decoder holds. Older entries were dropped by the element; their spans are discarded.
const MAX_IN_FLIGHT: usize = 64;

/// Starts timing the elements of `source` that decode and scale, and names their threads; the work of threads until the guards are
/// dropped, with that of a launch line's own elements. Units of hardware have no such work: their load stands in the sensors of the
/// machine. Where they do all, and the source is not a launch line, no push is traced, which would cost each push of the process a look
/// into GStreamer's table of tracers.
pub(super) fn attach(
    found: &[(gst::Element, Vec<PlanStep>)],
    source: &str,
    is_launch: bool,
    diagnostics: &SessionDiagnostics,
    recorder: &Recorder,
) -> Vec<WatchGuard> {
    let does = |steps: &[PlanStep], kinds: &[StepKind]| {
        let mut steps = steps.iter();
        steps.any(|step| kinds.contains(&step.kind))
    };
    let all =
        |kinds: &'static [StepKind]| found.iter().filter(move |(_, steps)| does(steps, kinds));
    let is_on_cpu = |(_, steps): &(gst::Element, Vec<PlanStep>)| {
        let mut steps = steps.iter();
        steps.any(|step| step.unit == VideoUnit::Cpu)
    };
    let mut guards = Vec::new();
    if is_launch {
        let elements = found.iter().map(|(element, _)| element);
        guards.push(watch_threads(elements, &diagnostics.launch_work));
    }
    if let Some((decoder, steps)) = all(&[StepKind::Decode]).next_back() {
        let stages = [Stage::VideoDecode, Stage::VideoDecodeStay];
        time_stay((decoder, decoder), stages, source, recorder);
        if steps.iter().all(|step| step.unit == VideoUnit::Cpu) {
            let (threads, of_codec) = (Arc::clone(&diagnostics.codec_threads), recorder.clone());
            guards.extend(watch(
                decoder,
                decoder,
                Stage::VideoDecode,
                recorder,
                move || threads.add_to(&of_codec),
            ));
        }
    }
    const SCALERS: &[StepKind] = &[StepKind::Scale, StepKind::Color, StepKind::Copy];
    let mut scalers = all(SCALERS);
    if let Some((first, _)) = scalers.next() {
        let last = scalers.next_back().map_or(first, |(last, _)| last);
        let stages = [Stage::Scale, Stage::ScaleStay];
        time_stay((first, last), stages, source, recorder);
    }
    // A filter of a launch line may stand between two of them. It makes the images, as a decoder does.
    let is_filter =
        |(element, steps): &(gst::Element, Vec<PlanStep>)| steps.is_empty() && is_filter(element);
    let filters = found.iter().filter(|found| is_filter(found));
    guards.extend(
        filters
            .filter_map(|(filter, _)| watch(filter, filter, Stage::VideoDecode, recorder, || {})),
    );
    for group in found.split(is_filter) {
        let mut scalers = group.iter().filter(|(_, steps)| does(steps, SCALERS));
        let is_on_cpu = scalers.clone().any(is_on_cpu);
        if let Some((first, _)) = scalers.next().filter(|_| is_on_cpu) {
            let last = scalers.next_back().map_or(first, |(last, _)| last);
            guards.extend(watch(first, last, Stage::Scale, recorder, || {}));
        }
    }
    guards
}

/// Whether an element changes what images show, and neither their size nor their format.
fn is_filter(element: &gst::Element) -> bool {
    let class = element.factory().map(|factory| factory.klass().to_owned());
    class.is_some_and(|class| class.starts_with("Filter/Effect"))
}

/// Times the stay of buffers from the input of `first` to the output of `last`, and names the thread of the input.
fn time_stay(
    (first, last): (&gst::Element, &gst::Element),
    [work, stay]: [Stage; 2],
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
        thread_names::name_by_stage(&source, work);
        if let Some(pts) = info.buffer().and_then(|buffer| buffer.pts()) {
            let mut spans = in_flight_at_entry.lock();
            if spans.len() == MAX_IN_FLIGHT {
                spans.pop_front();
            }
            spans.push_back((pts, entry_recorder.span(stay, pts.mseconds())));
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
