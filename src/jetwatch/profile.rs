// SPDX-License-Identifier: Apache-2.0
//! `jetwatch profile`: records the daemon with nsys, on this machine or over ssh, and reports on the profile.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use jetwatch_config::MAX_BATCH_SIZE;
use jetwatch_files::{Sha256Digest, Sha256Hasher};
use jetwatch_nsys::profile::nsys::Sampling;
use jetwatch_nsys::profile::{
    CancelHandle, ConfigSource, Exporter, Host, ProfileError, ProfileRequest, ProfileResult,
    ProfileRunner, ProfileTarget, User,
};
use jetwatch_nsys::report::PROFILE_KEY;

use super::report::{self, ReportArgs};
use super::{CONFIG_FILE, Exit, parse_duration};

/// Arguments of `jetwatch profile`.
#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    /// Configuration file on this machine; copied to the remote machine.
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
    /// Profile on this remote machine, over ssh.
    #[arg(long, value_name = "USER@MACHINE")]
    host: Option<String>,
    /// Pass an option to ssh, such as Port=2222, IdentityFile=key or ProxyJump=bastion; a value that begins with `-` is passed as it is, such as -Ffile.
    #[arg(
        long = "ssh-option",
        value_name = "OPTION",
        requires = "host",
        allow_hyphen_values = true
    )]
    ssh_options: Vec<String>,
    /// Use this ssh.
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    ssh: String,
    /// Run as this user there, by sudo without a password; sessions of nsys are visible only to their own user.
    #[arg(long, value_name = "USER", num_args = 0..=1, require_equals = true, default_missing_value = "root", value_parser = user_name)]
    sudo: Option<String>,
    /// Record for this long, such as 20s or 5m; by default 10s, or as long as --frames needs.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Start recording this long after the daemon's start.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    warmup: Option<Duration>,
    /// Stop after this many frames, over all sources.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    frames: Option<u64>,
    /// Record one profile for each of these batch sizes.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..=MAX_BATCH_SIZE))]
    batch_sizes: Vec<u8>,
    /// Traces; by default cuda, nvtx, osrt and those of video, DLA and other units that the machine's nsys supports.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    trace: Vec<String>,
    /// Sample the CPU with nsys.
    #[arg(long, value_enum, default_value_t = Sample::Auto)]
    sampling: Sample,
    /// Profile the running service, which must have been started by nsys (systemd/drop-ins/profiling.conf).
    #[arg(long, conflicts_with_all = ["config", "frames", "batch_sizes", "trace", "warmup", "program"])]
    attach: bool,
    /// Session of nsys in which the service runs.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "jetwatch",
        requires = "attach"
    )]
    session: String,
    /// Output path: NAME.nsys-rep, NAME.sqlite and NAME.stats.json.
    #[arg(short, long, value_name = "NAME", default_value = "profile")]
    output: PathBuf,
    /// Overwrite existing files.
    #[arg(long)]
    force: bool,
    /// Only fetch the profile: no export, no report.
    #[arg(long)]
    fetch_only: bool,
    /// Path of the jetwatch to profile; by default this one, and over ssh the one in the search path there.
    #[arg(long, value_name = "PROGRAM")]
    program: Option<String>,
    /// Remote folder for relative paths of the configuration: models, secrets.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/etc/jetwatch",
        requires = "host"
    )]
    remote_dir: String,
    /// Folder for temporary files on the machine of the daemon.
    #[arg(long, value_name = "DIR")]
    target_folder: Option<String>,
    /// Use this nsys to record.
    #[arg(long, value_name = "PROGRAM", default_value = "nsys")]
    target_nsys: String,
    /// Use this nsys of this machine to export.
    #[arg(long, value_name = "PROGRAM", default_value = "nsys")]
    nsys: PathBuf,
    /// Time that nsys may take in addition to the recording time, on a slow machine.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2m")]
    export_timeout: Duration,
}

/// Default recording time.
const DURATION: Duration = Duration::from_secs(10);

/// Modes of CPU sampling.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Sample {
    /// Where the machine supports it.
    Auto,
    /// Always, even where the machine reports no support.
    On,
    /// Never.
    Off,
}

/// The files of one profile.
struct OutputFiles {
    batch_size: Option<u8>,
    report: PathBuf,
    export: PathBuf,
    stats: PathBuf,
}

