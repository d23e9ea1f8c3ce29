//! Starts a pipeline, step by step.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crossbeam_channel::{Sender, bounded};

use jetwatch_config::{CameraMotionModel, Config, ConfigError, SourceConfig};
use jetwatch_detect::DetectorFactory;
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_record::{EncoderChoice, Recording};
use jetwatch_source::{self as source, Dot, FullImage, ImageSize};
use jetwatch_telemetry::{Heartbeats, Recorder, StopToken, systemd, thread_names};
use jetwatch_types::{ImageBudget, OverflowPolicy};

use super::batcher::Batcher;
use super::beside::{Beside, PairFactory};
use super::control::Control;
use super::detector_status::DetectorStatusPublisher;
use super::failure::FirstFailure;
use super::health::ServiceNotifier;
use super::image_budgets::ImageBudgets;
use super::infer::{BatchSettings, InferContext, InferWorker, ResultQueue};
use super::labels::{missing_group_labels, unknown_labels};
use super::outputs::Sinks;
use super::secondary::{
    AppearanceContext, AppearanceWorker, PreparedSecondary, SecondaryInference, SecondaryWorker,
    WorkerContext, gives_embeddings, prepare_secondary, take_appearance,
};
use super::sources::{SourceDefaults, Sources, max_skipped, needs_gstreamer};
use super::stats::StatsCollector;
use super::sysmon::SystemMonitor;
use super::threads::{ThreadGroup, spawn};
use super::track::{SourceTable, TrackInput, TrackStage, control_channel, input_channel};
use super::{
    DetectorContext, Options, Pipeline, PipelineError, RECORDING_CLOSE_TIMEOUT, Threads, nvmm,
    workers,
};

