//! From the configuration to something that makes detectors: done once, on the main thread, before any worker starts.

use std::fmt;
use std::sync::Arc;

use super::decode::DecodeParams;
use super::engines::EngineState;
use super::model::ModelSpec;
use super::onnx::{OnnxModel, SessionSettings};
use super::scripted::{self, ScriptedDetector};
use super::tensorrt::{LayerTime, TensorRtModel};
use super::{ClassFilter, DetectError, Detector};
use jetwatch_config::{Backend, DetectorConfig, ScriptedConfig};
use jetwatch_nvidia::surface::SurfaceReader;
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Frame, Placement, Size};

/// A checked detector configuration, from which each worker makes its own [`Detector`].
///
/// It holds the opened network once for each worker until they take it.
pub struct DetectorFactory {
    backend: LoadedBackend,
    labels: Arc<[String]>,
    params: DecodeParams,
    batch_size: usize,
    recorder: Recorder,
}

enum LoadedBackend {
    Onnx(Box<OnnxModel>),
    TensorRt(Box<TensorRtModel>),
    Scripted(ScriptedConfig),
}

/// Reads the model, verifies its file and opens the runtime library, as `config` says. `recorder` gets the times of
/// the stages tensor, infer and decode.
///
/// [`Backend::Auto`] takes TensorRT where there is an NVIDIA GPU with it and an engine of the model, or the leave to build one,
/// and ONNX Runtime everywhere else. The scripted detector is never chosen by itself: boxes that come from no pixel are
/// only for those who ask for them.
pub fn load(config: &DetectorConfig, recorder: &Recorder) -> Result<DetectorFactory, DetectError> {
    load_with_progress(config, recorder, &|_| ())
}

/// As [`factory`]; `notify` hears what becomes of an engine, the steps of its build too, on this thread.
pub fn load_with_progress(
    config: &DetectorConfig,
    recorder: &Recorder,
    notify: &dyn Fn(EngineState),
) -> Result<DetectorFactory, DetectError> {
    let (kind, labels, [score_threshold, nms_iou], max_detections) =
        match (config.backend, &config.model) {
            (Backend::Scripted, _) => {
                let labels: Arc<[String]> = scripted::LABELS.map(str::to_owned).into();
                (
                    LoadedBackend::Scripted(config.scripted.clone()),
                    labels,
                    [0.0, 1.0],
                    usize::MAX,
                )
            }
            (_, None) => return Err(DetectError::NoModel),
            (backend, Some(folder)) => {
                let spec = ModelSpec::load(folder)?;
                // Before the file is read and hashed: a wrong label is the quicker finding.
                ClassFilter::new(&spec.labels, &config.classes)?;
                let labels = spec.labels.clone().into();
                let own = [spec.score_threshold, spec.nms_iou];
                let max_detections = spec.max_detections;
                let kind = match backend {
                    Backend::TensorRt => tensorrt(spec, config, notify)?,
                    Backend::Onnx => onnx(spec, config)?,
                    _ => auto_backend(spec, config, notify)?,
                };
                (kind, labels, own, max_detections)
            }
        };
    let limits = DecodeParams {
        score_threshold: config.score_threshold.unwrap_or(score_threshold),
        nms_iou: config.nms_iou.unwrap_or(nms_iou),
        max_detections,
        filter: ClassFilter::new(&labels, &config.classes)?,
    };
    Ok(DetectorFactory {
        backend: kind,
        labels,
        params: limits,
        batch_size: config.batch_size,
        recorder: recorder.clone(),
    })
}

/// Labels that the detector of `config` will have, by [`Detection::class`](jetwatch_types::Detection::class).
pub fn labels(config: &DetectorConfig) -> Result<Vec<String>, DetectError> {
    match (config.backend, &config.model) {
        (Backend::Scripted, _) => Ok(scripted::LABELS.map(str::to_owned).into()),
        (_, None) => Err(DetectError::NoModel),
        (_, Some(folder)) => Ok(ModelSpec::load(folder)?.labels),
    }
}

fn onnx(spec: ModelSpec, config: &DetectorConfig) -> Result<LoadedBackend, DetectError> {
    let model = OnnxModel::load(
        spec,
        config.precision.as_deref(),
        config.onnxruntime.as_deref(),
        SessionSettings {
            threads: config.threads_per_worker,
            batch_size: config.batch_size,
            provider: config.onnx_provider,
        },
        config.workers,
    )?;
    Ok(LoadedBackend::Onnx(Box::new(model)))
}

fn tensorrt(
    spec: ModelSpec,
    config: &DetectorConfig,
    notify: &dyn Fn(EngineState),
) -> Result<LoadedBackend, DetectError> {
    let model = TensorRtModel::load(spec, config, notify)?;
    Ok(LoadedBackend::TensorRt(Box::new(model)))
}

