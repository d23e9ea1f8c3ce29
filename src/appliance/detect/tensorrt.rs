//! The TensorRT detector: one engine for all workers, one execution with its own stream and memory for each.
//!
//! [`TensorRtModel`] is what all workers share: description, engine, GPU. Images go to the GPU as they are; there one
//! kernel makes the input tensor of them. Engines come from [`engines`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::decode::DecodeParams;
use super::decoders::{DType, OutputDecoder, TensorView};
use super::engines::{self, EngineCache, EngineSpec, EngineState, Gpu};
use super::model::{ColorOrder, InputElement, InputSpec, ModelSpec};
use super::ort_session::RunShape;
use super::reading::{Postprocessor, run_chunked};
use super::signature::{self, BatchAxis, Element, TensorInfo};
use super::{DetectError, Detector, check_size};
use jetwatch_config::DetectorConfig;
use jetwatch_nvidia::cuda::{self, Device, PixelFormat, PlaneOrder, TensorFormat};
pub use jetwatch_nvidia::session::LayerTime;
use jetwatch_nvidia::session::{
    ConstantPlan, GpuTimes, InferenceSession, InputPlan, InputSource, LetterboxRect, OutputPlan,
    Plan,
};
use jetwatch_nvidia::surface::{Surface, SurfaceError, SurfaceReader};
use jetwatch_nvidia::tensorrt::{self, DataType, Engine, Runtime, TensorMode};
use jetwatch_telemetry::{Recorder, Stage};
use jetwatch_types::{Detection, Frame, Letterbox};

/// An engine that fits a model, and the GPU to run it.
pub struct TensorRtModel {
    spec: ModelSpec,
    precision: String,
    /// Most frames in one batch of a caller.
    batch_size: usize,
    batch_axis: BatchAxis,
    /// Most frames in one run.
    slots: usize,
    engine: Arc<Engine>,
    device: Arc<Device>,
    plan: Plan,
    /// What one run of all slots gives, in the layout's order.
    shapes: Vec<RunShape>,
    /// The engine, for messages.
    path: PathBuf,
    /// Executions that no worker has taken yet.
    ready: Mutex<Vec<InferenceSession>>,
}

/// An engine's bytes, and what is known of them.
#[derive(Debug, Clone, Copy)]
pub struct EngineFile<'e> {
    /// Where it lies, for messages.
    pub path: &'e Path,
    /// The plan, as TensorRT serialized it.
    pub plan: &'e [u8],
    /// The precision that it was built in.
    pub precision: &'e str,
    /// The DLA core that it runs on.
    pub dla: Option<u32>,
}

impl TensorRtModel {
    /// Opens TensorRT and the GPU, takes the engine of `model_spec` that `config` asks for out of the folder of engines, or builds it
    /// there if that is allowed, and opens it. `notify` is called at each step.
    pub fn load(
        spec: ModelSpec,
        config: &DetectorConfig,
        notify: &dyn Fn(EngineState),
    ) -> Result<Self, DetectError> {
        // The driver first: on most machines without TensorRT it is missing too, and found out sooner.
        let device = engines::device()?;
        let library = engines::open_library(config.tensorrt.library.as_deref())?;
        let recipe = EngineSpec::new(config, &spec, &library, Gpu::from_device(&device))?;
        let settings = &config.tensorrt;
        let cache = EngineCache::new(&settings.engines);
        let plan =
            engines::find_or_build(&cache, &recipe, settings.build, &library, &device, notify)?;
        let path = cache.path_of(&recipe);
        let file = EngineFile {
            path: &path,
            plan: &plan,
            precision: recipe.precision_name(),
            dla: recipe.dla,
        };
        let (batch, workers) = (config.batch_size, config.workers);
        Self::open(spec, &file, &library, &device, batch, workers)
    }

