// SPDX-License-Identifier: Apache-2.0
//! One run in this process, to `benchmark.json`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use jetwatch_config::{Broker, Config, MetricsConfig, TlsConfig};
use jetwatch_pipeline::{Options, Pipeline};
use jetwatch_platform::{CpuCounters, Occupancy};
use jetwatch_source::SourceError;
use jetwatch_telemetry::{LatencyReport, Level, Recorder, StopToken, Trace, process_usage};
use jetwatch_types::Rate;

use super::results::{FILE, write};
use super::streams::{TrialObserver, copy_sources};
use super::system_info::SystemObserver;
use super::{BenchOptions, BenchStage, RunLimit, TraceStats, bench_stage, document};

/// The speeds of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Speed {
    /// Frames per second, end to end.
    pub fps: f64,
    /// Standard error of it, from the times of consecutive batches; `None` where fewer than three were measured or recorded.
    pub fps_standard_error: Option<f64>,
    /// Number of blocks of batches behind the standard error.
    pub fps_blocks: Option<usize>,
    /// Frames per second of the networks without the rest of the pipeline; `None` where none ran.
    pub inference_fps: Option<f64>,
    /// Frames per second that went through the network; `None` where none skips it.
    pub inferred_fps: Option<f64>,
    /// Frames, warm-up included.
    pub frames: u64,
    /// The detector's batches, warm-up included; `None` where they were not recorded, or none ran.
    pub batches: Option<u64>,
    /// CPU time of the whole process per frame, in ms.
    pub cpu_ms_per_frame: f64,
    /// Time of the GPU per frame, in ms; `None` where no GPU was timed.
    pub gpu_ms_per_frame: Option<f64>,
    /// Energy per frame, in joules, warm-up included; `None` where the machine does not measure it.
    pub joules_per_frame: Option<f64>,
    /// Highest resident memory, in MiB.
    pub peak_rss_mib: f64,
    /// Latency of the frames of live sources; `None` without any.
    pub latency: Option<LatencyReport>,
    /// Who used the CPU meanwhile; `None` where the kernel does not say so.
    pub occupancy: Option<Occupancy>,
}

impl Speed {
    /// The 95 % confidence interval of the frames per second, within this run; `None` where it is unknown.
    #[must_use]
    pub fn fps_interval(&self) -> Option<(f64, f64)> {
        let rate = Rate::stated(self.fps, self.fps_standard_error, self.fps_blocks)?;
        Some(rate.interval_95())
    }

    /// Takes the energy that `meta` holds.
    fn set_energy(&mut self, meta: &Value) {
        let joules = meta["energy"]["joules"].as_f64();
        self.joules_per_frame = joules
            .filter(|_| self.frames > 0)
            .map(|joules| joules / self.frames as f64);
    }
}

/// One run.
#[derive(Debug)]
pub struct SingleRun {
    /// The document as written.
    pub document: Value,
    /// The speeds of the document.
    pub speed: Speed,
    /// The file that holds the document.
    pub path: PathBuf,
    /// Whether a source failed for good.
    pub has_failed_sources: bool,
}

