//! Marks in a stream: to wait for, and to take times between.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::CUevent;

use super::{CudaError, Device, Stream};

// Flags of cuEventCreate.
const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;

/// What an event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// To take the time between two of them.
    Timing,
    /// To wait for: the waiting thread sleeps instead of spinning.
    Wait,
}

/// How an event is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recording {
    /// At once, in the stream.
    Now,
    /// Into the graph that is being captured: each of its launches records the event again.
    InGraph,
}

/// A mark in a stream.
pub struct Event {
    raw: CUevent,
    kind: EventKind,
    /// Dropped last: the event lives in its context.
    device: Arc<Device>,
}

// SAFETY: CUDA's events may be used from any thread, and from several at once.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event that was not recorded yet.
    pub fn new(device: &Arc<Device>, kind: EventKind) -> Result<Self, CudaError> {
        device.make_current()?;
        let flags = match kind {
            EventKind::Timing => 0,
            EventKind::Wait => BLOCKING_SYNC | DISABLE_TIMING,
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is to a live pointer, the flags are CUDA's, and a context is current.
        let code = unsafe { (device.library().event_create)(&raw mut raw, flags) };
        device.library().check("cuEventCreate", code)?;
        Ok(Self {
            raw,
            kind,
            device: Arc::clone(device),
        })
    }

    /// Marks the end of what is in `stream` now.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        self.record_as(stream, Recording::Now)
    }

    pub(crate) fn record_as(&self, stream: &Stream, recording: Recording) -> Result<(), CudaError> {
        let flags = match recording {
            Recording::Now => 0,
            // CU_EVENT_RECORD_EXTERNAL: without it the event would only order the graph's parts.
            Recording::InGraph => 1,
        };
        // SAFETY: both handles are alive, and recording demands no more of them.
        let code =
            unsafe { (self.device.library().event_record)(self.raw, stream.handle(), flags) };
        self.device.library().check("cuEventRecord", code)
    }

    /// Waits until all that was in the stream at the last recording is done; returns at once if there was none.
    ///
    /// An error may be that of anything that ran before on the GPU.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the handle is alive.
        let code = unsafe { (self.device.library().event_synchronize)(self.raw) };
        self.device.library().check("cuEventSynchronize", code)
    }

    /// The time on the GPU from `earlier` to this. Both must be [`EventKind::Timing`], recorded, and reached.
    ///
    /// Steps of about half a microsecond. CUDA's error names the requirement that does not hold.
    pub fn since(&self, earlier: &Self) -> Result<Duration, CudaError> {
        debug_assert_eq!(
            (self.kind, earlier.kind),
            (EventKind::Timing, EventKind::Timing)
        );
        let mut milliseconds = 0.0_f32;
        // SAFETY: the pointer is to a live number and both handles are alive; anything else is an error code.
        let code = unsafe {
            (self.device.library().event_elapsed)(&raw mut milliseconds, earlier.raw, self.raw)
        };
        self.device.library().check("cuEventElapsedTime", code)?;
        Ok(Duration::from_secs_f32(milliseconds.max(0.0) / 1000.0))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: made by `new` and not destroyed before; one that is still to be reached is kept by CUDA until then.
        let _ = unsafe { (self.device.library().event_destroy)(self.raw) };
    }
}
