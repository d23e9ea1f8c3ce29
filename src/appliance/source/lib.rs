//! FLOOR 2: pixels in.
//!
//! [`start`] runs one source on a thread of its own, the supervisor: it opens the source, watches it, and opens it anew
//! with growing waits when it fails or stalls, without touching any other source. Behind it are one GStreamer pipeline
//! per source ([`gst`]), still pictures, or a synthetic source that the caller hands in ([`SyntheticFactory`]). Frames leave through the [`FrameHandler`] that the
//! pipeline gives; whether it waits or replaces older frames is decided there. Who decodes and scales, the units of a
//! Jetson or the processor, is chosen by the machine and the configuration, and told as a [`ProcessingPlan`].
//!
//! ```text
//!   supervisor ── run_once ──► [ elements of the URI → decoder → steps that scale → appsink ] ── FrameHandler::frame ──►
//!        ▲            │
//!        └── wait ◄───┘  error, stall, end
//! ```

mod argus;
mod convert_plan;
mod elements;
mod error;
mod frame_handler;
pub mod gst;
pub mod image_codec;
mod image_folder;
mod jpeg;
mod plan;
mod rate_limit;
mod source_trait;
mod supervisor;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use jetwatch_nvidia::surface::SurfaceReader as Surfaces;
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_telemetry::{Heartbeat, Heartbeats, Recorder, StopToken};
use jetwatch_types::{Crop, Letterbox, Placement, Size, SourceId};

pub use argus::ArgusSupervisor;
pub use elements::{
    ELEMENTS, ElementSpec, ElementState, inspect_element, make as make_element, set_if_supported,
};
pub use error::SourceError;
pub use frame_handler::{Flow, FrameHandler};
pub use image_folder::{UnreadableHandler, start_image_source};
pub use plan::{PlanStep, ProcessingPlan, StepKind};
pub use rate_limit::RateLimiter;
pub use source_trait::{SessionEnd, Source, SyntheticFactory, SyntheticOptions};
pub use supervisor::{SourceHandle, start};

/// Which picture a frame carries beside the one for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FullImage {
    /// None: no later step looks at pixels.
    #[default]
    None,
    /// The picture at the size in which the source delivers it, in `BGRx`, in the processor's memory.
    SourceSize,
}

/// In which size a frame's picture comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageSize {
    /// In that of the network: the inner size of its letterbox.
    #[default]
    Network,
    /// In that of the source, for a detector's worker that scales it.
    Source,
}

/// What every source needs besides its configuration.
#[derive(Clone)]
pub struct SourceContext {
    /// Its index.
    pub id: SourceId,
    /// Its name.
    pub name: String,
    /// Size of the network's input; pictures are delivered at the letterbox's inner size for it.
    pub input: Size,
    /// Placement in the network's input.
    pub placement: Placement,
    /// In which size pictures come.
    pub image_size: ImageSize,
    /// Receives frames, states and the processing plan.
    pub handler: Arc<dyn FrameHandler>,
    /// Where some frames skip the network: the full image that those have. `None`: each frame goes through the network.
    pub skipped_image: Option<FullImage>,
    /// Asks the source to end.
    pub stop: StopToken,
    /// Stage times.
    pub recorder: Recorder,
    /// Where DOT graphs of the GStreamer pipeline go, and when.
    pub dot: Dot,
    /// Shared counters.
    pub counters: Arc<SourceCounters>,
    /// Whether the supervisor makes progress.
    pub heartbeat: Arc<Heartbeat>,
    /// For CSI cameras: whether the service behind them hangs.
    pub argus: Arc<ArgusSupervisor>,
    /// The machine whose units may work on the video.
    pub machine: Arc<Machine>,
    /// Where the detector reads a Jetson's surfaces in place: what makes pictures of them. Then the VIC leaves pictures in NVMM.
    pub nvmm_reader: Option<Arc<Surfaces>>,
    /// What [`Frame::full_image`] holds; where nothing is asked for, nothing is done for it.
    pub full_image: FullImage,
    /// Makes the sources of `synthetic://` URIs; `None`: such a source fails with [`SourceError::Unsupported`].
    pub synthetic: Option<SyntheticFactory>,
}

impl SourceContext {
    /// For a source that runs alone, for a check or to load frames: nobody counts, times or draws it.
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
            full_image: FullImage::None,
            synthetic: None,
        }
    }

    /// The size in which a picture of the size `source` is handed on, of which the network sees `crop` or all.
    #[must_use]
    pub fn output_size(&self, source: Size, crop: Option<Crop>) -> Size {
        match self.image_size {
            ImageSize::Network => {
                Letterbox::with_crop(source, crop, self.input, self.placement).inner
            }
            ImageSize::Source => source,
        }
    }

    /// The part that the source cuts out, of which the network sees `crop` or all.
    #[must_use]
    pub fn source_crop(&self, crop: Option<Crop>) -> Option<Crop> {
        match self.image_size {
            ImageSize::Network => crop,
            ImageSize::Source => None,
        }
    }
}

/// DOT graphs: a folder, and a number that grows whenever a dump is asked for.
#[derive(Clone, Default)]
pub struct Dot {
    /// Folder for the files; `None`: no graphs.
    pub folder: Option<PathBuf>,
    /// Grows with each request (SIGUSR1).
    pub requests: Arc<AtomicU64>,
}

/// Counters of one source since the daemon's start.
#[derive(Debug, Default)]
pub struct SourceCounters {
    frames: AtomicU64,
    reconnects: AtomicU64,
}

impl SourceCounters {
    /// Frames received, dropped ones included.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Times that the source was opened anew after a failure.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// Number for the next frame, from 0.
    pub fn next_seq(&self) -> u64 {
        self.frames.fetch_add(1, Ordering::Relaxed)
    }
}

/// Longest that a supervisor sleeps before it looks at its stop token again.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
