// SPDX-License-Identifier: Apache-2.0
//! How to run a pipeline, besides its configuration, and how a run ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jetwatch_config::{Config, ConfigError};
use jetwatch_platform::SysRoot;
use jetwatch_record::RenderError;
use jetwatch_source::{SourceError, SyntheticFactory};
use jetwatch_telemetry::Trace;
use jetwatch_web::CameraFinder;

use super::{FrameCallback, PipelineError, RunReport};

/// Reads the configuration again, in the same way as for the start.
pub type ConfigLoader = Box<dyn Fn() -> Result<Config, ConfigError> + Send>;

/// How to run, besides the configuration.
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
    /// Receives the detections of every frame.
    pub frame_callback: Option<FrameCallback>,
    /// Records the annotated frames of all sources to this file.
    pub record: Option<PathBuf>,
    /// Records this time only, from the first frame on; `None`: the whole run.
    pub record_for: Option<Duration>,
    /// Root of the file system from which the machine and its sensors are read.
    pub root: SysRoot,
    /// Reads the configuration again for a reload; `None`: reloads are refused.
    pub config_loader: Option<ConfigLoader>,
    /// The file from which the configuration was read; `None`: there is none.
    pub config_path: Option<PathBuf>,
    /// The file for the health of the run; `None`: none is written.
    pub health_file: Option<PathBuf>,
    /// Files for the address of the page, of which the first that can be written is; empty: none is written.
    pub page_files: Vec<PathBuf>,
    /// Program and arguments that check the installation, for the page: they print `STATE WHAT: TEXT` lines, and `verdict: TEXT`. Empty:
    /// the page offers no checks.
    pub check_command: Vec<OsString>,
    /// Finds cameras for the page; `None`: the page offers no search.
    pub camera_finder: Option<CameraFinder>,
    /// Makes the sources of `synthetic://` URIs; `None`: such a source fails.
    pub synthetic: Option<SyntheticFactory>,
}

/// How a run ended.
pub struct Outcome {
    /// Its numbers.
    pub report: RunReport,
    /// Why it had to stop, when it had to.
    pub failure: Option<PipelineError>,
    /// Sources that failed permanently, by name.
    pub failed_sources: Vec<(String, SourceError)>,
    /// Why the recording is incomplete, where one was requested.
    pub recording_failure: Option<RenderError>,
}
