// SPDX-License-Identifier: Apache-2.0
//! The ONNX Runtime detector: one session per worker, on the CPU or with the CUDA provider.
//!
//! [`OnnxModel`] is shared by all workers: `model.yaml`, file, environment of the process. Each worker's
//! [`OnnxDetector`] has its own `OrtSession` with its own threads and memory. The library is found and opened
//! by [`ort_library`].

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ort::environment::Environment;
use ort::value::{Outlet, TensorElementType, ValueType};
use parking_lot::{Mutex, MutexGuard};

use super::decode::DecodeParams;
use super::decoders::{DType, OutputDecoder, TensorView};
use super::gpu_detector::GpuDetector;
use super::model::{InputSpec, ModelFile, ModelSpec};
use super::onnx_cuda::CudaModel;
use super::ort_session::{self, OrtSession, Provider};
use super::postprocess::{Postprocessor, run_chunked};
use super::self_check;
use super::shared_model::SharedModel;
use super::signature::{self, BatchAxis, Element, TensorInfo};
use super::{DetectError, Detector, LayerProfile, check_size, graph, layer_profile, ort_library};
use jetwatch_config::OnnxProvider;
use jetwatch_nvidia::cuda::Device;
use jetwatch_pixels::TensorWriter;
use jetwatch_telemetry::{Recorder, Stage};
use jetwatch_types::{Detection, Frame, Letterbox};

/// A verified network and the library to run it.
pub struct OnnxModel {
    spec: ModelSpec,
    file: ModelFile,
    library: PathBuf,
    environment: Environment,
    network: SharedModel,
    provider: Provider,
    settings: SessionSettings,
    /// Set when the network is opened for the first time.
    batch_axis: OnceLock<BatchAxis>,
    /// Set when everything around the network runs on the GPU, too; the sessions here are then unused.
    gpu: Option<CudaModel>,
    /// Open sessions that no worker has taken yet, with the decoders of their outputs.
    ready: Mutex<Vec<(OrtSession, Box<dyn OutputDecoder>)>>,
}

/// Runs before layers are measured: the first ones fill caches and pools.
const LAYER_WARMUP: usize = 5;

/// How one worker runs the network.
#[derive(Debug, Clone, Copy)]
pub struct SessionSettings {
    /// Threads of the network, at least 1, including that of the worker.
    pub threads: usize,
    /// Maximum number of frames in one run, at least 1.
    pub batch_size: usize,
    /// Execution provider of the layers.
    pub provider: OnnxProvider,
}

