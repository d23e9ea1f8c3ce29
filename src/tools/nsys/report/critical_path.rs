//! Dependencies between stages: jetwatch's own stages, the time that each took and waited, and the critical path through them.
//!
//! The path is walked backwards from the last thing that was finished. A step was released either by the step before it on
//! its own thread, or by what the stage before it handed over from another thread: whichever came last. What lies between
//! that and the step's begin is waiting. A stage that fills the path is the one to make faster; one that is not on it can be
//! as slow as it is.

use std::collections::HashMap;

use jetwatch_telemetry::Stage;

use super::capture::Capture;
use super::table::{Cell, Table, ns, percent, unitless};
use super::tables::AnalysisContext;

/// Times of one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageTimes {
    /// The stage.
    pub stage: Stage,
    /// Threads that ran it.
    pub threads: usize,
    /// Number of its ranges.
    pub ranges: u64,
    /// Sum of their times, in ns.
    pub total_ns: i64,
    /// Their share of the time of all threads that ran it, 0 to 1.
    pub share: f64,
    /// Time in which its threads had nothing to do before one of its ranges, in ns. For `batch` and `secondary_wait`, which are waits themselves, their own.
    pub waited_ns: i64,
    /// Its part of the critical path, in ns.
    pub critical_ns: i64,
    /// Waiting before it on the critical path, in ns.
    pub critical_wait_ns: i64,
    /// Time of the GPU that its ranges made, from first begin to last end each, in ns.
    pub gpu_ns: i64,
}

/// All recorded stages, in the order of a frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CriticalPath {
    /// One entry per stage.
    pub stages: Vec<StageTimes>,
    /// From the first begin to the last end of a stage, in ns.
    pub span: (i64, i64),
    /// Length of the critical path, in ns.
    pub critical_ns: i64,
}

/// One range of a stage that is in no other.
#[derive(Debug, Clone, Copy)]
struct PathStep {
    start: i64,
    end: i64,
    stage: Stage,
}

/// The steps of each thread in the order of time, as numbers of ranges: there are millions of them.
struct PathSteps<'a> {
    capture: &'a Capture,
    threads: Vec<Vec<(u32, Stage)>>,
}

impl PathSteps<'_> {
    fn step(&self, (range, stage): (u32, Stage)) -> PathStep {
        let range = &self.capture.ranges[range as usize];
        PathStep {
            start: range.start,
            end: range.end,
            stage,
        }
    }

    /// The steps of a thread.
    fn of_thread<'b>(&'b self, thread: &'b [(u32, Stage)]) -> impl Iterator<Item = PathStep> + 'b {
        thread.iter().map(|step| self.step(*step))
    }
}

impl CriticalPath {
    /// Of a capture's ranges in jetwatch's domain; without stages where there are none.
    #[must_use]
    pub fn from_capture(context: &AnalysisContext<'_>) -> Self {
        let capture = context.capture;
        let stage_of = stages_by_name(capture);
        let steps = steps(context, &stage_of);
        let all = || {
            steps
                .threads
                .iter()
                .flat_map(|thread| steps.of_thread(thread))
        };
        let Some(from) = all().map(|step| step.start).min() else {
            return Self::default();
        };
        let until = all().map(|step| step.end).max().unwrap_or(from);
        let span = (until - from).max(1);
        let mut times: HashMap<Stage, StageTimes> = HashMap::new();
        for thread in &steps.threads {
            let mut before = from;
            let mut met: Vec<Stage> = Vec::new();
            for step in steps.of_thread(thread) {
                let times = times.entry(step.stage).or_insert_with(|| StageTimes {
                    stage: step.stage,
                    threads: 0,
                    ranges: 0,
                    total_ns: 0,
                    share: 0.0,
                    waited_ns: 0,
                    critical_ns: 0,
                    critical_wait_ns: 0,
                    gpu_ns: 0,
                });
                if !met.contains(&step.stage) {
                    met.push(step.stage);
                    times.threads += 1;
                }
                times.ranges += 1;
                times.total_ns += step.end - step.start;
                times.waited_ns += if matches!(step.stage, Stage::Batch | Stage::SecondaryWait) {
                    step.end - step.start
                } else {
                    (step.start - before).max(0)
                };
                before = before.max(step.end);
            }
        }
        for projected in context.projections() {
            let range = &capture.ranges[projected.range as usize];
            if let Some(times) = stage_of
                .get(&range.name)
                .and_then(|stage| times.get_mut(stage))
            {
                times.gpu_ns += projected.end - projected.start;
            }
        }
        let mut critical_path = Self {
            stages: Vec::new(),
            span: (from, until),
            critical_ns: 0,
        };
        walk(&steps, &mut times);
        for stage in Stage::ALL {
            if let Some(mut times) = times.remove(&stage) {
                times.share = times.total_ns as f64 / (span as f64 * times.threads as f64);
                critical_path.critical_ns += times.critical_ns + times.critical_wait_ns;
                critical_path.stages.push(times);
            }
        }
        critical_path
    }

