// SPDX-License-Identifier: Apache-2.0
//! Starts a pipeline, step by step.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crossbeam_channel::{Sender, bounded};

use jetwatch_config::{CameraMotionModel, Config, SourceConfig};
use jetwatch_detect::{DetectorFactory, release_code};
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_publish::Sink;
use jetwatch_source::{Dot, FullImage};
use jetwatch_telemetry::{Heartbeats, Recorder, StopToken, systemd, thread_names};

use super::appearance::{AppearanceContext, AppearanceWorker};
use super::batcher::Batcher;
use super::clips::{ClipFactory, ClipService};
use super::control::Control;
use super::detector_status::DetectorStatusPublisher;
use super::failure::FirstFailure;
use super::health::ServiceNotifier;
use super::health_file::HealthFile;
use super::image_budgets::{ImageBudgets, image_budgets, max_in_flight};
use super::infer::{BatchSettings, InferContext, InferWorker, ResultQueue};
use super::media::{self, Retention};
use super::metrics::Metrics;
use super::models::Models;
use super::outputs::{Sinks, start_recording};
use super::secondary::{PreparedSecondary, SecondaryInference, SecondaryWorker, WorkerContext};
use super::sources::{SourceDefaults, Sources};
use super::stats::StatsCollector;
use super::switches::Switches;
use super::sysmon::SystemMonitor;
use super::threads::{ThreadGroup, spawn};
use super::track::{
    FrameImages, Publisher, SourceTable, TrackInput, TrackStage, control_channel, input_channel,
};
use super::update_watch::UpdateWatch;
use super::web::{Previews, Web};
use super::{Options, Pipeline, PipelineError, Threads, nvmm, workers};

impl Pipeline {
    /// Builds and starts the whole pipeline. Returns when every thread runs and every worker has loaded its detector; sources may
    /// still be connecting.
    ///
    /// # Errors
    /// A model, a sink, the recording or a thread cannot be started, or the configuration has labels that no model has.
    pub fn start(config: &Config, mut options: Options) -> Result<Self, PipelineError> {
        let started = options.process_started.unwrap_or_else(Instant::now);
        let recorder = Recorder::with_trace(options.trace.clone());
        let heartbeats = Heartbeats::default();

        let metrics = Metrics::start(config, started, &recorder)?;
        let web = Web::start(
            config,
            options.config_path.as_deref(),
            &options.check_command,
        )?;
        let health = HealthFile::start(options.health_file.take(), started)?;
        let status = DetectorStatusPublisher::new(config, &heartbeats, (&metrics, &web), &health);
        let models = Models::load(config, &options, &status, &recorder)?;
        // Libraries were loaded and models read: the code of that is not needed while the workers start, when memory peaks.
        release_code();
        let recording = start_recording(config, models.encoder, &recorder)?;
        let image_budgets = image_budgets(config, recording.is_some());
        let Sinks { sinks, broker } = status.into_sinks(&models.detector)?;
        health.set_sinks(&sinks);

        let (inputs, input_rx) = input_channel();
        let (control_messages, control_rx) = control_channel();
        let archive = media::open(config, &control_messages);
        web.set_archive(archive.as_ref());
        let clips = ClipService::start_for(config, archive.as_ref())?;
        let batcher = Arc::new(batcher(config, &options, inputs.clone()));
        let (secondary, contexts) = SecondaryInference::new(&models.secondary);
        let appearance = models.appearance.map(|network| {
            let (jobs, queue) = bounded(max_in_flight(config));
            let context = AppearanceContext::new(&network, queue, inputs.clone());
            (network, context, jobs)
        });
        let mut counters = secondary.counters();
        counters.extend(appearance.iter().map(|(_, context, _)| context.counters()));
        let stats = StatsCollector::new(
            started,
            options.warmup_frames,
            config.detector.workers,
            Arc::clone(&batcher),
            recorder.clone(),
        );
        let shared = Shared {
            machine: Arc::new(Machine::find(&options.root)),
            detector: models.detector,
            stats: Arc::new(stats.with_secondary(counters)),
            stop: StopToken::default(),
            batcher,
            inputs,
            image_budgets,
            previews: web.previews(),
            recorder,
            heartbeats,
        };

        metrics.set_stats(&shared.stats);
        health.set_stats(&shared.stats, config);

        let clip_factory = clips.as_ref().map(ClipService::factory);
        let defaults =
            shared.source_defaults(config, &mut options, recording.is_some(), clip_factory);
        let results = match &appearance {
            Some((_, _, jobs)) => ResultQueue::Appearance(jobs.clone()),
            None => ResultQueue::Track(shared.inputs.clone()),
        };
        let infer = shared.infer_context(config, results);
        let snapshots = media::start_snapshots(
            config,
            shared.detector.classes(),
            archive.as_ref(),
            &control_messages,
        )?;
        let images = FrameImages {
            recording,
            previews: shared.previews.clone(),
            snapshots,
        };
        let stage = TrackStage {
            images,
            clips,
            ..shared.track_stage(config, &mut options, sinks, secondary)
        };
        let track = spawn(thread_names::TRACK, move || {
            stage.run(&input_rx, &control_rx)
        })?;
        let mut pipeline = Self {
            deadline: options.duration.map(|duration| Instant::now() + duration),
            detector_description: shared.detector.describe(),
            sources: Sources::new(
                defaults,
                &shared.batcher,
                &shared.stats,
                &shared.inputs,
                Switches::load(config),
            ),
            control: Control::new(config, options.config_loader, control_messages),
            threads: Threads {
                workers: ThreadGroup::default(),
                appearance: ThreadGroup::default(),
                track,
                secondary: ThreadGroup::default(),
                monitors: ThreadGroup::default(),
            },
            failure: FirstFailure::new(&shared.batcher, &shared.stop),
            stop: shared.stop,
            batcher: shared.batcher,
            inputs: shared.inputs,
            stats: shared.stats,
            archive,
            metrics,
            web,
            health,
            broker,
        };
        pipeline.web.set_reload(pipeline.control.reload_request());
        let (recorder, heartbeats) = (shared.recorder, shared.heartbeats);
        let start_threads = || {
            pipeline.start_secondary(models.secondary, contexts, &recorder, &heartbeats)?;
            if let Some((network, context, jobs)) = appearance {
                // The workers end once the inference workers have dropped theirs.
                drop(jobs);
                pipeline.start_appearance(network, &context, &recorder, &heartbeats)?;
            }
            pipeline.start_workers(config, &infer, &heartbeats)?;
            release_code();
            pipeline.sources.start(config)?;
            pipeline.control.start_listener(pipeline.broker.as_ref())?;
            pipeline.start_monitors(config, &options.root, shared.machine, &heartbeats)
        };
        let started = start_threads();
        drop(infer);
        match started {
            Ok(()) => Ok(pipeline),
            Err(error) => Err(pipeline.abort(error)),
        }
    }

