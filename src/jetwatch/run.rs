// SPDX-License-Identifier: Apache-2.0
//! `jetwatch run`: the daemon.

mod output_paths;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use rustix::fs::Mode;

use jetwatch_config::{Config, ConfigError, MAX_BATCH_SIZE, TuneConfig};
use jetwatch_pipeline::{ConfigLoader, FrameCallback, Options, Outcome, Pipeline, RunReport};
use jetwatch_platform::SysRoot;
use jetwatch_record::Container;
use jetwatch_telemetry::{self as telemetry, health_report, systemd};
use jetwatch_types::{Detection, FrameMeta, Track};

use super::signals::EarlySignals;
use super::{CONFIG_FILE, Exit, parse_duration, progress};

/// Arguments of `jetwatch run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Configuration file.
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
    /// Stop after this time, such as 20s or 5m.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Stop after this many frames, over all sources.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_frames: Option<u64>,
    /// Exclude this many frames from the measurement (warm-up).
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup_frames: u64,
    /// Override detector.batch_size.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=MAX_BATCH_SIZE))]
    batch_size: Option<u8>,
    /// Write the run's statistics to this file as JSON.
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Write the health of the run to this file every second, for `jetwatch health --file`. Under systemd the default is health-NAME.json in /run/jetwatch, where NAME is that of the configuration.
    #[arg(long, value_name = "FILE")]
    health: Option<PathBuf>,
    /// Write DOT graphs of every GStreamer pipeline to this folder: on state changes, on errors, and on SIGUSR1.
    #[arg(long, value_name = "DIR", env = "GST_DEBUG_DUMP_DOT_DIR")]
    dot: Option<PathBuf>,
    /// Write every frame's detections, before the tracker, as MOTChallenge text (one source only).
    #[arg(long, value_name = "FILE")]
    dump_detections: Option<PathBuf>,
    /// Record video of all sources with their tracks to this file: .mp4, .mkv or .webm. All frames of a file are recorded: its reader waits. Of live sources, frames that the encoder cannot keep up with are dropped from the recording; detection is not affected.
    #[arg(long, value_name = "FILE", value_parser = parse_recording)]
    record: Option<PathBuf>,
    /// Use this folder as the system's root, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Runs the daemon until it ends.
pub(super) fn run(
    args: &RunArgs,
    started: Instant,
    signals: Option<EarlySignals>,
) -> anyhow::Result<Exit> {
    let signals = signals.map_or_else(EarlySignals::keep, Ok)?;
    // Files are for the owner and the group alone, whatever the caller's mask is.
    let mask = rustix::process::umask(Mode::empty());
    rustix::process::umask(mask | Mode::WGRP | Mode::RWXO);
    let config = load(&args.config, args.batch_size)?;
    let targets = [
        ("metrics.text_file", config.metrics.text_file.as_deref()),
        ("--stats", args.stats.as_deref()),
        ("--health", args.health.as_deref()),
        ("--dump-detections", args.dump_detections.as_deref()),
        ("--record", args.record.as_deref()),
    ];
    output_paths::check(&targets, &config)?;
    if let Some(stats) = &args.stats {
        output_paths::check_file("--stats", stats)?;
    }
    if let Some(health) = &args.health {
        output_paths::check_file("--health", health)?;
    }
    if let Some(folder) = &args.dot {
        fs::create_dir_all(folder)
            .with_context(|| format!("--dot: cannot create folder {}", folder.display()))?;
        output_paths::check_folder("--dot", folder)?;
    }
    telemetry::start_logging(config.log.level);
    for note in &config.notes {
        log::warn!("{}: {note}", args.config.display());
    }
    if config.web.enabled && config.web.listen.is_none() {
        log::info!(
            "no page is served: no folder for its users can be written; set JETWATCH_STATE_DIR to one"
        );
    }
    if systemd::is_managed()
        && args.config != Path::new(CONFIG_FILE)
        && config.tune != TuneConfig::default()
    {
        log::warn!(
            "ignoring section `tune` of {}: jetwatch-tune.service reads it only from {CONFIG_FILE}",
            args.config.display()
        );
    }
    let dump_failure = DumpFailure::default();
    let options = Options {
        process_started: Some(started),
        duration: args.duration,
        max_frames: args.max_frames,
        warmup_frames: args.warmup_frames,
        dot_folder: args.dot.clone(),
        frame_callback: args
            .dump_detections
            .as_deref()
            .map(|path| dump_to(path, &config, &dump_failure))
            .transpose()?,
        record: args.record.clone(),
        root: SysRoot::new(&args.root),
        config_path: Some(args.config.clone()),
        health_file: health_file(args),
        page_files: jetwatch_config::page_files(&args.config),
        check_command: check_command(&args.config),
        camera_finder: Some(super::discover::finder()),
        config_loader: Some(config_loader(args)),
        synthetic: Some(jetwatch_traffic::synthetic_factory()),
        ..Options::default()
    };
    let pipeline = Pipeline::start(&config, options)?;
    signals.listen(
        pipeline.stop_token(),
        pipeline.dot_request(),
        pipeline.reload_request(),
    )?;
    log::info!(sources = config.sources.len(); "running as {}", config.device);
    progress::show(pipeline.stop_token(), pipeline.progress());
    let exit = finish(pipeline.wait(), args.stats.as_deref())?;
    if let Some(error) = dump_failure.get() {
        anyhow::bail!(
            "--dump-detections: the file is incomplete: {error}; free disk space, or choose another disk"
        );
    }
    Ok(exit)
}