    /// Opens the engine, compares its tensors with `model_spec`, makes an execution for each of `workers`, and runs each once, so
    /// that every mismatch is found and the first frame is as fast as the others.
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
            side(&engine, TensorMode::Input, &spec),
            side(&engine, TensorMode::Output, &spec),
        );
        let batch_axis = signature::check_signature(&spec, file.path, &inputs, &outputs)?;
        let slots = match batch_axis {
            BatchAxis::Dynamic => batch_size.min(max_batch(&engine, &spec)),
            BatchAxis::One => 1,
        };
        let shapes = shapes(&engine, &spec, file.path, slots)?;
        // Made once here, so that an output that nothing can read is reported before memory is taken.
        signature::create_decoder(&spec, file.path, &shapes, slots)?;
        let model = Self {
            plan: plan(&engine, &spec, &shapes, slots),
            spec,
            precision: file.precision.to_owned(),
            batch_size,
            batch_axis,
            slots,
            engine,
            device: Arc::clone(device),
            shapes,
            path: file.path.to_owned(),
            ready: Mutex::default(),
        };
        for _ in 0..workers {
            let execution = model.execution()?;
            model.ready().push(execution);
        }
        Ok(model)
    }

    fn ready(&self) -> MutexGuard<'_, Vec<InferenceSession>> {
        self.ready.lock()
    }

    /// The contents of `model.yaml`.
    #[must_use]
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The precision in use.
    #[must_use]
    pub fn precision(&self) -> &str {
        &self.precision
    }

    /// The GPU's name.
    #[must_use]
    pub fn runs_on(&self) -> &str {
        self.device.name()
    }

    /// Most frames in one run of the engine.
    #[must_use]
    pub fn frames_per_run(&self) -> usize {
        self.slots
    }

    /// Whether the network takes one frame at a time, whatever the engine was built for.
    #[must_use]
    pub fn runs_single_frames(&self) -> bool {
        self.batch_axis == BatchAxis::One
    }

    /// Reader that lets sources pass on images in a Jetson's NVMM without a copy, for the L4T release with this major number;
    /// the error explains why images have to be copied.
    pub fn surfaces(&self, release: Option<u32>) -> Result<Arc<SurfaceReader>, SurfaceError> {
        SurfaceReader::open(release, &self.device).map(Arc::new)
    }

    /// Takes an execution. Beyond the number of workers that the model was opened for, one more is made.
    pub fn detector(
        &self,
        limits: DecodeParams,
        recorder: Recorder,
    ) -> Result<TensorRtDetector, DetectError> {
        let execution = self.acquire()?;
        let head = self.create_decoder()?;
        Ok(TensorRtDetector {
            execution,
            kinds: self.shapes.iter().map(|shape| shape.element).collect(),
            postprocessor: Postprocessor::new(&self.spec, head, limits),
            letterboxes: Vec::with_capacity(self.slots),
            input: self.spec.input.clone(),
            slots: self.slots,
            batch_size: self.batch_size,
            recorder,
        })
    }

    fn create_decoder(&self) -> Result<Box<dyn OutputDecoder>, DetectError> {
        signature::create_decoder(&self.spec, &self.path, &self.shapes, self.slots)
    }

    /// Shows `frames` to the engine one after the other, again and again until `runs` are done, and measures each of its
    /// layers: in the order in which they ran, their times over all runs.
    pub fn layer_times(
        &self,
        frames: &[Frame],
        runs: usize,
    ) -> Result<Vec<LayerTime>, DetectError> {
        let mut execution = self.acquire()?;
        execution.measure_layers()?;
        for frame in frames.iter().cycle().take(runs) {
            write(&self.spec.input, &mut execution, 0, frame)?;
            execution.run(1)?;
        }
        Ok(execution.layer_times())
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
            log::info!("the profile shows the network as a whole: {error}");
        }
        for count in [self.slots, 1] {
            execution.run(count)?;
        }
        Ok(execution)
    }
}

/// Runs one worker's execution.
pub struct TensorRtDetector {
    execution: InferenceSession,
    /// Types of the outputs in the layout's order.
    kinds: Vec<DType>,
    postprocessor: Postprocessor,
    /// How the frames of the current run lie in their slots.
    letterboxes: Vec<Letterbox>,
    input: InputSpec,
    slots: usize,
    batch_size: usize,
    recorder: Recorder,
}