    /// The times of a stage, if it was recorded.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> Option<&StageTimes> {
        self.stages.iter().find(|times| times.stage == stage)
    }

    /// Share of its threads' time that a stage took, 0 to 1; zero if it was not recorded.
    #[must_use]
    pub fn share(&self, stage: Stage) -> f64 {
        self.stage(stage).map_or(0.0, |times| times.share)
    }

    /// Share of the critical path that a stage took, 0 to 1.
    #[must_use]
    pub fn critical_share(&self, stage: Stage) -> f64 {
        let own = self.stage(stage).map_or(0, |times| times.critical_ns);
        own as f64 / (self.critical_ns as f64).max(1.0)
    }

    /// As a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let columns = [
            unitless("Stage"),
            unitless("Threads"),
            unitless("Instances"),
            ns("Total Time"),
            percent("Of Its Threads"),
            ns("Avg"),
            ns("GPU Time"),
            ns("Waited"),
            unitless("Waits For"),
            percent("Critical Path"),
            percent("Critical Wait"),
        ];
        // Where no GPU was traced, its time is unknown.
        let has_gpu = self.stages.iter().any(|times| times.gpu_ns > 0);
        let mut table = Table::new("stages", "Stages and what they wait for", &columns);
        let of_path =
            |ns: i64| Cell::Decimal(ns as f64 * 100.0 / (self.critical_ns as f64).max(1.0));
        table.rows.extend(self.stages.iter().map(|times| {
            vec![
                times.stage.name().into(),
                (times.threads as u64).into(),
                times.ranges.into(),
                times.total_ns.into(),
                (times.share * 100.0).into(),
                (times.total_ns as f64 / times.ranges as f64).into(),
                has_gpu.then_some(times.gpu_ns).into(),
                times.waited_ns.into(),
                self.waited_for(times.stage).into(),
                of_path(times.critical_ns),
                of_path(times.critical_wait_ns),
            ]
        }));
        table
    }

    /// What a stage waits for, as text.
    #[must_use]
    pub fn waited_for(&self, stage: Stage) -> &'static str {
        /// Detectors that work this share of their time leave readers of files waiting.
        const FULL: f64 = 0.9;
        let working: f64 = DETECTOR_STAGES.iter().map(|stage| self.share(*stage)).sum();
        match stage {
            Stage::VideoDecode => "coded images",
            Stage::Scale => "video_decode",
            Stage::Source if working >= FULL => "detectors (a full queue)",
            Stage::Source => "images from outside",
            Stage::Batch => "source",
            Stage::Track => "detectors",
            Stage::Publish => "track",
            Stage::SecondaryWait | Stage::Render => "tracked objects",
            Stage::Secondary => "secondary_wait",
            Stage::Encode => "the encoder",
            Stage::Tensor => "batch",
            Stage::Infer => "tensor",
            Stage::Decode => "infer",
            Stage::GpuCopyIn | Stage::GpuTensor | Stage::GpuNetwork | Stage::GpuCopyOut => {
                "the GPU"
            }
        }
    }
}

/// Stages of a detector's thread except waits for frames.
pub(super) const DETECTOR_STAGES: [Stage; 3] = [Stage::Tensor, Stage::Infer, Stage::Decode];

