//! The rules of the verdict, one after another.

use super::{Rule, beside, share};
use crate::report::evidence::Evidence;

/// A GPU that is busy for this share of the time is full.
const FULL: f64 = 0.9;
/// A GPU that is idle for this share of the time could do more.
const IDLE: f64 = 0.2;
/// A stage that takes this share of its threads' time is the limit.
const LIMIT: f64 = 0.8;
/// A part of a detector's work on the CPU that is worth a word.
const LARGE: f64 = 0.3;
/// A thread that writes for this share of the time waits for its disk.
const DISK: f64 = 0.1;
/// Copies that wait, and work of others on the GPU, are worth a word from this share on.
const NOTICEABLE: f64 = 0.01;
/// Kernels shorter than this take longer to launch than to run, in ns.
const SHORT_KERNEL: f64 = 8_000.0;

/// All rules, the most telling first.
pub const RULES: &[Rule] = &[
    Rule {
        name: "gpu_saturated",
        speak: |seen| {
            let busy = seen.gpu_busy.filter(|busy| *busy >= FULL)?;
            Some((
                "the GPU is saturated: only the model can be faster".to_owned(),
                format!("it was busy for {} of the time", share(busy)),
            ))
        },
        advice: "take INT8 or FP16, a smaller model or input, or fewer frames",
        keys: &["detector.precision", "detector.model"],
    },
    Rule {
        name: "waits_for_sources",
        speak: |seen| {
            let idle = idle(seen).unwrap_or(1.0);
            (seen.batch >= 0.5 && idle >= IDLE && seen.source < LIMIT).then(|| {
                (
                    format!(
                        "{}batcher waits for sources: the detectors could take more",
                        idle_words(seen)
                    ),
                    format!(
                        "{} of the detectors' time went into waiting for frames",
                        share(seen.batch)
                    ),
                )
            })
        },
        advice: "nothing is too slow: add sources, raise their frame rate, or take a better model; with small batches, let them fill",
        keys: &[
            "sources",
            "detector.batch_size",
            "detector.batch_timeout_ms",
            "detector.model",
        ],
    },
    Rule {
        name: "sources_limit",
        speak: |seen| {
            (seen.source >= LIMIT && seen.batch >= LARGE).then(|| {
                (
                    format!("{}CPU-bound in the sources: taking over and scaling pictures is the limit", idle_words(seen)),
                    format!("{} of the sources' threads' time was work, and the detectors waited {} of theirs", share(seen.source), share(seen.batch)),
                )
            })
        },
        advice: "decode and scale in hardware, give a software decoder more threads, or make the pictures smaller at the camera",
        keys: &["sources[].decoder_threads", "sources[].uri"],
    },
    Rule {
        name: "scaling_on_gpu",
        speak: |seen| {
            (seen.foreign >= NOTICEABLE).then(|| {
                let (kernel, thread) = seen.foreign_kernel.clone().unwrap_or_default();
                (
                    "scaling ran on the GPU: it takes time from the network".to_owned(),
                    format!("{} of the GPU's time went into kernels that no detector launched, most of it {kernel} from {thread}", share(seen.foreign)),
                )
            })
        },
        advice: "let the VIC scale (nvvidconv with compute-hw=VIC), so that the GPU is the network's alone",
        keys: &["sources"],
    },
    Rule {
        name: "decode_limit",
        speak: |seen| {
            (seen.decode >= LARGE).then(|| {
                (
                    format!(
                        "{}CPU-bound in decode: the network's outputs take long to become boxes",
                        idle_words(seen)
                    ),
                    format!(
                        "{} of the detectors' time went into decode",
                        share(seen.decode)
                    ),
                )
            })
        },
        advice: "raise the score below which nothing is looked at, keep fewer classes, or run one detector more",
        keys: &[
            "detector.score_threshold",
            "detector.classes",
            "detector.workers",
        ],
    },
    Rule {
        name: "tensor_limit",
        speak: |seen| {
            (seen.tensor >= LARGE).then(|| {
                (
                    format!(
                        "{}CPU-bound in tensor: padding and normalizing pictures takes long",
                        idle_words(seen)
                    ),
                    format!(
                        "{} of the detectors' time went into tensor",
                        share(seen.tensor)
                    ),
                )
            })
        },
        advice: "use TensorRT, which makes tensors on the GPU, or run one detector more",
        keys: &["detector.backend", "detector.workers"],
    },
    Rule {
        name: "too_few_detectors",
        speak: |seen| {
            let idle = idle(seen).filter(|idle| *idle >= IDLE)?;
            (seen.batch < IDLE && seen.detectors > 0 && seen.detectors < 3).then(|| {
                (
                    format!(
                        "GPU idle {}: it waits while its detectors work on the CPU",
                        share(idle)
                    ),
                    format!(
                        "{} detectors, which waited for frames only {} of the time",
                        seen.detectors,
                        share(seen.batch)
                    ),
                )
            })
        },
        advice: "run one detector more, so that one computes while others copy and decode",
        keys: &["detector.workers"],
    },
    Rule {
        name: "launch_limit",
        speak: |seen| {
            let idle = idle(seen).filter(|idle| *idle >= IDLE)?;
            (seen.kernel_ns > 0.0 && seen.kernel_ns < SHORT_KERNEL && seen.launching >= 0.5).then(
                || {
                    (
                        format!(
                            "GPU idle {}: launching kernels takes longer than running them",
                            share(idle)
                        ),
                        format!(
                            "a kernel takes {:.1} µs, and {} of infer went into launching",
                            seen.kernel_ns / 1e3,
                            share(seen.launching)
                        ),
                    )
                },
            )
        },
        advice: "take larger batches",
        keys: &["detector.batch_size"],
    },
    Rule {
        name: "network_on_cpu",
        speak: |seen| {
            (seen.gpu_busy.is_none() && seen.infer >= LIMIT).then(|| {
                (
                    "the network runs on the CPU and is the limit".to_owned(),
                    format!(
                        "{} of the detectors' time went into infer, and no GPU was seen at work",
                        share(seen.infer)
                    ),
                )
            })
        },
        advice: "run it on a GPU, take a smaller or INT8 model, or use the cores that are free",
        keys: &[
            "detector.backend",
            "detector.onnx_provider",
            "detector.precision",
            "detector.workers",
        ],
    },
    Rule {
        name: "tracking_limit",
        speak: |seen| {
            (seen.track >= LIMIT).then(|| {
                (
                    "CPU-bound in track: one thread follows all objects and is full".to_owned(),
                    format!("{} of its time went into track", share(seen.track)),
                )
            })
        },
        advice: "match greedily, and do not track what hardly scores",
        keys: &["tracker.association", "tracker.min_new_track_score"],
    },
    Rule {
        name: "publishing_waits_for_disk",
        speak: |seen| {
            (seen.disk >= DISK).then(|| {
                (
                    "publishing waits for the disk".to_owned(),
                    format!(
                        "thread {} was in calls that write for {} of the time",
                        seen.disk_thread,
                        share(seen.disk)
                    ),
                )
            })
        },
        advice: "write to a faster disk, write less often, or leave the tracks of every frame out",
        keys: &[
            "publish.json_lines.path",
            "publish.update_interval_ms",
            "publish.detections",
        ],
    },
    Rule {
        name: "publishing_limit",
        speak: |seen| {
            (seen.publish >= LIMIT && seen.disk < DISK).then(|| {
                (
                    "CPU-bound in publish: making messages is the limit".to_owned(),
                    format!(
                        "{} of the follower's time went into publish",
                        share(seen.publish)
                    ),
                )
            })
        },
        advice: "publish less often, and leave the tracks of every frame out",
        keys: &["publish.update_interval_ms", "publish.detections"],
    },
    Rule {
        name: "pageable_copies",
        speak: |seen| {
            (seen.pageable.1 >= NOTICEABLE).then(|| {
                (
                    "copies that should run beside other work wait: their memory is pageable"
                        .to_owned(),
                    format!(
                        "{} copies, {} of the time",
                        seen.pageable.0,
                        share(seen.pageable.1)
                    ),
                )
            })
        },
        advice: "this is the program's to change, not the configuration's: copy from pinned memory",
        keys: &[],
    },
    Rule {
        name: "synchronous_copies",
        speak: |seen| {
            (seen.sync_copies.1 >= NOTICEABLE).then(|| {
                (
                    "copies make the CPU wait for the GPU".to_owned(),
                    format!(
                        "{} synchronous copies, {} of the time",
                        seen.sync_copies.0,
                        share(seen.sync_copies.1)
                    ),
                )
            })
        },
        advice: "this is the program's to change, not the configuration's: copy on a stream",
        keys: &[],
    },
    beside::RENDERING,
    beside::SECONDARY,
];

fn idle(seen: &Evidence) -> Option<f64> {
    seen.gpu_busy.map(|busy| 1.0 - busy)
}

fn idle_words(seen: &Evidence) -> String {
    idle(seen).map_or_else(String::new, |idle| format!("GPU idle {}: ", share(idle)))
}
