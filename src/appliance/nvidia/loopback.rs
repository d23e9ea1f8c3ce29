//! A network that gives back its input: by it the way through the GPU is proven and measured where there is no engine.
//!
//! It copies the beginning of each picture's tensor to its output, and can keep the GPU busy for a time, as a network
//! would. Used by the tests, the benchmark, and whoever wants to know whether a GPU does what it should.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use super::cuda::{CudaError, Device, Grid, Kernel, Kernels, Stream};
use super::session::{
    Enqueue, Execution, ExecutionError, InputPlan, InputSource, OutputPlan, Plan,
};

const INPUT: &str = "input";
const OUTPUT: &str = "output";

/// Threads of a block of the pause: the most there can be.
const BLOCK_THREADS: u32 = 1024;

/// What the echo is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoopbackNetwork {
    /// Its input.
    pub input: InputSource,
    /// Most pictures in one run.
    pub batch: usize,
    /// Bytes that come back of each picture's tensor, from its beginning: 1 to all.
    pub output_bytes: usize,
    /// How long it keeps the whole GPU busy besides.
    pub pause: Duration,
    /// Whether and how it may be recorded as a graph.
    pub graph_mode: GraphMode,
}

/// How the echo bears being recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphMode {
    /// It is run call by call.
    Off,
    /// Each batch count gets a context and a graph.
    Contexts,
    /// It has one context only.
    OneContext,
    /// It does what no graph can hold.
    Impossible,
}

impl LoopbackNetwork {
    /// An execution of this echo.
    pub fn session(&self, device: &Arc<Device>) -> Result<Execution, ExecutionError> {
        let input_bytes = self.input.bytes_per_image();
        if self.output_bytes > input_bytes {
            return Err(ExecutionError::Use {
                what: "the output of the echo",
                found: format!("{} bytes a picture", self.output_bytes),
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
        Execution::new(device, Box::new(network), &plan)
    }
}

/// One context of the echo.
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
        // SAFETY: the caller vouches that the stream is alive; it is a stream of this device.
        let stream = unsafe { Stream::borrowed(&self.device, stream) };
        if self.config.graph_mode == GraphMode::Impossible {
            stream.synchronize().map_err(|error| error.to_string())?;
        }
        // SAFETY: the caller vouches for both tensors.
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
    /// As of [`Enqueue::enqueue`].
    unsafe fn enqueue_run(&self, stream: &Stream) -> Result<(), CudaError> {
        // The copies first: they may need a part of the GPU, which another worker's pause would withhold.
        // SAFETY: the caller vouches for both tensors.
        unsafe { self.copy(stream) }?;
        let nanoseconds = self.config.pause.as_nanos() as u64;
        if nanoseconds == 0 {
            return Ok(());
        }
        // As many blocks as there is room for: nothing else runs beside them.
        let per_multiprocessor = self.device.threads_per_multiprocessor() / BLOCK_THREADS;
        let grid = Grid {
            columns: self.device.multiprocessors() * per_multiprocessor.max(1),
            rows: 1,
            threads: BLOCK_THREADS,
        };
        // SAFETY: the kernel's parameter is a 64-bit number, and it touches no memory.
        unsafe {
            self.kernels
                .launch(Kernel::Pause, stream, grid, &nanoseconds)
        }
    }

    /// # Safety
    /// As of [`Enqueue::enqueue`].
    unsafe fn copy(&self, stream: &Stream) -> Result<(), CudaError> {
        let (input, output) = (
            self.config.input.bytes_per_image(),
            self.config.output_bytes,
        );
        if input == output {
            // SAFETY: both tensors hold the plan's batch; the caller vouches for them.
            return unsafe { stream.copy(self.output, self.input, input * self.count) };
        }
        for index in 0..self.count {
            let to = self.output + (index * output) as u64;
            let from = self.input + (index * input) as u64;
            // SAFETY: both lie in the part of picture `index`, which the plan's batch has; the caller vouches for the tensors.
            unsafe { stream.copy(to, from, output) }?;
        }
        Ok(())
    }
}
