// SPDX-License-Identifier: Apache-2.0
//! Errors of reading and setting the machine.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// A failure at one file or tool of the system.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// A file or folder exists and cannot be read.
    #[error("cannot read {}: {source}{}", path.display(), advice(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        source: io::Error,
    },
    /// Only root may read a file, and no copy is available.
    #[error(
        "cannot read {}: only root may; run it as root (sudo), or start jetwatch-readings.service, which copies it for other users", path.display()
    )]
    RootOnly {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}{}", path.display(), advice(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's message.
        source: io::Error,
    },
    /// A file has unexpected contents.
    #[error("{}{}: found {found:?}, expected {expected}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line from 1, in files of several lines.
        line: Option<usize>,
        /// The actual contents.
        found: String,
        /// The accepted form.
        expected: &'static str,
    },
    /// The file of a setting is missing.
    #[error("{} is missing: {why}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The consequence, or the remedy.
        why: &'static str,
    },
    /// There are several candidate files, and no link that selects one.
    #[error("{} is missing and there are several of its kind in {}: {}; create the link {} to the right one", link.display(), folder.display(), names.join(", "), link.display())]
    Ambiguous {
        /// The link that would select one.
        link: PathBuf,
        /// The folder of the candidates.
        folder: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// A tool of JetPack is not installed.
    #[error(
        "the tool {tool} is not installed: it comes with JetPack (package {package}); without it this setting cannot be applied, so remove it from the configuration"
    )]
    NoTool {
        /// Name of the tool.
        tool: &'static str,
        /// The package that provides it.
        package: &'static str,
    },
    /// A tool could not be started.
    #[error("cannot start {}: {source}", path.display())]
    ToolNotStarted {
        /// The tool.
        path: PathBuf,
        /// The operating system's message.
        source: io::Error,
    },
    /// A tool did not end in time.
    #[error(
        "`{command}` did not end within {seconds} s and was killed; run it by hand to see what it waits for"
    )]
    ToolTimeout {
        /// The command line.
        command: String,
        /// The timeout.
        seconds: u64,
    },
    /// A tool failed.
    #[error("`{command}` failed ({status}): {output}")]
    ToolFailed {
        /// The command line.
        command: String,
        /// The exit status.
        status: String,
        /// The end of its output.
        output: String,
    },
    /// A tool's output has an unknown form.
    #[error("`{command}` printed {output:?}, expected {expected}")]
    UnexpectedOutput {
        /// The command line.
        command: String,
        /// The end of its output.
        output: String,
        /// The accepted form.
        expected: &'static str,
    },
    /// nvpmodel prompts for a reboot, which only the owner of the machine may confirm.
    #[error(
        "nvpmodel changes to mode {mode} only with a reboot, and its prompt was not answered: run `sudo nvpmodel -m {id}` by hand and \
         confirm when the machine may reboot; then the mode is set"
    )]
    RebootRequired {
        /// Name of the mode.
        mode: String,
        /// Number of the mode.
        id: u32,
    },
    /// This machine does not have the requested power mode.
    #[error("found no power mode {requested:?}, expected one of {} ({})", available.join(", "), path.display())]
    NoSuchMode {
        /// The requested mode.
        requested: String,
        /// The modes with their numbers.
        available: Vec<String>,
        /// The file that lists them.
        path: PathBuf,
    },
    /// This machine does not have the requested fan profile.
    #[error("found no fan profile {requested:?}, expected one of {} ({})", available.join(", "), path.display())]
    NoSuchProfile {
        /// The requested profile.
        requested: String,
        /// The profiles.
        available: Vec<String>,
        /// The file that lists them.
        path: PathBuf,
    },
    /// A setting was applied without an error, but its value differs.
    #[error(
        "it was set, but reads back differently: found {actual}, expected {requested}{detail}; another program on this machine changes it too, or its tool failed partially"
    )]
    NotApplied {
        /// The requested value.
        requested: String,
        /// The actual value.
        actual: String,
        /// Details of the difference.
        detail: String,
    },
    /// There is no readable clock.
    #[error(
        "found no readable clock of a CPU or GPU on this machine, so it cannot be verified whether the clocks are held"
    )]
    NoClocks,
    /// The earlier state of the clocks is unknown.
    #[error(
        "the original clocks are unknown: {} is missing; a reboot restores them",
        path.display()
    )]
    NoStoredClocks {
        /// The file that should contain it.
        path: PathBuf,
    },
}

/// The remedy for common errors of the operating system.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied => "; run it as root (sudo)",
        ErrorKind::ReadOnlyFilesystem => {
            "; the file system is mounted read-only here, as in containers: run it on the machine itself"
        }
        ErrorKind::StorageFull => "; the disk is full",
        _ => "",
    }
}
