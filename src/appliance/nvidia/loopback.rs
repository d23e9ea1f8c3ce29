// SPDX-License-Identifier: Apache-2.0
//! A network that returns its input: tests and measures the GPU path without an engine.
//!
//! It copies the beginning of each image's tensor to its output, and can keep the GPU busy for a given time, as a network
//! would. For tests, benchmarks, and checks of a GPU.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use super::cuda::{CudaError, Device, Grid, Kernel, Kernels, Stream};
use super::session::{
    Enqueue, InferenceSession, InputPlan, InputSource, OutputPlan, Plan, SessionError,
};

const INPUT: &str = "input";
const OUTPUT: &str = "output";

/// Threads per block of the pause kernel: CUDA's maximum.
const BLOCK_THREADS: u32 = 1024;

/// Settings of the loopback network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoopbackNetwork {
    /// The input.
    pub input: InputSource,
    /// Maximum number of images in one run.
    pub batch: usize,
    /// Bytes returned of each image's tensor, from its beginning: 1 to all.
    pub output_bytes: usize,
    /// Time for which each run also keeps the whole GPU busy.
    pub pause: Duration,
    /// CUDA graph support.
    pub graph_mode: GraphMode,
}

/// How the loopback network behaves when it is recorded as a CUDA graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphMode {
    /// Not recorded: runs call by call.
    Off,
    /// Each batch size has its own context and graph.
    Contexts,
    /// There is only one context.
    OneContext,
    /// Its calls cannot be captured in a graph.
    Impossible,
}

impl LoopbackNetwork {
    /// An inference session of this network.
    ///
    /// # Errors
    /// The output is larger than the input, or memory runs out.
    pub fn session(&self, device: &Arc<Device>) -> Result<InferenceSession, SessionError> {
        let input_bytes = self.input.bytes_per_image();
        if self.output_bytes > input_bytes {
            return Err(SessionError::Use {
                what: "the output of the loopback network",
                found: format!("{} bytes per image", self.output_bytes),
                expected: format!("at most the {input_bytes} of its input"),
            });
        }
        let plan = Plan {
            input: InputPlan {
                name: INPUT.to_owned(),
                source: self.input,
            },
            constants: Vec::new(),
            outputs: vec![OutputPlan {
                name: OUTPUT.to_owned(),
                bytes_per_image: self.output_bytes,
            }],
            batch: self.batch,
            graphs: self.graph_mode != GraphMode::Off,
        };
        let network = Network {
            config: *self,
            count: 0,
            input: 0,
            output: 0,
            kernels: device.kernels()?,
            device: Arc::clone(device),
        };
        InferenceSession::new(device, Box::new(network), &plan)
    }
}

/// One context of the loopback network.
struct Network {
    config: LoopbackNetwork,
    count: usize,
    input: u64,
    output: u64,
    kernels: Arc<Kernels>,
    device: Arc<Device>,
}

impl Enqueue for Network {
    fn set_batch(&mut self, count: usize) -> Result<(), String> {
        self.count = count;
        Ok(())
    }

    unsafe fn set_address(&mut self, tensor: &str, address: u64) -> Result<(), String> {
        match tensor {
            INPUT => self.input = address,
            OUTPUT => self.output = address,
            _ => return Err(format!("there is no tensor `{tensor}`")),
        }
        Ok(())
    }

    unsafe fn enqueue(&mut self, stream: *mut c_void) -> Result<(), String> {
        // SAFETY: the caller guarantees that the stream is alive; it is a stream of this device.
        let stream = unsafe { Stream::borrowed(&self.device, stream) };
        if self.config.graph_mode == GraphMode::Impossible {
            stream.synchronize().map_err(|error| error.to_string())?;
        }
        // SAFETY: the caller guarantees both tensors.
        unsafe { self.enqueue_run(&stream) }.map_err(|error| error.to_string())
    }

    fn new_context(&mut self) -> Result<Option<Box<dyn Enqueue>>, String> {
        if self.config.graph_mode != GraphMode::Contexts {
            return Ok(None);
        }
        Ok(Some(Box::new(Self {
            kernels: Arc::clone(&self.kernels),
            device: Arc::clone(&self.device),
            ..*self
        })))
    }
}

impl Network {
    /// # Safety
    /// Those of [`Enqueue::enqueue`].
    unsafe fn enqueue_run(&self, stream: &Stream) -> Result<(), CudaError> {
        // The copies come first: they may need a part of the GPU that another worker's pause occupies.
        // SAFETY: the caller guarantees both tensors.
        unsafe { self.copy(stream) }?;
        let nanoseconds = self.config.pause.as_nanos() as u64;
        if nanoseconds == 0 {
            return Ok(());
        }
        // As many blocks as fit on the GPU, so that nothing else runs at the same time.
        let per_multiprocessor = self.device.threads_per_multiprocessor() / BLOCK_THREADS;
        let grid = Grid {
            columns: self.device.multiprocessors() * per_multiprocessor.max(1),
            rows: 1,
            threads: BLOCK_THREADS,
        };
        // SAFETY: the kernel's parameter is a 64-bit number, and it accesses no memory.
        unsafe {
            self.kernels
                .launch(Kernel::Pause, stream, grid, &nanoseconds)
        }
    }

    /// # Safety
    /// Those of [`Enqueue::enqueue`].
    unsafe fn copy(&self, stream: &Stream) -> Result<(), CudaError> {
        let (input, output) = (
            self.config.input.bytes_per_image(),
            self.config.output_bytes,
        );
        if input == output {
            // SAFETY: both tensors hold the plan's batch; the caller guarantees them.
            return unsafe { stream.copy(self.output, self.input, input * self.count) };
        }
        for index in 0..self.count {
            let to = self.output + (index * output) as u64;
            let from = self.input + (index * input) as u64;
            // SAFETY: both are in the part of image `index`, which the plan's batch has; the caller guarantees the tensors.
            unsafe { stream.copy(to, from, output) }?;
        }
        Ok(())
    }
}
