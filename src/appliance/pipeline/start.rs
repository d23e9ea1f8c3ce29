// SPDX-License-Identifier: Apache-2.0
//! Starts a pipeline: channels and shared state first, then the parts, each complete when it is made, then the threads.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crossbeam_channel::{Sender, bounded};

use jetwatch_config::{CameraMotionModel, Config, SourceConfig};
use jetwatch_detect::release_code;
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_publish::DetectorStatus;
use jetwatch_source::{Dot, FullImage};
use jetwatch_telemetry::{Heartbeats, Recorder, StopToken, systemd, thread_names};

use super::appearance::AppearanceWorkers;
use super::batcher::{BatchSettings, Batcher};
use super::clips::ClipService;
use super::control::Control;
use super::detector_status::DetectorStatusPublisher;
use super::failure::FirstFailure;
use super::health::ServiceNotifier;
use super::health_file::HealthFile;
use super::image_budgets::{image_budgets, max_in_flight};
use super::infer::{InferWorkers, ResultQueue};
use super::media::{self, Retention};
use super::metrics::Metrics;
use super::models::Models;
use super::outputs::{Sinks, start_recording};
use super::run_state::{Loaded, RunState};
use super::secondary::{PreparedSecondary, SecondaryInference, SecondaryWorkers, WorkerContext};
use super::shared::Shared;
use super::sources::{SourceDefaults, Sources};
use super::stats::StatsCollector;
use super::switches::Switches;
use super::sysmon::SystemMonitor;
use super::threads::{ThreadGroup, spawn};
use super::track::{
    FrameImages, Publisher, SourceTable, TrackInput, TrackStage, control_channel, input_channel,
};
use super::update_watch::UpdateWatch;
use super::web::Web;
use super::{Options, Pipeline, PipelineError, Threads, nvmm, workers};

