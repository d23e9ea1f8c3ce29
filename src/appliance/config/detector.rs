// SPDX-License-Identifier: Apache-2.0
//! `detector`: the network that finds objects, and what runs it.

use std::path::PathBuf;
use std::time::Duration;

use jetwatch_types::LabelGroup;

use super::folders;
use super::schema::{DefaultValue, ValueType};
use super::section::{KeyValue, Section};
use super::yaml::map::Map;
use super::yaml::node::Value;
use super::{SourceConfig, SourceUri, Words};

/// Maximum number of frames in one batch.
pub const MAX_BATCH_SIZE: i64 = 64;

/// Maximum number of frames in a row that skip the network.
const MAX_INTERVAL: i64 = 30;

/// Folder of the engines unless the configuration names another.
pub const ENGINES_FOLDER: &str = "/var/lib/jetwatch/engines";

/// The primary detector.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(check = check_model)]
pub struct DetectorConfig {
    /// auto: the best one that works here; onnx: ONNX Runtime; tensorrt: an engine for this GPU; scripted: ground truth of synthetic sources, for demonstrations and tests.
    #[key(default = "auto")]
    pub backend: Backend,
    /// Model folder with its model.yaml, or its name in models, where jetwatch model fetch puts it. Required unless backend is scripted.
    #[key(value = ValueType::Path, read = model)]
    pub model: Option<PathBuf>,
    /// Which of the model's files to use. Default: the model's first; with TensorRT int8, where the model has it. TensorRT also makes fp16 of a model's fp32 file, and int8 with a calibration.
    #[key(text = PRECISION)]
    pub precision: Option<String>,
    /// Detections below this score are dropped. Default: the model's own.
    #[key(range = 0.0..=1.0)]
    pub score_threshold: Option<f32>,
    /// Boxes that overlap a better one of their class by a higher IOU are dropped. Default: the model's own.
    #[key(range = 0.0..=1.0)]
    pub nms_iou: Option<f32>,
    /// Labels or groups to keep. Default: all.
    #[key(text = "a label of the model")]
    pub classes: Vec<String>,
    /// Names for several labels each. Labels of one group are one class to NMS and the tracker, and are also counted together. Default: none.
    pub groups: Vec<LabelGroup>,
    /// Maximum number of frames in one batch.
    #[key(range = 1..=MAX_BATCH_SIZE, unit = "frames", default = 1)]
    pub batch_size: usize,
    /// Maximum time that the first frame of a batch waits for others.
    #[key(name = "batch_timeout_ms", range = 0..=1000, default = 10)]
    pub batch_timeout: Duration,
    /// Frames that skip the network after each one that goes through it. adaptive: the minimum without drops of live sources.
    #[key(default = 0)]
    pub interval: Interval,
    /// Maximum interval with interval: adaptive.
    #[key(range = 1..=MAX_INTERVAL, unit = "frames", default = 5)]
    pub max_interval: u32,
    /// Detectors that run in parallel.
    #[key(range = 1..=16, unit = "workers", default = 2)]
    pub workers: usize,
    /// Threads of the network inside each worker.
    #[key(range = 1..=64, unit = "threads", default = 1)]
    pub threads_per_worker: usize,
    /// Path of libonnxruntime.so. Default: ORT_DYLIB_PATH, then the usual folders.
    pub onnxruntime: Option<PathBuf>,
    /// What ONNX Runtime runs on. auto: an NVIDIA GPU where the CUDA provider works, else the CPU; cuda: the GPU or an error.
    #[key(default = "auto")]
    pub onnx_provider: OnnxProvider,
    /// Library, engines and builds of the backend tensorrt, also where auto chooses it.
    pub tensorrt: TensorRtConfig,
    /// Backend scripted only: how its detections differ from the ground truth. Default: not at all.
    pub scripted: ScriptedConfig,
}

impl DetectorConfig {
    /// The interval of `source`: its own, else that of the detector.
    #[must_use]
    pub fn interval_of(&self, source: &SourceConfig) -> Interval {
        source.interval.unwrap_or(self.interval)
    }
}

/// Accepted form of a precision.
pub(super) const PRECISION: &str = "a precision of the model, such as fp32 or int8";

fn model(map: &Map<'_>) -> Option<Option<PathBuf>> {
    map.optional("model", || model_folder(map))
}

/// The key `model`: a path, or without a `/` the name of a model folder.
pub(super) fn model_folder(map: &Map<'_>) -> Option<PathBuf> {
    let path = map.path("model")?;
    Some(match map.get("model")?.value() {
        Value::Text(name) if !name.contains('/') => folders::model_folder(name, path),
        _ => path,
    })
}

