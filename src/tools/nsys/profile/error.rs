// SPDX-License-Identifier: Apache-2.0
//! Errors of a profiling run.

use std::io;
use std::path::PathBuf;

use super::nsys::{MIN_VERSION, Version};

/// Why a profile failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum ProfileError {
    #[error("cannot start `{0}`: {2}; it is needed to reach {1}")]
    NotStarted(String, String, #[source] io::Error),
    #[error("cannot work on {place} ({status}): {output}; {advice}")]
    ConnectFailed {
        place: String,
        status: String,
        output: String,
        advice: &'static str,
    },
    #[error(
        "the connection to {0} ended while {1}: {2}; processes that were started there end by themselves, and the temporary folder is removed; start the profile again"
    )]
    ConnectionLost(String, String, String),
    #[error(
        "stopped by a signal; processes that were started on {0} end, and temporary files are removed"
    )]
    Cancelled(String),
    #[error("{place} answered {found:?} while {doing}, expected {expected}")]
    UnexpectedReply {
        place: String,
        doing: String,
        found: String,
        expected: &'static str,
    },
    #[error(
        "cannot make a temporary folder on {0}: {1}; choose another folder with --target-folder"
    )]
    NoFolder(String, String),
    #[error(
        "{0:?} has a line break, which is not possible in a command to the target; choose another name"
    )]
    LineBreak(String),
    #[error(
        "there is no nsys on {0}: `{1}` was not found; install Nsight Systems there (for a Jetson it is in JetPack's archive), \
         or give its path with --target-nsys"
    )]
    NoNsys(String, String),
    #[error(
        "there is no nsys here to export the profile: cannot start `{0}`: {1}; install Nsight Systems, give its path with --nsys, \
         or only fetch the profile with --fetch-only"
    )]
    NoLocalNsys(String, #[source] io::Error),
    #[error(
        "cannot parse the version of `{1}` on {0}: found {2:?}; check that it is Nsight Systems"
    )]
    NoVersion(String, String, String),
    #[error(
        "the nsys of {0} is {1}, which writes another format, expected {MIN_VERSION} or newer; install a newer one there"
    )]
    TooOld(String, Version),
    #[error(
        "the nsys of {place} is {there}, the local one is {here}, and an older nsys cannot read reports of a newer one; install {there} or newer here, \
         give its path with --nsys, or only fetch the profile with --fetch-only"
    )]
    LocalNsysTooOld {
        place: String,
        there: Version,
        here: Version,
    },
    #[error(
        "the nsys {version} of {place} does not support the trace `{wanted}`, expected one of {known}; install a newer one there, or choose with --trace"
    )]
    UnknownTrace {
        place: String,
        wanted: String,
        version: Version,
        known: String,
    },
    #[error("there is no `{1}` on {0}; install jetwatch there, or give its path with --program")]
    NoProgram(String, String),
    #[error(
        "{folder} on {place} has {free_mib} MiB free, expected {wanted_mib} MiB or more for a profile; free disk space, or choose another folder with --target-folder"
    )]
    NoSpace {
        place: String,
        folder: String,
        free_mib: u64,
        wanted_mib: u64,
    },
    #[error(
        "the disk of {place} became full below {folder} during the profile; free disk space, profile a shorter time, or choose another folder with --target-folder:\n{log}"
    )]
    DiskFull {
        place: String,
        folder: String,
        log: String,
    },
    #[error(
        "the daemon, or nsys around it, failed on {place} (exit status {status}); output:{}",
        output(log)
    )]
    Daemon {
        place: String,
        status: u8,
        log: String,
    },
    #[error(
        "nsys {0} wrote no report on {1} (exit status {2}); output:{log}",
        log = output(.3)
    )]
    Nsys(&'static str, String, u8, String),
    #[error(
        "nothing was recorded on {place}: the run of {frames} frames ended before --warmup was over, for which nsys waits {warmup_s} s \
         (whole seconds); leave --warmup out, or raise --frames"
    )]
    EndedBeforeRecording {
        place: String,
        frames: u64,
        warmup_s: u64,
    },
    #[error(
        "nsys did not end on {0} within {1} s, and was stopped; give it more time with --export-timeout, or switch sampling off with --sampling off"
    )]
    Timeout(String, u64),
    #[error("cannot attach on {0}: {1}")]
    NotAttachable(String, String),
    #[error("{0} exists; choose another name with --output, or overwrite it with --force")]
    Exists(PathBuf),
    #[error("cannot write {0}: {1}; choose a writable folder with enough free space with --output")]
    Write(PathBuf, #[source] io::Error),
    #[error("cannot read {0}: {1}; name the configuration with --config")]
    Configuration(PathBuf, #[source] io::Error),
    #[error("cannot export {0}: {1}; the profile itself was written")]
    Export(PathBuf, String),
}

/// With the errors of a profiling run.
pub(super) type Result<T, E = ProfileError> = std::result::Result<T, E>;

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
        let error =
            |log: &str| ProfileError::Nsys("profile", "here".to_owned(), 134, log.to_owned());
        let text = "nsys profile wrote no report on here (exit status 134); output:";
        assert_eq!(error("").to_string(), format!("{text} none"));
        assert_eq!(
            error("  core dumped").to_string(),
            format!("{text}\n  core dumped")
        );
    }
}
