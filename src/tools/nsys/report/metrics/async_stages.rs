// SPDX-License-Identifier: Apache-2.0
//! Metrics of the recording and of secondary networks, from a capture or from the run in `benchmark.json`.

use std::collections::BTreeMap;

use super::{NetworkNotes, RunNotes};
use crate::report::capture::Capture;
use crate::report::critical_path::CriticalPath;
use crate::report::run_tables::MS;
use jetwatch_telemetry::{Stage, thread_names};

/// Costs of a recorded frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Rendering {
    /// Drawing one frame, in ns.
    pub draw_ns: f64,
    /// Handing it to the encoder, in ns per drawn frame.
    pub encoder_ns: f64,
    /// The primary network on one frame, in ns.
    pub infer_ns: f64,
    /// Share of the time in which the recording's thread did either.
    pub share: f64,
}

/// Batches of one secondary network.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SecondaryBatches {
    /// The network.
    pub name: String,
    /// Mean number of crops in a batch.
    pub crops: f64,
    /// Capacity of a batch, in crops.
    pub batch_size: u64,
    /// Mean wait for one batch, in ns.
    pub wait_ns: f64,
    /// Mean processing time of one batch, in ns.
    pub work_ns: f64,
    /// Batch size that would be full.
    pub suggested: u64,
}

impl Rendering {
    /// From the stages of a capture; `None` where nothing was drawn.
    pub(super) fn from_path(path: &CriticalPath, capture: &Capture, span_ns: i64) -> Option<Self> {
        let drawn = path.stage(Stage::Render)?.ranges as f64;
        let ranges = capture.ranges.iter();
        let inferred = ranges.filter(|range| capture.stage(range) == Some(Stage::Infer));
        let inferred: u64 = inferred.map(|range| u64::from(range.payload)).sum();
        let total = |stage| path.stage(stage).map_or(0, |times| times.total_ns) as f64;
        Self::new(total, drawn, inferred as f64, span_ns as f64)
    }

    /// From a run; `None` where nothing was drawn.
    pub(super) fn from_run(run: &RunNotes) -> Option<Self> {
        let drawn = run.of_stage(Stage::Render, |found| found.count);
        let inferred = run.of_stage(Stage::Infer, |found| found.items);
        let total = |stage| run.total_ms(stage) * MS;
        Self::new(total, drawn, inferred, run.duration_s * 1e9)
    }

    /// Of the sums of stages in ns, and of frames drawn and inferred in `span_ns`.
    fn new(total: impl Fn(Stage) -> f64, drawn: f64, inferred: f64, span_ns: f64) -> Option<Self> {
        let [draw, encode] = [Stage::Render, Stage::Encode].map(&total);
        (drawn > 0.0 && span_ns > 0.0).then(|| Self {
            draw_ns: draw / drawn,
            encoder_ns: encode / drawn,
            infer_ns: total(Stage::Infer) / inferred.max(1.0),
            share: (draw + encode) / span_ns,
        })
    }
}

impl SecondaryBatches {
    /// From the ranges of a capture.
    pub(super) fn from_capture(capture: &Capture) -> Vec<Self> {
        // The number of batches, and sums in place of means.
        let mut networks: BTreeMap<&str, (u64, Self)> = BTreeMap::new();
        for range in &capture.ranges {
            let stage = capture.stage(range);
            if !matches!(stage, Some(Stage::SecondaryWait | Stage::Secondary)) {
                continue;
            }
            let thread = capture.thread(range.thread).name.as_deref();
            let network = thread_names::secondary_network(thread.unwrap_or_default());
            let (batches, sums) = networks.entry(network).or_default();
            if stage == Some(Stage::SecondaryWait) {
                sums.batch_size = sums.batch_size.max(u64::from(range.payload));
                sums.wait_ns += range.duration() as f64;
            } else {
                *batches += 1;
                sums.crops += f64::from(range.payload);
                sums.work_ns += range.duration() as f64;
            }
        }
        let networks = networks.into_iter();
        let ran = networks.filter(|(_, (batches, _))| *batches > 0);
        let mean = |(name, (batches, sums)): (&str, (u64, Self))| {
            let batches = batches as f64;
            Self {
                name: name.to_owned(),
                crops: sums.crops / batches,
                wait_ns: sums.wait_ns / batches,
                work_ns: sums.work_ns / batches,
                suggested: Self::mean_batch(sums.crops / batches),
                ..sums
            }
        };
        ran.map(mean).collect()
    }

    /// A network of a run; `None` where it never ran, or where an older run does not state what a batch holds.
    pub(super) fn from_network(network: &NetworkNotes) -> Option<Self> {
        let (crops, batch_size) = (network.mean_batch?, network.batch_size? as u64);
        let objects = network.suggested_batch_size? as u64;
        (network.batches > 0).then_some(Self {
            name: network.name.clone(),
            crops,
            batch_size,
            wait_ns: network.wait_ms? * MS,
            work_ns: network.infer_ms? * MS,
            // The objects of a frame arrive together, unless most of them are known already.
            suggested: match objects < batch_size {
                true => objects,
                false => Self::mean_batch(crops),
            },
        })
    }

    /// The mean, as a whole number that a batch can have.
    fn mean_batch(crops: f64) -> u64 {
        (crops.round() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::metrics::CaptureMetrics;

    #[test]
    fn run_metrics_equal_hand_computed_values() {
        let run = json!({
            "duration_s": 2.0,
            "stages": [
                {"stage": "infer", "count": 50, "items": 200, "total_ms": 1000.0},
                {"stage": "render", "count": 100, "items": 100, "total_ms": 300.0},
                {"stage": "encode", "count": 100, "items": 100, "total_ms": 900.0},
            ],
            "secondary": [
                {"name": "light", "batches": 10, "mean_batch": 3.2, "batch_size": 16, "suggested_batch_size": 5,
                 "mean_wait_ms": 10.0, "mean_infer_ms": 1.5},
                {"name": "idle", "batches": 0, "mean_batch": 0.0, "batch_size": 16, "suggested_batch_size": 1,
                 "mean_wait_ms": 0.0, "mean_infer_ms": 0.0},
            ],
        });
        let metrics = CaptureMetrics::from_run(&run, &Value::Null);
        let wanted = Rendering {
            draw_ns: 3e6,
            encoder_ns: 9e6,
            infer_ns: 5e6,
            share: 0.6,
        };
        assert_eq!(metrics.rendering, Some(wanted));
        let light = SecondaryBatches {
            name: "light".to_owned(),
            crops: 3.2,
            batch_size: 16,
            wait_ns: 10e6,
            work_ns: 1.5e6,
            suggested: 5,
        };
        assert_eq!(metrics.secondary, [light]);
        assert_eq!(
            CaptureMetrics::from_run(&Value::Null, &Value::Null),
            CaptureMetrics::default()
        );
    }
}
