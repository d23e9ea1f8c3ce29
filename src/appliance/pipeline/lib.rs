// SPDX-License-Identifier: Apache-2.0
//! The pipeline: the only crate that knows the whole path of a frame. It starts all parts, waits for the end, and joins them.
//!
//! ```text
//!   source-NAME …  ──► Batcher ──► detect-0, detect-1 … ──► track ──► threads of the sinks
//!   (one per source)   one queue   take batches, run       reorder, track,
//!                      per source  the detector            publish
//! ```
//!
//! A stop follows the data: sources end, the batcher drains, workers end, the tracking stage ends the tracks, sinks deliver what
//! they hold. Each join has a deadline, and the error names the late threads.

mod appearance;
mod batcher;
mod calibration_images;
mod clips;
mod code_release;
mod control;
mod detector_status;
mod error;
mod failure;
mod health;
mod health_file;
mod image_budgets;
mod infer;
mod labels;
mod media;
mod metrics;
mod models;
mod motion;
mod nvmm;
mod options;
mod outputs;
mod preload;
mod report;
mod run_state;
mod secondary;
mod shared;
mod source_counts;
mod source_handler;
mod sources;
mod start;
mod stats;
mod switches;
mod sysmon;
mod threads;
mod track;
mod update_watch;
mod web;
mod workers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use jetwatch_archive::Archive;
use jetwatch_publish::{EmbeddedBroker, Stats};
use jetwatch_telemetry::{StopToken, thread_names};

pub use batcher::{Batcher, QueuedFrame};
pub use calibration_images::CalibrationImages;
pub use error::PipelineError;
pub use labels::{missing_group_labels, renamed_labels, unknown_labels};
pub use media::archive_limits;
pub use motion::check_motion;
pub use options::{ConfigLoader, Options, Outcome};
pub use outputs::{embedded_broker, start_sinks};
pub use preload::preload_frames;
pub use report::{RunReport, SourceReport};
pub use secondary::{PreparedSecondary, all_networks, check_boxes, prepare_secondary};
pub use source_counts::SourceCounts;
pub use sources::needs_gstreamer;
pub use threads::{join, spawn};
pub use track::{FrameCallback, SINK_CLOSE_TIMEOUT};
pub use web::SUGGESTED_MAX_FPS;

use code_release::CodeRelease;
use control::Control;
use failure::FirstFailure;
use health_file::HealthFile;
use metrics::Metrics;
use shared::Shared;
use sources::Sources;
use threads::{Joiner, ThreadGroup};
use track::{TrackInput, TrackStageReport};
use web::Web;

/// Longest time for each group of threads to end after a stop.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for a recording to draw what waits, and then to complete its file.
const RECORDING_CLOSE_TIMEOUT: Duration = Duration::from_secs(4);

/// Interval at which requests and the end of the run are checked. Each check takes about 30 µs of CPU time where the cores are busy
/// with networks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running pipeline.
pub struct Pipeline {
    shared: Shared,
    /// When the run ends; `None`: with its sources.
    deadline: Option<Instant>,
    detector_description: String,
    sources: Sources,
    control: Control,
    threads: Threads,
    failure: FirstFailure,
    /// Where files are kept; `None` where nothing is, or its folder cannot be used.
    archive: Option<Archive>,
    metrics: Metrics,
    web: Web,
    /// Removes its file when it is dropped.
    health: HealthFile,
    /// Last, so that it outlives the sinks that publish to it.
    broker: Option<EmbeddedBroker>,
}

/// The threads of a run, except those of the sources.
struct Threads {
    /// Inference workers.
    workers: ThreadGroup,
    /// Workers of the network for the appearance of detections; they end after the inference workers.
    appearance: ThreadGroup,
    track: JoinHandle<TrackStageReport>,
    /// Workers of the secondary networks; they end after the tracking stage.
    secondary: ThreadGroup,
    /// Threads that observe the machine and this process.
    monitors: ThreadGroup,
}

impl Pipeline {
    /// Ends the run when it is stopped, from any thread.
    pub fn stop_token(&self) -> StopToken {
        self.shared.stop.clone()
    }

