// SPDX-License-Identifier: Apache-2.0
//! Interface between a session and a network: TensorRT's execution context, or the loopback network.

use std::ffi::c_void;

use super::timing::LayerTime;

/// Error of a network that has no separate layers.
const NO_LAYERS: &str = "it has no separate layers";

/// One execution context of a network. Errors are the messages of the network's library.
pub(crate) trait Enqueue: Send {
    /// Sets the number of images for all further runs, 1 to the plan's batch.
    fn set_batch(&mut self, count: usize) -> Result<(), String>;

    /// Sets the address of `tensor`, in memory that the GPU can access.
    ///
    /// # Safety
    /// The memory must be large enough for the plan's batch, and stay allocated until the last run is done.
    unsafe fn set_address(&mut self, tensor: &str, address: u64) -> Result<(), String>;

    /// Enqueues one run in `stream`, a CUDA stream, which may be recording a graph.
    ///
    /// # Safety
    /// The stream must be alive, and nothing else may use the tensors' memory until it has passed the run.
    unsafe fn enqueue(&mut self, stream: *mut c_void) -> Result<(), String>;

    /// A further context of the same network, with its own state and memory; `None` if it supports no further one.
    fn new_context(&mut self) -> Result<Option<Box<dyn Enqueue>>, String>;

    /// Whether a recorded run must not call back into the host: such a call releases memory, which may happen only once.
    fn forbids_host_calls(&self) -> bool {
        false
    }

    /// Shows each layer of all further runs as an NVTX range.
    fn enable_layer_ranges(&mut self) -> Result<(), String> {
        Err(NO_LAYERS.to_owned())
    }

    /// Measures the time of each layer in all further runs.
    fn measure_layers(&mut self) -> Result<(), String> {
        Err(NO_LAYERS.to_owned())
    }

    /// Collects the layer times of the last run, which must have ended, if they are measured.
    fn collect_layer_times(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// All layer times collected so far.
    fn layer_times(&self) -> Vec<LayerTime> {
        Vec::new()
    }
}
