// SPDX-License-Identifier: Apache-2.0
//! The check of the detector: compares each installed runtime with recorded detections, on the same images on every machine.

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use serde::Serialize;

use jetwatch_bench::{DetectorAlone, bench_detector};
use jetwatch_config::{Backend, Config, DetectorConfig};
use jetwatch_detect::engines::EngineError;
use jetwatch_detect::{self as detect, DetectError, DetectorFactory};
use jetwatch_eval::{
    Agreement, GOLDEN_SCORE, Golden, GoldenImage, GoldenSet, MatchCriteria, agreement,
    detections_of, golden_frames, image_hash,
};
use jetwatch_pipeline::PipelineError;
use jetwatch_telemetry::{Recorder, StageSummary};
use jetwatch_traffic::synthetic_factory;
use jetwatch_types::{Detection, Frame};

use super::check_report::CheckReport;

/// Name of the recorded detections in a model folder.
pub(super) const GOLDEN: &str = "golden.json";

/// Minimum share of confident boxes that a runtime and the recorded detections of the same precision have in common.
pub(super) const MIN_SHARE: f64 = 0.95;

/// Number of timed frames, and of warm-up frames before them.
const TIMED_FRAMES: u64 = 300;
const WARMUP_FRAMES: u64 = 30;
/// Fewer for ONNX Runtime: on a CPU a frame takes tens of milliseconds.
const TIMED_FRAMES_ONNX: u64 = 60;
/// Number of different images for timing.
const PRELOADED: usize = 32;

/// Measurements of all backends.
#[derive(Debug, Default, Serialize)]
pub struct DetectorResults {
    /// Whether TensorRT ran and agreed.
    pub is_proven: bool,
    /// Name of the model.
    model: String,
    /// Precision that was checked.
    precision: String,
    tensorrt: Option<BackendResults>,
    onnx: Option<BackendResults>,
    /// Agreement of TensorRT with ONNX Runtime.
    each_other: Option<Agreement>,
}

/// Measurements of one backend.
#[derive(Debug, Serialize)]
struct BackendResults {
    /// Backend, model, precision and runtime.
    what: String,
    /// From the opening of the library to the first image, in ms; includes the build of an engine.
    load_ms: f64,
    /// Agreement with the recorded detections.
    recorded: Option<Agreement>,
    /// Frames per second of all workers on preloaded images.
    fps: f64,
    workers: usize,
    /// CPU time of the process per frame, in ms.
    cpu_ms_per_frame: f64,
    stages: Vec<StageSummary>,
}

/// Detections of one backend.
struct Run {
    backend: Backend,
    /// The requested precision.
    precision: Option<String>,
    prepared: DetectorFactory,
    load_ms: f64,
    found: Vec<Vec<Detection>>,
    frames: Vec<Frame>,
}

/// Checks the detector of `config` with every runtime that is installed.
pub(super) fn run(config: &Config, report: &mut CheckReport) -> anyhow::Result<DetectorResults> {
    let Some(folder) = &config.detector.model else {
        bail!("detector.backend is `scripted`, which reads no pixels: give a model with --model");
    };
    let spec = detect::model::ModelSpec::load(folder).map_err(|error| {
        // The same error and exit code as the daemon.
        PipelineError::from(DetectError::Model(error))
    })?;
    let names: Vec<&str> = spec
        .files
        .iter()
        .map(|file| file.precision.as_str())
        .collect();
    let precision = match &config.detector.precision {
        Some(precision) => precision.clone(),
        None if names.contains(&"int8") => "int8".to_owned(),
        None => names[0].to_owned(),
    };
    let mut numbers = DetectorResults {
        model: spec.name.clone(),
        precision: precision.clone(),
        ..DetectorResults::default()
    };
    let golden = golden(folder, report);
    let settings = |backend| DetectorConfig {
        backend,
        precision: Some(precision.clone()),
        ..for_golden(&config.detector)
    };
    let tensorrt = load(settings(Backend::TensorRt), "tensorrt", report);
    // A precision without a file in the folder, such as fp16, is compared with fp32.
    let has_file = names.contains(&precision.as_str());
    let reference = if has_file { &precision } else { names[0] };
    let onnx = load(
        DetectorConfig {
            precision: Some(reference.to_owned()),
            ..settings(Backend::Onnx)
        },
        "onnx",
        report,
    );
    if tensorrt.is_none() && onnx.is_none() {
        report.failed(
            "detector",
            "neither TensorRT nor ONNX Runtime works on this machine; install one of them",
        );
        return Ok(numbers);
    }
    let recorded = golden.as_ref().and_then(|golden| golden.set(reference));
    for (name, run) in [("tensorrt", &tensorrt), ("onnx", &onnx)] {
        let Some(run) = run else { continue };
        let agreement = recorded.and_then(|set| compare_recorded(name, run, set, report));
        let alone = measure_speed(config, run, report)?;
        let of_backend = BackendResults {
            what: run.prepared.describe(),
            load_ms: run.load_ms,
            recorded: agreement,
            fps: alone.fps,
            workers: alone.workers,
            cpu_ms_per_frame: alone.cpu_ms_per_frame,
            stages: alone.stages,
        };
        match name {
            "tensorrt" => numbers.tensorrt = Some(of_backend),
            _ => numbers.onnx = Some(of_backend),
        }
    }
    if let (Some(first), Some(second)) = (&tensorrt, &onnx) {
        let found = agreement(&first.found, &second.found, &MatchCriteria::default());
        add_agreement("tensorrt and onnx", "each other", &found, report);
        numbers.each_other = Some(found);
    }
    let compared = numbers.each_other.is_some()
        || numbers
            .tensorrt
            .as_ref()
            .is_some_and(|of| of.recorded.is_some());
    numbers.is_proven = tensorrt.is_some() && compared && report.is_ok();
    Ok(numbers)
}

