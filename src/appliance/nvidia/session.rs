//! One worker's way through the GPU: pictures in, a network's outputs back, and how long each stage took.
//!
//! Not a network: that is whatever implements [`Enqueue`]. An execution is made by whoever has one (the TensorRT engine,
//! the [echo](super::echo)) and used by the detectors, one by each worker. Executions on several threads overlap: each has
//! a stream, memory and execution contexts of its own. After the first runs nothing is allocated.

mod contexts;
mod enqueue;
mod error;
mod plan;
mod staging;
mod submission;
mod timing;

use std::fmt;
use std::sync::Arc;

pub use error::ExecutionError;
pub use plan::{ConstantPlan, InputPlan, InputSource, MAX_BATCH, OutputPlan, Plan};
pub use staging::LetterboxRect;
pub use timing::{GpuTimes, LayerTime, StageTimes};

pub(crate) use enqueue::Enqueue;

use super::cuda::{CudaError, Device};
use super::surface::Surface;
use contexts::ContextPool;
use submission::Submission;

/// Memory, stream and network of one worker. Fields are dropped in order: contexts know addresses of the work's memory.
pub struct Execution {
    contexts: ContextPool,
    submission: Submission,
    batch: usize,
    /// Pictures of the last run.
    count: usize,
    device: Arc<Device>,
}

impl Execution {
    /// Allocates memory for `plan` and tells `network` where its tensors lie.
    pub(crate) fn new(
        device: &Arc<Device>,
        network: Box<dyn Enqueue>,
        plan: &Plan,
    ) -> Result<Self, ExecutionError> {
        plan.check()?;
        let work = Submission::new(device, plan)?;
        Ok(Self {
            contexts: ContextPool::new(network, &work, plan.graphs)?,
            submission: work,
            batch: plan.batch,
            count: 0,
            device: Arc::clone(device),
        })
    }

