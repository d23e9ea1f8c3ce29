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

/// The secondary networks of a capture that ran, by name: means over their batches.
pub(super) fn networks(capture: &Capture) -> Vec<NetworkNotes> {
    // Sums in place of means: crops, waits and work in ms, and the capacity of a batch.
    let mut networks: BTreeMap<&str, (u64, [f64; 4])> = BTreeMap::new();
    for range in &capture.ranges {
        let is_wait = match capture.stage(range) {
            Some(Stage::SecondaryWait) => true,
            Some(Stage::Secondary) => false,
            _ => continue,
        };
        let thread = capture.thread(range.thread).name.as_deref();
        let network = thread_names::secondary_network(thread.unwrap_or_default());
        let (batches, [crops, wait, work, size]) = networks.entry(network).or_default();
        let (ms, payload) = (range.duration() as f64 / MS, f64::from(range.payload));
        if is_wait {
            *size = size.max(payload);
            *wait += ms;
        } else {
            *batches += 1;
            *crops += payload;
            *work += ms;
        }
    }
    let ran = networks
        .into_iter()
        .filter(|(_, (batches, _))| *batches > 0);
    let mean = |(name, (batches, [crops, wait, work, size])): (&str, (u64, [f64; 4]))| {
        let mean = |sum: f64| Some(sum / batches as f64);
        NetworkNotes {
            name: name.to_owned(),
            batches,
            batch_size: Some(size),
            mean_batch: mean(crops),
            wait_ms: mean(wait),
            infer_ms: mean(work),
            ..NetworkNotes::default()
        }
    };
    ran.map(mean).collect()
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
        let light = NetworkNotes {
            name: "light".to_owned(),
            batches: 10,
            mean_batch: Some(3.2),
            batch_size: Some(16.0),
            wait_ms: Some(10.0),
            infer_ms: Some(1.5),
            suggested_batch_size: Some(5.0),
            ..NetworkNotes::default()
        };
        assert_eq!(metrics.secondary, [light]);
        assert_eq!(
            CaptureMetrics::from_run(&Value::Null, &Value::Null),
            CaptureMetrics::default()
        );
    }
}
