//! The second half of every pipeline: decoded video, scaled to the letterbox's inner size, in `BGRx`, into a [`Frame`].
//!
//! `entry → steps → appsink`, with no queue between: all of it runs on the thread that pushes the decoded buffer. The source
//! size seen in the newest caps at the entry is therefore exactly that of the buffer that arrives at the sink, also when the
//! resolution changes in mid-stream. Which steps there are is decided when the caps come: by [`plan_conversion`], for any unit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use parking_lot::{Mutex, MutexGuard};

use crate::convert_plan::{Memory, plan_crop_conversion, plan_full_size};
use crate::elements::make;
use crate::rate_limit::RateLimiter;
use crate::{Flow, FullImage, SourceContext, SourceError};
use jetwatch_config::{Scaling, SourceConfig};
use jetwatch_telemetry::{Level, Stage};
use jetwatch_types::{Frame, FrameMeta, Region};

use super::diagnostics::Findings;
use super::hardware::VideoHardware;
use super::sample::SampleReader;
use super::scaler_elements::{AttachPoints, NVMM, ScalerElements, format_of};
use super::skip_probe::{CapsInfo, SkipProbe};
use super::tee::ImageTee;

/// Name of the scaler's first element in its pipeline.
pub(super) const ENTRY: &str = "entry";

/// Name of the sink in its pipeline.
pub(super) const SINK: &str = "sink";

/// What the streaming thread and the supervisor both see.
pub(super) struct StallMonitor {
    started: Instant,
    frames: AtomicU64,
    /// Milliseconds from `started` to the newest frame.
    last_frame_ms: AtomicU64,
    /// Whether the streaming thread waits inside [`FrameHandler::frame`](crate::FrameHandler::frame): then the chain is slow, not the source.
    delivering: AtomicBool,
}

impl StallMonitor {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            frames: AtomicU64::new(0),
            last_frame_ms: AtomicU64::new(0),
            delivering: AtomicBool::new(false),
        }
    }

    /// Frames of this session.
    pub(super) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Acquire)
    }

    /// How long nothing has come; zero while the chain makes the source wait.
    pub(super) fn idle(&self) -> Duration {
        if self.delivering.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        self.started.elapsed().saturating_sub(Duration::from_millis(
            self.last_frame_ms.load(Ordering::Acquire),
        ))
    }

    /// One more frame has come.
    pub(super) fn count(&self) {
        self.mark_alive();
        self.frames.fetch_add(1, Ordering::AcqRel);
    }

    /// Hands on a frame, which may take as long as the chain likes.
    pub(super) fn delivering<T>(&self, deliver: impl FnOnce() -> T) -> T {
        self.delivering.store(true, Ordering::Release);
        let result = deliver();
        self.mark_alive();
        self.delivering.store(false, Ordering::Release);
        result
    }

    fn mark_alive(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_frame_ms.store(now, Ordering::Release);
    }
}

/// The scaling half, already in the pipeline.
pub(super) struct ScalerBin {
    /// Where decoded video is linked.
    pub(super) input: gst::Pad,
    /// What the supervisor watches.
    pub(super) stall_monitor: Arc<StallMonitor>,
}

