//! CPU cores for runs that take place at the same time: each process is pinned to its share.

use anyhow::Context;
use rustix::thread::CpuSet;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_split_between_processes() {
        let cores: Vec<String> = (0..5).map(|core| core.to_string()).collect();
        assert_eq!(shares(&cores, 2), [["0", "1"], ["2", "3"]]);
        assert_eq!(shares(&cores[..2], 3), [["0"], ["1"], ["0"]]);
    }
}
