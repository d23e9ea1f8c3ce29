// SPDX-License-Identifier: Apache-2.0
//! The second half of every pipeline: decoded video, scaled to the letterbox's inner size, in `BGRx`, into a [`Frame`].
//!
//! `entry → steps → appsink`, with no queue in between: all of it runs on the thread that pushes the decoded buffer. The source
//! size in the newest caps at the entry is therefore exactly that of the buffer that arrives at the sink, also when the
//! resolution changes within a stream. [`CapsHandler`] selects the steps when the caps arrive; where [`own_scaling`] does all of
//! their work, there are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ThreadId;
use std::time::{Duration, Instant, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use parking_lot::{Mutex, MutexGuard};

use crate::elements::make;
use crate::pacer::Pacer;
use crate::rate_limit::RateLimiter;
use crate::{Flow, FullImage, SourceContext, SourceError};
use jetwatch_config::{Playback, SourceConfig};
use jetwatch_telemetry::{Level, Recorder, Stage, name_thread, thread_names};
use jetwatch_types::{Frame, FrameMeta, Image};

use super::caps_handler::CapsHandler;
use super::decode::change_caps;
use super::diagnostics::SessionDiagnostics;
use super::encode::RawEncoder;
use super::flush_guard::FlushGuard;
use super::hardware::VideoHardware;
use super::own_scaling::{self, OwnScaling, ScalingReader};
use super::push_tracer::LaunchWork;
use super::rate_probes::{FrameTime, limit_rate, pace};
use super::sample::SampleReader;
use super::scaler_elements::AttachPoints;
use super::skip_probe::{CapsInfo, SkipProbe};
use super::tee::ImageTee;

/// Name of the first scaler element in its pipeline.
pub(super) const ENTRY: &str = "entry";

/// Name of the sink in its pipeline.
pub(super) const SINK: &str = "sink";

/// Maximum time in which data without a frame counts as progress of a session that begins.
const MAX_DECODING_WAIT: Duration = Duration::from_secs(30);

/// Progress of the streaming thread, shared with the supervisor.
pub(super) struct StallMonitor {
    started: Instant,
    frames: AtomicU64,
    /// Milliseconds from `started` to the newest frame.
    last_frame_ms: AtomicU64,
    /// Whether the streaming thread is inside [`FrameHandler::frame`](crate::FrameHandler::frame): then the pipeline is slow, not
    /// the source.
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

    /// Time without a frame; zero while the pipeline blocks the source.
    pub(super) fn idle(&self) -> Duration {
        if self.delivering.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        self.started.elapsed().saturating_sub(Duration::from_millis(
            self.last_frame_ms.load(Ordering::Acquire),
        ))
    }

    /// Time since the session began.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Counts a frame.
    pub(super) fn count(&self) {
        self.mark_alive();
        self.frames.fetch_add(1, Ordering::AcqRel);
    }

    /// Runs `deliver`, which may block as long as the pipeline does.
    pub(super) fn delivering<T>(&self, deliver: impl FnOnce() -> T) -> T {
        self.delivering.store(true, Ordering::Release);
        let result = deliver();
        self.mark_alive();
        self.delivering.store(false, Ordering::Release);
        result
    }

    /// An encoded image has come. A frame may follow late, where it is held back (`is_held`) or where a decoder waits for more.
    pub(super) fn mark_data(&self, is_held: bool) {
        if is_held || self.frames() == 0 && self.started.elapsed() < MAX_DECODING_WAIT {
            self.mark_alive();
        }
    }

    /// The source is alive, although no frame has come.
    pub(super) fn mark_alive(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_frame_ms.store(now, Ordering::Release);
    }
}

/// The scaling half, added to the pipeline.
pub(super) struct ScalerBin {
    /// Pad to which decoded video is linked.
    pub(super) input: gst::Pad,
    /// Watched by the supervisor.
    pub(super) stall_monitor: Arc<StallMonitor>,
}

/// Adds the scaling half to `pipeline`. Frames go to `context.handler` from the streaming thread; `encoder` gets the decoded images
/// before any of them is left out.
pub(super) fn add(
    pipeline: &gst::Pipeline,
    context: &SourceContext,
    hardware: &VideoHardware,
    config: &SourceConfig,
    diagnostics: &Arc<SessionDiagnostics>,
    encoder: Option<&Arc<RawEncoder>>,
) -> Result<ScalerBin, SourceError> {
    // Not `identity`: it copies buffers that the encoder holds, too, and those in NVMM cannot be copied.
    let entry = make("capsfilter", ENTRY)?;
    let sink = make("appsink", SINK)?
        .downcast::<gst_app::AppSink>()
        .map_err(|element| SourceError::Build(format!("{} is not an appsink", element.name())))?;
    sink.set_property("sync", false);
    sink.set_property("enable-last-sample", false);
    sink.set_property("max-buffers", 1_u32);
    sink.set_caps(Some(&own_scaling::accepted_caps(None, false)));
    if let Some(pad) = sink.static_pad("sink") {
        own_scaling::offer_padded_buffers(&pad, || true);
    }
    pipeline
        .add_many([&entry, sink.upcast_ref()])
        .map_err(|error| SourceError::Build(error.to_string()))?;

    let input = entry
        .static_pad("sink")
        .ok_or_else(|| SourceError::Build("capsfilter has no sink pad".to_owned()))?;
    let tee = match context.full_image {
        FullImage::None => None,
        FullImage::SourceSize | FullImage::OnDemand => Some(ImageTee::add(pipeline, &entry)?),
    };
    let main_branch = tee.as_ref().map_or(&entry, |tee| &tee.main_branch);
    let caps_info = CapsInfo::empty();
    if let Some(tee) = &tee {
        // A tee offers no memory to decoders, which would then copy each image into memory of their own.
        let caps_info = Arc::clone(&caps_info);
        own_scaling::offer_padded_buffers(&tee.input, move || {
            let CapsInfo {
                own_scaling,
                full_scaling,
                ..
            } = *caps_info.lock();
            [own_scaling, full_scaling]
                .iter()
                .all(|it| it.is_some_and(|it| it.is_alone))
        });
    }
    let mut caps_handler = CapsHandler::new(
        context,
        config,
        diagnostics,
        &caps_info,
        AttachPoints {
            pipeline: pipeline.downgrade(),
            entry: main_branch.downgrade(),
            sink: sink.upcast_ref::<gst::Element>().downgrade(),
            hardware: hardware.clone(),
            prefix: "",
        },
        tee.as_ref()
            .map(|tee| tee.attach_points(pipeline, hardware)),
    );
    let caps_handler = Mutex::new(move |pad: &gst::Pad, event: &gst::EventRef| {
        caps_handler.on_event(pad, event);
    });
    input.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |pad, info| {
        take_fields_as_one_image(info);
        if let Some(event) = info.event() {
            (caps_handler.lock())(pad, event);
        }
        gst::PadProbeReturn::Ok
    });

    let stall_monitor = Arc::new(StallMonitor::new());
    if let Some(encoder) = encoder {
        encoder.watch(&input);
    }
    let limit = |frame_time| {
        if let Some(max_fps) = config.max_fps {
            let limiter = RateLimiter::new(max_fps);
            limit_rate(
                &input,
                limiter,
                frame_time,
                &context.counters,
                &stall_monitor,
            );
        }
    };
    // A frame that is played at another rate than that of its timestamps arrives when the pacer lets it go.
    let is_by_clock = config.uri.is_live() || matches!(config.playback_fps, Playback::Fps(_));
    if !is_by_clock {
        limit(FrameTime::Timestamp);
    }
    if let Some(pacer) = Pacer::new(config.playback_fps) {
        pace(&input, pacer, context, &stall_monitor);
    }
    if is_by_clock {
        limit(FrameTime::Arrival);
    }
    let skip_probe = SkipProbe::from_context(context);
    if let Some(probe) = &skip_probe {
        let branch_pad = main_branch
            .static_pad("sink")
            .filter(|_| probe.keeps_full_images());
        let pad = branch_pad.as_ref().unwrap_or(&input);
        probe.install(pad, context, &caps_info, &stall_monitor);
    }
    let handler = AppSinkHandler {
        context: context.clone(),
        caps_info,
        skip_probe,
        stall_monitor: Arc::clone(&stall_monitor),
        refusing: None,
        launch_work: Arc::clone(&diagnostics.launch_work),
        reader: SampleReader::new(context, diagnostics),
        scaling_reader: ScalingReader::default(),
        pending: tee.as_ref().map(|_| PendingFrame::default()),
        thread_name: match config.uri.is_live() {
            true => thread_names::camera(&context.name),
            false => thread_names::file(&context.name),
        },
        named: None,
    };
    let handler = Arc::new(Mutex::new(handler));
    if let Some(tee) = &tee {
        if context.full_image == FullImage::OnDemand {
            let handler = Arc::clone(&handler);
            tee.drop_unwanted(move || lock(&handler).awaits_full_image());
        }
        let handler = Arc::clone(&handler);
        tee.on_full_image(move |sink| lock(&handler).on_full_sample(sink));
    }
    let pipeline_weak = pipeline.downgrade();
    sink.set_callbacks(
        gst_app::AppSinkCallbacks::builder()
            .new_sample(move |sink| {
                let mut handler = lock(&handler);
                let flow = handler.on_sample(sink)?;
                if handler.stall_monitor.frames() == 1
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

fn lock(handler: &Mutex<AppSinkHandler>) -> MutexGuard<'_, AppSinkHandler> {
    handler.lock()
}

/// Ends the session because a buffer is too small.
fn post_format_error(sink: &gst_app::AppSink) -> gst::FlowError {
    gst::element_error!(
        sink,
        gst::StreamError::Format,
        ("a buffer is smaller than its caps require")
    );
    gst::FlowError::Error
}

/// Turns samples into frames on the streaming thread.
struct AppSinkHandler {
    context: SourceContext,
    caps_info: Arc<Mutex<CapsInfo>>,
    skip_probe: Option<SkipProbe>,
    stall_monitor: Arc<StallMonitor>,
    /// Set once no more frames are accepted: buffers that a decoder still pushes are refused, and it gets no new ones.
    refusing: Option<FlushGuard>,
    launch_work: Arc<LaunchWork>,
    reader: SampleReader,
    scaling_reader: ScalingReader,
    /// Present when full images are requested.
    pending: Option<PendingFrame>,
    /// Name on the timeline of the thread that delivers frames, and the thread that has it.
    thread_name: String,
    named: Option<ThreadId>,
}

/// A frame that waits for its full image, and the reader of full images.
struct PendingFrame {
    frame: Option<Frame>,
    reader: SampleReader,
    scaling_reader: ScalingReader,
}

impl Default for PendingFrame {
    fn default() -> Self {
        Self {
            frame: None,
            reader: SampleReader::for_system_memory(),
            scaling_reader: ScalingReader::default(),
        }
    }
}

impl PendingFrame {
    /// The full image of a sample, converted by `scaling` where no element has done it.
    fn read(&mut self, sample: &gst::Sample, scaling: Option<OwnScaling>) -> Option<Image> {
        match scaling {
            Some(scaling) => self.scaling_reader.read(sample, scaling),
            None => self.reader.read(sample),
        }
    }
}

impl AppSinkHandler {
    fn on_sample(&mut self, sink: &gst_app::AppSink) -> Result<gst::FlowSuccess, gst::FlowError> {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        if self.refusing.is_some() {
            return Err(gst::FlowError::Eos);
        }
        let meta = self.meta(&sample);
        let frame = {
            let recorder = self.context.recorder.clone();
            let _whole = recorder.batch(Level::Source, 1);
            self.frame(&sample, meta, &recorder)
                .ok_or_else(|| post_format_error(sink))?
        };
        self.stall_monitor.count();
        let is_wanted = self.context.full_image == FullImage::SourceSize
            || self.context.handler.wants_full_image(frame.meta.source);
        let Some(pending) = self.pending.as_mut().filter(|_| is_wanted) else {
            return self.deliver(frame);
        };
        // Each image passes the full-image branch directly after the network's, on this thread. A frame that is still pending
        // here has no full image and is delivered without one.
        match pending.frame.replace(frame) {
            Some(previous) => self.deliver(previous),
            None => Ok(gst::FlowSuccess::Ok),
        }
    }

    /// Whether a frame waits for the full image that comes next.
    fn awaits_full_image(&self) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|pending| pending.frame.is_some())
    }

    /// Reads the full image of the pending frame and delivers the frame.
    fn on_full_sample(
        &mut self,
        sink: &gst_app::AppSink,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        if self.refusing.is_some() {
            return Err(gst::FlowError::Eos);
        }
        let scaling = self.caps_info().full_scaling;
        let Some(pending) = &mut self.pending else {
            return Ok(gst::FlowSuccess::Ok);
        };
        if let Some(probe) = &self.skip_probe
            && let Some(meta) = probe.take_skipped()
        {
            let full_image = pending
                .read(&sample, scaling)
                .ok_or_else(|| post_format_error(sink))?;
            probe.forward_skipped(meta, Some(full_image), &self.stall_monitor);
            return Ok(gst::FlowSuccess::Ok);
        }
        let Some(mut frame) = pending.frame.take() else {
            return Ok(gst::FlowSuccess::Ok);
        };
        let pts = sample.buffer().and_then(|buffer| buffer.pts());
        if pts.map(Into::into) == frame.meta.pts {
            let full_image = pending.read(&sample, scaling);
            frame.full_image = Some(full_image.ok_or_else(|| post_format_error(sink))?);
        }
        self.deliver(frame)
    }

    fn deliver(&mut self, frame: Frame) -> Result<gst::FlowSuccess, gst::FlowError> {
        let thread = std::thread::current().id();
        if self.named.replace(thread) != Some(thread) {
            name_thread(&self.thread_name);
        }
        let handler = &self.context.handler;
        let flow = self.stall_monitor.delivering(|| handler.frame(frame));
        self.flow_return(flow)
    }

    fn flow_return(&mut self, flow: Flow) -> Result<gst::FlowSuccess, gst::FlowError> {
        match flow {
            Flow::Continue => Ok(gst::FlowSuccess::Ok),
            Flow::Stop => {
                self.refusing = Some(FlushGuard::begin());
                Err(gst::FlowError::Eos)
            }
        }
    }

    fn caps_info(&self) -> CapsInfo {
        *self.caps_info.lock()
    }

    /// Metadata of a sample that arrives now.
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

    fn frame(
        &mut self,
        sample: &gst::Sample,
        meta: FrameMeta,
        recorder: &Recorder,
    ) -> Option<Frame> {
        let CapsInfo {
            crop,
            pixels,
            own_scaling,
            ..
        } = self.caps_info();
        let scaled = match own_scaling {
            // Behind elements, whose work is counted as scaling, the conversion is a part of reading the image.
            Some(scaling) if scaling.is_alone => {
                let _range = recorder.range_with_payload(Stage::Scale, 1, meta.seq);
                Some(self.scaling_reader.read(sample, scaling)?)
            }
            _ => None,
        };
        let mut range = recorder.range_with_payload(Stage::Source, 1, meta.seq);
        range.add_work(self.launch_work.take());
        let image = match (scaled, own_scaling) {
            (Some(image), _) => image,
            (None, Some(scaling)) => self.scaling_reader.read(sample, scaling)?,
            (None, None) => self.reader.read(sample)?,
        };
        Some(Frame {
            meta,
            crop,
            pixels,
            image,
            full_image: None,
            truth: Vec::new(),
        })
    }
}

/// Interlaced images are scaled like others: both fields together. `videoscale` of GStreamer 1.16 writes beyond its memory where a field has
/// an odd number of rows of chroma, and shows combs otherwise.
fn take_fields_as_one_image(info: &mut gst::PadProbeInfo<'_>) {
    let is_interlaced = |image: &gst::StructureRef| {
        let mode = image.get::<&str>("interlace-mode");
        mode.is_ok_and(|mode| mode == "interleaved" || mode == "mixed")
    };
    change_caps(info, is_interlaced, |image| {
        image.set("interlace-mode", "progressive");
        image.remove_field("field-order");
    });
}
