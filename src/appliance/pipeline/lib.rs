//! FLOOR 3: the only room that knows the whole chain: build, start, watch, join.
//!
//! ```text
//!   source-NAME …  ──► lanes ──► detect-0, detect-1 … ──► follow ──► sinks' own threads
//!   (one a source)     one queue   take batches, run      reorder, track,
//!                      a source    the network            events, counts
//! ```
//!
//! Stopping runs the way data runs: sources end, lanes drain, workers end, the follower ends the tracks, sinks deliver what
//! they hold. Each join has a deadline that names who is late.

mod analytics;
mod batcher;
mod calibration_images;
mod control;
mod detector_only;
mod detector_status;
mod error;
mod execution_mode;
mod filter;
mod frame_scaler;
mod health;
mod infer;
mod interval;
mod nvmm;
mod preload;
mod reload;
mod reorder;
mod report;
mod secondary;
mod single_stage;
mod source_table;
mod sources;
mod start;
mod stats;
mod sysmon;
mod track;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use parking_lot::Mutex;

use jetwatch_config::{Config, ConfigError, SourceConfig};
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_publish::{CommandListener, EmbeddedBroker, Stats};
use jetwatch_record::{ImageBudget, Recording, RenderError};
use jetwatch_source::{
    self as source, ArgusSupervisor, Dot, FullImage, NvmmReader, SourceError, StopToken,
    SyntheticFactory,
};
use jetwatch_telemetry::{Heartbeats, Recorder, Trace, thread_names};
use jetwatch_types::{Placement, Size};

pub use analytics::unknown_labels;
pub use batcher::{Batcher, QueuedFrame};
pub use calibration_images::CalibrationImages;
pub use detector_only::{DetectorAlone, bench_detector, bench_layers};
pub use error::PipelineError;
pub use execution_mode::{Backpressure, ExecutionMode, ScaleAt};
pub use preload::preload_frames;
pub use reload::ConfigLoader;
pub use report::{RunReport, SourceReport};
pub use secondary::{PreparedSecondary, all_networks, prepare_secondary};
pub use single_stage::{BenchStage, RunLimit, bench_stage};
pub use start::{join, spawn};
pub use track::FrameCallback;

use control::ControlQueue;
use detector_status::{DetectorStatusPublisher, Sinks};
use execution_mode::InFlightLimit;
use health::ReloadNotice;
use secondary::SecondaryInference;
use source_table::SourceTable;
use sources::RunningSource;
use start::wait_until;
use stats::StatsCollector;
use track::{
    ControlMessage, SINK_CLOSE_TIMEOUT, TrackInput, TrackStage, TrackStageReport, control_channel,
};

/// Longest that each group of threads may take to end after a stop.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest that a recording may take to draw what waits, and then to complete its file.
const RECORDING_CLOSE_TIMEOUT: Duration = Duration::from_secs(4);

/// Longest that is waited at the end for what is beside the chain, where frames wait for it anyway.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// How often the watcher looks at its threads.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Results that may wait for the follower.
const CHANNEL_DEPTH: usize = 256;

/// How to run, besides what the configuration says.
#[derive(Default)]
pub struct Options {
    /// When the process started, for the start-up times; default: now.
    pub process_started: Option<Instant>,
    /// End after this time.
    pub duration: Option<Duration>,
    /// End after this many frames, over all sources.
    pub max_frames: Option<u64>,
    /// End after this many batches.
    pub max_batches: Option<u64>,
    /// Measure only after this many frames.
    pub warmup_frames: u64,
    /// Keeps every single range of every stage.
    pub trace: Option<Trace>,
    /// Folder for DOT graphs of the GStreamer pipelines.
    pub dot_folder: Option<PathBuf>,
    /// Sees the detections of every frame.
    pub frame_callback: Option<FrameCallback>,
    /// Records the annotated frames of all sources to this file.
    pub record: Option<PathBuf>,
    /// Where the system begins that is looked at: what works on the video, and how the machine does.
    pub root: SysRoot,
    /// Reads the configuration again for a reload; `None`: there is nothing to read.
    pub config_loader: Option<ConfigLoader>,
    /// Which way the chain goes: the daemon's own, unless a benchmark compares it with others.
    pub execution_mode: ExecutionMode,
    /// Makes the sources of `synthetic://` URIs; `None`: such a source fails.
    pub synthetic: Option<SyntheticFactory>,
}

