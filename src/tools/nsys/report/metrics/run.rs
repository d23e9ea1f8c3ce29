// SPDX-License-Identifier: Apache-2.0
//! Metrics of a run without a timeline, from `run` in `benchmark.json`: the limit is found from the shares of waiting and work.

use serde_json::Value;

use super::{CaptureMetrics, Limit, NetworkNotes, Rendering, RunNotes, UnitLoads};
use crate::report::advice::BOTTLENECK;
use crate::report::critical_path::InputKind;
use crate::report::stages::{DETECTOR_STAGES, Group, SOURCE_STAGES, TRACK_STAGES, limit_beside};
use jetwatch_telemetry::Stage;

/// Share of the detectors' time in waits for frames, or for room, up to which they count as busy.
const BUSY_DETECTORS: f64 = 0.05;

/// Share of the detectors' time in waits for frames above which they are not the limit, although frames that came together were
/// dropped.
const IDLE_DETECTORS: f64 = 0.5;

impl CaptureMetrics {
    /// Of the numbers of a run, as `jetwatch bench` writes them below `run` and `meta`.
    pub(crate) fn from_run(run: &Value, meta: &Value) -> Self {
        let notes = RunNotes::new(run, meta);
        let secondary = notes.secondary.iter().filter(|it| it.batches > 0);
        let mut metrics = Self {
            rendering: Rendering::from_run(&notes),
            secondary: secondary.cloned().collect(),
            run: notes,
            ..Self::default()
        };
        metrics.add_pipeline_of_run(run, meta);
        metrics
    }

