// SPDX-License-Identifier: Apache-2.0
//! The rules of the verdict, in order of importance.

use jetwatch_telemetry::Stage;

use super::limits::{self, BOTTLENECK};
use super::{Cause, Rule, percent, rule};
use crate::report::metrics::{CaptureMetrics, NetworkNotes};
use crate::report::stages::DETECTOR_STAGES;

/// Share of the time above which a GPU counts as saturated.
const GPU_FULL: f64 = 0.9;
/// Idle share of the time above which a GPU has capacity left.
const GPU_IDLE: f64 = 0.2;
/// Share of a detector's CPU work that is reported.
const LARGE_SHARE: f64 = 0.3;
/// The same of the network from which it is the limit of a detector without time left.
const MAIN_SHARE: f64 = 0.5;
/// Share of the time in write calls above which a thread waits for its disk.
const DISK_BOUND: f64 = 0.1;
/// Share from which blocking copies, and work of other threads on the GPU, are reported.
const NOTICEABLE: f64 = 0.01;
/// Kernels shorter than this take longer to launch than to run, in ns.
const SHORT_KERNEL: f64 = 8_000.0;

pub(super) const DECODE_ADVICE: &str =
    "raise the score threshold, keep fewer classes, or add one detector";
pub(super) const DECODE_KEYS: &str = "detector.score_threshold detector.classes detector.workers";
pub(super) const TENSOR_ADVICE: &str =
    "use TensorRT, which makes tensors on the GPU, or add one detector";
pub(super) const TENSOR_KEYS: &str = "detector.backend detector.workers";
pub(super) const DLA_ADVICE: &str = "run it on the GPU (without detector.tensorrt.dla), use INT8, a smaller model or input, or skip frames; workers share one DLA core, so that more of them do not help";
pub(super) const DLA_KEYS: &str =
    "detector.tensorrt.dla detector.precision detector.model detector.interval";

/// Rules before those for a stage at its limit.
#[rustfmt::skip]
pub(super) const FIRST: &[Rule] = &[
    rule("gpu_saturated", &[Stage::Infer],
        "use INT8 or FP16, a smaller model or input, or fewer frames", "detector.precision detector.model",
        Cause::Found("the GPU is saturated: only the model can be faster", |metrics| {
            let busy = metrics.gpu_busy.filter(|busy| *busy >= GPU_FULL && !metrics.run.is_on_dla())?;
            Some(format!("it was busy for {} of the time", percent(busy)))
        })),
    CORES,
    BATCH_LATENCY,
];

