//! A machine of the test: packages are files that hold their version, and one unit runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetwatch_telemetry::health_report::{HEALTH_VERSION, HealthReport, MqttHealth, SourceHealth};

use super::super::{DaemonState, Installed, Offer, System, UpdateError};

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
    /// It starts, and brings no frames of one source.
    LosesSource,
    /// It starts, and its messages are not acknowledged.
    IsNotAcknowledged,
}

/// The machine: packages, one unit, and a clock that only waiting moves.
#[derive(Debug, Clone)]
pub struct Machine {
    pub versions: BTreeMap<String, Fault>,
    pub repository: Vec<String>,
    pub installed: Installed,
    pub held: bool,
    /// Version of the running program, and since when; `None`: the unit has failed.
    pub running: Option<(String, Duration)>,
    pub clock: Duration,
    /// Operations until the process is killed.
    pub kill_after: Option<usize>,
    pub operations: usize,
    pub is_refresh_refused: bool,
    pub repack_works: bool,
}

impl Machine {
    pub fn new(new: Fault) -> Self {
        let versions = [("1.0", Fault::Good), ("1.1", new)];
        Self {
            versions: versions
                .map(|(version, fault)| (version.to_owned(), fault))
                .into(),
            repository: vec!["1.0".to_owned(), "1.1".to_owned()],
            installed: whole("1.0"),
            held: false,
            running: Some(("1.0".to_owned(), Duration::ZERO)),
            clock: Duration::from_secs(1000),
            kill_after: None,
            operations: 0,
            is_refresh_refused: false,
            repack_works: true,
        }
    }

    /// One operation; the process may be killed before it.
    fn operation(&mut self) {
        if self.kill_after == Some(self.operations) {
            self.kill_after = None;
            std::panic::panic_any("killed");
        }
        self.operations += 1;
    }

    fn put(&mut self, file: &Path) -> String {
        let version = fs::read_to_string(file).expect("a package");
        self.installed = Installed {
            version: version.clone(),
            is_whole: false,
        };
        // Between unpacking and configuring.
        self.operation();
        self.installed.is_whole = true;
        version
    }
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

    fn offers(&mut self) -> Result<Vec<Offer>, UpdateError> {
        self.operation();
        Ok(vec![Offer {
            package: "jetwatch".to_owned(),
            installed: self.installed.version.clone(),
            candidate: self.repository.last().cloned(),
        }])
    }

    fn is_newer(&mut self, a: &str, b: &str) -> Result<bool, UpdateError> {
        Ok(a > b)
    }

    fn installed(&mut self, package: &str) -> Result<Option<Installed>, UpdateError> {
        Ok((package == "jetwatch").then(|| self.installed.clone()))
    }

    fn fetch(
        &mut self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<PathBuf, UpdateError> {
        self.operation();
        if !self.repository.iter().any(|known| known == version) {
            return Err(refused("not in the repository"));
        }
        let path = folder.join(format!("{package}.deb"));
        fs::write(&path, version).expect("written");
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
        fs::write(&path, version).expect("written");
        Ok(path)
    }

    fn check_configuration(
        &mut self,
        version: &str,
        file: &Path,
        _: &Path,
    ) -> Result<(), UpdateError> {
        self.operation();
        assert_eq!(fs::read_to_string(file).expect("a package"), version);
        match self.versions[version] {
            Fault::RefusesConfiguration => Err(UpdateError::Configuration {
                version: version.to_owned(),
                problem: "unknown key".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn install(&mut self, files: &[PathBuf]) -> Result<(), UpdateError> {
        self.operation();
        let version = self.put(&files[0]);
        if self.versions[&version] == Fault::FailsToInstall {
            self.installed.is_whole = false;
            return Err(refused("the maintainer script failed"));
        }
        Ok(())
    }

    fn reinstall(&mut self, files: &[PathBuf]) -> Result<(), UpdateError> {
        self.operation();
        self.put(&files[0]);
        Ok(())
    }

    fn repair(&mut self) -> Result<(), UpdateError> {
        self.operation();
        let is_bad = self.versions[&self.installed.version] == Fault::FailsToInstall;
        self.installed.is_whole = !is_bad;
        match is_bad {
            true => Err(refused("half installed")),
            false => Ok(()),
        }
    }

    fn hold(&mut self, packages: &[&str], hold: bool) -> Result<(), UpdateError> {
        self.operation();
        assert_eq!(packages, ["jetwatch"]);
        self.held = hold;
        Ok(())
    }

    fn daemons(&mut self) -> Result<Vec<DaemonState>, UpdateError> {
        self.operation();
        let (version, since) = match &self.running {
            Some((version, since)) => (version.as_str(), *since),
            None => ("1.0", Duration::ZERO),
        };
        let fault = self.versions[version];
        let up = self.clock.saturating_sub(since);
        let frames = |lost: bool| if lost { 0 } else { up.as_millis() as u64 / 100 };
        let source = |name: &str, lost: bool| SourceHealth {
            name: name.to_owned(),
            state: "online".to_owned(),
            frames: frames(lost),
            detected: frames(lost),
            last_frame_age_ms: (frames(lost) > 0).then_some(50),
        };
        let acknowledged = match fault {
            Fault::IsNotAcknowledged => 0,
            _ => frames(false),
        };
        let health = HealthReport {
            version: HEALTH_VERSION,
            program: version.to_owned(),
            pid: 1,
            started_boot_ms: 0,
            written_boot_ms: 0,
            ready: up >= Duration::from_secs(2),
            waits_for: None,
            builds_engine: false,
            errors: 0,
            sources: vec![
                source("gate", false),
                source("yard", matches!(fault, Fault::LosesSource | Fault::Hangs)),
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
            runs_installed_program: self.running.is_some() && version == self.installed.version,
            health: self.running.is_some().then_some(health),
        }])
    }

    fn restart(&mut self, unit: &str) -> Result<(), UpdateError> {
        self.operation();
        assert_eq!(unit, "jetwatch.service");
        let running = self.running.as_ref();
        if running.is_some_and(|(version, _)| self.versions[version] == Fault::Hangs) {
            return Ok(());
        }
        let version = self.installed.version.clone();
        let crashes = self.versions[&version] == Fault::Crashes;
        self.running = (!crashes).then_some((version, self.clock));
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
