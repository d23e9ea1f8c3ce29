// SPDX-License-Identifier: Apache-2.0
//! Creates detectors from the configuration. The model is loaded once, on the main thread, before any worker starts.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::decode::DecodeParams;
use super::engines::EngineState;
use super::labels::grouped;
use super::layouts::LayoutKind;
use super::model::ModelSpec;
use super::onnx::{OnnxModel, SessionSettings};
use super::scripted::{self, ScriptedDetector};
use super::tensorrt::TensorRtModel;
use super::{ClassFilter, DetectError, Detector, LayerProfile};
use jetwatch_config::{Backend, DetectorConfig, ScriptedConfig};
use jetwatch_nvidia::surface::SurfaceReader;
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Classes, Frame, Placement, Size};

/// A checked detector configuration, from which each worker makes its own [`Detector`].
///
/// It holds one open network per worker until the workers take them.
pub struct DetectorFactory {
    backend: LoadedBackend,
    classes: Arc<Classes>,
    params: DecodeParams,
    batch_size: usize,
    recorder: Recorder,
}

enum LoadedBackend {
    Onnx(Box<OnnxModel>),
    TensorRt(Box<TensorRtModel>),
    Scripted(ScriptedConfig),
}

/// Reads the model, verifies its file and opens the runtime library, as `config` states. `recorder` gets the times of
/// the stages tensor, infer and decode.
///
/// [`Backend::Auto`] selects TensorRT where there is an NVIDIA GPU with TensorRT and an engine of the model, or permission to
/// build one, and ONNX Runtime everywhere else. The scripted detector reads no pixels, so it must be configured explicitly.
///
/// Blocks for seconds, and for minutes when an engine is built.
///
/// # Errors
/// The model or a runtime library cannot be used, the network does not match `model.yaml`, or a label is unknown.
pub fn load(config: &DetectorConfig, recorder: &Recorder) -> Result<DetectorFactory, DetectError> {
    load_with_progress(config, recorder, &|_| ())
}

/// As [`load`]. `notify` receives the state of an engine, including the steps of its build, on this thread.
///
/// # Errors
/// As for [`load`].
pub fn load_with_progress(
    config: &DetectorConfig,
    recorder: &Recorder,
    notify: &dyn Fn(EngineState),
) -> Result<DetectorFactory, DetectError> {
    let (kind, classes, filter, [score_threshold, nms_iou], max_detections) =
        match (config.backend, &config.model) {
            (Backend::Scripted, _) => {
                let classes = grouped(&scripted::LABELS.map(str::to_owned), &config.groups)?;
                let filter = ClassFilter::with_groups(&classes, &config.classes)?;
                (
                    LoadedBackend::Scripted(config.scripted.clone()),
                    classes,
                    filter,
                    [0.0, 1.0],
                    usize::MAX,
                )
            }
            (_, None) => return Err(DetectError::NoModel),
            (backend, Some(folder)) => {
                let spec = ModelSpec::load(folder)?;
                // Checked before the file is read and hashed, so that a wrong label is reported at once.
                let classes = grouped(&spec.labels, &config.groups)?;
                let filter = match (config.classes.as_slice(), spec.output.layout.kind()) {
                    // What a classifier calls the background is one of its results.
                    ([], LayoutKind::Detector) => ClassFilter::without_placeholders(&spec.labels),
                    (wanted, _) => ClassFilter::with_groups(&classes, wanted)?,
                };
                let own = [spec.score_threshold, spec.nms_iou];
                let max_detections = spec.max_detections;
                let kind = match backend {
                    Backend::TensorRt => tensorrt(spec, config, notify)?,
                    Backend::Onnx => onnx(spec, config)?,
                    _ => auto_backend(spec, config, notify)?,
                };
                (kind, classes, filter, own, max_detections)
            }
        };
    let params = DecodeParams {
        score_threshold: config.score_threshold.unwrap_or(score_threshold),
        nms_iou: config.nms_iou.unwrap_or(nms_iou),
        max_detections,
        filter,
    };
    Ok(DetectorFactory {
        backend: kind,
        classes: Arc::new(classes),
        params,
        batch_size: config.batch_size,
        recorder: recorder.clone(),
    })
}

