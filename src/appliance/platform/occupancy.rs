// SPDX-License-Identifier: Apache-2.0
//! Who used the CPU in a time: this process, other programs, the hypervisor, or no one; on which cores this process may run; and
//! for how long its threads waited for a core.
//!
//! [`CpuCounters::read`] reads the kernel's counters once, one short file for each process and for each thread of this one.
//! [`Occupancy::between`] is what happened between two readings. What a kernel does not count is `None`. Files: proc(5),
//! cgroups(7), and the kernel's documents `scheduler/sched-stats.rst`, `accounting/psi.rst` and `admin-guide/cgroup-v2.rst`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::SysRoot;
use super::sensors::{CpuTicks, parse_ticks};

/// Share of the time of the allowed cores from which other programs disturb a measurement.
const DISTURBED: f64 = 0.1;

/// The same where no core has time left, so that each part that others take is missing.
const DISTURBED_IF_FULL: f64 = 0.05;

/// Cores without work from which there is room for one more thread.
const IDLE_CORE: f64 = 0.5;

/// Share of the periods of a quota from which it holds the process back.
const THROTTLED: f64 = 0.05;

/// Programs that are named.
const PROGRAMS: usize = 3;

/// Programs that use less than this of a core are not named.
const MIN_PROGRAM_CORES: f64 = 0.02;

/// Counters of the kernel at one time.
#[derive(Debug, Clone, Default)]
pub struct CpuCounters {
    /// Ticks of each core that this process may use.
    allowed: BTreeMap<u32, CpuTicks>,
    /// Cores that are online.
    cores: usize,
    /// Time since the start of the machine, in seconds.
    uptime: f64,
    /// Ticks of this process.
    own: Option<u64>,
    /// By thread of this process: time on a core, and time in which it could run and had none, in ns.
    threads: HashMap<u32, (u64, u64)>,
    quota: Option<Quota>,
    /// Time in which a task of the machine waited for the CPU, for I/O, for memory, in µs.
    stalls: [Option<u64>; 3],
    /// Other processes by id.
    others: HashMap<u32, Ticks>,
}

/// The CPU quota of a control group.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Quota {
    cores: f64,
    /// Periods, and those in which it was used up.
    periods: u64,
    throttled: u64,
}

/// A process with its ticks, and those of its children that have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ticks {
    id: u32,
    name: String,
    parent: u32,
    /// When it was started: a number may be used again.
    started: u64,
    own: u64,
    children: u64,
}

/// Who used the CPU between two readings. Numbers of cores are means over this time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Length of the time, in seconds.
    pub seconds: f64,
    /// Cores of the machine that are online.
    pub cores: usize,
    /// Cores on which this process may run, by its affinity and its cpuset.
    pub allowed_cores: usize,
    /// Cores' worth of CPU time that its control group allows; `None` without a quota.
    pub quota_cores: Option<f64>,
    /// Share of the quota's periods in which it was used up and the process was stopped, 0 to 1; `None` without a quota.
    pub quota_throttled: Option<f64>,
    /// Cores that this process used.
    pub own_cores: f64,
    /// Of the allowed cores: those that other programs used, the kernel and the hypervisor included.
    pub foreign_cores: f64,
    /// Of those: cores that the hypervisor gave to other virtual machines.
    pub stolen_cores: f64,
    /// Share of the time in which this process's threads could run, that they waited for a core, 0 to 1.
    pub core_wait: Option<f64>,
    /// Share of the time in which some task of the machine waited for a core, 0 to 1.
    pub cpu_pressure: Option<f64>,
    /// The same for reading and writing.
    pub io_pressure: Option<f64>,
    /// The same for memory.
    pub memory_pressure: Option<f64>,
    /// The other programs that used most, at most three.
    pub programs: Vec<Program>,
}

/// A program, all its processes together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Name in the kernel, at most 15 characters.
    pub name: String,
    /// Cores that it used.
    pub cores: f64,
}

