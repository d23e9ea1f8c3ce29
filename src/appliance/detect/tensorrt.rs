// SPDX-License-Identifier: Apache-2.0
//! The TensorRT detector: one engine for all workers, one execution with its own stream and memory per worker.
//!
//! [`TensorRtModel`] is shared by all workers: `model.yaml`, engine, GPU. Images are uploaded unchanged; on the GPU one
//! kernel writes the input tensor. Engines come from [`engines`].

mod engine_io;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::decode::DecodeParams;
use super::decoders::{DType, OutputDecoder};
use super::engines::{self, EngineCache, EngineSpec, EngineState, Gpu};
use super::gpu_detector::{self, GpuDetector};
use super::model::ModelSpec;
use super::ort_session::RunShape;
use super::postprocess::Postprocessor;
use super::signature::{self, BatchAxis};
use super::{DetectError, LayerProfile, gpu_plan, layer_profile, self_check};
use jetwatch_config::DetectorConfig;
use jetwatch_nvidia::cuda::Device;
use jetwatch_nvidia::session::{InferenceSession, LetterboxRect, Plan};
use jetwatch_nvidia::surface::{SurfaceError, SurfaceReader};
use jetwatch_nvidia::tensorrt::{self, Engine, Runtime, TensorMode};
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Frame, PIXEL_BYTES};

use engine_io::{max_batch, output_shapes, sizes_bytes, tensors_of};

/// An engine that fits a model, and the GPU to run it.
pub struct TensorRtModel {
    spec: ModelSpec,
    precision: String,
    /// Maximum number of frames in one batch of a caller.
    batch_size: usize,
    batch_axis: BatchAxis,
    /// Maximum number of frames in one run.
    slots: usize,
    engine: Arc<Engine>,
    device: Arc<Device>,
    /// The DLA core that runs the engine; `None`: the GPU.
    dla: Option<u32>,
    plan: Plan,
    /// Types and shapes of the outputs of a run of all slots, in the layout's order.
    shapes: Vec<RunShape>,
    /// The engine, for messages.
    path: PathBuf,
    /// Executions that no worker has taken yet.
    ready: Mutex<Vec<InferenceSession>>,
}

/// The bytes of an engine, with its properties.
#[derive(Debug, Clone, Copy)]
pub struct EngineFile<'e> {
    /// Its path, for messages.
    pub path: &'e Path,
    /// The plan, as TensorRT serialized it.
    pub plan: &'e [u8],
    /// The precision that it was built in.
    pub precision: &'e str,
    /// The DLA core that it runs on.
    pub dla: Option<u32>,
}

impl TensorRtModel {
    /// Opens TensorRT and the GPU. Loads the configured engine of `spec` from the engine cache, or builds it there if
    /// `detector.tensorrt.build` allows it. `notify` receives each state. A build blocks for minutes.
    ///
    /// # Errors
    /// TensorRT or the GPU cannot be used, there is no engine, or the engine does not match `model.yaml`.
    pub fn load(
        spec: ModelSpec,
        config: &DetectorConfig,
        notify: &dyn Fn(EngineState),
    ) -> Result<Self, DetectError> {
        // The library first: without it there is no use for the driver, which takes 4 MiB of memory once it is opened.
        let library = engines::open_library(config.tensorrt.library.as_deref())?;
        let device = engines::device()?;
        let engine_spec = EngineSpec::new(config, &spec, &library, Gpu::from_device(&device))?;
        let settings = &config.tensorrt;
        let cache = EngineCache::new(&settings.engines);
        let plan = engines::find_or_build(
            &cache,
            &engine_spec,
            settings.build,
            &library,
            &device,
            notify,
        )?;
        let path = cache.path_of(&engine_spec);
        let file = EngineFile {
            path: &path,
            plan: &plan,
            precision: engine_spec.precision_name(),
            dla: engine_spec.dla,
        };
        let (batch, workers) = (config.batch_size, config.workers);
        Self::open(spec, &file, &library, &device, batch, workers)
    }

    /// Opens the engine, compares its tensors with `spec`, creates an execution for each of `workers`, and runs each once, so
    /// that every mismatch is found and the first frame is as fast as the others.
    ///
    /// # Errors
    /// The GPU or the engine cannot be used, or its tensors do not match `model.yaml`.
    pub fn open(
        spec: ModelSpec,
        file: &EngineFile<'_>,
        library: &Arc<tensorrt::Library>,
        device: &Arc<Device>,
        batch_size: usize,
        workers: usize,
    ) -> Result<Self, DetectError> {
        device.make_current()?;
        let engine = Runtime::new(library, file.dla)?.deserialize(file.plan)?;
        let batch_size = batch_size.max(1);
        let (inputs, outputs) = (
            tensors_of(&engine, TensorMode::Input, &spec),
            tensors_of(&engine, TensorMode::Output, &spec),
        );
        let batch_axis = signature::check_signature(&spec, file.path, &inputs, &outputs)?;
        batch_axis.refuse_fixed(&spec, file.path)?;
        let slots = match batch_axis {
            BatchAxis::Dynamic => batch_size.min(max_batch(&engine, &spec)),
            BatchAxis::One | BatchAxis::Fixed(_) => 1,
        };
        let shapes = output_shapes(&engine, &spec, file.path, slots)?;
        // Created once here, so that an unsupported output is reported before memory is allocated.
        signature::create_decoder(&spec, file.path, &shapes, slots)?;
        let model = Self {
            plan: gpu_plan::image_plan(&spec, sizes_bytes(&engine, &spec), &shapes, slots),
            spec,
            precision: file.precision.to_owned(),
            batch_size,
            batch_axis,
            slots,
            engine,
            device: Arc::clone(device),
            dla: file.dla,
            shapes,
            path: file.path.to_owned(),
            ready: Mutex::default(),
        };
        for _ in 0..workers {
            let execution = model.execution()?;
            model.ready().push(execution);
        }
        model.check_boxes()?;
        Ok(model)
    }

