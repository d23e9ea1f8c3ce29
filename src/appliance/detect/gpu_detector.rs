// SPDX-License-Identifier: Apache-2.0
//! The detector of networks on an NVIDIA GPU: images uploaded unchanged, one kernel for the tensor, the network, its outputs.
//!
//! The network is a TensorRT engine ([`tensorrt`](super::tensorrt)) or runs in ONNX Runtime's CUDA provider
//! ([`onnx_cuda`](super::onnx)); the execution is the same. Each worker has its own.

use std::sync::Arc;
use std::time::Duration;

use super::decoders::{DType, TensorView};
use super::layouts::keys::MAX_TENSORS;
use super::model::InputSpec;
use super::postprocess::{Postprocessor, run_chunked};
use super::{DetectError, Detector, check_size};
use jetwatch_nvidia::session::{GpuTimes, InferenceSession, LetterboxRect};
use jetwatch_nvidia::surface::Surface;
use jetwatch_telemetry::{Recorder, Stage};
use jetwatch_types::{Detection, Frame, Letterbox};

/// Runs one worker's execution.
pub struct GpuDetector {
    execution: InferenceSession,
    /// Types of the outputs in the layout's order.
    kinds: Vec<DType>,
    postprocessor: Postprocessor,
    /// Letterboxes of the frames of the current run.
    letterboxes: Vec<Letterbox>,
    input: InputSpec,
    slots: usize,
    batch_size: usize,
    recorder: Recorder,
}

impl GpuDetector {
    /// For batches of at most `batch_size` frames. `kinds` has the types of the outputs in the layout's order.
    pub(super) fn new(
        execution: InferenceSession,
        kinds: Vec<DType>,
        postprocessor: Postprocessor,
        input: InputSpec,
        batch_size: usize,
        recorder: Recorder,
    ) -> Self {
        let slots = execution.batch();
        Self {
            execution,
            kinds,
            postprocessor,
            letterboxes: Vec::with_capacity(slots),
            input,
            slots,
            batch_size,
            recorder,
        }
    }

    /// Maximum number of frames in one run of the network.
    pub(crate) fn frames_per_run(&self) -> usize {
        self.slots
    }

    /// Runs the network once for at most `slots` frames.
    fn run(&mut self, frames: &[Frame], results: &mut [Vec<Detection>]) -> Result<(), DetectError> {
        let Self {
            execution,
            kinds,
            postprocessor,
            letterboxes,
            input,
            recorder,
            ..
        } = self;
        letterboxes.clear();
        {
            let _range = recorder.range(Stage::Tensor, frames.len());
            for (index, frame) in frames.iter().enumerate() {
                letterboxes.push(write(input, execution, index, frame)?);
            }
        }
        {
            let _range = recorder.range(Stage::Infer, frames.len());
            let times = execution.run(frames.len())?;
            record(recorder, frames.len(), &times);
        }
        let _range = recorder.range(Stage::Decode, frames.len());
        let outputs = outputs_of(execution, kinds);
        postprocessor.process(frames, letterboxes, &outputs[..kinds.len()], results)
    }
}

impl Detector for GpuDetector {
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError> {
        let (max_frames, slots) = (self.batch_size, self.slots);
        self.postprocessor.begin_batch();
        run_chunked(batch, results, max_frames, slots, |frames, results| {
            self.run(frames, results)
        })
    }

    fn embeddings(&self) -> &[Arc<[f32]>] {
        self.postprocessor.embeddings()
    }
}

/// The outputs of the last run, of which the first are of these `kinds`.
pub(super) fn outputs_of<'e>(
    execution: &'e InferenceSession,
    kinds: &[DType],
) -> [TensorView<'e>; MAX_TENSORS] {
    let mut outputs = [TensorView::F32(&[]); MAX_TENSORS];
    for (index, (output, kind)) in outputs.iter_mut().zip(kinds).enumerate() {
        *output = match kind {
            DType::F32 => TensorView::F32(execution.output_f32(index)),
            DType::I32 => TensorView::I32(execution.output_i32(index)),
            DType::I64 => TensorView::I64(execution.output_i64(index)),
        };
    }
    outputs
}

/// Uploads a frame's image into slot `index`, or binds it in place, and returns its letterbox in the tensor.
pub(super) fn write(
    input: &InputSpec,
    execution: &mut InferenceSession,
    index: usize,
    frame: &Frame,
) -> Result<Letterbox, DetectError> {
    let letterbox = check_size(frame, input.size, input.placement)?;
    let inner = LetterboxRect {
        width: letterbox.inner.width,
        height: letterbox.inner.height,
        left: letterbox.left,
        top: letterbox.top,
    };
    match frame.image.handle::<Surface>() {
        Some(surface) => execution.bind_surface(index, inner, surface.clone())?,
        None => execution.upload_image(index, inner, |row| frame.image.row(row))?,
    }
    Ok(letterbox)
}

/// Records the GPU times of a run of `count` frames.
fn record(recorder: &Recorder, count: usize, times: &GpuTimes) {
    let Some(stages) = &times.stages else { return };
    let stages: [(Stage, Duration); 4] = [
        (Stage::GpuCopyIn, stages.copy_in),
        (Stage::GpuTensor, stages.preprocess),
        (Stage::GpuNetwork, stages.network),
        (Stage::GpuCopyOut, stages.copy_out),
    ];
    for (stage, time) in stages {
        recorder.record(stage, count, time);
    }
}
