// SPDX-License-Identifier: Apache-2.0
//! Video sources: from a URI to frames.
//!
//! [`start`] runs one source on its own thread, the supervisor. It opens the source, watches it, and reopens it with growing
//! waits when it fails or stalls, independently of other sources. A session is one GStreamer pipeline ([`gst`]), a folder of
//! images, or a synthetic source of the caller ([`SyntheticFactory`]). Frames go to the pipeline's [`FrameHandler`], which
//! decides whether to block or to replace older frames. The machine and the configuration select the units that decode and
//! scale: those of a Jetson or the CPU. They are reported as a [`ProcessingPlan`].
//!
//! ```text
//!   supervisor ── run_once ──► [ elements of the URI → decoder → scaling steps → appsink ] ── FrameHandler::frame ──►
//!        ▲            │
//!        └── wait ◄───┘  error, stall, end
//! ```

mod argus;
mod convert_plan;
mod cut_file;
pub mod digest;
mod elements;
mod error;
mod frame_handler;
pub mod gst;
mod h264_encoders;
pub mod image_file;
mod image_folder;
mod pacer;
mod plan;
mod rate_limit;
mod source_trait;
mod supervisor;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jetwatch_config::EncodingConfig;
pub use jetwatch_nvidia::surface::SurfaceReader as NvmmReader;
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_telemetry::{Heartbeat, Heartbeats, Recorder, StopToken};
use jetwatch_types::{Crop, Letterbox, PixelAspect, Placement, Size, SourceId};

pub use argus::ArgusSupervisor;
pub use elements::{
    ELEMENTS, ElementSpec, ElementState, inspect_element, make as make_element, set_if_supported,
};
pub use error::SourceError;
pub use frame_handler::{Flow, FrameHandler};
pub use image_file::UnreadableHandler;
pub use plan::{PlanStep, ProcessingPlan, StepKind};
pub use rate_limit::RateLimiter;
pub use source_trait::{SessionEnd, Source, SyntheticFactory, SyntheticOptions};
pub use supervisor::{SourceHandle, start, start_image_source};

/// The image that a frame has in addition to the network's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FullImage {
    /// None: no later stage reads pixels.
    #[default]
    None,
    /// The image at source size, in `BGRx`, in CPU memory.
    SourceSize,
    /// The same for those frames for which [`FrameHandler::wants_full_image`] is true: the others cost nothing more.
    OnDemand,
}

/// Size of a frame's image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageSize {
    /// The inner size of the network's letterbox.
    #[default]
    Network,
    /// The source's size, for detector workers that scale.
    Source,
}

/// The environment of a source, in addition to its configuration.
#[derive(Clone)]
pub struct SourceContext {
    /// Index of the source.
    pub id: SourceId,
    /// Name of the source.
    pub name: String,
    /// Size of the network's input; images are delivered at the letterbox's inner size.
    pub input: Size,
    /// Placement in the network's input.
    pub placement: Placement,
    /// Size of the delivered images.
    pub image_size: ImageSize,
    /// Receives frames, states and the processing plan.
    pub handler: Arc<dyn FrameHandler>,
    /// The full image of skipped frames; `None`: no frame skips inference.
    pub skipped_image: Option<FullImage>,
    /// Requests the end of the source.
    pub stop: StopToken,
    /// Stage times.
    pub recorder: Recorder,
    /// Where and when DOT graphs of the GStreamer pipeline are written.
    pub dot: Dot,
    /// Counters shared with the statistics.
    pub counters: Arc<SourceCounters>,
    /// Heartbeat of the supervisor.
    pub heartbeat: Arc<Heartbeat>,
    /// Restart policy of the camera service, for CSI cameras.
    pub argus: Arc<ArgusSupervisor>,
    /// The machine, whose units may process the video.
    pub machine: Arc<Machine>,
    /// Makes images of Jetson surfaces without a copy; the VIC then leaves images in NVMM. `None`: images are in CPU memory.
    pub nvmm_reader: Option<Arc<NvmmReader>>,
    /// Whether the encoded stream is requested; the video of sources that have none is encoded.
    pub wants_access_units: bool,
    /// Whether its sound is requested with it, where it is AAC.
    pub wants_audio: bool,
    /// Limits of that encoder.
    pub encoding: EncodingConfig,
    /// The requested [`Frame::full_image`](jetwatch_types::Frame::full_image).
    pub full_image: FullImage,
    /// Makes the sources of `synthetic://` URIs; `None`: such a source fails with [`SourceError::Unsupported`].
    pub synthetic: Option<SyntheticFactory>,
}