    /// A function that requests a DOT graph of the GStreamer pipeline of every source.
    pub fn dot_request(&self) -> impl Fn() + Send + use<> {
        let requests = Arc::clone(&self.sources.dot().requests);
        move || {
            requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A function that requests a reload of the configuration and does not wait for it. Requests that have not been handled yet
    /// are one.
    pub fn reload_request(&self) -> impl Fn() + Send + use<> {
        self.control.reload_request()
    }

    /// Where files of video and pictures are kept; `None` where nothing is, or its folder cannot be used.
    pub fn archive(&self) -> Option<&Archive> {
        self.archive.as_ref()
    }

    /// The address of the embedded broker, where there is one.
    pub fn broker_address(&self) -> Option<SocketAddr> {
        self.broker.as_ref().map(EmbeddedBroker::local_addr)
    }

    /// The address of the page, where there is one.
    pub fn page_address(&self) -> Option<SocketAddr> {
        self.web.address()
    }

    /// Which runtime runs which network, as text.
    pub fn detector_description(&self) -> &str {
        &self.detector_description
    }

    /// A function that returns the numbers of a progress line.
    pub fn progress(&self) -> impl Fn() -> Stats + Send + use<> {
        let stats = Arc::clone(&self.shared.stats);
        move || stats.progress()
    }

    /// A function that returns the counts of each source, and their latencies since its last call.
    pub fn source_counts(&self) -> impl Fn() -> Vec<SourceCounts> + Send + use<> {
        let stats = Arc::clone(&self.shared.stats);
        move || stats.source_counts()
    }

    /// Waits until every source has ended, the time or the frames are used up, a stop is requested, or the detector has failed;
    /// then ends all parts in order.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        self.handle_requests();
        self.shared.stop.stop();
        self.control.close();

        let mut joiner = Joiner::new(JOIN_TIMEOUT);
        let failed_sources = self.sources.join(&mut joiner);
        self.threads.monitors.join(&mut joiner);
        self.shared.batcher.close_all();
        self.threads.workers.join(&mut joiner);
        self.threads.appearance.join(&mut joiner);
        let _ = self.shared.inputs.send(TrackInput::Shutdown);
        joiner.restart(JOIN_TIMEOUT + SINK_CLOSE_TIMEOUT);
        let TrackStageReport {
            messages,
            outputs,
            recording,
        } = joiner
            .join(thread_names::TRACK, self.threads.track)
            .unwrap_or_default();
        self.threads.secondary.join(&mut joiner);
        drop(self.metrics);
        drop(self.web);
        drop(self.health);
        if let Some(broker) = self.broker.take() {
            broker.stop();
        }

        let late = joiner.late();
        if !late.is_empty() {
            let error = PipelineError::Late {
                names: late.join(", "),
                waited_ms: JOIN_TIMEOUT.as_millis(),
            };
            log::error!("{error}");
            self.failure.record(error);
        }
        let (recorded, recording_failure) = recording
            .map(|recording| (recording.report, recording.failure))
            .unzip();
        let mut report = self.shared.stats.report(messages);
        report.detector = self.detector_description;
        report.set_outputs(outputs, recorded);
        Outcome {
            report,
            failure: self.failure.take(),
            failed_sources,
            recording_failure: recording_failure.flatten(),
        }
    }

    /// Executes reloads and commands until the run ends.
    fn handle_requests(&mut self) {
        let mut pause = POLL_INTERVAL;
        let mut code = CodeRelease::new(Instant::now());
        while !self.shared.stop.wait(pause) {
            code.run(Instant::now());
            self.sources.follow_schedules(SystemTime::now());
            // One at a time: the end may come between two of them.
            pause = match self.control.handle_next(&mut self.sources) {
                true => {
                    code = CodeRelease::new(Instant::now());
                    Duration::ZERO
                }
                false => POLL_INTERVAL,
            };
            let is_over = self.deadline.is_some_and(|at| Instant::now() >= at);
            if is_over || self.threads.workers.is_finished() || self.sources.have_ended() {
                return;
            }
        }
    }
}
