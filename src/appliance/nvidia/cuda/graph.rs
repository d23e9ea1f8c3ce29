//! Work that was recorded once and is launched as a whole: the driver's cost of each call falls away.

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUgraph, CUgraphExec};

use super::{CudaError, Device, Stream};

/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: what other threads allocate meanwhile does not spoil the capture.
const THREAD_LOCAL: u32 = 1;

/// Recorded work, ready to be launched.
pub(crate) struct Graph {
    raw: CUgraphExec,
    /// Dropped last: the graph lives in its context.
    device: Arc<Device>,
}

// SAFETY: CUDA's executable graphs may be used from any thread, by one at a time, which `&mut self` below sees to.
unsafe impl Send for Graph {}

impl Graph {
    /// Records what `submission` puts into `stream` instead of running it. After an error the stream is as before.
    pub(crate) fn capture<E: From<CudaError>>(
        stream: &Stream,
        work: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let device = Arc::clone(stream.device());
        device.make_current()?;
        // SAFETY: the handle is alive; a stream that is captured already gives an error.
        let code = unsafe { (device.library().capture_begin)(stream.handle(), THREAD_LOCAL) };
        device.library().check("cuStreamBeginCapture", code)?;
        let mut capture = Capture {
            stream,
            is_open: true,
        };
        let done = work();
        let template = capture.end();
        done?;
        Ok(template?.instantiate(device)?)
    }

    /// Puts the whole into `stream`.
    ///
    /// # Safety
    /// What was promised for each piece of recorded work must hold now, until the stream has come past this launch. The
    /// launch before must be done.
    pub(crate) unsafe fn launch(&mut self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: both handles are alive; the caller vouches for the work.
        let code = unsafe { (self.device.library().graph_launch)(self.raw, stream.handle()) };
        self.device.library().check("cuGraphLaunch", code)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: made by `instantiate` and not destroyed before; CUDA lets a running launch finish.
        let _ = unsafe { (self.device.library().graph_exec_destroy)(self.raw) };
    }
}

/// A capture that ends, whatever happens: also a panic leaves the stream usable.
struct Capture<'a> {
    stream: &'a Stream,
    is_open: bool,
}

impl Capture<'_> {
    fn end(&mut self) -> Result<Template, CudaError> {
        self.is_open = false;
        let device = Arc::clone(self.stream.device());
        let mut raw = ptr::null_mut();
        // SAFETY: the stream is being captured by this thread, and the pointer is to a live pointer.
        let code = unsafe { (device.library().capture_end)(self.stream.handle(), &raw mut raw) };
        device.library().check("cuStreamEndCapture", code)?;
        Ok(Template { raw, device })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.is_open {
            drop(self.end());
        }
    }
}

/// Recorded work that cannot be launched yet.
struct Template {
    raw: CUgraph,
    device: Arc<Device>,
}

impl Template {
    fn instantiate(self, device: Arc<Device>) -> Result<Graph, CudaError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the graph is alive, the pointer is to a live pointer, and 0 asks for nothing special.
        let code = unsafe { (device.library().graph_instantiate)(&raw mut raw, self.raw, 0) };
        device.library().check("cuGraphInstantiate", code)?;
        Ok(Graph { raw, device })
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: made by `end` and not destroyed before; what was instantiated of it does not need it.
            let _ = unsafe { (self.device.library().graph_destroy)(self.raw) };
        }
    }
}
