//! Shares of the detectors' time in a benchmark: what its verdict begins with.

use serde_json::Value;

use jetwatch_telemetry::Stage;

use super::super::advice::Finding;
use super::super::metrics::CaptureMetrics;
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

/// The metrics of a run for the rules of the verdict: `run` as `jetwatch bench` writes it, and the detectors' shares.
pub(super) fn metrics(run: &Value, shares: &[(Stage, f64)]) -> CaptureMetrics {
    let mut metrics = CaptureMetrics::from_run(run);
    let share = |stage: Stage| {
        let found = shares.iter().find(|(other, _)| *other == stage);
        found.map_or(0.0, |(_, share)| *share)
    };
    metrics.batch = share(Stage::Batch);
    metrics.tensor = share(Stage::Tensor);
    metrics.infer = share(Stage::Infer);
    metrics.decode = share(Stage::Decode);
    let stages = run["stages"].as_array().into_iter().flatten();
    let total_ms = |wanted: &dyn Fn(Stage) -> bool| -> f64 {
        let is_wanted = |name: &str| {
            Stage::ALL
                .iter()
                .any(|stage| stage.name() == name && wanted(*stage))
        };
        let found = stages
            .clone()
            .filter(|stage| stage["stage"].as_str().is_some_and(is_wanted));
        found.filter_map(|stage| stage["total_ms"].as_f64()).sum()
    };
    let run_ms = run["duration_s"].as_f64().unwrap_or(0.0) * 1e3;
    if shares.is_empty() || run_ms <= 0.0 {
        return metrics;
    }
    let of_run = |ms: f64, threads: usize| ms / (run_ms * threads.max(1) as f64);
    let workers = run["workers"]
        .as_u64()
        .and_then(|workers| usize::try_from(workers).ok());
    metrics.detectors = workers.unwrap_or(0);
    metrics.span_ns = (run_ms * 1e6) as i64;
    let sources = run["sources"].as_array().map_or(1, Vec::len);
    metrics.source = of_run(total_ms(&|stage| stage == Stage::Source), sources);
    metrics.track = of_run(total_ms(&|stage| stage == Stage::Track), 1);
    metrics.publish = of_run(total_ms(&|stage| stage == Stage::Publish), 1);
    // Of a recorded graph only one run in some is timed on the GPU.
    let count = |wanted: Stage| {
        let mut found = stages
            .clone()
            .filter(|stage| stage["stage"] == wanted.name());
        found.find_map(|stage| stage["count"].as_f64())
    };
    let (runs, timed) = (count(Stage::Infer), count(Stage::GpuNetwork));
    let of_timed = runs.zip(timed.filter(|timed| *timed > 0.0));
    let factor = of_timed.map_or(1.0, |(runs, timed)| (runs / timed).max(1.0));
    let gpu = total_ms(&Stage::is_on_gpu) * factor;
    metrics.gpu_busy = (gpu > 0.0).then(|| of_run(gpu, 1).min(1.0));
    metrics
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
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn rules_see_shares_of_run_and_detectors() {
        let run = json!({"duration_s": 2.0, "workers": 2, "sources": [{}, {}], "stages": [
            {"stage": "source", "total_ms": 3200.0}, {"stage": "track", "total_ms": 1800.0},
            {"stage": "infer", "count": 40, "total_ms": 2000.0},
            {"stage": "gpu_network", "count": 10, "total_ms": 225.0}, {"stage": "gpu_copy_in", "count": 10, "total_ms": 25.0},
        ]});
        let found = metrics(&run, &[(Stage::Infer, 0.7), (Stage::Batch, 0.25)]);
        assert_eq!((found.infer, found.batch, found.decode), (0.7, 0.25, 0.0));
        assert_eq!((found.source, found.track, found.detectors), (0.8, 0.9, 2));
        // One of four runs was timed: 250 ms of it are 1000 ms of 2000.
        assert_eq!(found.gpu_busy, Some(0.5));
        // Without measured detectors only the stages beside the pipeline count.
        assert_eq!(metrics(&run, &[]).track, 0.0);
    }
}