/// Adds the scaling half to `pipeline`. Frames go to `context.deliver` from the streaming thread.
pub(super) fn add(
    pipeline: &gst::Pipeline,
    context: &SourceContext,
    hardware: &VideoHardware,
    config: &SourceConfig,
    diagnostics: &Arc<Findings>,
) -> Result<ScalerBin, SourceError> {
    let entry = make("identity", ENTRY)?;
    let sink = make("appsink", SINK)?
        .downcast::<gst_app::AppSink>()
        .map_err(|element| SourceError::Build(format!("{} is no appsink", element.name())))?;
    sink.set_property("sync", false);
    sink.set_property("enable-last-sample", false);
    sink.set_property("max-buffers", 1_u32);
    // In which memory is the last step's business, and the reader's.
    let taken = || gst::Caps::builder("video/x-raw").field("format", "BGRx");
    let mut caps = taken().build();
    caps.merge(taken().features([NVMM]).build());
    sink.set_caps(Some(&caps));
    pipeline
        .add_many([&entry, sink.upcast_ref()])
        .map_err(|error| SourceError::Build(error.to_string()))?;

    let input = entry
        .static_pad("sink")
        .ok_or_else(|| SourceError::Build("identity has no sink pad".to_owned()))?;
    let tee = match context.full_image {
        FullImage::None => None,
        FullImage::SourceSize => Some(ImageTee::add(pipeline, &entry)?),
    };
    let main_branch = tee.as_ref().map_or(&entry, |fork| &fork.main_branch);
    let shown = CapsInfo::empty();
    let mut caps_handler = CapsHandler {
        context: context.clone(),
        scaling: config.scaling,
        roi: config.roi,
        diagnostics: Arc::clone(diagnostics),
        caps_info: Arc::clone(&shown),
        elements: ScalerElements::default(),
        attach_points: AttachPoints {
            pipeline: pipeline.downgrade(),
            entry: main_branch.downgrade(),
            sink: sink.upcast_ref::<gst::Element>().downgrade(),
            hardware: hardware.clone(),
            prefix: "",
        },
        full_size: tee.as_ref().map(|fork| {
            (
                ScalerElements::default(),
                fork.attach_points(pipeline, hardware),
            )
        }),
    };
    let caps_handler = Mutex::new(move |event: &gst::EventRef| caps_handler.on_event(event));
    input.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
        if let Some(event) = info.event() {
            (caps_handler.lock())(event);
        }
        gst::PadProbeReturn::Ok
    });

    let stall_monitor = Arc::new(StallMonitor::new());
    if let Some(max_fps) = config.max_fps {
        limit_rate(&input, RateLimiter::new(max_fps), &stall_monitor);
    }
    let skip_probe = SkipProbe::from_context(context);
    if let Some(gate) = &skip_probe {
        let trunk = main_branch
            .static_pad("sink")
            .filter(|_| gate.keeps_full_images());
        let pad = trunk.as_ref().unwrap_or(&input);
        gate.install(pad, context, &shown, &stall_monitor);
    }
    let handler = AppSinkHandler {
        context: context.clone(),
        caps_info: shown,
        skip_probe,
        stall_monitor: Arc::clone(&stall_monitor),
        stopped: false,
        reader: SampleReader::new(context, diagnostics),
        pending: tee.as_ref().map(|_| PendingFrame::default()),
    };
    let handler = Arc::new(Mutex::new(handler));
    if let Some(fork) = &tee {
        let taker = Arc::clone(&handler);
        fork.on_full_image(move |sink| lock(&taker).on_full_sample(sink));
    }
    let pipeline_weak = pipeline.downgrade();
    sink.set_callbacks(
        gst_app::AppSinkCallbacks::builder()
            .new_sample(move |sink| {
                let mut taker = lock(&handler);
                let flow = taker.on_sample(sink)?;
                if taker.stall_monitor.frames() == 1
                    && let Some(pipeline) = pipeline_weak.upgrade()
                {
                    // Wakes the supervisor, which announces the source as online.
                    let _ = pipeline.post_message(gst::message::Application::new(
                        gst::Structure::new_empty("first-frame"),
                    ));
                }
                Ok(flow)
            })
            .build(),
    );
    Ok(ScalerBin {
        input,
        stall_monitor,
    })
}

fn lock(taker: &Mutex<AppSinkHandler>) -> MutexGuard<'_, AppSinkHandler> {
    taker.lock()
}

