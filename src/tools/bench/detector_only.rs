// SPDX-License-Identifier: Apache-2.0
//! The detector without a pipeline: preloaded frames through the detectors of all workers.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use crossbeam_channel::bounded;

use jetwatch_config::Config;
use jetwatch_detect::{self as detect, LayerProfile};
use jetwatch_pipeline::{PipelineError, join, needs_gstreamer, preload_frames, spawn};
use jetwatch_source::{self as source, SyntheticFactory};
use jetwatch_telemetry::{Recorder, Stage, StageSummary, process_usage};

/// Speed of the detectors without a pipeline.
#[derive(Debug, Clone, serde::Serialize)]
pub struct DetectorAlone {
    /// Frames measured.
    pub frames: u64,
    /// Workers.
    pub workers: usize,
    /// Preloaded frames, used in turn.
    pub preloaded: usize,
    /// Frames per second of all workers together.
    pub fps: f64,
    /// CPU time of the process per frame, in ms.
    pub cpu_ms_per_frame: f64,
    /// Times of the stages inside the detector.
    pub stages: Vec<StageSummary>,
}

/// Preloads up to `preload` frames of the first source, runs `warmup` of them through the detectors unmeasured, then measures
/// at least `frames`. Blocks until then.
///
/// # Errors
/// The detector or the source cannot be opened, or the detector fails.
pub fn bench_detector(
    config: &Config,
    preload: usize,
    warmup: u64,
    frames: u64,
    synthetic: Option<&SyntheticFactory>,
) -> Result<DetectorAlone, PipelineError> {
    let recorder = Recorder::default();
    if config.sources.first().is_some_and(needs_gstreamer) {
        source::gst::init(&config.log.gst_debug)?;
    }
    let prepared = Arc::new(detect::load(&config.detector, &recorder)?);
    let preloaded = Arc::new(preload_frames(
        &config.sources[0],
        &prepared,
        preload,
        synthetic,
    )?);
    let (workers, size) = (
        config.detector.workers,
        config.detector.batch_size.min(preloaded.len()),
    );
    let next = Arc::new(AtomicU64::new(0));
    // Workers and this thread: after the warm-up, and at the end.
    let barrier = Arc::new(Barrier::new(workers + 1));
    let (failed, failures) = bounded(workers);
    let mut threads = Vec::new();
    for index in 0..workers {
        let (prepared, preloaded, next, barrier, failed) = (
            Arc::clone(&prepared),
            Arc::clone(&preloaded),
            Arc::clone(&next),
            Arc::clone(&barrier),
            failed.clone(),
        );
        threads.push(spawn(&format!("detect-{index}"), move || {
            let mut results = Vec::new();
            let mut at = index * size % preloaded.len();
            let mut detector = match prepared.create(index) {
                Ok(detector) => Some(detector),
                Err(error) => {
                    let _ = failed.try_send(error);
                    None
                }
            };
            for limit in [warmup, warmup + frames] {
                while next.fetch_add(size as u64, Ordering::Relaxed) < limit {
                    let Some(running) = &mut detector else { break };
                    at = if at + size > preloaded.len() { 0 } else { at };
                    if let Err(error) = running.detect(&preloaded[at..at + size], &mut results) {
                        let _ = failed.try_send(error);
                        detector = None;
                    }
                    at += size;
                }
                barrier.wait();
                barrier.wait();
            }
        })?);
    }
    barrier.wait();
    recorder.reset();
    next.store(warmup, Ordering::Relaxed);
    let (started, cpu) = (Instant::now(), process_usage().cpu);
    barrier.wait();
    barrier.wait();
    let (seconds, cpu) = (
        started.elapsed().as_secs_f64(),
        process_usage().cpu.saturating_sub(cpu),
    );
    barrier.wait();
    for thread in threads {
        join(thread);
    }
    if let Ok(error) = failures.try_recv() {
        return Err(error.into());
    }
    let summary = recorder.summary();
    let done = summary.stage(Stage::Infer).items.max(1);
    Ok(DetectorAlone {
        frames: done,
        workers,
        preloaded: preloaded.len(),
        fps: done as f64 / seconds,
        cpu_ms_per_frame: cpu.as_secs_f64() * 1e3 / done as f64,
        stages: summary.stages,
    })
}

/// Layers of a network.
pub(super) struct LayerProfiles {
    /// Backend, model, precision and device, as text.
    pub(super) detector: String,
    /// Each layer; empty where the backend has no network.
    pub(super) layers: Vec<LayerProfile>,
}

/// Time of each layer of the network, over `runs` runs on single frames of the first source. A runtime may write a file into
/// `folder` meanwhile.
///
/// # Errors
/// The detector or the source cannot be opened, or the detector fails.
pub(super) fn profile_layers(
    config: &Config,
    preload: usize,
    runs: usize,
    folder: &Path,
) -> Result<LayerProfiles, PipelineError> {
    if config.sources.first().is_some_and(needs_gstreamer) {
        source::gst::init(&config.log.gst_debug)?;
    }
    let factory = jetwatch_traffic::synthetic_factory();
    let prepared = detect::load(&config.detector, &Recorder::default())?;
    let frames = preload_frames(&config.sources[0], &prepared, preload, Some(&factory))?;
    let layers = prepared.layer_times(&frames, runs, folder)?;
    Ok(LayerProfiles {
        detector: prepared.describe(),
        layers: layers.unwrap_or_default(),
    })
}
