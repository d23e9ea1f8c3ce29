// SPDX-License-Identifier: Apache-2.0
//! Errors of reading and setting the machine.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// A failure at one file or tool of the system.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum PlatformError {
    #[error("cannot read {}: {source}{}", path.display(), advice(source))]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "cannot read {}: only root may; run it as root (sudo), or start jetwatch-readings.service, which copies it for other users", path.display()
    )]
    RootOnly { path: PathBuf },
    #[error("cannot write {}: {source}{}", path.display(), advice(source))]
    Write { path: PathBuf, source: io::Error },
    #[error("{}{}: found {found:?}, expected {expected}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Malformed {
        path: PathBuf,
        /// Line from 1, in files of several lines.
        line: Option<usize>,
        found: String,
        expected: &'static str,
    },
    #[error("{} is missing: {why}", path.display())]
    Missing { path: PathBuf, why: &'static str },
    #[error("{} is missing and there are several of its kind in {}: {}; create the link {} to the right one", link.display(), folder.display(), names.join(", "), link.display())]
    Ambiguous {
        link: PathBuf,
        folder: PathBuf,
        names: Vec<String>,
    },
    #[error(
        "the tool {tool} is not installed: it comes with JetPack (package {package}); without it this setting cannot be applied, so remove it from the configuration"
    )]
    NoTool {
        tool: &'static str,
        package: &'static str,
    },
    #[error("cannot start {}: {source}", path.display())]
    ToolNotStarted { path: PathBuf, source: io::Error },
    #[error(
        "`{command}` did not end within {seconds} s and was killed; run it by hand to see what it waits for"
    )]
    ToolTimeout { command: String, seconds: u64 },
    #[error("`{command}` failed ({status}): {output}")]
    ToolFailed {
        command: String,
        status: String,
        output: String,
    },
    #[error("`{command}` printed {output:?}, expected {expected}")]
    UnexpectedOutput {
        command: String,
        output: String,
        expected: &'static str,
    },
    #[error(
        "nvpmodel changes to mode {mode} only with a reboot, and its prompt was not answered: run `sudo nvpmodel -m {id}` by hand and \
         confirm when the machine may reboot; then the mode is set"
    )]
    RebootRequired { mode: String, id: u32 },
    #[error("found no power mode {requested:?}, expected one of {} ({})", available.join(", "), path.display())]
    NoSuchMode {
        requested: String,
        available: Vec<String>,
        path: PathBuf,
    },
    #[error("found no fan profile {requested:?}, expected one of {} ({})", available.join(", "), path.display())]
    NoSuchProfile {
        requested: String,
        available: Vec<String>,
        path: PathBuf,
    },
    #[error(
        "it was set, but reads back differently: found {actual}, expected {requested}{detail}; another program on this machine changes it too, or its tool failed partially"
    )]
    NotApplied {
        requested: String,
        actual: String,
        detail: String,
    },
    #[error(
        "found no readable clock of a CPU or GPU on this machine, so it cannot be verified whether the clocks are held"
    )]
    NoClocks,
    #[error(
        "the original clocks are unknown: {} is missing; a reboot restores them",
        path.display()
    )]
    NoStoredClocks { path: PathBuf },
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