/// Records the profiles, then exports them and writes one report.
pub(super) fn run(args: &ProfileArgs) -> anyhow::Result<Exit> {
    let files = files(args);
    if !args.force {
        let all = files.iter();
        let mut all = all.flat_map(|files| [&files.report, &files.export, &files.stats]);
        if let Some(path) = all.find(|path| path.exists()) {
            return Err(ProfileError::Exists(path.clone()).into());
        }
    }
    let exporter = if args.fetch_only {
        None
    } else {
        Some(Exporter::find(&args.nsys)?)
    };
    let target = profile_target(args)?;
    let cancel = CancelHandle::default();
    stop_on_signals(cancel.clone())?;
    let host = Host {
        host: args.host.clone(),
        ssh: args.ssh.clone(),
        ssh_options: args.ssh_options.clone(),
        user: args.sudo.clone().map_or(User::Current, User::Other),
    };
    let folder = args.target_folder.as_deref();
    let mut runner = ProfileRunner::connect(&host, &cancel, folder, &args.target_nsys)?;
    let there = runner.host_info().version;
    if let Some(here) = exporter.as_ref().map(Exporter::version)
        && here < there
    {
        return Err(ProfileError::LocalNsysTooOld {
            place: host.to_string(),
            there,
            here,
        }
        .into());
    }
    let note = &mut |note: String| eprintln!("jetwatch: note: {note}");
    runner.prepare(&target, note)?;
    let mut status = 0;
    for (number, files) in files.iter().enumerate() {
        let request = profile_request(args, files.batch_size);
        let of_first = runner.sampling_note(&request).filter(|_| number == 0);
        for note in of_first.into_iter().chain(shortcomings(&request)) {
            eprintln!("jetwatch: note: {note}");
        }
        eprintln!("jetwatch: {}", describe(&host, files, &request));
        let result = runner.profile(&target, &request, &files.report, &files.stats, note)?;
        add_notes(args, files)?;
        eprintln!("jetwatch: {}", summary(files, &result));
        status = status.max(result.status);
    }
    runner.end()?;
    if let Some(exporter) = exporter {
        for files in &files {
            exporter.export(&files.report, &files.export)?;
            eprintln!("jetwatch: exported to {}", files.export.display());
        }
        let exports = files.into_iter().map(|files| files.export).collect();
        report::run(&ReportArgs::for_files(exports, &args.nsys))?;
    }
    Ok(if status == 0 {
        Exit::Success
    } else {
        Exit::from_daemon_status(status)
    })
}

fn profile_target(args: &ProfileArgs) -> anyhow::Result<ProfileTarget> {
    if args.attach {
        return Ok(ProfileTarget::Service {
            session: args.session.clone(),
        });
    }
    let own = || std::env::current_exe().context("cannot find the path of this program");
    let program = match (&args.program, &args.host) {
        (Some(program), _) => program.clone(),
        (None, Some(_)) => "jetwatch".to_owned(),
        (None, None) => own()?.display().to_string(),
    };
    let configuration = if args.host.is_some() {
        ConfigSource::Copied {
            file: args.config.clone(),
            remote_dir: args.remote_dir.clone(),
        }
    } else {
        let missing = |source| ProfileError::Configuration(args.config.clone(), source);
        fs::metadata(&args.config).map_err(missing)?;
        ConfigSource::InPlace(
            std::path::absolute(&args.config)
                .with_context(|| format!("cannot find the path of {}", args.config.display()))?,
        )
    };
    Ok(ProfileTarget::Run(program, configuration))
}

fn profile_request(args: &ProfileArgs, batch_size: Option<u8>) -> ProfileRequest {
    ProfileRequest {
        traces: args.trace.clone(),
        sampling: match args.sampling {
            Sample::Auto => Sampling::Auto,
            Sample::On => Sampling::On,
            Sample::Off => Sampling::Off,
        },
        warmup: args.warmup.unwrap_or_default(),
        duration: args
            .duration
            .or_else(|| args.frames.is_none().then_some(DURATION)),
        export_timeout: args.export_timeout,
        frames: args.frames,
        batch_size,
    }
}

/// What the recording will lack, as far as the options say.
fn shortcomings(request: &ProfileRequest) -> Vec<String> {
    /// The verdict leaves out the start of the network from this number of batches on.
    const MIN_BATCHES: u64 = 20;
    const MIN_DURATION: Duration = Duration::from_secs(2);
    let mut notes = Vec::new();
    let traces = &request.traces;
    if !traces.is_empty() && !traces.iter().any(|trace| trace == "nvtx") {
        notes.push(
            "without nvtx in --trace there are no ranges: the report has neither stages nor a verdict"
                .to_owned(),
        );
    }
    let size = u64::from(request.batch_size.unwrap_or(1));
    if let Some(frames) = request.frames.filter(|frames| frames / size < MIN_BATCHES) {
        notes.push(format!(
            "{frames} frames are fewer than {MIN_BATCHES} batches: the verdict includes the start of the network; raise --frames"
        ));
    }
    if let Some(duration) = request.duration.filter(|duration| *duration < MIN_DURATION) {
        notes.push(format!(
            "{} s hold little beside the start of the network; use --duration 10s, or --warmup",
            duration.as_secs_f64()
        ));
    }
    if let Some(frames) = request.frames.filter(|_| !request.warmup.is_zero()) {
        notes.push(format!(
            "nothing is recorded if the run of {frames} frames ends before --warmup is over"
        ));
    }
    notes
}

