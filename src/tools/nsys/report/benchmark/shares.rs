//! Shares of the detectors' time in a benchmark: what its verdict ends with.

use jetwatch_telemetry::Stage;

use super::super::advice::Finding;
use super::TimedRange;

/// The level of the detectors.
const DETECT: &str = "jetwatch/detect";

/// Name of the finding.
const RULE: &str = "stage_shares";

/// Shares of the detectors' time, 0 to 1, largest first; empty if the detectors were not measured.
pub(super) fn shares(ranges: &[TimedRange]) -> Vec<(Stage, f64)> {
    // A range that is not in every batch counts as often as it was there.
    let time = |range: &TimedRange| Some(range.cpu.mean? * range.cpu.count.unwrap_or(1.0));
    let find = |path: &str| {
        ranges
            .iter()
            .find(|range| range.path == path)
            .and_then(time)
    };
    let Some(whole) = find(DETECT).filter(|whole| *whole > 0.0) else {
        return Vec::new();
    };
    let stages = [Stage::Batch, Stage::Tensor, Stage::Infer, Stage::Decode];
    let mut shares: Vec<(Stage, f64)> = stages
        .into_iter()
        .filter_map(|stage| Some((stage, find(&format!("{DETECT}/{}", stage.name()))? / whole)))
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares
}

/// What takes most of the detectors' time, and the keys to change; `None` if they were not measured. `timed_on_gpu` is whether
/// the network ran on a GPU.
pub(super) fn finding(shares: &[(Stage, f64)], timed_on_gpu: bool) -> Option<Finding> {
    let (stage, share) = *shares.first()?;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let each: Vec<String> = shares
        .iter()
        .map(|(stage, share)| format!("{} {}", stage.name(), percent(*share)))
        .collect();
    let (what, advice, keys): (&str, &str, &[&str]) = match stage {
        Stage::Infer if timed_on_gpu => (
            "inference is",
            "use INT8 or FP16, a smaller model or input, or another batch size (--sweep detector.batch_size=1,2,4,8)",
            &[
                "detector.precision",
                "detector.model",
                "detector.batch_size",
            ],
        ),
        Stage::Infer => (
            "inference is",
            "run it on a GPU, use a smaller or INT8 model, or another number of workers (--sweep detector.workers=1,2)",
            &[
                "detector.backend",
                "detector.precision",
                "detector.model",
                "detector.workers",
            ],
        ),
        Stage::Batch => (
            "waiting for frames is",
            "the detectors could take more: make the sources faster, add sources, or wait shorter for full batches",
            &[
                "sources",
                "detector.batch_timeout_ms",
                "detector.batch_size",
            ],
        ),
        Stage::Tensor => (
            "writing input tensors is",
            "use TensorRT, which makes tensors on the GPU, or add one detector",
            &["detector.backend", "detector.workers"],
        ),
        _ => (
            "decoding outputs to boxes is",
            "raise the score threshold, keep fewer classes, or add one detector",
            &[
                "detector.score_threshold",
                "detector.classes",
                "detector.workers",
            ],
        ),
    };
    Some(Finding {
        rule: RULE,
        text: format!("{what} {} of the detectors' time", percent(share)),
        evidence: each.join(", "),
        advice,
        keys,
        stage: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Statistics;
    use super::*;

    fn ranges(times: &[(&str, f64, f64)]) -> Vec<TimedRange> {
        let range = |(path, mean, count): &(&str, f64, f64)| TimedRange {
            path: (*path).to_owned(),
            cpu: Statistics {
                mean: Some(*mean),
                count: Some(*count),
                ..Statistics::default()
            },
            ..TimedRange::default()
        };
        times.iter().map(range).collect()
    }

    #[test]
    fn largest_share_is_named_with_its_keys() {
        let ranges = ranges(&[
            ("jetwatch/detect", 10.0, 20.0),
            ("jetwatch/detect/infer", 9.4, 20.0),
            // In half of the batches.
            ("jetwatch/detect/tensor", 0.8, 10.0),
            ("jetwatch/track", 99.0, 20.0),
        ]);
        let shares = shares(&ranges);
        let found = finding(&shares, false).expect("the detectors were measured");
        assert_eq!(found.text, "inference is 94 % of the detectors' time");
        assert_eq!(found.evidence, "infer 94 %, tensor 4 %");
        assert!(found.keys.contains(&"detector.backend"));
        assert!(
            finding(&shares, true)
                .expect("the same")
                .keys
                .contains(&"detector.batch_size")
        );
        assert_eq!(finding(&[], true), None);
    }
}