/// The settings of a network that is compared with recorded detections: all classes, and low scores, too.
pub(super) fn for_golden(network: &DetectorConfig) -> DetectorConfig {
    DetectorConfig {
        score_threshold: Some(GOLDEN_SCORE),
        classes: Vec::new(),
        groups: Vec::new(),
        ..network.clone()
    }
}

/// Why `frames` cannot be compared with `set`; `None`: they are the images of which it was recorded.
pub(super) fn other_images(frames: &[Frame], set: &GoldenSet) -> Option<String> {
    let hashes = frames.iter().map(image_hash);
    let differ = hashes
        .zip(&set.images)
        .filter(|(hash, image)| *hash != image.sha256)
        .count();
    (differ > 0 || frames.len() != set.images.len()).then(|| {
        format!(
            "{differ} of {} images differ from the {} recorded ones; record the detections again with this version",
            frames.len(),
            set.images.len()
        )
    })
}

/// How the detections of the images of `set` agree with it.
pub(super) fn agreement_with(set: &GoldenSet, found: &[Vec<Detection>]) -> Agreement {
    let recorded: Vec<_> = set.images.iter().map(GoldenImage::detections).collect();
    agreement(found, &recorded, &MatchCriteria::default())
}

/// The recorded detections of the model, if it has any.
fn golden(folder: &Path, report: &mut CheckReport) -> Option<Golden> {
    let path = folder.join(GOLDEN);
    if !path.exists() {
        let text = format!(
            "{} is missing, so there are no recorded detections to compare with; `jetwatch doctor --detector --record {}` writes it with ONNX Runtime",
            path.display(),
            path.display()
        );
        report.unknown("recorded", &text);
        return None;
    }
    let read = fs::read_to_string(&path).map_err(|error| error.to_string());
    let parsed = read.and_then(|text| Golden::parse(&text).map_err(|error| error.to_string()));
    match parsed {
        Ok(golden) => Some(golden),
        Err(error) => {
            report.failed("recorded", &format!("{}: {error}", path.display()));
            None
        }
    }
}

/// Loads a backend, runs it on the images, and adds the result.
fn load(settings: DetectorConfig, name: &str, report: &mut CheckReport) -> Option<Run> {
    let started = Instant::now();
    let prepared = match detect::load(&settings, &Recorder::default()) {
        Ok(prepared) => prepared,
        // A missing runtime or engine is not a failure.
        Err(error) if error.is_absence() || is_unbuilt(&error) => {
            report.unknown(name, &error.to_string());
            return None;
        }
        Err(error) => {
            report.failed(name, &error.to_string());
            return None;
        }
    };
    let load_ms = started.elapsed().as_secs_f64() * 1e3;
    let found = match golden_frames(&prepared, &synthetic_factory()) {
        Ok(frames) => detections_of(&prepared, &frames).map(|found| (found, frames)),
        Err(error) => Err(error),
    };
    match found {
        Ok((found, frames)) => {
            let text = format!("{}, loaded in {load_ms:.0} ms", prepared.describe());
            report.ok(name, &text);
            Some(Run {
                backend: settings.backend,
                precision: settings.precision,
                prepared,
                load_ms,
                found,
                frames,
            })
        }
        Err(error) => {
            report.failed(name, &error.to_string());
            None
        }
    }
}

/// Whether only the engine is missing.
fn is_unbuilt(error: &DetectError) -> bool {
    matches!(error, DetectError::Engine(EngineError::Missing(_)))
}

