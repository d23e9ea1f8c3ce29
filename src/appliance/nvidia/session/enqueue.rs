//! What an execution asks of a network: TensorRT's execution context, or the echo.

use std::ffi::c_void;

use super::timing::LayerTime;

/// What a network says that cannot tell its layers apart.
const NO_LAYERS: &str = "it does not tell its layers apart";

/// One execution context of a network. Errors are what the network's library said.
pub(crate) trait Enqueue: Send {
    /// Sets the number of pictures of the runs to come, 1 to the plan's batch.
    fn set_batch(&mut self, count: usize) -> Result<(), String>;

    /// Says where `tensor` lies in memory that the GPU reaches.
    ///
    /// # Safety
    /// The memory must be large enough for the plan's batch, and stay until the last run is done.
    unsafe fn set_address(&mut self, tensor: &str, address: u64) -> Result<(), String>;

    /// Puts one run into `stream`, a CUDA stream, which may be recording a graph.
    ///
    /// # Safety
    /// The stream must be alive, and nobody else may use the tensors' memory until it has come past the run.
    unsafe fn enqueue(&mut self, stream: *mut c_void) -> Result<(), String>;

    /// A further context of the same network, with state and memory of its own, or `None` where there is none to be had.
    fn new_context(&mut self) -> Result<Option<Box<dyn Enqueue>>, String>;

    /// Shows each layer of the runs to come as an NVTX range.
    fn enable_layer_ranges(&mut self) -> Result<(), String> {
        Err(NO_LAYERS.to_owned())
    }

    /// Measures the time of each layer of the runs to come.
    fn measure_layers(&mut self) -> Result<(), String> {
        Err(NO_LAYERS.to_owned())
    }

    /// Takes the layers' times of the last run, which has ended, if they are measured.
    fn collect_layer_times(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// All times of layers that were taken.
    fn layer_times(&self) -> Vec<LayerTime> {
        Vec::new()
    }
}