/// Adds to the daemon's numbers what the series of the profile varies, so that `jetwatch report` can compare its profiles.
fn add_notes(args: &ProfileArgs, files: &OutputFiles) -> anyhow::Result<()> {
    // A service writes no numbers.
    if args.attach {
        return Ok(());
    }
    let path = &files.stats;
    // A daemon that crashed, or was killed, wrote none.
    let mut stats = match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .with_context(|| format!("{} is not complete JSON", path.display()))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => json!({}),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    let config =
        fs::read(&args.config).with_context(|| format!("cannot read {}", args.config.display()))?;
    let base = Sha256Digest::of(&config).to_string();
    let varied: Map<String, Value> = (files.batch_size.iter())
        .map(|size| ("detector.batch_size".to_owned(), size.to_string().into()))
        .collect();
    let mut hash = Sha256Hasher::default();
    hash.update(&config);
    for (key, value) in &varied {
        hash.update(format!("\0{key}={value}"));
    }
    stats[PROFILE_KEY] = json!({
        "base_hash": base,
        "config_hash": hash.finish().to_string(),
        "varied": varied,
        // What a later run of the same workload needs; options that only a profile has are left out.
        "command": command(&args.config, files.batch_size),
    });
    let text = serde_json::to_string_pretty(&stats).context("cannot write JSON")? + "\n";
    jetwatch_files::write(path, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The command that runs the workload of a profile without one.
fn command(config: &Path, batch_size: Option<u8>) -> String {
    let batches = batch_size.map_or_else(String::new, |size| format!(" --batch-size {size}"));
    format!("jetwatch run --config {}{batches}", quoted(config))
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    match text.chars().all(is_plain) && !text.is_empty() {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The files of each profile: `NAME`, or `NAME-batch04` with batch sizes, which have as many digits as the largest: then the names
/// sort by size.
fn files(args: &ProfileArgs) -> Vec<OutputFiles> {
    let digits = |size: &u8| size.to_string().len();
    let width = args.batch_sizes.iter().map(digits).max().unwrap_or(0);
    let for_size = |batch_size: Option<u8>| {
        let end = batch_size.map_or_else(String::new, |size| format!("-batch{size:0width$}"));
        let named = |extension: &str| with_suffix(&args.output, &format!("{end}.{extension}"));
        OutputFiles {
            batch_size,
            report: named("nsys-rep"),
            export: named("sqlite"),
            stats: named("stats.json"),
        }
    };
    if args.batch_sizes.is_empty() {
        vec![for_size(None)]
    } else {
        args.batch_sizes
            .iter()
            .map(|size| for_size(Some(*size)))
            .collect()
    }
}

/// `path` with `end` appended to its name; dots in the name have no meaning.
fn with_suffix(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn describe(host: &Host, files: &OutputFiles, request: &ProfileRequest) -> String {
    let mut text = format!("profiling on {host}");
    if let Some(size) = files.batch_size {
        text += &format!(" with batches of {size}");
    }
    if let Some(frames) = request.frames {
        text += &format!(" for {frames} frames");
    }
    if let Some(duration) = request.duration {
        text += &format!(" for {} s", duration.as_secs_f64());
    }
    text
}

fn summary(files: &OutputFiles, result: &ProfileResult) -> String {
    let mut text = format!("wrote {}", files.report.display());
    if let Some(frames) = result.frames {
        text += &format!(", a run with {frames} frames");
    }
    if result.status != 0 {
        text += &format!("; the daemon ended with exit status {}", result.status);
    }
    text
}

/// A name without shell metacharacters.
fn user_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if text.is_empty() || text.starts_with('-') || !text.chars().all(is_plain) {
        return Err(format!("found {text:?}, expected the name of a user"));
    }
    Ok(text.to_owned())
}

/// A signal closes the connection, upon which the remote side ends the processes that it started.
fn stop_on_signals(cancel: CancelHandle) -> anyhow::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot register signal handlers")?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let mut received = 0;
            for signal in signals.forever() {
                received += 1;
                if received > 1 {
                    std::process::exit(128 + signal);
                }
                cancel.cancel();
            }
        })
        .context("cannot start the thread for signals")?;
    Ok(())
}