/// Leaves out what is above the cap, before it is scaled. A source whose frames are left out delivers all the same.
fn limit_rate(input: &gst::Pad, limiter: RateLimiter, progress: &Arc<StallMonitor>) {
    let (cap, progress) = (Mutex::new(limiter), Arc::clone(progress));
    input.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        // Where the media has no times, its pace is that of the frames' coming.
        let time = info.buffer().and_then(|buffer| buffer.pts());
        let time = time.map_or_else(|| progress.started.elapsed(), Into::into);
        if cap.lock().admit(time) {
            return gst::PadProbeReturn::Ok;
        }
        progress.mark_alive();
        // With `Drop`, the core would unreference what the binding has taken out.
        gst::PadProbeReturn::Handled
    });
}

/// Fits the chain to whatever form the source's pictures have now.
struct CapsHandler {
    context: SourceContext,
    scaling: Scaling,
    roi: Option<Region>,
    diagnostics: Arc<Findings>,
    caps_info: Arc<Mutex<CapsInfo>>,
    elements: ScalerElements,
    attach_points: AttachPoints,
    /// The same for views, where they are asked for.
    full_size: Option<(ScalerElements, AttachPoints)>,
}

impl CapsHandler {
    fn on_event(&mut self, event: &gst::EventRef) {
        match event.view() {
            gst::EventView::Caps(event) => {
                if let Err(reason) = self.on_caps(event.caps()) {
                    self.diagnostics.reject(reason.clone());
                    if let Some(entry) = self.attach_points.entry.upgrade() {
                        gst::element_error!(entry, gst::StreamError::Format, ("{reason}"));
                    }
                }
            }
            gst::EventView::Eos(_) => {
                self.elements.forward_eos(&self.attach_points);
                if let Some((chain, place)) = &self.full_size {
                    chain.forward_eos(place);
                }
            }
            _ => {}
        }
    }

    fn on_caps(&mut self, caps: &gst::CapsRef) -> Result<(), String> {
        let from = format_of(caps).ok_or_else(|| {
            format!(
                "the decoder gives {caps}, and what is scaled is raw video with a size and a format"
            )
        })?;
        let size = from.size;
        let crop = self.roi.and_then(|roi| roi.to_crop(size));
        let inner = self.context.output_size(size, crop);
        let before = std::mem::replace(&mut *self.caps_info.lock(), CapsInfo { size, crop });
        if before.size != size {
            log::info!(source = self.context.name.as_str(), size:%, inner:%; "video format {caps}");
        }
        let scalers = self.attach_points.hardware.scalers();
        let output = self.output();
        let part = self.context.source_crop(crop);
        let route = plan_crop_conversion(&from, part, inner, self.scaling, &scalers, output)?;
        if let Some(note) = route.note {
            self.diagnostics.add_note(note);
        }
        self.elements
            .reconfigure(route.steps, &self.attach_points)?;
        match &mut self.full_size {
            Some((chain, place)) => chain.reconfigure(plan_full_size(&from, &scalers)?, place),
            None => Ok(()),
        }
    }
}

impl CapsHandler {
    /// Where the last step of a Jetson leaves its pictures.
    fn output(&self) -> Memory {
        // The GPU's converter leaves them in memory of CUDA, which is no surface that the engines share.
        let is_shared = self.scaling != Scaling::Gpu;
        match &self.context.nvmm_reader {
            Some(surfaces) if is_shared && surfaces.is_usable() => Memory::Nvmm,
            _ => Memory::System,
        }
    }
}

/// Ends the session over a buffer that is too small.
fn post_format_error(sink: &gst_app::AppSink) -> gst::FlowError {
    gst::element_error!(
        sink,
        gst::StreamError::Format,
        ("a buffer does not hold the picture that its caps promise")
    );
    gst::FlowError::Error
}

/// Turns samples into frames on the streaming thread.
struct AppSinkHandler {
    context: SourceContext,
    caps_info: Arc<Mutex<CapsInfo>>,
    skip_probe: Option<SkipProbe>,
    stall_monitor: Arc<StallMonitor>,
    /// No more frames are wanted; what a decoder still pushes is turned away.
    stopped: bool,
    reader: SampleReader,
    /// There where views are asked for.
    pending: Option<PendingFrame>,
}

