// SPDX-License-Identifier: Apache-2.0
//! The GPU work of one run: memory, and the calls in their order.
//!
//! ```text
//!   host, page-locked          GPU
//!   entries, images ─ copy ─► entries, images ─ kernel ─► tensor ─┐
//!   tensor ──────────── copy ──────────────────────────────► tensor ─┴─ network ─► outputs ─ copy ─► host, page-locked
//! ```
//!
//! An integrated GPU reads the images where the CPU wrote them, since the kernel reads each byte once. A tensor that the CPU
//! wrote is copied in any case, since the network reads it many times and the GPU does not cache host memory.

use std::sync::Arc;

use super::enqueue::Enqueue;
use super::error::SessionError;
use super::plan::{InputSource, Plan};
use super::staging::StagingBuffers;
use super::timing::{GpuTimes, StageTimes};
use crate::cuda::{
    CudaError, DeviceBuffer, Event, EventKind, PinnedBuffer, Preprocess, Recording, Stream,
};

/// Which of the five timing events, before and after each of the four stages, a run records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimingEvents {
    /// All, in the stream.
    All,
    /// All, within a graph.
    AllInGraph,
    /// The first and the last, in the stream around a graph.
    Ends,
    /// None, within a graph.
    None,
}

/// A tensor in GPU memory.
struct Tensor {
    name: String,
    memory: DeviceBuffer,
}

/// An output, and its host memory.
struct Output {
    tensor: Tensor,
    bytes_per_image: usize,
    offset: usize,
}

/// Memory and calls of one session.
pub(super) struct Submission {
    pub(super) stream: Arc<Stream>,
    events: [Event; 5],
    pub(super) done: Event,
    /// The kernel, if the tensor is computed from images.
    preprocess: Option<Preprocess>,
    pub(super) staging: StagingBuffers,
    /// Copy of the slots, for a GPU that does not read host memory directly.
    staging_copy: Option<DeviceBuffer>,
    input: Tensor,
    constants: Vec<Tensor>,
    outputs: Vec<Output>,
    results: PinnedBuffer,
}

impl Submission {
    /// Allocates everything that runs of `plan` in `stream` need.
    pub(super) fn new(stream: Arc<Stream>, plan: &Plan) -> Result<Self, SessionError> {
        let device = stream.device();
        let tensor = |name: &str, bytes_per_picture: usize| -> Result<Tensor, CudaError> {
            Ok(Tensor {
                name: name.to_owned(),
                memory: DeviceBuffer::new(device, bytes_per_picture * plan.batch)?,
            })
        };
        let input = tensor(&plan.input.name, plan.input.source.bytes_per_image())?;
        let (preprocess, slots_copy, slots) = match plan.input.source {
            InputSource::Images { pixels, tensor } => {
                let layout = StagingBuffers::images_len(pixels, &tensor, plan.batch);
                let memory = PinnedBuffer::new(device, layout)?;
                let copy = match device.is_integrated() {
                    true => None,
                    false => Some(DeviceBuffer::new(device, layout)?),
                };
                let base = copy
                    .as_ref()
                    .map_or(memory.address(), DeviceBuffer::address);
                (
                    Some(Preprocess::new(device, pixels, &tensor)?),
                    copy,
                    StagingBuffers::for_images(memory, base, pixels, &tensor, plan.batch),
                )
            }
            InputSource::Tensor {
                bytes_per_image: bytes_per_picture,
            } => {
                let memory = PinnedBuffer::new(device, bytes_per_picture * plan.batch)?;
                (
                    None,
                    None,
                    StagingBuffers::for_tensors(memory, bytes_per_picture, plan.batch),
                )
            }
        };
        let mut constants = Vec::with_capacity(plan.constants.len());
        for constant in &plan.constants {
            let mut tensor = tensor(&constant.name, constant.bytes.len())?;
            stream.upload(&constant.bytes.repeat(plan.batch), &mut tensor.memory)?;
            constants.push(tensor);
        }
        let mut outputs = Vec::with_capacity(plan.outputs.len());
        let mut offset = 0;
        for output in &plan.outputs {
            outputs.push(Output {
                tensor: tensor(&output.name, output.bytes_per_image)?,
                bytes_per_image: output.bytes_per_image,
                offset,
            });
            offset += (output.bytes_per_image * plan.batch).next_multiple_of(256);
        }
        let mark = || Event::new(device, EventKind::Timing);
        Ok(Self {
            events: [mark()?, mark()?, mark()?, mark()?, mark()?],
            done: Event::new(device, EventKind::Wait)?,
            preprocess,
            staging: slots,
            staging_copy: slots_copy,
            input,
            constants,
            outputs,
            results: PinnedBuffer::new(device, offset)?,
            stream: Arc::clone(&stream),
        })
    }

