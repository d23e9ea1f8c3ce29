// SPDX-License-Identifier: Apache-2.0
//! Energy that the machine took during a measurement: from the power rails of a Jetson, or from the counters of a PC's CPU
//! (RAPL).
//!
//! A rail gives the power at one moment, so its readings are integrated over time; a counter gives the energy itself. Counters
//! of RAPL hold the CPU packages only: memory, graphics card and disks are not in them.

use std::time::Duration;

use serde::Serialize;

use super::{Rail, SysRoot};

/// Folder of the kernel's counters of energy.
const COUNTERS: &str = "/sys/class/powercap";

/// Names of packages among the counters: `intel-rapl:0`, on AMD's CPUs too. Parts of a package have a second colon.
const PACKAGE: &str = "intel-rapl:";

/// The rail that feeds all others, where the machine has one: of a module, and of Thor.
const WHOLE: [&str; 2] = ["VDD_IN", "VIN"];

/// Sums up the energy between its first and its last reading.
#[derive(Debug, Default)]
pub struct EnergyMeter {
    rails: Option<RailSums>,
    packages: Vec<Package>,
}

/// The energy of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Energy {
    /// In joules.
    pub joules: f64,
    /// Mean power, in watts.
    pub watts: f64,
    /// Rails or counters that were read.
    pub measured: Vec<String>,
}

#[derive(Debug)]
struct RailSums {
    names: Vec<String>,
    last: (Duration, f64),
    joules: f64,
}

#[derive(Debug)]
struct Package {
    name: String,
    /// At the last reading, in microjoules.
    microjoules: u64,
    joules: f64,
}

impl EnergyMeter {
    /// Takes the next reading, `at` a time since any fixed moment: `rails` as they were read just now, and the counters below
    /// `root`. Take one at least each minute, since counters start again from 0.
    pub fn read(&mut self, root: &SysRoot, rails: &[Rail], at: Duration) {
        if let Some((names, watts)) = power(rails) {
            match &mut self.rails {
                Some(sums) if sums.names == names => sums.add(at, watts),
                // A rail that came or went changes what is measured: it begins again.
                other => {
                    *other = Some(RailSums {
                        names,
                        last: (at, watts),
                        joules: 0.0,
                    });
                }
            }
        }
        self.read_packages(root);
    }

