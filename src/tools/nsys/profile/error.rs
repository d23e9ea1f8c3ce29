//! Errors of taking a profile.

use std::io;
use std::path::PathBuf;

use super::nsys::{MIN_VERSION, Version};

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A program of this machine does not start.
    #[error("cannot start `{program}`: {source}; it is needed to reach {place}")]
    NotStarted {
        /// Its name.
        program: String,
        /// The target.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// ssh or sudo refused access.
    #[error("cannot work on {place} ({status}): {output}; {advice}")]
    ConnectFailed {
        /// The target.
        place: String,
        /// How the program that leads there ended.
        status: String,
        /// Its output.
        output: String,
        /// What to do.
        advice: &'static str,
    },
    /// The target is gone.
    #[error(
        "the connection to {place} ended while {doing}: {output}; what was started there ends by itself, and its temporary folder is removed; start the profile again"
    )]
    ConnectionLost {
        /// The target.
        place: String,
        /// What was going on.
        doing: String,
        /// The output of ssh.
        output: String,
    },
    /// Stopped by a signal.
    #[error("stopped by a signal; what was started on {place} ends, and nothing of it stays")]
    Cancelled {
        /// The target.
        place: String,
    },
    /// Unexpected answer of the target.
    #[error("{place} answered {found:?} while {doing}, expected {expected}")]
    UnexpectedReply {
        /// The target.
        place: String,
        /// What was going on.
        doing: String,
        /// Its output.
        found: String,
        /// The expected answer.
        expected: &'static str,
    },
    /// No temporary folder.
    #[error(
        "cannot make a temporary folder on {place}: {output}; choose another place with --target-folder"
    )]
    NoFolder {
        /// The target.
        place: String,
        /// The output of mktemp.
        output: String,
    },
    /// Something for the target has a line break.
    #[error(
        "{0:?} has a line break, which a command to the target must not have; choose another name"
    )]
    LineBreak(String),
    /// nsys is missing on the target.
    #[error(
        "there is no nsys on {place}: `{program}` was not found; install Nsight Systems there (for a Jetson it is in JetPack's archive), \
         or give its path with --target-nsys"
    )]
    NoNsys {
        /// The target.
        place: String,
        /// What was looked for.
        program: String,
    },
    /// nsys is missing here.
    #[error(
        "there is no nsys here to export the profile: cannot start `{program}`: {source}; install Nsight Systems, give its path with --nsys, \
         or take the profile alone with --fetch-only"
    )]
    NoLocalNsys {
        /// What was tried.
        program: String,
        /// Why it does not start.
        source: io::Error,
    },
    /// An nsys of unknown version.
    #[error(
        "cannot parse the version of `{program}` on {place}: found {output:?}; check that it is Nsight Systems"
    )]
    NoVersion {
        /// The target or this machine.
        place: String,
        /// Which nsys.
        program: String,
        /// Its output.
        output: String,
    },
    /// An nsys that writes no `.nsys-rep`.
    #[error(
        "the nsys of {place} is {version}, which writes another format, expected {MIN_VERSION} or newer; install a newer one there"
    )]
    TooOld {
        /// The target.
        place: String,
        /// Its version.
        version: Version,
    },
    /// The target's reports are newer than what can read them here.
    #[error(
        "the nsys of {place} is {there}, the one here is {here}, and an older one cannot read what a newer one wrote; install {there} or newer here, \
         give its path with --nsys, or only take the profile with --fetch-only"
    )]
    LocalNsysTooOld {
        /// The target.
        place: String,
        /// The target's version.
        there: Version,
        /// This machine's version.
        here: Version,
    },
    /// A trace that the target's nsys does not know.
    #[error(
        "the nsys {version} of {place} does not know the trace `{wanted}`, it knows {known}; install a newer one there, or choose with --trace"
    )]
    UnknownTrace {
        /// The target.
        place: String,
        /// The trace.
        wanted: String,
        /// The target's version.
        version: Version,
        /// What it does know.
        known: String,
    },
    /// jetwatch is missing on the target.
    #[error(
        "there is no `{program}` on {place}; install jetwatch there, or give its path with --program"
    )]
    NoProgram {
        /// The target.
        place: String,
        /// What was looked for.
        program: String,
    },
    /// Too little disk space on the target.
    #[error(
        "{folder} on {place} has {free_mib} MiB free, expected {wanted_mib} MiB or more for a profile; free disk space, or choose another place with --target-folder"
    )]
    NoSpace {
        /// The target.
        place: String,
        /// The temporary folder.
        folder: String,
        /// What is free.
        free_mib: u64,
        /// What is needed.
        wanted_mib: u64,
    },
    /// The target's disk became full.
    #[error(
        "the disk of {place} became full below {folder} during the profile; free disk space, profile a shorter time, or choose another place with --target-folder:\n{log}"
    )]
    DiskFull {
        /// The target.
        place: String,
        /// The temporary folder.
        folder: String,
        /// Output of nsys and the daemon.
        log: String,
    },
    /// The daemon failed, or nsys before it.
    #[error(
        "the daemon, or nsys around it, failed on {place} (exit status {status}); output:\n{log}"
    )]
    Daemon {
        /// The target.
        place: String,
        /// Its exit status.
        status: u8,
        /// Output of nsys and the daemon.
        log: String,
    },
    /// nsys failed.
    #[error("nsys {what} failed on {place} (exit status {status}); output:\n{log}")]
    Nsys {
        /// The target.
        place: String,
        /// Which of its commands.
        what: &'static str,
        /// Its exit status.
        status: u8,
        /// Its output.
        log: String,
    },
    /// The profile did not end in time.
    #[error(
        "nsys did not end on {place} within {seconds} s, and was ended; give it more time with --export-timeout, or switch sampling off with --sampling off"
    )]
    Timeout {
        /// The target.
        place: String,
        /// How long it had.
        seconds: u64,
    },
    /// The service was not started by nsys.
    #[error("cannot attach on {place}: {why}")]
    NotAttachable {
        /// The target.
        place: String,
        /// Why, and what to do.
        why: String,
    },
    /// A file that would be overwritten.
    #[error("{} exists; choose another name with --output, or overwrite it with --force", .0.display())]
    Exists(PathBuf),
    /// A file cannot be written here.
    #[error("cannot write {}: {source}; choose a writable folder with enough free space with --output", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration cannot be read here.
    #[error("cannot read {}: {source}; name the configuration with --config", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// nsys does not export the report.
    #[error("cannot export {}: {output}; the profile itself was written", path.display())]
    Export {
        /// The report.
        path: PathBuf,
        /// The output of nsys.
        output: String,
    },
}
