// SPDX-License-Identifier: Apache-2.0
//! The detector without a pipeline: preloaded frames through the detectors of all workers.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use jetwatch_config::Config;
use jetwatch_detect::{self as detect, DetectError, DetectorFactory, LayerProfile};
use jetwatch_pipeline::{PipelineError, join, needs_gstreamer, preload_frames, spawn};
use jetwatch_source as source;
use jetwatch_telemetry::{Level, Recorder, Stage, StageSummary, StopToken, process_usage};
use jetwatch_types::Frame;

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

/// Limits of a run; it ends with the first one that is reached.
pub(crate) struct RunLimit {
    pub(super) frames: AtomicU64,
    until: Option<Duration>,
    pub(super) stop: StopToken,
}

impl RunLimit {
    /// At most `frames` frames, for at most `duration`, until `stop`.
    pub(crate) fn new(frames: Option<u64>, duration: Option<Duration>, stop: StopToken) -> Self {
        Self {
            frames: AtomicU64::new(frames.unwrap_or(u64::MAX)),
            until: duration,
            stop,
        }
    }

    /// Takes up to `max` frames of the limit; zero: it is reached.
    pub(super) fn reserve(&self, max: usize, started: Instant) -> usize {
        if self.is_over(started) {
            return 0;
        }
        let most = max as u64;
        let take = |left: u64| Some(left.saturating_sub(most));
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        let before = self.frames.fetch_update(set, read, take);
        before.unwrap_or_default().min(most) as usize
    }

    pub(super) fn is_over(&self, started: Instant) -> bool {
        self.stop.is_stopped() || self.until.is_some_and(|until| started.elapsed() >= until)
    }
}

/// Preloads up to `preload` frames of the first source, runs `warmup` of them through the detectors unmeasured, then measures
/// `frames`. Blocks until then.
///
/// # Errors
/// The detector or the source cannot be opened, or the detector fails.
pub fn bench_detector(
    config: &Config,
    preload: usize,
    warmup: u64,
    frames: u64,
) -> Result<DetectorAlone, PipelineError> {
    let recorder = Recorder::default();
    let detectors = Detectors::load(config, preload, &recorder)?;
    let limits =
        [warmup, frames].map(|frames| RunLimit::new(Some(frames), None, StopToken::default()));
    let measured = detectors.run(limits.into(), &recorder)?;
    let summary = recorder.summary();
    let done = summary.stage(Stage::Infer).items.max(1);
    Ok(DetectorAlone {
        frames: done,
        workers: config.detector.workers,
        preloaded: detectors.frames.len(),
        fps: done as f64 / measured.time.as_secs_f64(),
        cpu_ms_per_frame: measured.cpu.as_secs_f64() * 1e3 / done as f64,
        stages: summary.stages,
    })
}

/// A network and frames for it.
pub(super) struct Detectors<'a> {
    config: &'a Config,
    pub(super) prepared: Arc<DetectorFactory>,
    pub(super) frames: Arc<Vec<Frame>>,
}

/// What all workers together did.
pub(super) struct Measured {
    /// Frames.
    pub(super) frames: u64,
    /// Elapsed time.
    time: Duration,
    /// CPU time of the process.
    cpu: Duration,
}

impl<'a> Detectors<'a> {
    /// Loads the network and up to `preload` frames of the first source. `recorder` gets the times of stages in the detector.
    pub(super) fn load(
        config: &'a Config,
        preload: usize,
        recorder: &Recorder,
    ) -> Result<Self, PipelineError> {
        if config.sources.first().is_some_and(needs_gstreamer) {
            source::gst::init(&config.log.gst_debug)?;
        }
        let prepared = detect::load(&config.detector, recorder)?;
        let factory = jetwatch_traffic::synthetic_factory();
        let frames = preload_frames(&config.sources[0], &prepared, preload, Some(&factory))?;
        Ok(Self {
            config,
            prepared: Arc::new(prepared),
            frames: Arc::new(frames),
        })
    }

    /// Runs the frames in turn through the detectors of all workers until each of `limits` is reached, one after the other. No
    /// worker begins before every detector is loaded. Measures the last; `recorder` then has its times only.
    pub(super) fn run(
        &self,
        limits: Vec<RunLimit>,
        recorder: &Recorder,
    ) -> Result<Measured, PipelineError> {
        let workers = self.config.detector.workers;
        let size = self.config.detector.batch_size.min(self.frames.len());
        let done = Arc::new(AtomicU64::new(0));
        let (count, limits) = (limits.len(), Arc::new(limits));
        // Workers and this thread: at both ends of each limit.
        let barrier = Arc::new(Barrier::new(workers + 1));
        let mut threads = Vec::new();
        for index in 0..workers {
            let (prepared, frames) = (Arc::clone(&self.prepared), Arc::clone(&self.frames));
            let (limits, barrier) = (Arc::clone(&limits), Arc::clone(&barrier));
            let (done, recorder) = (Arc::clone(&done), recorder.clone());
            threads.push(spawn(&format!("detect-{index}"), move || {
                let mut detector = prepared.create(index);
                let mut results = Vec::new();
                let mut at = index * size % frames.len();
                for limit in limits.iter() {
                    barrier.wait();
                    let started = Instant::now();
                    while let Ok(running) = &mut detector {
                        let count = limit.reserve(size, started);
                        if count == 0 {
                            break;
                        }
                        at = if at + count > frames.len() { 0 } else { at };
                        let whole = recorder.batch(Level::Detect, count);
                        if let Err(error) = running.detect(&frames[at..at + count], &mut results) {
                            detector = Err(error);
                        }
                        drop(whole);
                        done.fetch_add(count as u64, Ordering::AcqRel);
                        at += count;
                    }
                    barrier.wait();
                }
                // Not before it is measured what they did.
                barrier.wait();
                detector.map(drop)
            })?);
        }
        let mut measured = None;
        for _ in 0..count {
            recorder.reset();
            done.store(0, Ordering::Release);
            let (started, cpu) = (Instant::now(), process_usage().cpu);
            barrier.wait();
            barrier.wait();
            measured = Some(Measured {
                frames: done.load(Ordering::Acquire),
                time: started.elapsed(),
                cpu: process_usage().cpu.saturating_sub(cpu),
            });
        }
        barrier.wait();
        let ended: Vec<Result<(), DetectError>> = threads.into_iter().map(join).collect();
        ended.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(measured.expect("there is a limit"))
    }
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
    let detectors = Detectors::load(config, preload, &Recorder::default())?;
    let prepared = &detectors.prepared;
    let layers = prepared.layer_times(&detectors.frames, runs, folder)?;
    Ok(LayerProfiles {
        detector: prepared.describe(),
        layers: layers.unwrap_or_default(),
    })
}
