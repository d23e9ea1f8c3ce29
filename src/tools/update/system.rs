// SPDX-License-Identifier: Apache-2.0
//! The boundary to the machine: package manager, service manager and health of the daemons. [`Debian`](super::Debian) is the real one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jetwatch_telemetry::health_report::HealthReport;

use super::UpdateError;

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// Its version.
    pub version: String,
    /// Unpacked and configured, not half of it.
    pub is_whole: bool,
}

/// A daemon as the service manager and its health file know it.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonState {
    /// Its unit.
    pub unit: String,
    /// The unit is active or on its way there.
    pub is_active: bool,
    /// The unit has failed, and is not started again.
    pub is_failed: bool,
    /// How often the service manager has restarted it by itself.
    pub restarts: u32,
    /// It has a process.
    pub has_process: bool,
    /// Identifier of its present start, another one after each.
    pub run: String,
    /// It runs the program that is installed, not one that was replaced meanwhile.
    pub runs_installed_program: bool,
    /// What its process has written in the last seconds.
    pub health: Option<HealthReport>,
}

/// The machine.
pub trait System {
    /// Reads the index of the repository again, and verifies its signature and age.
    ///
    /// # Errors
    /// The index cannot be fetched or trusted.
    fn refresh(&mut self) -> Result<(), UpdateError>;

    /// The installed packages of this project with their versions: `jetwatch`, those that are made with it, and models.
    ///
    /// # Errors
    /// The package manager fails.
    fn packages(&mut self) -> Result<Vec<(String, String)>, UpdateError>;

    /// The version of `package` that the repository offers; `None`: it has none.
    ///
    /// # Errors
    /// The index cannot be read.
    fn candidate(&mut self, package: &str) -> Result<Option<String>, UpdateError>;

    /// Whether version `a` is newer than version `b`.
    ///
    /// # Errors
    /// The package manager fails.
    fn is_newer(&mut self, a: &str, b: &str) -> Result<bool, UpdateError>;

    /// What is installed of `package`.
    ///
    /// # Errors
    /// The package manager fails.
    fn installed(&mut self, package: &str) -> Result<Option<Installed>, UpdateError>;

    /// Fetches a version of a package into `folder`, verified by the signed index.
    ///
    /// # Errors
    /// The repository has it not, or it is not what the index says.
    fn fetch(
        &mut self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<PathBuf, UpdateError>;

    /// A file of the installed version of `package` from elsewhere: the cache of the package manager, or made of the installed files.
    ///
    /// # Errors
    /// There is no such way on this machine.
    fn keep_without_repository(
        &mut self,
        package: &str,
        version: &str,
        folder: &Path,
    ) -> Result<PathBuf, UpdateError>;

    /// Lets the program check the configuration of every daemon with its networks and their recorded detections: as they are with the
    /// packages `files`, which are unpacked into the empty folder `scratch`, or as they are installed where there are none. The detector's
    /// record must be usable where its model is one of `models`, which are names of packages.
    ///
    /// # Errors
    /// The program does not run, does not take a configuration, or a network does not find what was recorded.
    fn check(
        &mut self,
        version: &str,
        files: &[PathBuf],
        models: &[&str],
        scratch: &Path,
    ) -> Result<(), UpdateError>;

    /// Installs new versions, and what they depend on.
    ///
    /// # Errors
    /// The package manager fails; the packages may be half installed.
    fn install(&mut self, files: &[PathBuf]) -> Result<(), UpdateError>;

    /// Installs earlier versions, whatever state the packages are in; needs no repository.
    ///
    /// # Errors
    /// The package manager fails.
    fn reinstall(&mut self, files: &[PathBuf]) -> Result<(), UpdateError>;

    /// Ends what an interrupted package manager has begun, as far as that is possible.
    ///
    /// # Errors
    /// Some package stays half installed.
    fn repair(&mut self) -> Result<(), UpdateError>;

    /// Keeps other programs from installing other versions of `packages`, or allows it again.
    ///
    /// # Errors
    /// The package manager fails.
    fn hold(&mut self, packages: &[&str], hold: bool) -> Result<(), UpdateError>;

    /// All daemons whose units are active, starting or failed.
    ///
    /// # Errors
    /// The service manager does not answer.
    fn daemons(&mut self) -> Result<Vec<DaemonState>, UpdateError>;

    /// Starts a unit again.
    ///
    /// # Errors
    /// The service manager refuses.
    fn restart(&mut self, unit: &str) -> Result<(), UpdateError>;

    /// Ends the processes of a unit at once.
    ///
    /// # Errors
    /// The service manager refuses.
    fn kill(&mut self, unit: &str) -> Result<(), UpdateError>;

    /// Bytes that the installed packages need on disk, twice: the earlier and the new files are there at the same time.
    fn space_needed(&mut self, files: &[PathBuf]) -> u64;

    /// Time since the start of the machine.
    fn now(&self) -> Duration;

    /// Waits.
    fn sleep(&mut self, time: Duration);
}
