// SPDX-License-Identifier: Apache-2.0
//! Inference session of one worker on the GPU: images in, outputs of a network back, and the time of each stage.
//!
//! The network is an implementation of `Enqueue`: the TensorRT engine, or the [loopback](super::loopback) network. Each worker
//! has one session. Sessions on several threads overlap: each has its own stream, memory and execution contexts. After the
//! first runs nothing is allocated.

mod contexts;
mod enqueue;
mod error;
mod plan;
mod staging;
mod submission;
mod timing;

use std::fmt;
use std::sync::Arc;

pub use error::SessionError;
pub use plan::{ConstantPlan, InputPlan, InputSource, MAX_BATCH, OutputPlan, Plan};
pub use staging::LetterboxRect;
pub use timing::{GpuTimes, LayerTime, StageTimes};

pub(crate) use enqueue::Enqueue;

use super::cuda::{CudaError, Device, Stream};
use super::surface::Surface;
use contexts::ContextPool;
use submission::Submission;

/// Memory, stream and network of one worker. Fields are dropped in order: contexts store addresses of the submission's memory.
pub struct InferenceSession {
    contexts: ContextPool,
    submission: Submission,
    batch: usize,
    /// Number of images of the last run.
    count: usize,
    device: Arc<Device>,
}

impl InferenceSession {
    /// Allocates memory for `plan` and sets the addresses of `network`'s tensors.
    pub(crate) fn new(
        device: &Arc<Device>,
        network: Box<dyn Enqueue>,
        plan: &Plan,
    ) -> Result<Self, SessionError> {
        plan.check()?;
        Self::in_stream(Arc::new(Stream::new(device)?), network, plan)
    }

    /// As [`new`](Self::new) with all work in `stream`, which nothing else uses.
    pub(crate) fn in_stream(
        stream: Arc<Stream>,
        network: Box<dyn Enqueue>,
        plan: &Plan,
    ) -> Result<Self, SessionError> {
        plan.check()?;
        let device = Arc::clone(stream.device());
        let submission = Submission::new(stream, plan)?;
        Ok(Self {
            contexts: ContextPool::new(network, &submission, plan.graphs)?,
            submission,
            batch: plan.batch,
            count: 0,
            device,
        })
    }

