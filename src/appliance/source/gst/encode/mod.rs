// SPDX-License-Identifier: Apache-2.0
//! Encodes the decoded video of a source whose own stream cannot be kept: raw and Motion JPEG cameras, `launch:` lines that end in
//! raw video, drawn scenes. One encoder per source feeds clips, continuous recording and the live stream.
//!
//! The thread that brings images passes on a reference to each that is due, and nothing else: no copy, no conversion. The thread
//! `encode-NAME` converts and encodes in a pipeline of its own ([`pipeline`]), so that an encoder that is slow or fails concerns no
//! frame. Where it is behind, a live source leaves images out; a file waits.

mod pipeline;
mod worker;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{
    Receiver, RecvTimeoutError, SendTimeoutError, Sender, TrySendError, bounded,
};
use gstreamer as gst;
use gstreamer::prelude::*;
use parking_lot::Mutex;

use crate::SourceContext;
use crate::rate_limit::RateLimiter;
use jetwatch_telemetry::{self as telemetry, StopToken};
use jetwatch_types::Image;

use super::encoded::EncodedCapture;

/// Images that wait for the thread: more would keep buffers from the pool of a camera's driver.
const QUEUE_DEPTH: usize = 1;

/// Longest wait for the encoder at the end of a session.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which a file that waits for the encoder looks for a stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An image on its way to the encoder.
struct RawImage {
    buffer: gst::Buffer,
    caps: gst::Caps,
    /// Presentation timestamp of the source.
    pts: Duration,
    captured_at: SystemTime,
}

/// The encoder of one session of a source.
pub struct RawEncoder {
    inner: Mutex<Inner>,
    capture: EncodedCapture,
    stop: StopToken,
    is_live: bool,
    name: String,
}

struct Inner {
    limiter: RateLimiter,
    started: Instant,
    /// `None`: the thread has not been started.
    thread: Option<Thread>,
    /// No more images are taken.
    is_closed: bool,
    /// Images that found the encoder busy.
    left_out: u64,
}

struct Thread {
    images: Sender<RawImage>,
    /// Disconnected when it has ended.
    end: Receiver<()>,
    handle: JoinHandle<()>,
}

impl RawEncoder {
    /// The encoder of a source whose encoded stream is requested; `None`: it is not.
    #[must_use]
    pub fn of(context: &SourceContext, is_live: bool) -> Option<Arc<Self>> {
        let capture = EncodedCapture::of(context)?;
        // Drawn scenes use GStreamer for nothing else.
        if let Err(error) = super::init("*:1") {
            log::error!(source = context.name.as_str(); "its video is not recorded: {error}");
            return None;
        }
        Some(Self::with_capture(context, is_live, capture))
    }

