// SPDX-License-Identifier: Apache-2.0
//! `jetwatch bench`: the speed of the pipeline, or of a part of it, on this machine.
//!
//! One run is measured in this process. Several (`--processes`, `--sweep`, `--repeat`, `--compare`, `--streams`) are separate
//! processes of this program, with hidden arguments. The measurements are those of `jetwatch_bench`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use jetwatch_bench::{self as bench, BenchOptions, BenchStage, Point, RunPlan, StreamGoal};
use jetwatch_config::{Config, MAX_SOURCES};
use jetwatch_nsys::report::{VERDICT, analyze_measurement, layers_summary, run_findings};
use jetwatch_pipeline::Pipeline;
use jetwatch_platform::tune::{self, ClockBoost};
use jetwatch_platform::{Machine, SysRoot};
use jetwatch_telemetry::{self as telemetry, StopToken};

use super::{Exit, parse_duration, progress, signals};

/// Maximum number of rows of a table; `jetwatch report --rows` shows more.
const MAX_ROWS: usize = 60;

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
    /// Stop after this many frames, including warm-up. Default where nothing is given: 1000.
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
    /// Change the keys of --sweep one after the other, each from its first value, and print the gain of each change. Without
    /// --sweep, the workers, batch sizes, precision and interval of the configuration are off at first.
    #[arg(long, conflicts_with_all = ["only", "compare", "processes", "gpus", "no_record"])]
    ablation: bool,
    /// Find the largest number of copies of the sources that run without drops, each at the pace of a camera; or run N copies.
    /// --duration is the time of each trial (default 10s).
    #[arg(long, value_name = "N", num_args = 0..=1, value_parser = parse_streams,
        conflicts_with_all = ["only", "batches", "frames", "sweep", "compare", "ablation", "processes", "gpus", "no_record"])]
    streams: Option<Option<usize>>,
    /// With --streams: frames per second of each copy. Default: that of the source.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=240))]
    fps: Option<u32>,
    /// With --streams: the most copies to try.
    #[arg(long, value_name = "N", default_value_t = MAX_SOURCES, value_parser = parse_streams, requires = "streams")]
    max_streams: usize,
    /// Repeat everything this many times. Default: 5 with --compare, 3 for the answer of --streams, else 1.
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
    /// What the series of this process varies, with its value.
    #[arg(long, hide = true, value_name = "KEY=VALUE")]
    varied: Vec<String>,
    /// Number of copies of the sources for this process.
    #[arg(long, hide = true, value_name = "N", value_parser = parse_streams)]
    copies: Option<usize>,
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

/// A number of streams, as many as a configuration may have.
fn parse_streams(text: &str) -> Result<usize, String> {
    let count = text.parse().ok();
    let count = count.filter(|count| (1..=MAX_SOURCES).contains(count));
    count.ok_or_else(|| format!("expected a number from 1 to {MAX_SOURCES}"))
}

/// Parts that can be measured separately.
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
    /// Each layer of the network, on single frames: time, share, type, precision and device.
    Layers,
}