/// Rules that come after them, the most important first.
#[rustfmt::skip]
pub(super) const OTHERS: &[Rule] = &[
    rule("scaling_on_gpu", &[], "let the VIC scale (scaling: vic), so that only the network uses the GPU", "sources[].scaling",
        Cause::Found("scaling ran on the GPU: it takes time from the network", |metrics| {
            let share = Some(metrics.foreign).filter(|share| *share >= NOTICEABLE)?;
            let (kernel, thread) = metrics.foreign_kernel.clone().unwrap_or_default();
            Some(format!(
                "{} of the GPU's time went into kernels that no detector launched, most of it {kernel} from {thread}", percent(share)
            ))
        })),
    rule("decode_limit", &[Stage::Decode], DECODE_ADVICE, DECODE_KEYS,
        Cause::Varies(|metrics| on_cpu(metrics, Stage::Decode, "the network's outputs take long to become boxes"))),
    rule("tensor_limit", &[Stage::Tensor], TENSOR_ADVICE, TENSOR_KEYS,
        Cause::Varies(|metrics| on_cpu(metrics, Stage::Tensor, "padding and normalizing images takes long"))),
    rule("too_few_detectors", &[Stage::Infer, Stage::Tensor, Stage::Decode],
        "add one detector, so that one infers while others copy and decode", "detector.workers",
        Cause::Varies(|metrics| {
            let idle = idle(metrics).filter(|idle| *idle >= GPU_IDLE)?;
            let waited = metrics.shares[Stage::Batch as usize];
            let is_busy = is_detector_limit(metrics) && waited < GPU_IDLE;
            (is_busy && metrics.detectors > 0 && metrics.detectors < 3).then(|| (
                format!("GPU idle {}: it waits while its detectors work on the CPU", percent(idle)),
                format!("{} detectors, which waited for frames only {} of the time", metrics.detectors, percent(waited)),
            ))
        })),
    rule("detectors_limit", &[Stage::Infer, Stage::Tensor, Stage::Decode],
        "add one detector where a core is idle; else use a smaller or INT8 model, or raise the score threshold",
        "detector.workers detector.precision detector.model detector.score_threshold",
        Cause::Found("the detectors are the limit: all of their work together, and no part of it alone", |metrics| {
            let share = |stage: Stage| metrics.shares[stage as usize];
            let parts = [Stage::Infer, Stage::Tensor, Stage::Decode];
            let is_large = share(Stage::Infer) >= MAIN_SHARE || [Stage::Tensor, Stage::Decode].iter().any(|stage| share(*stage) >= LARGE_SHARE);
            (metrics.gpu_busy.is_none() && are_detectors_full(metrics) && !is_large).then(|| {
                let parts = parts.map(|stage| format!("{} {}", stage.name(), percent(share(stage))));
                format!("of the detectors' time went into {}", parts.join(", "))
            })
        })),
    rule("launch_limit", &[Stage::Infer], "use larger batches", "detector.batch_size",
        Cause::Varies(|metrics| {
            let idle = idle(metrics).filter(|idle| *idle >= GPU_IDLE)?;
            let is_short = metrics.kernel_ns > 0.0 && metrics.kernel_ns < SHORT_KERNEL;
            (is_detector_limit(metrics) && is_short && metrics.launching >= 0.5).then(|| (
                format!("GPU idle {}: launching kernels takes longer than running them", percent(idle)),
                format!("a kernel takes {:.1} µs, and {} of infer went into launching", metrics.kernel_ns / 1e3, percent(metrics.launching)),
            ))
        })),
    rule("network_on_dla", &[Stage::Infer], DLA_ADVICE, DLA_KEYS,
        Cause::Found("the network runs on a DLA and is the limit", |metrics| {
            let share = percent(metrics.shares[Stage::Infer as usize]);
            let is_limit = metrics.run.is_on_dla() && is_infer_limit(metrics);
            is_limit.then(|| format!("{share} of the detectors' time went into infer, on {}", metrics.run.detector))
        })),
    rule("network_on_cpu", &[Stage::Infer],
        "run it on a GPU, use a smaller or INT8 model, or use idle cores",
        "detector.backend detector.onnx_provider detector.precision detector.workers",
        Cause::Found("the network runs on the CPU and is the limit", |metrics| {
            (is_network_on_cpu(metrics) && !metrics.run.is_cpu_full()).then(|| network_share(metrics))
        })),
    rule("scripted_detector", &[Stage::Infer],
        "measure with a model; a script shows what the rest of the pipeline does", "detector.backend detector.model",
        Cause::Found("the scripted detector is the limit: it takes the time that its script says", |metrics| {
            (metrics.run.is_scripted() && is_infer_limit(metrics)).then(|| network_share(metrics))
        })),
    rule("network_on_full_cpu", &[Stage::Infer],
        "run it on a GPU, use a smaller or INT8 model, or skip frames; more workers do not help",
        "detector.backend detector.onnx_provider detector.precision detector.model detector.interval",
        Cause::Found("the network runs on the CPU and is the limit, and no core is idle", |metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            (is_network_on_cpu(metrics) && metrics.run.is_cpu_full()).then(|| format!(
                "{}; of {} allowed cores this program used {:.2}, and others {:.2}",
                network_share(metrics), found.allowed_cores, found.own_cores, found.foreign_cores
            ))
        })),
    rule("tracking_limit", &[Stage::Track],
        "use greedy matching, and raise the score threshold of the tracker", "tracker.association tracker.min_new_track_score",
        Cause::Found("CPU-bound in track: tracking is the limit", |metrics| {
            let share = track_share(metrics, Stage::Track)?;
            Some(format!("{share} of its time went into track"))
        })),
    rule("publishing_waits_for_disk", &[Stage::Publish],
        "write to a faster disk, write less often, or omit the tracks of every frame",
        "publish.json_lines.path publish.update_interval_ms publish.detections",
        Cause::Found("publishing waits for the disk", |metrics| {
            let (thread, share) = (&metrics.disk_thread, percent(metrics.disk));
            (metrics.disk >= DISK_BOUND).then(|| format!("thread {thread} was in calls that write for {share} of the time"))
        })),
    rule("publishing_limit", &[Stage::Publish],
        "publish less often, and omit the tracks of every frame", "publish.update_interval_ms publish.detections",
        Cause::Found("CPU-bound in publish: encoding messages is the limit", |metrics| {
            let share = track_share(metrics, Stage::Publish).filter(|_| metrics.disk < DISK_BOUND)?;
            Some(format!("{share} of the track thread's time went into publish"))
        })),
    rule("pageable_copies", &[], "this needs a change of the program, not of the configuration: copy from pinned memory", "",
        Cause::Found("asynchronous copies block: their memory is pageable", |metrics| {
            let (count, share) = metrics.pageable;
            (share >= NOTICEABLE).then(|| format!("{count} copies, {} of the time", percent(share)))
        })),
    rule("synchronous_copies", &[], "this needs a change of the program, not of the configuration: copy on a stream", "",
        Cause::Found("copies make the CPU wait for the GPU", |metrics| {
            let (count, share) = metrics.sync_copies;
            (share >= NOTICEABLE).then(|| format!("{count} synchronous copies, {} of the time", percent(share)))
        })),
    RENDERING,
    SECONDARY,
    WITHOUT_CROP,
];

