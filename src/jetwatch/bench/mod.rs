//! `jetwatch bench`: how fast the chain, or a part of it, is on this machine.
//!
//! One run is measured in this process. Several (`--processes`, `--sweep`, `--repeat`, `--compare`) are processes of their
//! own, so that one that fails does not take the others with it, and none finds the caches of another.

mod ablation;
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

use jetwatch_bench::Axis;
use jetwatch_config::{Config, ConfigError};
use jetwatch_pipeline as pipeline;
use jetwatch_platform::SysRoot;
use jetwatch_platform::tune::{self, ClockBoost};
use jetwatch_telemetry as telemetry;

use super::{Exit, parse_duration};

/// Frames of a run that is not told when to end.
const FRAMES: u64 = 1000;

/// Frames of each step of the ablation, likewise: the first ones are slow.
const ABLATION_FRAMES: u64 = 300;

/// Rounds of a comparison that is not told how many.
const ROUNDS: u32 = 5;

/// What `jetwatch bench` is told.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// Configuration file. Its messages go to a broker inside of the benchmark and to files in the output folder.
    #[arg(short, long, value_name = "FILE", required_unless_present = "source", conflicts_with_all = ["source", "model"])]
    config: Option<PathBuf>,
    /// Any source, in the place of a configuration: a video file, rtsp://…, synthetic://…
    #[arg(long)]
    source: Option<String>,
    /// Model folder with its model.yaml; without one, ground truth of a synthetic source stands in for the network.
    #[arg(long, value_name = "DIR", requires = "source")]
    model: Option<String>,
    /// Set a key of the configuration, such as detector.workers=2. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Measure one part alone, the others fed from memory or left out.
    #[arg(long, value_enum, value_name = "PART")]
    only: Option<PartArg>,
    /// End after this many batches, warm-up included.
    #[arg(long, value_name = "N", conflicts_with_all = ["frames", "duration"], value_parser = clap::value_parser!(u64).range(1..))]
    batches: Option<u64>,
    /// End after this many frames, warm-up included. Default where nothing is given: 1000, with --ablation 300.
    #[arg(long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    frames: Option<u64>,
    /// End after this time, such as 20s or 5m.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Batches that are dropped at the front, and as many at the end.
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    warmup: u32,
    /// With --only: frames to load beforehand; they are used in turns.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    preload: u16,
    /// Folder for benchmark.json, in which everything is written that this command writes.
    #[arg(short, long, value_name = "DIR", default_value = "benchmark")]
    output: PathBuf,
    /// Print the speeds as JSON, not the tables.
    #[arg(long)]
    json: bool,
    /// Try every value of a key of the configuration: batch_size=1,2,4. Several of them are combined.
    #[arg(long, value_name = "KEY=VALUES", conflicts_with = "compare")]
    sweep: Vec<String>,
    /// A second configuration that is run in turns with the first.
    #[arg(long, value_name = "FILE", requires = "config")]
    compare: Option<PathBuf>,
    /// Run an ablation: six steps from a naive pipeline to the best one (queues, no rendering, scaling first, batches,
    /// INT8 at intervals), with the gain of each step.
    #[arg(long, conflicts_with_all = ["only", "batches", "sweep", "compare", "processes", "gpus", "no_record"])]
    ablation: bool,
    /// Run everything so many times. Default: 5 with --compare, else 1.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Processes that run side by side on each GPU, each on processor cores of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    processes: u16,
    /// GPUs that have processes of their own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    gpus: u16,
    /// Hold the clocks at their highest while it runs, as root, and give them back.
    #[arg(long)]
    maximize_clocks: bool,
    /// Keep no single ranges, only speeds: to see what keeping them costs.
    #[arg(long, conflicts_with_all = ["only", "processes", "gpus"])]
    no_record: bool,
    /// Which step of the ablation this process runs, from 1.
    #[arg(long, hide = true, value_name = "N")]
    ablation_step: Option<usize>,
    /// This process is one of several: end with the one that started it.
    #[arg(long, hide = true)]
    one_of_several: bool,
    /// Processor cores for this process, numbers with commas.
    #[arg(long, hide = true, value_delimiter = ',')]
    cores: Vec<usize>,
    /// Folder that stands for the whole system, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Parts that can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PartArg {
    /// The sources: decoding, scaling, and what is between.
    Decode,
    /// Scaling of one picture of the first source's size, repeated from memory.
    Scale,
    /// Tensor, network and decoding of its output, on preloaded frames.
    Detect,
    /// Tracker and life cycle, on detections of preloaded frames.
    Track,
    /// Messages of preloaded frames, up to the queues.
    Publish,
    /// Each layer of the network, run by run on single frames (TensorRT alone).
    Layers,
}

impl PartArg {
    /// As the chain knows it; `None` for layers, which are measured in another way.
    fn stage(self) -> Option<pipeline::BenchStage> {
        match self {
            Self::Decode => Some(pipeline::BenchStage::Decode),
            Self::Scale => Some(pipeline::BenchStage::Scale),
            Self::Detect => Some(pipeline::BenchStage::Detect),
            Self::Track => Some(pipeline::BenchStage::Track),
            Self::Publish => Some(pipeline::BenchStage::Publish),
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
