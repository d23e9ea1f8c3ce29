//! `jetwatch bench`: the speed of the pipeline, or of a part of it, on this machine.
//!
//! One run is measured in this process. Several (`--processes`, `--sweep`, `--repeat`, `--compare`) are separate
//! processes, so that a failure does not affect the others, and none finds the caches of another.

mod ablation;
mod cores;
mod layers;
mod run;
mod series;
mod system_info;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use rustix::process::Signal;
use rustix::thread::CpuSet;

use jetwatch_bench::{Axis, BenchStage};
use jetwatch_config::{Config, ConfigError};
use jetwatch_platform::SysRoot;
use jetwatch_platform::tune::{self, ClockBoost};
use jetwatch_telemetry as telemetry;

use super::{Exit, parse_duration};

/// Default number of frames of a run.
const FRAMES: u64 = 1000;

/// Default number of frames of each step of the ablation: the first ones are slow.
const ABLATION_FRAMES: u64 = 300;

/// Default number of rounds of a comparison.
const ROUNDS: u32 = 5;

/// Arguments of `jetwatch bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// Configuration file. Its messages go to an internal broker and to files in the output folder.
    #[arg(short, long, value_name = "FILE", required_unless_present = "source", conflicts_with_all = ["source", "model"])]
    config: Option<PathBuf>,
    /// Any source, instead of a configuration: a video file, rtsp://…, synthetic://…
    #[arg(long)]
    source: Option<String>,
    /// Model folder with its model.yaml; without one, ground truth of a synthetic source replaces the network.
    #[arg(long, value_name = "DIR", requires = "source")]
    model: Option<String>,
    /// Set a key of the configuration, such as detector.workers=2. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Measure one part only, with input from memory.
    #[arg(long, value_enum, value_name = "PART")]
    only: Option<PartArg>,
    /// Stop after this many batches, including warm-up.
    #[arg(long, value_name = "N", conflicts_with_all = ["frames", "duration"], value_parser = clap::value_parser!(u64).range(1..))]
    batches: Option<u64>,
    /// Stop after this many frames, including warm-up. Default where nothing is given: 1000, with --ablation 300.
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    frames: Option<u64>,
    /// Stop after this time, such as 20s or 5m.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Discard this many batches at the start, and as many at the end.
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    warmup: u32,
    /// With --only: number of frames to preload; they are used in turn.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    preload: u16,
    /// Folder for benchmark.json and all other output files.
    #[arg(short, long, value_name = "DIR", default_value = "benchmark")]
    output: PathBuf,
    /// Print the speeds as JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Try every value of a configuration key: batch_size=1,2,4. Several keys are combined.
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "compare")]
    sweep: Vec<String>,
    /// Compare with this second configuration; both run alternately.
    #[arg(long, value_name = "FILE", requires = "config")]
    compare: Option<PathBuf>,
    /// Run an ablation: six steps from a naive pipeline to the best one (queues, no rendering, scaling first, batches,
    /// INT8 at intervals), with the gain of each step.
    #[arg(long, conflicts_with_all = ["only", "batches", "sweep", "compare", "processes", "gpus", "no_record"])]
    ablation: bool,
    /// Repeat everything this many times. Default: 5 with --compare, else 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Number of concurrent processes on each GPU, each on its own CPU cores.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    processes: u16,
    /// GPUs to run processes on.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    gpus: u16,
    /// Hold the clocks at their maximum during the benchmark, as root, and restore them.
    #[arg(long)]
    maximize_clocks: bool,
    /// Keep no single ranges, only speeds: to measure the cost of keeping them.
    #[arg(long, conflicts_with_all = ["only", "processes", "gpus"])]
    no_record: bool,
    /// Step of the ablation for this process, from 1.
    #[arg(long, hide = true, value_name = "N")]
    ablation_step: Option<usize>,
    /// This process is one of several: end with its parent.
    #[arg(long, hide = true)]
    one_of_several: bool,
    /// CPU cores for this process, numbers separated by commas.
    #[arg(long, hide = true, value_delimiter = ',')]
    cores: Vec<usize>,
    /// Use this folder as the system's root, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Parts that can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartArg {
    /// The sources: decoding, scaling, conversion.
    Decode,
    /// Scaling of one image of the first source's size, repeated from memory.
    Scale,
    /// Tensor, inference and output decoding, on preloaded frames.
    Detect,
    /// Tracker and track life cycle, on detections of preloaded frames.
    Track,
    /// Messages of preloaded frames, up to the queues.
    Publish,
    /// Each layer of the network, on single frames (TensorRT only).
    Layers,
}

