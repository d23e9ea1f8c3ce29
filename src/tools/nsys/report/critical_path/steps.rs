// SPDX-License-Identifier: Apache-2.0
//! The ranges of jetwatch's stages as steps of its threads, in the order of time.

use jetwatch_telemetry::Stage;

use super::Segment;
use crate::report::capture::{Capture, ThreadIndex};
use crate::report::gpu_projection::Nesting;

/// Batches that a capture needs before its first ones are left out as warm-up.
const MIN_BATCHES: usize = 20;

/// One range of a stage that is in no other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) stage: Stage,
    /// Of the network, its frames.
    pub(super) payload: u32,
}

/// A step by its thread and its place there.
pub(super) type StepIndex = (u32, u32);

/// The steps of each thread in the order of time, as numbers of ranges: there are millions of them.
pub(super) struct Steps<'a> {
    capture: &'a Capture,
    pub(super) threads: Vec<Vec<u32>>,
    /// Length of the warm-up that is left out, in ns.
    pub(super) warmup_ns: i64,
}

impl<'a> Steps<'a> {
    /// Of a capture. Ranges in other stages are left out, those that belong to no thread, and the warm-up: what began before
    /// each detector had done its first batch.
    pub(super) fn new(capture: &'a Capture, nesting: &Nesting) -> Self {
        let mut threads: Vec<Vec<u32>> = vec![Vec::new(); capture.threads.len()];
        for at in &nesting.order {
            let range = &capture.ranges[*at as usize];
            if capture.stage(range).is_none_or(Stage::is_stay) {
                continue;
            }
            let steps = &mut threads[usize::from(range.thread)];
            let before = steps.last().map(|last| capture.ranges[*last as usize].end);
            if before.is_none_or(|end| end <= range.start) {
                steps.push(*at);
            }
        }
        threads.retain(|steps| !steps.is_empty());
        let mut steps = Self {
            capture,
            threads,
            warmup_ns: 0,
        };
        steps.leave_out_warmup();
        steps
    }

    fn leave_out_warmup(&mut self) {
        let first_end = |thread: &Vec<u32>| {
            let mut steps = self.of_thread(thread);
            Some(steps.find(|step| step.stage == Stage::Infer)?.end)
        };
        let batches = self.places(&[Stage::Infer]).count();
        let warm = self.threads.iter().filter_map(first_end).max();
        let (Some(warm), Some((from, until))) = (warm, self.span()) else {
            return;
        };
        if batches < MIN_BATCHES || warm - from > (until - from) / 2 {
            return;
        }
        let capture = self.capture;
        for thread in &mut self.threads {
            thread.retain(|range| capture.ranges[*range as usize].start >= warm);
        }
        self.threads.retain(|steps| !steps.is_empty());
        self.warmup_ns = warm - from;
    }

    /// First begin and last end, in ns; `None` without steps.
    pub(super) fn span(&self) -> Option<(i64, i64)> {
        let threads = self.threads.iter();
        let steps = threads.flat_map(|thread| self.of_thread(thread));
        let times = steps.map(|step| (step.start, step.end));
        times.reduce(|(from, until), (start, end)| (from.min(start), until.max(end)))
    }

    /// The step at a place.
    pub(super) fn at(&self, (thread, at): StepIndex) -> Step {
        self.step(self.threads[thread as usize][at as usize])
    }

    fn step(&self, range: u32) -> Step {
        let range = &self.capture.ranges[range as usize];
        Step {
            start: range.start,
            end: range.end,
            stage: self.capture.stage(range).expect("a step is in a stage"),
            payload: range.payload,
        }
    }

    /// The steps of a thread.
    pub(super) fn of_thread<'b>(&'b self, thread: &'b [u32]) -> impl Iterator<Item = Step> + 'b {
        thread.iter().map(|step| self.step(*step))
    }

    /// The places of all steps of these stages, with their steps.
    pub(super) fn places(
        &self,
        wanted: &'static [Stage],
    ) -> impl Iterator<Item = (Step, StepIndex)> {
        (0..).zip(&self.threads).flat_map(move |(thread, ranges)| {
            (0..)
                .zip(self.of_thread(ranges))
                .filter(|(_, step)| wanted.contains(&step.stage))
                .map(move |(at, step)| (step, (thread, at)))
        })
    }

    /// The number of a thread in the capture.
    pub(super) fn thread_index(&self, thread: u32) -> ThreadIndex {
        let range = self.threads[thread as usize][0];
        self.capture.ranges[range as usize].thread
    }

    /// The steps in these stages of the thread that spent most time in them, the latest first.
    pub(super) fn busiest_thread(&self, stages: &[Stage]) -> Vec<Segment> {
        let threads = (0..).zip(&self.threads).map(|(index, steps)| {
            let thread = self.thread_index(index);
            let own = self.of_thread(steps);
            let own = own.filter(|step| stages.contains(&step.stage));
            own.map(|Step { start, end, .. }| Segment { thread, start, end })
                .collect::<Vec<Segment>>()
        });
        let time = |segments: &Vec<Segment>| -> i64 {
            segments.iter().map(|part| part.end - part.start).sum()
        };
        let mut busiest = threads.max_by_key(time).unwrap_or_default();
        busiest.reverse();
        busiest
    }

    /// The name of the thread of these steps.
    pub(super) fn thread_name(&self, thread: &[u32]) -> &str {
        let range = &self.capture.ranges[thread[0] as usize];
        let name = &self.capture.thread(range.thread).name;
        name.as_deref().unwrap_or_default()
    }
}
