// SPDX-License-Identifier: Apache-2.0
//! The processes of one run of a series: started with their share of the cores, waited for, and their results read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use jetwatch_telemetry::StopToken;

use super::cores::{allowed_cores, shares};
use super::results::{FILE, write};
use super::{BenchOptions, mean};

/// Interval at which the processes are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Makes the command that starts this program again for a run of a point, on these CPU cores (none: on all), into this folder.
pub(super) type MakeCommand<'c> = &'c dyn Fn(&Point, &[String], &Path) -> anyhow::Result<Command>;

/// One configuration.
#[derive(Debug)]
pub struct Point {
    /// Name of its folder, also in tables; empty for a single point.
    pub name: String,
    /// Its configuration file, if there is one.
    pub config: Option<PathBuf>,
    /// Keys of the configuration and their values.
    pub settings: Vec<(String, String)>,
    /// What differs between the points, with this one's values.
    pub varied: Vec<(String, String)>,
    /// Number of copies of the sources, for a trial of streams.
    pub streams: Option<usize>,
}

/// Ends this process together with the one that started it.
///
/// # Errors
/// The system refuses.
pub fn end_with_parent() -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))
        .context("cannot request to end together with the benchmark")
}

impl Point {
    /// The `benchmark.json` of each process.
    pub(super) fn run(
        &self,
        args: &BenchOptions,
        folder: &Path,
        stop: &StopToken,
        command: MakeCommand<'_>,
    ) -> anyhow::Result<Vec<Value>> {
        let (processes, gpus) = (args.processes, args.gpus);
        let count = usize::from(processes) * usize::from(gpus);
        let cores = shares(&allowed_cores()?, count);
        let mut started: Vec<(PathBuf, Child)> = Vec::new();
        for gpu in 0..gpus {
            for process in 0..processes {
                let place = started.len();
                let own = match count {
                    1 => folder.to_owned(),
                    _ => folder.join(format!("proc_{process}_gpu_{gpu}")),
                };
                // The result of an earlier call must not be used for this one.
                let _ = fs::remove_file(own.join(FILE));
                let cores: &[String] = if count == 1 { &[] } else { &cores[place] };
                let mut command = command(self, cores, &own)?;
                if gpus > 1 {
                    command.env("CUDA_VISIBLE_DEVICES", gpu.to_string());
                }
                let child = command
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .spawn()
                    .context("cannot start a process of this program")?;
                started.push((own, child));
            }
        }
        wait(&mut started, stop)?;
        let mut documents = Vec::new();
        for (own, child) in &mut started {
            let status = child.wait()?;
            ensure!(status.success(), "{} ended with {status}", own.display());
            let path = own.join(FILE);
            let text =
                fs::read(&path).with_context(|| format!("no result in {}", path.display()))?;
            documents.push(serde_json::from_slice::<Value>(&text)?);
        }
        if count > 1 {
            let args = json!({ "num_processes": processes, "num_gpus": gpus, "warmup_batches": args.warmup });
            let machine = &documents[0]["meta"]["machine_name"];
            let meta = json!({ "args": args, "machine_name": machine, "cores": cores });
            let path = folder.join("benchmark_mean.json");
            write(&path, &mean(&documents, meta))?;
        }
        Ok(documents)
    }
}

/// Waits for all processes. When one fails, or a stop is requested, the others get SIGTERM.
fn wait(started: &mut [(PathBuf, Child)], stop: &StopToken) -> anyhow::Result<()> {
    let mut is_ending = false;
    loop {
        let (mut running, mut failed) = (0, false);
        for (_, child) in started.iter_mut() {
            match child.try_wait()? {
                None => running += 1,
                Some(status) => failed |= !status.success(),
            }
        }
        if running == 0 {
            return Ok(());
        }
        if (failed || stop.is_stopped()) && !is_ending {
            is_ending = true;
            for (_, child) in started.iter_mut() {
                if child.try_wait()?.is_none() {
                    // An error: it has ended in the meantime.
                    let _ = kill_process(Pid::from_child(child), Signal::TERM);
                }
            }
        }
        // A stop in the meantime is handled in the next iteration.
        std::thread::sleep(POLL_INTERVAL);
    }
}