impl TensorRtDetector {
    /// Runs the engine once for at most `slots` frames.
    fn run(&mut self, frames: &[Frame], results: &mut [Vec<Detection>]) -> Result<(), DetectError> {
        let Self {
            execution,
            kinds,
            postprocessor: reading,
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
        let mut outputs = [TensorView::F32(&[]); super::decoders::spec::MAX_TENSORS];
        let outputs = &mut outputs[..kinds.len()];
        for (index, (output, kind)) in outputs.iter_mut().zip(kinds.iter()).enumerate() {
            *output = match kind {
                DType::F32 => TensorView::F32(execution.output_f32(index)),
                DType::I32 => TensorView::I32(execution.output_i32(index)),
                DType::I64 => TensorView::I64(execution.output_i64(index)),
            };
        }
        reading.process(frames, letterboxes, outputs, results)
    }
}

impl Detector for TensorRtDetector {
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError> {
        let (most, slots) = (self.batch_size, self.slots);
        run_chunked(batch, results, most, slots, |frames, results| {
            self.run(frames, results)
        })
    }
}

/// Copies a frame's image into slot `index`, or has it read where it is, and returns its letterbox in the tensor.
fn write(
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

/// Whether a profiler of NVIDIA's listens to NVTX: it names its library before the process begins.
fn is_profiled() -> bool {
    let names = ["NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH"];
    names.iter().any(|name| std::env::var_os(name).is_some())
}

/// Counts the GPU's times of a run of `count` frames.
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

/// The engine's tensors of one side in the words of the check against `model.yaml`.
fn side(engine: &Engine, mode: TensorMode, spec: &ModelSpec) -> Vec<TensorInfo> {
    let of_mode = engine.tensors().filter(|info| info.mode == mode);
    of_mode
        .map(|info| {
            // TensorRT before version 10 has no 64-bit integers and takes 32-bit ones in their place.
            let is_sizes = Some(&info.name) == spec.input.sizes_name.as_ref();
            let element = match info.data_type {
                DataType::F32 => Element::Supported(DType::F32),
                DataType::I32 if is_sizes => Element::Supported(DType::I64),
                DataType::I32 => Element::Supported(DType::I32),
                DataType::I64 => Element::Supported(DType::I64),
                DataType::U8 => Element::Uint8,
                other => Element::Other(other.to_string()),
            };
            TensorInfo {
                name: info.name.clone(),
                tensor: Some((element, info.shape.clone())),
            }
        })
        .collect()
}

/// Most images that the engine takes in one run.
fn max_batch(engine: &Engine, spec: &ModelSpec) -> usize {
    let input = engine.tensors().find(|info| info.name == spec.input.name);
    let most = input
        .and_then(|info| info.profile.as_ref())
        .and_then(|[_, _, most]| most.first().copied());
    most.and_then(|most| usize::try_from(most).ok())
        .map_or(1, |most| most.max(1))
}

/// What a run of `slots` images gives for each output of the layout. Axes besides the batch must be known.
fn shapes(
    engine: &Engine,
    spec: &ModelSpec,
    path: &Path,
    slots: usize,
) -> Result<Vec<RunShape>, DetectError> {
    let of = |name: &String| {
        let info = engine.tensors().find(|info| info.name == *name);
        let found = info.map_or(&[][..], |info| info.shape.as_slice());
        let refuse = |expected: &str, advice: &str| DetectError::Tensor {
            path: path.to_owned(),
            tensor: format!("output `{name}`"),
            found: format!("{found:?}"),
            expected: expected.to_owned(),
            advice: advice.to_owned(),
        };
        let element = match info.map(|info| info.data_type) {
            Some(DataType::F32) => DType::F32,
            Some(DataType::I32) => DType::I32,
            Some(DataType::I64) => DType::I64,
            _ => {
                return Err(refuse(
                    "float32, int32 or int64",
                    "export the network with outputs in 32-bit floats",
                ));
            }
        };
        let axes = found.iter().enumerate().map(|(index, axis)| match axis {
            -1 if index == 0 => Some(slots),
            axis => usize::try_from(*axis).ok(),
        });
        let axes = axes.collect::<Option<Vec<usize>>>().ok_or_else(|| {
            refuse(
                "axes of known length behind that of the batch",
                "export the network with fixed shapes, or leave its non-maximum suppression out and choose the layout of what \
                 comes before it",
            )
        })?;
        Ok(RunShape { element, axes })
    };
    spec.output.tensors.iter().map(of).collect()
}

/// What an execution is made for.
fn plan(engine: &Engine, spec: &ModelSpec, shapes: &[RunShape], slots: usize) -> Plan {
    let InputSpec {
        name,
        element,
        size,
        color,
        mean,
        scale,
        padding,
        ..
    } = &spec.input;
    let tensor = TensorFormat {
        width: size.width,
        height: size.height,
        element: match element {
            InputElement::Float32 => cuda::Element::F32,
            InputElement::Uint8 => cuda::Element::U8,
        },
        order: match color {
            ColorOrder::Bgr => PlaneOrder::Bgr,
            ColorOrder::Rgb => PlaneOrder::Rgb,
        },
        mean: *mean,
        scale: *scale,
        padding: *padding,
    };
    let mut constants = Vec::new();
    if let Some(name) = &spec.input.sizes_name {
        let numbers = [size.width, size.height];
        let info = engine.tensors().find(|info| info.name == *name);
        let bytes = match info.map(|info| info.data_type) {
            Some(DataType::I32) => numbers.map(|number| number.to_ne_bytes()).concat(),
            _ => numbers
                .map(|number| i64::from(number).to_ne_bytes())
                .concat(),
        };
        let name = name.clone();
        constants.push(ConstantPlan { name, bytes });
    }
    if let Some(name) = &spec.input.scales_name {
        let bytes = [1.0_f32; 2].map(f32::to_ne_bytes).concat();
        let name = name.clone();
        constants.push(ConstantPlan { name, bytes });
    }
    let outputs = spec.output.tensors.iter().zip(shapes);
    Plan {
        input: InputPlan {
            name: name.clone(),
            source: InputSource::Images {
                pixels: PixelFormat::Bgrx,
                tensor,
            },
        },
        constants,
        outputs: outputs
            .map(|(name, shape)| OutputPlan {
                name: name.clone(),
                bytes_per_image: bytes_per_image(shape, slots),
            })
            .collect(),
        batch: slots,
        graphs: true,
    }
}

fn bytes_per_image(shape: &RunShape, slots: usize) -> usize {
    let bytes = match shape.element {
        DType::F32 | DType::I32 => 4,
        DType::I64 => 8,
    };
    shape.axes.iter().product::<usize>() / slots * bytes
}