/// Detector threads that are still to be started.
struct Workers {
    secondary: Vec<(PreparedSecondary, WorkerContext)>,
    appearance: Option<AppearanceWorkers>,
    infer: InferWorkers,
}

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
        let run = Arc::new(RunState::default());
        let (inputs, input_rx) = input_channel();
        let (control, control_rx) = control_channel();

        let metrics = Metrics::start(config, started, &recorder, &run)?;
        let path = options.config_path.as_deref();
        let web = Web::start(
            config,
            path,
            &options.page_files,
            &options.check_command,
            options.camera_finder.take(),
            &run,
        )?;
        let health = HealthFile::start(options.health_file.take(), started, config, &run)?;
        let status = DetectorStatusPublisher::new(config, &heartbeats, (&metrics, &web), &run);
        let models = Models::load(config, &options, &status, &recorder)?;
        // Libraries were loaded and models read: the code of that is not needed while the workers start, when memory peaks.
        release_code();
        let detector = models.detector;
        let recording = start_recording(config, models.encoder, options.record_for, &recorder)?;
        let records = recording.is_some();
        let image_budgets = image_budgets(config, records);
        let mut outputs = status.into_sinks(detector.classes())?;

        let archive = media::open(config, &control);
        let clips = ClipService::start_for(config, archive.as_ref())?;
        let batcher = Arc::new(batcher(config, &options, inputs.clone()));
        let (secondary, contexts) = SecondaryInference::new(&models.secondary);
        let (appearance, results) = match models.appearance {
            Some(network) => {
                let (jobs, queue) = bounded(max_in_flight(config));
                let workers =
                    AppearanceWorkers::new(network, queue, inputs.clone(), recorder.clone());
                (Some(workers), ResultQueue::Appearance(jobs))
            }
            None => (None, ResultQueue::Track(inputs.clone())),
        };
        let mut counters = secondary.counters();
        counters.extend(appearance.iter().map(AppearanceWorkers::counters));
        let batch = BatchSettings {
            size: config.detector.batch_size,
            timeout: config.detector.batch_timeout,
        };
        let shared = Shared {
            stats: Arc::new(StatsCollector::new(
                started,
                options.warmup_frames,
                config.detector.workers,
                batch,
                Arc::clone(&batcher),
                recorder.clone(),
                counters,
            )),
            batcher,
            inputs,
            control,
            machine: Arc::new(Machine::find(&options.root)),
            recorder,
            heartbeats,
            stop: StopToken::default(),
        };
        let requests = Control::new(config, options.config_loader, shared.control.clone());
        let _ = run.loaded.set(Loaded {
            at: Instant::now(),
            detector: Arc::clone(&detector),
            stats: Arc::clone(&shared.stats),
            archive: archive.clone(),
            reload: Box::new(requests.reload_request()),
        });
        outputs.publish(&DetectorStatus::Ready {
            runs: detector.describe(),
        });
        let Sinks { sinks, broker } = outputs;

        let defaults = SourceDefaults {
            detector: Arc::clone(&detector),
            skipped_full_image: match records {
                true => FullImage::SourceSize,
                false => FullImage::None,
            },
            image_budgets: image_budgets.clone(),
            previews: web.previews(),
            clips: clips.as_ref().map(ClipService::factory),
            encoding: config.record.encoding,
            only_snapshots: (!records && config.secondary.is_empty())
                .then(|| config.record.clone()),
            synthetic: options.synthetic.take(),
            dot: Dot {
                folder: options.dot_folder.take(),
                requests: Arc::new(AtomicU64::new(0)),
            },
            nvmm_reader: nvmm::nvmm_reader(config, &detector, &shared.machine),
        };
        let snapshots = media::start_snapshots(
            config,
            detector.classes(),
            archive.as_ref(),
            &shared.control,
        )?;
        let stage = TrackStage {
            sources: SourceTable::default(),
            publisher: Publisher {
                sinks,
                every_frame: config.publish.detections,
                stats: Arc::clone(&shared.stats),
                max_queued: Vec::new(),
            },
            images: FrameImages {
                recording,
                previews: web.previews(),
                snapshots,
                snapshots_report: None,
            },
            secondary,
            clips,
            batcher: Arc::clone(&shared.batcher),
            recorder: shared.recorder.clone(),
            stats_interval: config.publish.stats_interval,
            frame_callback: options.frame_callback.take(),
            stop: shared.stop.clone(),
            heartbeat: shared.heartbeats.register(thread_names::TRACK),
        };
        let track = spawn(thread_names::TRACK, move || {
            stage.run(&input_rx, &control_rx)
        })?;
        let workers = Workers {
            secondary: models.secondary.into_iter().zip(contexts).collect(),
            appearance,
            infer: InferWorkers {
                detector: Arc::clone(&detector),
                recorder: shared.recorder.clone(),
                settings: batch,
                batcher: Arc::clone(&shared.batcher),
                results,
                image_budgets,
                needs_gray: config.tracker.camera_motion != CameraMotionModel::Off,
            },
        };
        let mut pipeline = Self {
            deadline: None,
            detector_description: detector.describe(),
            sources: Sources::new(defaults, &shared, Switches::load(config)),
            control: requests,
            threads: Threads {
                workers: ThreadGroup::default(),
                appearance: ThreadGroup::default(),
                track,
                secondary: ThreadGroup::default(),
                monitors: ThreadGroup::default(),
            },
            failure: FirstFailure::new(&shared.batcher, &shared.stop),
            shared,
            archive,
            metrics,
            web,
            health,
            broker,
        };
        if let Err(error) = pipeline.start_threads(config, workers, &options.root) {
            return Err(pipeline.abort(error));
        }
        // Networks may have loaded for as long as the run is to last.
        pipeline.deadline = options.duration.map(|duration| Instant::now() + duration);
        Ok(pipeline)
    }

    /// Ends a pipeline that cannot start; returns the first error.
    fn abort(self, error: PipelineError) -> PipelineError {
        self.failure.fail(error);
        self.wait().failure.unwrap_or(PipelineError::Late {
            names: "start".to_owned(),
            waited_ms: 0,
        })
    }

    /// Starts the workers, one network after the other, then the sources, and what depends on them.
    fn start_threads(
        &mut self,
        config: &Config,
        workers: Workers,
        root: &SysRoot,
    ) -> Result<(), PipelineError> {
        let Workers {
            secondary,
            appearance,
            infer,
        } = workers;
        let (threads, failure) = (&mut self.threads, &self.failure);
        let heartbeats = &self.shared.heartbeats;
        for (network, context) in secondary {
            let names = network.worker_names().into_iter();
            let network_workers = SecondaryWorkers {
                network,
                context,
                results: self.shared.inputs.clone(),
                recorder: self.shared.recorder.clone(),
            };
            let group = &mut threads.secondary;
            workers::start(group, network_workers, names, heartbeats, failure)?;
        }
        if let Some(appearance) = appearance {
            let names = appearance.names().into_iter();
            let group = &mut threads.appearance;
            workers::start(group, appearance, names, heartbeats, failure)?;
        }
        let names = (0..config.detector.workers).map(|index| format!("detect-{index}"));
        workers::start(&mut threads.workers, infer, names, heartbeats, failure)?;
        release_code();
        self.sources.start(config)?;
        self.control.start_listener(self.broker.as_ref())?;
        self.start_monitors(config, root)
    }

    /// Starts the threads that observe the machine and this process.
    fn start_monitors(&mut self, config: &Config, root: &SysRoot) -> Result<(), PipelineError> {
        let (monitors, shared) = (&mut self.threads.monitors, &self.shared);
        let monitor = SystemMonitor {
            root: root.clone(),
            interval: config.publish.stats_interval,
            shared: shared.clone(),
        };
        monitors.spawn(thread_names::SYSMON, move || monitor.run())?;
        let watch = UpdateWatch::new(root, shared.control.clone());
        let stop = shared.stop.clone();
        monitors.spawn(thread_names::UPDATES, move || watch.run(&stop))?;
        if let Some(archive) = &self.archive {
            let retention = Retention {
                archive: archive.clone(),
                shared: shared.clone(),
            };
            monitors.spawn(thread_names::RETENTION, move || retention.run())?;
        }
        if systemd::is_managed() {
            let sources = config.sources.iter();
            let notifier = ServiceNotifier {
                shared: shared.clone(),
                first_frame_waits: sources.map(SourceConfig::first_frame_timeout).collect(),
                watchdog: systemd::watchdog_interval(),
                reload_notice: self.control.notice().clone(),
            };
            monitors.spawn(thread_names::SD_NOTIFY, move || notifier.run())?;
        }
        Ok(())
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
