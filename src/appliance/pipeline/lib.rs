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

mod alone;
mod announce;
mod attend;
mod cadence;
mod calibrate;
mod cascade;
mod command;
mod course;
mod error;
mod evaluate;
mod follow;
mod golden;
mod intervals;
mod lanes;
mod late_scale;
mod lines;
mod machine;
mod meter;
mod notice;
mod reload;
mod reorder;
mod report;
mod requests;
mod roster;
mod scene;
mod sieve;
mod sinks;
mod stage_alone;
mod start;
mod start_secondary;
mod surfaces;
mod threads;
mod worker;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;

use jetwatch_config::{Config, ConfigError, SourceConfig};
use jetwatch_platform::{Machine, Root};
use jetwatch_publish::{CommandListener, EmbeddedBroker, Stats};
use jetwatch_record::{Recording, RenderError, Shelf};
use jetwatch_source::{
    self as source, ArgusRestarts, Dot, SourceError, StopToken, Surfaces, ViewWish,
};
use jetwatch_telemetry::{Pulses, Recorder, Trace, thread_names};
use jetwatch_types::{Placement, Size};

pub use alone::{DetectorAlone, detector_alone, layers_alone};
pub use calibrate::CalibrationPictures;
pub use cascade::{PreparedSecondary, all_networks, prepare_secondary};
pub use course::{Course, ScalingPlace, Turns};
pub use error::PipelineError;
pub use evaluate::{Examined, Examiner, Pictures};
pub use follow::Tap;
pub use golden::{GOLDEN_SCORE, detections_of, golden_frames, picture_hash};
pub use reload::Reread;
pub use report::{Report, SourceReport};
pub use scene::unknown_labels;
pub use stage_alone::{Budget, Part, part_alone};

use announce::{Announcer, Outlets};
use cascade::Cascade;
use course::Gate;
use follow::{CLOSING, Ending, Follower, News};
use lanes::Lanes;
use lines::Lines;
use meter::Meter;
use notice::Notice;
use requests::Requests;
use roster::Member;
use threads::{finished_by, join, spawn};

/// Longest that each group of threads may take to end after a stop.
const JOIN_DEADLINE: Duration = Duration::from_secs(10);

/// Longest that a recording may take to draw what waits, and then to complete its file.
const FILE_END: Duration = Duration::from_secs(4);

/// Longest that is waited at the end for what is beside the chain, where frames wait for it anyway.
const DRAINED: Duration = Duration::from_secs(60);

/// How often the watcher looks at its threads.
const WATCH: Duration = Duration::from_millis(20);

/// Results that may wait for the follower.
const NEWS_DEPTH: usize = 256;

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
    pub tap: Option<Tap>,
    /// Records the annotated frames of all sources to this file.
    pub record: Option<PathBuf>,
    /// Where the system begins that is looked at: what works on the video, and how the machine does.
    pub root: Root,
    /// Reads the configuration again for a reload; `None`: there is nothing to read.
    pub reread: Option<Reread>,
    /// Which way the chain goes: the daemon's own, unless a benchmark compares it with others.
    pub course: Course,
}

/// How a run ended.
pub struct Outcome {
    /// Its numbers.
    pub report: Report,
    /// Why it had to stop, when it had to.
    pub failure: Option<PipelineError>,
    /// Sources that failed for good, by name.
    pub failed_sources: Vec<(String, SourceError)>,
    /// Why the recording is not whole, where one was asked for.
    pub recording_failure: Option<RenderError>,
}

/// What every source has to know of the chain behind it.
struct Inlet {
    size: Size,
    placement: Placement,
    labels: Vec<String>,
    recorder: Recorder,
}

/// The running chain.
pub struct Pipeline {
    stop: StopToken,
    started: Instant,
    duration: Option<Duration>,
    dot: Dot,
    machine: Arc<Machine>,
    surfaces: Option<Arc<Surfaces>>,
    runs: String,
    /// The configuration that runs.
    config: Config,
    reread: Option<Reread>,
    requests: Requests,
    notice: Notice,
    inlet: Inlet,
    sources: Vec<Member>,
    lanes: Arc<Lanes>,
    workers: Vec<(String, JoinHandle<()>)>,
    follower: JoinHandle<Ending>,
    /// There where pictures are wanted after the network: for a recording, for secondary networks.
    shelf: Option<Shelf>,
    /// Which way the chain goes, and what sources wait before where frames wait for each other.
    course: Course,
    gate: Gate,
    /// What a recording shows of frames that skip the network.
    carried_view: ViewWish,
    /// Workers of the secondary networks, which end when the follower has.
    secondary: Vec<(String, JoinHandle<()>)>,
    /// There only where commands are allowed.
    listener: Option<CommandListener>,
    /// There only where a service manager listens.
    attendant: Option<JoinHandle<()>>,
    /// Reads how the machine does.
    watcher: Option<JoinHandle<()>>,
    pulses: Pulses,
    argus: Arc<ArgusRestarts>,
    news: Sender<News>,
    meter: Arc<Meter>,
    failure: Arc<Mutex<Option<PipelineError>>>,
    /// Last, so that it outlives the sinks that publish to it.
    broker: Option<EmbeddedBroker>,
}

