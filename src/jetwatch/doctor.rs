// SPDX-License-Identifier: Apache-2.0
//! `jetwatch doctor`: checks of the installation on the machine itself.
//!
//! Each [`Check`] prints lines that begin with `ok`, `wrong` or `unknown`. The checks are those of `jetwatch_doctor`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::Serialize;

use jetwatch_doctor::{self as doctor, BoxReport, Check, CheckResult, DoctorOptions};
use jetwatch_platform::SysRoot;
use jetwatch_telemetry as telemetry;

use super::Exit;

/// Arguments of `jetwatch doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Check only the detector, and build its engine if it is missing: compare TensorRT and ONNX Runtime, as far as they are
    /// installed, with recorded detections.
    #[arg(long)]
    detector: bool,
    /// Run only these checks.
    #[arg(long, value_name = "PARTS", value_parser = checks(), value_delimiter = ',', conflicts_with_all = ["detector", "record"])]
    only: Vec<Check>,
    /// Configuration file; by default /etc/jetwatch/jetwatch.yaml where it exists.
    #[arg(short, long, value_name = "FILE", conflicts_with = "model")]
    config: Option<PathBuf>,
    /// Model folder; by default that of the shipped network.
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Precision to check; by default int8 where the model has it, else its first.
    #[arg(long)]
    precision: Option<String>,
    /// Path of libnvinfer.so, or its folder.
    #[arg(long, value_name = "PATH")]
    tensorrt: Option<PathBuf>,
    /// Folder of the engines; a missing engine is built.
    #[arg(long, value_name = "DIR")]
    engines: Option<PathBuf>,
    /// Path of libonnxruntime.so.
    #[arg(long, value_name = "PATH")]
    onnxruntime: Option<PathBuf>,
    /// Folder of the test clip, in place of the package's: made by `jetwatch test-clip`.
    #[arg(long, value_name = "DIR", hide = true)]
    test_clip: Option<PathBuf>,
    /// Record the detections of ONNX Runtime in all precisions to this file: golden.json of a model folder.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run all checks, and write what this machine is, the results, and how each promise about a Jetson did to this file: attach it to a bug
    /// report.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "detector", "record"])]
    report: Option<PathBuf>,
    /// Use this folder as the system's root, for tests.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    root: PathBuf,
}

/// Runs the requested checks, and fails when one failed.
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<Exit> {
    telemetry::start_logging(log::LevelFilter::Warn);
    let options = args.options();
    if let Some(path) = &args.record {
        doctor::record_golden(&options, path, &mut |line| println!("{line}"))?;
        println!("wrote {}", path.display());
        return Ok(Exit::Success);
    }
    if args.detector {
        let report = doctor::check_detector(&options, print_result)?;
        println!("verdict: {}", report.verdict);
        write(args.json.as_deref(), &report)?;
        return Ok(Exit::from_checks(report.is_ok));
    }
    // No log: the results contain the errors of the libraries.
    telemetry::start_logging(log::LevelFilter::Off);
    let checks: Vec<Check> = Check::ALL
        .into_iter()
        .filter(|check| args.only.is_empty() || args.only.contains(check))
        .collect();
    let report = doctor::run(&options, &checks, print_result)?;
    println!("verdict: {}", report.verdict);
    write(args.json.as_deref(), &report)?;
    let exit = Exit::from_checks(report.is_ok);
    if let Some(path) = &args.report {
        let facts = super::facts::collect(&options.root);
        let report = BoxReport::new(report, facts, &options.root);
        println!();
        for one in &report.acceptance {
            println!("{:<7} {}", one.state.name(), one.promise);
        }
        write(Some(path), &report)?;
        println!("wrote {}", path.display());
    }
    Ok(exit)
}

/// Prints a result as one line.
pub(super) fn print_result(result: &CheckResult) {
    println!("{result}");
}

impl DoctorArgs {
    fn options(&self) -> DoctorOptions {
        DoctorOptions {
            root: SysRoot::new(&self.root),
            config: self.config.clone(),
            model: self.model.clone(),
            precision: self.precision.clone(),
            tensorrt: self.tensorrt.clone(),
            engines: self.engines.clone(),
            onnxruntime: self.onnxruntime.clone(),
            test_clip: self.test_clip.clone(),
        }
    }
}

/// Parses the name of a check.
fn checks() -> impl TypedValueParser<Value = Check> {
    let value = |check: Check| PossibleValue::new(check.name()).help(check.description());
    PossibleValuesParser::new(Check::ALL.map(value)).try_map(|name| name.parse::<Check>())
}

fn write(path: Option<&Path>, report: &impl Serialize) -> anyhow::Result<()> {
    let Some(path) = path else {
        return Ok(());
    };
    let document = serde_json::to_value(report)?;
    fs::write(path, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}
