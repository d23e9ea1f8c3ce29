// SPDX-License-Identifier: Apache-2.0
//! Dependencies between stages: jetwatch's own stages, the time that each took and waited, and the critical path through them.
//!
//! Who waits for whom is followed from stage to stage, which ends at the one that limits the pipeline.
//!
//! The path is walked backwards from the last result; see `walk`. A stage that fills the path is the one to make
//! faster; one that is not on it can be as slow as it is.

mod steps;
mod walk;

use foldhash::HashMap;
use jetwatch_telemetry::{Stage, thread_names};

use super::capture::{Capture, ThreadIndex};
use super::gpu_projection::{Nesting, Projected};
use super::stages::{DETECTOR_STAGES, Group, SOURCE_STAGES, TRACK_STAGES, limit_beside};
use super::summary_stats::share_of;
use super::table::Table;

use self::steps::{Step, Steps};
use self::walk::Walk;

/// Times of one stage.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StageTimes {
    /// Threads that ran it.
    pub threads: usize,
    /// Number of its ranges.
    pub ranges: u64,
    /// Sum of their times, in ns.
    pub total_ns: i64,
    /// Their share of the time of all threads that ran it, 0 to 1.
    pub share: f64,
    /// Time in which its threads had nothing to do before one of its ranges, in ns. For stages that are waits themselves, their own.
    pub waited_ns: i64,
    /// Its part of the critical path, in ns.
    pub critical_ns: i64,
    /// Waiting before it on the critical path, in ns.
    pub critical_wait_ns: i64,
    /// Time of the GPU that its ranges made, from first begin to last end each, in ns.
    pub gpu_ns: i64,
    /// Mean time from an image's entry into its elements to its exit, in ns; `None` where it has no elements.
    pub stay_ns: Option<f64>,
}

/// Where the images of a capture come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum InputKind {
    /// Live sources only.
    Camera,
    /// Files only.
    File,
    /// Both, or not recorded.
    #[default]
    Unknown,
}

impl InputKind {
    /// Of so many cameras and files among `all` sources.
    pub(crate) fn new(cameras: usize, files: usize, all: usize) -> Self {
        match all {
            0 => Self::Unknown,
            all if all == cameras => Self::Camera,
            all if all == files => Self::File,
            _ => Self::Unknown,
        }
    }

    /// Whether images that do not come are those that a decoder in hardware has not decoded yet: a file has its next one at once.
    pub(crate) fn waits_for_decoder(self, decodes_in_hardware: bool) -> bool {
        self == Self::File && decodes_in_hardware
    }
}

/// All recorded stages, in the order of a frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CriticalPath {
    /// One entry per stage.
    pub stages: Vec<(Stage, StageTimes)>,
    /// From the first begin to the last end of a stage, in ns, after the warm-up.
    pub span: (i64, i64),
    /// Length of the critical path, in ns.
    pub critical_ns: i64,
    /// Length of the warm-up that is left out, in ns; zero where none is.
    pub warmup_ns: i64,
    /// Where the images come from.
    pub input: InputKind,
    /// The path, the latest part first.
    pub segments: Vec<Segment>,
}

/// A part of the critical path: a time of one thread, in ns, at work or waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The thread.
    pub thread: ThreadIndex,
    /// Begin.
    pub start: i64,
    /// End.
    pub end: i64,
}

/// Stages with which a path may end, the best first: results, and what is last where there are none.
const ENDS: [&[Stage]; 3] = [
    &TRACK_STAGES,
    &DETECTOR_STAGES,
    &[
        Stage::VideoDecode,
        Stage::Scale,
        Stage::Source,
        Stage::Enqueue,
        Stage::Batch,
        Stage::SendResults,
    ],
];

impl CriticalPath {
    /// Of a capture's ranges in jetwatch's domain; without stages where there are none.
    pub(crate) fn new(capture: &Capture, nesting: &Nesting, projections: &[Projected]) -> Self {
        let steps = Steps::new(capture, nesting);
        let Some((from, until)) = steps.span() else {
            return Self::default();
        };
        let mut times = totals(&steps, from);
        add_stays(capture, &mut times);
        for projected in projections {
            let range = &capture.ranges[projected.range as usize];
            if let Some(times) = capture.stage(range).and_then(|stage| times.get_mut(&stage)) {
                times.gpu_ns += projected.duration();
            }
        }
        let span = (until - from).max(1) as f64;
        for times in times.values_mut() {
            times.share = times.total_ns as f64 / (span * times.threads.max(1) as f64);
        }
        let is_recorded =
            |stages: &&&'static [Stage]| stages.iter().any(|stage| times.contains_key(stage));
        let mut segments = Vec::new();
        if let Some(stages) = ENDS.iter().find(is_recorded) {
            segments = Walk::new(&steps, &mut times).walk_back_from_last(stages);
        }
        let mut path = Self::from_times(&times);
        if let Some(stages) = limit_beside(path.limit(), |stage| path.share(stage)) {
            // Such a thread is always at work: the path does not leave it.
            for (stage, times) in &mut times {
                let is_own = stages.contains(stage);
                let own = times.total_ns / times.threads.max(1) as i64;
                times.critical_ns = if is_own { own } else { 0 };
                times.critical_wait_ns = 0;
            }
            path = Self::from_times(&times);
            segments = steps.busiest_thread(stages);
        }
        let mut path = Self {
            segments,
            span: (from, until),
            warmup_ns: steps.warmup_ns,
            input: input_kind(&steps),
            ..path
        };
        path.charge_hardware_decoder();
        path
    }