/// Share of the time below which a recording does not slow other stages down.
const SLOW_RECORDING: f64 = 0.3;

/// Share of the limiting stage's time in waits for cores from which they are its cause.
const WAITS_FOR_CORE: f64 = 0.1;

/// Fill of a batch below which waiting for it is useless.
const MIN_FILL: f64 = 0.5;

fn ms(ns: f64) -> String {
    format!("{:.1} ms", ns / 1e6)
}

/// Rendering costs more than inference.
#[rustfmt::skip]
const RENDERING: Rule = rule("rendering_limit", &[Stage::Render, Stage::Encode],
    "omit --record, record fewer sources, make the images smaller at the camera, or encode in hardware", "sources sources[].uri",
    Cause::Varies(|metrics| {
        let found = metrics.rendering.as_ref()?;
        let whole = found.draw_ns + found.encoder_ns;
        let is_limit = limits::evidence(metrics, &[Stage::Render, Stage::Encode]).is_some();
        let is_slow = whole > found.infer_ns && found.share >= SLOW_RECORDING;
        let text = if is_slow { "rendering takes longer than inference" } else { "rendering is the limit of the recording" };
        (is_limit || is_slow).then(|| (text.to_owned(), format!(
            "drawing a frame takes {}, of which {} wait for the encoder, and the network {}; the recording was busy for {} of the time",
            ms(whole), ms(found.encoder_ns), ms(found.infer_ns), percent(found.share)
        )))
    })).in_hardware("omit --record, record fewer sources, or make the images smaller at the camera");

/// The threads of the limiting stage could run, and had no core.
#[rustfmt::skip]
const CORES: Rule = rule("waits_for_core", &Stage::ALL,
    "use fewer threads than cores: fewer workers or threads per worker, software decoders with fewer threads; or move other programs to other cores (CPUAffinity in a unit of systemd)",
    "detector.workers detector.threads_per_worker sources[].decoder_threads",
    Cause::Varies(|metrics| {
        let found = metrics.core_wait.as_ref()?;
        let (stage, thread, cores) = (found.stage.name(), &found.thread, found.cores);
        let is_limit = metrics.limit.is_some_and(|limit| limit.stage == found.stage);
        let why = match found.has_states {
            true => "the kernel took it off its core while it could run",
            false => "it was off its core and in no call that waits",
        };
        (is_limit && found.share >= WAITS_FOR_CORE).then(|| (
            format!("{stage} waits for a CPU core: thread {thread} could run and did not"),
            format!(
                "{why}, for {} in {stage}; over all its threads this is {} of the stage's time; cores with recorded threads: {cores}, idle for {} of their time unless other programs ran there",
                ms(found.waited_ns as f64), percent(found.share), percent(found.idle)
            ),
        ))
    }));