    fn read_packages(&mut self, root: &SysRoot) {
        let folders = root.names(COUNTERS).unwrap_or_default();
        let is_package = |name: &&String| {
            let number = name.strip_prefix(PACKAGE);
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        for folder in folders.iter().filter(is_package) {
            let number = |file: &str| root.number::<u64>(&format!("{COUNTERS}/{folder}/{file}"));
            // `psys` is the whole platform, packages included.
            let name = root.text(&format!("{COUNTERS}/{folder}/name"));
            if (name.ok().flatten()).is_some_and(|name| !name.starts_with("package")) {
                continue;
            }
            // Since 2020 only root may read them.
            let Ok(Some(microjoules)) = number("energy_uj") else {
                continue;
            };
            match self
                .packages
                .iter_mut()
                .find(|package| package.name == *folder)
            {
                None => self.packages.push(Package {
                    name: folder.clone(),
                    microjoules,
                    joules: 0.0,
                }),
                Some(package) => {
                    let range = number("max_energy_range_uj").ok().flatten().unwrap_or(0);
                    let passed =
                        microjoules
                            .checked_sub(package.microjoules)
                            .unwrap_or_else(|| {
                                (range.saturating_sub(package.microjoules))
                                    .saturating_add(microjoules)
                            });
                    package.joules += passed as f64 / 1e6;
                    package.microjoules = microjoules;
                }
            }
        }
    }

    /// The energy of the `length` from the first reading to the last; `None` where nothing can be read, or no time passed.
    #[must_use]
    pub fn finish(self, length: Duration) -> Option<Energy> {
        let (joules, measured) = match self.rails {
            // The rails hold the whole module.
            Some(rails) => (rails.joules, rails.names),
            None if self.packages.is_empty() => return None,
            None => (
                self.packages.iter().map(|package| package.joules).sum(),
                self.packages
                    .into_iter()
                    .map(|package| package.name)
                    .collect(),
            ),
        };
        (!length.is_zero()).then(|| Energy {
            joules,
            watts: joules / length.as_secs_f64(),
            measured,
        })
    }
}

impl RailSums {
    fn add(&mut self, at: Duration, watts: f64) {
        let passed = at.saturating_sub(self.last.0).as_secs_f64();
        self.joules += passed * (self.last.1 + watts) / 2.0;
        self.last = (at, watts);
    }
}

/// Names of the rails that hold the whole module, and their power in watts: the rail that feeds all others, or all of them.
fn power(rails: &[Rail]) -> Option<(Vec<String>, f64)> {
    let whole = rails
        .iter()
        .filter(|rail| WHOLE.contains(&rail.name.as_str()));
    let mut used: Vec<&Rail> = whole.collect();
    if used.is_empty() {
        used = rails.iter().collect();
    }
    let watts: Option<f64> = used
        .iter()
        .map(|rail| Some(f64::from(rail.milliwatts()?) / 1e3))
        .sum();
    let names: Vec<String> = used.iter().map(|rail| rail.name.clone()).collect();
    (!names.is_empty()).then_some((names, watts?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn rail(name: &str, milliamperes: Option<u32>) -> Rail {
        Rail {
            name: name.to_owned(),
            millivolts: Some(5000),
            milliamperes,
            limit_milliamperes: None,
            alarm: None,
        }
    }

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn power_of_the_feeding_rail_is_integrated() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        let mut meter = EnergyMeter::default();
        // 5 W, 10 W, 10 W: 7.5 J in the first second, 20 J in two more.
        for (at, milliamperes) in [(0, 1000), (1, 2000), (3, 2000)] {
            let rails = [
                rail("VDD_CPU", Some(400)),
                rail("VDD_IN", Some(milliamperes)),
            ];
            meter.read(&root, &rails, S * at);
        }
        let energy = meter.finish(3 * S).expect("rails");
        assert!((energy.joules - 27.5).abs() < 1e-9, "{energy:?}");
        assert!((energy.watts - 27.5 / 3.0).abs() < 1e-9);
        assert_eq!(energy.measured, ["VDD_IN"]);
    }

    #[test]
    fn rails_are_added_where_none_feeds_all() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        let mut meter = EnergyMeter::default();
        for at in [0, 2] {
            meter.read(&root, &[rail("A", Some(200)), rail("B", Some(400))], S * at);
        }
        // An unknown current is no 0.
        meter.read(&root, &[rail("A", None), rail("B", Some(400))], S * 3);
        let energy = meter.finish(2 * S).expect("rails");
        assert!((energy.joules - 6.0).abs() < 1e-9, "{energy:?}");
    }

    #[test]
    fn counters_of_packages_start_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        let write = |name: &str, file: &str, number: u64| {
            let path = root.path(&format!("{COUNTERS}/{name}"));
            fs::create_dir_all(&path).expect("created");
            fs::write(path.join(file), format!("{number}\n")).expect("written");
        };
        assert_eq!(EnergyMeter::default().finish(S), None);
        let mut meter = EnergyMeter::default();
        for (second, microjoules) in [(0, 7_000_000), (1, 9_500_000), (2, 500_000)] {
            write("intel-rapl:0", "energy_uj", microjoules);
            write("intel-rapl:0", "max_energy_range_uj", 10_000_000);
            write("intel-rapl:1", "energy_uj", microjoules);
            fs::write(
                root.path(&format!("{COUNTERS}/intel-rapl:1/name")),
                "psys\n",
            )
            .expect("written");
            // A part of the package is in it.
            write("intel-rapl:0:0", "energy_uj", microjoules);
            meter.read(&root, &[], S * second);
        }
        let energy = meter.finish(2 * S).expect("a counter");
        // 2.5 J, then 0.5 J to the end of the range and 0.5 J.
        assert!((energy.joules - 3.5).abs() < 1e-9, "{energy:?}");
        assert_eq!(energy.measured, ["intel-rapl:0"]);
    }
}
