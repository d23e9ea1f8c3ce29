//! Runs the ablation: the gain of each common optimization on this machine, with this configuration.
//!
//! Each step is a run of the whole pipeline in a separate process, as every run of a series is; this file configures one
//! step in that process, and collects all of them in the first one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use jetwatch_config::{Backend, Config, DetectorConfig, EngineBuild, Interval, OnnxProvider};
use jetwatch_detect::graph::{self, Axis};
use jetwatch_detect::{self as detect, engines, model::ModelSpec};
use jetwatch_pipeline::{self as pipeline, Options, PipelineError};
use jetwatch_record::Recording;

use super::run::{FILE, write};
use super::series::{PointResult, SeriesResult};
use super::{
    AblationStep, Backpressure, BenchOptions, Capabilities, CpuPerFrame, ExecutionMode, ScaleAt,
    StepConfig, compute_gains, cpu_per_frame, table,
};

/// The recording of the steps that draw, in the folder of the run.
const RECORDING: &str = "recording.mkv";

/// The name of the result.
const RESULT: &str = "ablation.json";

/// Steps after which nothing is recorded any more.
const LAST_COMPARED: AblationStep = AblationStep::WithoutRendering;

/// One step in its own process.
pub(super) struct StepRun {
    step: AblationStep,
    step_config: StepConfig,
    record: Option<PathBuf>,
}

impl StepRun {
    /// The part of `config` that `step` runs. Recordings are written to `folder`.
    pub(super) fn new(step: AblationStep, config: &Config, folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(RECORDING);
        let mut capabilities = capabilities(config)?;
        if step <= LAST_COMPARED {
            capabilities.recording_error = Recording::prepare(&path)
                .err()
                .map(|error| error.to_string());
        }
        let renders = step.renders() && capabilities.recording_error.is_none();
        if !renders {
            // It was created only to test whether recording works.
            let _ = fs::remove_file(&path);
        }
        Ok(Self {
            step,
            step_config: step.apply(config, &capabilities),
            record: renders.then_some(path),
        })
    }

    /// The configuration to run.
    pub(super) fn config(&self) -> &Config {
        &self.step_config.config
    }

    /// The options of its run, besides those that every run has.
    pub(super) fn adapt(&self, options: Options) -> Options {
        let turns = match self.step.is_on_one_core() {
            true => Backpressure::Serial,
            false => Backpressure::Block,
        };
        let scaling = match self.step.scales_in_worker() {
            true => ScaleAt::Detector,
            false => ScaleAt::Source,
        };
        let mode = ExecutionMode {
            backpressure: turns,
            scale_at: scaling,
        };
        let options = Options {
            record: self.record.clone(),
            ..options
        };
        mode.apply(self.config(), options)
    }

    /// Changes the step so that it can run after `error`: a network that takes one crop at a time gets single crops. Returns
    /// whether there was something to change.
    pub(super) fn retry_single_crops(&mut self, error: &PipelineError) -> bool {
        let PipelineError::SecondaryBatch { key, model, .. } = error else {
            return false;
        };
        let networks = self.step_config.config.secondary.iter_mut().enumerate();
        for (index, network) in networks {
            if *key == format!("secondary[{index}].batch_size") && network.batch_size > 1 {
                network.batch_size = 1;
                let note = format!("{}: {model} takes one crop at a time", network.name);
                self.step_config.notes.push(note);
                return true;
            }
        }
        false
    }

    /// Its part of `benchmark.json`.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "step": self.step.number(),
            "name": self.step.name(),
            "notes": self.step_config.notes,
        })
    }
}

/// Capabilities that the model folders of `config` declare.
fn capabilities(config: &Config) -> anyhow::Result<Capabilities> {
    let mut capabilities = Capabilities {
        runs_on_cpu: runs_on_cpu(&config.detector),
        ..Capabilities::default()
    };
    if let (Backend::Auto | Backend::Onnx | Backend::TensorRt, Some(model)) =
        (config.detector.backend, &config.detector.model)
    {
        capabilities.primary = Some(precisions(model)?);
        capabilities.is_batch_one_only = is_batch_one_only(model)?;
    }
    for network in &config.secondary {
        capabilities.secondary.push(precisions(&network.model)?);
    }
    Ok(capabilities)
}

/// Whether ONNX Runtime runs the networks on the CPU. The configuration names TensorRT where that runs them
/// ([`common_runtime`]).
fn runs_on_cpu(detector: &DetectorConfig) -> bool {
    let has_gpu = || engines::device().is_ok();
    match (detector.backend, detector.onnx_provider) {
        (Backend::TensorRt, _) | (_, OnnxProvider::Cuda) => false,
        (_, OnnxProvider::Cpu) => true,
        (_, OnnxProvider::Auto) => !has_gpu(),
    }
}