impl OnnxModel {
    /// Reads the file of `precision`, compares its hash, opens the library (`library`, or where [`ort_library::find`]
    /// finds one), optimizes the network, opens it `workers` times, and runs each once, so that every mismatch with `model.yaml` is
    /// found and the first frame is as fast as the others. Blocks for seconds.
    ///
    /// All sessions are opened one after the other on this thread: memory that the library frees while it opens one network
    /// is reused for the tensors and for the next network, instead of staying in the heap arena of each worker's thread.
    ///
    /// # Errors
    /// The file or the library cannot be used, the provider is not available, or the network does not match `model.yaml`.
    pub fn load(
        spec: ModelSpec,
        precision: Option<&str>,
        library: Option<&Path>,
        settings: SessionSettings,
        workers: usize,
    ) -> Result<Self, DetectError> {
        let file = spec.file(precision)?.clone();
        let bytes = file.read()?;
        let library = ort_library::find(library)?;
        let environment = ort_library::open(&library)?;
        let has_cuda = Provider::has_cuda();
        let wants_cuda = match settings.provider {
            OnnxProvider::Cpu => false,
            OnnxProvider::Cuda => true,
            // No warning without a GPU: the CPU is then the only choice.
            OnnxProvider::Auto => has_cuda && Device::count().is_ok(),
        };
        let model = |provider, network| Self {
            spec: spec.clone(),
            file: file.clone(),
            library: library.clone(),
            environment: environment.clone(),
            network,
            provider,
            settings,
            batch_axis: OnceLock::new(),
            gpu: None,
            ready: Mutex::default(),
        };
        if wants_cuda && (has_cuda || Device::open(0).is_ok_and(|device| device.is_double())) {
            let path = file.path.clone();
            match CudaModel::open(&environment, &spec, path, &bytes, &settings, workers) {
                Ok(gpu) => {
                    // The GPU's sessions read their own copies of the network.
                    let mut on_gpu = model(Provider::Cuda, SharedModel::unoptimized(Vec::new()));
                    on_gpu.batch_axis = OnceLock::from(gpu.batch_axis());
                    on_gpu.gpu = Some(gpu);
                    return Ok(on_gpu);
                }
                Err(reason) => log::info!(
                    "images are converted on the CPU and copied for every run of the CUDA provider: {reason}"
                ),
            }
        }
        if wants_cuda {
            let on_gpu = model(Provider::Cuda, SharedModel::unoptimized(bytes.clone()));
            match on_gpu.open_all(workers) {
                Ok(()) => return Ok(on_gpu),
                Err(DetectError::Load { reason, .. })
                    if settings.provider == OnnxProvider::Cuda =>
                {
                    return Err(DetectError::NoCudaProvider {
                        library,
                        has_cuda,
                        reason,
                    });
                }
                Err(error) if settings.provider == OnnxProvider::Cuda => return Err(error),
                Err(error) => log::warn!(
                    "ONNX Runtime cannot use the GPU, so the network runs on the CPU, which is slower; set \
                     detector.onnx_provider to cpu to silence this warning: {error}"
                ),
            }
        }
        let on_cpu = model(Provider::Cpu, SharedModel::new(&environment, bytes));
        on_cpu.open_all(workers)?;
        Ok(on_cpu)
    }

    fn open_all(&self, workers: usize) -> Result<(), DetectError> {
        for _ in 0..workers {
            let network = self.open(None)?;
            self.ready().push(network);
        }
        Ok(())
    }