/// Classes that the detector of `config` will have.
///
/// # Errors
/// The configuration names no model, its `model.yaml` cannot be read, or it has none of the labels of a group.
pub fn classes(config: &DetectorConfig) -> Result<Classes, DetectError> {
    let labels = match (config.backend, &config.model) {
        (Backend::Scripted, _) => scripted::LABELS.map(str::to_owned).into(),
        (_, None) => return Err(DetectError::NoModel),
        (_, Some(folder)) => ModelSpec::load(folder)?.labels,
    };
    grouped(&labels, &config.groups)
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

/// TensorRT where it works, else ONNX Runtime. Logs why TensorRT is not used, as a warning if it is installed.
fn auto_backend(
    spec: ModelSpec,
    config: &DetectorConfig,
    notify: &dyn Fn(EngineState),
) -> Result<LoadedBackend, DetectError> {
    let tensorrt_error = match tensorrt(spec.clone(), config, notify) {
        Ok(kind) => return Ok(kind),
        Err(error) => error,
    };
    match onnx(spec, config) {
        Ok(kind) => {
            if tensorrt_error.is_absence() {
                log::debug!("TensorRT is not used: {tensorrt_error}");
            } else {
                log::warn!("falling back to ONNX Runtime: {tensorrt_error}");
            }
            Ok(kind)
        }
        Err(onnx_error) if tensorrt_error.is_absence() => Err(onnx_error),
        Err(onnx_error) => Err(DetectError::NoRuntime {
            tensorrt: Box::new(tensorrt_error),
            onnx: Box::new(onnx_error),
        }),
    }
}

impl DetectorFactory {
    /// Labels and groups of the classes.
    pub fn classes(&self) -> &Arc<Classes> {
        &self.classes
    }

    /// Names of the classes, by [`Detection::class`](jetwatch_types::Detection::class).
    pub fn labels(&self) -> &[String] {
        self.classes.labels()
    }

    /// IOU above which the lower-scored of two boxes of one class is dropped, 0 to 1.
    pub fn nms_iou(&self) -> f32 {
        self.params.nms_iou
    }

    /// Size of the network's input in pixels. Sources scale their images for it.
    pub fn input_size(&self) -> Size {
        match &self.backend {
            LoadedBackend::Onnx(model) => model.spec().input.size,
            LoadedBackend::TensorRt(model) => model.spec().input.size,
            LoadedBackend::Scripted(_) => scripted::INPUT,
        }
    }

    /// Position of images in that input.
    pub fn placement(&self) -> Placement {
        match &self.backend {
            LoadedBackend::Onnx(model) => model.spec().input.placement,
            LoadedBackend::TensorRt(model) => model.spec().input.placement,
            LoadedBackend::Scripted(_) => scripted::PLACEMENT,
        }
    }

    /// Whether the network takes one frame at a time, whatever the batch size: its batch axis is fixed.
    pub fn runs_single_frames(&self) -> bool {
        match &self.backend {
            LoadedBackend::Onnx(model) => model.runs_single_frames(),
            LoadedBackend::TensorRt(model) => model.runs_single_frames(),
            LoadedBackend::Scripted(_) => false,
        }
    }

    /// The contents of `model.yaml`; `None` for the scripted detector.
    pub fn spec(&self) -> Option<&ModelSpec> {
        match &self.backend {
            LoadedBackend::Onnx(model) => Some(model.spec()),
            LoadedBackend::TensorRt(model) => Some(model.spec()),
            LoadedBackend::Scripted(_) => None,
        }
    }

    /// Minimum score of its detections, 0 to 1.
    pub fn score_threshold(&self) -> f32 {
        self.params.score_threshold
    }

    /// Reader with which the sources pass NVMM images to this detector without a copy. `release` is the major number of the
    /// L4T release. `None` when the detector reads CPU memory only.
    ///
    /// # Errors
    /// NVMM images cannot be read in place and must be copied.
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
    pub fn backend(&self) -> &'static str {
        match &self.backend {
            LoadedBackend::Onnx(_) => "onnx",
            LoadedBackend::TensorRt(_) => "tensorrt",
            LoadedBackend::Scripted(_) => "scripted",
        }
    }

    /// Name of the model; `truth` for the scripted detector.
    pub fn model(&self) -> &str {
        match &self.backend {
            LoadedBackend::Onnx(model) => &model.spec().name,
            LoadedBackend::TensorRt(model) => &model.spec().name,
            LoadedBackend::Scripted(_) => "truth",
        }
    }

    /// Precision of the network's file; `None` where there is no network.
    pub fn precision(&self) -> Option<&str> {
        match &self.backend {
            LoadedBackend::Onnx(model) => Some(model.precision()),
            LoadedBackend::TensorRt(model) => Some(model.precision()),
            LoadedBackend::Scripted(_) => None,
        }
    }

    /// Backend, model, precision and device or provider, as text.
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

    /// Creates the detector of worker number `worker`. Call it on the thread of that worker, where the detector must stay.
    /// Beyond the configured number of workers it opens another network and runs it once, which takes up to some seconds.
    ///
    /// # Errors
    /// A further network cannot be opened.
    pub fn create(&self, worker: usize) -> Result<Box<dyn Detector>, DetectError> {
        let (params, recorder) = (self.params.clone(), self.recorder.clone());
        match &self.backend {
            LoadedBackend::Onnx(model) => {
                if let Some(detector) = model.gpu_detector(&params, &recorder) {
                    let detector = detector?;
                    if worker == 0 {
                        self.warn_about_single_frame_runs(detector.frames_per_run());
                    }
                    return Ok(Box::new(detector));
                }
                let detector = model.detector(params, recorder)?;
                // Logged once, not by every worker.
                if worker == 0 {
                    self.warn_about_single_frame_runs(detector.frames_per_run());
                }
                Ok(Box::new(detector))
            }
            LoadedBackend::TensorRt(model) => {
                let detector = model.detector(params, recorder)?;
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
                } = params;
                Ok(Box::new(ScriptedDetector::new(
                    config.clone(),
                    score_threshold,
                    filter,
                    recorder,
                )))
            }
        }
    }

    /// Time of each layer of the network over `runs` runs on single `frames`. `None` where there is no network. A runtime may
    /// write a file into `folder` meanwhile.
    ///
    /// # Errors
    /// A frame has the wrong size, the network fails, or the runtime does not time layers with this execution provider.
    pub fn layer_times(
        &self,
        frames: &[Frame],
        runs: usize,
        folder: &Path,
    ) -> Result<Option<Vec<LayerProfile>>, DetectError> {
        match &self.backend {
            LoadedBackend::TensorRt(model) => model.layer_times(frames, runs).map(Some),
            LoadedBackend::Onnx(model) => model.layer_times(frames, runs, folder).map(Some),
            LoadedBackend::Scripted(_) => Ok(None),
        }
    }

    fn warn_about_single_frame_runs(&self, max_frames: usize) {
        let wanted = self.batch_size;
        if max_frames < wanted {
            let frames = match max_frames {
                1 => "one frame".to_owned(),
                frames => format!("{frames} frames"),
            };
            log::warn!(
                model = self.model(), batch_size = wanted;
                "the network takes {frames} at a time, so larger batches only add latency: set detector.batch_size to {max_frames}, or \
                 export the network with a dynamic batch axis"
            );
        }
    }
}

impl fmt::Debug for DetectorFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetectorFactory")
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
            groups: Vec::new(),
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
        let found = (prepared.backend(), prepared.model(), prepared.precision());
        assert_eq!(found, ("scripted", "truth", None));
        assert_eq!(prepared.labels()[2], "car");
        let found = (prepared.input_size(), prepared.placement());
        assert_eq!(found, (Size::new(416, 416), Placement::TopLeft));
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