/// Stages that frames wait for.
const PIPELINE_STAGES: [Stage; 7] = [
    Stage::Source,
    Stage::Batch,
    Stage::Tensor,
    Stage::Infer,
    Stage::Decode,
    Stage::Track,
    Stage::Publish,
];

/// Which names are those of stages.
pub(super) fn stages_by_name(capture: &Capture) -> HashMap<u32, Stage> {
    let names = (0..).zip(&capture.names);
    names
        .filter_map(|(number, name)| {
            let name = name.strip_prefix("jetwatch:")?;
            let stage = Stage::ALL.into_iter().find(|stage| stage.name() == name)?;
            Some((number, stage))
        })
        .collect()
}

/// The steps of a capture; ranges of stages in other stages are left out, and those that belong to no thread.
fn steps<'a>(context: &AnalysisContext<'a>, stage_of: &HashMap<u32, Stage>) -> PathSteps<'a> {
    let capture = context.capture;
    let mut threads: Vec<Vec<(u32, Stage)>> = vec![Vec::new(); capture.threads.len()];
    for at in &context.nesting().order {
        let range = &capture.ranges[*at as usize];
        let Some(stage) = stage_of.get(&range.name) else {
            continue;
        };
        if stage.is_in_elements() {
            continue;
        }
        let steps = &mut threads[usize::from(range.thread)];
        let before = steps
            .last()
            .map(|(last, _)| capture.ranges[*last as usize].end);
        if before.is_none_or(|end| end <= range.start) {
            steps.push((*at, *stage));
        }
    }
    threads.retain(|steps| !steps.is_empty());
    PathSteps { capture, threads }
}

/// A step by its thread and its place there.
type StepIndex = (u32, u32);

/// Steps of a stage by their ends.
type Ends = Vec<(i64, StepIndex)>;

/// Adds the critical path to the stages' times.
fn walk(steps: &PathSteps<'_>, times: &mut HashMap<Stage, StageTimes>) {
    let places = |wanted: &'static [Stage]| {
        (0..).zip(&steps.threads).flat_map(move |(thread, ranges)| {
            let of_thread = (0..).zip(steps.of_thread(ranges));
            of_thread
                .filter(|(_, step)| wanted.contains(&step.stage))
                .map(move |(at, step)| (step.end, (thread, at)))
        })
    };
    let ends_of = |wanted| {
        let mut ends: Ends = places(wanted).collect();
        ends.sort_unstable();
        ends
    };
    let sources = ends_of(&[Stage::Source]);
    let detectors = ends_of(&DETECTOR_STAGES);
    let before = |ends: &Ends, until: i64| -> Option<StepIndex> {
        let at = ends.partition_point(|(end, _)| *end <= until);
        Some(ends[at.checked_sub(1)?].1)
    };
    // Asynchronous stages never block the pipeline: they drop excess frames.
    let Some((mut cursor, mut place)) = places(&PIPELINE_STAGES).max() else {
        return;
    };
    let step_at = |(thread, at): StepIndex| {
        let thread = &steps.threads[thread as usize];
        steps.step(thread[at as usize])
    };
    loop {
        let step = step_at(place);
        let own = place.1.checked_sub(1).map(|at| (place.0, at));
        let mut add = |own: i64, wait: i64| {
            if let Some(times) = times.get_mut(&step.stage) {
                times.critical_ns += own.max(0);
                times.critical_wait_ns += wait.max(0);
            }
        };
        // A batch is a wait: it ends when a source hands over. One that found its frames waiting took its own time.
        if step.stage == Stage::Batch
            && let Some(source) = before(&sources, cursor)
            && step_at(source).end > step.start
        {
            add(0, cursor - step_at(source).end);
            cursor = step_at(source).end;
            place = source;
            continue;
        }
        add(cursor - step.start, 0);
        let handed = match step.stage {
            Stage::Track => before(&detectors, step.start),
            // Without batches on the timeline, frames come from the sources all the same.
            Stage::Tensor | Stage::Infer if own.is_none() => before(&sources, step.start),
            _ => None,
        };
        let released = [own, handed]
            .into_iter()
            .flatten()
            .max_by_key(|place| step_at(*place).end);
        let Some(released) = released else { return };
        add(0, step.start - step_at(released).end);
        cursor = step_at(released).end;
        place = released;
    }
}