    /// Maximum number of images in one run.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Copies an image into slot `index`, from 0. It stays there for all runs until another is written.
    ///
    /// `row` returns the rows from the top: `inner.height` rows of `inner.width` pixels; for NV12 rows of luma, then, for each two
    /// of them, one of interleaved chroma with as many bytes, rounded up to a pair. Rows may be longer. Slots without an image
    /// give a tensor of padding only.
    ///
    /// # Errors
    /// Bugs of the caller: no such slot, an image outside of the tensor, a short row (the slot is then partly written), a plan
    /// whose input is a tensor.
    pub fn upload_image<'a>(
        &mut self,
        index: usize,
        inner: LetterboxRect,
        row: impl Fn(u32) -> &'a [u8],
    ) -> Result<(), SessionError> {
        self.submission.staging.write_image(index, inner, row)
    }

    /// Lets the GPU read the image of slot `index`, from 0, directly from `surface` in the next run. After that run the slot is
    /// empty and the surface released.
    ///
    /// # Errors
    /// Those of [`upload_image`](Self::upload_image), and a surface of another size or pixel format.
    pub fn bind_surface(
        &mut self,
        index: usize,
        inner: LetterboxRect,
        surface: Surface,
    ) -> Result<(), SessionError> {
        self.submission.staging.bind_surface(index, inner, surface)
    }

    /// Slot `index`, from 0, of an input that the host writes: the image's part of the tensor. Each call returns the same memory,
    /// which keeps its contents.
    ///
    /// # Errors
    /// Bugs of the caller: no such slot, or a plan whose input is images.
    pub fn write_tensor(&mut self, index: usize) -> Result<&mut [u8], SessionError> {
        self.submission.staging.tensor(index)
    }

    /// The same as 32-bit floats, without an incomplete last one.
    ///
    /// # Errors
    /// Those of [`write_tensor`](Self::write_tensor).
    pub fn write_tensor_f32(&mut self, index: usize) -> Result<&mut [f32], SessionError> {
        let bytes = self.write_tensor(index)?;
        // SAFETY: any bytes are valid floats, and `align_to_mut` ensures the alignment.
        let (before, numbers, _) = unsafe { bytes.align_to_mut::<f32>() };
        if before.is_empty() {
            return Ok(numbers);
        }
        Err(SessionError::Use {
            what: "a tensor of floats",
            found: "one whose images are not a multiple of 4 bytes".to_owned(),
            expected: "whole numbers".to_owned(),
        })
    }

    /// Runs the network on the first `count` slots and blocks, without spinning, until the outputs are available.
    ///
    /// The first runs of a count are slower: the network prepares for it and is recorded as a graph.
    ///
    /// # Errors
    /// A failure of the GPU or the network. The outputs are then invalid; the GPU may be unusable, so the process should end.
    pub fn run(&mut self, count: usize) -> Result<GpuTimes, SessionError> {
        if count == 0 || count > self.batch {
            return Err(SessionError::Use {
                what: "the number of images",
                found: count.to_string(),
                expected: format!("1 to {}", self.batch),
            });
        }
        self.device.make_current()?;
        self.count = 0;
        let is_recorded = self.contexts.is_recorded(count);
        // SAFETY: slots and results are borrowed with `self` until the stream is empty again: `finish` waits for it, and so
        // does the error path below.
        let started = unsafe { self.contexts.enqueue(&self.submission, count) };
        let done = started.and_then(|events| {
            self.finish()?;
            self.contexts.collect_layer_times()?;
            Ok(self.submission.times(events)?)
        });
        if done.is_err() {
            // Work that is still in the stream must not write to memory that the caller reads.
            let _ = self.submission.stream.synchronize();
        }
        // The stream is empty: return the surfaces to their pools.
        self.submission.staging.release();
        let times = done?;
        self.count = count;
        if !is_recorded {
            self.contexts.record(&self.submission, count);
        }
        Ok(times)
    }

    /// Number of outputs of the network.
    pub fn outputs(&self) -> usize {
        self.submission.outputs()
    }

    /// Output `tensor` of the last run, all images in order; empty after an error and before the first run.
    ///
    /// # Panics
    /// When there is no such output.
    pub fn output(&self, tensor: usize) -> &[u8] {
        self.submission.output(tensor, self.count)
    }

    /// The same as 32-bit floats, without an incomplete last one.
    ///
    /// # Panics
    /// When there is no such output.
    #[must_use]
    pub fn output_f32(&self, tensor: usize) -> &[f32] {
        as_numbers(self.output(tensor))
    }

    /// The same as 32-bit integers.
    ///
    /// # Panics
    /// When there is no such output.
    #[must_use]
    pub fn output_i32(&self, tensor: usize) -> &[i32] {
        as_numbers(self.output(tensor))
    }

    /// The same as 64-bit integers.
    ///
    /// # Panics
    /// When there is no such output.
    #[must_use]
    pub fn output_i64(&self, tensor: usize) -> &[i64] {
        as_numbers(self.output(tensor))
    }

    /// Whether the next run of `count` images is one launch of a CUDA graph.
    pub fn is_recorded(&self, count: usize) -> bool {
        self.contexts.is_recorded(count)
    }

    /// Makes all further runs go call by call instead of as graphs.
    pub fn stop_recording(&mut self) {
        self.contexts.eager();
    }

    /// Shows each layer of the network as an NVTX range in a profiler.
    ///
    /// All further runs go call by call: the ranges of a recorded run appear only once.
    ///
    /// # Errors
    /// The network does not support it, for example because it was built without layer names.
    pub fn enable_layer_ranges(&mut self) -> Result<(), SessionError> {
        let context = self.contexts.eager();
        context
            .network
            .enable_layer_ranges()
            .map_err(|reason| SessionError::Network {
                doing: "show its layers".to_owned(),
                reason,
            })
    }

    /// Measures the time of each layer in all further runs, which go call by call and become slower.
    ///
    /// # Errors
    /// The network does not support it.
    pub fn measure_layers(&mut self) -> Result<(), SessionError> {
        self.contexts.measure_layers()
    }

    /// Times of the layers in all runs since [`measure_layers`](Self::measure_layers), in execution order.
    pub fn layer_times(&self) -> Vec<LayerTime> {
        self.contexts.layer_times()
    }

    fn finish(&self) -> Result<(), CudaError> {
        self.submission.done.record(&self.submission.stream)?;
        self.submission.done.synchronize()
    }
}

impl Drop for InferenceSession {
    fn drop(&mut self) {
        // Memory and contexts are freed next, so nothing may be running. A failed GPU runs nothing more.
        let _ = self.submission.stream.synchronize();
    }
}

impl fmt::Debug for InferenceSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "InferenceSession(batch {}, on {:?})",
            self.batch, self.device
        )
    }
}

/// Types for which any bytes are valid.
trait Number: Copy {}
impl Number for f32 {}
impl Number for i32 {}
impl Number for i64 {}

/// `bytes` as numbers. Outputs start at multiples of 256 bytes, so the beginning is aligned.
fn as_numbers<T: Number>(bytes: &[u8]) -> &[T] {
    // SAFETY: the types are plain numbers, for which any bytes are valid, and `align_to` ensures the alignment.
    let (before, numbers, _) = unsafe { bytes.align_to::<T>() };
    debug_assert!(
        before.is_empty(),
        "an output that begins at a multiple of 256"
    );
    numbers
}
