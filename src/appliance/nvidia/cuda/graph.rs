// SPDX-License-Identifier: Apache-2.0
//! CUDA graphs: work that is recorded once and launched as a whole, without the driver's cost per call.

use std::ptr;
use std::sync::Arc;

use super::library::{CUgraph, CUgraphExec, CUgraphNode, CuResult, symbol};
use super::{CudaError, Device, Stream};

/// CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: allocations of other threads do not invalidate the capture.
const THREAD_LOCAL: u32 = 1;

/// CU_GRAPH_NODE_TYPE_HOST: the node calls a function of the host.
const HOST_NODE: u32 = 3;

/// Whether recorded work may call functions of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCalls {
    /// Each launch calls them again.
    Allowed,
    /// The capture is then an error.
    Refused,
}

/// Recorded work, ready to launch.
pub(crate) struct Graph {
    raw: CUgraphExec,
    /// Dropped last: the graph is part of its context.
    device: Arc<Device>,
}

// SAFETY: the handle is bound to a context, not to a thread; CUDA allows one thread at a time, which `&mut self` below ensures.
unsafe impl Send for Graph {}

impl Graph {
    /// Records the work that `enqueue` puts into `stream` instead of running it. `host_calls` says whether that may call the host.
    /// After an error the stream is as before.
    pub(crate) fn capture<E: From<CudaError>>(
        stream: &Stream,
        host_calls: HostCalls,
        enqueue: impl FnOnce() -> Result<(), E>,
    ) -> Result<Self, E> {
        let device = Arc::clone(stream.device());
        device.make_current()?;
        // SAFETY: the handle is alive; a stream that is already being captured gives an error code.
        let code = unsafe { (device.library().capture_begin)(stream.handle(), THREAD_LOCAL) };
        device.library().check("cuStreamBeginCapture", code)?;
        let mut capture = Capture {
            stream,
            is_open: true,
        };
        let done = enqueue();
        let template = capture.end();
        done?;
        let template = template?;
        if host_calls == HostCalls::Refused && template.node_types()?.contains(&HOST_NODE) {
            return Err(CudaError::HostCallInGraph.into());
        }
        Ok(template.instantiate(device)?)
    }

    /// Enqueues the whole graph in `stream`.
    ///
    /// # Safety
    /// The safety requirements of each piece of recorded work must hold now, until the stream has passed this launch. The
    /// previous launch must be done.
    pub(crate) unsafe fn launch(&mut self, stream: &Stream) -> Result<(), CudaError> {
        self.device.make_current()?;
        // SAFETY: both handles are alive; the caller guarantees the work.
        let code = unsafe { (self.device.library().graph_launch)(self.raw, stream.handle()) };
        self.device.library().check("cuGraphLaunch", code)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: created by `instantiate` and not destroyed before; CUDA finishes a running launch.
        let _ = unsafe { (self.device.library().graph_exec_destroy)(self.raw) };
    }
}

/// An open capture. Dropping it ends the capture: also after a panic the stream is usable.
struct Capture<'a> {
    stream: &'a Stream,
    is_open: bool,
}

impl Capture<'_> {
    fn end(&mut self) -> Result<Template, CudaError> {
        self.is_open = false;
        let device = Arc::clone(self.stream.device());
        let mut raw = ptr::null_mut();
        // SAFETY: the stream is being captured by this thread, and the pointer refers to a live pointer.
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

/// Recorded work that is not instantiated yet.
struct Template {
    raw: CUgraph,
    device: Arc<Device>,
}

impl Template {
    /// CUDA's numbers of the types of all nodes.
    fn node_types(&self) -> Result<Vec<u32>, CudaError> {
        type GetNodes = unsafe extern "C" fn(CUgraph, *mut CUgraphNode, *mut usize) -> CuResult;
        type GetType = unsafe extern "C" fn(CUgraphNode, *mut u32) -> CuResult;
        let library = self.device.library();
        // SAFETY: CUDA's driver interface documents this signature for this name.
        let get_nodes: GetNodes = unsafe { symbol("cuGraphGetNodes") }?;
        // SAFETY: as above.
        let get_type: GetType = unsafe { symbol("cuGraphNodeGetType") }?;
        let mut count = 0;
        // SAFETY: the graph is alive, and with a null pointer only the number of nodes is written.
        let code = unsafe { get_nodes(self.raw, ptr::null_mut(), &raw mut count) };
        library.check("cuGraphGetNodes", code)?;
        let mut nodes = vec![ptr::null_mut(); count];
        // SAFETY: there is space for `count` nodes.
        let code = unsafe { get_nodes(self.raw, nodes.as_mut_ptr(), &raw mut count) };
        library.check("cuGraphGetNodes", code)?;
        nodes
            .into_iter()
            .map(|node| {
                let mut kind = 0;
                // SAFETY: the node is one of the graph, which is alive, and the pointer refers to a live number.
                let code = unsafe { get_type(node, &raw mut kind) };
                library.check("cuGraphNodeGetType", code)?;
                Ok(kind)
            })
            .collect()
    }

    fn instantiate(self, device: Arc<Device>) -> Result<Graph, CudaError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the graph is alive, the pointer refers to a live pointer, and 0 means no flags.
        let code = unsafe { (device.library().graph_instantiate)(&raw mut raw, self.raw, 0) };
        device.library().check("cuGraphInstantiate", code)?;
        Ok(Graph { raw, device })
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: created by `end` and not destroyed before; executable graphs do not depend on it.
            let _ = unsafe { (self.device.library().graph_destroy)(self.raw) };
        }
    }
}
