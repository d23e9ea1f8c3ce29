// SPDX-License-Identifier: Apache-2.0
//! The command line: one file per subcommand, each with `run(args)`. Called by `main.rs`.

// First: its macros replace those of the standard library in all files below.
#[macro_use]
mod output;

mod bench;
mod calibrate;
mod check;
mod dataset;
mod demo;
mod discover;
mod doctor;
mod engine;
mod eval;
mod exit;
mod facts;
mod first_model;
mod health;
mod manual;
mod media;
mod model;
mod page;
mod password;
mod profile;
mod progress;
mod reexec;
mod report;
mod run;
mod signals;
mod spool;
mod subscribe;
mod test_clip;
pub mod track;
mod tune;
mod update;
mod user;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use exit::Exit;

use signals::EarlySignals;

/// The configuration of the package's units; the only one whose section `tune` is applied.
const CONFIG_FILE: &str = "/etc/jetwatch/jetwatch.yaml";

/// Video in, tracked objects out over MQTT.
#[derive(Debug, Parser)]
#[command(name = "jetwatch", version, about, after_help = exit::HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon: every source of the configuration, until it is stopped.
    Run(run::RunArgs),
    /// Check that the configuration, the model, the sources and the broker work.
    Check(check::CheckArgs),
    /// Check this machine: one line for each requirement of the daemon, with a remedy for each failure.
    Doctor(doctor::DoctorArgs),
    /// Print what is known of this machine as JSON, without secrets, for `check --offline` on another one.
    Facts(facts::FactsArgs),
    /// Find ONVIF cameras on the network, and print their streams, as sources for the configuration too.
    Discover(discover::DiscoverArgs),
    /// Say whether the daemon of a configuration is healthy, by the exit code: 0 yes, 1 no, 4 no daemon runs.
    Health(health::HealthArgs),
    /// Install newer versions of the package, which are verified and rolled back; see the state of updates.
    Update(update::UpdateArgs),
    /// Run the whole pipeline on a built-in scene and print its messages as a subscriber receives them.
    Demo(demo::DemoArgs),
    /// Subscribe to a broker and print its messages as they arrive.
    Subscribe(subscribe::SubscribeArgs),
    /// Show or remove messages that wait for the broker.
    Spool(spool::SpoolArgs),
    /// Print where the page of the daemon is, and the link by which its first user is made.
    Page(page::PageArgs),
    /// Add and remove users and tokens of the page.
    User(user::UserArgs),
    /// List, pin and delete snapshots, clips and recordings.
    Media(media::MediaArgs),
    /// Measure the pipeline or parts of it.
    Bench(bench::BenchArgs),
    /// Record the daemon with Nsight Systems, here or over ssh, and report where its time goes.
    Profile(profile::ProfileArgs),
    /// Analyze profiles of Nsight Systems and benchmarks: tables, verdicts, comparisons, plots.
    Report(report::ReportArgs),
    /// Fetch networks, inspect ONNX files, and create model folders.
    Model(model::ModelArgs),
    /// Build, inspect and list TensorRT engines for this machine's GPU.
    Engine(engine::EngineArgs),
    /// Measure the accuracy of a model on annotated images.
    Eval(eval::EvalArgs),
    /// Apply the configured power mode, clocks and fan settings, or restore the original ones.
    Tune(tune::TuneArgs),
    /// Track detections from a MOTChallenge text file.
    Track(track::TrackArgs),
    /// Write labeled images of the built-in street scene, for training and evaluation.
    Dataset(dataset::DatasetArgs),
    /// Write frames of a camera or video as images, for INT8 calibration.
    Calibrate(calibrate::CalibrateArgs),
}

/// Parses the command line, runs the subcommand, and returns the process's exit code.
pub fn main() -> ExitCode {
    let started = Instant::now();
    // Before anything that takes time.
    let signals = EarlySignals::of_daemon();
    exit::abort_on_panic();
    let matches = command()
        .subcommand(manual::subcommand())
        .subcommand(test_clip::subcommand())
        .get_matches();
    match matches.subcommand() {
        Some((manual::NAME, matches)) => return exit_code(manual::run(matches, command())),
        Some((test_clip::NAME, matches)) => return exit_code(test_clip::run(matches)),
        _ => {}
    }
    let command = Arguments::from_arg_matches(&matches)
        .unwrap_or_else(|error| error.exit())
        .command;
    if !matches!(
        command,
        Command::Subscribe(_)
            | Command::Discover(_)
            | Command::Health(_)
            | Command::Update(_)
            | Command::Spool(_)
            | Command::Page(_)
            | Command::User(_)
            | Command::Media(_)
            | Command::Track(_)
            | Command::Dataset(_)
            | Command::Model(_)
            | Command::Engine(_)
            | Command::Tune(_)
            | Command::Profile(_)
            | Command::Report(_)
    ) {
        match &signals {
            Some(signals) => signals.hold(reexec::ensure_environment),
            None => reexec::ensure_environment(),
        }
    }
    let result = match command {
        Command::Run(args) => run::run(&args, started, signals),
        Command::Check(args) => check::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Facts(args) => facts::run(&args),
        Command::Discover(args) => discover::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Update(args) => update::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Subscribe(args) => subscribe::run(&args),
        Command::Spool(args) => spool::run(&args),
        Command::Page(args) => page::run(&args),
        Command::User(args) => user::run(&args),
        Command::Media(args) => media::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Model(args) => model::run(&args),
        Command::Engine(args) => engine::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Track(args) => track::run(&args).map(|()| Exit::Success),
        Command::Dataset(args) => dataset::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
    };
    exit_code(result)
}

fn exit_code(result: anyhow::Result<Exit>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error).into(),
    }
}

/// The command line without the hidden subcommands, for manual pages and shell completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Parses `20`, `20s`, `5m`, `2h` or `1500ms`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => {
            return Err(format!(
                "found {text:?}, expected a number with ms, s, m or h, such as 20s"
            ));
        }
    };
    number
        .parse::<f64>()
        .ok()
        .and_then(|number| Duration::try_from_secs_f64(number * factor).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("found {text:?}, expected a time above zero, such as 20s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        let cases = [
            ("20", 20_000),
            ("20s", 20_000),
            ("1500ms", 1_500),
            ("0.5m", 30_000),
            ("2h", 7_200_000),
        ];
        for (text, ms) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)));
        }
        for text in ["", "0", "-1s", "5 days", "s", "1e400"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
