// SPDX-License-Identifier: Apache-2.0
//! The detector without a pipeline: preloaded frames through the detectors of all workers, and the time of each layer of the network.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};

use jetwatch_config::Config;
use jetwatch_detect::{self as detect, DetectError, DetectorFactory};
use jetwatch_pipeline::{PipelineError, join, needs_gstreamer, preload_frames, spawn};
use jetwatch_source as source;
use jetwatch_telemetry::{Level, Recorder, Stage, StageSummary, StopToken, process_usage};
use jetwatch_types::Frame;

use super::results::write;
use super::system_info::SystemObserver;
use super::{BenchOptions, DEFAULT_FRAMES};

/// With the errors of a pipeline.
pub(super) type Result<T, E = PipelineError> = std::result::Result<T, E>;

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
    frames: u64,
    /// Frames of these that are left.
    pub(super) left: AtomicU64,
    until: Option<Duration>,
    pub(super) stop: StopToken,
}

impl RunLimit {
    /// At most `frames` frames, for at most `duration`, until `stop`.
    pub(crate) fn new(frames: Option<u64>, duration: Option<Duration>, stop: StopToken) -> Self {
        let frames = frames.unwrap_or(u64::MAX);
        Self {
            frames,
            left: AtomicU64::new(frames),
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
        let before = self.left.fetch_update(set, read, take);
        before.unwrap_or_default().min(most) as usize
    }

    /// Frames that were taken.
    pub(super) fn taken(&self) -> u64 {
        self.frames - self.left.load(Ordering::Acquire)
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
) -> Result<DetectorAlone> {
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
    pub(super) fn load(config: &'a Config, preload: usize, recorder: &Recorder) -> Result<Self> {
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
    pub(super) fn run(&self, limits: Vec<RunLimit>, recorder: &Recorder) -> Result<Measured> {
        let workers = self.config.detector.workers;
        let size = self.config.detector.batch_size.min(self.frames.len());
        let limits = Arc::new(limits);
        // Workers and this thread: at both ends of each limit.
        let barrier = Arc::new(Barrier::new(workers + 1));
        let mut threads = Vec::new();
        for index in 0..workers {
            let (prepared, frames) = (Arc::clone(&self.prepared), Arc::clone(&self.frames));
            let (limits, barrier) = (Arc::clone(&limits), Arc::clone(&barrier));
            let recorder = recorder.clone();
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
        for limit in limits.iter() {
            recorder.reset();
            let (started, cpu) = (Instant::now(), process_usage().cpu);
            barrier.wait();
            barrier.wait();
            measured = Some(Measured {
                frames: limit.taken(),
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

/// The name of the result of layers.
const LAYERS_FILE: &str = "layers.json";

/// Measured layers.
#[derive(Debug)]
pub struct LayerRun {
    /// The document as written: `runs`, `mean_ms`, `layers` with the slowest first, and `meta`.
    pub document: Value,
    /// The file that holds the document.
    pub path: PathBuf,
}

/// Measures the layers of the network on single frames and writes `layers.json` into the output folder, which must exist.
///
/// # Errors
/// The detector has no network or cannot time its layers, it or the first source fails, or the file cannot be written.
pub fn measure_layers(args: &BenchOptions, config: &Config) -> anyhow::Result<LayerRun> {
    let runs = usize::try_from(args.max_frames().unwrap_or(DEFAULT_FRAMES))?;
    let observer = SystemObserver::start(&args.root, None);
    let detectors = Detectors::load(config, usize::from(args.preload), &Recorder::default())?;
    let detector = &detectors.prepared;
    // A runtime may write a file into the folder meanwhile.
    let layers = detector.layer_times(&detectors.frames, runs, &args.output);
    let mut layers = layers.map_err(PipelineError::from)?.unwrap_or_default();
    let meta = observer.finish(args, Some(&detector.describe()));
    ensure!(
        !layers.is_empty(),
        "the scripted detector has no layers; name a model with --model or detector.model, or another backend with \
         detector.backend"
    );
    layers.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms));
    let all_ms: f64 = layers.iter().map(|layer| layer.total_ms).sum();
    let runs = layers.iter().map(|layer| layer.runs).max().unwrap_or(1);
    let each: Vec<_> = layers
        .iter()
        .map(|layer| {
            json!({
                "layer": layer.name,
                "type": layer.kind,
                "precision": layer.precision,
                "device": layer.device,
                "runs": layer.runs,
                "mean_ms": layer.total_ms / f64::from(layer.runs.max(1)),
                "share": layer.total_ms / all_ms.max(f64::MIN_POSITIVE),
            })
        })
        .collect();
    let document = json!({
        "runs": runs,
        "mean_ms": all_ms / f64::from(runs.max(1)),
        "layers": each,
        "meta": meta,
    });
    let path = args.output.join(LAYERS_FILE);
    write(&path, &document)?;
    Ok(LayerRun { document, path })
}