    fn add_pipeline_of_run(&mut self, run: &Value, meta: &Value) {
        let notes = self.run.clone();
        let run_ms = notes.duration_s * 1e3;
        let workers = run["workers"].as_u64().unwrap_or(0);
        let sources = notes.sources.len();
        let total = |stage| notes.total_ms(stage);
        let count = |stage| notes.of_stage(stage, |found| found.count);
        if run_ms <= 0.0 || workers == 0 || sources == 0 {
            return;
        }
        let source_ms = run_ms * sources as f64;
        let at_work = |stage| total(stage) / source_ms;
        let cpu = |stage| notes.of_stage(stage, |found| found.cpu_ms.unwrap_or(found.total_ms));
        let [_, work @ ..] = SOURCE_STAGES;
        let of_source = work.map(at_work).iter().sum::<f64>() + at_work(Stage::Enqueue);
        // Ranges that began in the warm-up count as a whole, so that those of a short run may sum up to more than its length.
        let share = |stage| {
            let share = match Group::of(stage) {
                _ if stage == Stage::Input => (1.0 - of_source).max(0.0),
                Group::Source => at_work(stage),
                Group::Track => total(stage) / run_ms,
                Group::Detector | Group::Asynchronous => total(stage) / (run_ms * workers as f64),
            };
            share.min(1.0)
        };
        self.span_ns = (run_ms * 1e6) as i64;
        self.shares = Stage::ALL.map(share);
        let on_gpu = Stage::ALL.into_iter().filter(|stage| stage.is_on_gpu());
        // Of a recorded graph only one run in some is timed on the GPU.
        let untimed = count(Stage::Infer) / count(Stage::GpuNetwork).max(1.0);
        let gpu_ms: f64 = on_gpu.map(total).sum::<f64>() * untimed.max(1.0);
        self.gpu_busy = (gpu_ms > 0.0).then(|| (gpu_ms / run_ms).min(1.0));
        self.detectors = usize::try_from(workers).unwrap_or(usize::MAX);
        self.units = unit_loads(meta);
        self.decodes_in_hardware =
            count(Stage::VideoDecodeStay) > 0.0 && total(Stage::VideoDecode) <= 0.0;
        let live = notes.sources.iter().filter(|source| source.live).count();
        self.input = InputKind::new(live, sources - live, sources);
        let is_camera = self.input == InputKind::Camera;
        // While other programs take the CPU, times are longer than the work in them.
        let work_of = |stage| match notes.is_disturbed() && stage != Stage::Input {
            true => share(stage).min(cpu(stage) / source_ms),
            false => share(stage),
        };
        let work_sum = work.map(work_of).iter().sum::<f64>();
        let has_time = work_sum < BOTTLENECK;
        self.sources_have_time = notes.is_disturbed() && has_time;
        let network_cpu = cpu(Stage::Infer) / (run_ms * workers as f64);
        let is_on_cpu = self.gpu_busy.is_none() && !notes.is_on_dla() && !notes.is_scripted();
        let needed = notes.cores_needed(network_cpu);
        self.cores_needed = needed.filter(|_| is_camera && is_on_cpu);
        let largest = |stages: &[Stage], of: &dyn Fn(Stage) -> f64| {
            let stages = stages.iter().copied();
            stages.max_by(|a, b| of(*a).total_cmp(&of(*b)))
        };
        let longest = |stages: &[Stage]| largest(stages, &share);
        let waits_for_track = share(Stage::SendResults) > share(Stage::Batch).max(BUSY_DETECTORS)
            && share(Stage::Track) + share(Stage::Publish) > share(Stage::SendResults);
        let limit = if waits_for_track {
            longest(&TRACK_STAGES)
        } else if (!drops(&notes) || share(Stage::Batch) > IDLE_DETECTORS)
            && share(Stage::Batch) > share(Stage::Enqueue).max(BUSY_DETECTORS)
        {
            let by_work = largest(&SOURCE_STAGES, &work_of);
            match longest(&SOURCE_STAGES) {
                // A camera sets its own pace: its thread waits for images as long as it has time left.
                _ if is_camera && has_time && !notes.is_disturbed() => Some(Stage::Input),
                Some(Stage::Input) if self.input.waits_for_decoder(self.decodes_in_hardware) => {
                    Some(Stage::VideoDecode)
                }
                // A free machine would show whether images come slowly, or the work on them is slow.
                Some(stage) if by_work != Some(stage) => None,
                // A thread that waits for a core between its stages does not wait for images.
                Some(Stage::Input) if work_sum >= BOTTLENECK * (1.0 - notes.core_wait()) => None,
                limit => limit,
            }
        } else {
            longest(&DETECTOR_STAGES).filter(|_| self.cores_needed.is_none())
        };
        let is_behind = notes.secondary.iter().any(|network| {
            let ms = |ms: Option<f64>| ms.unwrap_or(0.0);
            network.dropped_crops > 0.0 || ms(network.wait_ms) > 2.0 * ms(network.infer_ms)
        });
        let of_thread = |stage| match Group::of(stage) {
            Group::Asynchronous => (total(stage) / run_ms).min(1.0),
            _ => share(stage),
        };
        let with_queues = |stage| match stage {
            // Its queue was full, whatever the batch that is not done yet has taken.
            Stage::Secondary if notes.secondary.iter().any(NetworkNotes::drops) => 1.0,
            Stage::Secondary if !is_behind => 0.0,
            _ => of_thread(stage),
        };
        let beside = limit_beside(limit, with_queues);
        let limit = match beside {
            Some(stages) => longest(stages).map(|stage| {
                let all: f64 = stages.iter().map(|stage| of_thread(*stage)).sum();
                (stage, all.min(1.0))
            }),
            None => limit.map(|stage| (stage, share(stage))),
        };
        let (path, limit) = (None, limit.filter(|_| !notes.is_short()));
        self.limit = limit.map(|(stage, share)| Limit { stage, share, path });
    }
}

/// Whether sources brought noticeably more frames than were taken.
fn drops(run: &RunNotes) -> bool {
    const NOTICEABLE: f64 = 0.02;
    run.dropped as f64 > (run.frames + run.dropped) as f64 * NOTICEABLE
}

/// Loads of the units of a Jetson, as the benchmark observed them.
fn unit_loads(meta: &Value) -> UnitLoads {
    let load = |name: &str| Some(meta["unit_loads"][name].as_f64()? / 100.0);
    UnitLoads {
        nvdec: load("nvdec"),
        vic: load("vic"),
    }
}
