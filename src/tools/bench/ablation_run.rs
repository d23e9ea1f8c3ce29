//! Runs the ablation: the gain of each common optimization on this machine, with this configuration.
//!
//! Each step is a run of the whole pipeline in a separate process, as every run of a series is; this file configures one
//! step in that process, and collects all of them in the first one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Deserialize as _;
use serde_json::{Value, json};

use jetwatch_config::{Backend, Config, DetectorConfig, EngineBuild, Interval, OnnxProvider};
use jetwatch_detect::graph::{self, Axis};
use jetwatch_detect::{self as detect, engines, model::ModelSpec};
use jetwatch_pipeline::{self as pipeline, Options, PipelineError};
use jetwatch_record::Recording;

use super::run::{FILE, write};
use super::series::{PointResult, SERIES, SeriesResult};
use super::{
    AblationStep, Backpressure, BenchOptions, Capabilities, ExecutionMode, RunCost, ScaleAt,
    StepConfig, StepDetails, changed_settings, compute_gains, table,
};

/// The recording of the steps that draw, in the folder of the run.
const RECORDING: &str = "recording.mkv";

/// Steps after which nothing is recorded any more.
const LAST_COMPARED: AblationStep = AblationStep::WithoutRendering;

/// One step in its own process.
pub(super) struct StepRun {
    step: AblationStep,
    step_config: StepConfig,
    record: Option<PathBuf>,
    /// As it was given.
    config: Config,
    /// Crops are cut out of every Nth frame of a source.
    crop_interval: u64,
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
            config: config.clone(),
            crop_interval: match step {
                AblationStep::Interval => 1,
                _ => frames_per_inference(&AblationStep::Interval.apply(config, &capabilities)),
            },
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
            // The last step has crops of its frames with inference only. The others look at as many, so that no gain comes from
            // crops that are not looked at.
            crop_interval: self.crop_interval,
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
            "settings": changed_settings(&self.config, self.config()),
        })
    }
}

/// Frames of a source of which one goes through the network.
fn frames_per_inference(step: &StepConfig) -> u64 {
    match step.config.detector.interval {
        Interval::Frames(skipped) => u64::from(skipped) + 1,
        Interval::Adaptive => 1,
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
    let last = AblationStep::Interval.apply(config, &Capabilities::default());
    let each = frames_per_inference(&last);
    let last = last.config.detector;
    let batches = 2 * u64::from(args.warmup) + 1;
    let needed = batches * last.batch_size as u64 * each;
    if let Some(frames) = args.frames.filter(|frames| *frames < needed) {
        bail!(
            "--frames {frames} is too few: the last step detects on one frame in {} and makes batches of {}, of which --warmup \
             drops {} at the front and at the end; give {needed} or more",
            each,
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

/// Writes `series.json`: the gain of each step; and the configurations of the steps where they were asked for.
pub(super) fn write_result(
    args: &BenchOptions,
    results: &[PointResult],
    rounds: u32,
) -> anyhow::Result<SeriesResult> {
    let speeds: Vec<Vec<Option<f64>>> = results
        .iter()
        .map(|point| point.runs.iter().map(|run| run.fps).collect())
        .collect();
    let details = results
        .iter()
        .map(details)
        .collect::<anyhow::Result<Vec<StepDetails>>>()?;
    let files = match &args.write {
        Some(folder) => write_steps(args, folder, results, &details)?,
        None => Vec::new(),
    };
    let steps = compute_gains(&speeds, details);
    let machine = results.iter().flat_map(|point| &point.runs);
    let machine = machine
        .map(|run| &run.machine)
        .find(|machine| !machine.is_null());
    let document = json!({
        "kind": "ablation",
        "machine": machine,
        "ablation": { "steps": steps, "rounds": rounds, "runs": results },
    });
    let path = args.output.join(SERIES);
    write(&path, &document)?;
    let failed = speeds.iter().flatten().filter(|fps| fps.is_none()).count();
    let failure = (failed > 0).then(|| {
        format!(
            "{failed} runs failed; see the messages above and {}",
            path.display()
        )
    });
    let mut table = table::of_ablation(&steps);
    if let (Some(first), Some(folder)) = (files.first(), &args.write) {
        table += &format!(
            "\nConfigurations of the steps: {} in {}",
            files.len(),
            folder.display()
        );
        table += &format!("; for example jetwatch run --config {}", first.display());
    }
    Ok(SeriesResult {
        document,
        table,
        path,
        failure,
    })
}

/// What the runs of a step say besides their speeds. Notes and settings are those of the first run without an error.
fn details(point: &PointResult) -> anyhow::Result<StepDetails> {
    let mut details = StepDetails {
        secondary: point.secondary.clone(),
        ..StepDetails::default()
    };
    let mut is_first = true;
    for run in &point.runs {
        if run.error.is_some() {
            details.costs.push(None);
            continue;
        }
        let path = run.folder.join(FILE);
        let text = fs::read(&path).with_context(|| format!("no result in {}", path.display()))?;
        let document: Value = serde_json::from_slice(&text)?;
        details.costs.push(RunCost::of_run(&document));
        if std::mem::take(&mut is_first) {
            let step = &document["ablation"];
            details.notes = Vec::deserialize(&step["notes"])?;
            details.settings = Vec::deserialize(&step["settings"])?;
        }
    }
    for network in &details.secondary {
        details.notes.push(format!(
            "{}: {:.2} crops a frame",
            network.name, network.crops_per_frame
        ));
    }
    Ok(details)
}

/// Writes the configuration of each step that ran to `folder`. Returns the files.
fn write_steps(
    args: &BenchOptions,
    folder: &Path,
    results: &[PointResult],
    details: &[StepDetails],
) -> anyhow::Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut files = Vec::new();
    for ((step, point), details) in AblationStep::ALL.iter().zip(results).zip(details) {
        if point.fps.is_none() {
            continue;
        }
        let settings = [args.settings.as_slice(), &details.settings].concat();
        let yaml = match (&args.config, &args.source) {
            (Some(file), _) => Config::file_as_yaml(file, &settings)?,
            (None, source) => Config::source_as_yaml(
                source.as_deref().unwrap_or_default(),
                args.model.as_deref(),
                &settings,
            )?,
        };
        let path = folder.join(format!("{}.yaml", step.name()));
        jetwatch_files::write(&path, (header(*step, details) + &yaml).as_bytes())
            .with_context(|| format!("cannot write {}; choose another folder", path.display()))?;
        // It holds the passwords that the configuration holds.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
            .with_context(|| format!("cannot protect {}", path.display()))?;
        files.push(path);
    }
    Ok(files)
}

/// Comments at the head of the configuration of a step.
fn header(step: AblationStep, details: &StepDetails) -> String {
    let mut text = format!(
        "# Step {} of the ablation: {}\n",
        step.number(),
        step.title()
    );
    let mut conditions = Vec::new();
    if step.is_on_one_core() {
        conditions.push("one CPU core (taskset -c 0), one frame at a time");
    }
    if step.renders() {
        conditions.push("--record FILE");
    }
    if step.scales_in_worker() {
        conditions.push("images scaled by the detector, which only the benchmark does");
    }
    if !conditions.is_empty() {
        text += &format!("# Not set by keys: {}\n", conditions.join("; "));
    }
    for (key, value) in &details.settings {
        text += &format!("# {key}: {value}\n");
    }
    for note in &details.notes {
        text += &format!("# {}\n", note.replace('\n', " "));
    }
    text
}
