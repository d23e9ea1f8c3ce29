//! An engine as the network of an execution: what a batch means in shapes, and one worker's context.
//!
//! Whether a plan fits the engine is decided in `check_bindings`, before any memory is allocated.

use std::ffi::c_void;
use std::sync::Arc;

use super::bindings::{Batch, check_bindings};
use super::context::{Context, LayerRanges};
use super::engine::Engine;
use super::error::TensorRtError;
use crate::cuda::Device;
use crate::session::{Enqueue, Execution, ExecutionError, LayerTime, Plan};

impl Engine {
    /// One worker's way through the GPU with this engine: an execution context, a stream and memory of its own.
    ///
    /// `plan` must name all inputs and outputs of the engine; what does not fit is refused in a sentence before anything is
    /// allocated. An engine with a fixed batch runs that batch alone. In generation 8 an engine with an open batch serves
    /// as many executions at a time as it was built for ([`BuildRequest::contexts`](super::BuildRequest::contexts)).
    pub fn session(
        self: &Arc<Self>,
        device: &Arc<Device>,
        plan: &Plan,
    ) -> Result<Execution, ExecutionError> {
        let batch = check_bindings(self, plan)?;
        let context = self
            .context(device)
            .map_err(|error| ExecutionError::Network {
                doing: "make an execution context".to_owned(),
                reason: error.to_string(),
            })?;
        let context = context.ok_or_else(|| ExecutionError::Plan {
            what: "the number of workers".to_owned(),
            found: "more than the engine has optimization profiles".to_owned(),
            expected: "as many as the engine was built for".to_owned(),
        })?;
        let network = Network {
            context,
            batch,
            device: Arc::clone(device),
        };
        Execution::new(device, Box::new(network), plan)
    }
}

/// One context of an engine.
struct Network {
    context: Context,
    batch: Batch,
    device: Arc<Device>,
}

impl Network {
    fn set_shapes(&mut self, count: usize) -> Result<(), TensorRtError> {
        let Batch::Dynamic { inputs, outputs } = &mut self.batch else {
            return Ok(());
        };
        // At most the profile's, which came as a signed number.
        let count = count as i64;
        for input in inputs {
            input.shape[0] = count;
            self.context.set_input_shape(&input.name, &input.shape)?;
        }
        self.context.check_shapes()?;
        // The memory was made for these: a network that gives more must not run.
        for output in outputs {
            output.shape[0] = count;
            self.context.check_shape(&output.name, &output.shape)?;
        }
        Ok(())
    }
}

impl Enqueue for Network {
    fn set_batch(&mut self, count: usize) -> Result<(), String> {
        match self.batch {
            Batch::Fixed(fixed) if fixed != count => Err(format!(
                "the engine was built for batches of {fixed} alone; build it with an open batch axis"
            )),
            _ => self.set_shapes(count).map_err(error_text),
        }
    }

    unsafe fn set_address(&mut self, tensor: &str, address: u64) -> Result<(), String> {
        // SAFETY: the caller vouches for memory of the plan's batch; `set_batch` sees to it that no run needs more.
        unsafe { self.context.set_address(tensor, address) }.map_err(error_text)
    }

    unsafe fn enqueue(&mut self, stream: *mut c_void) -> Result<(), String> {
        // SAFETY: an execution sets all addresses and a batch before it runs; the caller vouches for the rest.
        unsafe { self.context.enqueue(stream) }.map_err(error_text)
    }

    fn new_context(&mut self) -> Result<Option<Box<dyn Enqueue>>, String> {
        let engine = self.context.engine();
        // What is left of the profiles belongs to workers that are still to come.
        if !engine.shares_profiles() {
            return Ok(None);
        }
        let Some(context) = engine.context(&self.device).map_err(error_text)? else {
            return Ok(None);
        };
        Ok(Some(Box::new(Self {
            context,
            batch: self.batch.clone(),
            device: Arc::clone(&self.device),
        })))
    }

    fn enable_layer_ranges(&mut self) -> Result<(), String> {
        if self
            .context
            .set_nvtx(LayerRanges::Enabled)
            .map_err(error_text)?
        {
            return Ok(());
        }
        Err(
            "the engine was built without details of its layers; build it again with jetwatch"
                .to_owned(),
        )
    }

    fn measure_layers(&mut self) -> Result<(), String> {
        self.context.measure_layers().map_err(error_text)
    }

    fn collect_layer_times(&mut self) -> Result<(), String> {
        self.context.collect_layer_times().map_err(error_text)
    }

    fn layer_times(&self) -> Vec<LayerTime> {
        self.context.layer_times()
    }
}

fn error_text(error: TensorRtError) -> String {
    error.to_string()
}
