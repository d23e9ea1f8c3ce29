//! `jetwatch doctor`: what can only be proven on the machine itself, proven there by one command.

mod detector;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use crate::config::{Config, EngineBuild};
use crate::telemetry;

use super::Exit;
use super::lines::Lines;

/// Where a model may lie when none is named: beside the sources, and where the package puts it.
const MODELS: [&str; 2] = [
    "models/street-nano",
    "/usr/share/jetwatch/models/street-nano",
];

/// What `jetwatch doctor` is told.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Examine the detector: TensorRT and ONNX Runtime, as far as they are here, against recorded detections.
    #[arg(long)]
    detector: bool,
    /// Configuration file whose detector is examined.
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
}

/// Examines what was asked for, and fails when something is wrong.
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<Exit> {
    if !args.detector {
        bail!("found nothing to examine, expected --detector");
    }
    telemetry::start_logging(log::LevelFilter::Warn);
    let mut config = match &args.config {
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
    // Whoever asks for a proof wants the engine.
    detector.tensorrt.build = EngineBuild::Allow;
    if let Some(path) = &args.record {
        return detector::record(&config, path);
    }
    let mut lines = Lines::default();
    let numbers = detector::examine(&config, &mut lines)?;
    let verdict = match (lines.is_right(), numbers.is_proven) {
        (false, _) => {
            "the detector does not work as it should on this machine: see the lines that begin with `wrong`"
        }
        (true, false) => {
            "nothing is wrong as far as it could be seen; what is unknown was not proven"
        }
        (true, true) => "the detector works on this machine",
    };
    println!("verdict: {verdict}");
    if let Some(path) = &args.json {
        let document = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "verdict": verdict,
            "right": lines.is_right(),
            "lines": lines.all(),
            "numbers": numbers,
        });
        fs::write(path, format!("{document:#}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(lines.exit())
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