impl PartArg {
    /// As the chain knows it; `None` for layers, which are measured in another way.
    fn stage(self) -> Option<BenchStage> {
        match self {
            Self::Decode => Some(BenchStage::Decode),
            Self::Scale => Some(BenchStage::Scale),
            Self::Detect => Some(BenchStage::Detect),
            Self::Track => Some(BenchStage::Track),
            Self::Publish => Some(BenchStage::Publish),
            Self::Layers => None,
        }
    }
}

/// Measures what it is told.
pub(super) fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    if args.one_of_several {
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
            .context("cannot ask for the end together with the benchmark")?;
    }
    pin(&args.cores)?;
    let settings = args.settings()?;
    let config = args.config(args.config.as_deref(), &settings)?;
    if args.only == Some(PartArg::Layers) {
        let runs = usize::try_from(args.frames.unwrap_or(FRAMES))?;
        return layers::run(&config, usize::from(args.preload), runs);
    }
    let plan = series::RunPlan::new(args, &settings)?;
    prepare_folder(&args.output)?;
    let root = SysRoot::new(&args.root);
    if !args.one_of_several {
        for restored in tune::restore_after_crash(&root)? {
            let name = restored.setting.name();
            eprintln!(
                "{name}: {} again; a benchmark that was killed had held them",
                restored.before
            );
        }
    }
    let held = match args.maximize_clocks {
        true => Some(ClockBoost::acquire(&root)?),
        false => None,
    };
    let result = match plan {
        Some(plan) => plan.run(),
        None => run::run(args, config, &settings),
    };
    if let Some(held) = held {
        held.restore()?;
    }
    result
}

impl BenchArgs {
    /// What `--set` gives.
    fn settings(&self) -> anyhow::Result<Vec<(String, String)>> {
        let read = |text: &String| {
            let (key, value) = text.split_once('=').with_context(|| {
                format!("--set {text}: expected KEY=VALUE, such as detector.workers=2")
            })?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        };
        self.settings.iter().map(read).collect()
    }

    /// The configuration, from `file` or from `--source`.
    fn config(
        &self,
        file: Option<&Path>,
        settings: &[(String, String)],
    ) -> Result<Config, ConfigError> {
        match (file, &self.source) {
            (Some(file), _) => Config::load_with(file, settings),
            (None, source) => Config::for_source_with(
                source.as_deref().unwrap_or_default(),
                self.model.as_deref(),
                settings,
            ),
        }
    }

    fn axes(&self) -> anyhow::Result<Vec<Axis>> {
        let read = |text: &String| Ok(Axis::read(text)?);
        self.sweep.iter().map(read).collect()
    }

    fn rounds(&self) -> u32 {
        let usual = if self.compare.is_some() { ROUNDS } else { 1 };
        self.repeat.unwrap_or(usual)
    }

    /// Frames, where neither batches nor a time were given.
    fn max_frames(&self) -> Option<u64> {
        let is_open = self.batches.is_none() && self.duration.is_none();
        let usual = if self.ablation {
            ABLATION_FRAMES
        } else {
            FRAMES
        };
        self.frames.or(is_open.then_some(usual))
    }
}

/// Makes the folder and tries it, before anything has run for nothing.
fn prepare_folder(folder: &Path) -> anyhow::Result<()> {
    let trial = folder.join(".trial");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&trial, ""))
        .and_then(|()| fs::remove_file(&trial))
        .with_context(|| {
            format!(
                "cannot write to the folder {}; choose another one with --output",
                folder.display()
            )
        })
}

/// Keeps this process, which has one thread yet, on `cores`; none: where it is.
fn pin(cores: &[usize]) -> anyhow::Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for core in cores.iter().filter(|core| **core < CpuSet::MAX_CPU) {
        set.set(*core);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .with_context(|| format!("cannot stay on the processor cores {cores:?}"))
}