impl CpuCounters {
    /// Reads the counters below `root`. Files that are missing, or that may not be read, are left out.
    pub fn read(root: &SysRoot) -> Self {
        let text = |path: &str| root.text(path).ok().flatten().unwrap_or_default();
        let status = text("/proc/self/status");
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let may_use = list.and_then(parse_cores);
        let ticks = text("/proc/stat");
        let ticks: Vec<(u32, CpuTicks)> = ticks.lines().filter_map(parse_ticks).collect();
        let cores = ticks.len();
        let is_allowed = |core: u32| may_use.as_ref().is_none_or(|all| all.contains(&core));
        let own = Ticks::parse(&text("/proc/self/stat"));
        let numbers = |folder: &str| -> Vec<u32> {
            let names = root.names(folder).unwrap_or_default();
            names.iter().filter_map(|name| name.parse().ok()).collect()
        };
        let processes = numbers("/proc").into_iter();
        let others = processes.filter_map(|id| Ticks::parse(&text(&format!("/proc/{id}/stat"))));
        let own_id = own.as_ref().map(|own| own.id);
        let threads = numbers("/proc/self/task").into_iter();
        let threads = threads.filter_map(|thread| {
            let times = text(&format!("/proc/self/task/{thread}/schedstat"));
            let mut times = times.split_whitespace().map(str::parse);
            Some((thread, (times.next()?.ok()?, times.next()?.ok()?)))
        });
        let stall = |kind: &str| {
            let pressure = text(&format!("/proc/pressure/{kind}"));
            let some = pressure.lines().find(|line| line.starts_with("some"))?;
            some.rsplit_once("total=")?.1.trim().parse().ok()
        };
        Self {
            allowed: (ticks.into_iter())
                .filter(|(core, _)| is_allowed(*core))
                .collect(),
            cores,
            uptime: first_number(&text("/proc/uptime")).unwrap_or_default(),
            own: own.map(|own| own.own + own.children),
            threads: threads.collect(),
            quota: Quota::read(&text),
            stalls: ["cpu", "io", "memory"].map(stall),
            others: others
                .filter(|process| Some(process.id) != own_id)
                .map(|process| (process.id, process))
                .collect(),
        }
    }
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Reads `0-3,6`.
fn parse_cores(list: &str) -> Option<BTreeSet<u32>> {
    let mut cores = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cores.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cores)
}

impl Ticks {
    /// Reads `/proc/PID/stat`. The name stands in brackets and may hold any character.
    fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.split_once(" (")?;
        let (name, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            id: id.parse().ok()?,
            name: short_name(name),
            parent: fields.get(1)?.parse().ok()?,
            started: number(19)?,
            own: number(11)? + number(12)?,
            children: number(13)? + number(14)?,
        })
    }
}

/// The name of a process. Threads of the kernel that do work for others change theirs all the time.
fn short_name(name: &str) -> String {
    match name.starts_with("kworker/") {
        true => "kworker".to_owned(),
        false => name.to_owned(),
    }
}

impl Quota {
    /// The smallest quota of the control group of this process and of those above it.
    fn read(text: &dyn Fn(&str) -> String) -> Option<Self> {
        let groups = text("/proc/self/cgroup");
        let found = groups.lines().flat_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
            let mounts: &[&str] = match controllers {
                "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
                all if all.split(',').any(|one| one == "cpu") => {
                    &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
                }
                _ => &[],
            };
            let above = std::path::Path::new(path).ancestors();
            let folders = above.flat_map(|path| {
                let path = path.to_string_lossy();
                let path = path.trim_end_matches('/').to_owned();
                mounts.iter().map(move |mount| format!("{mount}{path}"))
            });
            folders.filter_map(|folder| Self::of(&folder, text))
        });
        found.min_by(|a, b| a.cores.total_cmp(&b.cores))
    }

    fn of(folder: &str, text: &dyn Fn(&str) -> String) -> Option<Self> {
        let limit = text(&format!("{folder}/cpu.max"));
        let (quota, period) = match limit.split_once(' ') {
            Some((quota, period)) => (quota.to_owned(), period.to_owned()),
            // Version 1; -1 is no limit.
            None => (
                text(&format!("{folder}/cpu.cfs_quota_us")),
                text(&format!("{folder}/cpu.cfs_period_us")),
            ),
        };
        let (quota, period) = (first_number(&quota)?, first_number(&period)?);
        let counts = text(&format!("{folder}/cpu.stat"));
        let count = |key: &str| {
            let mut lines = counts.lines();
            let value = lines.find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
            value.unwrap_or(0)
        };
        (quota > 0.0 && period > 0.0).then(|| Self {
            cores: quota / period,
            periods: count("nr_periods "),
            throttled: count("nr_throttled "),
        })
    }
}