impl Pipeline {
    /// Builds and starts the whole chain. Returns when every thread runs and every worker's detector is loaded; sources may still be connecting.
    pub fn start(config: &Config, options: Options) -> Result<Self, PipelineError> {
        let started = options.process_started.unwrap_or_else(Instant::now);
        let recorder = Recorder::with_trace(options.trace.clone());
        let (pulses, course) = (Pulses::default(), options.course);
        let announcer = Announcer::new(config, &pulses);
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
                (course.lag(), course::burst(config)),
                FILE_END,
            )
        });
        let recording = recording.transpose()?;
        let gate = course.gate(config);
        let shelf = course.shelf(config, recording.is_some(), &gate);
        let carried_view = match &recording {
            Some(_) => ViewWish::SourceSize,
            None => ViewWish::Nothing,
        };
        let Outlets { sinks, broker } = announcer.outlets(&prepared)?;

        let lanes = Lanes::new(&[], config.detector.batch_size, options.max_frames);
        // Held until the first sources are there.
        lanes.hold(true);
        let (news, heard) = course.news();
        let lanes = intervals::skipping(lanes, config, news.clone());
        let lanes = Arc::new(lanes.with_most_batches(options.max_batches));
        let (cascade, stations) = Cascade::new(&prepared_secondary, course.lag());
        let meter = Meter::new(
            started,
            options.warmup_frames,
            config.detector.workers,
            Arc::clone(&lanes),
            recorder.clone(),
        );
        let meter = Arc::new(meter.with_secondary(cascade.counters()));

        let stop = StopToken::default();
        let follower = Follower {
            lines: Lines::default(),
            labels: prepared.labels().to_vec(),
            sinks,
            cascade,
            lanes: Arc::clone(&lanes),
            meter: Arc::clone(&meter),
            recorder: recorder.clone(),
            stats_interval: config.publish.stats_interval,
            every_frame: config.publish.detections,
            tap: options.tap,
            recording,
            gate: gate.clone(),
            stop: stop.clone(),
            pulse: pulses.join(thread_names::TRACK),
        };
        let follower = spawn(thread_names::TRACK, move || follower.run(&heard))?;

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
            surfaces: match course.scaling {
                ScalingPlace::Source => surfaces::shared(&prepared, &machine),
                // The processor scales them.
                ScalingPlace::Detector => None,
            },
            machine,
            runs: prepared.describe(),
            inlet: Inlet {
                size: prepared.input_size(),
                placement: prepared.placement(),
                labels: prepared.labels().to_vec(),
                recorder: recorder.clone(),
            },
            config: config.clone(),
            reread: options.reread,
            requests: Requests::default(),
            notice: Notice::default(),
            sources: Vec::new(),
            lanes,
            workers: Vec::new(),
            secondary: Vec::new(),
            follower,
            shelf,
            course,
            gate,
            carried_view,
            listener: None,
            attendant: None,
            watcher: None,
            pulses,
            argus: Arc::new(ArgusRestarts::by_unit()),
            news,
            meter,
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
    pub fn runs(&self) -> &str {
        &self.runs
    }

    /// Numbers for a progress line.
    pub fn glance(&self) -> impl Fn() -> Stats + Send + use<> {
        let meter = Arc::clone(&self.meter);
        move || meter.glance()
    }

    /// Waits until every source has ended, the time or the frames are used up, a stop was asked for, or the detector failed; then ends everything in order.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        let deadline = self.duration.map(|duration| self.started + duration);
        let mut pause = WATCH;
        while !self.stop.wait(pause) {
            // One at a time: between two of them the end may come.
            pause = match self.answer() {
                true => Duration::ZERO,
                false => WATCH,
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
        self.gate.open();
        drop(self.listener.take());
        self.requests.close(&self.news);

        let mut failed_sources = Vec::new();
        let mut late = Vec::new();
        let until = Instant::now() + JOIN_DEADLINE;
        // A reader that waits for room must hear that no more is wanted, but what waits in the lanes is still worked off.
        if !self
            .sources
            .iter()
            .all(|source| source.handle.is_finished())
        {
            self.lanes.close_all();
        }
        for Member { config, handle, .. } in self.sources.drain(..) {
            let name = config.name;
            if finished_by(until, || handle.is_finished()) {
                if let Err(error) = handle.join() {
                    failed_sources.push((name, error));
                }
            } else {
                late.push(format!("source-{name}"));
            }
        }
        if let Some(attendant) = self.attendant.take() {
            join(attendant);
        }
        if let Some(watcher) = self.watcher.take() {
            if finished_by(until, || watcher.is_finished()) {
                join(watcher);
            } else {
                late.push(thread_names::SYSMON.to_owned());
            }
        }
        self.lanes.close_all();
        for (name, worker) in self.workers.drain(..) {
            if finished_by(until, || worker.is_finished()) {
                join(worker);
            } else {
                late.push(name);
            }
        }
        self.gate.drain(DRAINED);
        let _ = self.news.send(News::Finish);
        let until = Instant::now() + JOIN_DEADLINE + CLOSING;
        let Ending {
            messages,
            recording,
        } = if finished_by(until, || self.follower.is_finished()) {
            join(self.follower)
        } else {
            late.push(thread_names::TRACK.to_owned());
            Ending::default()
        };
        for (name, worker) in self.secondary.drain(..) {
            if finished_by(until, || worker.is_finished()) {
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
                waited_ms: JOIN_DEADLINE.as_millis(),
            };
            log::error!("{error}");
            self.failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(error);
        }
        let failure = self
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut report = self.meter.report(messages);
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
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
        // Sources that were still to come do not.
        self.lanes.hold(false);
        self.lanes.abandon();
        self.stop.stop();
    }
}

fn needs_gstreamer(source: &SourceConfig) -> bool {
    !matches!(source.uri, jetwatch_config::SourceUri::Synthetic(_))
}
