// SPDX-License-Identifier: Apache-2.0
//! A machine of the test: packages are files that hold their name and version, and one unit runs with a model, which may have a package.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetwatch_telemetry::health_report::{HEALTH_VERSION, HealthReport, MqttHealth, SourceHealth};

use super::super::{DaemonState, Installed, System, UpdateError};

/// The package of the model.
pub const MODEL: &str = "jetwatch-model-street";

/// What a version does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Good,
    /// It does not take the configuration.
    RefusesConfiguration,
    /// Its maintainer script fails.
    FailsToInstall,
    /// Its unit fails.
    Crashes,
    /// It starts, brings no frames of one source, and does not end when it is asked to.
    Hangs,
    /// It works, and hangs 2.5 s after its start.
    HangsLater,
    /// It starts, and brings no frames of one source.
    LosesSource,
    /// It starts, and its messages are not acknowledged.
    IsNotAcknowledged,
    /// A model that does not find what was recorded.
    MissesDetections,
    /// A model that finds it until it is installed.
    IsDamaged,
    /// A model with which half of the frames go through the network.
    IsSlow,
    /// A model with which the daemon logs errors.
    LogsErrors,
}

/// The machine: packages, one unit, and a clock that only waiting moves.
#[derive(Debug, Clone)]
pub struct Machine {
    /// What each version of a package does wrong; others do nothing wrong.
    pub faults: BTreeMap<(String, String), Fault>,
    /// The versions of each package, lowest first.
    pub repository: BTreeMap<String, Vec<String>>,
    pub packages: BTreeMap<String, Installed>,
    pub held: Vec<String>,
    /// Versions of the running program and its model, and since when; `None`: the unit has failed.
    pub running: Option<(String, String, Duration)>,
    pub starts: u32,
    pub clock: Duration,
    /// Operations until the process is killed.
    pub kill_after: Option<usize>,
    pub operations: usize,
    pub is_refresh_refused: bool,
    pub repack_works: bool,
}

impl Machine {
    /// With version 1.0, where the repository has 1.1.
    pub fn new(new: Fault) -> Self {
        let mut machine = Self {
            faults: BTreeMap::new(),
            repository: BTreeMap::new(),
            packages: BTreeMap::new(),
            held: Vec::new(),
            running: None,
            starts: 0,
            clock: Duration::from_secs(1000),
            kill_after: None,
            operations: 0,
            is_refresh_refused: false,
            repack_works: true,
        };
        machine.add("jetwatch", "1.0", "1.1", new);
        machine.running = Some(("1.0".to_owned(), String::new(), Duration::ZERO));
        machine
    }

    /// The same with version 7 of a model, where the repository has 8.
    pub(crate) fn with_model(mut self, new: Fault) -> Self {
        self.add(MODEL, "7", "8", new);
        self.running = Some(("1.0".to_owned(), "7".to_owned(), Duration::ZERO));
        self
    }

    /// Where the repository has nothing newer of the program.
    pub(crate) fn without_program(mut self) -> Self {
        self.offer("jetwatch").retain(|version| version == "1.0");
        self
    }

    fn add(&mut self, package: &str, installed: &str, new: &str, fault: Fault) {
        self.faults
            .insert((package.to_owned(), new.to_owned()), fault);
        self.packages.insert(package.to_owned(), whole(installed));
        let offered = [installed, new].map(str::to_owned);
        self.repository.insert(package.to_owned(), offered.into());
    }

    pub fn offer(&mut self, package: &str) -> &mut Vec<String> {
        self.repository.get_mut(package).expect("a package")
    }

    /// The installed version of a package; empty: it is not whole.
    pub fn installed_version(&self, package: &str) -> String {
        let found = self.packages.get(package).filter(|found| found.is_whole);
        found.map_or(String::new(), |found| found.version.clone())
    }

    fn fault(&self, package: &str, version: &str) -> Fault {
        let key = (package.to_owned(), version.to_owned());
        self.faults.get(&key).copied().unwrap_or(Fault::Good)
    }

    /// What the running program and its model do wrong.
    fn running_faults(&self) -> [Fault; 2] {
        self.running
            .as_ref()
            .map_or([Fault::Good; 2], |(program, model, _)| {
                [self.fault("jetwatch", program), self.fault(MODEL, model)]
            })
    }

