//! The ONNX Runtime detector: one session per worker on the CPU.
//!
//! [`OnnxModel`] is what all workers share: description, verified bytes, the process's environment. Each worker's
//! [`OnnxDetector`] has its own session with its own threads, input tensor and output tensor, all made once: a full
//! batch runs without an allocation. The library itself is found and opened by [`runtime`].

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort::environment::Environment;
use ort::ep;
use ort::memory::Allocator;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{HasSelectedOutputs, OutputSelector, RunOptions, Session};
use ort::value::{Outlet, Tensor, TensorElementType, TensorRef, ValueType};

use super::decode::{Decoder, Limits};
use super::model::{ModelFile, ModelSpec};
use super::network::{self, BatchAxis, Element, TensorInfo};
use super::tensor::{CHANNELS, TensorWriter};
use super::yolox::Decoded;
use super::{DetectError, Detector, fit, runtime};
use crate::telemetry::{Recorder, Stage};
use crate::types::{Detection, Frame, FrameMeta, Letterbox};

/// The session keeps its memory in a pool of its own and does not plan it from the first run: yolox_nano in two
/// sessions takes 79 MiB in this way, 87 with a plan, and 128 without the pool, since memory that comes from
/// and goes to the system at every run scatters. Processor times of paired runs differed by 1 to 4 % on a loaded
/// machine, which is not told apart from noise: the choice is made for memory alone.
const ARENA: bool = true;
/// See [`ARENA`].
const MEMORY_PATTERN: bool = false;

/// A verified network and the library to run it.
pub struct OnnxModel {
    spec: ModelSpec,
    file: ModelFile,
    library: PathBuf,
    environment: Environment,
    settings: SessionSettings,
    /// Sessions that no worker has taken yet.
    sessions: Mutex<Vec<Session>>,
}

/// How one worker runs the network.
#[derive(Debug, Clone, Copy)]
pub struct SessionSettings {
    /// Threads of the network, at least 1; the worker's own is one of them.
    pub threads: usize,
    /// Most frames in one run, at least 1.
    pub batch_size: usize,
}