/// How a run ended.
pub struct Outcome {
    /// Its numbers.
    pub report: RunReport,
    /// Why it had to stop, when it had to.
    pub failure: Option<PipelineError>,
    /// Sources that failed for good, by name.
    pub failed_sources: Vec<(String, SourceError)>,
    /// Why the recording is not whole, where one was asked for.
    pub recording_failure: Option<RenderError>,
}

/// What every source has to know of the chain behind it.
struct SourceDefaults {
    size: Size,
    placement: Placement,
    labels: Vec<String>,
    recorder: Recorder,
    synthetic: Option<SyntheticFactory>,
}

/// The running chain.
pub struct Pipeline {
    stop: StopToken,
    started: Instant,
    duration: Option<Duration>,
    dot: Dot,
    machine: Arc<Machine>,
    nvmm_reader: Option<Arc<NvmmReader>>,
    detector_description: String,
    /// The configuration that runs.
    config: Config,
    config_loader: Option<ConfigLoader>,
    control: ControlQueue,
    reload_notice: ReloadNotice,
    source_defaults: SourceDefaults,
    sources: Vec<RunningSource>,
    batcher: Arc<Batcher>,
    workers: Vec<(String, JoinHandle<()>)>,
    track_stage: JoinHandle<TrackStageReport>,
    /// There where pictures are wanted after the network: for a recording, for secondary networks.
    image_budget: Option<ImageBudget>,
    /// Which way the chain goes, and what sources wait before where frames wait for each other.
    execution_mode: ExecutionMode,
    in_flight: InFlightLimit,
    /// What a recording shows of frames that skip the network.
    skipped_full_image: FullImage,
    /// Workers of the secondary networks, which end when the follower has.
    secondary: Vec<(String, JoinHandle<()>)>,
    /// There only where commands are allowed.
    listener: Option<CommandListener>,
    /// There only where a service manager listens.
    service_notifier: Option<JoinHandle<()>>,
    /// Reads how the machine does.
    system_monitor: Option<JoinHandle<()>>,
    heartbeats: Heartbeats,
    argus: Arc<ArgusSupervisor>,
    inputs: Sender<TrackInput>,
    control_messages: Sender<ControlMessage>,
    stats: Arc<StatsCollector>,
    failure: Arc<Mutex<Option<PipelineError>>>,
    /// Last, so that it outlives the sinks that publish to it.
    broker: Option<EmbeddedBroker>,
}

