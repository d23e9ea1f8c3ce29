//! CPU cores for runs that take place at the same time: each process is pinned to its share.

use anyhow::Context;

/// The CPU cores that this process may use.
pub(super) fn allowed_cores() -> anyhow::Result<Vec<String>> {
    let set = rustix::thread::sched_getaffinity(None).context("cannot ask for the CPU cores")?;
    let cores = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
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
