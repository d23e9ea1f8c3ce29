// SPDX-License-Identifier: Apache-2.0
//! What takes most of the detectors' time, for benchmarks: they have the shares of the stages and no path through them.

use jetwatch_telemetry::Stage;

use super::rules::{DECODE_ADVICE, DECODE_KEYS, DLA_ADVICE, DLA_KEYS, TENSOR_ADVICE, TENSOR_KEYS};
use super::{Finding, losses, percent, split};
use crate::report::metrics::CaptureMetrics;

/// Name of the finding.
const RULE: &str = "stage_shares";

/// What is said of a stage in a capture to which it applies: the subject of the sentence, the remedy, and keys.
type Advice = (Stage, fn(&CaptureMetrics) -> bool, [&'static str; 3]);

/// Of each stage, the first that applies counts.
#[rustfmt::skip]
const ADVICE: &[Advice] = &[
    (Stage::Infer, |metrics| metrics.run.is_on_dla(), ["inference is", DLA_ADVICE, DLA_KEYS]),
    (Stage::Infer, |metrics| metrics.timed_on_gpu, ["inference is", "use INT8 or FP16, a smaller model or input, or another batch size (--sweep detector.batch_size=1,2,4,8)",
        "detector.precision detector.model detector.batch_size"]),
    (Stage::Infer, |metrics| metrics.run.is_cpu_full(), ["inference is", "run it on a GPU, or use a smaller or INT8 model; no core is idle for more workers",
        "detector.backend detector.precision detector.model"]),
    (Stage::Infer, |_| true, ["inference is", "run it on a GPU, use a smaller or INT8 model, or another number of workers (--sweep detector.workers=1,2)",
        "detector.backend detector.precision detector.model detector.workers"]),
    // What they wait for is slow, or an output is.
    (Stage::Batch, is_limited, ["waiting for frames is", "the detectors could take more; what is said above comes first", ""]),
    (Stage::Batch, |_| true, ["waiting for frames is", "the detectors could take more: make the sources faster, add sources, or wait shorter for full batches",
        "sources detector.batch_timeout_ms detector.batch_size"]),
    (Stage::Tensor, |_| true, ["writing input tensors is", TENSOR_ADVICE, TENSOR_KEYS]),
    (Stage::Decode, |_| true, ["decoding outputs to boxes is", DECODE_ADVICE, DECODE_KEYS]),
];

/// Whether something limits the run before the detectors, or behind them, so that more frames would not help.
fn is_limited(metrics: &CaptureMetrics) -> bool {
    let limit = metrics.limit.map(|limit| limit.stage);
    losses::limits(metrics) || limit.is_some_and(|limit| limit != Stage::Input)
}

/// The largest share and the keys to change; `None` where the shares are unknown.
pub(super) fn finding(metrics: &CaptureMetrics) -> Option<Finding> {
    let shares = &metrics.detector_shares;
    // A script is no network that could be faster.
    let is_script = |stage: Stage| metrics.run.is_scripted() && stage == Stage::Infer;
    let (stage, share) = *shares.first().filter(|(stage, _)| !is_script(*stage))?;
    let mut advice = ADVICE.iter().filter(|(own, ..)| *own == stage);
    let (.., [subject, advice, keys]) = advice.find(|(_, applies, _)| applies(metrics))?;
    let text = |(stage, share): &(Stage, f64)| format!("{} {}", stage.name(), percent(*share));
    let each: Vec<String> = shares.iter().map(text).collect();
    Some(Finding {
        rule: RULE,
        text: format!("{subject} {} of the detectors' time", percent(share)),
        evidence: each.join(", "),
        advice,
        keys: split(keys),
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