impl OnnxModel {
    /// Reads the file of `precision`, compares its hash, opens the library (`library`, or where [`runtime::find`]
    /// finds one), and opens the network `workers` times.
    ///
    /// All sessions are opened here, one after the other on one thread, and handed to the workers later: what the
    /// library frees while it opens one is then used again for the next, instead of staying in every thread's own
    /// part of the heap.
    pub fn load(
        spec: ModelSpec,
        precision: Option<&str>,
        library: Option<&Path>,
        settings: SessionSettings,
        workers: usize,
    ) -> Result<Self, DetectError> {
        let file = spec.file(precision)?.clone();
        let bytes = file.read()?;
        let library = runtime::find(library)?;
        let environment = runtime::open(&library)?;
        let model = Self {
            spec,
            file,
            library,
            environment,
            settings,
            sessions: Mutex::default(),
        };
        for _ in 0..workers {
            let session = model.open(&bytes)?;
            model.sessions().push(session);
        }
        Ok(model)
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `model.yaml` says.
    #[must_use]
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The precision in use.
    #[must_use]
    pub fn precision(&self) -> &str {
        &self.file.precision
    }

    /// Takes a session and runs it once, so that the first frame is as fast as the others and every mismatch with
    /// `model.yaml` is found. To be called on the worker's own thread. Beyond the number of workers that the model
    /// was loaded for, the file is read and opened anew.
    pub fn detector(
        &self,
        limits: Limits,
        recorder: Recorder,
    ) -> Result<OnnxDetector, DetectError> {
        let ready = self.sessions().pop();
        let session = match ready {
            Some(session) => session,
            None => self.open(&self.file.read()?)?,
        };
        let settings = self.settings;
        let (inputs, outputs) = (tensors(session.inputs()), tensors(session.outputs()));
        let axis = network::check(&self.spec, &self.file.path, &inputs, &outputs)?;
        let batch_size = settings.batch_size.max(1);
        let slots = match axis {
            BatchAxis::Dynamic => batch_size,
            BatchAxis::One => 1,
        };
        let decoder = Decoder::new(&self.spec, limits);
        let network = Network::new(&self.spec, session, decoder.shape(), slots)
            .map_err(|error| self.load_error(&error))?;
        let mut detector = OnnxDetector {
            network,
            writer: TensorWriter::new(&self.spec.input, slots),
            decoder,
            letterboxes: Vec::with_capacity(slots),
            spec: self.spec.clone(),
            batch_size,
            recorder,
        };
        detector.try_out(&self.file.path)?;
        Ok(detector)
    }

    fn open(&self, bytes: &[u8]) -> Result<Session, DetectError> {
        self.session(bytes).map_err(|error| self.load_error(&error))
    }

    fn session(&self, bytes: &[u8]) -> ort::Result<Session> {
        let mut builder = Session::builder(&self.environment)?
            .with_optimization_level(GraphOptimizationLevel::All)?
            .with_intra_threads(self.settings.threads.max(1))?
            .with_inter_threads(1)?
            // Workers wait for frames much of the time; spinning would burn the cores that decode video.
            .with_intra_op_spinning(false)?
            .with_memory_pattern(MEMORY_PATTERN)?
            .with_execution_providers([ep::CPU::default().with_arena_allocator(ARENA).build()])?;
        builder.commit_from_memory(bytes)
    }

    fn load_error(&self, error: &ort::Error) -> DetectError {
        DetectError::Load {
            path: self.file.path.clone(),
            library: self.library.clone(),
            reason: error.to_string(),
        }
    }
}

/// A session with the memory of its tensors.
struct Network {
    session: Session,
    output_name: String,
    /// `[slots, 3, height, width]`, rewritten for every run.
    input: Tensor<f32>,
    /// For runs with all slots taken: they write to one output that was made once.
    full: RunOptions<HasSelectedOutputs>,
    /// For runs with fewer frames than slots, whose output has another shape: the runtime makes it.
    partial: RunOptions<HasSelectedOutputs>,
    slots: usize,
}

impl Network {
    fn new(
        spec: &ModelSpec,
        session: Session,
        [rows, row_len]: [usize; 2],
        slots: usize,
    ) -> ort::Result<Self> {
        let memory = Allocator::default();
        let size = spec.input.size;
        let shape = [slots, CHANNELS, size.height as usize, size.width as usize];
        let input = Tensor::<f32>::new(&memory, shape)?;
        let output = Tensor::<f32>::new(&memory, [slots, rows, row_len])?;
        let output_name = spec.output.name.clone();
        let select = || OutputSelector::no_default().with(output_name.as_str());
        let full =
            RunOptions::new()?.with_outputs(select().preallocate(output_name.as_str(), output));
        let partial = RunOptions::new()?.with_outputs(select());
        Ok(Self {
            session,
            output_name,
            input,
            full,
            partial,
            slots,
        })
    }

    /// The part of the input for frame `index` of a batch.
    fn slot(&mut self, index: usize) -> &mut [f32] {
        let (_, numbers) = self.input.extract_tensor_mut();
        let slot_len = numbers.len() / self.slots;
        &mut numbers[index * slot_len..][..slot_len]
    }

    /// Runs the network on zeros in all slots and gives the shape of the output.
    ///
    /// With the options of a partial run: those of a full one would fail on an unexpected shape, in words that name
    /// no file.
    fn shape_of_run(&mut self) -> ort::Result<Vec<i64>> {
        self.input.extract_tensor_mut().1.fill(0.0);
        let outputs = self
            .session
            .run_with_options(ort::inputs![&self.input], &self.partial)?;
        Ok(outputs[self.output_name.as_str()].shape().to_vec())
    }

    /// Runs the network on the first `count` slots and hands the numbers of the output to `take`.
    fn run<T>(&mut self, count: usize, take: impl FnOnce(&[f32]) -> T) -> ort::Result<T> {
        let Self {
            session,
            output_name,
            input,
            full,
            partial,
            slots,
        } = self;
        let outputs = if count == *slots {
            session.run_with_options(ort::inputs![&*input], full)?
        } else {
            let (shape, numbers) = input.extract_tensor();
            let slot_len = numbers.len() / *slots;
            let shape = [count as i64, shape[1], shape[2], shape[3]];
            let view = TensorRef::from_array_view((shape, &numbers[..count * slot_len]))?;
            session.run_with_options(ort::inputs![view], partial)?
        };
        let (_, numbers) = outputs[output_name.as_str()].try_extract_tensor::<f32>()?;
        Ok(take(numbers))
    }
}

/// Runs one worker's session.
pub struct OnnxDetector {
    network: Network,
    writer: TensorWriter,
    decoder: Decoder,
    /// How the frames of the current run lie in their slots.
    letterboxes: Vec<Letterbox>,
    spec: ModelSpec,
    batch_size: usize,
    recorder: Recorder,
}

impl OnnxDetector {
    /// Most frames in one run of the network: 1 when its batch axis is fixed, whatever the batch size.
    #[must_use]
    pub fn frames_per_run(&self) -> usize {
        self.network.slots
    }

