//! `jetwatch doctor`: what can only be proven on the machine itself, proven there by one command.
//!
//! Each [`Check`] gives lines that begin with `ok`, `failed` or `unknown`; the last is what could not be seen from here, by this user or
//! without disturbing a daemon that runs. Nothing is changed, and nothing is built unless the detector alone is asked for.

mod broker;
mod cameras;
mod checks;
mod detector;
mod engine;
mod libraries;
mod platform;
mod power;
mod profiling;
mod service;
mod subject;
mod video;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::json;

use jetwatch_config::{Config, EngineBuild};
use jetwatch_platform::SysRoot;
use jetwatch_telemetry as telemetry;

use self::checks::Check;
use self::subject::DoctorContext;

use super::Exit;
use super::check_report::CheckReport;

/// Where a model may lie when none is named: beside the sources, and where the package puts it.
const MODELS: [&str; 2] = [
    "models/street-nano",
    "/usr/share/jetwatch/models/street-nano",
];

/// What `jetwatch doctor` is told.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Examine the detector alone, and build its engine if it is missing: TensorRT and ONNX Runtime, as far as they are here,
    /// against recorded detections.
    #[arg(long)]
    detector: bool,
    /// Examine these parts alone.
    #[arg(long, value_name = "PARTS", value_enum, value_delimiter = ',', conflicts_with_all = ["detector", "record"])]
    only: Vec<Check>,
    /// Configuration file; by default /etc/jetwatch/jetwatch.yaml where it is there.
    #[arg(short, long, value_name = "FILE", conflicts_with = "model")]
    config: Option<PathBuf>,
    /// Model folder; by default that of the shipped network.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Precision to examine; by default int8 where the model has it, else its first.
    #[arg(long)]
    precision: Option<String>,
    /// Path of libnvinfer.so, or the folder that holds it.
    #[arg(long, value_name = "PATH")]
    tensorrt: Option<PathBuf>,
    /// Folder of the engines; a missing engine is built.
    #[arg(long, value_name = "DIR")]
    engines: Option<PathBuf>,
    /// Path of libonnxruntime.so.
    #[arg(long, value_name = "PATH")]
    onnxruntime: Option<PathBuf>,
    /// Write what ONNX Runtime finds in all precisions to this file: golden.json of a model folder.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder that stands for the whole system, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Examines what was asked for, and fails when something is wrong.
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    if args.detector || args.record.is_some() {
        return check_detector(args);
    }
    // Results tell what is wrong; what libraries complain of meanwhile is in them, or in the log of the daemon.
    telemetry::start_logging(log::LevelFilter::Off);
    let root = SysRoot::new(&args.root);
    let installed = Some(root.path(subject::CONFIG)).filter(|path| path.exists());
    let of_detector = args
        .config
        .clone()
        .or(installed)
        .filter(|_| args.model.is_none());
    let detector = detector_config(args, of_detector.as_deref());
    let detector = detector.map_err(|error| format!("{error:#}"));
    let subject = Arc::new(DoctorContext::find(root, args.config.clone(), detector));
    let mut lines = CheckReport::default();
    for part in checks(args) {
        part.run(&subject, &mut lines)?;
    }
    let count = |state| {
        lines
            .all()
            .iter()
            .filter(|line| line.state == state)
            .count()
    };
    let verdict = format!(
        "{} ok, {} wrong, {} unknown: {}",
        count("ok"),
        count("wrong"),
        count("unknown"),
        match lines.is_ok() {
            true => "nothing is wrong as far as it could be seen",
            false => "see the lines that begin with `wrong`",
        }
    );
    println!("verdict: {verdict}");
    let document = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "machine": subject.machine,
        "verdict": verdict,
        "right": lines.is_ok(),
        "lines": lines.all(),
    });
    write(args, &document)?;
    Ok(lines.exit())
}

/// The parts to examine, in their own order.
fn checks(args: &DoctorArgs) -> Vec<Check> {
    let all = Check::value_variants().iter().copied();
    all.filter(|part| args.only.is_empty() || args.only.contains(part))
        .collect()
}

/// The configuration for the detector: of `file`, else the shipped network on a drawn scene.
fn detector_config(args: &DoctorArgs, file: Option<&Path>) -> anyhow::Result<Config> {
    let mut config = match file {
        Some(path) => Config::load(path)?,
        None => Config::for_source("synthetic://traffic", Some(&model(args)?))?,
    };
    let detector = &mut config.detector;
    detector.precision = args.precision.clone().or(detector.precision.take());
    detector.onnxruntime = args.onnxruntime.clone().or(detector.onnxruntime.take());
    detector.tensorrt.library = args.tensorrt.clone().or(detector.tensorrt.library.take());
    if let Some(engines) = &args.engines {
        detector.tensorrt.engines.clone_from(engines);
    }
    detector.tensorrt.build = EngineBuild::Never;
    Ok(config)
}

/// The detector alone; a missing engine is built.
fn check_detector(args: &DoctorArgs) -> anyhow::Result<Exit> {
    let mut config = detector_config(args, args.config.as_deref())?;
    // Whoever asks for a proof wants the engine.
    config.detector.tensorrt.build = EngineBuild::Allow;
    if let Some(path) = &args.record {
        return detector::record(&config, path);
    }
    let mut lines = CheckReport::default();
    let numbers = detector::run(&config, &mut lines)?;
    let verdict = match (lines.is_ok(), numbers.is_proven) {
        (false, _) => {
            "the detector does not work as it should on this machine: see the lines that begin with `wrong`"
        }
        (true, false) => {
            "nothing is wrong as far as it could be seen; what is unknown was not proven"
        }
        (true, true) => "the detector works on this machine",
    };
    println!("verdict: {verdict}");
    let document = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "verdict": verdict,
        "right": lines.is_ok(),
        "lines": lines.all(),
        "numbers": numbers,
    });
    write(args, &document)?;
    Ok(lines.exit())
}

fn write(args: &DoctorArgs, document: &serde_json::Value) -> anyhow::Result<()> {
    let Some(path) = &args.json else {
        return Ok(());
    };
    fs::write(path, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The model's folder: that of the command line, or the shipped one.
fn model(args: &DoctorArgs) -> anyhow::Result<String> {
    if let Some(model) = &args.model {
        return Ok(model.display().to_string());
    }
    let found = MODELS.iter().find(|folder| PathBuf::from(folder).is_dir());
    let Some(found) = found else {
        bail!(
            "found no model in {}, expected the shipped network: name a model folder with --model",
            MODELS.join(" or ")
        );
    };
    Ok((*found).to_owned())
}
