// SPDX-License-Identifier: Apache-2.0
//! Errors of a profiling run.

use std::io;
use std::path::PathBuf;

use super::nsys::{MIN_VERSION, Version};

/// Why a profile failed.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A program on this machine does not start.
    #[error("cannot start `{program}`: {source}; it is needed to reach {place}")]
    NotStarted {
        /// Name of the program.
        program: String,
        /// The target.
        place: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// ssh or sudo refused access.
    #[error("cannot work on {place} ({status}): {output}; {advice}")]
    ConnectFailed {
        /// The target.
        place: String,
        /// How the local program, such as ssh, ended.
        status: String,
        /// Output of the program.
        output: String,
        /// Remedy.
        advice: &'static str,
    },
    /// The connection to the target was lost.
    #[error(
        "the connection to {place} ended while {doing}: {output}; processes that were started there end by themselves, and the temporary folder is removed; start the profile again"
    )]
    ConnectionLost {
        /// The target.
        place: String,
        /// The current operation.
        doing: String,
        /// The output of ssh.
        output: String,
    },
    /// Stopped by a signal.
    #[error(
        "stopped by a signal; processes that were started on {place} end, and temporary files are removed"
    )]
    Cancelled {
        /// The target.
        place: String,
    },
    /// Unexpected answer of the target.
    #[error("{place} answered {found:?} while {doing}, expected {expected}")]
    UnexpectedReply {
        /// The target.
        place: String,
        /// The current operation.
        doing: String,
        /// Output of the program.
        found: String,
        /// The expected answer.
        expected: &'static str,
    },
    /// No temporary folder.
    #[error(
        "cannot make a temporary folder on {place}: {output}; choose another folder with --target-folder"
    )]
    NoFolder {
        /// The target.
        place: String,
        /// The output of mktemp.
        output: String,
    },
    /// A value for the target has a line break.
    #[error(
        "{0:?} has a line break, which is not possible in a command to the target; choose another name"
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
        /// Name of the program.
        program: String,
    },
    /// nsys is missing here.
    #[error(
        "there is no nsys here to export the profile: cannot start `{program}`: {source}; install Nsight Systems, give its path with --nsys, \
         or only fetch the profile with --fetch-only"
    )]
    NoLocalNsys {
        /// Path of the program.
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
        /// Path of nsys.
        program: String,
        /// Output of the program.
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
    /// The target's reports are too new for the local nsys.
    #[error(
        "the nsys of {place} is {there}, the local one is {here}, and an older nsys cannot read reports of a newer one; install {there} or newer here, \
         give its path with --nsys, or only fetch the profile with --fetch-only"
    )]
    LocalNsysTooOld {
        /// The target.
        place: String,
        /// The target's version.
        there: Version,
        /// This machine's version.
        here: Version,
    },
    /// A trace that the target's nsys does not support.
    #[error(
        "the nsys {version} of {place} does not support the trace `{wanted}`, expected one of {known}; install a newer one there, or choose with --trace"
    )]
    UnknownTrace {
        /// The target.
        place: String,
        /// The trace.
        wanted: String,
        /// The target's version.
        version: Version,
        /// The supported traces.
        known: String,
    },
    /// jetwatch is missing on the target.
    #[error(
        "there is no `{program}` on {place}; install jetwatch there, or give its path with --program"
    )]
    NoProgram {
        /// The target.
        place: String,
        /// Name of the program.
        program: String,
    },
    /// Too little disk space on the target.
    #[error(
        "{folder} on {place} has {free_mib} MiB free, expected {wanted_mib} MiB or more for a profile; free disk space, or choose another folder with --target-folder"
    )]
    NoSpace {
        /// The target.
        place: String,
        /// The temporary folder.
        folder: String,
        /// Free space.
        free_mib: u64,
        /// Required space.
        wanted_mib: u64,
    },
    /// The target's disk became full.
    #[error(
        "the disk of {place} became full below {folder} during the profile; free disk space, profile a shorter time, or choose another folder with --target-folder:\n{log}"
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
        "the daemon, or nsys around it, failed on {place} (exit status {status}); output:{}",
        output(log)
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
    #[error(
        "nsys {what} wrote no report on {place} (exit status {status}); output:{}",
        output(log)
    )]
    Nsys {
        /// The target.
        place: String,
        /// The command of nsys.
        what: &'static str,
        /// Its exit status.
        status: u8,
        /// Output of the program.
        log: String,
    },
    /// The daemon ended before nsys began to record.
    #[error(
        "nothing was recorded on {place}: the run of {frames} frames ended before --warmup was over, for which nsys waits {warmup_s} s \
         (whole seconds); leave --warmup out, or raise --frames"
    )]
    EndedBeforeRecording {
        /// The target.
        place: String,
        /// The frames of the run.
        frames: u64,
        /// Time before the recording.
        warmup_s: u64,
    },
    /// The profile did not end in time.
    #[error(
        "nsys did not end on {place} within {seconds} s, and was stopped; give it more time with --export-timeout, or switch sampling off with --sampling off"
    )]
    Timeout {
        /// The target.
        place: String,
        /// The time limit.
        seconds: u64,
    },
    /// The service was not started by nsys.
    #[error("cannot attach on {place}: {why}")]
    NotAttachable {
        /// The target.
        place: String,
        /// Reason and remedy.
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
        /// The error of the operating system.
        source: io::Error,
    },
    /// The configuration cannot be read here.
    #[error("cannot read {}: {source}; name the configuration with --config", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
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

/// The output of programs below a line, or that there was none.
fn output(log: &str) -> String {
    if log.trim().is_empty() {
        " none".to_owned()
    } else {
        format!("\n{log}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_output_is_stated() {
        let error = |log: &str| ProfileError::Nsys {
            place: "here".to_owned(),
            what: "profile",
            status: 134,
            log: log.to_owned(),
        };
        let text = "nsys profile wrote no report on here (exit status 134); output:";
        assert_eq!(error("").to_string(), format!("{text} none"));
        assert_eq!(
            error("  core dumped").to_string(),
            format!("{text}\n  core dumped")
        );
    }
}