impl Pipeline {
    /// Builds and starts the whole chain. Returns when every thread runs and every worker's detector is loaded; sources may still be connecting.
    pub fn start(config: &Config, options: Options) -> Result<Self, PipelineError> {
        let started = options.process_started.unwrap_or_else(Instant::now);
        let recorder = Recorder::with_trace(options.trace.clone());
        let (pulses, course) = (Heartbeats::default(), options.execution_mode);
        let announcer = DetectorStatusPublisher::new(config, &pulses);
        // First, since a detector may take minutes.
        let record = start::prepare_recording(config, options.record.as_deref())?;
        let prepared = Arc::new(announcer.prepare(&recorder)?);
        let unknown = unknown_labels(config, prepared.labels());
        if !unknown.is_empty() {
            return Err(ConfigError::new(unknown).into());
        }
        // After the network, which leaves much freed memory behind in this thread's heap: the registry finds room in it.
        if config.sources.iter().any(needs_gstreamer) {
            source::gst::init(&config.log.gst_debug)?;
        }
        let prepared_secondary = start::open_secondary(config, &prepared)?;
        let recording = record.map(|choice| {
            let names = config.sources.iter().map(|source| source.name.clone());
            Recording::start(
                choice,
                names.collect(),
                recorder.clone(),
                (
                    course.overflow_policy(),
                    execution_mode::max_in_flight(config),
                ),
                RECORDING_CLOSE_TIMEOUT,
            )
        });
        let recording = recording.transpose()?;
        let gate = course.in_flight_limit(config);
        let shelf = course.image_budget(config, recording.is_some(), &gate);
        let carried_view = match &recording {
            Some(_) => FullImage::SourceSize,
            None => FullImage::None,
        };
        let Sinks { sinks, broker } = announcer.into_sinks(&prepared)?;

        let lanes = Batcher::new(&[], config.detector.batch_size, options.max_frames);
        // Held until the first sources are there.
        lanes.hold_open(true);
        let (inputs, input_rx) = course.input_channel();
        let (control_messages, control_rx) = control_channel();
        let lanes = sources::with_intervals(lanes, config, inputs.clone());
        let lanes = Arc::new(lanes.with_max_batches(options.max_batches));
        let (cascade, stations) =
            SecondaryInference::new(&prepared_secondary, course.overflow_policy());
        let meter = StatsCollector::new(
            started,
            options.warmup_frames,
            config.detector.workers,
            Arc::clone(&lanes),
            recorder.clone(),
        );
        let meter = Arc::new(meter.with_secondary(cascade.counters()));

        let stop = StopToken::default();
        let follower = TrackStage {
            sources: SourceTable::default(),
            labels: prepared.labels().to_vec(),
            sinks,
            secondary: cascade,
            batcher: Arc::clone(&lanes),
            stats: Arc::clone(&meter),
            recorder: recorder.clone(),
            stats_interval: config.publish.stats_interval,
            every_frame: config.publish.detections,
            frame_callback: options.frame_callback,
            recording,
            in_flight: gate.clone(),
            stop: stop.clone(),
            heartbeat: pulses.register(thread_names::TRACK),
        };
        let follower = spawn(thread_names::TRACK, move || {
            follower.run(&input_rx, &control_rx)
        })?;

        let machine = Arc::new(Machine::find(&options.root));
        let failure: Arc<Mutex<Option<PipelineError>>> = Arc::default();
        let mut pipeline = Self {
            stop,
            started: Instant::now(),
            duration: options.duration,
            dot: Dot {
                folder: options.dot_folder,
                requests: Arc::new(AtomicU64::new(0)),
            },
            nvmm_reader: match course.scale_at {
                ScaleAt::Source => nvmm::nvmm_reader(&prepared, &machine),
                // The processor scales them.
                ScaleAt::Detector => None,
            },
            machine,
            detector_description: prepared.describe(),
            source_defaults: SourceDefaults {
                size: prepared.input_size(),
                placement: prepared.placement(),
                labels: prepared.labels().to_vec(),
                recorder: recorder.clone(),
                synthetic: options.synthetic,
            },
            config: config.clone(),
            config_loader: options.config_loader,
            control: ControlQueue::default(),
            reload_notice: ReloadNotice::default(),
            sources: Vec::new(),
            batcher: lanes,
            workers: Vec::new(),
            secondary: Vec::new(),
            track_stage: follower,
            image_budget: shelf,
            execution_mode: course,
            in_flight: gate,
            skipped_full_image: carried_view,
            listener: None,
            service_notifier: None,
            system_monitor: None,
            heartbeats: pulses,
            argus: Arc::new(ArgusSupervisor::with_restart_unit()),
            inputs,
            control_messages,
            stats: meter,
            failure,
            broker,
        };
        let began = pipeline
            .start_secondary(prepared_secondary, stations)
            .and_then(|()| pipeline.start_threads(config, &prepared, &recorder, &options.root));
        if let Err(error) = began {
            pipeline.fail(error);
            let outcome = pipeline.wait();
            return Err(outcome.failure.unwrap_or(PipelineError::Late {
                names: "start".to_owned(),
                waited_ms: 0,
            }));
        }
        Ok(pipeline)
    }

    /// Asks for the end from another thread.
    #[must_use]
    pub fn stop_token(&self) -> StopToken {
        self.stop.clone()
    }