/// TensorRT where it works, else ONNX Runtime. What TensorRT lacks is said where it could have been used.
fn auto_backend(
    spec: ModelSpec,
    config: &DetectorConfig,
    notify: &dyn Fn(EngineState),
) -> Result<LoadedBackend, DetectError> {
    let of_tensorrt = match tensorrt(spec.clone(), config, notify) {
        Ok(kind) => return Ok(kind),
        Err(error) => error,
    };
    match onnx(spec, config) {
        Ok(kind) => {
            if of_tensorrt.is_absence() {
                log::debug!("TensorRT is not used: {of_tensorrt}");
            } else {
                log::warn!(
                    "the network runs on ONNX Runtime, since TensorRT cannot run it: {of_tensorrt}"
                );
            }
            Ok(kind)
        }
        Err(of_onnx) if of_tensorrt.is_absence() => Err(of_onnx),
        Err(of_onnx) => Err(DetectError::NoRuntime {
            tensorrt: Box::new(of_tensorrt),
            onnx: Box::new(of_onnx),
        }),
    }
}

impl DetectorFactory {
    /// Names of the classes, by [`Detection::class`](jetwatch_types::Detection::class).
    #[must_use]
    pub fn labels(&self) -> &Arc<[String]> {
        &self.labels
    }

    /// Size of the network's input: sources scale their pictures for it.
    #[must_use]
    pub fn input_size(&self) -> Size {
        match &self.backend {
            LoadedBackend::Onnx(model) => model.spec().input.size,
            LoadedBackend::TensorRt(model) => model.spec().input.size,
            LoadedBackend::Scripted(_) => scripted::INPUT,
        }
    }

    /// How pictures lie in that input.
    #[must_use]
    pub fn placement(&self) -> Placement {
        match &self.backend {
            LoadedBackend::Onnx(model) => model.spec().input.placement,
            LoadedBackend::TensorRt(model) => model.spec().input.placement,
            LoadedBackend::Scripted(_) => scripted::PLACEMENT,
        }
    }

    /// Whether the network takes one frame at a time, whatever the batch size: its batch axis is fixed.
    #[must_use]
    pub fn runs_single_frames(&self) -> bool {
        match &self.backend {
            LoadedBackend::Onnx(model) => model.runs_single_frames(),
            LoadedBackend::TensorRt(model) => model.runs_single_frames(),
            LoadedBackend::Scripted(_) => false,
        }
    }

    /// What `model.yaml` says; `None` for the scripted detector.
    #[must_use]
    pub fn spec(&self) -> Option<&ModelSpec> {
        match &self.backend {
            LoadedBackend::Onnx(model) => Some(model.spec()),
            LoadedBackend::TensorRt(model) => Some(model.spec()),
            LoadedBackend::Scripted(_) => None,
        }
    }

    /// Least score of what it finds, 0 to 1.
    #[must_use]
    pub fn score_threshold(&self) -> f32 {
        self.params.score_threshold
    }

    /// What the sources need so that this detector reads pictures in NVMM in place, on a Jetson with L4T's release of this first
    /// number; `None` when it reads the processor's memory alone. An error says why pictures have to be copied.
    pub fn surfaces(
        &self,
        release: Option<u32>,
    ) -> Result<Option<Arc<SurfaceReader>>, DetectError> {
        match &self.backend {
            LoadedBackend::TensorRt(model) => Ok(Some(model.surfaces(release)?)),
            LoadedBackend::Onnx(_) | LoadedBackend::Scripted(_) => Ok(None),
        }
    }

