// SPDX-License-Identifier: Apache-2.0
//! The classification of ranges: which stage a range is, which threads run it, and whether they work or wait in it. Everything in a
//! report that treats stages differently asks here, or [`Stage`] itself.

use jetwatch_telemetry::Stage;

/// Threads that do the same kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Source,
    Detector,
    Track,
    /// Secondary networks and the recording, which the pipeline does not wait for.
    Asynchronous,
}

impl Group {
    /// The group whose threads run a stage.
    pub(super) const fn of(stage: Stage) -> Self {
        match stage {
            Stage::Track | Stage::Publish => Self::Track,
            _ if stage.is_of_source() => Self::Source,
            _ if stage.is_asynchronous() => Self::Asynchronous,
            _ => Self::Detector,
        }
    }
}

/// Stages in which a source's thread brings images.
pub(super) const SOURCE_STAGES: [Stage; 4] = [
    Stage::Input,
    Stage::VideoDecode,
    Stage::Scale,
    Stage::Source,
];

/// Stages of a detector's thread except waits.
pub(super) const DETECTOR_STAGES: [Stage; 3] = [Stage::Tensor, Stage::Infer, Stage::Decode];

/// Stages of the tracking thread.
pub(super) const TRACK_STAGES: [Stage; 2] = [Stage::Track, Stage::Publish];

/// Share of its time from which a secondary network or the recording limits its own results.
pub(super) const SATURATED: f64 = 0.8;

/// Stages of threads that the pipeline does not wait for, by kind of thread: the working ones.
const BESIDE: [&[Stage]; 2] = [&[Stage::Secondary], &[Stage::Render, Stage::Encode]];

/// The stages of threads beside the pipeline that limit it: they have no time left, where `limit`, which limits the pipeline itself, has
/// some. `share` is that of its threads' time which a stage takes, 0 to 1.
pub(super) fn limit_beside(
    limit: Option<Stage>,
    share: impl Fn(Stage) -> f64,
) -> Option<&'static [Stage]> {
    let waits = |limit| matches!(limit, Stage::Input | Stage::Batch);
    let has_time_left = limit.is_none_or(|limit| waits(limit) || share(limit) < SATURATED);
    let all = |stages: &[Stage]| stages.iter().map(|stage| share(*stage)).sum::<f64>();
    let mut full = BESIDE.into_iter().filter(|stages| all(stages) >= SATURATED);
    full.next().filter(|_| has_time_left)
}

/// Ranges around a wait for frames or crops and the work on them.
const WRAPPERS: [&str; 2] = ["detect_batch", "secondary_batch"];

/// The stage with a name.
fn stage_named(name: &str) -> Option<Stage> {
    Stage::ALL.into_iter().find(|stage| stage.name() == name)
}

/// What a range is called without its domain, or without the ranges around it in a benchmark.
fn last_part(name: &str) -> &str {
    name.rsplit([':', '/']).next().unwrap_or(name)
}

/// The stage whose ranges have this name in a profile, with the domain.
pub(super) fn stage_of_range(name: &str) -> Option<Stage> {
    stage_named(name.strip_prefix("jetwatch:")?)
}

/// The stage of a range, by its name in a profile or its path in a benchmark.
pub(super) fn stage_of(name: &str) -> Option<Stage> {
    stage_named(last_part(name))
}

/// Whether the range is around others: a batch with the waits and the work in it.
pub(super) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.contains(&last_part(name))
}