    /// A function that asks every source for a DOT graph of its GStreamer pipeline.
    pub fn dot_request(&self) -> impl Fn() + Send + use<> {
        let requests = Arc::clone(&self.dot.requests);
        move || {
            requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Where the embedded broker listens, when there is one.
    #[must_use]
    pub fn broker_address(&self) -> Option<std::net::SocketAddr> {
        self.broker.as_ref().map(EmbeddedBroker::local_addr)
    }

    /// The detector in words: what runs which network.
    #[must_use]
    pub fn detector_description(&self) -> &str {
        &self.detector_description
    }

    /// Numbers for a progress line.
    pub fn progress(&self) -> impl Fn() -> Stats + Send + use<> {
        let meter = Arc::clone(&self.stats);
        move || meter.progress()
    }

    /// Waits until every source has ended, the time or the frames are used up, a stop was asked for, or the detector failed; then ends everything in order.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        let deadline = self.duration.map(|duration| self.started + duration);
        let mut pause = POLL_INTERVAL;
        while !self.stop.wait(pause) {
            // One at a time: between two of them the end may come.
            pause = match self.handle_next() {
                true => Duration::ZERO,
                false => POLL_INTERVAL,
            };
            let out_of_time = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            let no_workers = self.workers.iter().all(|(_, worker)| worker.is_finished());
            let no_sources = self
                .sources
                .iter()
                .all(|source| source.handle.is_finished());
            if out_of_time || no_workers || no_sources {
                break;
            }
        }
        self.stop.stop();
        self.in_flight.open();
        drop(self.listener.take());
        self.control.close(&self.control_messages);

        let mut failed_sources = Vec::new();
        let mut late = Vec::new();
        let until = Instant::now() + JOIN_TIMEOUT;
        // A reader that waits for room must hear that no more is wanted, but what waits in the lanes is still worked off.
        if !self
            .sources
            .iter()
            .all(|source| source.handle.is_finished())
        {
            self.batcher.close_all();
        }
        for RunningSource { config, handle, .. } in self.sources.drain(..) {
            let name = config.name;
            if wait_until(until, || handle.is_finished()) {
                if let Err(error) = handle.join() {
                    failed_sources.push((name, error));
                }
            } else {
                late.push(format!("source-{name}"));
            }
        }
        if let Some(attendant) = self.service_notifier.take() {
            join(attendant);
        }
        if let Some(watcher) = self.system_monitor.take() {
            if wait_until(until, || watcher.is_finished()) {
                join(watcher);
            } else {
                late.push(thread_names::SYSMON.to_owned());
            }
        }
        self.batcher.close_all();
        for (name, worker) in self.workers.drain(..) {
            if wait_until(until, || worker.is_finished()) {
                join(worker);
            } else {
                late.push(name);
            }
        }
        self.in_flight.drain(DRAIN_TIMEOUT);
        let _ = self.inputs.send(TrackInput::Shutdown);
        let until = Instant::now() + JOIN_TIMEOUT + SINK_CLOSE_TIMEOUT;
        let TrackStageReport {
            messages,
            recording,
        } = if wait_until(until, || self.track_stage.is_finished()) {
            join(self.track_stage)
        } else {
            late.push(thread_names::TRACK.to_owned());
            TrackStageReport::default()
        };
        for (name, worker) in self.secondary.drain(..) {
            if wait_until(until, || worker.is_finished()) {
                join(worker);
            } else {
                late.push(name);
            }
        }
        if let Some(broker) = self.broker.take() {
            broker.stop();
        }
        if !late.is_empty() {
            let error = PipelineError::Late {
                names: late.join(", "),
                waited_ms: JOIN_TIMEOUT.as_millis(),
            };
            log::error!("{error}");
            self.failure.lock().get_or_insert(error);
        }
        let failure = self.failure.lock().take();
        let mut report = self.stats.report(messages);
        let (recorded, recording_failure) = recording
            .map(|recording| (recording.report, recording.failure))
            .unzip();
        report.recording = recorded;
        Outcome {
            report,
            failure,
            failed_sources,
            recording_failure: recording_failure.flatten(),
        }
    }

    fn fail(&self, error: PipelineError) {
        self.failure.lock().get_or_insert(error);
        // Sources that were still to come do not.
        self.batcher.hold_open(false);
        self.batcher.discard();
        self.stop.stop();
    }
}

fn needs_gstreamer(source: &SourceConfig) -> bool {
    !matches!(source.uri, jetwatch_config::SourceUri::Synthetic(_))
}
