// SPDX-License-Identifier: Apache-2.0
//! The rules of the verdict, in order of importance.

use jetwatch_telemetry::Stage;

use super::limits::{self, BOTTLENECK};
use super::{Rule, extras, latency, percent};
use crate::report::metrics::CaptureMetrics;
use crate::report::stages::DETECTOR_STAGES;

/// Share of the time above which a GPU counts as saturated.
const GPU_FULL: f64 = 0.9;
/// Idle share of the time above which a GPU has capacity left.
const GPU_IDLE: f64 = 0.2;
/// Share of a detector's CPU work that is reported.
const LARGE_SHARE: f64 = 0.3;
/// Share of the time in write calls above which a thread waits for its disk.
const DISK_BOUND: f64 = 0.1;
/// Share from which blocking copies, and work of other threads on the GPU, are reported.
const NOTICEABLE: f64 = 0.01;
/// Kernels shorter than this take longer to launch than to run, in ns.
const SHORT_KERNEL: f64 = 8_000.0;

/// Rules that come before those about a stage at its limit.
pub(super) const DECODE_ADVICE: &str =
    "raise the score threshold, keep fewer classes, or add one detector";
pub(super) const DECODE_KEYS: &str = "detector.score_threshold detector.classes detector.workers";
pub(super) const TENSOR_ADVICE: &str =
    "use TensorRT, which makes tensors on the GPU, or add one detector";
pub(super) const TENSOR_KEYS: &str = "detector.backend detector.workers";

/// Rules before those for a stage at its limit.
pub(super) const FIRST: &[Rule] = &[
    Rule {
        name: "gpu_saturated",
        evaluate: |metrics| {
            let busy = metrics.gpu_busy.filter(|busy| *busy >= GPU_FULL)?;
            Some((
                "the GPU is saturated: only the model can be faster".to_owned(),
                format!("it was busy for {} of the time", percent(busy)),
            ))
        },
        advice: "use INT8 or FP16, a smaller model or input, or fewer frames",
        keys: "detector.precision detector.model",
        stages: &[Stage::Infer],
    },
    extras::CORES,
    latency::BATCH_LATENCY,
];