    /// One operation; the process may be killed before it.
    fn operation(&mut self) {
        if self.kill_after == Some(self.operations) {
            self.kill_after = None;
            std::panic::panic_any("killed");
        }
        self.operations += 1;
    }

    /// Unpacks all, then configures all.
    fn put(&mut self, files: &[PathBuf]) {
        let packages: Vec<_> = files.iter().map(|file| read(file)).collect();
        for (package, version) in &packages {
            let unpacked = Installed {
                version: version.clone(),
                is_whole: false,
            };
            self.packages.insert(package.clone(), unpacked);
            self.operation();
        }
        for (package, version) in &packages {
            self.packages.insert(package.clone(), whole(version));
        }
    }
}

/// Name and version in a package file.
fn read(file: &Path) -> (String, String) {
    let text = fs::read_to_string(file).expect("a package");
    let (package, version) = text.split_once(' ').expect("a name and a version");
    (package.to_owned(), version.to_owned())
}

pub fn whole(version: &str) -> Installed {
    Installed {
        version: version.to_owned(),
        is_whole: true,
    }
}

fn refused(text: &str) -> UpdateError {
    UpdateError::Refused(text.to_owned())
}

impl System for Machine {
    fn refresh(&mut self) -> Result<(), UpdateError> {
        self.operation();
        match self.is_refresh_refused {
            true => Err(UpdateError::Repository {
                problem: "not signed".to_owned(),
            }),
            false => Ok(()),
        }
    }

    fn packages(&mut self) -> Result<Vec<(String, String)>, UpdateError> {
        self.operation();
        let packages = self.packages.iter();
        let packages = packages.map(|(name, found)| (name.clone(), found.version.clone()));
        Ok(packages.collect())
    }

    fn candidate(&mut self, package: &str) -> Result<Option<String>, UpdateError> {
        Ok(self.offer(package).last().cloned())
    }

    fn is_newer(&mut self, a: &str, b: &str) -> Result<bool, UpdateError> {
        Ok(a > b)
    }

    fn installed(&mut self, package: &str) -> Result<Option<Installed>, UpdateError> {
        Ok(self.packages.get(package).cloned())
    }