    /// Ends a pipeline that cannot start; returns the first error.
    fn abort(self, error: PipelineError) -> PipelineError {
        self.failure.fail(error);
        self.wait().failure.unwrap_or(PipelineError::Late {
            names: "start".to_owned(),
            waited_ms: 0,
        })
    }

    /// Starts the workers of each secondary network, one network after the other.
    fn start_secondary(
        &mut self,
        networks: Vec<PreparedSecondary>,
        contexts: Vec<WorkerContext>,
        recorder: &Recorder,
        heartbeats: &Heartbeats,
    ) -> Result<(), PipelineError> {
        for (network, context) in networks.into_iter().zip(contexts) {
            let network = Arc::new(network);
            let worker = |index| {
                let name = thread_names::secondary(network.name(), index);
                let worker = SecondaryWorker {
                    index,
                    network: Arc::clone(&network),
                    context: context.clone(),
                    results: self.inputs.clone(),
                    recorder: recorder.clone(),
                    heartbeat: heartbeats.register(&name),
                };
                (name, worker)
            };
            let network_workers = (0..network.workers()).map(worker).collect();
            workers::start(&mut self.threads.secondary, network_workers, &self.failure)?;
        }
        Ok(())
    }

    /// Starts the workers of the network for the appearance of detections.
    fn start_appearance(
        &mut self,
        network: PreparedSecondary,
        context: &AppearanceContext,
        recorder: &Recorder,
        heartbeats: &Heartbeats,
    ) -> Result<(), PipelineError> {
        let network = Arc::new(network);
        let worker = |index| {
            let name = thread_names::secondary(network.name(), index);
            let worker = AppearanceWorker {
                index,
                network: Arc::clone(&network),
                context: context.clone(),
                recorder: recorder.clone(),
                heartbeat: heartbeats.register(&name),
            };
            (name, worker)
        };
        let network_workers = (0..network.workers()).map(worker).collect();
        workers::start(&mut self.threads.appearance, network_workers, &self.failure)
    }

    /// Starts the inference workers.
    fn start_workers(
        &mut self,
        config: &Config,
        context: &InferContext,
        heartbeats: &Heartbeats,
    ) -> Result<(), PipelineError> {
        let worker = |index| {
            let name = format!("detect-{index}");
            let worker = InferWorker {
                index,
                context: context.clone(),
                heartbeat: heartbeats.register(&name),
            };
            (name, worker)
        };
        let inference_workers = (0..config.detector.workers).map(worker).collect();
        workers::start(&mut self.threads.workers, inference_workers, &self.failure)
    }