impl PartArg {
    /// As on the command line.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The stage of the pipeline; `None` for layers, which are measured in another way.
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

/// Measures what the arguments ask for.
pub(super) fn run(args: &BenchArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    if args.one_of_several {
        bench::end_with_parent()?;
    }
    bench::pin(&args.cores)?;
    let options = args.options()?;
    let config = options.load_config()?;
    if args.only == Some(PartArg::Layers) {
        bench::prepare_folder(&options.output)?;
        let found = bench::measure_layers(&options, &config)?;
        if args.json {
            println!("{:#}", found.document);
        } else {
            println!("{}\n", layers_summary(&found.document));
            print_tables(&found.path, &found.document)?;
            println!("Written: {}", found.path.display());
        }
        return Ok(Exit::Success);
    }
    let plan = RunPlan::new(&options, &|text| eprintln!("jetwatch: warning: {text}"))?;
    bench::prepare_folder(&options.output)?;
    if !args.one_of_several {
        for restored in tune::restore_after_crash(&options.root)? {
            let name = restored.setting.name();
            eprintln!(
                "{name}: {} again; a benchmark that was killed had held them",
                restored.before
            );
        }
    }
    let held = match args.maximize_clocks {
        true => {
            ensure!(
                Machine::find(&options.root).is_jetson(),
                "--maximize-clocks needs a Jetson, and this machine is none; leave it out, and hold the clocks by other means, \
                 such as `cpupower frequency-set --governor performance`, or `nvidia-smi --lock-gpu-clocks=MHZ` for a GPU"
            );
            Some(ClockBoost::acquire(&options.root)?)
        }
        false => None,
    };
    let result = match plan {
        Some(plan) => run_series(args, &options, &plan),
        None => run_once(args, &options, config),
    };
    if let Some(held) = held {
        held.restore()?;
    }
    result
}

/// One run in this process.
fn run_once(args: &BenchArgs, options: &BenchOptions, config: Config) -> anyhow::Result<Exit> {
    let found = match args.only.and_then(PartArg::stage) {
        Some(stage) => {
            let stop = StopToken::default();
            signals::listen(stop.clone(), || {})?;
            bench::measure_stage(options, config, stage, stop)?
        }
        None => {
            let started = |pipeline: &Pipeline| {
                signals::listen(pipeline.stop_token(), pipeline.dot_request())?;
                if !args.one_of_several {
                    progress::show(pipeline.stop_token(), pipeline.progress());
                }
                Ok(())
            };
            bench::measure_pipeline(options, config, &started, &|name, error| {
                let text = format!("jetwatch: source {name}: {error}");
                eprintln!("{}", telemetry::with_error_prefix(&text));
            })?
        }
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&found.speed)?);
    } else if !args.one_of_several {
        let findings = print_tables(&found.path, &found.document)?;
        println!("{}", bench::run_summary(&found.document, &found.speed));
        for finding in findings {
            print!("\n{finding}");
        }
        println!("Written: {}", found.path.display());
    }
    Ok(match found.has_failed_sources {
        true => Exit::SourceFailed,
        false => Exit::Success,
    })
}

/// The tables of a document that was written to `path`, as `jetwatch report` has them; returns the findings of its verdict.
fn print_tables(path: &Path, document: &serde_json::Value) -> anyhow::Result<Vec<String>> {
    let found = analyze_measurement(path, document, "")?;
    for mut table in found.tables {
        if table.name != VERDICT {
            table.truncate(MAX_ROWS);
            println!("{}", table.to_text());
        }
    }
    Ok(found.verdict.unwrap_or_default())
}

/// What limits each step of an ablation, by the rules of the verdict on its first run.
fn print_step_limits(document: &serde_json::Value) {
    let mut lines = Vec::new();
    for point in document["points"].as_array().into_iter().flatten() {
        let runs = point["runs"].as_array().into_iter().flatten();
        let run = runs.filter(|run| run["error"].is_null()).find_map(|run| {
            let path = Path::new(run["folder"].as_str()?).join("benchmark.json");
            serde_json::from_slice::<serde_json::Value>(&std::fs::read(path).ok()?).ok()
        });
        let (Some(name), Some(run)) = (point["name"].as_str(), run) else {
            continue;
        };
        let findings = run_findings(&run["run"], run.get("meta"));
        // Without a stage, the first says why none is known.
        let of_stage = findings.iter().position(|found| found.stage.is_some());
        let limit = findings.into_iter().nth(of_stage.unwrap_or(0));
        lines.extend(
            limit.map(|limit| format!("  {name}: {}, because {}", limit.text, limit.evidence)),
        );
    }
    if !lines.is_empty() {
        println!("\nWhat limits each step:");
        println!("{}", lines.join("\n"));
    }
}