    /// A file has its next image at once: where a decoder in hardware stands before the threads of its images, they wait for it.
    fn charge_hardware_decoder(&mut self) {
        if !self.input.waits_for_decoder(self.decodes_in_hardware()) {
            return;
        }
        let mut moved = 0;
        // In the order of a frame, the input comes before the decoder.
        for (stage, times) in &mut self.stages {
            match stage {
                Stage::Input => moved = std::mem::take(&mut times.critical_ns),
                Stage::VideoDecode => times.critical_ns += moved,
                _ => {}
            }
        }
    }

    /// Whether images are decoded in hardware: they stay in the decoder, and no thread works on them.
    pub(crate) fn decodes_in_hardware(&self) -> bool {
        let decode = self.stage(Stage::VideoDecode);
        decode.is_some_and(|times| times.threads == 0 && times.stay_ns.is_some())
    }

    fn from_times(times: &HashMap<Stage, StageTimes>) -> Self {
        let found = |stage| Some((stage, times.get(&stage)?.clone()));
        let stages: Vec<(Stage, StageTimes)> = Stage::ALL.into_iter().filter_map(found).collect();
        let on_path = |(_, it): &(Stage, StageTimes)| it.critical_ns + it.critical_wait_ns;
        Self {
            critical_ns: stages.iter().map(on_path).sum(),
            stages,
            ..Self::default()
        }
    }

    /// The stage that took most of the critical path.
    pub(crate) fn limit(&self) -> Option<Stage> {
        let stages = self.stages.iter().filter(|(_, it)| it.critical_ns > 0);
        Some(stages.max_by_key(|(_, it)| it.critical_ns)?.0)
    }

    /// The times of a stage, if it was recorded.
    pub(crate) fn stage(&self, stage: Stage) -> Option<&StageTimes> {
        let mut stages = self.stages.iter();
        Some(&stages.find(|(own, _)| *own == stage)?.1)
    }

    /// Share of its threads' time that a stage took, 0 to 1; zero if it was not recorded.
    pub(crate) fn share(&self, stage: Stage) -> f64 {
        self.stage(stage).map_or(0.0, |times| times.share)
    }

    /// Share of the critical path that a stage took, 0 to 1.
    pub(crate) fn critical_share(&self, stage: Stage) -> f64 {
        let own = self.stage(stage).map_or(0, |times| times.critical_ns);
        own as f64 / (self.critical_ns as f64).max(1.0)
    }

    /// The stage that `stage` waits for; `None` for the one that limits the pipeline, and where it was not recorded.
    ///
    /// A thread that runs the limiting stage is at work there. Another one waits for frames or for room, whichever takes longer.
    pub(crate) fn waits_for_stage(&self, stage: Stage) -> Option<Stage> {
        let limit = self.limit();
        if limit == Some(stage) {
            return None;
        }
        let limit_in = |wanted| limit.filter(|limit| Group::of(*limit) == wanted);
        match stage {
            Stage::Input => {
                let is_limit = limit == Some(Stage::VideoDecode);
                (is_limit && self.decodes_in_hardware()).then_some(Stage::VideoDecode)
            }
            Stage::VideoDecode | Stage::Scale | Stage::Source => {
                limit_in(Group::Source).or_else(|| self.longest(&[Stage::Input, Stage::Enqueue]))
            }
            Stage::Enqueue => limit_in(Group::Detector)
                .or_else(|| {
                    limit_in(Group::Track).and_then(|_| self.longest(&[Stage::SendResults]))
                })
                .or_else(|| self.longest(&DETECTOR_STAGES)),
            Stage::Batch => limit_in(Group::Source).or_else(|| self.longest(&SOURCE_STAGES)),
            Stage::Tensor | Stage::Infer | Stage::Decode => limit_in(Group::Detector)
                .or_else(|| self.longest(&[Stage::Batch, Stage::SendResults])),
            Stage::SendResults => limit_in(Group::Track).or_else(|| self.longest(&TRACK_STAGES)),
            Stage::Track | Stage::Publish => limit_in(Group::Track)
                .or_else(|| limit_in(Group::Detector))
                .or_else(|| self.longest(&[Stage::Batch])),
            Stage::Secondary => Some(Stage::SecondaryWait),
            Stage::SecondaryWait | Stage::Render => Some(Stage::Track),
            Stage::VideoDecodeStay
            | Stage::ScaleStay
            | Stage::Encode
            | Stage::GpuCopyIn
            | Stage::GpuTensor
            | Stage::GpuNetwork
            | Stage::GpuCopyOut => None,
        }
    }

