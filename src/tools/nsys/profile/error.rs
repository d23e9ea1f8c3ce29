//! What keeps a profile from being taken.

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
    /// ssh or sudo did not let us in.
    #[error("cannot work on {place} ({status}): {said}; {advice}")]
    ConnectFailed {
        /// The target.
        place: String,
        /// How the program that leads there ended.
        status: String,
        /// What it said.
        said: String,
        /// What to do.
        advice: &'static str,
    },
    /// The target is gone.
    #[error(
        "the connection to {place} ended while {doing}: {said}; what was started there ends by itself, and its temporary folder is removed; start the profile again"
    )]
    ConnectionLost {
        /// The target.
        place: String,
        /// What was going on.
        doing: String,
        /// What ssh said.
        said: String,
    },
    /// The user has had enough.
    #[error("stopped by a signal; what was started on {place} ends, and nothing of it stays")]
    Cancelled {
        /// The target.
        place: String,
    },
    /// The target's side answers otherwise than it should.
    #[error("{place} answered {found:?} while {doing}, expected {expected}")]
    UnexpectedReply {
        /// The target.
        place: String,
        /// What was going on.
        doing: String,
        /// What it said.
        found: String,
        /// What it should have said.
        expected: &'static str,
    },
    /// No temporary folder.
    #[error(
        "cannot make a temporary folder on {place}: {said}; choose another place with --target-folder"
    )]
    NoFolder {
        /// The target.
        place: String,
        /// What mktemp said.
        said: String,
    },
    /// Something for the target has a line break.
    #[error("{0:?} has a line break, which no order to the target may have; choose another name")]
    LineBreak(String),
    /// nsys is missing on the target.
    #[error(
        "there is no nsys on {place}: `{program}` was not found; install Nsight Systems there (for a Jetson it is in JetPack's archive), \
         or say where it is with --target-nsys"
    )]
    NoNsys {
        /// The target.
        place: String,
        /// What was looked for.
        program: String,
    },
    /// nsys is missing here.
    #[error(
        "there is no nsys here to export the profile: cannot start `{program}`: {source}; install Nsight Systems, say where it is with --nsys, \
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
        "cannot tell the version of `{program}` on {place}: it said {said:?}; check that it is Nsight Systems"
    )]
    NoVersion {
        /// The target or this machine.
        place: String,
        /// Which nsys.
        program: String,
        /// What it said.
        said: String,
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
         say where it is with --nsys, or take the profile alone with --fetch-only"
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
        "there is no `{program}` on {place}; install jetwatch there, or say where it is with --program"
    )]
    NoProgram {
        /// The target.
        place: String,
        /// What was looked for.
        program: String,
    },
    /// Too little room on the target.
    #[error(
        "{folder} on {place} has {free_mib} MiB free, expected {wanted_mib} MiB or more for a profile; make room, or choose another place with --target-folder"
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
        "the disk of {place} became full below {folder} during the profile; make room, profile a shorter time, or choose another place with --target-folder:\n{log}"
    )]
    DiskFull {
        /// The target.
        place: String,
        /// The temporary folder.
        folder: String,
        /// What nsys and the daemon said.
        log: String,
    },
    /// The daemon failed, or nsys before it.
    #[error(
        "the daemon, or nsys around it, failed on {place} (exit status {status}); what was said there:\n{log}"
    )]
    Daemon {
        /// The target.
        place: String,
        /// Its exit status.
        status: u8,
        /// What nsys and the daemon said.
        log: String,
    },
    /// nsys failed.
    #[error("nsys {what} failed on {place} (exit status {status}); what was said there:\n{log}")]
    Nsys {
        /// The target.
        place: String,
        /// Which of its commands.
        what: &'static str,
        /// Its exit status.
        status: u8,
        /// What it said.
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
    #[error("cannot write {}: {source}; choose a writable place with enough room with --output", path.display())]
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
    #[error("cannot export {}: {said}; the profile itself is there", path.display())]
    Export {
        /// The report.
        path: PathBuf,
        /// What nsys said.
        said: String,
    },
}
