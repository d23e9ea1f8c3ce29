// SPDX-License-Identifier: Apache-2.0
//! Checks of an installation, on the machine itself.
//!
//! [`run`] runs the given [`Check`]s; each adds results whose state is ok, wrong, unknown or n/a. Unknown means that a check is not
//! possible for this user or without disturbing a running daemon; n/a that machines of this kind do not have it. The checks change nothing, and build no engine except
//! [`check_detector`]. Called by `jetwatch doctor`, which prints the results; `jetwatch check` uses only [`CheckReport`] and [`check_recorded`].

mod acceptance;
mod broker;
mod cameras;
mod check_report;
mod checks;
mod context;
mod detector;
mod engine;
mod facts;
mod libraries;
mod platform;
mod power;
mod profiling;
mod recorded;
mod service;
mod test_clip;
mod test_clip_writer;
mod video;
mod video_selftest;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use serde::Serialize;

use jetwatch_config::{Config, EngineBuild};
use jetwatch_platform::{Machine, SensorSnapshot, SysRoot};

pub use acceptance::Acceptance;
pub use check_report::{CheckReport, CheckResult, CheckState};
pub use checks::Check;
pub use detector::DetectorResults;
pub use facts::{Facts, check_offline};
pub use power::desired_settings;
pub use recorded::check_recorded;
pub use test_clip_writer::{TEST_CLIP_ELEMENTS, write_test_clip};

use context::DoctorContext;

/// Default model folders: next to the sources, and in the package.
const MODELS: [&str; 2] = [
    "models/street-nano",
    "/usr/share/jetwatch/models/street-nano",
];

/// What to check, and the settings.
#[derive(Debug, Clone, Default)]
pub struct DoctorOptions {
    /// Root of the system's files.
    pub root: SysRoot,
    /// Configuration file; `None`: /etc/jetwatch/jetwatch.yaml where it exists.
    pub config: Option<PathBuf>,
    /// Model folder, in place of a configuration; `None`: that of the shipped network.
    pub model: Option<PathBuf>,
    /// Precision to check; `None`: that of the configuration, else int8 where the model has it, else its first.
    pub precision: Option<String>,
    /// Path of libnvinfer.so, or its folder.
    pub tensorrt: Option<PathBuf>,
    /// Folder of the engines.
    pub engines: Option<PathBuf>,
    /// Path of libonnxruntime.so.
    pub onnxruntime: Option<PathBuf>,
    /// Folder of the test clip; `None`: that of the package, below `root`.
    pub test_clip: Option<PathBuf>,
}

/// Results of the checks of the machine. As JSON: the file of `jetwatch doctor --json`.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    /// Version of jetwatch.
    pub version: &'static str,
    /// The machine.
    pub machine: Machine,
    /// The result in one sentence.
    pub verdict: String,
    /// Whether no check failed.
    #[serde(rename = "right")]
    pub is_ok: bool,
    /// All results.
    #[serde(rename = "lines")]
    pub results: Vec<CheckResult>,
}

/// What a box shows of itself, for a bug report. As JSON: the file of `jetwatch doctor --report`, which `configs/doctor-report.schema.json`
/// describes. It holds no configuration and no secret but what the results name: addresses, paths, names of sources.
#[derive(Debug, Serialize)]
pub struct BoxReport {
    /// Version of these fields.
    pub format: u32,
    /// What is known of the box.
    pub facts: Facts,
    /// The result in one sentence.
    pub verdict: String,
    /// Whether no check failed.
    pub right: bool,
    /// What is promised of a Jetson, and how it did.
    pub acceptance: Vec<Acceptance>,
    /// All results.
    pub lines: Vec<CheckResult>,
    /// The sensors at the end of the checks.
    pub readings: SensorSnapshot,
}

impl BoxReport {
    /// The results of all checks with `facts`, and what the sensors show now.
    pub fn new(diagnosis: Diagnosis, facts: Facts, root: &SysRoot) -> Self {
        Self {
            format: 1,
            readings: SensorSnapshot::read(root, &facts.machine),
            facts,
            verdict: diagnosis.verdict,
            right: diagnosis.is_ok,
            acceptance: acceptance::judge(&diagnosis.results),
            lines: diagnosis.results,
        }
    }
}

/// Results of the check of the detector. As JSON: the file of `jetwatch doctor --detector --json`.
#[derive(Debug, Serialize)]
pub struct DetectorDiagnosis {
    /// Version of jetwatch.
    pub version: &'static str,
    /// The result in one sentence.
    pub verdict: &'static str,
    /// Whether no check failed.
    #[serde(rename = "right")]
    pub is_ok: bool,
    /// All results.
    #[serde(rename = "lines")]
    pub results: Vec<CheckResult>,
    /// The measurements.
    pub numbers: DetectorResults,
}

