// SPDX-License-Identifier: Apache-2.0
//! The results of a series: what `series.json` holds of each point, and of each of its runs; the folder of all results, and files in it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;

use jetwatch_platform::Occupancy;
use jetwatch_telemetry::{Latency, StopToken};

use super::{RunCost, SecondaryResult, Statistics};

/// Results of one point.
#[derive(Default, Serialize)]
pub(super) struct PointResult {
    pub(super) name: String,
    pub(super) settings: Vec<String>,
    pub(super) runs: Vec<RunResult>,
    /// Frames per second of the runs without an error.
    pub(super) fps: Option<Statistics>,
    /// 95 % confidence interval of their mean: from run to run, or within the only run.
    pub(super) fps_interval_95: Option<(f64, f64)>,
    pub(super) inference_fps: Option<Statistics>,
    /// Of each secondary network, means over the runs without an error.
    pub(super) secondary: Vec<SecondaryResult>,
    pub(super) warnings: Vec<String>,
}

/// Result of one run of one point.
#[derive(Default, Serialize)]
pub(super) struct RunResult {
    pub(super) round: u32,
    pub(super) folder: PathBuf,
    /// Frames per second, summed over the processes.
    pub(super) fps: Option<f64>,
    pub(super) inference_fps: Option<f64>,
    /// Standard error of `fps`, from the times of batches in this run.
    pub(super) fps_standard_error: Option<f64>,
    /// Number of blocks of batches behind it.
    pub(super) fps_blocks: Option<usize>,
    /// CPU time of a frame, in ms, mean over the processes.
    pub(super) cpu_ms_per_frame: Option<f64>,
    /// Who used the CPU meanwhile; of several processes, that with the most by others.
    pub(super) occupancy: Option<Occupancy>,
    /// Latency of the frames of live sources; of several processes, the longest.
    pub(super) latency: Option<Latency>,
    /// Time of the GPU for a frame, in ms, mean over the processes.
    pub(super) gpu_ms_per_frame: Option<f64>,
    /// Of each secondary network.
    pub(super) secondary: Vec<SecondaryResult>,
    /// Name of the machine, and its number of processors.
    pub(super) machine: Value,
    /// Description of the detector.
    pub(super) detector: Option<String>,
    /// What a frame costs, of the only process.
    #[serde(skip)]
    pub(super) cost: Option<RunCost>,
    pub(super) error: Option<String>,
}

/// Results of all runs.
#[derive(Debug)]
pub struct SeriesResult {
    /// As it was written.
    pub document: Value,
    /// The file that holds the document.
    pub path: PathBuf,
    /// A summary of failed runs.
    pub failure: Option<String>,
}

impl SeriesResult {
    /// Writes `series.json` into `folder`.
    pub(super) fn write(folder: &Path, document: Value) -> anyhow::Result<Self> {
        let path = folder.join("series.json");
        write(&path, &document)?;
        Ok(Self {
            document,
            path,
            failure: None,
        })
    }
}

/// # Errors
/// A signal has stopped the series, whose results are in `folder`.
pub(super) fn check_stop(stop: &StopToken, folder: &Path) -> anyhow::Result<()> {
    ensure!(
        !stop.is_stopped(),
        "stopped by a signal; what was measured before is in {}",
        folder.display()
    );
    Ok(())
}

/// The name of the result of one run.
pub(super) const FILE: &str = "benchmark.json";

/// Creates the folder and writes a test file, so that a run does not fail at its end.
///
/// # Errors
/// The folder is not writable.
pub fn prepare_folder(folder: &Path) -> anyhow::Result<()> {
    let trial = folder.join(".trial");
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&trial, ""))
        .and_then(|()| fs::remove_file(&trial))
        .with_context(|| {
            format!(
                "cannot write to the folder {}; choose another one with --output",
                folder.display()
            )
        })
}

/// Writes a temporary file first, so that a reader never sees an incomplete file.
pub(super) fn write(path: &Path, document: &Value) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document)? + "\n";
    jetwatch_files::write(path, text.as_bytes()).with_context(|| {
        format!(
            "cannot write {}; choose another folder with --output",
            path.display()
        )
    })
}
