// SPDX-License-Identifier: Apache-2.0
//! An engine as the network of a session: the shapes of a batch, and one worker's context.
//!
//! `check_bindings` decides whether a plan fits the engine, before any memory is allocated.

use std::ffi::c_void;
use std::sync::Arc;

use super::bindings::{Batch, check_bindings};
use super::context::{Context, LayerRanges};
use super::engine::Engine;
use super::error::TensorRtError;
use crate::cuda::Device;
use crate::session::{Enqueue, InferenceSession, LayerTime, Plan, SessionError};

impl Engine {
    /// Creates a session of this engine for one worker: an execution context, a stream and memory.
    ///
    /// `plan` must contain all inputs and outputs of the engine. An engine with a fixed batch runs only that batch. In
    /// generation 8 an engine with an open batch supports as many sessions at a time as it was built for
    /// ([`BuildRequest::contexts`](super::BuildRequest::contexts)).
    ///
    /// # Errors
    /// `plan` does not fit the engine (checked before any allocation), no optimization profile is free, or memory runs out.
    pub fn session(
        self: &Arc<Self>,
        device: &Arc<Device>,
        plan: &Plan,
    ) -> Result<InferenceSession, SessionError> {
        let batch = check_bindings(self, plan)?;
        let context = self
            .context(device)
            .map_err(|error| SessionError::Network {
                doing: "make an execution context".to_owned(),
                reason: error.to_string(),
            })?;
        let context = context.ok_or_else(|| SessionError::Plan {
            what: "the number of workers".to_owned(),
            found: "more than the engine has optimization profiles".to_owned(),
            expected: "as many as the engine was built for".to_owned(),
        })?;
        let network = Network {
            context,
            batch,
            device: Arc::clone(device),
        };
        InferenceSession::new(device, Box::new(network), plan)
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
        // At most the profile's batch, which is a signed number.
        let count = count as i64;
        for input in inputs {
            input.shape[0] = count;
            self.context.set_input_shape(&input.name, &input.shape)?;
        }
        self.context.check_shapes()?;
        // The memory was allocated for these shapes: a network with larger outputs must not run.
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
                "the engine was built only for batches of {fixed}; build it with an open batch axis"
            )),
            _ => self.set_shapes(count).map_err(error_text),
        }
    }

    unsafe fn set_address(&mut self, tensor: &str, address: u64) -> Result<(), String> {
        // SAFETY: the caller guarantees memory of the plan's batch; `set_batch` ensures that no run needs more.
        unsafe { self.context.set_address(tensor, address) }.map_err(error_text)
    }

    unsafe fn enqueue(&mut self, stream: *mut c_void) -> Result<(), String> {
        // SAFETY: a session sets all addresses and a batch before it runs; the caller guarantees the rest.
        unsafe { self.context.enqueue(stream) }.map_err(error_text)
    }

    fn new_context(&mut self) -> Result<Option<Box<dyn Enqueue>>, String> {
        let engine = self.context.engine();
        // The remaining profiles are for workers that are still to be created.
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