impl Pipeline {
    /// Builds and starts the whole pipeline. Returns when every thread runs and every worker has loaded its detector; sources may
    /// still be connecting.
    ///
    /// # Errors
    /// A model, a sink, the recording or a thread cannot be started, or the configuration has labels that no model has.
    pub fn start(config: &Config, options: Options) -> Result<Self, PipelineError> {
        let started = options.process_started.unwrap_or_else(Instant::now);
        let recorder = Recorder::with_trace(options.trace.clone());
        let heartbeats = Heartbeats::default();
        let stop = StopToken::default();

        let status = DetectorStatusPublisher::new(config, &heartbeats);
        let models = Models::load(config, &options, &status, &recorder)?;
        let detector = Arc::clone(&models.detector);
        let (beside, pair) = Beside::load(config, &options, &detector)?.unzip();
        let recording =
            start_recording(config, &options, models.encoder, pair.as_ref(), &recorder)?;
        let image_budgets = image_budgets(config, recording.is_some(), &options);
        let skipped_full_image = match &recording {
            Some(_) => FullImage::SourceSize,
            None => FullImage::None,
        };
        let Sinks { sinks, broker } = status.into_sinks(&detector)?;

        let (inputs, input_rx) = input_channel(options.overflow);
        let (control_messages, control_rx) = control_channel();
        let batcher = Arc::new(batcher(config, &options, inputs.clone()));
        let (secondary, contexts) =
            SecondaryInference::new(&models.secondary, options.overflow, options.crop_interval);
        let stats = StatsCollector::new(
            started,
            options.warmup_frames,
            config.detector.workers,
            Arc::clone(&batcher),
            recorder.clone(),
        );
        let appearance = models.appearance.map(|network| {
            let (jobs, queue) = bounded(max_in_flight(config));
            let context = AppearanceContext::new(&network, queue, inputs.clone());
            (network, context, jobs)
        });
        let mut counters = secondary.counters();
        counters.extend(appearance.iter().map(|(_, context, _)| context.counters()));
        let stats = Arc::new(stats.with_secondary(counters));

        let track_stage = TrackStage {
            sources: SourceTable::default(),
            classes: Arc::clone(detector.classes()),
            sinks,
            secondary,
            batcher: Arc::clone(&batcher),
            stats: Arc::clone(&stats),
            recorder: recorder.clone(),
            stats_interval: config.publish.stats_interval,
            every_frame: config.publish.detections,
            output_embedding: config.tracker.output_embedding,
            frame_callback: options.frame_callback,
            recording,
            beside,
            observer: options.observer.clone(),
            stop: stop.clone(),
            heartbeat: heartbeats.register(thread_names::TRACK),
        };
        let track = spawn(thread_names::TRACK, move || {
            track_stage.run(&input_rx, &control_rx)
        })?;

        let machine = Arc::new(Machine::find(&options.root));
        let defaults = SourceDefaults {
            input: detector.input_size(),
            placement: detector.placement(),
            classes: Arc::clone(detector.classes()),
            nms_iou: detector.nms_iou(),
            image_size: options.image_size,
            skipped_full_image,
            image_budgets: image_budgets.clone(),
            overflow: options.overflow,
            handler_decorator: options.handler_decorator,
            synthetic: options.synthetic,
            dot: Dot {
                folder: options.dot_folder,
                requests: Arc::new(AtomicU64::new(0)),
            },
            nvmm_reader: match options.image_size {
                ImageSize::Network => nvmm::nvmm_reader(config, &detector, &machine),
                // The CPU scales them.
                ImageSize::Source => None,
            },
            machine: Arc::clone(&machine),
            recorder: recorder.clone(),
            heartbeats: heartbeats.clone(),
            stop: stop.clone(),
        };
        let mut pipeline = Self {
            deadline: options.duration.map(|duration| Instant::now() + duration),
            detector_description: detector.describe(),
            sources: Sources::new(defaults, &batcher, &stats, &inputs),
            control: Control::new(config, options.config_loader, control_messages),
            threads: Threads {
                workers: ThreadGroup::default(),
                appearance: ThreadGroup::default(),
                track,
                secondary: ThreadGroup::default(),
                monitors: ThreadGroup::default(),
            },
            failure: FirstFailure::new(&batcher, &stop),
            stop,
            batcher,
            inputs,
            stats,
            observer: options.observer,
            broker,
        };
        let infer = InferContext {
            input: DetectorContext {
                input: detector.input_size(),
                placement: detector.placement(),
                recorder: recorder.clone(),
            },
            detector,
            beside: pair,
            decorator: options.detector_decorator,
            settings: BatchSettings {
                size: config.detector.batch_size,
                timeout: config.detector.batch_timeout,
            },
            image_size: options.image_size,
            batcher: Arc::clone(&pipeline.batcher),
            results: match &appearance {
                Some((_, _, jobs)) => ResultQueue::Appearance(jobs.clone()),
                None => ResultQueue::Track(pipeline.inputs.clone()),
            },
            image_budgets,
            needs_gray: config.tracker.camera_motion != CameraMotionModel::Off,
        };
        let start_threads = || {
            pipeline.start_secondary(models.secondary, contexts, &recorder, &heartbeats)?;
            if let Some((network, context, jobs)) = appearance {
                // The workers end once the inference workers have dropped theirs.
                drop(jobs);
                pipeline.start_appearance(network, &context, &recorder, &heartbeats)?;
            }
            pipeline.start_workers(config, &infer, &heartbeats)?;
            pipeline.sources.start(config)?;
            pipeline.control.start_listener(pipeline.broker.as_ref())?;
            pipeline.start_monitors(config, &options.root, machine, &heartbeats)
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

/// What is loaded before anything starts.
struct Models {
    detector: Arc<DetectorFactory>,
    secondary: Vec<PreparedSecondary>,
    /// The network for the appearance of detections.
    appearance: Option<PreparedSecondary>,
    /// `None` where nothing is recorded.
    encoder: Option<EncoderChoice>,
}

impl Models {
    /// Loads the detector, which may take minutes, and the secondary networks.
    fn load(
        config: &Config,
        options: &Options,
        status: &DetectorStatusPublisher<'_>,
        recorder: &Recorder,
    ) -> Result<Self, PipelineError> {
        let encoder = match &options.record {
            Some(path) => {
                source::gst::init(&config.log.gst_debug)?;
                Some(Recording::prepare(path)?)
            }
            None => None,
        };
        let detector = Arc::new(status.load(recorder)?);
        if gives_embeddings(&detector) {
            let model = detector.model().to_owned();
            return Err(PipelineError::DetectorEmbeddings { model });
        }
        let unknown = unknown_labels(config, detector.classes());
        if !unknown.is_empty() {
            return Err(ConfigError::new(unknown).into());
        }
        for missing in missing_group_labels(config, detector.classes()) {
            log::warn!("{missing}");
        }
        // After the detector, which frees much memory on this thread's heap: the registry of GStreamer fits into it.
        if config.sources.iter().any(needs_gstreamer) {
            source::gst::init(&config.log.gst_debug)?;
        }
        // The first network that cannot work is the error; the others are logged.
        let mut secondary = prepare_secondary(config, detector.classes()).map_err(|problems| {
            let (first, others) = *problems;
            for other in others {
                log::error!("{other}");
            }
            first
        })?;
        Ok(Self {
            detector,
            appearance: take_appearance(config, &mut secondary),
            secondary,
            encoder,
        })
    }
}

fn start_recording(
    config: &Config,
    options: &Options,
    encoder: Option<EncoderChoice>,
    beside: Option<&PairFactory>,
    recorder: &Recorder,
) -> Result<Option<Recording>, PipelineError> {
    let Some(encoder) = encoder else {
        return Ok(None);
    };
    let names = config.sources.iter().map(|source| source.name.clone());
    let recording = Recording::start(
        encoder,
        names.collect(),
        beside.map(|pair| Beside::overlay(config, pair)),
        recorder.clone(),
        (options.overflow, max_in_flight(config)),
        RECORDING_CLOSE_TIMEOUT,
    )?;
    Ok(Some(recording))
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

/// Most frames that the inference workers complete at once.
fn max_in_flight(config: &Config) -> usize {
    config.detector.workers * config.detector.batch_size
}

/// Limits the images that are kept for later stages; `None` where no stage needs them.
fn image_budgets(config: &Config, records: bool, options: &Options) -> Option<ImageBudgets> {
    if !records && config.secondary.is_empty() {
        return None;
    }
    let mut in_flight = max_in_flight(config);
    if config.tracker.appearance.is_some() {
        // As many wait for the network for the appearance, and one is with each of its workers.
        in_flight += max_in_flight(config);
        in_flight += config
            .secondary
            .iter()
            .map(|network| network.workers)
            .max()
            .unwrap_or(0);
    }
    let budget = match (options.overflow, records) {
        (OverflowPolicy::Drop, true) => {
            Recording::image_budget(in_flight + max_skipped(config), in_flight)
        }
        // As many as the workers complete at a time, and as many again in the channel.
        (OverflowPolicy::Drop, false) => ImageBudget::new(2 * in_flight),
        (OverflowPolicy::Block, _) => ImageBudget::new(usize::MAX),
    };
    let observed = |budget: ImageBudget| match options.observer.clone() {
        Some(observer) => {
            budget.with_observer(Arc::new(move |change| observer.full_images_changed(change)))
        }
        None => budget,
    };
    let waits = records && options.overflow == OverflowPolicy::Drop;
    let files = waits.then(|| observed(Recording::budget_of_files(max_in_flight(config))));
    Some(ImageBudgets::new(observed(budget), files))
}
