//! The second half of every pipeline: decoded video, scaled to the letterbox's inner size, in `BGRx`, into a [`Frame`].
//!
//! `entry → steps → appsink`, with no queue between: all of it runs on the thread that pushes the decoded buffer. The source
//! size seen in the newest caps at the entry is therefore exactly that of the buffer that arrives at the sink, also when the
//! resolution changes in mid-stream. Which steps there are is decided when the caps come: by [`route`], for any unit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;

use crate::cap::Cap;
use crate::elements::make;
use crate::steps::{Memory, route_of_part, way_to_view};
use crate::{Flow, SourceContext, SourceError, ViewWish};
use jetwatch_config::{Scaling, SourceConfig};
use jetwatch_telemetry::{Level, Stage};
use jetwatch_types::{Frame, FrameMeta, Region};

use super::chain::{Chain, NVMM, Place, form_of};
use super::equipment::Equipment;
use super::findings::Findings;
use super::gate::{Gate, Shown};
use super::sample::Reader;
use super::view::Fork;

/// Name of the scaler's first element in its pipeline.
pub(super) const ENTRY: &str = "entry";

/// Name of the sink in its pipeline.
pub(super) const SINK: &str = "sink";

/// What the streaming thread and the supervisor both see.
pub(super) struct Progress {
    started: Instant,
    frames: AtomicU64,
    /// Milliseconds from `started` to the newest frame.
    newest_ms: AtomicU64,
    /// Whether the streaming thread waits inside `Deliver`: then the chain is slow, not the source.
    delivering: AtomicBool,
}

impl Progress {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            frames: AtomicU64::new(0),
            newest_ms: AtomicU64::new(0),
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
            self.newest_ms.load(Ordering::Acquire),
        ))
    }

    /// One more frame has come.
    pub(super) fn count(&self) {
        self.touch();
        self.frames.fetch_add(1, Ordering::AcqRel);
    }

    /// Hands on a frame, which may take as long as the chain likes.
    pub(super) fn while_delivering<T>(&self, deliver: impl FnOnce() -> T) -> T {
        self.delivering.store(true, Ordering::Release);
        let answer = deliver();
        self.touch();
        self.delivering.store(false, Ordering::Release);
        answer
    }

    fn touch(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.newest_ms.store(now, Ordering::Release);
    }
}

/// The scaling half, already in the pipeline.
pub(super) struct Scaler {
    /// Where decoded video is linked.
    pub(super) input: gst::Pad,
    /// What the supervisor watches.
    pub(super) progress: Arc<Progress>,
}