impl Occupancy {
    /// What happened between two readings; `None` where the kernel's counters are missing, or have not advanced.
    #[must_use]
    pub fn between(first: &CpuCounters, last: &CpuCounters) -> Option<Self> {
        let seconds = last.uptime - first.uptime;
        let (mut busy, mut total, mut stolen) = (0, 0, 0);
        for (core, now) in &last.allowed {
            let Some(before) = first.allowed.get(core) else {
                continue;
            };
            busy += now.busy.saturating_sub(before.busy);
            total += now.total.saturating_sub(before.total);
            stolen += now.stolen.saturating_sub(before.stolen);
        }
        let own = last.own?.saturating_sub(first.own?);
        let allowed = last.allowed.len();
        if seconds <= 0.0 || total == 0 {
            return None;
        }
        // Ticks of one core.
        let whole = total as f64 / allowed as f64;
        let cores = |ticks: u64| ticks as f64 / whole;
        let stall = |at: usize| {
            let waited = last.stalls[at]?.saturating_sub(first.stalls[at]?);
            Some((waited as f64 / 1e6 / seconds).min(1.0))
        };
        let throttled = last.quota.zip(first.quota).map(|(now, before)| {
            let periods = now.periods.saturating_sub(before.periods);
            now.throttled.saturating_sub(before.throttled) as f64 / periods.max(1) as f64
        });
        Some(Self {
            seconds,
            cores: last.cores,
            allowed_cores: allowed,
            quota_cores: last.quota.map(|quota| quota.cores),
            quota_throttled: throttled,
            own_cores: cores(own),
            foreign_cores: cores(busy.saturating_sub(own)),
            stolen_cores: cores(stolen),
            core_wait: core_wait(&first.threads, &last.threads),
            cpu_pressure: stall(0),
            io_pressure: stall(1),
            memory_pressure: stall(2),
            programs: programs(&first.others, &last.others, &cores),
        })
    }

    /// Share of the time of the allowed cores that others used, 0 to 1.
    pub fn foreign_share(&self) -> f64 {
        self.foreign_cores / self.allowed_cores.max(1) as f64
    }

    /// Cores that were allowed and without work.
    pub fn idle_cores(&self) -> f64 {
        let free = self.allowed_cores as f64 - self.foreign_cores;
        let allowed = self.quota_cores.map_or(free, |quota| quota.min(free));
        (allowed - self.own_cores).max(0.0)
    }

    /// Whether one more thread of this process would find a core.
    pub fn has_idle_core(&self) -> bool {
        self.idle_cores() >= IDLE_CORE
    }

    /// Whether other programs took so much that times of this process say little about it.
    pub fn is_disturbed(&self) -> bool {
        let share = self.foreign_share();
        share >= DISTURBED || share >= DISTURBED_IF_FULL && !self.has_idle_core()
    }

    /// Of several times those in which other programs took the most, if they disturbed one.
    pub fn most_disturbed<'o>(all: impl Iterator<Item = &'o Self>) -> Option<&'o Self> {
        let disturbed = all.filter(|found| found.is_disturbed());
        disturbed.max_by(|a, b| a.foreign_share().total_cmp(&b.foreign_share()))
    }

    /// Whether the CPU quota of its control group held the process back.
    pub fn is_held_by_quota(&self) -> bool {
        self.quota_throttled.is_some_and(|share| share >= THROTTLED)
    }

    /// Who took how much, such as `other programs took 48 % of 2 cores (rustc 0.80, cc1plus 0.12)`.
    #[must_use]
    pub fn describe_others(&self) -> String {
        let programs = self.programs.iter();
        let mut named: Vec<String> = programs
            .map(|program| format!("{} {:.2}", program.name, program.cores))
            .collect();
        if self.stolen_cores >= MIN_PROGRAM_CORES {
            let stolen = self.stolen_cores;
            named.push(format!("other virtual machines {stolen:.2}"));
        }
        let who = match named.is_empty() {
            true => "none of them is visible from here".to_owned(),
            false => named.join(", "),
        };
        let count = self.allowed_cores;
        let noun = if count == 1 { "core" } else { "cores" };
        let share = self.foreign_share() * 100.0;
        format!("other programs took {share:.0} % of {count} {noun} ({who})")
    }
}

/// Over the threads that were there at both times; `None` where the kernel does not count it.
fn core_wait(first: &HashMap<u32, (u64, u64)>, last: &HashMap<u32, (u64, u64)>) -> Option<f64> {
    let (mut ran, mut waited) = (0, 0);
    for (thread, now) in last {
        let before = first.get(thread).copied().unwrap_or_default();
        ran += now.0.saturating_sub(before.0);
        waited += now.1.saturating_sub(before.1);
    }
    (ran + waited > 0).then(|| waited as f64 / (ran + waited) as f64)
}

