// SPDX-License-Identifier: Apache-2.0
//! CUDA events: points in a stream to wait for, and to measure times between.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use super::library::CUevent;
use super::{CudaError, Device, Stream};

// Flags of cuEventCreate.
const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;

/// Purpose of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Measures the time between two of them.
    Timing,
    /// To wait for: the waiting thread sleeps instead of spinning.
    Wait,
}

/// How an event is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recording {
    /// Directly in the stream.
    Now,
    /// In the graph that is being captured: each of its launches records the event again.
    InGraph,
}

/// A point in a stream.
pub struct Event {
    raw: CUevent,
    kind: EventKind,
    /// Dropped last: the event is part of its context.
    device: Arc<Device>,
}

// SAFETY: the handle is bound to a context, not to a thread: CUDA's driver interface may be called from any thread that has made the
// context current, which each method does first.
unsafe impl Send for Event {}
// SAFETY: as above; CUDA documents its calls as thread-safe, and a wait for an event does not change it.
unsafe impl Sync for Event {}

impl Event {
    /// An event that was not recorded yet.
    ///
    /// # Errors
    /// The driver reports a failure.
    pub fn new(device: &Arc<Device>, kind: EventKind) -> Result<Self, CudaError> {
        device.make_current()?;
        let flags = match kind {
            EventKind::Timing => 0,
            EventKind::Wait => BLOCKING_SYNC | DISABLE_TIMING,
        };
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer refers to a live pointer, the flags are CUDA's, and a context is current.
        let code = unsafe { (device.library().event_create)(&raw mut raw, flags) };
        device.library().check("cuEventCreate", code)?;
        Ok(Self {
            raw,
            kind,
            device: Arc::clone(device),
        })
    }

    /// Records the event behind everything that is in `stream` now.
    ///
    /// # Errors
    /// The driver reports a failure.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        self.record_as(stream, Recording::Now)
    }

    pub(crate) fn record_as(&self, stream: &Stream, recording: Recording) -> Result<(), CudaError> {
        let flags = match recording {
            Recording::Now => 0,
            // CU_EVENT_RECORD_EXTERNAL: without it the event would only order nodes within the graph.
            Recording::InGraph => 1,
        };
        self.device.make_current()?;
        // SAFETY: both handles are alive, and recording has no other requirement.
        let code =
            unsafe { (self.device.library().event_record)(self.raw, stream.handle(), flags) };
        self.device.library().check("cuEventRecord", code)
    }

    /// Blocks until everything before the last recording is done; returns at once if there was none.
    ///
    /// # Errors
    /// A failure of any earlier work on the GPU.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.device.make_current()?;
        // SAFETY: the handle is alive.
        let code = unsafe { (self.device.library().event_synchronize)(self.raw) };
        self.device.library().check("cuEventSynchronize", code)
    }

    /// Time on the GPU from `earlier` to this event, with a resolution of about half a microsecond. Both must be
    /// [`EventKind::Timing`], recorded, and reached.
    ///
    /// # Errors
    /// One of these requirements does not hold; CUDA's error name shows which.
    pub fn since(&self, earlier: &Self) -> Result<Duration, CudaError> {
        debug_assert_eq!(
            (self.kind, earlier.kind),
            (EventKind::Timing, EventKind::Timing)
        );
        self.device.make_current()?;
        let mut milliseconds = 0.0_f32;
        // SAFETY: the pointer refers to a live number and both handles are alive; everything else gives an error code.
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
        // SAFETY: created by `new` and not destroyed before; CUDA keeps an event that is not reached yet until then.
        let _ = unsafe { (self.device.library().event_destroy)(self.raw) };
    }
}