/// Rules that come after them, the most important first.
pub(super) const OTHERS: &[Rule] = &[
    Rule {
        name: "scaling_on_gpu",
        evaluate: |metrics| {
            (metrics.foreign >= NOTICEABLE).then(|| {
                let (kernel, thread) = metrics.foreign_kernel.clone().unwrap_or_default();
                (
                    "scaling ran on the GPU: it takes time from the network".to_owned(),
                    format!("{} of the GPU's time went into kernels that no detector launched, most of it {kernel} from {thread}", percent(metrics.foreign)),
                )
            })
        },
        advice: "let the VIC scale (scaling: vic), so that only the network uses the GPU",
        keys: "sources[].scaling",
        stages: &[],
    },
    Rule {
        name: "decode_limit",
        evaluate: |metrics| {
            is_large(metrics, Stage::Decode).then(|| {
                (
                    format!(
                        "{}CPU-bound in decode: the network's outputs take long to become boxes",
                        idle_text(metrics)
                    ),
                    format!(
                        "{} of the detectors' time went into decode",
                        percent(metrics.shares[Stage::Decode])
                    ),
                )
            })
        },
        advice: DECODE_ADVICE,
        keys: DECODE_KEYS,
        stages: &[Stage::Decode],
    },
    Rule {
        name: "tensor_limit",
        evaluate: |metrics| {
            is_large(metrics, Stage::Tensor).then(|| {
                (
                    format!(
                        "{}CPU-bound in tensor: padding and normalizing images takes long",
                        idle_text(metrics)
                    ),
                    format!(
                        "{} of the detectors' time went into tensor",
                        percent(metrics.shares[Stage::Tensor])
                    ),
                )
            })
        },
        advice: TENSOR_ADVICE,
        keys: TENSOR_KEYS,
        stages: &[Stage::Tensor],
    },
    Rule {
        name: "too_few_detectors",
        evaluate: |metrics| {
            let idle = idle(metrics).filter(|idle| *idle >= GPU_IDLE)?;
            let is_busy = is_detector_limit(metrics) && metrics.shares[Stage::Batch] < GPU_IDLE;
            (is_busy && metrics.detectors > 0 && metrics.detectors < 3).then(|| {
                (
                    format!(
                        "GPU idle {}: it waits while its detectors work on the CPU",
                        percent(idle)
                    ),
                    format!(
                        "{} detectors, which waited for frames only {} of the time",
                        metrics.detectors,
                        percent(metrics.shares[Stage::Batch])
                    ),
                )
            })
        },
        advice: "add one detector, so that one infers while others copy and decode",
        keys: "detector.workers",
        stages: &[Stage::Infer, Stage::Tensor, Stage::Decode],
    },
    Rule {
        name: "launch_limit",
        evaluate: |metrics| {
            let idle = idle(metrics).filter(|idle| *idle >= GPU_IDLE)?;
            (is_detector_limit(metrics)
                && metrics.kernel_ns > 0.0
                && metrics.kernel_ns < SHORT_KERNEL
                && metrics.launching >= 0.5)
                .then(|| {
                    (
                        format!(
                            "GPU idle {}: launching kernels takes longer than running them",
                            percent(idle)
                        ),
                        format!(
                            "a kernel takes {:.1} µs, and {} of infer went into launching",
                            metrics.kernel_ns / 1e3,
                            percent(metrics.launching)
                        ),
                    )
                })
        },
        advice: "use larger batches",
        keys: "detector.batch_size",
        stages: &[Stage::Infer],
    },
    Rule {
        name: "network_on_cpu",
        evaluate: |metrics| {
            (is_network_on_cpu(metrics) && !metrics.run.is_cpu_full()).then(|| {
                (
                    "the network runs on the CPU and is the limit".to_owned(),
                    network_share(metrics),
                )
            })
        },
        advice: "run it on a GPU, use a smaller or INT8 model, or use idle cores",
        keys: "detector.backend detector.onnx_provider detector.precision detector.workers",
        stages: &[Stage::Infer],
    },
    Rule {
        name: "scripted_detector",
        evaluate: |metrics| {
            (metrics.is_scripted && is_infer_limit(metrics)).then(|| {
                (
                    "the scripted detector is the limit: it takes the time that its script says"
                        .to_owned(),
                    network_share(metrics),
                )
            })
        },
        advice: "measure with a model; a script shows what the rest of the pipeline does",
        keys: "detector.backend detector.model",
        stages: &[Stage::Infer],
    },
    Rule {
        name: "network_on_full_cpu",
        evaluate: |metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            (is_network_on_cpu(metrics) && metrics.run.is_cpu_full()).then(|| {
                (
                    "the network runs on the CPU and is the limit, and no core is idle".to_owned(),
                    format!(
                        "{}; of {} allowed cores this program used {:.2}, and others {:.2}",
                        network_share(metrics),
                        found.allowed_cores,
                        found.own_cores,
                        found.foreign_cores
                    ),
                )
            })
        },
        advice: "run it on a GPU, use a smaller or INT8 model, or skip frames; more workers do not help",
        keys: "detector.backend detector.onnx_provider detector.precision detector.model detector.interval",
        stages: &[Stage::Infer],
    },
    Rule {
        name: "tracking_limit",
        evaluate: |metrics| {
            let is_limit = limits::evidence(metrics, &[Stage::Track]).is_some();
            (is_limit || metrics.shares[Stage::Track] >= BOTTLENECK).then(|| {
                (
                    "CPU-bound in track: tracking is the limit".to_owned(),
                    format!(
                        "{} of its time went into track",
                        percent(metrics.shares[Stage::Track])
                    ),
                )
            })
        },
        advice: "use greedy matching, and raise the score threshold of the tracker",
        keys: "tracker.association tracker.min_new_track_score",
        stages: &[Stage::Track],
    },
    Rule {
        name: "publishing_waits_for_disk",
        evaluate: |metrics| {
            (metrics.disk >= DISK_BOUND).then(|| {
                (
                    "publishing waits for the disk".to_owned(),
                    format!(
                        "thread {} was in calls that write for {} of the time",
                        metrics.disk_thread,
                        percent(metrics.disk)
                    ),
                )
            })
        },
        advice: "write to a faster disk, write less often, or omit the tracks of every frame",
        keys: "publish.json_lines.path publish.update_interval_ms publish.detections",
        stages: &[Stage::Publish],
    },
    Rule {
        name: "publishing_limit",
        evaluate: |metrics| {
            let is_limit = limits::evidence(metrics, &[Stage::Publish]).is_some();
            ((is_limit || metrics.shares[Stage::Publish] >= BOTTLENECK)
                && metrics.disk < DISK_BOUND)
                .then(|| {
                    (
                        "CPU-bound in publish: encoding messages is the limit".to_owned(),
                        format!(
                            "{} of the track thread's time went into publish",
                            percent(metrics.shares[Stage::Publish])
                        ),
                    )
                })
        },
        advice: "publish less often, and omit the tracks of every frame",
        keys: "publish.update_interval_ms publish.detections",
        stages: &[Stage::Publish],
    },
    Rule {
        name: "pageable_copies",
        evaluate: |metrics| {
            (metrics.pageable.1 >= NOTICEABLE).then(|| {
                (
                    "asynchronous copies block: their memory is pageable".to_owned(),
                    format!(
                        "{} copies, {} of the time",
                        metrics.pageable.0,
                        percent(metrics.pageable.1)
                    ),
                )
            })
        },
        advice: "this needs a change of the program, not of the configuration: copy from pinned memory",
        keys: "",
        stages: &[],
    },
    Rule {
        name: "synchronous_copies",
        evaluate: |metrics| {
            (metrics.sync_copies.1 >= NOTICEABLE).then(|| {
                (
                    "copies make the CPU wait for the GPU".to_owned(),
                    format!(
                        "{} synchronous copies, {} of the time",
                        metrics.sync_copies.0,
                        percent(metrics.sync_copies.1)
                    ),
                )
            })
        },
        advice: "this needs a change of the program, not of the configuration: copy on a stream",
        keys: "",
        stages: &[],
    },
    extras::RENDERING,
    extras::SECONDARY,
    extras::WITHOUT_CROP,
];