/// The file for the health of the run: the one that was asked for, or that of the unit.
fn health_file(args: &RunArgs) -> Option<PathBuf> {
    let of_unit = || {
        let path = health_report::unit_file(&args.config);
        let is_usable = systemd::is_managed() && path.parent().is_some_and(Path::is_dir);
        is_usable.then_some(path)
    };
    args.health.clone().or_else(of_unit)
}

/// Why detections could not be written, once they could not.
type DumpFailure = Arc<OnceLock<std::io::Error>>;

fn load(path: &Path, batch_size: Option<u8>) -> Result<Config, ConfigError> {
    let mut config = Config::load(path)?;
    if let Some(size) = batch_size {
        config.detector.batch_size = usize::from(size);
    }
    // Without a folder for its users, there is a page only where the configuration names one.
    if let Some(state) = jetwatch_config::own_state_folder() {
        config.add_default_page(&state);
    }
    Ok(config)
}

/// `jetwatch doctor` of this very program, also where a newer one has taken its place on the disk. In a process of its own: it opens
/// NVIDIA's libraries and GStreamer's elements to see whether they work, and may be ended at any time.
fn check_command(config: &Path) -> Vec<OsString> {
    let arguments = ["/proc/self/exe", "doctor", "--config"].map(OsString::from);
    let config = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    arguments.into_iter().chain([config.into()]).collect()
}

fn config_loader(args: &RunArgs) -> ConfigLoader {
    let (path, batch_size) = (args.config.clone(), args.batch_size);
    Box::new(move || load(&path, batch_size))
}

/// Logs the result of the run, writes its statistics, and selects the exit code.
pub(super) fn finish(outcome: Outcome, stats: Option<&Path>) -> anyhow::Result<Exit> {
    let report = &outcome.report;
    log::info!(
        frames = report.frames, dropped = report.dropped, events = report.events;
        "ended: {:.1} frames/s, inference only {:.1} frames/s, {:.2} ms CPU per frame, peak {:.0} MiB",
        report.fps, report.inference_fps, report.cpu_ms_per_frame, report.peak_rss_mib
    );
    if let Some(taken) = report
        .occupancy
        .as_ref()
        .filter(|taken| taken.is_disturbed())
    {
        log::info!("{} during this run", taken.describe_others());
    }
    let best_effort = report.messages_best_effort_dropped;
    let lost = report.messages_lost;
    if lost > 0 {
        let outputs = report.outputs.iter();
        let outputs = outputs.filter(|output| output.items == "messages" && output.lost > 0);
        let by: Vec<String> = outputs
            .map(|output| format!("{} {} of {}", output.name, output.lost, output.accepted))
            .collect();
        // Of them: those that waited for their output at the end, and not in a spool.
        let waited = report.messages_queued - report.messages_spooled;
        log::warn!(lost, waited; "messages were lost: {}", by.join(", "));
    }
    if best_effort > 0 {
        log::info!(
            messages = best_effort;
            "messages of QoS 0 (statistics, detections) were not sent: there was no connection to the broker"
        );
    }
    if let Some(recorded) = &report.recording {
        let (level, outcome) = match outcome.recording_failure {
            None => (log::Level::Info, "recorded to"),
            Some(_) => (log::Level::Warn, "incomplete recording to"),
        };
        log::log!(
            level, frames = recorded.frames, dropped = recorded.dropped, images = recorded.images;
            "{outcome} {} by {}",
            recorded.path.display(), recorded.encoder
        );
    }
    if let Some(path) = stats {
        write_stats(path, report)?;
    }
    if let Some(failure) = outcome.failure {
        return Err(failure.into());
    }
    for (name, error) in &outcome.failed_sources {
        let text = format!("jetwatch: source {name}: {error}");
        eprintln!("{}", telemetry::with_error_prefix(&text));
    }
    if let Some(failure) = outcome
        .recording_failure
        .filter(|_| outcome.failed_sources.is_empty())
    {
        return Err(failure.into());
    }
    Ok(if outcome.failed_sources.is_empty() {
        Exit::Success
    } else {
        Exit::SourceFailed
    })
}

