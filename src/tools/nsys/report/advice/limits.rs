// SPDX-License-Identifier: Apache-2.0
//! Rules about the stage that limits the pipeline, where no rule with a cause of its own applies, and the finding without any rule.

use jetwatch_telemetry::Stage;

use super::conditions::full_cpu;
use super::{Cause, Finding, Rule, losses, percent, rule, split};
use crate::report::critical_path::InputKind;
use crate::report::metrics::{CaptureMetrics, UnitLoads};

/// Share of its threads' time from which a stage is the limit.
pub(in crate::report) const BOTTLENECK: f64 = 0.8;

/// What helps secondary networks that are too slow, and its keys.
pub(super) const SECONDARY_ADVICE: &str =
    "add workers, use larger batches, infer known objects less often, or leave out small ones";
pub(super) const SECONDARY_KEYS: &str = "secondary[].workers secondary[].batch_size secondary[].reinfer_interval secondary[].min_object";

/// Share of the critical path from which a stage is the limit.
const PATH_SHARE: f64 = 0.5;

/// The numbers of the limiting stage, if it is one of `stages`, and takes enough.
pub(super) fn evidence(metrics: &CaptureMetrics, stages: &[Stage]) -> Option<String> {
    let limit = metrics.limit?;
    // Where images do not come faster, no stage of the program is at its limit.
    let is_clear = limit.stage == Stage::Input
        || limit.share >= BOTTLENECK
        || limit.path.is_some_and(|path| path >= PATH_SHARE);
    numbers(metrics).filter(|_| is_clear && stages.contains(&limit.stage))
}

fn numbers(metrics: &CaptureMetrics) -> Option<String> {
    let limit = metrics.limit?;
    let name = limit.stage.name();
    let of_path = |path| format!("{} of the critical path", percent(path));
    let of_path = limit.path.map(of_path);
    // Threads without times of their own have no share.
    if limit.share <= 0.0 {
        return Some(format!("{name} is {}", of_path?));
    }
    let of_path = of_path.map_or_else(String::new, |of_path| format!(", and {of_path}"));
    let share = percent(limit.share);
    Some(format!("{name} took {share} of its threads' time{of_path}"))
}

/// Load of a unit beside the CPU and the GPU from which it has no time left.
const FULL: f64 = 0.9;

/// Reads the load of one unit, 0 to 1; `None` where it was not measured.
type ReadLoad = fn(&UnitLoads) -> Option<f64>;

/// A stage that limits the pipeline.
pub(super) struct StageLimit {
    /// The stage.
    pub(super) stage: Stage,
    /// The finding.
    text: &'static str,
    /// Whether it explains the stage in this capture.
    applies: fn(&CaptureMetrics) -> bool,
    /// The unit that does the work, and its load: where that is full, the stage need not be the limit.
    unit: Option<(&'static str, ReadLoad)>,
    /// Further evidence.
    more: Option<fn(&CaptureMetrics) -> String>,
}

impl StageLimit {
    const fn new(stage: Stage, text: &'static str) -> Self {
        Self {
            stage,
            text,
            applies: |_| true,
            unit: None,
            more: None,
        }
    }