    /// Most pictures in one run.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Copies a picture into slot `index`, from 0; it stays there for all runs until another is written.
    ///
    /// `row` gives the rows from the top: `inner.height` rows of `inner.width` pixels; of NV12 rows of luma, then, for
    /// each two of them, one of chroma with as many bytes, rounded up to a pair. Rows may be longer. Where no picture was
    /// written, the tensor is all padding. Errors are bugs of the caller: no such slot, a picture that does not lie in the
    /// tensor, a short row (the slot then holds a mixture), a plan whose input is a tensor.
    pub fn upload_image<'a>(
        &mut self,
        index: usize,
        inner: LetterboxRect,
        row: impl Fn(u32) -> &'a [u8],
    ) -> Result<(), ExecutionError> {
        self.submission.staging.write_image(index, inner, row)
    }

    /// Has the GPU read slot `index`, from 0, where `surface` lies, in the next run. After that run the slot is empty and the
    /// surface let go.
    ///
    /// The same errors as of [`upload_image`](Self::write), and a surface of another size or with pixels of another format.
    pub fn bind_surface(
        &mut self,
        index: usize,
        inner: LetterboxRect,
        surface: Surface,
    ) -> Result<(), ExecutionError> {
        self.submission.staging.bind_surface(index, inner, surface)
    }

    /// Slot `index`, from 0, of an input that the host writes: the picture's part of the tensor. It is the same memory at
    /// each call and keeps what was written.
    pub fn write_tensor(&mut self, index: usize) -> Result<&mut [u8], ExecutionError> {
        self.submission.staging.tensor(index)
    }

    /// The same as 32-bit floats. Bytes beyond the last whole number are left out.
    pub fn write_tensor_f32(&mut self, index: usize) -> Result<&mut [f32], ExecutionError> {
        let bytes = self.write_tensor(index)?;
        // SAFETY: any bytes are floats, and `align_to_mut` sees to their place.
        let (before, numbers, _) = unsafe { bytes.align_to_mut::<f32>() };
        if before.is_empty() {
            return Ok(numbers);
        }
        Err(ExecutionError::Use {
            what: "a tensor of floats",
            found: "one whose pictures are no multiple of 4 bytes".to_owned(),
            expected: "whole numbers".to_owned(),
        })
    }

    /// Runs the network on the first `count` slots and waits, asleep, until its outputs are there.
    ///
    /// A count's first runs are slower: the network gets ready for it and is recorded as a graph. After an error the
    /// outputs mean nothing; the GPU may be beyond repair, so that the process should end.
    pub fn run(&mut self, count: usize) -> Result<GpuTimes, ExecutionError> {
        if count == 0 || count > self.batch {
            return Err(ExecutionError::Use {
                what: "the number of pictures",
                found: count.to_string(),
                expected: format!("1 to {}", self.batch),
            });
        }
        self.device.make_current()?;
        self.count = 0;
        let is_recorded = self.contexts.is_recorded(count);
        // SAFETY: slots and results are borrowed with `self` until the stream is empty again: `finish` waits for it, and so
        // does the way out after an error.
        let begun = unsafe { self.contexts.enqueue(&self.submission, count) };
        let done = begun.and_then(|marks| {
            self.finish()?;
            self.contexts.collect_layer_times()?;
            Ok(self.submission.times(marks)?)
        });
        if done.is_err() {
            // What is still in the stream must not write to memory that the caller looks at.
            let _ = self.submission.stream.synchronize();
        }
        // The stream is empty: the pools may have their pictures back.
        self.submission.staging.release();
        let times = done?;
        self.count = count;
        if !is_recorded {
            self.contexts.record(&self.submission, count);
        }
        Ok(times)
    }

    /// Outputs of the network.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.submission.outputs()
    }

    /// Output number `tensor` of the last run, its pictures one after the other; empty after an error and before the first
    /// run. Panics when there is no such output.
    #[must_use]
    pub fn output(&self, tensor: usize) -> &[u8] {
        self.submission.output(tensor, self.count)
    }

    /// The same as 32-bit floats. Bytes beyond the last whole number are left out.
    #[must_use]
    pub fn output_f32(&self, tensor: usize) -> &[f32] {
        as_numbers(self.output(tensor))
    }

    /// The same as 32-bit integers.
    #[must_use]
    pub fn output_i32(&self, tensor: usize) -> &[i32] {
        as_numbers(self.output(tensor))
    }

    /// The same as 64-bit integers.
    #[must_use]
    pub fn output_i64(&self, tensor: usize) -> &[i64] {
        as_numbers(self.output(tensor))
    }

    /// Shows each layer of the network as an NVTX range, to whoever looks at the process with NVIDIA's profiler.
    ///
    /// From now on runs go call by call: the ranges of a recorded run are seen only once. The error is the network's, which
    /// may have been built without its layers' names.
    pub fn enable_layer_ranges(&mut self) -> Result<(), ExecutionError> {
        let lane = self.contexts.eager();
        lane.network
            .enable_layer_ranges()
            .map_err(|reason| ExecutionError::Network {
                doing: "show its layers".to_owned(),
                reason,
            })
    }

    /// Measures how long each layer takes in the runs to come, which become slower by that and go call by call. The error
    /// is the network's.
    pub fn measure_layers(&mut self) -> Result<(), ExecutionError> {
        self.contexts.measure_layers()
    }

    /// Times of the layers in all runs since [`measure_layers`](Self::measure_layers), in the order in which they ran.
    #[must_use]
    pub fn layer_times(&self) -> Vec<LayerTime> {
        self.contexts.layer_times()
    }

    fn finish(&self) -> Result<(), CudaError> {
        self.submission.done.record(&self.submission.stream)?;
        self.submission.done.synchronize()
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        // Memory and contexts go next: nothing may be under way. A GPU beyond repair does nothing more.
        let _ = self.submission.stream.synchronize();
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Execution(batch {}, on {:?})", self.batch, self.device)
    }
}

/// Numbers that may be read from any bytes.
trait Number: Copy {}
impl Number for f32 {}
impl Number for i32 {}
impl Number for i64 {}

/// `bytes` as numbers. Outputs begin at multiples of 256 bytes, so none is lost at the beginning.
fn as_numbers<T: Number>(bytes: &[u8]) -> &[T] {
    // SAFETY: the types are plain numbers, for which any bytes are valid, and `align_to` sees to their place.
    let (before, numbers, _) = unsafe { bytes.align_to::<T>() };
    debug_assert!(
        before.is_empty(),
        "an output that begins at a multiple of 256"
    );
    numbers
}