/// Parses a video file name with a known extension.
pub(super) fn parse_recording(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    Container::from_path(&path).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Writes atomically, so that readers never see a partial report.
fn write_stats(path: &Path, report: &RunReport) -> anyhow::Result<()> {
    let text =
        serde_json::to_string_pretty(report).context("cannot write the statistics as JSON")?;
    jetwatch_files::write(path, (text + "\n").as_bytes()).with_context(|| {
        format!(
            "cannot write {}; choose a writable place with --stats",
            path.display()
        )
    })
}

/// A callback that writes detections as MOTChallenge text: frame (from 1), -1, left, top, width, height, score, class, -1, -1.
fn dump_to(path: &Path, config: &Config, failure: &DumpFailure) -> anyhow::Result<FrameCallback> {
    anyhow::ensure!(
        config.sources.len() == 1,
        "--dump-detections needs a configuration with one source, this one has {}; MOTChallenge text has no column for the source",
        config.sources.len()
    );
    let file = File::create(path).with_context(|| {
        format!(
            "cannot write {}; choose a writable path with --dump-detections",
            path.display()
        )
    })?;
    Ok(dump_into(BufWriter::new(file), failure))
}

/// Accepts only the first source's frames: the format has no field for a source.
fn dump_into(mut out: impl Write + Send + 'static, failure: &DumpFailure) -> FrameCallback {
    let (failure, mut first, mut warned) = (Arc::clone(failure), None, false);
    Box::new(
        move |meta: &FrameMeta, detections: Option<&[Detection]>, _: &[Track]| {
            let Some(detections) = detections else { return };
            if *first.get_or_insert(meta.source) != meta.source {
                if !warned {
                    warned = true;
                    log::warn!(
                        "--dump-detections: a source was added or restarted; its detections are not written, since MOTChallenge text has no column for the source"
                    );
                }
                return;
            }
            if failure.get().is_none()
                && let Err(error) = write_detections(&mut out, meta, detections)
            {
                log::error!("cannot write detections: {error}; the file is incomplete");
                let _ = failure.set(error);
            }
        },
    )
}

fn write_detections(
    out: &mut impl Write,
    meta: &FrameMeta,
    detections: &[Detection],
) -> std::io::Result<()> {
    for found in detections {
        let [left, top, right, bottom] = found.xyxy;
        let (width, height) = (right - left, bottom - top);
        writeln!(
            out,
            "{},-1,{left:.2},{top:.2},{width:.2},{height:.2},{:.4},{},-1,-1",
            meta.seq + 1,
            found.score,
            found.class
        )?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use jetwatch_types::Size;

    /// A writer whose content can be read later.
    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("whole").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn dump_excludes_sources_added_later() {
        let buffer = SharedBuffer::default();
        let mut callback = dump_into(buffer.clone(), &DumpFailure::default());
        let detection = |class| Detection {
            class,
            score: 0.5,
            xyxy: [0.0, 0.0, 2.0, 3.0],
        };
        let mut push = |source, seq, class| {
            let meta = FrameMeta::for_test(source, seq, Size::new(4, 4));
            callback(&meta, Some(&[detection(class)]), &[]);
        };
        push(3, 0, 1);
        push(4, 0, 2);
        push(3, 1, 1);
        let text = String::from_utf8(buffer.0.lock().expect("whole").clone()).expect("text");
        let wanted =
            "1,-1,0.00,0.00,2.00,3.00,0.5000,1,-1,-1\n2,-1,0.00,0.00,2.00,3.00,0.5000,1,-1,-1\n";
        assert_eq!(text, wanted);
    }
}
