// SPDX-License-Identifier: Apache-2.0
//! What takes most of the detectors' time, for benchmarks: they have the shares of the stages and no path through them.

use jetwatch_telemetry::Stage;

use super::{Finding, percent};
use crate::report::metrics::CaptureMetrics;

/// Name of the finding.
const RULE: &str = "stage_shares";

/// What is said of a stage.
struct Advice {
    stage: Stage,
    /// Whether the network ran on a GPU; `None`: either.
    on_gpu: Option<bool>,
    /// Whether it holds only where no core is idle.
    on_full_cpu: bool,
    text: &'static str,
    advice: &'static str,
    keys: &'static [&'static str],
}

const ADVICE: &[Advice] = &[
    Advice {
        stage: Stage::Infer,
        on_gpu: Some(false),
        on_full_cpu: true,
        text: "inference is",
        advice: "run it on a GPU, or use a smaller or INT8 model; no core is idle for more workers",
        keys: &["detector.backend", "detector.precision", "detector.model"],
    },
    Advice {
        stage: Stage::Infer,
        on_gpu: Some(true),
        on_full_cpu: false,
        text: "inference is",
        advice: "use INT8 or FP16, a smaller model or input, or another batch size (--sweep detector.batch_size=1,2,4,8)",
        keys: &[
            "detector.precision",
            "detector.model",
            "detector.batch_size",
        ],
    },
    Advice {
        stage: Stage::Infer,
        on_gpu: Some(false),
        on_full_cpu: false,
        text: "inference is",
        advice: "run it on a GPU, use a smaller or INT8 model, or another number of workers (--sweep detector.workers=1,2)",
        keys: &[
            "detector.backend",
            "detector.precision",
            "detector.model",
            "detector.workers",
        ],
    },
    Advice {
        stage: Stage::Batch,
        on_gpu: None,
        on_full_cpu: false,
        text: "waiting for frames is",
        advice: "the detectors could take more: make the sources faster, add sources, or wait shorter for full batches",
        keys: &[
            "sources",
            "detector.batch_timeout_ms",
            "detector.batch_size",
        ],
    },
    Advice {
        stage: Stage::Tensor,
        on_gpu: None,
        on_full_cpu: false,
        text: "writing input tensors is",
        advice: "use TensorRT, which makes tensors on the GPU, or add one detector",
        keys: &["detector.backend", "detector.workers"],
    },
    Advice {
        stage: Stage::Decode,
        on_gpu: None,
        on_full_cpu: false,
        text: "decoding outputs to boxes is",
        advice: "raise the score threshold, keep fewer classes, or add one detector",
        keys: &[
            "detector.score_threshold",
            "detector.classes",
            "detector.workers",
        ],
    },
];

/// The largest share and the keys to change; `None` where the shares are unknown.
pub(super) fn finding(metrics: &CaptureMetrics) -> Option<Finding> {
    let shares = &metrics.detector_shares;
    // A script is no network that could be faster.
    let is_script = |stage: Stage| metrics.is_scripted && stage == Stage::Infer;
    let (stage, share) = *shares.first().filter(|(stage, _)| !is_script(*stage))?;
    let is_on_gpu = |wanted: Option<bool>| wanted.is_none_or(|it| it == metrics.timed_on_gpu);
    let fits = |advice: &&Advice| {
        advice.stage == stage
            && is_on_gpu(advice.on_gpu)
            && (!advice.on_full_cpu || metrics.run.is_cpu_full())
    };
    let found = ADVICE.iter().find(fits)?;
    let each: Vec<String> = shares
        .iter()
        .map(|(stage, share)| format!("{} {}", stage.name(), percent(*share)))
        .collect();
    Some(Finding {
        rule: RULE,
        text: format!("{} {} of the detectors' time", found.text, percent(share)),
        evidence: each.join(", "),
        advice: found.advice,
        keys: found.keys,
        stage: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_share_is_named_with_its_keys() {
        let mut metrics = CaptureMetrics {
            detector_shares: vec![(Stage::Infer, 0.94), (Stage::Tensor, 0.04)],
            ..CaptureMetrics::default()
        };
        let found = finding(&metrics).expect("the detectors were measured");
        assert_eq!(found.text, "inference is 94 % of the detectors' time");
        assert_eq!(found.evidence, "infer 94 %, tensor 4 %");
        assert!(found.keys.contains(&"detector.backend"));
        metrics.timed_on_gpu = true;
        let found = finding(&metrics).expect("the same");
        assert!(found.keys.contains(&"detector.batch_size"));
        assert_eq!(finding(&CaptureMetrics::default()), None);
    }
}
