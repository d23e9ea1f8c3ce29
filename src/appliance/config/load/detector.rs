//! `detector`.

use super::super::map::Map;
use super::super::{
    Backend, DetectorConfig, EngineBuild, Interval, OnnxProvider, ScriptedConfig, TensorRtConfig,
};

/// The backends, in the order of their words.
pub(super) const BACKENDS: [Backend; 4] = [
    Backend::Auto,
    Backend::Onnx,
    Backend::TensorRt,
    Backend::Scripted,
];

/// `detector`, which needs a model unless it is scripted. A model beside the scripted backend is accepted and unused, so
/// that the backend can be changed in one line.
pub(super) fn detector(map: &Map<'_>) -> Option<DetectorConfig> {
    let backend = map.choice("backend", &BACKENDS);
    let model = map.path("model");
    if !map.has("model") && backend.is_some_and(|backend| backend != Backend::Scripted) {
        map.missing(
            "model",
            "the path of a model folder (only backend: scripted needs none)",
        );
    }
    let precision = map.text("precision");
    let score_threshold = map.number("score_threshold");
    let nms_iou = map.number("nms_iou");
    let classes = map.texts("classes");
    let batch_size = map.integer("batch_size");
    let batch_timeout = map.duration("batch_timeout_ms");
    let interval = interval(map);
    let max_interval = map.integer("max_interval");
    let workers = map.integer("workers");
    let threads_per_worker = map.integer("threads_per_worker");
    let onnxruntime = map.path("onnxruntime");
    let onnx_provider = map.choice(
        "onnx_provider",
        &[OnnxProvider::Auto, OnnxProvider::Cpu, OnnxProvider::Cuda],
    );
    let tensorrt = map.section("tensorrt").and_then(|map| tensorrt(&map));
    let scripted = map.section("scripted").and_then(|map| scripted(&map));
    Some(DetectorConfig {
        backend: backend?,
        model,
        precision,
        score_threshold,
        nms_iou,
        classes: classes?,
        batch_size: batch_size?,
        batch_timeout: batch_timeout?,
        interval: interval?,
        max_interval: max_interval?,
        workers: workers?,
        threads_per_worker: threads_per_worker?,
        onnxruntime,
        onnx_provider: onnx_provider?,
        tensorrt: tensorrt?,
        scripted: scripted?,
    })
}

/// `interval`, of the detector or of a source.
pub(super) fn interval(map: &Map<'_>) -> Option<Interval> {
    let frames = map.word_or_count("interval")?;
    Some(frames.map_or(Interval::Adaptive, Interval::Frames))
}

/// `detector.tensorrt`. Which keys fit together depends on the library that is found, and is checked where it is open.
fn tensorrt(map: &Map<'_>) -> Option<TensorRtConfig> {
    let library = map.path("library");
    let engines = map.path("engines");
    let build = map.choice("build", &[EngineBuild::Never, EngineBuild::Allow]);
    let dla = map.integer("dla");
    let gpu_fallback = map.boolean("gpu_fallback");
    let workspace_mib = map.integer("workspace_mib");
    let calibration = map.path("calibration");
    Some(TensorRtConfig {
        library,
        engines: engines?,
        build: build?,
        dla,
        gpu_fallback: gpu_fallback?,
        workspace_mib,
        calibration,
    })
}

fn scripted(map: &Map<'_>) -> Option<ScriptedConfig> {
    let miss_rate = map.number("miss_rate");
    let jitter = map.number("jitter");
    let min_visible = map.number("min_visible");
    let seed = map.integer("seed");
    let frame_time = map.duration("frame_time_ms");
    Some(ScriptedConfig {
        miss_rate: miss_rate?,
        jitter: jitter?,
        min_visible: min_visible?,
        seed: seed?,
        frame_time: frame_time?,
    })
}
