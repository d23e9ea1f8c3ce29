// SPDX-License-Identifier: Apache-2.0
//! `jetwatch health`: whether a running daemon is healthy, as an exit code for scripts. It reads the file that the daemon writes.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use jetwatch_telemetry::health_report::{
    Expectation, HealthReport, RequiredSources, boot_ms, unit_file,
};

use super::{CONFIG_FILE, Exit, parse_duration};

/// Interval at which `--wait` reads the file.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Arguments of `jetwatch health`.
#[derive(Debug, Args)]
pub(super) struct HealthArgs {
    /// Configuration file of the daemon, which a unit runs.
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
    /// The file that the daemon writes (`jetwatch run --health`); default: that of the unit for --config.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// This source must bring frames; repeat it for several. Default: one source at least.
    #[arg(long, value_name = "NAME")]
    source: Vec<String>,
    /// All sources must bring frames, except files that have ended.
    #[arg(long, conflicts_with = "source")]
    all_sources: bool,
    /// Do not ask for the broker.
    #[arg(long)]
    no_broker: bool,
    /// Each source must have brought this many frames since the start of the daemon.
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_frames: u64,
    /// Largest age of the last frame of a source.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    max_frame_age: Duration,
    /// Largest age of the daemon's file, which it writes every second.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    max_age: Duration,
    /// Wait this long at most until the daemon is healthy.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is known of the daemon.
enum Verdict {
    Healthy(HealthReport),
    Unhealthy(Option<HealthReport>, Vec<String>),
    /// With the reason.
    NoDaemon(String),
}

/// Prints the verdict, and gives it as the exit code.
pub(super) fn run(args: &HealthArgs) -> anyhow::Result<Exit> {
    let path = args.file.clone();
    let path = path.unwrap_or_else(|| unit_file(&args.config));
    let deadline = args.wait.map(|wait| Instant::now() + wait);
    let verdict = loop {
        let verdict = judge(args, &path);
        let is_final = matches!(verdict, Verdict::Healthy(_));
        if is_final || deadline.is_none_or(|deadline| Instant::now() >= deadline) {
            break verdict;
        }
        thread::sleep(POLL_INTERVAL);
    };
    match args.json {
        true => print_json(&verdict),
        false => print(&verdict),
    }
    Ok(match verdict {
        Verdict::Healthy(_) => Exit::Success,
        Verdict::Unhealthy(..) => Exit::Failure,
        Verdict::NoDaemon(_) => Exit::NoDaemon,
    })
}

fn judge(args: &HealthArgs, path: &std::path::Path) -> Verdict {
    let report = match HealthReport::read(path) {
        Ok(Some(report)) => report,
        Ok(None) => {
            let text = format!(
                "no daemon runs that writes {0}; start it, or name its configuration with --config. One that was started by hand writes it \
                 with `jetwatch run --health FILE`, for `jetwatch health --file FILE`",
                path.display()
            );
            return Verdict::NoDaemon(text);
        }
        // Another format, or no right to read it: its health is not known.
        Err(error) => return Verdict::NoDaemon(jetwatch_telemetry::with_causes(&error)),
    };
    let age_ms = report.age_ms(boot_ms());
    if u128::from(age_ms) > args.max_age.as_millis() {
        let problem = format!(
            "the daemon (process {}) has not written {} for {age_ms} ms: it hangs, or was killed",
            report.pid,
            path.display()
        );
        let is_gone = !std::path::Path::new(&format!("/proc/{}", report.pid)).exists();
        return match is_gone {
            true => Verdict::NoDaemon(problem),
            false => Verdict::Unhealthy(Some(report), vec![problem]),
        };
    }
    let expected = Expectation {
        sources: match (args.all_sources, args.source.as_slice()) {
            (true, _) => RequiredSources::All,
            (false, []) => RequiredSources::Any,
            (false, names) => RequiredSources::Named(names.to_vec()),
        },
        min_frames: args.min_frames,
        max_frame_age_ms: u64::try_from(args.max_frame_age.as_millis()).unwrap_or(u64::MAX),
        acknowledged: !args.no_broker,
    };
    let problems = report.problems(&expected);
    match problems.is_empty() {
        true => Verdict::Healthy(report),
        false => Verdict::Unhealthy(Some(report), problems),
    }
}

fn print(verdict: &Verdict) {
    match verdict {
        Verdict::Healthy(report) => {
            let online = report.sources.iter();
            let online = online.filter(|source| source.state == "online").count();
            let broker = match &report.mqtt {
                Some(mqtt) => format!("{} messages acknowledged", mqtt.acknowledged),
                None => "no broker configured".to_owned(),
            };
            println!(
                "healthy: version {}, {online} of {} sources online, {broker}",
                report.program,
                report.sources.len()
            );
        }
        Verdict::Unhealthy(_, problems) => {
            for problem in problems {
                println!("unhealthy: {problem}");
            }
        }
        Verdict::NoDaemon(reason) => println!("unknown: {reason}"),
    }
}

fn print_json(verdict: &Verdict) {
    let (word, report, problems) = match verdict {
        Verdict::Healthy(report) => ("healthy", Some(report), Vec::new()),
        Verdict::Unhealthy(report, problems) => ("unhealthy", report.as_ref(), problems.clone()),
        Verdict::NoDaemon(reason) => ("unknown", None, vec![reason.clone()]),
    };
    println!(
        "{:#}",
        json!({ "health": word, "problems": problems, "daemon": report })
    );
}
