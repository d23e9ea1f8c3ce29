//! One run in this process, to `benchmark.json`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use jetwatch_bench::{AblationStep, BenchStage, RunLimit, TraceStats, bench_stage, document};
use jetwatch_config::{Broker, Config, TlsConfig};
use jetwatch_pipeline::{Options, Pipeline};
use jetwatch_platform::SysRoot;
use jetwatch_telemetry::{Level, StopToken, Trace, process_usage, with_error_prefix};

use super::super::{Exit, progress, signals};
use super::ablation::StepRun;
use super::system_info::SystemObserver;
use super::{BenchArgs, table};

/// The name of the result.
pub(super) const FILE: &str = "benchmark.json";

/// The speeds of a run, beside its ranges.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Speed {
    /// Frames per second from one end of what was measured to the other.
    pub(super) fps: f64,
    /// Frames per second of the networks alone; none where none ran.
    pub(super) inference_fps: Option<f64>,
    /// Frames, warm-up included.
    pub(super) frames: u64,
    /// The detector's batches, warm-up included; none where they were not recorded, or none ran.
    pub(super) batches: Option<u64>,
    /// CPU time of the whole process per frame, in ms.
    pub(super) cpu_ms_per_frame: f64,
    /// Highest resident memory, in MiB.
    pub(super) peak_rss_mib: f64,
}

/// Runs, writes, prints.
pub(super) fn run(
    args: &BenchArgs,
    mut config: Config,
    settings: &[(String, String)],
) -> anyhow::Result<Exit> {
    isolate(&mut config, &args.output);
    let rung = args.ablation_step.and_then(AblationStep::by_number);
    let step = rung.map(|rung| StepRun::new(rung, &config, &args.output));
    let part = args.only.and_then(super::PartArg::stage);
    let (mut result, speed, exit) = match part {
        Some(part) => run_stage(args, &config, settings, part)?,
        None => run_pipeline(args, &config, step.transpose()?, settings)?,
    };
    result["speed"] = json!(speed);
    write(&args.output.join(FILE), &result)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&speed)?);
    } else if !args.one_of_several {
        table::print(&result, &speed);
        println!("Written: {}", args.output.join(FILE).display());
    }
    Ok(exit)
}

/// Nothing that a daemon uses at the same time is touched: its broker, its client's name, its files.
fn isolate(config: &mut Config, folder: &Path) {
    if let Some(mqtt) = &mut config.publish.mqtt {
        mqtt.broker = Broker::Embedded {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        };
        mqtt.tls = TlsConfig::default();
    }
    if let Some(lines) = &mut config.publish.json_lines {
        lines.path = Some(folder.join("messages.jsonl"));
    }
}

type RunOutput = (Value, Speed, Exit);

fn run_pipeline(
    args: &BenchArgs,
    config: &Config,
    mut step: Option<StepRun>,
    settings: &[(String, String)],
) -> anyhow::Result<RunOutput> {
    let root = SysRoot::new(&args.root);
    let trace = (!args.no_record).then(Trace::default);
    let warmup = usize::try_from(args.warmup)?;
    let (pipeline, config) = loop {
        let config = step.as_ref().map_or(config, StepRun::config).clone();
        let options = Options {
            duration: args.duration,
            max_frames: args.max_frames(),
            max_batches: args.batches,
            warmup_frames: (warmup * config.detector.batch_size) as u64,
            trace: trace.clone(),
            root: root.clone(),
            ..Options::default()
        };
        let options = match &step {
            Some(step) => step.adapt(options),
            None => options,
        };
        match Pipeline::start(&config, options) {
            Ok(pipeline) => break (pipeline, config),
            Err(error) => {
                if !step
                    .as_mut()
                    .is_some_and(|step| step.retry_single_crops(&error))
                {
                    return Err(error.into());
                }
            }
        }
    };
    let runs = pipeline.detector_description().to_owned();
    signals::listen(pipeline.stop_token(), pipeline.dot_request())?;
    if !args.one_of_several {
        progress::show(pipeline.stop_token(), pipeline.progress());
    }
    let observer = SystemObserver::start(&root);
    let outcome = pipeline.wait();
    let meta = observer.finish(args, settings, Some(&runs));
    if let Some(failure) = outcome.failure {
        return Err(failure.into());
    }
    for (name, error) in &outcome.failed_sources {
        let text = format!("jetwatch: source {name}: {error}");
        eprintln!("{}", with_error_prefix(&text));
    }
    let exit = match outcome.failed_sources.is_empty() {
        true => Exit::Success,
        false => Exit::SourceFailed,
    };
    let report = &outcome.report;
    let mut speed = Speed {
        fps: report.fps,
        inference_fps: Some(report.inference_fps),
        frames: report.sources.iter().map(|source| source.detected).sum(),
        batches: None,
        cpu_ms_per_frame: report.cpu_ms_per_frame,
        peak_rss_mib: report.peak_rss_mib,
    };
    let mut result = match trace {
        Some(trace) => {
            let measured = TraceStats::new(&trace.drain(), warmup, config.detector.batch_size)?;
            set_speeds(&mut speed, &measured, &config);
            document(&measured, meta)
        }
        None => json!({ "meta": meta }),
    };
    result["run"] = json!(report);
    if let Some(step) = step {
        result["ablation"] = step.to_json();
    }
    Ok((result, speed, exit))
}

fn run_stage(
    args: &BenchArgs,
    config: &Config,
    settings: &[(String, String)],
    part: BenchStage,
) -> anyhow::Result<RunOutput> {
    let root = SysRoot::new(&args.root);
    let (trace, stop) = (Trace::default(), StopToken::default());
    signals::listen(stop.clone(), || {})?;
    // A part that works on single frames has as many batches as frames.
    let size = config.detector.batch_size;
    let batches = args.batches.map(|batches| batches * size as u64);
    let budget = RunLimit::new(args.max_frames().or(batches), args.duration, stop);
    let observer = SystemObserver::start(&root);
    let cpu = process_usage().cpu;
    let preload = usize::from(args.preload);
    let frames = bench_stage(config, part, preload, budget, &trace)?;
    let cpu = process_usage().cpu.saturating_sub(cpu);
    let meta = observer.finish(args, settings, None);
    let entries = trace.drain();
    let measured = TraceStats::new(&entries, usize::try_from(args.warmup)?, size)?;
    let mut speed = Speed {
        fps: 0.0,
        inference_fps: None,
        frames,
        batches: None,
        cpu_ms_per_frame: cpu.as_secs_f64() * 1e3 / frames.max(1) as f64,
        peak_rss_mib: process_usage().peak_rss_bytes as f64 / f64::from(1 << 20),
    };
    set_speeds(&mut speed, &measured, config);
    Ok((document(&measured, meta), speed, Exit::Success))
}

fn set_speeds(speed: &mut Speed, stats: &TraceStats, config: &Config) {
    speed.fps = stats.fps();
    speed.inference_fps = stats.inference_fps(config.detector.workers);
    let detect = stats.level(Level::Detect);
    speed.batches = detect.map(|level| level.batches.len() as u64);
}

/// Writes beside the file first, so that a reader never sees half of it.
pub(super) fn write(path: &Path, document: &Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document)? + "\n";
    let partial = path.with_extension("json.partial");
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| {
            format!(
                "cannot write {}; choose another folder with --output",
                path.display()
            )
        })
}