    /// One run on empty pictures, whose output must have the shape that decoding relies on: a network may leave axes
    /// open in its description.
    fn try_out(&mut self, path: &Path) -> Result<(), DetectError> {
        let batch = self.network.slots;
        let shape = self
            .network
            .shape_of_run()
            .map_err(|error| infer_error(batch, &error))?;
        let [rows, row_len] = self.decoder.shape();
        network::check_run(&self.spec, path, &shape, [batch, rows, row_len])
    }

    /// Runs the network once for at most `frames_per_run` frames.
    fn run(&mut self, frames: &[Frame], results: &mut [Vec<Detection>]) -> Result<(), DetectError> {
        let Self {
            network,
            writer,
            decoder,
            letterboxes,
            spec,
            recorder,
            ..
        } = self;
        letterboxes.clear();
        {
            let _range = recorder.range(Stage::Tensor, frames.len());
            for (index, frame) in frames.iter().enumerate() {
                let letterbox = fit(frame, spec.input.size, spec.input.placement)?;
                writer.write(index, network.slot(index), &frame.picture, &letterbox);
                letterboxes.push(letterbox);
            }
        }
        let infer = recorder.range(Stage::Infer, frames.len());
        let decode = |output: &[f32]| {
            drop(infer);
            let _range = recorder.range(Stage::Decode, frames.len());
            let parts = output.chunks_exact(output.len() / frames.len());
            for (((part, frame), letterbox), detections) in
                parts.zip(frames).zip(letterboxes).zip(results)
            {
                let decoded = decoder.decode(part, letterbox, detections);
                sound(&decoded, part, &frame.meta, &spec.output.name)?;
            }
            Ok(())
        };
        network
            .run(frames.len(), decode)
            .map_err(|error| infer_error(frames.len(), &error))?
    }
}

impl Detector for OnnxDetector {
    fn detect(
        &mut self,
        batch: &[Frame],
        results: &mut Vec<Vec<Detection>>,
    ) -> Result<(), DetectError> {
        if batch.is_empty() || batch.len() > self.batch_size {
            return Err(DetectError::BatchSize {
                found: batch.len(),
                most: self.batch_size,
            });
        }
        results.resize_with(batch.len(), Vec::new);
        let slots = self.network.slots;
        for (frames, results) in batch.chunks(slots).zip(results.chunks_mut(slots)) {
            self.run(frames, results)?;
        }
        Ok(())
    }
}

/// Refuses an output that holds numbers which no sound network gives.
fn sound(
    decoded: &Decoded,
    output: &[f32],
    meta: &FrameMeta,
    tensor: &str,
) -> Result<(), DetectError> {
    let (source_id, seq) = (meta.source, meta.seq);
    if let Some(index) = decoded.first_non_finite {
        let (tensor, value) = (tensor.to_owned(), output[index]);
        return Err(DetectError::NotFinite {
            source_id,
            seq,
            tensor,
            index,
            value,
            rows: decoded.non_finite,
        });
    }
    if let Some(index) = decoded.first_beyond_one {
        let (tensor, value) = (tensor.to_owned(), output[index]);
        return Err(DetectError::BeyondOne {
            source_id,
            seq,
            tensor,
            index,
            value,
        });
    }
    Ok(())
}

fn infer_error(batch: usize, error: &ort::Error) -> DetectError {
    DetectError::Infer {
        batch,
        reason: error.to_string(),
    }
}

/// What the runtime says of the tensors on one side of the network.
fn tensors(outlets: &[Outlet]) -> Vec<TensorInfo> {
    let tensor = |dtype: &ValueType| match dtype {
        ValueType::Tensor {
            ty: TensorElementType::Float32,
            shape,
            ..
        } => Some((Element::Float32, shape.to_vec())),
        ValueType::Tensor { ty, shape, .. } => {
            Some((Element::Other(ty.to_string()), shape.to_vec()))
        }
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