/// Adds the scaling half to `pipeline`. Frames go to `context.deliver` from the streaming thread.
pub(super) fn add(
    pipeline: &gst::Pipeline,
    context: &SourceContext,
    equipment: &Equipment,
    config: &SourceConfig,
    findings: &Arc<Findings>,
) -> Result<Scaler, SourceError> {
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
    let fork = match context.view {
        ViewWish::Nothing => None,
        ViewWish::SourceSize => Some(Fork::add(pipeline, &entry)?),
    };
    let trunk = fork.as_ref().map_or(&entry, |fork| &fork.trunk);
    let shown = Shown::nothing();
    let mut fitter = Fitter {
        context: context.clone(),
        scaling: config.scaling,
        roi: config.roi,
        findings: Arc::clone(findings),
        shown: Arc::clone(&shown),
        chain: Chain::default(),
        place: Place {
            pipeline: pipeline.downgrade(),
            entry: trunk.downgrade(),
            sink: sink.upcast_ref::<gst::Element>().downgrade(),
            equipment: equipment.clone(),
            prefix: "",
        },
        view: fork
            .as_ref()
            .map(|fork| (Chain::default(), fork.place(pipeline, equipment))),
    };
    let fitter = Mutex::new(move |event: &gst::EventRef| fitter.see(event));
    input.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
        if let Some(event) = info.event() {
            (fitter.lock().unwrap_or_else(PoisonError::into_inner))(event);
        }
        gst::PadProbeReturn::Ok
    });

    let progress = Arc::new(Progress::new());
    if let Some(max_fps) = config.max_fps {
        thin_out(&input, Cap::new(max_fps), &progress);
    }
    let gate = Gate::of(context);
    if let Some(gate) = &gate {
        let trunk = trunk.static_pad("sink").filter(|_| gate.leaves_views());
        let pad = trunk.as_ref().unwrap_or(&input);
        gate.stand_at(pad, context, &shown, &progress);
    }
    let taker = Taker {
        context: context.clone(),
        shown,
        gate,
        progress: Arc::clone(&progress),
        stopped: false,
        reader: Reader::new(context, findings),
        view: fork.as_ref().map(|_| Expected::default()),
    };
    let taker = Arc::new(Mutex::new(taker));
    if let Some(fork) = &fork {
        let taker = Arc::clone(&taker);
        fork.on_view(move |sink| lock(&taker).take_view(sink));
    }
    let pipeline_weak = pipeline.downgrade();
    sink.set_callbacks(
        gst_app::AppSinkCallbacks::builder()
            .new_sample(move |sink| {
                let mut taker = lock(&taker);
                let flow = taker.take(sink)?;
                if taker.progress.frames() == 1
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
    Ok(Scaler { input, progress })
}

fn lock(taker: &Mutex<Taker>) -> MutexGuard<'_, Taker> {
    taker.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves out what is above the cap, before it is scaled. A source whose frames are left out delivers all the same.
fn thin_out(input: &gst::Pad, cap: Cap, progress: &Arc<Progress>) {
    let (cap, progress) = (Mutex::new(cap), Arc::clone(progress));
    input.add_probe(gst::PadProbeType::BUFFER, move |_, info| {
        // Where the media has no times, its pace is that of the frames' coming.
        let time = info.buffer().and_then(|buffer| buffer.pts());
        let time = time.map_or_else(|| progress.started.elapsed(), Into::into);
        if cap
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .takes(time)
        {
            return gst::PadProbeReturn::Ok;
        }
        progress.touch();
        // With `Drop`, the core would unreference what the binding has taken out.
        gst::PadProbeReturn::Handled
    });
}

/// Fits the chain to whatever form the source's pictures have now.
struct Fitter {
    context: SourceContext,
    scaling: Scaling,
    roi: Option<Region>,
    findings: Arc<Findings>,
    shown: Arc<Mutex<Shown>>,
    chain: Chain,
    place: Place,
    /// The same for views, where they are asked for.
    view: Option<(Chain, Place)>,
}

impl Fitter {
    fn see(&mut self, event: &gst::EventRef) {
        match event.view() {
            gst::EventView::Caps(event) => {
                if let Err(reason) = self.fit(event.caps()) {
                    self.findings.refuse(reason.clone());
                    if let Some(entry) = self.place.entry.upgrade() {
                        gst::element_error!(entry, gst::StreamError::Format, ("{reason}"));
                    }
                }
            }
            gst::EventView::Eos(_) => {
                self.chain.pass_end(&self.place);
                if let Some((chain, place)) = &self.view {
                    chain.pass_end(place);
                }
            }
            _ => {}
        }
    }

    fn fit(&mut self, caps: &gst::CapsRef) -> Result<(), String> {
        let from = form_of(caps).ok_or_else(|| {
            format!(
                "the decoder gives {caps}, and what is scaled is raw video with a size and a format"
            )
        })?;
        let size = from.size;
        let crop = self.roi.and_then(|roi| roi.of(size));
        let inner = self.context.picture_size(size, crop);
        let before = std::mem::replace(
            &mut *self.shown.lock().unwrap_or_else(PoisonError::into_inner),
            Shown { size, crop },
        );
        if before.size != size {
            log::info!(source = self.context.name.as_str(), size:%, inner:%; "video format {caps}");
        }
        let scalers = self.place.equipment.scalers();
        let output = self.output();
        let part = self.context.part(crop);
        let route = route_of_part(&from, part, inner, self.scaling, &scalers, output)?;
        if let Some(note) = route.note {
            self.findings.add_note(note);
        }
        self.chain.fit(route.steps, &self.place)?;
        match &mut self.view {
            Some((chain, place)) => chain.fit(way_to_view(&from, &scalers)?, place),
            None => Ok(()),
        }
    }
}

impl Fitter {
    /// Where the last step of a Jetson leaves its pictures.
    fn output(&self) -> Memory {
        // The GPU's converter leaves them in memory of CUDA, which is no surface that the engines share.
        let is_shared = self.scaling != Scaling::Gpu;
        match &self.context.surfaces {
            Some(surfaces) if is_shared && surfaces.is_usable() => Memory::Nvmm,
            _ => Memory::System,
        }
    }
}

/// Ends the session over a buffer that is too small.
fn refuse(sink: &gst_app::AppSink) -> gst::FlowError {
    gst::element_error!(
        sink,
        gst::StreamError::Format,
        ("a buffer does not hold the picture that its caps promise")
    );
    gst::FlowError::Error
}

/// Turns samples into frames on the streaming thread.
struct Taker {
    context: SourceContext,
    shown: Arc<Mutex<Shown>>,
    gate: Option<Gate>,
    progress: Arc<Progress>,
    /// No more frames are wanted; what a decoder still pushes is turned away.
    stopped: bool,
    reader: Reader,
    /// There where views are asked for.
    view: Option<Expected>,
}

/// The frame whose view is on its way, and what reads views.
struct Expected {
    frame: Option<Frame>,
    reader: Reader,
}

impl Default for Expected {
    fn default() -> Self {
        Self {
            frame: None,
            reader: Reader::of_plain_samples(),
        }
    }
}

impl Taker {
    fn take(&mut self, sink: &gst_app::AppSink) -> Result<gst::FlowSuccess, gst::FlowError> {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        if self.stopped {
            return Err(gst::FlowError::Eos);
        }
        let meta = self.meta(&sample);
        let frame = {
            let recorder = self.context.recorder.clone();
            let _whole = recorder.batch(Level::Source, 1);
            let _range = recorder.range_with_payload(Stage::Source, 1, meta.seq);
            self.frame(&sample, meta).ok_or_else(|| refuse(sink))?
        };
        self.progress.count();
        let Some(expected) = &mut self.view else {
            return self.hand_on(frame);
        };
        // Each picture goes through the view's branch right behind the network's, on this thread: what still stands here has
        // none, and goes on without.
        match expected.frame.replace(frame) {
            Some(late) => self.hand_on(late),
            None => Ok(gst::FlowSuccess::Ok),
        }
    }

    /// Takes the view of the frame that was taken before.
    fn take_view(&mut self, sink: &gst_app::AppSink) -> Result<gst::FlowSuccess, gst::FlowError> {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        if self.stopped {
            return Err(gst::FlowError::Eos);
        }
        let Some(expected) = &mut self.view else {
            return Ok(gst::FlowSuccess::Ok);
        };
        if let Some(gate) = &self.gate
            && let Some(meta) = gate.carried()
        {
            let view = expected.reader.read(&sample).ok_or_else(|| refuse(sink))?;
            gate.hand_on(meta, Some(view), &self.progress);
            return Ok(gst::FlowSuccess::Ok);
        }
        let Some(mut frame) = expected.frame.take() else {
            return Ok(gst::FlowSuccess::Ok);
        };
        let pts = sample.buffer().and_then(|buffer| buffer.pts());
        if pts.map(Into::into) == frame.meta.pts {
            let view = expected.reader.read(&sample);
            frame.view = Some(view.ok_or_else(|| refuse(sink))?);
        }
        self.hand_on(frame)
    }

    fn hand_on(&mut self, frame: Frame) -> Result<gst::FlowSuccess, gst::FlowError> {
        let deliver = &self.context.deliver;
        let flow = self.progress.while_delivering(|| deliver(frame));
        self.go_on(flow)
    }

    fn go_on(&mut self, flow: Flow) -> Result<gst::FlowSuccess, gst::FlowError> {
        match flow {
            Flow::Continue => Ok(gst::FlowSuccess::Ok),
            Flow::Stop => {
                self.stopped = true;
                Err(gst::FlowError::Eos)
            }
        }
    }

    fn shown(&self) -> Shown {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a sample that comes now.
    fn meta(&self, sample: &gst::Sample) -> FrameMeta {
        let source_size = self.shown().size;
        let passed = self.gate.as_ref().and_then(Gate::passed);
        FrameMeta {
            source: self.context.id,
            seq: passed.unwrap_or_else(|| self.context.counters.next_seq()),
            pts: sample
                .buffer()
                .and_then(gst::BufferRef::pts)
                .map(Into::into),
            captured_at: SystemTime::now(),
            entered_at: Instant::now(),
            source_size,
        }
    }

    fn frame(&mut self, sample: &gst::Sample, meta: FrameMeta) -> Option<Frame> {
        let picture = self.reader.read(sample)?;
        Some(Frame {
            meta,
            crop: self.shown().crop,
            picture,
            view: None,
            truth: Vec::new(),
        })
    }
}