/// Several runs, each in a process of its own.
fn run_series(
    args: &BenchArgs,
    options: &BenchOptions,
    plan: &RunPlan<'_>,
) -> anyhow::Result<Exit> {
    let stop = StopToken::default();
    signals::listen(stop.clone(), || {})?;
    let command = |point: &Point, cores: &[String], output: &Path| {
        args.command(options.max_frames(), point, cores, output)
    };
    let found = plan.run(&stop, &command, &|line| eprintln!("{line}"))?;
    if args.json {
        println!("{:#}", found.document);
    } else {
        for finding in print_tables(&found.path, &found.document)? {
            print!("{finding}");
        }
        if options.ablation {
            print_step_limits(&found.document);
        }
        println!("Written: {}", found.path.display());
    }
    let Some(failure) = found.failure else {
        return Ok(Exit::Success);
    };
    eprintln!("jetwatch: {failure}");
    Ok(Exit::Failure)
}

impl BenchArgs {
    fn options(&self) -> anyhow::Result<BenchOptions> {
        Ok(BenchOptions {
            config: self.config.clone(),
            source: self.source.clone(),
            model: self.model.clone(),
            settings: pairs("--set", &self.settings)?,
            varied: pairs("--varied", &self.varied)?,
            part: self.only.map(PartArg::name),
            batches: self.batches,
            frames: self.frames,
            duration: self.duration,
            warmup: self.warmup,
            preload: self.preload,
            output: self.output.clone(),
            sweep: self.sweep.clone(),
            compare: self.compare.clone(),
            ablation: self.ablation,
            streams: self.streams.map(|count| match count {
                Some(count) => StreamGoal::Exactly(count),
                None => StreamGoal::Search {
                    max: self.max_streams,
                },
            }),
            fps: self.fps,
            copies: self.copies,
            repeat: self.repeat,
            processes: self.processes,
            gpus: self.gpus,
            maximize_clocks: self.maximize_clocks,
            keeps_ranges: !self.no_record,
            root: SysRoot::new(&self.root),
        })
    }

    /// This program again, for one run of a series that stops after `max_frames`.
    fn command(
        &self,
        max_frames: Option<u64>,
        point: &Point,
        cores: &[String],
        output: &Path,
    ) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("bench").arg("--one-of-several");
        command
            .arg("--output")
            .arg(output)
            .arg("--root")
            .arg(&self.root);
        command.args(["--warmup".to_owned(), self.warmup.to_string()]);
        command.args(["--preload".to_owned(), self.preload.to_string()]);
        if let Some(config) = &point.config {
            command.arg("--config").arg(config);
        }
        let texts = [
            ("--source", self.source.clone()),
            ("--model", self.model.clone()),
            ("--batches", self.batches.map(|batches| batches.to_string())),
            (
                "--frames",
                max_frames
                    .filter(|_| point.streams.is_none())
                    .map(|frames| frames.to_string()),
            ),
            (
                "--duration",
                self.duration
                    .map(|time| format!("{}ms", time.as_millis().max(1))),
            ),
            ("--only", self.only.map(PartArg::name)),
            ("--fps", self.fps.map(|fps| fps.to_string())),
            ("--copies", point.streams.map(|count| count.to_string())),
        ];
        for (option, value) in texts {
            if let Some(value) = value {
                command.arg(format!("{option}={value}"));
            }
        }
        for (key, value) in &point.settings {
            command.arg(format!("--set={key}={value}"));
        }
        for (key, value) in &point.varied {
            command.arg(format!("--varied={key}={value}"));
        }
        if self.no_record {
            command.arg("--no-record");
        }
        if !cores.is_empty() {
            command.arg("--cores").arg(cores.join(","));
        }
        Ok(command)
    }
}

/// Keys and values that an option gives.
fn pairs(option: &str, texts: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let read = |text: &String| {
        let (key, value) = text.split_once('=').with_context(|| {
            format!("{option} {text}: expected KEY=VALUE, such as detector.workers=2")
        })?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    texts.iter().map(read).collect()
}