/// The frame whose view is on its way, and what reads views.
struct PendingFrame {
    frame: Option<Frame>,
    reader: SampleReader,
}

impl Default for PendingFrame {
    fn default() -> Self {
        Self {
            frame: None,
            reader: SampleReader::for_system_memory(),
        }
    }
}

impl AppSinkHandler {
    fn on_sample(&mut self, sink: &gst_app::AppSink) -> Result<gst::FlowSuccess, gst::FlowError> {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        if self.stopped {
            return Err(gst::FlowError::Eos);
        }
        let meta = self.meta(&sample);
        let frame = {
            let recorder = self.context.recorder.clone();
            let _whole = recorder.batch(Level::Source, 1);
            let _range = recorder.range_with_payload(Stage::Source, 1, meta.seq);
            self.frame(&sample, meta)
                .ok_or_else(|| post_format_error(sink))?
        };
        self.stall_monitor.count();
        let Some(expected) = &mut self.pending else {
            return self.deliver(frame);
        };
        // Each picture goes through the view's branch right behind the network's, on this thread: what still stands here has
        // none, and goes on without.
        match expected.frame.replace(frame) {
            Some(late) => self.deliver(late),
            None => Ok(gst::FlowSuccess::Ok),
        }
    }

    /// Takes the view of the frame that was taken before.
    fn on_full_sample(
        &mut self,
        sink: &gst_app::AppSink,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        if self.stopped {
            return Err(gst::FlowError::Eos);
        }
        let Some(expected) = &mut self.pending else {
            return Ok(gst::FlowSuccess::Ok);
        };
        if let Some(gate) = &self.skip_probe
            && let Some(meta) = gate.take_skipped()
        {
            let full_image = expected
                .reader
                .read(&sample)
                .ok_or_else(|| post_format_error(sink))?;
            gate.forward_skipped(meta, Some(full_image), &self.stall_monitor);
            return Ok(gst::FlowSuccess::Ok);
        }
        let Some(mut frame) = expected.frame.take() else {
            return Ok(gst::FlowSuccess::Ok);
        };
        let pts = sample.buffer().and_then(|buffer| buffer.pts());
        if pts.map(Into::into) == frame.meta.pts {
            let full_image = expected.reader.read(&sample);
            frame.full_image = Some(full_image.ok_or_else(|| post_format_error(sink))?);
        }
        self.deliver(frame)
    }

    fn deliver(&mut self, frame: Frame) -> Result<gst::FlowSuccess, gst::FlowError> {
        let handler = &self.context.handler;
        let flow = self.stall_monitor.delivering(|| handler.frame(frame));
        self.flow_return(flow)
    }

    fn flow_return(&mut self, flow: Flow) -> Result<gst::FlowSuccess, gst::FlowError> {
        match flow {
            Flow::Continue => Ok(gst::FlowSuccess::Ok),
            Flow::Stop => {
                self.stopped = true;
                Err(gst::FlowError::Eos)
            }
        }
    }

    fn caps_info(&self) -> CapsInfo {
        *self.caps_info.lock()
    }

    /// What is known of a sample that comes now.
    fn meta(&self, sample: &gst::Sample) -> FrameMeta {
        let source_size = self.caps_info().size;
        let passed = self.skip_probe.as_ref().and_then(SkipProbe::passed_seq);
        FrameMeta {
            source: self.context.id,
            seq: passed.unwrap_or_else(|| self.context.counters.next_seq()),
            pts: sample
                .buffer()
                .and_then(gst::BufferRef::pts)
                .map(Into::into),
            captured_at: SystemTime::now(),
            received_at: Instant::now(),
            source_size,
        }
    }

    fn frame(&mut self, sample: &gst::Sample, meta: FrameMeta) -> Option<Frame> {
        let image = self.reader.read(sample)?;
        Some(Frame {
            meta,
            crop: self.caps_info().crop,
            image,
            full_image: None,
            truth: Vec::new(),
        })
    }
}