/// Compares a run with the recorded detections, if this version renders the same images.
fn compare_recorded(
    name: &str,
    run: &Run,
    set: &GoldenSet,
    report: &mut CheckReport,
) -> Option<Agreement> {
    if let Some(text) = other_images(&run.frames, set) {
        report.unknown(&format!("{name} against recorded"), &text);
        return None;
    }
    let found = agreement_with(set, &run.found);
    add_agreement(name, "the record", &found, report);
    Some(found)
}

fn add_agreement(name: &str, other: &str, found: &Agreement, report: &mut CheckReport) {
    let what = format!("{name} detections");
    let text = format!(
        "{:.1} % of {} and {:.1} % of {} confident boxes match those of {other} on {} images (expected {:.0} %), mean overlap {:.3}, scores within {:.3}",
        100.0 * found.first.share(),
        found.first.boxes,
        100.0 * found.second.share(),
        found.second.boxes,
        found.images,
        100.0 * MIN_SHARE,
        found.mean_iou,
        found.worst_score_difference
    );
    if found.first.boxes == 0 && found.second.boxes == 0 {
        report.unknown(&what, &format!("{text}; no detections"));
    } else if found.share() >= MIN_SHARE {
        report.ok(&what, &text);
    } else {
        let advice = "the precision may lose too much accuracy: compare with --precision fp32, and measure with `jetwatch eval`";
        report.failed(&what, &format!("{text}; {advice}"));
    }
}

/// Measures the speed of a backend on preloaded images.
fn measure_speed(
    config: &Config,
    run: &Run,
    report: &mut CheckReport,
) -> anyhow::Result<DetectorAlone> {
    let mut config = config.clone();
    let street = "synthetic://traffic?realtime=false&width=1280&height=720";
    config.sources = Config::for_source(street, None)?.sources;
    config.detector.backend = run.backend;
    config.detector.precision.clone_from(&run.precision);
    let frames = match run.backend {
        Backend::TensorRt => TIMED_FRAMES,
        _ => TIMED_FRAMES_ONNX,
    };
    let alone = bench_detector(&config, PRELOADED, WARMUP_FRAMES, frames)?;
    let gpu: Vec<String> = alone
        .stages
        .iter()
        .filter(|stage| stage.stage.is_on_gpu())
        .map(|stage| format!("{} {:.2}", stage.stage.name(), stage.p50_ms))
        .collect();
    let gpu = match gpu.is_empty() {
        true => String::new(),
        false => format!("; medians on the GPU in ms: {}", gpu.join(", ")),
    };
    let text = format!(
        "{:.0} frames/s with {} worker(s), {:.2} ms CPU per frame{gpu}",
        alone.fps, alone.workers, alone.cpu_ms_per_frame
    );
    report.ok(&format!("{} speed", run.prepared.backend()), &text);
    Ok(alone)
}

/// Writes the detections of ONNX Runtime on the CPU, in each precision of the model, to `path`. `on_precision` receives a
/// line of text for each precision.
pub(super) fn record(
    config: &Config,
    path: &Path,
    on_precision: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let Some(folder) = &config.detector.model else {
        bail!("found no model, expected one: give it with --model");
    };
    let spec = detect::model::ModelSpec::load(folder)
        .map_err(|error| PipelineError::from(DetectError::Model(error)))?;
    let mut golden = Golden::new(&spec.name, "onnx");
    for file in &spec.files {
        let settings = DetectorConfig {
            backend: Backend::Onnx,
            onnx_provider: jetwatch_config::OnnxProvider::Cpu,
            precision: Some(file.precision.clone()),
            score_threshold: Some(GOLDEN_SCORE),
            classes: Vec::new(),
            groups: Vec::new(),
            ..config.detector.clone()
        };
        let prepared =
            detect::load(&settings, &Recorder::default()).map_err(PipelineError::from)?;
        let frames = golden_frames(&prepared, &synthetic_factory())?;
        let found = detections_of(&prepared, &frames)?;
        let boxes: usize = found.iter().map(Vec::len).sum();
        let (detector, count) = (prepared.describe(), frames.len());
        on_precision(&format!("{detector}: {boxes} boxes on {count} images"));
        golden.sets.push(GoldenSet {
            precision: file.precision.clone(),
            images: frames
                .iter()
                .zip(&found)
                .map(|(frame, found)| GoldenImage::new(image_hash(frame), found))
                .collect(),
        });
    }
    let text = serde_json::to_string(&golden)?;
    // One image per line, for a comparison of two versions by line.
    let text = text.replace("{\"sha256\"", "\n{\"sha256\"");
    fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
}