    fn fetch(
        &mut self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<PathBuf, UpdateError> {
        self.operation();
        if !self.offer(package).iter().any(|known| known == version) {
            return Err(refused("not in the repository"));
        }
        let path = folder.join(format!("{package}.deb"));
        fs::write(&path, format!("{package} {version}")).expect("written");
        Ok(path)
    }

    fn keep_without_repository(
        &mut self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<PathBuf, UpdateError> {
        self.operation();
        if !self.repack_works {
            return Err(refused("there would be no way back"));
        }
        let path = folder.join(format!("{package}.deb"));
        fs::write(&path, format!("{package} {version}")).expect("written");
        Ok(path)
    }

    fn check(
        &mut self,
        version: &str,
        files: &[PathBuf],
        models: &[&str],
        scratch: &Path,
    ) -> Result<(), UpdateError> {
        self.operation();
        assert!(scratch.is_dir());
        let installed = self.packages.iter();
        let mut packages: BTreeMap<_, _> = installed
            .map(|(name, found)| (name.clone(), found.version.clone()))
            .collect();
        packages.extend(files.iter().map(|file| read(file)));
        let refused = |problem: &str| {
            Err(UpdateError::Configuration {
                version: version.to_owned(),
                problem: problem.to_owned(),
            })
        };
        for (package, version) in &packages {
            match self.fault(package, version) {
                Fault::RefusesConfiguration => return refused("unknown key"),
                Fault::MissesDetections => {
                    assert_eq!(models, [MODEL]);
                    return refused("wrong recorded street");
                }
                Fault::IsDamaged if files.is_empty() => return refused("wrong recorded street"),
                _ => {}
            }
        }
        Ok(())
    }

    fn install(&mut self, files: &[PathBuf]) -> Result<(), UpdateError> {
        self.operation();
        self.put(files);
        for (package, found) in self.packages.clone() {
            if self.fault(&package, &found.version) == Fault::FailsToInstall {
                self.packages.get_mut(&package).expect("found").is_whole = false;
                return Err(refused("the maintainer script failed"));
            }
        }
        Ok(())
    }

    fn reinstall(&mut self, files: &[PathBuf]) -> Result<(), UpdateError> {
        self.operation();
        self.put(files);
        Ok(())
    }

    fn repair(&mut self) -> Result<(), UpdateError> {
        self.operation();
        let mut result = Ok(());
        for (package, found) in self.packages.clone() {
            let is_bad = self.fault(&package, &found.version) == Fault::FailsToInstall;
            self.packages.get_mut(&package).expect("found").is_whole = !is_bad;
            if is_bad {
                result = Err(refused("half installed"));
            }
        }
        result
    }

    fn hold(&mut self, packages: &[&str], hold: bool) -> Result<(), UpdateError> {
        self.operation();
        self.held.retain(|held| !packages.contains(&held.as_str()));
        if hold {
            self.held
                .extend(packages.iter().map(|&name| name.to_owned()));
        }
        Ok(())
    }

    fn daemons(&mut self) -> Result<Vec<DaemonState>, UpdateError> {
        self.operation();
        let since = self
            .running
            .as_ref()
            .map_or(Duration::ZERO, |(.., since)| *since);
        let faults = self.running_faults();
        let has = |fault: Fault| faults.contains(&fault);
        let written = match has(Fault::HangsLater) {
            true => self.clock.min(since + Duration::from_millis(2500)),
            false => self.clock,
        };
        let up = written.saturating_sub(since);
        let frames = |lost: bool| if lost { 0 } else { up.as_millis() as u64 / 100 };
        let detected = |frames: u64| {
            if has(Fault::IsSlow) {
                frames / 2
            } else {
                frames
            }
        };
        let source = |name: &str, lost: bool| SourceHealth {
            name: name.to_owned(),
            state: "online".to_owned(),
            frames: frames(lost),
            detected: detected(frames(lost)),
            last_frame_age_ms: (frames(lost) > 0).then_some(50),
        };
        let acknowledged = match has(Fault::IsNotAcknowledged) {
            true => 0,
            false => frames(false),
        };
        let health = HealthReport {
            version: HEALTH_VERSION,
            program: "1.0".to_owned(),
            pid: 1,
            started_boot_ms: 0,
            written_boot_ms: u64::try_from(written.as_millis()).expect("a short time"),
            ready: up >= Duration::from_secs(2),
            waits_for: None,
            builds_engine: false,
            errors: if has(Fault::LogsErrors) {
                frames(false)
            } else {
                0
            },
            sources: vec![
                source("gate", false),
                source("yard", has(Fault::LosesSource) || has(Fault::Hangs)),
            ],
            mqtt: Some(MqttHealth {
                connected: true,
                acknowledged,
                last_acknowledged_age_ms: None,
                queued: 0,
            }),
        };
        Ok(vec![DaemonState {
            unit: "jetwatch.service".to_owned(),
            is_active: self.running.is_some(),
            is_failed: self.running.is_none(),
            restarts: 0,
            has_process: self.running.is_some(),
            run: self.starts.to_string(),
            runs_installed_program: self
                .running
                .as_ref()
                .is_some_and(|(program, ..)| *program == self.packages["jetwatch"].version),
            // An old one is not used.
            health: (self.running.is_some() && self.clock - written <= Duration::from_secs(5))
                .then_some(health),
        }])
    }

    fn restart(&mut self, unit: &str) -> Result<(), UpdateError> {
        self.operation();
        assert_eq!(unit, "jetwatch.service");
        if self.running_faults().contains(&Fault::Hangs) {
            return Ok(());
        }
        let version = |package: &str| {
            let found = self.packages.get(package);
            found.map_or(String::new(), |found| found.version.clone())
        };
        let (program, model) = (version("jetwatch"), version(MODEL));
        self.running = Some((program, model, self.clock));
        self.starts += 1;
        if self.running_faults().contains(&Fault::Crashes) {
            self.running = None;
        }
        Ok(())
    }

    fn kill(&mut self, unit: &str) -> Result<(), UpdateError> {
        self.running = None;
        // The restart that it has kept waiting.
        self.restart(unit)
    }

    fn space_needed(&mut self, files: &[PathBuf]) -> u64 {
        files.len() as u64 * 4096
    }

    fn now(&self) -> Duration {
        self.clock
    }

    fn sleep(&mut self, time: Duration) {
        self.clock += time;
    }
}