/// Whether a file of the model is for batches of one: then no step may have larger ones.
fn is_batch_one_only(folder: &Path) -> anyhow::Result<bool> {
    let spec = ModelSpec::load(folder)?;
    if spec.output.layout.rows_vary() {
        return Ok(true);
    }
    for file in &spec.files {
        // A file that a step uses is opened later, with an error of its own.
        let Ok(network) = graph::read(&file.path) else {
            continue;
        };
        let input = network
            .inputs
            .iter()
            .find(|input| input.name == spec.input.name);
        let axes = input.and_then(|input| input.axes.as_ref());
        if let Some(Axis::Fixed(_)) = axes.and_then(|axes| axes.first()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The setting that makes the networks of all steps run on one runtime, in addition to the user's own settings. With [`Backend::Auto`], a step whose TensorRT engine was not built would run on ONNX Runtime.
///
/// # Errors
/// Engines are missing, and the configuration does not allow to build them.
pub(super) fn common_runtime(config: &Config) -> anyhow::Result<Option<(String, String)>> {
    let backend = config.detector.backend;
    if backend == Backend::Onnx {
        return Ok(None);
    }
    let capabilities = capabilities(config)?;
    let of_step =
        |step: &AblationStep| pipeline::all_networks(&step.apply(config, &capabilities).config);
    let networks: Vec<_> = AblationStep::ALL.iter().flat_map(of_step).collect();
    let networks: Vec<_> = (networks.into_iter())
        .filter(|network| network.backend != Backend::Scripted)
        .collect();
    let here = match detect::check_engines(&networks) {
        // The first step fails with the same error.
        Err(_) => return Ok(None),
        Ok(here) => here,
    };
    if !here.missing.is_empty() && config.detector.tensorrt.build == EngineBuild::Never {
        if here.found == 0 && backend != Backend::TensorRt {
            // All of them run on ONNX Runtime, each with a warning.
            return Ok(None);
        }
        let commands: Vec<&str> = (here.missing.iter())
            .map(|missing| missing.command.as_str())
            .collect();
        bail!(
            "the steps need TensorRT engines that do not exist; build them with\n    {}\n\
             or let the steps do it with --set detector.tensorrt.build=allow (which is not part of the time measured), or run \
             on ONNX Runtime with --set detector.backend=onnx",
            commands.join("\n    ")
        );
    }
    let is_left_open = backend == Backend::Auto && !networks.is_empty();
    Ok(is_left_open.then(|| ("detector.backend".to_owned(), "tensorrt".to_owned())))
}

/// The precisions that a model folder has.
fn precisions(folder: &Path) -> anyhow::Result<Vec<String>> {
    let spec = ModelSpec::load(folder)?;
    let files = spec.files.iter();
    Ok(files.map(|file| file.precision.clone()).collect())
}

/// Warns, before anything runs, about effects that the ablation cannot show; fails where the last step would have too few frames.
pub(super) fn check_prerequisites(
    args: &BenchOptions,
    config: &Config,
    warn: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let last = AblationStep::Int8
        .apply(config, &Capabilities::default())
        .config
        .detector;
    let skipped = match last.interval {
        Interval::Frames(skipped) => u64::from(skipped),
        Interval::Adaptive => 0,
    };
    let batches = 2 * u64::from(args.warmup) + 1;
    let needed = batches * last.batch_size as u64 * (skipped + 1);
    if let Some(frames) = args.frames.filter(|frames| *frames < needed) {
        bail!(
            "--frames {frames} is too few: the last step detects on one frame in {} and makes batches of {}, of which --warmup \
             drops {} at the front and at the end; give {needed} or more",
            skipped + 1,
            last.batch_size,
            args.warmup
        );
    }
    let level = AblationStep::Naive
        .apply(config, &Capabilities::default())
        .config;
    let live = level.sources.iter().filter(|source| source.uri.is_live());
    for source in live {
        warn(&format!(
            "{} gives frames at its own pace, which no step can exceed; use a file or a pattern in its place",
            source.name
        ));
    }
    Ok(())
}

/// Writes `ablation.json`: the gain of each step.
pub(super) fn write_result(
    args: &BenchOptions,
    results: &[PointResult],
    rounds: u32,
) -> anyhow::Result<SeriesResult> {
    let speeds: Vec<Vec<Option<f64>>> = results
        .iter()
        .map(|point| point.runs.iter().map(|run| run.fps).collect())
        .collect();
    let reported = results.iter().map(summary).collect::<anyhow::Result<_>>()?;
    let steps = compute_gains(&speeds, reported);
    let document = json!({ "ablation": { "steps": steps, "rounds": rounds, "runs": results } });
    let path = args.output.join(RESULT);
    write(&path, &document)?;
    let failed = speeds.iter().flatten().filter(|fps| fps.is_none()).count();
    let failure = (failed > 0).then(|| {
        format!(
            "{failed} runs failed; see the messages above and {}",
            path.display()
        )
    });
    Ok(SeriesResult {
        document,
        table: table::of_ablation(&steps),
        path,
        failure,
    })
}

/// Stage times and notes of a step, from its first run without an error.
fn summary(point: &PointResult) -> anyhow::Result<(Vec<CpuPerFrame>, Vec<String>)> {
    let Some(run) = point.runs.iter().find(|run| run.error.is_none()) else {
        return Ok((Vec::new(), Vec::new()));
    };
    let path = run.folder.join(FILE);
    let text = fs::read(&path).with_context(|| format!("no result in {}", path.display()))?;
    let document: Value = serde_json::from_slice(&text)?;
    let notes = document["ablation"]["notes"]
        .as_array()
        .into_iter()
        .flatten();
    let notes = notes.filter_map(|note| note.as_str().map(str::to_owned));
    let mut notes: Vec<String> = notes.collect();
    let run = &document["run"];
    let frames = run["sources"].as_array().into_iter().flatten();
    let frames: f64 = frames
        .filter_map(|source| source["detected"].as_f64())
        .sum();
    for network in run["secondary"].as_array().into_iter().flatten() {
        if let (Some(name), Some(crops)) = (network["name"].as_str(), network["crops"].as_f64()) {
            notes.push(format!(
                "{name}: {:.1} crops a frame",
                crops / frames.max(1.0)
            ));
        }
    }
    Ok((cpu_per_frame(run), notes))
}