    /// Starts the threads that observe the machine and this process.
    fn start_monitors(
        &mut self,
        config: &Config,
        root: &SysRoot,
        machine: Arc<Machine>,
        heartbeats: &Heartbeats,
    ) -> Result<(), PipelineError> {
        let monitor = SystemMonitor {
            root: root.clone(),
            machine,
            interval: config.publish.stats_interval,
            stats: Arc::clone(&self.stats),
            control_messages: self.control.messages().clone(),
            stop: self.stop.clone(),
        };
        self.threads
            .monitors
            .spawn(thread_names::SYSMON, move || monitor.run())?;
        let watch = UpdateWatch::new(root, self.control.messages().clone());
        let stop = self.stop.clone();
        self.threads
            .monitors
            .spawn(thread_names::UPDATES, move || watch.run(&stop))?;
        if let Some(archive) = &self.archive {
            let retention = Retention {
                archive: archive.clone(),
                stats: Arc::clone(&self.stats),
                stop: self.stop.clone(),
            };
            self.threads
                .monitors
                .spawn(thread_names::RETENTION, move || retention.run())?;
        }
        if systemd::is_managed() {
            let sources = config.sources.iter();
            let notifier = ServiceNotifier {
                stats: Arc::clone(&self.stats),
                batcher: Arc::clone(&self.batcher),
                heartbeats: heartbeats.clone(),
                first_frame_waits: sources.map(SourceConfig::first_frame_timeout).collect(),
                watchdog: systemd::watchdog_interval(),
                reload_notice: self.control.notice().clone(),
                stop: self.stop.clone(),
            };
            self.threads
                .monitors
                .spawn(thread_names::SD_NOTIFY, move || notifier.run())?;
        }
        Ok(())
    }
}

/// What the parts of a run share.
struct Shared {
    machine: Arc<Machine>,
    detector: Arc<DetectorFactory>,
    batcher: Arc<Batcher>,
    inputs: Sender<TrackInput>,
    stats: Arc<StatsCollector>,
    /// Limits the images kept for later stages; `None` where no stage needs them.
    image_budgets: Option<ImageBudgets>,
    /// Pictures of the page.
    previews: Option<Arc<Previews>>,
    recorder: Recorder,
    heartbeats: Heartbeats,
    stop: StopToken,
}

impl Shared {
    /// What every source of the run is started with. `records`: whether annotated frames are recorded.
    fn source_defaults(
        &self,
        config: &Config,
        options: &mut Options,
        records: bool,
        clips: Option<ClipFactory>,
    ) -> SourceDefaults {
        SourceDefaults {
            input: self.detector.input_size(),
            placement: self.detector.placement(),
            classes: Arc::clone(self.detector.classes()),
            nms_iou: self.detector.nms_iou(),
            score_threshold: self.detector.score_threshold(),
            skipped_full_image: if records {
                FullImage::SourceSize
            } else {
                FullImage::None
            },
            image_budgets: self.image_budgets.clone(),
            previews: self.previews.clone(),
            clips,
            encoding: config.record.encoding,
            only_snapshots: (!records && config.secondary.is_empty())
                .then(|| config.record.clone()),
            synthetic: options.synthetic.take(),
            dot: Dot {
                folder: options.dot_folder.take(),
                requests: Arc::new(AtomicU64::new(0)),
            },
            nvmm_reader: nvmm::nvmm_reader(config, &self.detector, &self.machine),
            machine: Arc::clone(&self.machine),
            recorder: self.recorder.clone(),
            heartbeats: self.heartbeats.clone(),
            stop: self.stop.clone(),
        }
    }

    /// What every inference worker needs; detections go to `results`.
    fn infer_context(&self, config: &Config, results: ResultQueue) -> InferContext {
        InferContext {
            detector: Arc::clone(&self.detector),
            recorder: self.recorder.clone(),
            settings: BatchSettings {
                size: config.detector.batch_size,
                timeout: config.detector.batch_timeout,
            },
            batcher: Arc::clone(&self.batcher),
            results,
            image_budgets: self.image_budgets.clone(),
            needs_gray: config.tracker.camera_motion != CameraMotionModel::Off,
        }
    }

    /// The tracking stage, which publishes to `sinks` and records nothing.
    fn track_stage(
        &self,
        config: &Config,
        options: &mut Options,
        sinks: Vec<Box<dyn Sink>>,
        secondary: SecondaryInference,
    ) -> TrackStage {
        TrackStage {
            sources: SourceTable::default(),
            publisher: Publisher {
                sinks,
                every_frame: config.publish.detections,
                stats: Arc::clone(&self.stats),
            },
            images: FrameImages::default(),
            secondary,
            clips: None,
            batcher: Arc::clone(&self.batcher),
            recorder: self.recorder.clone(),
            stats_interval: config.publish.stats_interval,
            frame_callback: options.frame_callback.take(),
            stop: self.stop.clone(),
            heartbeat: self.heartbeats.register(thread_names::TRACK),
        }
    }
}

/// The batcher, held open until the first sources are added. It sends skipped frames to `inputs`.
fn batcher(config: &Config, options: &Options, inputs: Sender<TrackInput>) -> Batcher {
    let on_skipped = move |order, (meta, full_image)| {
        // Fails where the tracking stage has ended.
        let _ = inputs.send(TrackInput::Skipped {
            order,
            meta,
            full_image,
        });
    };
    let detector = &config.detector;
    let batcher = Batcher::new(&[], detector.batch_size, options.max_frames);
    batcher.hold_open(true);
    batcher
        .with_intervals(
            detector.max_interval,
            detector.workers,
            Box::new(on_skipped),
        )
        .with_max_batches(options.max_batches)
}
