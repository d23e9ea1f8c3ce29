// SPDX-License-Identifier: Apache-2.0
//! What a run states beside the times of its stages: who used the CPU, how late frames were, and what each output lost. It is in the
//! statistics of `jetwatch run`, which `benchmark.json` holds as `run`, and which `jetwatch profile` writes next to a profile.

use std::cmp::Reverse;

use serde::Deserialize;
use serde_json::Value;

use jetwatch_platform::Occupancy;
use jetwatch_telemetry::{LatencyReport, OutputReport, Stage};

/// Share of the frames, or of the crops, from which drops are reported.
const NOTICEABLE: f64 = 0.005;

/// Frames below which a run is too short for a verdict on its stages.
const MIN_FRAMES: u64 = 20;

/// The same of its length, in seconds, where other programs take the CPU: a thread may be off its core for 50 ms.
const MIN_DISTURBED_S: f64 = 1.0;

/// Share of the cores, or of a thread's time, that work may need so that it certainly fits.
const ENOUGH: f64 = 0.8;

/// The statistics of a run, as far as the rules need them. Those of earlier versions lack some.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct RunNotes {
    /// Length, in seconds.
    pub duration_s: f64,
    /// Backend, model, precision and device of the detector.
    pub detector: String,
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
    pub stages: Vec<StageNotes>,
    pub recording: RecordingNotes,
    /// Of a trial of streams, in which each lost frame counts, the frames that came late.
    #[serde(skip)]
    pub late_in_trial: Option<u64>,
}

/// The recording.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct RecordingNotes {
    /// Name of GStreamer's element.
    pub encoder: String,
}

/// One source.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct SourceNotes {
    pub name: String,
    pub live: bool,
    pub frames: u64,
    pub detected: u64,
    pub dropped: u64,
    pub late: u64,
    pub above_max_fps: u64,
    pub behind_loss: u64,
    pub reconnects: u64,
}

/// One secondary network: of a run, or its mean over the runs of a series.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct NetworkNotes {
    pub name: String,
    pub batches: u64,
    pub objects: u64,
    pub small_objects: u64,
    pub frames_without_pixels: u64,
    pub crops: f64,
    pub crops_per_s: Option<f64>,
    pub crops_per_frame: Option<f64>,
    pub dropped_crops: f64,
    pub dropped_percent: Option<f64>,
    pub batch_size: Option<f64>,
    pub mean_batch: Option<f64>,
    #[serde(alias = "mean_wait_ms")]
    pub wait_ms: Option<f64>,
    #[serde(alias = "mean_infer_ms")]
    pub infer_ms: Option<f64>,
    pub suggested_batch_size: Option<f64>,
}

/// The times of one stage over a run.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct StageNotes {
    pub stage: String,
    pub count: f64,
    pub items: f64,
    pub total_ms: f64,
    pub cpu_ms: Option<f64>,
    pub busy_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

impl RunNotes {
    /// Of the statistics of a run, with what `meta` of a `benchmark.json` adds.
    pub(crate) fn new(run: &Value, meta: &Value) -> Self {
        let mut notes = Self::deserialize(run).unwrap_or_default();
        if let Some(detector) = meta["versions"]["detector"].as_str() {
            notes.detector = detector.to_owned();
        }
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
        self.is_noticeable(self.dropped)
    }

    /// Frames that files which are played at a pace gave too late, where they are noticeably many; zero otherwise.
    pub(crate) fn late(&self) -> u64 {
        let late = self.sources.iter().map(|source| source.late).sum();
        let late = self.late_in_trial.unwrap_or(late);
        if self.is_noticeable(late) { late } else { 0 }
    }

    fn is_noticeable(&self, lost: u64) -> bool {
        let all = (self.frames + self.dropped) as f64;
        lost as f64 > all * self.late_in_trial.map_or(NOTICEABLE, |_| 0.0)
    }

    /// A number of a stage; zero where the stage did not run.
    pub(super) fn of_stage(&self, stage: Stage, number: fn(&StageNotes) -> f64) -> f64 {
        let found = self.stages.iter().find(|found| found.stage == stage.name());
        found.map_or(0.0, number)
    }

    /// The sum of the times of a stage, in ms.
    pub(super) fn total_ms(&self, stage: Stage) -> f64 {
        self.of_stage(stage, |found| found.total_ms)
    }

    /// Whether an output lost something.
    pub(crate) fn loses(&self) -> bool {
        self.outputs.iter().any(|output| output.lost > 0)
    }

    /// The live sources that were opened again, or whose images were lost on the way, the worst first.
    pub(crate) fn lost_sources(&self) -> Vec<&SourceNotes> {
        let is_lost = |it: &&SourceNotes| {
            let behind_loss = it.behind_loss as f64;
            let is_noticeable = behind_loss > (it.frames as f64 + behind_loss) * NOTICEABLE;
            it.live && (it.reconnects > 0 || is_noticeable)
        };
        let mut lost: Vec<&SourceNotes> = self.sources.iter().filter(is_lost).collect();
        lost.sort_by_key(|it| Reverse((it.reconnects, it.behind_loss)));
        lost
    }

    /// Whether it has too few frames for a verdict on its stages, or one wait for a core may be a large part of it.
    pub(crate) fn is_short(&self) -> bool {
        let is_brief = self.duration_s < MIN_DISTURBED_S && self.is_disturbed();
        (1..MIN_FRAMES).contains(&self.frames) || is_brief && self.frames > 0
    }

    /// Whether other programs took so much of the CPU that times are longer than on a free machine.
    pub(crate) fn is_disturbed(&self) -> bool {
        let occupancy = self.occupancy.as_ref();
        occupancy.is_some_and(Occupancy::is_disturbed)
    }

    /// Share of the time in which its threads could run that they waited for a core, where other programs took the CPU.
    pub(super) fn core_wait(&self) -> f64 {
        let occupancy = self.occupancy.as_ref();
        let disturbed = occupancy.filter(|found| found.is_disturbed());
        disturbed.and_then(|it| it.core_wait).unwrap_or_default()
    }

    /// Cores that it needs for all its frames, where other programs took them, and frames were dropped although there is room for
    /// them. `network_cpu` is the CPU time of the network as a share of its threads' time.
    pub(crate) fn cores_needed(&self, network_cpu: f64) -> Option<f64> {
        let found = self.occupancy.as_ref()?;
        let all = (self.frames + self.dropped) as f64 / (self.frames as f64).max(1.0);
        let (cores, network) = (found.own_cores * all, network_cpu * all);
        let has_room = cores < ENOUGH * found.allowed_cores as f64 && network < ENOUGH;
        let is_missing = self.drops_frames() && found.is_disturbed() && !found.is_held_by_quota();
        (is_missing && has_room).then_some(cores)
    }

    /// Whether a script takes the place of the network.
    pub(crate) fn is_scripted(&self) -> bool {
        self.detector.starts_with("scripted")
    }

    /// Whether a DLA runs the network.
    pub(crate) fn is_on_dla(&self) -> bool {
        self.detector.contains(", DLA ")
    }

    /// Whether the recording has an encoder in hardware.
    pub(crate) fn encodes_in_hardware(&self) -> bool {
        self.recording.encoder.starts_with("nvv4l2")
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
        let parts = parts.map(|part| format!("{} {:.1}", part.part, part.latency.median_ms));
        let parts: Vec<String> = parts.collect();
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
        self.dropped_crops > all * NOTICEABLE
    }
}