fn is_infer_limit(metrics: &CaptureMetrics) -> bool {
    limits::evidence(metrics, &[Stage::Infer]).is_some()
        || is_detector_limit(metrics) && metrics.shares[Stage::Infer] >= BOTTLENECK
}

/// Whether the network is the limit and no GPU ran it. A scripted detector is no network.
fn is_network_on_cpu(metrics: &CaptureMetrics) -> bool {
    metrics.gpu_busy.is_none() && is_infer_limit(metrics) && !metrics.is_scripted
}

fn network_share(metrics: &CaptureMetrics) -> String {
    format!(
        "{} of the detectors' time went into infer, and no GPU work was recorded",
        percent(metrics.shares[Stage::Infer])
    )
}

/// Whether a detector is the limit, as far as is known.
fn is_detector_limit(metrics: &CaptureMetrics) -> bool {
    let limit = metrics.limit.map(|limit| limit.stage);
    limit.is_none_or(|limit| DETECTOR_STAGES.contains(&limit))
}

/// Whether a stage of the detectors other than the network takes much of their time, or most of the critical path.
fn is_large(metrics: &CaptureMetrics, stage: Stage) -> bool {
    limits::evidence(metrics, &[stage]).is_some()
        || is_detector_limit(metrics) && metrics.shares[stage] >= LARGE_SHARE
}

fn idle(metrics: &CaptureMetrics) -> Option<f64> {
    metrics.gpu_busy.map(|busy| 1.0 - busy)
}

fn idle_text(metrics: &CaptureMetrics) -> String {
    idle(metrics).map_or_else(String::new, |idle| format!("GPU idle {}: ", percent(idle)))
}
