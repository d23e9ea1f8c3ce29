// SPDX-License-Identifier: Apache-2.0
//! What a run states beside the times of its stages: who used the CPU, how late frames were, and what each output lost. It is in the
//! statistics of `jetwatch run`, which `benchmark.json` holds as `run`, and which `jetwatch profile` writes next to a profile.

use serde::Deserialize;
use serde_json::Value;

use jetwatch_platform::Occupancy;
use jetwatch_telemetry::{LatencyReport, OutputReport};

/// Share of the frames, or of the crops, from which drops are reported.
const NOTICEABLE: f64 = 0.005;

/// The statistics of a run, as far as the rules need them. Those of earlier versions lack some.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct RunNotes {
    /// Length, in seconds.
    pub duration_s: f64,
    /// Frames processed, and those that newer ones replaced.
    pub frames: u64,
    pub dropped: u64,
    /// Most frames of a batch; 0: unknown.
    pub batch_size: u64,
    pub latency: Option<LatencyReport>,
    pub occupancy: Option<Occupancy>,
    /// What throttled the machine.
    pub throttled: Vec<String>,
    pub outputs: Vec<OutputReport>,
    pub sources: Vec<SourceNotes>,
    pub secondary: Vec<NetworkNotes>,
}

/// One source.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct SourceNotes {
    pub name: String,
    pub live: bool,
    pub detected: u64,
    pub dropped: u64,
}

/// One secondary network.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NetworkNotes {
    pub name: String,
    pub crops: u64,
    pub dropped_crops: u64,
}

impl RunNotes {
    /// Of the statistics of a run, with what `meta` of a `benchmark.json` adds.
    pub(super) fn new(run: &Value, meta: &Value) -> Self {
        let mut notes = Self::deserialize(run).unwrap_or_default();
        let causes = meta["throttling"].as_array().into_iter().flatten();
        for cause in causes.filter_map(Value::as_str) {
            if !notes.throttled.iter().any(|known| known == cause) {
                notes.throttled.push(cause.to_owned());
            }
        }
        notes
    }

    /// Whether sources brought noticeably more frames than were taken.
    pub(crate) fn drops_frames(&self) -> bool {
        self.dropped as f64 > (self.frames + self.dropped) as f64 * NOTICEABLE
    }

    /// Whether an output lost something.
    pub(crate) fn loses(&self) -> bool {
        self.outputs.iter().any(|output| output.lost > 0)
    }

    /// Whether no core is without work; false where it is unknown.
    pub(crate) fn is_cpu_full(&self) -> bool {
        let occupancy = self.occupancy.as_ref();
        occupancy.is_some_and(|found| !found.has_idle_core())
    }

    /// The latency in words; empty where no source is live.
    pub(crate) fn describe_latency(&self) -> String {
        let Some(latency) = &self.latency else {
            return String::new();
        };
        let parts = latency.parts.iter();
        let parts: Vec<String> = parts
            .map(|part| format!("{} {:.1}", part.part, part.latency.median_ms))
            .collect();
        let whole = &latency.whole;
        format!(
            "from its arrival to its messages a frame takes {:.1} ms (median; 95 %: {:.1}, maximum {:.1}; medians of the parts: {})",
            whole.median_ms,
            whole.p95_ms,
            whole.max_ms,
            parts.join(", ")
        )
    }
}

impl NetworkNotes {
    /// Whether it drops noticeably many crops.
    pub(crate) fn drops(&self) -> bool {
        let all = self.crops + self.dropped_crops;
        self.dropped_crops as f64 > all as f64 * NOTICEABLE
    }
}
