//! How to run a pipeline, besides its configuration, and how a run ended.
//!
//! The last six options are extension points, which benchmarks use to change the behaviour of a pipeline from outside. The
//! daemon leaves them at their defaults, which add nothing to the path of a frame.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jetwatch_config::{Config, ConfigError};
use jetwatch_detect::Detector;
use jetwatch_platform::SysRoot;
use jetwatch_record::RenderError;
use jetwatch_source::{FrameHandler, ImageSize, SourceError, SyntheticFactory};
use jetwatch_telemetry::{Recorder, Trace};
use jetwatch_types::{OverflowPolicy, Placement, Size};

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
    /// Root of the file system from which the machine and its sensors are read.
    pub root: SysRoot,
    /// Reads the configuration again for a reload; `None`: reloads are refused.
    pub config_loader: Option<ConfigLoader>,
    /// The file from which the configuration was read; `None`: there is none.
    pub config_path: Option<PathBuf>,
    /// The file for the health of the run; `None`: none is written.
    pub health_file: Option<PathBuf>,
    /// Program and arguments that check the installation, for the page: they print `STATE WHAT: TEXT` lines, and `verdict: TEXT`. Empty:
    /// the page offers no checks.
    pub check_command: Vec<OsString>,
    /// Makes the sources of `synthetic://` URIs; `None`: such a source fails.
    pub synthetic: Option<SyntheticFactory>,
    /// What happens to frames and crops that a queue, the recording or a secondary network cannot keep up with. With
    /// [`OverflowPolicy::Block`] nothing is dropped and queues after the detector have no limit: a handler decorator must
    /// limit the frames in the pipeline.
    pub overflow: OverflowPolicy,
    /// Crops for secondary networks are cut out of every Nth frame of a source only; 0 and 1: of all of them.
    pub crop_interval: u64,
    /// Size of the images that sources deliver. With [`ImageSize::Source`] a detector decorator must scale them.
    pub image_size: ImageSize,
    /// Wraps the detector of each inference worker.
    pub detector_decorator: Option<DetectorDecorator>,
    /// Wraps the handler that receives the frames of a source.
    pub handler_decorator: Option<HandlerDecorator>,
    /// Observes the progress of frames, crops and full images.
    pub observer: Option<Arc<dyn PipelineObserver>>,
}

/// Wraps the detector of an inference worker; called on the worker's thread, once its detector is loaded.
pub type DetectorDecorator =
    Arc<dyn Fn(Box<dyn Detector>, &DetectorContext) -> Box<dyn Detector> + Send + Sync>;

/// Wraps the handler that receives the frames of a source; called before the source starts.
pub type HandlerDecorator =
    Arc<dyn Fn(Arc<dyn FrameHandler>) -> Arc<dyn FrameHandler> + Send + Sync>;

/// What a [`DetectorDecorator`] may need of the pipeline.
#[derive(Clone)]
pub struct DetectorContext {
    /// Size of the network's input, in pixels.
    pub input: Size,
    /// Placement of images in the input.
    pub placement: Placement,
    /// Receives stage times.
    pub recorder: Recorder,
}

/// Observes the progress of a run. Methods are called on the pipeline's threads, which wait until they return.
pub trait PipelineObserver: Send + Sync {
    /// A frame with inference has been tracked, published, and passed to secondary inference and recording. `crops` crops are
    /// queued for secondary networks or in one.
    fn frame_processed(&self, crops: usize);

    /// A result of a secondary network has been processed; `crops` as above.
    fn crop_processed(&self, crops: usize);

    /// One more full image is kept for later stages (1), or one was released (-1).
    fn full_images_changed(&self, change: isize);

    /// The run ends: from now on no source may be kept waiting.
    fn stopping(&self);

    /// The inference workers have ended. The tracking stage ends after this has returned; it may wait for crops and images.
    fn workers_ended(&self);
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
