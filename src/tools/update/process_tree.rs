// SPDX-License-Identifier: Apache-2.0
//! The processes that a program has started, directly or not: a package manager may put them into groups and sessions of their own.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Which of the processes are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// What dpkg has started: maintainer scripts, and all that these wait for. dpkg itself goes on, and deals with the failed script.
    BelowDpkg,
    /// The program and all that it has started.
    All,
}

/// A process as `/proc/PID/stat` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    name: String,
    parent: i32,
}

/// Ends processes of the tree below `root` by SIGKILL; how many that were.
pub(crate) fn kill(root: u32, which: Which) -> usize {
    let Ok(root) = i32::try_from(root) else {
        return 0;
    };
    let mut stopped = HashSet::new();
    // Stopped first, so that none of them starts another one meanwhile, or notices the end of another.
    loop {
        let found = chosen(&processes(), root, which);
        let fresh: Vec<i32> = found.difference(&stopped).copied().collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            signal(pid, Signal::STOP);
            stopped.insert(pid);
        }
    }
    for pid in &stopped {
        signal(*pid, Signal::KILL);
    }
    stopped.len()
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

fn processes() -> HashMap<i32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let found = entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, parse(&stat)?))
    });
    found.collect()
}

/// `PID (NAME) STATE PARENT …`; the name may have spaces and brackets.
fn parse(stat: &str) -> Option<Process> {
    let (begin, rest) = stat.rsplit_once(')')?;
    let (_, name) = begin.split_once('(')?;
    let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
    Some(Process {
        name: name.to_owned(),
        parent,
    })
}

fn chosen(processes: &HashMap<i32, Process>, root: i32, which: Which) -> HashSet<i32> {
    let is_chosen = |pid: &i32| {
        let (mut pid, mut is_below_dpkg) = (*pid, false);
        // A chain of parents is no longer than this.
        for _ in 0..processes.len() {
            if pid == root {
                return which == Which::All || is_below_dpkg;
            }
            let Some(process) = processes.get(&pid) else {
                return false;
            };
            pid = process.parent;
            is_below_dpkg |= processes
                .get(&pid)
                .is_some_and(|process| process.name == "dpkg");
        }
        false
    };
    processes.keys().copied().filter(is_chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_below_dpkg_are_chosen_and_dpkg_is_not() {
        let lines = [
            "1 (systemd) S 0 1",
            "9 (jetwatch-update) S 1 9",
            "10 (apt-get) S 9 10",
            "11 (dpkg) S 10 11",
            "12 (jetwatch.postins) S 11 11",
            "13 (sleep) S 12 11",
            "20 (dpkg) S 1 20",
            "21 (a (b) c) S 20 20",
        ];
        let processes: HashMap<i32, Process> = lines
            .iter()
            .map(|line| {
                let pid = line.split(' ').next().and_then(|pid| pid.parse().ok());
                (pid.expect("a number"), parse(line).expect("a process"))
            })
            .collect();
        assert_eq!(processes[&21].name, "a (b) c");
        let below = chosen(&processes, 10, Which::BelowDpkg);
        assert_eq!(below, HashSet::from([12, 13]));
        // dpkg itself is the program.
        let below = chosen(&processes, 11, Which::BelowDpkg);
        assert_eq!(below, HashSet::from([12, 13]));
        let all = chosen(&processes, 10, Which::All);
        assert_eq!(all, HashSet::from([10, 11, 12, 13]));
    }
}
