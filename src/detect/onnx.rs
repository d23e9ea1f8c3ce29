//! The ONNX Runtime detector: one session per worker on the CPU.
//!
//! [`OnnxModel`] is what all workers share: description, file, the process's environment. Each worker's
//! [`OnnxDetector`] has its own [`OpenNetwork`] with its own threads and memory. The library itself is found and opened
//! by [`runtime`].

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ort::environment::Environment;
use ort::value::{Outlet, TensorElementType, ValueType};

use super::decode::{Decoder, Limits};
use super::model::{ModelFile, ModelSpec};
use super::network::{self, BatchAxis, Element, TensorInfo};
use super::open_network::{self, OpenNetwork};
use super::optimized::Optimized;
use super::tensor::TensorWriter;
use super::yolox::Decoded;
use super::{DetectError, Detector, fit, runtime};
use crate::telemetry::{Recorder, Stage};
use crate::types::{Detection, Frame, FrameMeta, Letterbox};

/// A verified network and the library to run it.
pub struct OnnxModel {
    spec: ModelSpec,
    file: ModelFile,
    library: PathBuf,
    environment: Environment,
    network: Optimized,
    settings: SessionSettings,
    /// Networks that no worker has taken yet.
    ready: Mutex<Vec<OpenNetwork>>,
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
    /// finds one), optimizes the network, opens it `workers` times, and runs each once, so that every mismatch with `model.yaml` is
    /// found and the first frame is as fast as the others.
    ///
    /// All of that is done here, one after the other on one thread, and handed to the workers later: what the library
    /// frees while it opens one network is then used again for the tensors and for the next network, instead of staying
    /// in every thread's own part of the heap.
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
        let network = Optimized::new(&environment, bytes);
        let model = Self {
            spec,
            file,
            library,
            environment,
            network,
            settings,
            ready: Mutex::default(),
        };
        for _ in 0..workers {
            let network = model.open()?;
            model.ready().push(network);
        }
        Ok(model)
    }

    fn ready(&self) -> MutexGuard<'_, Vec<OpenNetwork>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Takes an open network. Beyond the number of workers that the model was loaded for, one more is opened.
    pub fn detector(
        &self,
        limits: Limits,
        recorder: Recorder,
    ) -> Result<OnnxDetector, DetectError> {
        let ready = self.ready().pop();
        let network = match ready {
            Some(network) => network,
            None => self.open()?,
        };
        let slots = network.slots();
        Ok(OnnxDetector {
            network,
            writer: TensorWriter::new(&self.spec.input, slots),
            decoder: Decoder::new(&self.spec, limits),
            letterboxes: Vec::with_capacity(slots),
            spec: self.spec.clone(),
            batch_size: self.settings.batch_size.max(1),
            recorder,
        })
    }

    /// Opens the network and runs it once on empty pictures, whose output must have the shape that decoding relies on:
    /// a network may leave axes open in its description.
    fn open(&self) -> Result<OpenNetwork, DetectError> {
        let (spec, path) = (&self.spec, &self.file.path);
        let session = open_network::session(&self.environment, self.settings.threads, self.network)
            .map_err(|error| self.load_error(&error))?;
        let (inputs, outputs) = (tensors(session.inputs()), tensors(session.outputs()));
        let slots = match network::check(spec, path, &inputs, &outputs)? {
            BatchAxis::Dynamic => self.settings.batch_size.max(1),
            BatchAxis::One => 1,
        };
        let mut network =
            OpenNetwork::new(spec, session, slots).map_err(|error| self.load_error(&error))?;
        let shape = network
            .shape_of_run()
            .map_err(|error| infer_error(slots, &error))?;
        let [rows, row_len] = Decoder::shape(spec);
        network::check_run(spec, path, &shape, [slots, rows, row_len])?;
        Ok(network)
    }

    fn load_error(&self, error: &ort::Error) -> DetectError {
        load_error(&self.file, &self.library, error)
    }
}

/// Runs one worker's session.
pub struct OnnxDetector {
    network: OpenNetwork,
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
        self.network.slots()
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
        let slots = self.network.slots();
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

fn load_error(file: &ModelFile, library: &Path, error: &ort::Error) -> DetectError {
    DetectError::Load {
        path: file.path.clone(),
        library: library.to_owned(),
        reason: error.to_string(),
    }
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