    /// The finding and its evidence; `None` where the stage is not at its limit.
    pub(super) fn evaluate(&self, metrics: &CaptureMetrics) -> Option<(String, String)> {
        let full = self.unit.and_then(|(name, load)| {
            let load = load(&metrics.units).filter(|load| *load >= FULL)?;
            Some(format!("{name} was busy for {} of the time", percent(load)))
        });
        let waits = evidence(metrics, &[self.stage]).filter(|_| (self.applies)(metrics));
        let mut found: Vec<String> = full.into_iter().chain(waits).collect();
        if found.is_empty() {
            return None;
        }
        found.extend(self.more.map(|more| more(metrics)));
        Some((self.text.to_owned(), found.join("; ")))
    }
}

/// The share of the detectors' time in waits for frames.
fn share_of_waits(metrics: &CaptureMetrics) -> String {
    percent(metrics.shares[Stage::Batch as usize])
}

fn waits_for_frames(metrics: &CaptureMetrics) -> String {
    let waits = share_of_waits(metrics);
    format!("{waits} of the detectors' time went into waiting for frames")
}

/// Rules whose cause is that a stage is at its limit.
#[rustfmt::skip]
pub(super) const LIMITS: &[Rule] = &[
    rule("waits_for_sources", &[],
        "no stage is too slow: add sources, raise their frame rate, or use a better model", "sources sources[].max_fps detector.model",
        Cause::Limit(StageLimit {
            // What is lost is the limit then, or that the cores are full.
            applies: |metrics| metrics.input != InputKind::File && !losses::limits(metrics) && metrics.run.lost_sources().is_empty() && !metrics.run.drops_frames() && metrics.run.late() == 0 && full_cpu(metrics).is_none(),
            more: Some(|metrics| {
                let left_out: u64 = metrics.run.sources.iter().map(|source| source.above_max_fps).sum();
                let left_out = (left_out > 0).then(|| format!("max_fps left out {left_out} frames"));
                let latency = Some(metrics.run.describe_latency()).filter(|latency| !latency.is_empty());
                let all = [Some(waits_for_frames(metrics)), left_out, latency].into_iter().flatten();
                all.collect::<Vec<String>>().join("; ")
            }),
            ..StageLimit::new(Stage::Input, "batcher waits for sources: the detectors could take more")
        })),
    rule("reading_limit", &[],
        "read from a faster disk, or make the elements of a launch line faster", "sources[].uri",
        Cause::Limit(StageLimit {
            applies: |metrics| metrics.input == InputKind::File,
            ..StageLimit::new(Stage::Input, "reading the files is the limit: the elements before the decoder bring no more images")
        })),
    rule("video_decode_limit", &[],
        "decode in hardware (decoder: hardware) where the machine can, give the decoder more threads, let the camera send fewer or smaller images, or make the filters of a launch line faster; max_fps and interval do not help, since every image is decoded", "sources[].decoder sources[].decoder_threads sources[].uri",
        Cause::Limit(StageLimit {
            applies: |metrics| !metrics.decodes_in_hardware,
            ..StageLimit::new(Stage::VideoDecode, "decoding is the limit: a source has no more images")
        })),
    rule("hardware_decode_limit", &[],
        "let the cameras send fewer or smaller images, or decode some of them on the CPU (decoder: software)", "sources[].decoder sources[].uri",
        Cause::Limit(StageLimit {
            applies: |metrics| metrics.decodes_in_hardware,
            unit: Some(("NVDEC", |units| units.nvdec)),
            ..StageLimit::new(Stage::VideoDecode, "the video decoder of the machine is the limit")
        })),
    rule("scale_limit", &[],
        "scale on the VIC (scaling: vic) where the machine has one, limit the frame rate (max_fps) or skip frames (interval), both before scaling, or let the camera send smaller images", "sources[].scaling sources[].max_fps sources[].interval sources[].uri",
        Cause::Limit(StageLimit {
            unit: Some(("the VIC", |units| units.vic)),
            ..StageLimit::new(Stage::Scale, "scaling is the limit: images take long from the decoder's size to the network's")
        })),
    rule("sources_limit", &[],
        "make the images smaller at the camera, or add threads by splitting the sources", "sources[].uri sources[].max_fps",
        Cause::Limit(StageLimit {
            more: Some(|metrics| format!("the detectors waited for frames {} of theirs", share_of_waits(metrics))),
            ..StageLimit::new(Stage::Source, "receiving images is the limit: copying them out of the decoder, or drawing synthetic ones")
        })),
    rule("batch_wait_limit", &[],
        "shorten the wait, or make batches no larger than the number of sources", "detector.batch_timeout_ms detector.batch_size",
        Cause::Limit(StageLimit::new(Stage::Batch, "the wait for full batches is the limit: frames that are there wait for others"))),
    rule("secondary_limit", &[],
        SECONDARY_ADVICE, SECONDARY_KEYS,
        Cause::Limit(StageLimit::new(Stage::Secondary, "secondary networks are the limit: crops wait for them, or are dropped"))),
];

/// The stage that limits the pipeline where no rule says why.
pub(super) fn nearest(metrics: &CaptureMetrics) -> Option<Finding> {
    let limit = metrics.limit?;
    let stage = limit.stage.name();
    // Frames come at the pace of cameras, so that the wait for them limits nothing.
    let is_camera = limit.stage == Stage::Input && metrics.input != InputKind::File;
    let drops = metrics.run.drops_frames();
    let (text, evidence, advice, keys) = match (is_camera, drops) {
        (true, true) => (
            "no stage is at its limit; frames that come at the same moment may have caused the drops".to_owned(),
            waits_for_frames(metrics),
            "give the detectors less to do",
            "detector.interval detector.model detector.precision sources[].max_fps",
        ),
        (false, true) => (
            format!("{stage} is nearest to its limit, and at it for a part of the time: then frames are dropped"),
            numbers(metrics)?,
            "give this stage less to do, or keep other programs from its cores",
            keys(limit.stage),
        ),
        (_, false) => (
            format!("no stage is at its limit; {stage} is nearest to it"),
            numbers(metrics)?,
            "nothing has to be changed; with more sources or frames, this stage would be the first to be too slow",
            keys(limit.stage),
        ),
    };
    Some(Finding {
        rule: "nearest_limit",
        text,
        evidence,
        advice,
        keys: split(keys),
        stage: Some(stage),
    })
}

/// Keys that change the time of a stage.
const fn keys(stage: Stage) -> &'static str {
    match stage {
        Stage::Input => "sources[].uri",
        Stage::VideoDecode | Stage::VideoDecodeStay => {
            "sources[].decoder sources[].decoder_threads"
        }
        Stage::Scale | Stage::ScaleStay => "sources[].scaling sources[].max_fps",
        Stage::Source | Stage::Enqueue => "sources[].uri",
        Stage::Batch => "detector.batch_timeout_ms detector.batch_size",
        Stage::Tensor => "detector.backend detector.workers",
        Stage::Infer
        | Stage::GpuCopyIn
        | Stage::GpuTensor
        | Stage::GpuNetwork
        | Stage::GpuCopyOut => "detector.model detector.precision detector.workers",
        Stage::Decode => "detector.score_threshold detector.classes",
        Stage::SendResults | Stage::Track => "tracker",
        Stage::Publish => "publish.update_interval_ms publish.detections",
        Stage::SecondaryWait | Stage::Secondary => "secondary[].batch_size",
        Stage::Render | Stage::Encode => "sources",
    }
}