/// Share of the objects without a crop from which they are reported.
const MANY: f64 = 0.5;

/// Objects that no secondary network sees.
#[rustfmt::skip]
const WITHOUT_CROP: Rule = rule("objects_without_crop", &[],
    "where their crops would still show enough, lower min_object; else use a camera that is closer, or has more pixels",
    "secondary[].min_object sources[].uri",
    Cause::Varies(|metrics| {
        let share = |network: &NetworkNotes| {
            let all = (network.objects + network.small_objects).max(1);
            network.small_objects as f64 / all as f64
        };
        let networks = metrics.run.secondary.iter();
        let without = networks.filter(|it| share(it) >= MANY || it.frames_without_pixels > 0);
        let found = without.max_by(|a, b| share(a).total_cmp(&share(b)))?;
        let mut reasons = Vec::new();
        if found.small_objects > 0 {
            let (small, all) = (found.small_objects, found.objects + found.small_objects);
            let share = percent(share(found));
            reasons.push(format!("{share} of its objects were smaller than min_object ({small} of {all}, summed over the frames)"));
        }
        if found.frames_without_pixels > 0 {
            reasons.push(format!("the pixels of {} frames with objects could not be kept or read", found.frames_without_pixels));
        }
        let text = format!("many objects get no crop for {}", found.name);
        Some((text, reasons.join("; ")))
    }));

/// A batch is larger than the number of crops.
#[rustfmt::skip]
const SECONDARY: Rule = rule("secondary_waits", &[],
    "set the batch size to the number of objects that arrive together, or reduce the wait",
    "secondary[].batch_size secondary[].batch_timeout_ms",
    Cause::Varies(|metrics| {
        let waiting = metrics.secondary.iter().filter_map(|it| {
            let (crops, size) = (it.mean_batch?, it.batch_size?.max(1.0));
            let (wait, work) = (it.wait_ms?, it.infer_ms?);
            let is_waiting = size > 1.0 && crops / size < MIN_FILL && wait >= work;
            is_waiting.then_some((it, crops, size, wait, work))
        });
        let (worst, crops, size, wait, work) = waiting.min_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
        // The objects of a frame arrive together, unless most of them are known already.
        let objects = worst.suggested_batch_size.filter(|objects| *objects < size);
        Some((
            format!("the secondary batch of {} waits for objects", worst.name),
            format!(
                "a batch has {crops:.1} crops where {size} fit, waits {wait:.1} ms, and takes {work:.1} ms; a batch_size of {} would be full",
                objects.unwrap_or_else(|| crops.round().max(1.0))
            ),
        ))
    }));

/// Waits below this are no reason to change a batch, in ms.
const SHORT_WAIT_MS: f64 = 5.0;

/// Batches are larger than the number of live sources.
#[rustfmt::skip]
const BATCH_LATENCY: Rule = rule("batch_latency", &[Stage::Batch, Stage::Input],
    "make batches no larger than the number of live sources of the same rate: detector.batch_size 1 for one camera; larger ones give no more frames, as the cameras set the pace",
    "detector.batch_size detector.batch_timeout_ms",
    Cause::Varies(|metrics| {
        let run = &metrics.run;
        let frames = run.sources.iter().map(|source| source.detected as f64);
        // Sources of different rates, and those that are closed, seldom have frames at the same time.
        let most = frames.clone().fold(1.0, f64::max);
        let together = (frames.sum::<f64>() / most).round() as u64;
        let sources = run.sources.len();
        let is_live = sources > 0 && run.sources.iter().all(|source| source.live);
        let wait = run.latency.as_ref()?.part("wait")?;
        let is_too_large = is_live && run.batch_size > together.max(1)
            && (!run.drops_frames() || metrics.cores_needed.is_some());
        let rates = match together < sources as u64 {
            true => format!("; in the time of a frame of the fastest source, all of them have {together}"),
            false => String::new(),
        };
        let plural = if sources == 1 { "" } else { "s" };
        (is_too_large && wait.median_ms >= SHORT_WAIT_MS).then(|| (
            format!("batches of {} make frames of {sources} live source{plural} wait", run.batch_size),
            format!(
                "{}; a frame waits {:.1} ms for its batch (median), 95 %: {:.1} ms{rates}",
                run.describe_latency(), wait.median_ms, wait.p95_ms
            ),
        ))
    }));