/// Runs `checks` one after another, each on its own thread and for a limited time. `on_result` is called with each
/// result as it arrives.
///
/// # Errors
/// A thread cannot be started. A failed check is a result, not an error.
pub fn run(
    options: &DoctorOptions,
    checks: &[Check],
    on_result: impl FnMut(&CheckResult) + 'static,
) -> anyhow::Result<Diagnosis> {
    let root = &options.root;
    let installed = Some(root.path(context::CONFIG)).filter(|path| path.exists());
    let detector_file = options
        .config
        .clone()
        .or(installed)
        .filter(|_| options.model.is_none());
    let detector = detector_config(options, detector_file.as_deref());
    let detector = detector.map_err(|error| jetwatch_telemetry::with_causes(error.as_ref()));
    let context = Arc::new(DoctorContext::find(
        root.clone(),
        options.config.clone(),
        detector,
        options.test_clip.clone(),
    ));
    let mut report = CheckReport::new(on_result);
    for check in checks {
        check.run(&context, &mut report)?;
    }
    report.finish();
    let verdict = format!(
        "{} ok, {} wrong, {} unknown, {} not applicable: {}",
        report.count(CheckState::Ok),
        report.count(CheckState::Wrong),
        report.count(CheckState::Unknown),
        report.count(CheckState::NotApplicable),
        match report.is_ok() {
            true => "no check failed",
            false => "see the lines that begin with `wrong`",
        }
    );
    Ok(Diagnosis {
        version: env!("CARGO_PKG_VERSION"),
        machine: context.machine.clone(),
        verdict,
        is_ok: report.is_ok(),
        results: report.into_results(),
    })
}

/// Compares TensorRT and ONNX Runtime, as far as they are installed, with recorded detections, and measures their speed. A
/// missing engine is built. `on_result` is called with each result as it arrives.
///
/// # Errors
/// There is no model, it or the configuration is wrong, or a measurement fails.
pub fn check_detector(
    options: &DoctorOptions,
    on_result: impl FnMut(&CheckResult) + 'static,
) -> anyhow::Result<DetectorDiagnosis> {
    let config = building_config(options)?;
    let mut report = CheckReport::new(on_result);
    let numbers = detector::run(&config, &mut report)?;
    let verdict = match (report.is_ok(), numbers.is_proven) {
        (false, _) => {
            "the detector does not work correctly on this machine: see the lines that begin with `wrong`"
        }
        (true, false) => "no check failed; unknown results prove nothing",
        (true, true) => "the detector works on this machine",
    };
    Ok(DetectorDiagnosis {
        version: env!("CARGO_PKG_VERSION"),
        verdict,
        is_ok: report.is_ok(),
        results: report.into_results(),
        numbers,
    })
}

/// Writes the detections of ONNX Runtime on the CPU, in all precisions of the model, to `path`: `golden.json` of a model folder.
/// `on_precision` receives a line of text for each precision.
///
/// # Errors
/// There is no model, it or the configuration is wrong, ONNX Runtime fails, or the file cannot be written.
pub fn record_golden(
    options: &DoctorOptions,
    path: &Path,
    on_precision: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    detector::record(&building_config(options)?, path, on_precision)
}

/// The configuration for the detector, with permission to build a missing engine.
fn building_config(options: &DoctorOptions) -> anyhow::Result<Config> {
    let mut config = detector_config(options, options.config.as_deref())?;
    config.detector.tensorrt.build = EngineBuild::Allow;
    Ok(config)
}

/// The configuration for the detector: of `file`, else the shipped network on a synthetic scene.
fn detector_config(options: &DoctorOptions, file: Option<&Path>) -> anyhow::Result<Config> {
    let mut config = match file {
        Some(path) => Config::load(path)?,
        None => Config::for_source("synthetic://traffic", Some(&model(options)?))?,
    };
    let detector = &mut config.detector;
    detector.precision = options.precision.clone().or(detector.precision.take());
    detector.onnxruntime = options.onnxruntime.clone().or(detector.onnxruntime.take());
    detector.tensorrt.library = options
        .tensorrt
        .clone()
        .or(detector.tensorrt.library.take());
    if let Some(engines) = &options.engines {
        detector.tensorrt.engines.clone_from(engines);
    }
    detector.tensorrt.build = EngineBuild::Never;
    Ok(config)
}

/// The model's folder: that of the options, or the shipped one.
fn model(options: &DoctorOptions) -> anyhow::Result<String> {
    if let Some(model) = &options.model {
        return Ok(model.display().to_string());
    }
    let found = MODELS.iter().find(|folder| Path::new(folder).is_dir());
    let Some(found) = found else {
        bail!(
            "found no model in {}, expected the shipped network: give a model folder with --model",
            MODELS.join(" or ")
        );
    };
    Ok((*found).to_owned())
}
