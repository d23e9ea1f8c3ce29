//! Why something of the machine could not be read or set.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// What failed at one file or tool of the system.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// A file or folder is there and cannot be read.
    #[error("cannot read {}: {source}{}", path.display(), advice(source))]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Only root may read a file, and nobody reads it in our place.
    #[error(
        "cannot read {}: only root may; run it as root (sudo), or start jetwatch-readings.service, which reads it for others", path.display()
    )]
    RootOnly {
        /// Which.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}{}", path.display(), advice(source))]
    Write {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds something else than it should.
    #[error("{}{}: found {found:?}, expected {expected}", path.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Line from 1, in files of several.
        line: Option<usize>,
        /// What stands there.
        found: String,
        /// The accepted form.
        expected: &'static str,
    },
    /// A file that a setting lives in is not there.
    #[error("{} is missing: {why}", path.display())]
    Missing {
        /// Which.
        path: PathBuf,
        /// What follows from it, or what to do.
        why: &'static str,
    },
    /// There are several files, and no sign which one counts.
    #[error("{} is missing and there are several of its kind in {}: {}; link the machine's own to {}", link.display(), folder.display(), names.join(", "), link.display())]
    Ambiguous {
        /// The name that would decide.
        link: PathBuf,
        /// Where the candidates lie.
        folder: PathBuf,
        /// Their names.
        names: Vec<String>,
    },
    /// A tool of JetPack is not installed.
    #[error(
        "the tool {tool} is not installed: it comes with JetPack (package {package}); without it this setting cannot be made, so leave it out of the configuration"
    )]
    NoTool {
        /// Its name.
        tool: &'static str,
        /// The package that brings it.
        package: &'static str,
    },
    /// A tool could not be started.
    #[error("cannot start {}: {source}", path.display())]
    ToolNotStarted {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A tool did not end.
    #[error(
        "`{command}` did not end within {seconds} s and was killed; run it by hand to see what it waits for"
    )]
    ToolTimeout {
        /// Its name with its arguments.
        command: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A tool failed.
    #[error("`{command}` failed ({status}): {said}")]
    ToolFailed {
        /// Its name with its arguments.
        command: String,
        /// How it ended.
        status: String,
        /// The end of what it printed.
        said: String,
    },
    /// A tool answered in a form that is not known.
    #[error("`{command}` printed {said:?}, expected {expected}")]
    UnexpectedOutput {
        /// Its name with its arguments.
        command: String,
        /// The end of what it printed.
        said: String,
        /// The accepted form.
        expected: &'static str,
    },
    /// The tool asks whether to reboot, which nobody but the machine's owner may answer.
    #[error(
        "nvpmodel changes to mode {mode} only with a reboot, and its question was not answered: run `sudo nvpmodel -m {id}` by hand and \
         confirm when the machine may go down; after that the mode is as wanted"
    )]
    RebootRequired {
        /// The mode with its name.
        mode: String,
        /// Its number.
        id: u32,
    },
    /// A power mode that this machine does not have.
    #[error("found no power mode {wanted:?}, expected one of {} ({})", known.join(", "), path.display())]
    NoSuchMode {
        /// What was asked for.
        wanted: String,
        /// The modes with their numbers.
        known: Vec<String>,
        /// Where they are listed.
        path: PathBuf,
    },
    /// A fan profile that this machine does not have.
    #[error("found no fan profile {wanted:?}, expected one of {} ({})", known.join(", "), path.display())]
    NoSuchProfile {
        /// What was asked for.
        wanted: String,
        /// The profiles.
        known: Vec<String>,
        /// Where they are listed.
        path: PathBuf,
    },
    /// A setting was made without an error and is not as wanted.
    #[error(
        "it was set and read back: found {real}, expected {wanted}{detail}; something else on this machine sets it too, or its tool failed half-way"
    )]
    NotApplied {
        /// What was wanted.
        wanted: String,
        /// What is.
        real: String,
        /// What differs in particular.
        detail: String,
    },
    /// There is no clock to look at.
    #[error(
        "this machine shows no clock of a CPU or GPU, so that nobody could say whether they are held"
    )]
    NoClocks,
    /// The clocks' state before is not known.
    #[error(
        "the clocks as they were before are not known, {} is missing; a reboot gives them back to the system",
        path.display()
    )]
    NoStoredClocks {
        /// The file that should hold them.
        path: PathBuf,
    },
}

/// What to do about the usual errors of the system.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::PermissionDenied => "; run it as root (sudo)",
        ErrorKind::ReadOnlyFilesystem => {
            "; it is mounted read only here, as in containers: run it on the machine itself"
        }
        ErrorKind::StorageFull => "; the disk is full",
        _ => "",
    }
}
