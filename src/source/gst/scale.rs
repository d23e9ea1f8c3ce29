//! The second half of every pipeline: decoded video, scaled to the letterbox's inner size, in `BGRx`, into a [`Frame`].
//!
//! `videoscale → capsfilter → videoconvert → appsink`, with no queue between: all of it runs on the thread that pushes the
//! decoded buffer. The source size seen in the newest caps at the scaler's input is therefore exactly that of the buffer
//! that arrives at the sink, also when the resolution changes in mid-stream.
//!
//! Scaling comes before the color conversion because the network's input is usually smaller than the source, so that fewer
//! pixels are converted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app as gst_app;
use gstreamer_video as gst_video;

use crate::source::elements::make;
use crate::source::{Flow, SourceContext, SourceError};
use crate::telemetry::Stage;
use crate::types::{Frame, FrameMeta, Letterbox, Picture, Size};

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
) -> Result<Scaler, SourceError> {
    let scale = make("videoscale", "scale")?;
    // The letterbox's aspect is ours: the scaler must fill its output and never draw borders.
    scale.set_property("add-borders", false);
    let size_filter = make("capsfilter", "size")?;
    let convert = make("videoconvert", "convert")?;
    let sink = make("appsink", "sink")?
        .downcast::<gst_app::AppSink>()
        .map_err(|element| SourceError::Build(format!("{} is no appsink", element.name())))?;
    sink.set_property("sync", false);
    sink.set_property("enable-last-sample", false);
    sink.set_property("max-buffers", 1_u32);
    sink.set_caps(Some(
        &gst::Caps::builder("video/x-raw")
            .field("format", "BGRx")
            .build(),
    ));

    pipeline
        .add_many([&scale, &size_filter, &convert, sink.upcast_ref()])
        .map_err(build_error)?;
    gst::Element::link_many([&scale, &size_filter, &convert, sink.upcast_ref()])
        .map_err(build_error)?;

    let input = scale
        .static_pad("sink")
        .ok_or_else(|| SourceError::Build("videoscale has no sink pad".to_owned()))?;
    let source_size = Arc::new(Mutex::new(Size::new(1, 1)));
    watch_source_size(&input, size_filter, context, Arc::clone(&source_size));

    let progress = Arc::new(Progress::new());
    let mut taker = Taker {
        context: context.clone(),
        source_size,
        progress: Arc::clone(&progress),
        stopped: false,
        layout: None,
    };
    let pipeline_weak = pipeline.downgrade();
    sink.set_callbacks(
        gst_app::AppSinkCallbacks::builder()
            .new_sample(move |sink| {
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

/// Keeps the capsfilter at the letterbox's inner size for whatever size the source has now.
fn watch_source_size(
    input: &gst::Pad,
    size_filter: gst::Element,
    context: &SourceContext,
    source_size: Arc<Mutex<Size>>,
) {
    let (network_input, placement, name) = (context.input, context.placement, context.name.clone());
    input.add_probe(gst::PadProbeType::EVENT_DOWNSTREAM, move |_, info| {
        if let Some(gst::EventView::Caps(event)) = info.event().map(|event| event.view())
            && let Ok(video) = gst_video::VideoInfo::from_caps(event.caps())
        {
            let size = Size::new(video.width(), video.height());
            let inner = Letterbox::new(size, network_input, placement).inner;
            let before = std::mem::replace(&mut *source_size.lock().unwrap_or_else(PoisonError::into_inner), size);
            if before != size {
                log::info!(source = name.as_str(), size:%, inner:%; "video format {}", event.caps());
            }
            let caps = gst::Caps::builder("video/x-raw").field("width", inner.width.cast_signed()).field("height", inner.height.cast_signed());
            size_filter.set_property("caps", caps.build());
        }
        gst::PadProbeReturn::Ok
    });
}

/// Turns samples into frames on the streaming thread.
struct Taker {
    context: SourceContext,
    source_size: Arc<Mutex<Size>>,
    progress: Arc<Progress>,
    /// No more frames are wanted; what a decoder still pushes is turned away.
    stopped: bool,
    /// Size, stride and offset of the caps seen last: parsing them for every frame would be waste.
    layout: Option<(gst::Caps, Layout)>,
}

#[derive(Clone, Copy)]
struct Layout {
    size: Size,
    stride: usize,
    offset: usize,
}

impl Taker {
    fn take(&mut self, sink: &gst_app::AppSink) -> Result<gst::FlowSuccess, gst::FlowError> {
        let sample = sink.pull_sample().map_err(|_| gst::FlowError::Eos)?;
        if self.stopped {
            return Err(gst::FlowError::Eos);
        }
        let captured_at = SystemTime::now();
        let entered_at = Instant::now();
        let seq = self.context.counters.next_seq();
        let frame = {
            let recorder = self.context.recorder.clone();
            let _range = recorder.range_with_payload(Stage::Source, 1, seq);
            self.frame(&sample, seq, captured_at, entered_at)
                .ok_or_else(|| {
                    gst::element_error!(
                        sink,
                        gst::StreamError::Format,
                        ("a buffer does not hold the picture that its caps promise")
                    );
                    gst::FlowError::Error
                })?
        };
        self.progress.touch();
        self.progress.frames.fetch_add(1, Ordering::AcqRel);
        self.progress.delivering.store(true, Ordering::Release);
        let flow = (self.context.deliver)(frame);
        self.progress.touch();
        self.progress.delivering.store(false, Ordering::Release);
        match flow {
            Flow::Continue => Ok(gst::FlowSuccess::Ok),
            Flow::Stop => {
                self.stopped = true;
                Err(gst::FlowError::Eos)
            }
        }
    }

    fn frame(
        &mut self,
        sample: &gst::Sample,
        seq: u64,
        captured_at: SystemTime,
        entered_at: Instant,
    ) -> Option<Frame> {
        let buffer = sample.buffer_owned()?;
        let layout = self.layout(sample.caps()?, &buffer)?;
        let pts = buffer.pts().map(Into::into);
        let mapped = buffer.into_mapped_buffer_readable().ok()?;
        let picture = Picture::new(
            layout.size,
            layout.stride,
            Box::new(Pixels {
                mapped,
                offset: layout.offset,
            }),
        )?;
        let source_size = *self
            .source_size
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let meta = FrameMeta {
            source: self.context.id,
            seq,
            pts,
            captured_at,
            entered_at,
            source_size,
        };
        Some(Frame {
            meta,
            picture,
            truth: Vec::new(),
        })
    }

    fn layout(&mut self, caps: &gst::CapsRef, buffer: &gst::Buffer) -> Option<Layout> {
        if self
            .layout
            .as_ref()
            .is_none_or(|(known, _)| known.as_ref() != caps)
        {
            let video = gst_video::VideoInfo::from_caps(caps).ok()?;
            let layout = Layout {
                size: Size::new(video.width(), video.height()),
                stride: usize::try_from(*video.stride().first()?).ok()?,
                offset: *video.offset().first()?,
            };
            self.layout = Some((caps.to_owned(), layout));
        }
        let mut layout = self.layout.as_ref()?.1;
        // The buffer's own layout wins over the default one of its caps.
        if let Some(meta) = buffer.meta::<gst_video::VideoMeta>() {
            layout.stride = usize::try_from(*meta.stride().first()?).ok()?;
            layout.offset = *meta.offset().first()?;
        }
        Some(layout)
    }
}

/// A mapped GStreamer buffer, given back to its pool when the frame is dropped.
struct Pixels {
    mapped: gst::MappedBuffer<gst::buffer::Readable>,
    offset: usize,
}

impl AsRef<[u8]> for Pixels {
    fn as_ref(&self) -> &[u8] {
        self.mapped
            .as_slice()
            .get(self.offset..)
            .unwrap_or_default()
    }
}

fn build_error(error: impl std::fmt::Display) -> SourceError {
    SourceError::Build(error.to_string())
}