    /// The same, unless `capture` gets the stream of the source itself.
    pub(super) fn with_capture(
        context: &SourceContext,
        is_live: bool,
        capture: EncodedCapture,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                limiter: RateLimiter::new(capture.limits.max_fps as f32),
                started: Instant::now(),
                thread: None,
                is_closed: false,
                left_out: 0,
            }),
            capture,
            stop: context.stop.clone(),
            is_live,
            name: context.name.clone(),
        })
    }

    /// Encodes the images that arrive at `input`.
    pub(super) fn watch(self: &Arc<Self>, input: &gst::Pad) {
        let encoder = Arc::clone(self);
        input.add_probe(gst::PadProbeType::BUFFER, move |pad, info| {
            if let Some(buffer) = info.buffer() {
                encoder.on_buffer(pad, buffer);
            }
            gst::PadProbeReturn::Ok
        });
    }

    fn on_buffer(&self, pad: &gst::Pad, buffer: &gst::Buffer) {
        if self.capture.is_taken() {
            return;
        }
        let pts = buffer.pts().map(Duration::from);
        let Some(pts) = self.admit(pts) else {
            return;
        };
        if let Some(caps) = pad.current_caps() {
            self.send(RawImage {
                buffer: buffer.clone(),
                caps,
                pts,
                captured_at: SystemTime::now(),
            });
        }
    }

    /// Whether the image at `pts` is due, which then is one for [`push`](Self::push).
    pub fn admit(&self, pts: Option<Duration>) -> Option<Duration> {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return None;
        }
        // Media without timestamps are timed by arrival.
        let pts = pts.unwrap_or_else(|| inner.started.elapsed());
        inner.limiter.admit(pts).then_some(pts)
    }

    /// Encodes a copy of an image in CPU memory.
    pub fn push(&self, image: &Image, pts: Duration, captured_at: SystemTime) {
        let Ok(time) = gst::ClockTime::try_from(pts) else {
            return;
        };
        let side = |side: u32| i32::try_from(side).unwrap_or(i32::MAX);
        let caps = gst::Caps::builder("video/x-raw")
            .field("format", "BGRx")
            .field("width", side(image.size.width))
            .field("height", side(image.size.height))
            .field("framerate", gst::Fraction::new(0, 1));
        let mut pixels = Vec::new();
        for row in 0..image.size.height {
            pixels.extend_from_slice(image.row(row));
        }
        let mut buffer = gst::Buffer::from_mut_slice(pixels);
        if let Some(buffer) = buffer.get_mut() {
            buffer.set_pts(time);
        }
        self.send(RawImage {
            buffer,
            caps: caps.build(),
            pts,
            captured_at,
        });
    }

    fn send(&self, image: RawImage) {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return;
        }
        if inner.thread.is_none() {
            match self.start() {
                Ok(thread) => inner.thread = Some(thread),
                Err(error) => {
                    log::error!(source = self.name.as_str(); "its video is not recorded: {error}");
                    inner.is_closed = true;
                }
            }
        }
        let Some(images) = inner.thread.as_ref().map(|thread| thread.images.clone()) else {
            return;
        };
        if self.is_live {
            match images.try_send(image) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => inner.left_out += 1,
                Err(TrySendError::Disconnected(_)) => inner.is_closed = true,
            }
            return;
        }
        drop(inner);
        if !self.wait_to_send(&images, image) {
            self.inner.lock().is_closed = true;
        }
    }

    /// Waits for the encoder. Returns whether it goes on.
    fn wait_to_send(&self, images: &Sender<RawImage>, mut image: RawImage) -> bool {
        loop {
            image = match images.send_timeout(image, POLL_INTERVAL) {
                Ok(()) => return true,
                Err(SendTimeoutError::Disconnected(_)) => return false,
                Err(SendTimeoutError::Timeout(image)) => image,
            };
            if self.stop.is_stopped() {
                return true;
            }
        }
    }

    fn start(&self) -> io::Result<Thread> {
        let (images, waiting) = bounded(QUEUE_DEPTH);
        let (ended, end) = bounded::<()>(0);
        let worker = worker::Worker::new(&self.name, self.capture.clone());
        let name = format!("encode-{}", self.name);
        let thread = thread::Builder::new().name(name.clone());
        let handle = thread.spawn(move || {
            telemetry::name_thread(&name);
            worker.run(&waiting);
            drop(ended);
        })?;
        Ok(Thread {
            images,
            end,
            handle,
        })
    }

    /// Ends the encoder after the images that it has. Blocks for a limited time. Images that come later are not taken.
    pub fn finish(&self) {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        let (thread, left_out) = (inner.thread.take(), inner.left_out);
        drop(inner);
        let Some(Thread {
            images,
            end,
            handle,
        }) = thread
        else {
            return;
        };
        drop(images);
        let source = self.name.as_str();
        if left_out > 0 {
            log::info!(source, images = left_out; "images were not encoded because the encoder was busy");
        }
        match end.recv_timeout(FINISH_TIMEOUT) {
            Err(RecvTimeoutError::Timeout) | Ok(()) => {
                log::warn!(source; "the thread encode-{source} does not end; it was left behind");
            }
            Err(RecvTimeoutError::Disconnected) => {
                if let Err(panic) = handle.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}