/// The programs that used most. Those that began and ended in between are part of the program that has waited for them.
fn programs(
    first: &HashMap<u32, Ticks>,
    last: &HashMap<u32, Ticks>,
    cores: &dyn Fn(u64) -> f64,
) -> Vec<Program> {
    let is_there = |before: &Ticks| {
        let now = last.get(&before.id);
        now.is_some_and(|now| now.started == before.started)
    };
    // What has ended counts for the process that has waited for it, from its start on: what it took before is left out.
    let mut counted: HashMap<u32, u64> = HashMap::new();
    for ended in first.values().filter(|before| !is_there(before)) {
        let mut place = ended;
        while !is_there(place) {
            match first.get(&place.parent).filter(|up| up.id != place.id) {
                Some(parent) => place = parent,
                None => break,
            }
        }
        *counted.entry(place.id).or_default() += ended.own + ended.children;
    }
    let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, now) in last {
        let before = first.get(id).filter(|before| is_there(before));
        let (own, children) = before.map_or((0, 0), |before| (before.own, before.children));
        let children = now.children.saturating_sub(children);
        let ended = counted.get(id).copied().unwrap_or_default();
        let ticks = now.own.saturating_sub(own) + children.saturating_sub(ended);
        *by_name.entry(&now.name).or_default() += ticks;
    }
    let mut all: Vec<(&str, u64)> = by_name.into_iter().collect();
    all.sort_by_key(|(name, ticks)| (std::cmp::Reverse(*ticks), *name));
    all.into_iter()
        .map(|(name, ticks)| Program {
            name: name.to_owned(),
            cores: cores(ticks),
        })
        .take_while(|program| program.cores >= MIN_PROGRAM_CORES)
        .take(PROGRAMS)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine of four cores, of which this process (id 7) may use 1 and 2.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().expect("a temporary folder"));
            machine.write("/proc/self/status", "Name: x\nCpus_allowed_list:\t1-2\n");
            machine.write("/proc/self/cgroup", "0::/a/b\n");
            machine
        }

        fn root(&self) -> SysRoot {
            SysRoot::new(self.0.path())
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root().path(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(path, text).expect("written");
        }

        fn remove(&self, path: &str) {
            fs::remove_dir_all(self.root().path(path)).expect("removed");
        }

        fn process(&self, path: &str, id: u32, name: &str, parent: u32, own: u64, children: u64) {
            let text = format!(
                "{id} ({name}) S {parent} 0 0 0 0 0 0 0 0 0 {own} 0 {children} 0 20 0 1 0 5000"
            );
            self.write(&format!("/proc/{path}/stat"), &text);
        }

        /// Each core was busy for `busy` of `total` ticks.
        fn cores(&self, busy: u64, total: u64, stolen: u64) {
            let line = |core: u32| {
                let (user, idle) = (busy - stolen, total - busy);
                format!("cpu{core} {user} 0 0 {idle} 0 0 0 {stolen} 0 0\n")
            };
            let lines: String = (0..4).map(line).collect();
            self.write("/proc/stat", &format!("cpu  0 0 0 0\n{lines}intr 1\n"));
            self.write("/proc/uptime", &format!("{}.00 9.9\n", total / 100));
        }
    }

    #[test]
    fn time_of_others_is_what_allowed_cores_lack() {
        let machine = Machine::new();
        machine.cores(0, 0, 0);
        machine.process("self", 7, "jetwatch", 1, 100, 0);
        machine.process("7", 7, "jetwatch", 1, 100, 0);
        machine.process("8", 8, "make) (x", 1, 10, 0);
        machine.process("9", 9, "sh", 8, 30, 0);
        machine.process("10", 10, "cc1", 9, 20, 0);
        machine.write("/proc/self/task/7/schedstat", "1000 0 5");
        machine.write(
            "/proc/pressure/io",
            "some avg10=0.00 total=0\nfull avg10=0.00 total=9\n",
        );
        let first = CpuCounters::read(&machine.root());
        // No time has passed.
        assert_eq!(Occupancy::between(&first, &first), None);
        // Ten seconds later.
        machine.cores(800, 1000, 100);
        machine.process("self", 7, "jetwatch", 1, 700, 0);
        machine.process("7", 7, "jetwatch", 1, 700, 0);
        // The compiler has ended with its shell and 350 ticks, 300 of them since; another one took 400.
        machine.process("8", 8, "make) (x", 1, 20, 750);
        machine.remove("/proc/9");
        machine.remove("/proc/10");
        machine.process("13", 13, "kworker/u8:2-x", 2, 40, 0);
        machine.process("12", 12, "ffmpeg", 1, 90, 0);
        machine.write("/proc/self/task/7/schedstat", "4000 1000 9");
        machine.write("/proc/self/task/99/schedstat", "0 0 0");
        machine.write(
            "/proc/pressure/io",
            "some avg10=9.00 total=2500000\nfull total=9\n",
        );
        let last = CpuCounters::read(&machine.root());
        let found = Occupancy::between(&first, &last).expect("ten seconds");
        assert_eq!(
            (found.seconds, found.cores, found.allowed_cores),
            (10.0, 4, 2)
        );
        let close = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}");
        close(found.own_cores, 0.6);
        // 1600 ticks of two cores, of which 600 are ours.
        close(found.foreign_cores, 1.0);
        close(found.stolen_cores, 0.2);
        close(found.idle_cores(), 0.4);
        assert_eq!(found.core_wait, Some(0.25));
        assert_eq!(
            (found.io_pressure, found.memory_pressure),
            (Some(0.25), None)
        );
        assert_eq!((found.quota_cores, found.quota_throttled), (None, None));
        assert!(found.is_disturbed() && !found.has_idle_core() && !found.is_held_by_quota());
        assert_eq!(
            found.describe_others(),
            "other programs took 50 % of 2 cores (make) (x 0.71, ffmpeg 0.09, kworker 0.04, other virtual machines 0.20)"
        );
    }

    #[test]
    fn quota_is_the_smallest_of_all_groups_above() {
        for (group, files) in [
            (
                "0::/a/b\n",
                [
                    ("/sys/fs/cgroup/a/b/cpu.max", "max 100000"),
                    ("/sys/fs/cgroup/a/cpu.max", "50000 100000"),
                    (
                        "/sys/fs/cgroup/a/cpu.stat",
                        "usage_usec 1\nnr_periods 100\nnr_throttled 40\nthrottled_usec 5",
                    ),
                ],
            ),
            (
                "5:memory:/c\n4:cpu,cpuacct:/c\n0::/x\n",
                [
                    ("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us", "50000"),
                    ("/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us", "100000"),
                    (
                        "/sys/fs/cgroup/cpu,cpuacct/c/cpu.stat",
                        "nr_periods 100\nnr_throttled 40\nthrottled_time 5",
                    ),
                ],
            ),
        ] {
            let machine = Machine::new();
            machine.write("/proc/self/cgroup", group);
            for (path, text) in files {
                machine.write(path, text);
            }
            let wanted = Quota {
                cores: 0.5,
                periods: 100,
                throttled: 40,
            };
            assert_eq!(
                CpuCounters::read(&machine.root()).quota,
                Some(wanted),
                "{group}"
            );
        }
        let machine = Machine::new();
        machine.write("/proc/self/cgroup", "4:cpu:/\n");
        machine.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
        machine.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
        assert_eq!(CpuCounters::read(&machine.root()).quota, None, "no limit");
    }

    #[test]
    fn disturbance_depends_on_what_is_left() {
        let of = |own: f64, foreign: f64| Occupancy {
            allowed_cores: 4,
            own_cores: own,
            foreign_cores: foreign,
            ..Occupancy::default()
        };
        for (own, foreign, is_disturbed) in [
            (1.0, 0.0, false),
            (1.0, 0.3, false),
            (1.0, 0.4, true),
            (3.7, 0.1, false),
            (3.7, 0.25, true),
        ] {
            assert_eq!(
                of(own, foreign).is_disturbed(),
                is_disturbed,
                "{own} {foreign}"
            );
        }
        let quota = Occupancy {
            quota_cores: Some(0.5),
            quota_throttled: Some(0.8),
            ..of(0.5, 0.0)
        };
        assert!(quota.is_held_by_quota() && !quota.has_idle_core() && !quota.is_disturbed());
    }

    #[test]
    fn counters_of_this_machine_are_read() {
        let found = CpuCounters::read(&SysRoot::default());
        assert!(!found.allowed.is_empty() && found.cores >= found.allowed.len());
        assert!(found.own.is_some() && found.uptime > 0.0 && !found.others.is_empty());
        let empty = tempfile::tempdir().expect("a temporary folder");
        let none = CpuCounters::read(&SysRoot::new(empty.path()));
        assert_eq!(Occupancy::between(&none, &none), None);
    }
}
