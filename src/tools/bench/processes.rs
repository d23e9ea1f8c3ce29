// SPDX-License-Identifier: Apache-2.0
//! The processes of one run of a series: started and pinned to their share of the cores and GPUs, waited for, and their results read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::CpuSet;
use serde_json::{Value, json};

use jetwatch_telemetry::StopToken;

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
        let (mut running, mut failed) = (Vec::new(), false);
        for (_, child) in started.iter_mut() {
            match child.try_wait()? {
                None => running.push(Pid::from_child(child)),
                Some(status) => failed |= !status.success(),
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        if (failed || stop.is_stopped()) && !is_ending {
            is_ending = true;
            for process in running {
                // An error: it has ended in the meantime.
                let _ = kill_process(process, Signal::TERM);
            }
        }
        // A stop in the meantime is handled in the next iteration.
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The CPU cores that this process may use.
fn allowed_cores() -> anyhow::Result<Vec<String>> {
    let set =
        rustix::thread::sched_getaffinity(None).context("cannot read the allowed CPU cores")?;
    let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    Ok(cores.map(|core| core.to_string()).collect())
}

/// The cores in `count` parts of the same size; with fewer cores than parts, one each in turns.
fn shares(cores: &[String], count: usize) -> Vec<Vec<String>> {
    let each = cores.len() / count.max(1);
    let share = |place: usize| match each {
        0 => vec![cores[place % cores.len().max(1)].clone()],
        each => cores[place * each..(place + 1) * each].to_vec(),
    };
    (0..count).map(share).collect()
}

/// Pins this process, which has only one thread yet, to `cores`; empty: no change.
///
/// # Errors
/// The system refuses, as for cores that this machine does not have.
pub fn pin(cores: &[usize]) -> anyhow::Result<()> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for core in cores.iter().filter(|core| **core < CpuSet::MAX_CPU) {
        set.set(*core);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .with_context(|| format!("cannot pin the process to CPU cores {cores:?}"))
}

/// Fails where several GPUs are asked for and the machine has fewer. `count` returns the number of GPUs.
pub(super) fn check_gpus(
    wanted: u16,
    count: &dyn Fn() -> anyhow::Result<u32>,
) -> anyhow::Result<()> {
    if wanted == 1 {
        return Ok(());
    }
    let found = count().with_context(|| {
        format!(
            "--gpus {wanted} needs {wanted} GPUs, and none was found; leave --gpus out, or use --processes {wanted} for processes on the CPU"
        )
    })?;
    ensure!(
        found >= u32::from(wanted),
        "--gpus {wanted}: found {found} GPU{}, expected {wanted} or more; give --gpus {found}, or --processes for several on one GPU",
        if found == 1 { "" } else { "s" }
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_split_between_processes() {
        let cores: Vec<String> = (0..5).map(|core| core.to_string()).collect();
        assert_eq!(shares(&cores, 2), [["0", "1"], ["2", "3"]]);
        assert_eq!(shares(&cores[..2], 3), [["0"], ["1"], ["0"]]);
    }

    #[test]
    fn missing_gpus_are_refused() {
        let none = || -> anyhow::Result<u32> { anyhow::bail!("there is no driver") };
        assert!(check_gpus(1, &none).is_ok());
        let error = format!("{:#}", check_gpus(2, &none).expect_err("no GPU"));
        assert!(
            error.starts_with("--gpus 2 needs 2 GPUs, and none was found; leave --gpus out")
                && error.ends_with("there is no driver"),
            "{error}"
        );
        assert!(check_gpus(2, &|| Ok(2)).is_ok());
        let error = check_gpus(3, &|| Ok(1)).expect_err("one GPU").to_string();
        assert!(
            error.contains("found 1 GPU, expected 3 or more; give --gpus 1"),
            "{error}"
        );
    }
}