/// Runs the pipeline and writes `benchmark.json`. `started` is called with the running pipeline, `source_failed` at the end for
/// each source that failed for good.
///
/// # Errors
/// The pipeline cannot be started or fails, nothing is left to measure, or the file cannot be written.
pub fn measure_pipeline(
    args: &BenchOptions,
    mut config: Config,
    started: &dyn Fn(&Pipeline) -> anyhow::Result<()>,
    source_failed: &dyn Fn(&str, &SourceError),
) -> anyhow::Result<SingleRun> {
    isolate(&mut config, &args.output);
    if let Some(copies) = args.copies {
        copy_sources(&mut config, copies, args.fps)?;
    }
    let root = &args.root;
    let is_trial = args.copies.is_some();
    let trace = (args.keeps_ranges && !is_trial).then(Trace::default);
    let warmup = usize::try_from(args.warmup)?;
    let options = Options {
        duration: args.duration.filter(|_| !is_trial),
        max_frames: args.max_frames().filter(|_| !is_trial),
        max_batches: args.batches,
        // A trial of streams counts from outside.
        warmup_frames: match is_trial {
            true => 0,
            false => (warmup * config.detector.batch_size) as u64,
        },
        trace: trace.clone(),
        root: root.clone(),
        synthetic: Some(jetwatch_traffic::synthetic_factory()),
        ..Options::default()
    };
    let pipeline = Pipeline::start(&config, options)?;
    let runs = pipeline.detector_description().to_owned();
    started(&pipeline)?;
    let observer = SystemObserver::start(root, Some(&runs));
    let trial = is_trial.then(|| TrialObserver::start(&pipeline, args.trial_time()));
    let trial = trial.transpose()?;
    let outcome = pipeline.wait();
    let meta = observer.finish(args, Some(&runs));
    if let Some(failure) = outcome.failure {
        return Err(failure.into());
    }
    for (name, error) in &outcome.failed_sources {
        source_failed(name, error);
    }
    let trial = trial.map(TrialObserver::finish).transpose()?;
    let report = &outcome.report;
    let mut speed = Speed {
        fps: report.fps,
        inference_fps: Some(report.inference_fps),
        frames: report.sources.iter().map(|source| source.detected).sum(),
        cpu_ms_per_frame: report.cpu_ms_per_frame,
        peak_rss_mib: report.peak_rss_mib,
        latency: report.latency.clone(),
        occupancy: report.occupancy.clone(),
        ..Speed::default()
    };
    speed.set_energy(&meta);
    let mut result = match trace {
        Some(trace) => {
            let measured = TraceStats::new(&trace.drain(), warmup, config.detector.batch_size)?;
            set_speeds(&mut speed, &measured, &config);
            document(&measured, meta)
        }
        None => json!({ "meta": meta }),
    };
    result["run"] = json!(report);
    let skipped: u64 = report.sources.iter().map(|source| source.skipped).sum();
    if skipped > 0 {
        let inferred = speed.frames.saturating_sub(skipped) as f64;
        speed.inferred_fps = Some(speed.fps * inferred / speed.frames.max(1) as f64);
    }
    if let Some(trial) = trial {
        speed.fps = trial.fps();
        result["trial"] = json!(trial);
    }
    write_run(args, result, speed, !outcome.failed_sources.is_empty())
}

/// Runs one stage on input from memory until its limit or `stop`, and writes `benchmark.json`.
///
/// # Errors
/// The stage cannot be started or fails, nothing is left to measure, or the file cannot be written.
pub fn measure_stage(
    args: &BenchOptions,
    mut config: Config,
    part: BenchStage,
    stop: StopToken,
) -> anyhow::Result<SingleRun> {
    isolate(&mut config, &args.output);
    let trace = Trace::default();
    // A part that works on single frames has as many batches as frames.
    let size = config.detector.batch_size;
    let batches = args.batches.map(|batches| batches * size as u64);
    let budget = RunLimit::new(args.max_frames().or(batches), args.duration, stop);
    let observer = SystemObserver::start(&args.root, None);
    let (cpu, counters) = (process_usage().cpu, CpuCounters::read(&args.root));
    let preload = usize::from(args.preload);
    let recorder = Recorder::with_trace(Some(trace.clone()));
    let frames = bench_stage(&config, part, preload, budget, &recorder)?;
    let cpu = process_usage().cpu.saturating_sub(cpu);
    let occupancy = Occupancy::between(&counters, &CpuCounters::read(&args.root));
    let meta = observer.finish(args, None);
    let entries = trace.drain();
    let measured = TraceStats::new(&entries, usize::try_from(args.warmup)?, size)?;
    let mut speed = Speed {
        frames,
        cpu_ms_per_frame: cpu.as_secs_f64() * 1e3 / frames.max(1) as f64,
        peak_rss_mib: process_usage().peak_rss_bytes as f64 / f64::from(1 << 20),
        occupancy,
        ..Speed::default()
    };
    speed.set_energy(&meta);
    set_speeds(&mut speed, &measured, &config);
    let mut result = document(&measured, meta);
    let mut stages = recorder.summary().stages;
    stages.retain(|stage| stage.count > 0);
    result["stages"] = json!(stages);
    write_run(args, result, speed, false)
}

fn write_run(
    args: &BenchOptions,
    mut document: Value,
    speed: Speed,
    has_failed_sources: bool,
) -> anyhow::Result<SingleRun> {
    document["speed"] = json!(speed);
    let path = args.output.join(FILE);
    write(&path, &document)?;
    Ok(SingleRun {
        document,
        speed,
        path,
        has_failed_sources,
    })
}