/// Whether the network is the limit.
pub(super) fn is_infer_limit(metrics: &CaptureMetrics) -> bool {
    limits::evidence(metrics, &[Stage::Infer]).is_some()
        || is_detector_limit(metrics) && metrics.shares[Stage::Infer as usize] >= BOTTLENECK
        || are_detectors_full(metrics) && metrics.shares[Stage::Infer as usize] >= MAIN_SHARE
}

/// Whether the detectors have no time left, whichever part of their work takes it.
fn are_detectors_full(metrics: &CaptureMetrics) -> bool {
    let work = DETECTOR_STAGES.map(|stage| metrics.shares[stage as usize]);
    metrics.limit.is_some() && is_detector_limit(metrics) && work.iter().sum::<f64>() >= BOTTLENECK
}

/// Whether the network is the limit and neither a GPU nor a DLA ran it. A scripted detector is not a network.
fn is_network_on_cpu(metrics: &CaptureMetrics) -> bool {
    let is_elsewhere = metrics.run.is_scripted() || metrics.run.is_on_dla();
    metrics.gpu_busy.is_none() && is_infer_limit(metrics) && !is_elsewhere
}

fn network_share(metrics: &CaptureMetrics) -> String {
    format!(
        "{} of the detectors' time went into infer, and no GPU work was recorded",
        percent(metrics.shares[Stage::Infer as usize])
    )
}

/// Whether a detector is the limit, as far as is known.
fn is_detector_limit(metrics: &CaptureMetrics) -> bool {
    let limit = metrics.limit.map(|limit| limit.stage);
    let is_known = metrics.cores_needed.is_none() && !metrics.run.is_short();
    is_known && limit.is_none_or(|limit| DETECTOR_STAGES.contains(&limit))
}

/// The finding that a stage of the detectors other than the network takes much of their time, or most of the critical path.
fn on_cpu(metrics: &CaptureMetrics, stage: Stage, why: &str) -> Option<(String, String)> {
    let (name, share) = (stage.name(), metrics.shares[stage as usize]);
    let is_large = limits::evidence(metrics, &[stage]).is_some()
        || is_detector_limit(metrics) && share >= LARGE_SHARE;
    is_large.then(|| {
        let share = percent(share);
        let text = format!("{}CPU-bound in {name}: {why}", idle_text(metrics));
        let evidence = format!("{share} of the detectors' time went into {name}");
        (text, evidence)
    })
}

/// The share of its thread's time that a stage of the tracking thread takes, where it is the limit.
fn track_share(metrics: &CaptureMetrics, stage: Stage) -> Option<String> {
    let share = metrics.shares[stage as usize];
    let is_full = share >= BOTTLENECK && !metrics.run.is_short();
    let is_limit = is_full || limits::evidence(metrics, &[stage]).is_some();
    is_limit.then(|| percent(share))
}

/// Share of the time in which the GPU had nothing to do; `None` where it is not to run the network.
fn idle(metrics: &CaptureMetrics) -> Option<f64> {
    let busy = metrics.gpu_busy.filter(|_| !metrics.run.is_on_dla());
    busy.map(|busy| 1.0 - busy)
}

fn idle_text(metrics: &CaptureMetrics) -> String {
    idle(metrics).map_or_else(String::new, |idle| format!("GPU idle {}: ", percent(idle)))
}