    /// Execution provider of the layers: `cpu` or `cuda`.
    pub fn provider(&self) -> &'static str {
        match self.provider {
            Provider::Cpu => "cpu",
            Provider::Cuda => "cuda",
        }
    }

    fn ready(&self) -> MutexGuard<'_, Vec<(OrtSession, Box<dyn OutputDecoder>)>> {
        self.ready.lock()
    }

    /// The contents of `model.yaml`.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The precision in use.
    pub fn precision(&self) -> &str {
        &self.file.precision
    }

    /// Whether the network takes one frame at a time, whatever the batch size.
    pub fn runs_single_frames(&self) -> bool {
        self.batch_axis.get() == Some(&BatchAxis::One)
    }

    /// Takes an execution whose tensors stay on the GPU; `None` when the network does not run like that. Beyond the number of
    /// workers that the model was loaded for, another one is opened.
    pub fn gpu_detector(
        &self,
        params: &DecodeParams,
        recorder: &Recorder,
    ) -> Option<Result<GpuDetector, DetectError>> {
        let gpu = self.gpu.as_ref()?;
        let detector = gpu.detector(params.clone(), recorder.clone());
        Some(detector.map_err(|error| load_error(&self.file, &self.library, &error)))
    }

    /// Takes an open session. Beyond the number of workers that the model was loaded for, another one is opened.
    ///
    /// # Errors
    /// Another session cannot be opened.
    pub fn detector(
        &self,
        params: DecodeParams,
        recorder: Recorder,
    ) -> Result<OnnxDetector, DetectError> {
        let ready = self.ready().pop();
        let (network, output_decoder) = match ready {
            Some(network) => network,
            None => self.open(None)?,
        };
        let slots = network.slots();
        Ok(OnnxDetector {
            session: network,
            writer: TensorWriter::new(self.spec.input.format(), slots),
            postprocessor: Postprocessor::new(&self.spec, output_decoder, params),
            letterboxes: Vec::with_capacity(slots),
            input: self.spec.input.clone(),
            batch_size: self.settings.batch_size.max(1),
            recorder,
        })
    }

    /// Runs the network `runs` times on single `frames`, repeated as needed, in a session of its own that measures each layer.
    /// The result is in the order of execution; times are sums over all runs. The runtime writes its profile into `folder`, from
    /// which it is removed.
    ///
    /// # Errors
    /// A frame has the wrong size, the network fails, the folder is not writable, or the network runs on a GPU, where ONNX
    /// Runtime times launches, not layers.
    pub fn layer_times(
        &self,
        frames: &[Frame],
        runs: usize,
        folder: &Path,
    ) -> Result<Vec<LayerProfile>, DetectError> {
        let failed = |reason: String| DetectError::Layers { reason };
        if self.provider == Provider::Cuda {
            return Err(failed(
                "on a GPU, ONNX Runtime times the launch of a layer and not the layer; use --set detector.onnx_provider=cpu, or \
                 --set detector.backend=tensorrt"
                    .to_owned(),
            ));
        }
        let (mut network, _) = self.open(Some(&folder.join("profile")))?;
        let mut writer = TensorWriter::new(self.spec.input.format(), network.slots());
        for frame in frames.iter().cycle().take(LAYER_WARMUP + runs) {
            let letterbox = check_size(frame, self.spec.input.size, self.spec.input.placement)?;
            writer.write(0, network.slot(0), &frame.image, &letterbox);
            network
                .run(1, |_| ())
                .map_err(|error| infer_error(1, &error))?;
        }
        let file = network
            .end_profile()
            .map_err(|error| failed(error.to_string()))?;
        let trace = fs::read(&file).map_err(|error| {
            failed(format!(
                "cannot read its profile {}: {error}",
                file.display()
            ))
        })?;
        if let Err(error) = fs::remove_file(&file) {
            log::info!("cannot remove {}: {error}", file.display());
        }
        // The first run of all is that of `open`.
        layer_profile::of_trace(&trace, 1 + LAYER_WARMUP).map_err(failed)
    }

    /// Opens the network and runs it once on zeros to learn the shapes of its outputs: a network may
    /// leave axes undefined in its file.
    fn open(
        &self,
        profile: Option<&Path>,
    ) -> Result<(OrtSession, Box<dyn OutputDecoder>), DetectError> {
        let (spec, path) = (&self.spec, &self.file.path);
        let (provider, threads) = (self.provider, self.settings.threads);
        let environment = &self.environment;
        let session =
            ort_session::open_session(environment, provider, threads, self.network, profile)
                .map_err(|error| self.load_error(&error))?;
        let (inputs, outputs) = (tensors(session.inputs()), tensors(session.outputs()));
        let batch_axis = signature::check_signature(spec, path, &inputs, &outputs)?;
        let slots = match *self.batch_axis.get_or_init(|| batch_axis) {
            BatchAxis::Dynamic => self.settings.batch_size.max(1),
            BatchAxis::One => 1,
            BatchAxis::Fixed(images) => images,
        };
        let is_fixed = matches!(batch_axis, BatchAxis::Fixed(_));
        if is_fixed && slots > self.settings.batch_size && self.ready().is_empty() {
            log::warn!(
                "the network computes {slots} images in each run, however few there are: set detector.batch_size to {slots}, or export it \
                 for a batch of 1"
            );
        }
        let mut network = OrtSession::new(spec, session, provider, (slots, is_fixed))
            .map_err(|error| self.load_error(&error))?;
        let shapes = network
            .first_run()
            .map_err(|error| infer_error(slots, &error))?;
        let output_decoder = signature::create_decoder(spec, path, &shapes, slots)?;
        self.check_boxes(&mut network, output_decoder.as_ref())?;
        Ok((network, output_decoder))
    }

    /// Runs the network on a made-up image, and refuses boxes that its layout does not allow.
    fn check_boxes(
        &self,
        network: &mut OrtSession,
        output_decoder: &dyn OutputDecoder,
    ) -> Result<(), DetectError> {
        if !self.ready().is_empty() {
            return Ok(());
        }
        self_check::check_network(&self.spec, &self.file.path, |all, candidates| {
            self_check::write_image(network.slot(0), &self.spec.input.format());
            network
                .run(1, |outputs| {
                    output_decoder.decode(outputs, 0.0, all, candidates)
                })
                .map_err(|error| infer_error(1, &error))
        })
    }

    fn load_error(&self, error: &ort::Error) -> DetectError {
        load_error(&self.file, &self.library, error)
    }
}