    /// What a stage waits for, as text.
    pub(crate) fn waits_for(&self, stage: Stage) -> &'static str {
        if let Some(waited) = self.waits_for_stage(stage) {
            return waited.name();
        }
        match stage {
            Stage::Input => match self.input {
                InputKind::Camera => "the next image of the camera",
                InputKind::File => "the next image of the file",
                InputKind::Unknown => "the next image",
            },
            _ if self.limit() == Some(stage) => "nothing: it is the limit",
            Stage::Encode => "the encoder",
            _ if Group::of(stage) == Group::Detector => "the GPU",
            _ => "-",
        }
    }

    /// The recorded stage with the longest time, by the time of each thread.
    fn longest(&self, stages: &[Stage]) -> Option<Stage> {
        let recorded = self.stages.iter().filter(|(own, _)| stages.contains(own));
        let longest = recorded.max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share));
        Some(longest?.0)
    }

    /// As a table.
    pub(crate) fn table(&self) -> Table {
        // Where no GPU was traced, its time is unknown.
        let has_gpu = self.stages.iter().any(|(_, it)| it.gpu_ns > 0);
        let title = match self.warmup_ns {
            0 => "Stages and what they wait for".to_owned(),
            ns => format!(
                "Stages and what they wait for, without a warm-up of {:.0} ms",
                ns as f64 / 1e6
            ),
        };
        let of_path = |ns: i64| share_of(ns, self.critical_ns);
        Table::of("stages", title, &self.stages)
            .plain("Stage", |(stage, _)| stage.name())
            .plain("Threads", |(_, it)| it.threads)
            .plain("Instances", |(_, it)| it.ranges)
            .ns("Total Time", |(_, it)| it.total_ns)
            .percent("Share of Threads", |(_, it)| it.share * 100.0)
            .ns("Avg", |(_, it)| {
                it.total_ns as f64 / it.ranges.max(1) as f64
            })
            .ns("Stay Avg", |(_, it)| it.stay_ns)
            .ns("GPU Time", |(_, it)| has_gpu.then_some(it.gpu_ns))
            .ns("Idle Before", |(_, it)| it.waited_ns)
            .plain("Waits For", |(stage, _)| self.waits_for(*stage))
            .percent("Critical Path", |(_, it)| of_path(it.critical_ns))
            .percent("Waiting on Path", |(_, it)| of_path(it.critical_wait_ns))
            .build()
    }
}

/// Sums of all stages, and of the time between the stages of sources.
fn totals(steps: &Steps<'_>, from: i64) -> HashMap<Stage, StageTimes> {
    let mut times: HashMap<Stage, StageTimes> = HashMap::default();
    for thread in &steps.threads {
        let mut before = from;
        let mut met: Vec<Stage> = Vec::new();
        // Time before the first image and after the last one is not waited.
        let mut input = (0, 0);
        let mut is_first = true;
        for step in steps.of_thread(thread) {
            let times = times.entry(step.stage).or_default();
            if !met.contains(&step.stage) {
                met.push(step.stage);
                times.threads += 1;
            }
            let gap = (step.start - before).max(0);
            times.ranges += 1;
            times.total_ns += step.end - step.start;
            times.waited_ns += match step.stage.is_wait() {
                true => step.end - step.start,
                false => gap,
            };
            if Group::of(step.stage) == Group::Source && !is_first && gap > 0 {
                input.0 += 1;
                input.1 += gap;
            }
            is_first = false;
            before = before.max(step.end);
        }
        if input.0 > 0 {
            let times = times.entry(Stage::Input).or_default();
            times.threads += 1;
            times.ranges += input.0;
            times.total_ns += input.1;
            times.waited_ns += input.1;
        }
    }
    times
}

/// Adds the stay of images in the elements of decoding and scaling.
fn add_stays(capture: &Capture, times: &mut HashMap<Stage, StageTimes>) {
    let mut sums: HashMap<Stage, (u64, i64)> = HashMap::default();
    for range in &capture.ranges {
        let work = match capture.stage(range) {
            Some(Stage::VideoDecodeStay) => Stage::VideoDecode,
            Some(Stage::ScaleStay) => Stage::Scale,
            _ => continue,
        };
        let (count, sum) = sums.entry(work).or_default();
        *count += 1;
        *sum += range.duration();
    }
    for (stage, (count, sum)) in sums {
        times.entry(stage).or_default().stay_ns = Some(sum as f64 / count as f64);
    }
}

/// Where the images come from, by the names of the threads that bring them.
fn input_kind(steps: &Steps<'_>) -> InputKind {
    let brings = |step: Step| matches!(step.stage, Stage::Source | Stage::Enqueue);
    let threads = steps.threads.iter();
    let sources = threads.filter(|thread| steps.of_thread(thread).any(brings));
    let names: Vec<&str> = sources.map(|thread| steps.thread_name(thread)).collect();
    let count = |is: fn(&str) -> bool| names.iter().filter(|name| is(name)).count();
    let [cameras, files] = [thread_names::is_camera, thread_names::is_file].map(count);
    InputKind::new(cameras, files, names.len())
}