    /// Names and addresses of the network's tensors.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (&str, u64)> {
        let outputs = self.outputs.iter().map(|output| &output.tensor);
        std::iter::once(&self.input)
            .chain(&self.constants)
            .chain(outputs)
            .map(|tensor| (tensor.name.as_str(), tensor.memory.address()))
    }

    /// Number of outputs.
    pub(super) fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Output `index` of the first `count` images.
    ///
    /// # Panics
    /// When there is no such output.
    pub(super) fn output(&self, index: usize, count: usize) -> &[u8] {
        let output = &self.outputs[index];
        &self.results.as_slice()[output.offset..][..count * output.bytes_per_image]
    }

    /// Enqueues one run of `count` images, at most the plan's batch.
    ///
    /// # Safety
    /// Until the stream has passed it, and at each launch of a graph in which it is captured: `self` and `network` are alive,
    /// nothing writes the slots or reads the results, and no other run is in the stream.
    pub(super) unsafe fn enqueue(
        &self,
        network: &mut dyn Enqueue,
        count: usize,
        timing: TimingEvents,
    ) -> Result<(), SessionError> {
        let mark = |index: usize| match timing {
            TimingEvents::All => self.events[index].record(&self.stream),
            TimingEvents::AllInGraph => {
                self.events[index].record_as(&self.stream, Recording::InGraph)
            }
            TimingEvents::Ends | TimingEvents::None => Ok(()),
        };
        mark(0)?;
        // SAFETY: both buffers hold the slots of the plan's batch; the caller leaves them unchanged.
        unsafe { self.copy_in(count) }?;
        mark(1)?;
        if let Some(preprocess) = &self.preprocess {
            // The image entries of the batch are at the start of the slots' memory.
            let images = self
                .staging_copy
                .as_ref()
                .map_or(self.staging.address(), DeviceBuffer::address);
            let tensor = self.input.memory.address();
            // SAFETY: entries and pixels are in that memory, which `staging` keeps valid, and the tensor has space for the
            // plan's batch; the caller leaves both unchanged.
            unsafe { preprocess.enqueue(&self.stream, images, tensor, count) }?;
        }
        mark(2)?;
        // SAFETY: the stream is alive; the tensors' addresses were set to memory of `self`, which nothing else uses.
        unsafe { network.enqueue(self.stream.raw()) }.map_err(|reason| SessionError::Network {
            doing: format!("run a batch of {count}"),
            reason,
        })?;
        mark(3)?;
        for output in &self.outputs {
            let to = self.results.address() + output.offset as u64;
            let from = output.tensor.memory.address();
            // SAFETY: both ranges have space for the plan's batch; the caller ensures that nothing else uses them.
            unsafe { self.stream.copy(to, from, count * output.bytes_per_image) }?;
        }
        Ok(mark(4)?)
    }

    /// Records the event before the launch of a graph.
    pub(super) fn record_begin(&self, timing: TimingEvents) -> Result<(), CudaError> {
        self.record_around(timing, 0)
    }

    /// Records the event after the launch of a graph.
    pub(super) fn record_end(&self, timing: TimingEvents) -> Result<(), CudaError> {
        self.record_around(timing, 4)
    }

    fn record_around(&self, timing: TimingEvents, index: usize) -> Result<(), CudaError> {
        if timing == TimingEvents::Ends {
            self.events[index].record(&self.stream)?;
        }
        Ok(())
    }

    /// Times of the last run, which recorded `timing` and is done.
    pub(super) fn times(&self, timing: TimingEvents) -> Result<GpuTimes, CudaError> {
        let [begin, copied, made, ran, end] = &self.events;
        let stages = match timing {
            TimingEvents::Ends | TimingEvents::None => None,
            TimingEvents::All | TimingEvents::AllInGraph => Some(StageTimes {
                copy_in: copied.since(begin)?,
                preprocess: made.since(copied)?,
                network: ran.since(made)?,
                copy_out: end.since(ran)?,
            }),
        };
        Ok(GpuTimes {
            total: end.since(begin)?,
            stages,
        })
    }

    /// # Safety
    /// Those of [`enqueue`](Self::enqueue).
    unsafe fn copy_in(&self, count: usize) -> Result<(), CudaError> {
        let to = match (&self.staging_copy, &self.preprocess) {
            (Some(copy), _) => copy.address(),
            (None, None) => self.input.memory.address(),
            (None, Some(_)) => return Ok(()),
        };
        // SAFETY: both ranges hold the slots of the plan's batch; the caller ensures that nothing else uses them.
        unsafe {
            self.stream
                .copy(to, self.staging.address(), self.staging.bytes(count))
        }
    }
}