impl SourceContext {
    /// For a source outside of the pipeline, such as a check: counters, times and graphs are discarded.
    #[must_use]
    pub fn standalone(
        name: &str,
        input: Size,
        placement: Placement,
        stop: &StopToken,
        handler: Arc<dyn FrameHandler>,
    ) -> Self {
        Self {
            id: SourceId(0),
            name: name.to_owned(),
            input,
            placement,
            image_size: ImageSize::default(),
            handler,
            skipped_image: None,
            stop: stop.clone(),
            recorder: Recorder::default(),
            dot: Dot::default(),
            counters: Arc::default(),
            heartbeat: Arc::new(Heartbeats::default().register(name)),
            argus: Arc::new(ArgusSupervisor::disabled()),
            machine: Arc::new(Machine::find(&SysRoot::default())),
            nvmm_reader: None,
            wants_access_units: false,
            wants_audio: false,
            encoding: EncodingConfig::default(),
            full_image: FullImage::None,
            synthetic: None,
        }
    }

    /// Size of the delivered image for a source image of size `source` with such pixels; `crop`: the network's region, `None` for all.
    #[must_use]
    pub fn output_size(&self, source: Size, crop: Option<Crop>, pixels: PixelAspect) -> Size {
        match self.image_size {
            ImageSize::Network => {
                Letterbox::with_crop(source, crop, pixels, self.input, self.placement).inner
            }
            ImageSize::Source => source,
        }
    }

    /// The crop that the source applies; `crop`: the network's region, `None` for all.
    #[must_use]
    pub fn source_crop(&self, crop: Option<Crop>) -> Option<Crop> {
        match self.image_size {
            ImageSize::Network => crop,
            ImageSize::Source => None,
        }
    }
}

/// DOT graphs: the folder, and the number of requests so far.
#[derive(Clone, Default)]
pub struct Dot {
    /// Folder for the files; `None`: no graphs.
    pub folder: Option<PathBuf>,
    /// Number of requested dumps (SIGUSR1).
    pub requests: Arc<AtomicU64>,
}

/// Counters of one source since the daemon's start.
#[derive(Debug, Default)]
pub struct SourceCounters {
    frames: AtomicU64,
    reconnects: AtomicU64,
    late: AtomicU64,
    above_max_fps: AtomicU64,
    behind_loss: AtomicU64,
}

impl SourceCounters {
    /// Frames received, including dropped ones.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Number of times that the source was reopened after a failure.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// Frames that a source with a playback rate owes: it cannot be decoded as fast.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Frames left out because they came faster than `max_fps`; they are not among [`frames`](Self::frames).
    #[must_use]
    pub fn above_max_fps(&self) -> u64 {
        self.above_max_fps.load(Ordering::Relaxed)
    }

    /// Encoded images that could not be decoded, since something before them was lost on the way.
    #[must_use]
    pub fn behind_loss(&self) -> u64 {
        self.behind_loss.load(Ordering::Relaxed)
    }

    /// Counts an image that is missing behind a loss.
    pub(crate) fn add_behind_loss(&self) {
        self.behind_loss.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a frame left out because of `max_fps`.
    pub(crate) fn add_above_max_fps(&self) {
        self.above_max_fps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts `frames` that came too late.
    pub(crate) fn add_late(&self, frames: u64) {
        self.late.fetch_add(frames, Ordering::Relaxed);
    }

    /// Number for the next frame, from 0.
    pub fn next_seq(&self) -> u64 {
        self.frames.fetch_add(1, Ordering::Relaxed)
    }
}

/// Interval at which a waiting supervisor polls its stop token.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