    /// Runs the engine on a made-up image, and refuses boxes that its layout does not allow.
    fn check_boxes(&self) -> Result<(), DetectError> {
        let decoder = self.create_decoder()?;
        self_check::check_network(&self.spec, &self.path, |all, candidates| {
            let size = self.spec.input.size;
            let image = self_check::image_of(size);
            let row_len = size.width as usize * PIXEL_BYTES;
            let whole = LetterboxRect {
                width: size.width,
                height: size.height,
                left: 0,
                top: 0,
            };
            let mut execution = self.acquire()?;
            execution.upload_image(0, whole, |row| {
                let first = row as usize * row_len;
                &image[first..first + row_len]
            })?;
            execution.run(1)?;
            let kinds: Vec<DType> = self.shapes.iter().map(|shape| shape.element).collect();
            let outputs = gpu_detector::outputs_of(&execution, &kinds);
            let decoded = decoder.decode(&outputs[..kinds.len()], 0.0, all, candidates);
            self.ready().push(execution);
            Ok(decoded)
        })
    }

    fn ready(&self) -> MutexGuard<'_, Vec<InferenceSession>> {
        self.ready.lock()
    }

    /// The contents of `model.yaml`.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The precision in use.
    pub fn precision(&self) -> &str {
        &self.precision
    }

    /// The GPU's name, with the DLA core that runs the engine.
    #[must_use]
    pub fn runs_on(&self) -> String {
        let gpu = self.device.name();
        match self.dla {
            Some(core) => format!("{gpu}, DLA {core}"),
            None => gpu.to_owned(),
        }
    }

    /// Maximum number of frames in one run of the engine.
    pub(crate) fn frames_per_run(&self) -> usize {
        self.slots
    }

    /// Whether the network takes one frame at a time, whatever the engine was built for.
    pub fn runs_single_frames(&self) -> bool {
        self.batch_axis == BatchAxis::One
    }

    /// Reader with which sources pass NVMM images without a copy. `release` is the major number of the L4T release.
    ///
    /// # Errors
    /// NVMM images cannot be read in place and must be copied.
    pub fn surfaces(&self, release: Option<u32>) -> Result<Arc<SurfaceReader>, SurfaceError> {
        SurfaceReader::open(release, &self.device).map(Arc::new)
    }

    /// Takes an execution. Beyond the number of workers that the model was opened for, another one is created.
    ///
    /// # Errors
    /// Another execution cannot be created.
    pub fn detector(
        &self,
        params: DecodeParams,
        recorder: Recorder,
    ) -> Result<GpuDetector, DetectError> {
        let execution = self.acquire()?;
        let output_decoder = self.create_decoder()?;
        let kinds = self.shapes.iter().map(|shape| shape.element).collect();
        let postprocessor = Postprocessor::new(&self.spec, output_decoder, params);
        let input = self.spec.input.clone();
        let batch_size = self.batch_size;
        Ok(GpuDetector::new(
            execution,
            kinds,
            postprocessor,
            input,
            batch_size,
            recorder,
        ))
    }

    fn create_decoder(&self) -> Result<Box<dyn OutputDecoder>, DetectError> {
        signature::create_decoder(&self.spec, &self.path, &self.shapes, self.slots)
    }

    /// Runs the engine `runs` times on single `frames`, repeated as needed, and measures each layer. The result is in the
    /// order of execution; times are sums over all runs.
    ///
    /// # Errors
    /// A frame has the wrong size, or the GPU fails.
    pub fn layer_times(
        &self,
        frames: &[Frame],
        runs: usize,
    ) -> Result<Vec<LayerProfile>, DetectError> {
        let mut execution = self.acquire()?;
        execution.measure_layers()?;
        for frame in frames.iter().cycle().take(runs) {
            gpu_detector::write(&self.spec.input, &mut execution, 0, frame)?;
            execution.run(1)?;
        }
        let inspected = self.engine.inspect().map_err(|error| {
            log::info!("precision and device of the layers are unknown: {error}");
        });
        let inspected = inspected.ok();
        Ok(layer_profile::of_engine(
            execution.layer_times(),
            inspected.as_deref(),
        ))
    }

    /// An execution that is ready, else a new one.
    fn acquire(&self) -> Result<InferenceSession, DetectError> {
        let ready = self.ready().pop();
        ready.map_or_else(|| self.execution(), Ok)
    }

    /// Makes an execution and runs it on padding, full and with a single image: the GPU then knows both.
    fn execution(&self) -> Result<InferenceSession, DetectError> {
        let mut execution = self.engine.session(&self.device, &self.plan)?;
        if is_profiled()
            && let Err(error) = execution.enable_layer_ranges()
        {
            log::info!("profiling without NVTX ranges per layer: {error}");
        }
        for count in [self.slots, 1] {
            execution.run(count)?;
        }
        Ok(execution)
    }
}

/// Whether an NVIDIA profiler receives NVTX ranges: it sets the path of its library before the process starts.
fn is_profiled() -> bool {
    let names = ["NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH"];
    names.iter().any(|name| std::env::var_os(name).is_some())
}
