// SPDX-License-Identifier: Apache-2.0
//! A network in ONNX Runtime's CUDA provider with everything around it on the GPU, too.
//!
//! Images are uploaded unchanged, one kernel writes the input tensor, the network reads and writes tensors that stay in
//! place, and a run is recorded as a CUDA graph: one launch from the copy of the images to the copy of the outputs. For that
//! each worker has a session of ONNX Runtime for some numbers of images, with fixed shapes; a run takes the smallest that
//! is large enough. A network that was exported for one image is written again for several, and compared with itself.
//!
//! Called by [`onnx`](super::onnx), which runs the network in the plain way when this is not possible. The execution is
//! [`jetwatch_nvidia::onnx`].

mod probe;

use std::path::PathBuf;
use std::sync::Arc;

use ort::environment::Environment;
use ort::value::TensorElementType;
use parking_lot::Mutex;

use super::decode::DecodeParams;
use super::decoders::DType;
use super::gpu_detector::GpuDetector;
use super::graph::{self, Malformed};
use super::model::{InputElement, ModelSpec};
use super::onnx::SessionSettings;
use super::ort_session::RunShape;
use super::postprocess::Postprocessor;
use super::signature::{self, BatchAxis};
use super::{DetectError, gpu_plan};
use jetwatch_nvidia::cuda::{CudaError, Device};
use jetwatch_nvidia::onnx::{OnnxNetwork, OnnxTensor, ProviderOptions};
use jetwatch_nvidia::session::{InferenceSession, LetterboxRect, Plan, SessionError};
use jetwatch_pixels::CHANNELS;
use jetwatch_telemetry::Recorder;
use jetwatch_types::PIXEL_BYTES;

use probe::{Probe, are_close, network_for, noise, run_sizes};