/// A model given with the scripted backend is accepted and unused, so that the backend can be changed in one line.
fn check_model(map: &Map<'_>) {
    let backend = Backend::read(map, "backend");
    if !map.has("model") && backend.is_some_and(|backend| backend != Backend::Scripted) {
        map.missing(
            "model",
            "the path of a model folder (only backend: scripted needs none)",
        );
    }
}

/// The scripted detector repeats ground truth, which only synthetic sources have.
pub(super) fn check_scripted(map: &Map<'_>, source: &str, uri: &SourceUri) {
    let is_scripted =
        map.has("backend") && Backend::read(map, "backend") == Some(Backend::Scripted);
    if is_scripted && !matches!(uri, SourceUri::Synthetic(_)) {
        let what =
            format!("scripted needs the ground truth of a synthetic source, and {source} has none");
        map.invalid(
            "backend",
            &what,
            Some("give a model and write backend: auto"),
        );
    }
}

/// How often frames of a source skip the network; the tracker predicts their tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// This number of frames skips the network after each frame that goes through it. With 0, no frame skips it.
    Frames(u32),
    /// The minimum number that keeps every live source without drops.
    Adaptive,
}

impl KeyValue for Interval {
    const TYPE: ValueType = ValueType::WordOrCount {
        word: "adaptive",
        max: MAX_INTERVAL,
        things: "frames",
    };
    const WHEN_ABSENT: DefaultValue = DefaultValue::Required;

    fn read(map: &Map<'_>, name: &str) -> Option<Self> {
        let frames = map.word_or_count(name)?;
        Some(frames.map_or(Self::Adaptive, Self::Frames))
    }
}

impl Interval {
    /// Whether a frame ever skips the network.
    #[must_use]
    pub fn can_skip(self) -> bool {
        self != Self::Frames(0)
    }
}

/// Implementations of the detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum Backend {
    /// The best that can work here with the model given.
    Auto,
    /// ONNX Runtime.
    Onnx,
    /// An engine that TensorRT has built for this GPU.
    TensorRt,
    /// Ground truth of synthetic sources, for demonstrations and tests. It reads no pixel.
    Scripted,
}

/// What runs the network with ONNX Runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum OnnxProvider {
    /// The GPU where that works, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// The first NVIDIA GPU, or an error.
    Cuda,
}

/// TensorRT's library, its engines, and how they are built.
///
/// Which keys fit together depends on the library that is found, and is checked where it is open.
#[derive(Debug, Clone, PartialEq, Eq, Section)]
#[section(default)]
pub struct TensorRtConfig {
    /// Path of libnvinfer.so, or the folder that holds it. Default: where the system's loader finds it.
    pub library: Option<PathBuf>,
    /// Folder of the engines, which jetwatch engine build fills.
    #[key(default = ENGINES_FOLDER)]
    pub engines: PathBuf,
    /// Whether the daemon may build a missing engine, which takes minutes; never: only jetwatch engine build does.
    #[key(default = "never")]
    pub build: EngineBuild,
    /// Number of the deep learning accelerator that runs what it can of the network, from 0. Default: none. Secondary networks always run on the GPU.
    #[key(range = 0..=15, unit = "DLA cores")]
    pub dla: Option<u32>,
    /// With dla: the GPU runs layers that it cannot run; false: such a network is refused.
    #[key(default = true)]
    pub gpu_fallback: bool,
    /// Memory that a layer may use while it computes. Default: TensorRT's own choice, up to all of the GPU's.
    #[key(range = 1..=65_536, unit = "MiB")]
    pub workspace_mib: Option<u64>,
    /// Calibration cache that makes int8 of fp32 (TensorRT 8 and 10), written by jetwatch engine build --calibration-images.
    pub calibration: Option<PathBuf>,
}

/// What to do about a missing engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
pub enum EngineBuild {
    /// It is an error, with the command that builds it.
    Never,
    /// It is built, which takes minutes on a Jetson.
    Allow,
}

/// How the scripted detector differs from the truth. All zero: it repeats it.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(default)]
pub struct ScriptedConfig {
    /// Share of objects missed.
    #[key(range = 0.0..=1.0, default = 0.0)]
    pub miss_rate: f32,
    /// Maximum shift of each box edge, as a share of the box's side.
    #[key(range = 0.0..=1.0, default = 0.0)]
    pub jitter: f32,
    /// Objects whose visible share is below this are missed.
    #[key(range = 0.0..=1.0, default = 0.0)]
    pub min_visible: f32,
    /// Seed of misses and shifts.
    #[key(range = 0..=i64::MAX, default = 0)]
    pub seed: u64,
    /// Time that a frame takes, as with a slow network.
    #[key(name = "frame_time_ms", range = 0..=10_000, default = 0)]
    pub frame_time: Duration,
}