/// Runs one worker's session.
pub struct OnnxDetector {
    session: OrtSession,
    writer: TensorWriter,
    postprocessor: Postprocessor,
    /// Letterboxes of the frames of the current run.
    letterboxes: Vec<Letterbox>,
    input: InputSpec,
    batch_size: usize,
    recorder: Recorder,
}

impl OnnxDetector {
    /// Maximum number of frames in one run of the network: 1 when its batch axis is fixed, whatever the batch size.
    pub(crate) fn frames_per_run(&self) -> usize {
        self.session.slots()
    }

    /// Runs the network once for at most `frames_per_run` frames.
    fn run(&mut self, frames: &[Frame], results: &mut [Vec<Detection>]) -> Result<(), DetectError> {
        let Self {
            session: network,
            writer,
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
                let letterbox = check_size(frame, input.size, input.placement)?;
                writer.write(index, network.slot(index), &frame.image, &letterbox);
                letterboxes.push(letterbox);
            }
        }
        let infer = recorder.range(Stage::Infer, frames.len());
        let read = |outputs: &[TensorView<'_>]| {
            drop(infer);
            let _range = recorder.range(Stage::Decode, frames.len());
            postprocessor.process(frames, letterboxes, outputs, results)
        };
        network
            .run(frames.len(), read)
            .map_err(|error| infer_error(frames.len(), &error))?
    }
}

impl Detector for OnnxDetector {
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError> {
        let (max_frames, slots) = (self.batch_size, self.session.slots());
        self.postprocessor.begin_batch();
        run_chunked(batch, results, max_frames, slots, |frames, results| {
            self.run(frames, results)
        })
    }

    fn embeddings(&self) -> &[Arc<[f32]>] {
        self.postprocessor.embeddings()
    }
}

fn load_error(file: &ModelFile, library: &Path, error: &dyn std::fmt::Display) -> DetectError {
    DetectError::Load {
        path: file.path.clone(),
        library: library.to_owned(),
        // The library's own error rarely helps; inspecting the file often does.
        reason: match graph::incompatibility(&file.path) {
            Some(why) => format!("{error}; {why}"),
            None => error.to_string(),
        },
    }
}

fn infer_error(batch: usize, error: &ort::Error) -> DetectError {
    DetectError::Infer {
        batch,
        reason: error.to_string(),
    }
}

/// The inputs or the outputs of the network as ONNX Runtime reports them.
pub(super) fn tensors(outlets: &[Outlet]) -> Vec<TensorInfo> {
    let element = |ty: &TensorElementType| match ty {
        TensorElementType::Float32 => Element::Supported(DType::F32),
        TensorElementType::Int32 => Element::Supported(DType::I32),
        TensorElementType::Int64 => Element::Supported(DType::I64),
        TensorElementType::Uint8 => Element::Uint8,
        other => Element::Other(other.to_string()),
    };
    let tensor = |dtype: &ValueType| match dtype {
        ValueType::Tensor { ty, shape, .. } => Some((element(ty), shape.to_vec())),
        _ => None,
    };
    outlets
        .iter()
        .map(|outlet| TensorInfo {
            name: outlet.name().to_owned(),
            tensor: tensor(outlet.dtype()),
        })
        .collect()
}
