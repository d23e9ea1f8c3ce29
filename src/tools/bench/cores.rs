// SPDX-License-Identifier: Apache-2.0
//! CPU cores and GPUs for runs that take place at the same time: each process is pinned to its share.

use anyhow::{Context, ensure};
use rustix::thread::CpuSet;

use jetwatch_detect::engines::Device;

/// The CPU cores that this process may use.
pub(super) fn allowed_cores() -> anyhow::Result<Vec<String>> {
    let set =
        rustix::thread::sched_getaffinity(None).context("cannot read the allowed CPU cores")?;
    let cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    Ok(cores.map(|core| core.to_string()).collect())
}

/// The cores in `count` parts of the same size; with fewer cores than parts, one each in turns.
pub(super) fn shares(cores: &[String], count: usize) -> Vec<Vec<String>> {
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

/// Number of GPUs of this machine.
pub(super) fn gpu_count() -> anyhow::Result<u32> {
    Ok(Device::count()?)
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