/// Changes the configuration so that neither a daemon that runs at the same time, nor who receives its messages, is disturbed: broker,
/// spool, webhooks, metrics, page and files.
fn isolate(config: &mut Config, folder: &Path) {
    if let Some(mqtt) = &mut config.publish.mqtt {
        // Messages that wait there are the daemon's. Without this folder, they wait in memory.
        let none = folder.join("none/spool");
        mqtt.spool.runtime_folder = Some(none.clone());
        mqtt.spool.state_folder = Some(none);
        *mqtt = mqtt.only(Broker::Embedded {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        });
        mqtt.tls = TlsConfig::default();
    }
    config.publish.webhooks.clear();
    config.metrics = MetricsConfig::default();
    (config.web.enabled, config.web.listen) = (false, None);
    config.record.folder = Some(folder.join("media"));
    if let Some(lines) = &mut config.publish.json_lines {
        lines.path = Some(folder.join("messages.jsonl"));
    }
}

fn set_speeds(speed: &mut Speed, stats: &TraceStats, config: &Config) {
    speed.fps = stats.fps();
    let rate = stats.rate();
    speed.fps_standard_error = rate.map(|rate| speed.fps * rate.standard_error / rate.per_second);
    speed.fps_blocks = rate.map(|rate| rate.blocks);
    speed.gpu_ms_per_frame = stats.gpu_ms_per_frame();
    speed.inference_fps = stats.inference_fps(config.detector.workers);
    let detect = stats.level(Level::Detect);
    speed.batches = detect.map(|level| level.batches.len() as u64);
}

/// The machine of a run, its speeds, and what warns of them.
#[must_use]
pub fn run_summary(document: &Value, speed: &Speed) -> String {
    let mut lines = Vec::new();
    let meta = &document["meta"];
    for (title, value) in [
        ("Machine:   ", &meta["machine_name"]),
        ("Power:     ", &meta["power_mode"]),
        ("Detector:  ", &meta["versions"]["detector"]),
    ] {
        lines.extend(value.as_str().map(|text| format!("{title}{text}")));
    }
    add_speeds(speed, &mut lines);
    let throttling = meta["throttling"].as_array();
    for cause in throttling.into_iter().flatten().filter_map(Value::as_str) {
        lines.push(format!("Warning:   the machine was throttled: {cause}"));
    }
    lines.join("\n")
}

/// A further number with its unit, where it is known.
fn more(number: Option<f64>, unit: &str) -> String {
    number.map_or_else(String::new, |number| format!(", {number:.2} {unit}"))
}

fn add_speeds(speed: &Speed, lines: &mut Vec<String>) {
    let inference = speed.inference_fps.map_or_else(String::new, |fps| {
        let only = match speed.inferred_fps {
            // Frames that skip the network do not count for it.
            Some(inferred) if inferred < 0.99 * speed.fps => {
                format!(", {inferred:.1} of them with inference")
            }
            _ => String::new(),
        };
        format!("{only}; network alone (all workers) {fps:.1} frames/s with inference")
    });
    let batches = speed
        .batches
        .map(|batches| format!(" in {batches} batches"));
    let batches = batches.unwrap_or_default();
    let interval = match (speed.fps_interval(), speed.batches) {
        (Some((from, to)), _) => format!(" (95 % interval {from:.1} to {to:.1})"),
        (None, Some(_)) => " (interval unknown: fewer than three batches)".to_owned(),
        // Without single ranges there is nothing to estimate it from.
        (None, None) => String::new(),
    };
    lines.push(format!(
        "End to end {:.1} frames/s{interval}{inference}",
        speed.fps
    ));
    lines.push(format!(
        "           {} frames{batches}, {:.2} ms CPU per frame{}{}, {:.0} MiB",
        speed.frames,
        speed.cpu_ms_per_frame,
        more(speed.gpu_ms_per_frame, "ms GPU per frame"),
        more(speed.joules_per_frame, "J per frame"),
        speed.peak_rss_mib
    ));
    if let Some(latency) = &speed.latency {
        let whole = &latency.whole;
        lines.push(format!(
            "Latency    {:.1} ms (median; 95 %: {:.1}, maximum {:.1}) from the arrival of a frame to its messages",
            whole.median_ms,
            whole.p95_ms,
            whole.max_ms
        ));
    }
    if let Some(occupancy) = &speed.occupancy {
        lines.push(format!(
            "CPU        {:.2} of {} cores, {}",
            occupancy.own_cores,
            occupancy.allowed_cores,
            occupancy.describe_others()
        ));
        if occupancy.is_disturbed() {
            lines.push(
                "Warning:   frames/s and times are not those of a free machine: compare the CPU time per frame, or measure again"
                    .to_owned(),
            );
        }
    }
}