    /// The implementation: `onnx`, `tensorrt` or `scripted`.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        match &self.backend {
            LoadedBackend::Onnx(_) => "onnx",
            LoadedBackend::TensorRt(_) => "tensorrt",
            LoadedBackend::Scripted(_) => "scripted",
        }
    }

    /// Name of the model; `truth` for the scripted detector.
    #[must_use]
    pub fn model(&self) -> &str {
        match &self.backend {
            LoadedBackend::Onnx(model) => &model.spec().name,
            LoadedBackend::TensorRt(model) => &model.spec().name,
            LoadedBackend::Scripted(_) => "truth",
        }
    }

    /// Precision of the network's file; `None` where there is no network.
    #[must_use]
    pub fn precision(&self) -> Option<&str> {
        match &self.backend {
            LoadedBackend::Onnx(model) => Some(model.precision()),
            LoadedBackend::TensorRt(model) => Some(model.precision()),
            LoadedBackend::Scripted(_) => None,
        }
    }

    /// Backend, model, precision and what runs it, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let (backend, model) = (self.backend(), self.model());
        let precision = self.precision().unwrap_or_default();
        match &self.backend {
            LoadedBackend::Onnx(onnx) => {
                format!("{backend}, {model} in {precision} ({})", onnx.provider())
            }
            LoadedBackend::TensorRt(tensorrt) => {
                format!("{backend}, {model} in {precision} ({})", tensorrt.runs_on())
            }
            LoadedBackend::Scripted(_) => format!("{backend}, {model}"),
        }
    }

    /// Makes the detector of worker number `worker`, on that worker's own thread, where it has to stay. Beyond the
    /// number of workers in the configuration a network is opened and run once, which takes up to some seconds.
    pub fn create(&self, worker: usize) -> Result<Box<dyn Detector>, DetectError> {
        let (limits, recorder) = (self.params.clone(), self.recorder.clone());
        match &self.backend {
            LoadedBackend::Onnx(model) => {
                let detector = model.detector(limits, recorder)?;
                // Said once, not by every worker.
                if worker == 0 {
                    self.warn_about_single_frame_runs(detector.frames_per_run());
                }
                Ok(Box::new(detector))
            }
            LoadedBackend::TensorRt(model) => {
                let detector = model.detector(limits, recorder)?;
                if worker == 0 {
                    self.warn_about_single_frame_runs(model.frames_per_run());
                }
                Ok(Box::new(detector))
            }
            LoadedBackend::Scripted(config) => {
                let DecodeParams {
                    score_threshold,
                    filter,
                    ..
                } = limits;
                Ok(Box::new(ScriptedDetector::new(
                    config.clone(),
                    score_threshold,
                    filter,
                    recorder,
                )))
            }
        }
    }

    /// How long each layer of the network takes, in `runs` runs on single `frames`; `None` where the backend cannot tell.
    pub fn layer_times(
        &self,
        frames: &[Frame],
        runs: usize,
    ) -> Result<Option<Vec<LayerTime>>, DetectError> {
        match &self.backend {
            LoadedBackend::TensorRt(model) => model.layer_times(frames, runs).map(Some),
            LoadedBackend::Onnx(_) | LoadedBackend::Scripted(_) => Ok(None),
        }
    }

    fn warn_about_single_frame_runs(&self, max_frames: usize) {
        let wanted = self.batch_size;
        if max_frames < wanted {
            log::warn!(
                model = self.model(), batch_size = wanted;
                "the network takes one frame at a time, so batches only add waiting: set detector.batch_size to 1, or \
                 export the network with a dynamic batch axis"
            );
        }
    }
}

impl fmt::Debug for DetectorFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("backend", &self.backend())
            .field("model", &self.model())
            .field("precision", &self.precision())
            .field("input_size", &self.input_size())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;
    use crate::model_yaml::tests::FULL;
    use jetwatch_config::{Interval, OnnxProvider, TensorRtConfig};

    fn config(backend: Backend, model: Option<PathBuf>) -> DetectorConfig {
        DetectorConfig {
            backend,
            model,
            precision: None,
            score_threshold: None,
            nms_iou: None,
            classes: Vec::new(),
            batch_size: 1,
            batch_timeout: Duration::from_millis(10),
            interval: Interval::Frames(0),
            max_interval: 5,
            workers: 2,
            threads_per_worker: 1,
            onnxruntime: None,
            onnx_provider: OnnxProvider::Auto,
            tensorrt: TensorRtConfig::default(),
            scripted: ScriptedConfig::default(),
        }
    }

    fn refused(config: &DetectorConfig) -> String {
        load(config, &Recorder::default())
            .expect_err("it cannot work")
            .to_string()
    }

    #[test]
    fn without_a_model_the_error_names_the_key_to_set() {
        for backend in [Backend::Auto, Backend::Onnx, Backend::TensorRt] {
            let error = refused(&config(backend, None));
            assert!(
                error.contains("set detector.model to a folder with a model.yaml"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_scripted_detector_needs_no_model_and_is_shared_between_threads() {
        let mut config = config(Backend::Scripted, None);
        config.classes = vec!["bus".to_owned()];
        let prepared = load(&config, &Recorder::default()).expect("it needs nothing");
        assert_eq!(
            (prepared.backend(), prepared.model(), prepared.precision()),
            ("scripted", "truth", None)
        );
        assert_eq!(prepared.labels()[2], "car");
        assert_eq!(
            (prepared.input_size(), prepared.placement()),
            (Size::new(416, 416), Placement::TopLeft)
        );
        let made = std::thread::scope(|scope| {
            let workers = [0, 1].map(|worker| {
                let prepared = &prepared;
                scope.spawn(move || prepared.create(worker).is_ok())
            });
            workers.map(|worker| worker.join().expect("no panic"))
        });
        assert_eq!(made, [true, true]);
    }

    #[test]
    fn wrong_labels_precisions_and_missing_files_are_errors_before_any_library_is_opened() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("model.yaml"), FULL).expect("written");
        let mut config = config(Backend::Auto, Some(folder.path().to_owned()));
        config.classes = vec!["persons".to_owned()];
        assert!(refused(&config).contains("did you mean person?"));
        config.classes.clear();
        config.precision = Some("fp16".to_owned());
        assert!(refused(&config).contains("set detector.precision to int8 or fp32"));
        config.precision = None;
        assert!(refused(&config).contains("tiny_int8.onnx: No such file"));
    }
}
