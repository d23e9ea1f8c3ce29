// SPDX-License-Identifier: Apache-2.0
//! Sensor readings: CPUs, engines, temperatures, power rails, throttling and over-current.
//!
//! [`SensorSnapshot::read`] reads some hundred small files once, which takes some milliseconds. It keeps no state. Paths are those
//! of L4T 35 to 39. What a machine does not have is omitted or `None`; what exists and cannot be read is listed in `unreadable`
//! with its path, and does not affect the other values. On a Jetson only root may read the memory's counters: for other users, the
//! unit jetwatch-readings copies them.

mod cpu;
mod engines;
mod power;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use super::{Machine, PlatformError, SysRoot};

pub(super) use cpu::parse_ticks;
pub use cpu::{Cpu, CpuTicks};
pub use engines::{Engine, EngineKind};
pub use power::{EventCounter, Rail, Temperature, Throttle};

/// Folder that only root may read.
const ROOT_ONLY_DIR: &str = "/sys/kernel/debug/";

/// Folder to which jetwatch-readings.service copies files of [`ROOT_ONLY_DIR`] while it runs, each with its full path below it.
const COPY_DIR: &str = "/run/jetwatch-readings";

/// All sensors at one time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SensorSnapshot {
    /// CPUs by number, including offline ones.
    pub cpus: Vec<Cpu>,
    /// GPU, memory and other engines.
    pub engines: Vec<Engine>,
    /// Thermal zones.
    pub temperatures: Vec<Temperature>,
    /// Power rails measured by an INA3221 or INA238.
    pub rails: Vec<Rail>,
    /// Cooling devices that throttle, active or not.
    pub throttles: Vec<Throttle>,
    /// Over-current and under-voltage events since boot.
    pub over_current: Vec<EventCounter>,
    /// Files that exist and could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// A file or folder that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The file; `None` where the reason names it.
    pub path: Option<PathBuf>,
    /// The reason, with the path.
    pub reason: String,
}

impl SensorSnapshot {
    /// Reads all sensors of `machine` below `root`.
    #[must_use]
    pub fn read(root: &SysRoot, machine: &Machine) -> Self {
        let mut reader = Reader {
            root,
            unreadable: Vec::new(),
        };
        let cpus = cpu::read(&mut reader);
        let engines = engines::read(&mut reader, machine);
        let temperatures = power::temperatures(&mut reader);
        let throttles = power::throttles(&mut reader);
        let rails = power::rails(&mut reader);
        let over_current = power::over_current(&mut reader);
        Self {
            cpus,
            engines,
            temperatures,
            rails,
            throttles,
            over_current,
            unreadable: reader.unreadable,
        }
    }

    /// Load of each CPU since `earlier`, in percent, by number. A CPU that was offline at one of the two times, or whose
    /// counters did not advance, is omitted.
    pub fn cpu_loads_since(&self, earlier: &Self) -> Vec<(u32, f32)> {
        let load = |cpu: &Cpu| {
            let before = earlier.cpus.iter().find(|old| old.number == cpu.number)?;
            Some((cpu.number, cpu.ticks?.load_since(before.ticks?)?))
        };
        self.cpus.iter().filter_map(load).collect()
    }

    /// Active causes of throttling, one sentence each. For past events see
    /// [`events_since`](Self::events_since).
    pub fn throttled(&self) -> Vec<String> {
        let hot = self.throttles.iter().filter(|throttle| throttle.state > 0);
        let hot =
            hot.map(|throttle| format!("{} is at step {}: too hot", throttle.name, throttle.state));
        let alarms = self.rails.iter().filter(|rail| rail.alarm == Some(true));
        let alarms = alarms.map(|rail| format!("{} draws more current than its limit", rail.name));
        hot.chain(alarms).collect()
    }

    /// Over-current events since `earlier`, by name. A counter that was reset counts from zero.
    pub fn events_since(&self, earlier: &Self) -> Vec<(String, u64)> {
        let more = |counter: &EventCounter| {
            let before = earlier
                .over_current
                .iter()
                .find(|old| old.name == counter.name)
                .map_or(0, |old| old.count);
            let since = counter.count.checked_sub(before).unwrap_or(counter.count);
            (since > 0).then(|| (counter.name.clone(), since))
        };
        self.over_current.iter().filter_map(more).collect()
    }
}

/// Reads files below a root and collects those that could not be read.
struct Reader<'r> {
    root: &'r SysRoot,
    unreadable: Vec<Unreadable>,
}

impl Reader<'_> {
    fn text(&mut self, path: &str) -> Option<String> {
        let read = self.root.text(path);
        let read = read.or_else(|error| self.read_copy(path, error, SysRoot::text));
        self.ok_or_record(read).flatten()
    }

    fn number<T: FromStr>(&mut self, path: &str) -> Option<T> {
        let read = self.root.number(path);
        let read = read.or_else(|error| self.read_copy(path, error, SysRoot::number));
        self.ok_or_record(read).flatten()
    }

    /// Reads the copy made by jetwatch-readings.service below [`COPY_DIR`] with `read`; returns `error` when there is none.
    fn read_copy<T>(
        &self,
        path: &str,
        error: PlatformError,
        read: impl Fn(&SysRoot, &str) -> Result<Option<T>, PlatformError>,
    ) -> Result<Option<T>, PlatformError> {
        let is_roots = path.starts_with(ROOT_ONLY_DIR);
        match error {
            PlatformError::Read { .. } if is_roots && self.root.exists(COPY_DIR) => {
                read(self.root, &format!("{COPY_DIR}{path}"))
            }
            PlatformError::Read { path, source }
                if is_roots && source.kind() == ErrorKind::PermissionDenied =>
            {
                Err(PlatformError::RootOnly { path })
            }
            error => Err(error),
        }
    }

    fn names(&mut self, path: &str) -> Vec<String> {
        let read = self.root.names(path);
        self.ok_or_record(read).unwrap_or_default()
    }

    fn ok_or_record<T>(&mut self, read: Result<T, PlatformError>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                let path = match &error {
                    PlatformError::Read { path, .. }
                    | PlatformError::RootOnly { path }
                    | PlatformError::Malformed { path, .. } => Some(path.clone()),
                    _ => None,
                };
                let unreadable = Unreadable {
                    path,
                    reason: error.to_string(),
                };
                if !self.unreadable.contains(&unreadable) {
                    self.unreadable.push(unreadable);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(state: u32, count: u64) -> SensorSnapshot {
        SensorSnapshot {
            throttles: vec![Throttle {
                name: "gpu-throttle-alert".to_owned(),
                state,
            }],
            over_current: vec![EventCounter {
                name: "oc3".to_owned(),
                count,
            }],
            ..SensorSnapshot::default()
        }
    }

    #[test]
    fn throttling_reports_cause() {
        assert!(readings(0, 0).throttled().is_empty());
        assert_eq!(
            readings(2, 0).throttled(),
            ["gpu-throttle-alert is at step 2: too hot"]
        );
    }

    #[test]
    fn events_are_counted_between_two_readings() {
        assert!(readings(0, 7).events_since(&readings(0, 7)).is_empty());
        let since = readings(0, 9).events_since(&readings(0, 7));
        assert_eq!(since, [("oc3".to_owned(), 2)]);
        // The machine was rebooted in between.
        let since = readings(0, 1).events_since(&readings(0, 7));
        assert_eq!(since, [("oc3".to_owned(), 1)]);
    }
}