/// Why a network cannot run in this way.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotOnGpu {
    #[error("the number of rows of its outputs varies")]
    RowsVary,
    #[error("output `{0}` is {1}")]
    Output(String, TensorElementType),
    #[error("its file cannot be read: {} at byte {}", .0.what, .0.at)]
    File(Malformed),
    #[error(transparent)]
    Runtime(#[from] ort::Error),
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Execution(#[from] SessionError),
    #[error(transparent)]
    Mismatch(#[from] DetectError),
}

/// A network that runs on the GPU, and its executions that no worker has taken yet.
pub(super) struct CudaModel {
    spec: ModelSpec,
    path: PathBuf,
    device: Arc<Device>,
    environment: Environment,
    options: ProviderOptions,
    /// The network's file.
    bytes: Vec<u8>,
    /// Numbers of images of the sessions, ascending.
    sizes: Vec<usize>,
    tensors: Vec<OnnxTensor>,
    plan: Plan,
    /// Types and shapes of the outputs of a run of one image, in the layout's order.
    shapes: Vec<RunShape>,
    batch_axis: BatchAxis,
    batch_size: usize,
    ready: Mutex<Vec<InferenceSession>>,
}

impl CudaModel {
    /// Opens the network in `bytes`, the file at `path`, for `workers`, and runs each execution with every number of images.
    ///
    /// # Errors
    /// The GPU, the provider or the network do not allow it.
    pub(super) fn open(
        environment: &Environment,
        spec: &ModelSpec,
        path: PathBuf,
        bytes: &[u8],
        settings: &SessionSettings,
        workers: usize,
    ) -> Result<Self, NotOnGpu> {
        if spec.output.layout.rows_vary() {
            return Err(NotOnGpu::RowsVary);
        }
        let device = Device::open(0)?;
        let batch_size = settings.batch_size.max(1);
        let is_open = graph::has_open_batch(bytes, &spec.input.name).map_err(NotOnGpu::File)?;
        let mut probe = Probe {
            spec,
            path: &path,
            device: &device,
            environment,
            is_open,
            options: ProviderOptions {
                cpu_layers: false,
                threads: settings.threads,
            },
            bytes,
            sizes: run_sizes(batch_size),
        };
        let found = match probe.open() {
            Ok(found) => found,
            Err(NotOnGpu::Runtime(error)) => {
                log::debug!("some layers run on the CPU, so runs are not recorded: {error}");
                probe.options.cpu_layers = true;
                probe.open()?
            }
            Err(error) => return Err(error),
        };
        let (options, sizes) = (probe.options, probe.sizes);
        let slots = sizes.last().copied().unwrap_or(1);
        let input_sizes = gpu_plan::long_sizes(spec.input.size);
        let plan = Plan {
            batch: slots,
            ..gpu_plan::image_plan(spec, input_sizes, &found.shapes, 1)
        };
        let model = Self {
            tensors: tensors(spec, &found.shapes),
            spec: spec.clone(),
            path,
            device,
            environment: environment.clone(),
            options,
            bytes: bytes.to_vec(),
            sizes,
            plan,
            shapes: found.shapes,
            batch_axis: match is_open || slots > 1 {
                true => BatchAxis::Dynamic,
                false => BatchAxis::One,
            },
            batch_size,
            ready: Mutex::default(),
        };
        let mut first = Some(found.network);
        for _ in 0..workers {
            let execution = model.execution(first.take())?;
            model.ready.lock().push(execution);
        }
        Ok(model)
    }

    /// How many frames the network takes in one run.
    pub(super) fn batch_axis(&self) -> BatchAxis {
        self.batch_axis
    }

    /// Takes an execution. Beyond the number of workers that the model was opened for, another one is created.
    pub(super) fn detector(
        &self,
        params: DecodeParams,
        recorder: Recorder,
    ) -> Result<GpuDetector, NotOnGpu> {
        let ready = self.ready.lock().pop();
        let execution = ready.map_or_else(|| self.execution(None), Ok)?;
        let decoder = signature::create_decoder(&self.spec, &self.path, &self.shapes, 1)?;
        Ok(GpuDetector::new(
            execution,
            self.shapes.iter().map(|shape| shape.element).collect(),
            Postprocessor::new(&self.spec, decoder, params),
            self.spec.input.clone(),
            self.batch_size,
            recorder,
        ))
    }

    /// Makes an execution of `network`, or of a new one, and runs it with every number of images, twice: call by call, and
    /// as the graph that was recorded then.
    fn execution(&self, network: Option<OnnxNetwork>) -> Result<InferenceSession, NotOnGpu> {
        let network = match network {
            Some(network) => network,
            None => {
                let (device, options) = (&self.device, self.options);
                let mut network = OnnxNetwork::new(device, &self.environment, options)?;
                for slots in &self.sizes {
                    network.add(*slots, &network_for(&self.spec, &self.bytes, *slots)?)?;
                }
                network
            }
        };
        let mut execution = network.session(&self.plan, self.tensors.clone())?;
        self.write_noise(&mut execution)?;
        let sizes = self.sizes.iter().rev().copied();
        let mut outputs = Vec::new();
        for slots in sizes.clone() {
            execution.run(slots)?;
            outputs.push(self.outputs(&execution));
        }
        for (slots, expected) in sizes.zip(outputs) {
            if !execution.is_recorded(slots) {
                continue;
            }
            execution.run(slots)?;
            let is_same = |(found, expected): (&Vec<f32>, &Vec<f32>)| are_close(found, expected);
            if !self.outputs(&execution).iter().zip(&expected).all(is_same) {
                log::warn!(
                    "the network computes something else when it is recorded as a CUDA graph; it runs call by call, which costs \
                     more CPU time"
                );
                execution.stop_recording();
            }
        }
        log::debug!(
            model = self.spec.name.as_str(), images = self.plan.batch, recorded = execution.is_recorded(self.plan.batch);
            "opened the network with tensors that stay on the GPU"
        );
        Ok(execution)
    }

    /// Fills all slots with noise.
    fn write_noise(&self, execution: &mut InferenceSession) -> Result<(), SessionError> {
        let size = self.spec.input.size;
        let whole = LetterboxRect {
            width: size.width,
            height: size.height,
            left: 0,
            top: 0,
        };
        let pitch = size.width as usize * PIXEL_BYTES;
        for index in 0..self.plan.batch {
            let pixels = noise(pitch * size.height as usize, index);
            execution.upload_image(index, whole, |row| &pixels[row as usize * pitch..])?;
        }
        Ok(())
    }

    /// The floats of each output of the last run.
    fn outputs(&self, execution: &InferenceSession) -> Vec<Vec<f32>> {
        let floats = |(index, shape): (usize, &RunShape)| match shape.element {
            DType::F32 => execution.output_f32(index).to_vec(),
            DType::I32 | DType::I64 => Vec::new(),
        };
        self.shapes.iter().enumerate().map(floats).collect()
    }
}

/// All tensors that are bound, with the shapes of one image.
fn tensors(spec: &ModelSpec, shapes: &[RunShape]) -> Vec<OnnxTensor> {
    let size = spec.input.size;
    let input = |name: &String, element, axes: Vec<i64>| OnnxTensor {
        name: name.clone(),
        element,
        axes,
        is_input: true,
    };
    let element = match spec.input.element {
        InputElement::Float32 => TensorElementType::Float32,
        InputElement::Uint8 => TensorElementType::Uint8,
    };
    let axes = vec![
        CHANNELS as i64,
        i64::from(size.height),
        i64::from(size.width),
    ];
    let mut tensors = vec![input(&spec.input.name, element, axes)];
    if let Some(name) = &spec.input.sizes_name {
        tensors.push(input(name, TensorElementType::Int64, vec![2]));
    }
    if let Some(name) = &spec.input.scales_name {
        tensors.push(input(name, TensorElementType::Float32, vec![2]));
    }
    for (name, shape) in spec.output.tensors.iter().zip(shapes) {
        tensors.push(OnnxTensor {
            name: name.clone(),
            element: match shape.element {
                DType::F32 => TensorElementType::Float32,
                DType::I32 => TensorElementType::Int32,
                DType::I64 => TensorElementType::Int64,
            },
            axes: shape.axes[1..].iter().map(|axis| *axis as i64).collect(),
            is_input: false,
        });
    }
    tensors
}
