// SPDX-License-Identifier: Apache-2.0
//! Errors of a profiling run.

use std::io;
use std::path::PathBuf;

use super::nsys::{MIN_VERSION, Version};

/// Why a profile failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum ProfileError {
    #[error("cannot start `{program}`: {source}; it is needed to reach {place}")]
    NotStarted {
        program: String,
        place: String,
        source: io::Error,
    },
    #[error("cannot work on {place} ({status}): {output}; {advice}")]
    ConnectFailed {
        place: String,
        status: String,
        output: String,
        advice: &'static str,
    },
    #[error(
        "the connection to {place} ended while {doing}: {output}; processes that were started there end by themselves, and the temporary folder is removed; start the profile again"
    )]
    ConnectionLost {
        place: String,
        doing: String,
        output: String,
    },
    #[error(
        "stopped by a signal; processes that were started on {place} end, and temporary files are removed"
    )]
    Cancelled { place: String },
    #[error("{place} answered {found:?} while {doing}, expected {expected}")]
    UnexpectedReply {
        place: String,
        doing: String,
        found: String,
        expected: &'static str,
    },
    #[error(
        "cannot make a temporary folder on {place}: {output}; choose another folder with --target-folder"
    )]
    NoFolder { place: String, output: String },
    #[error(
        "{0:?} has a line break, which is not possible in a command to the target; choose another name"
    )]
    LineBreak(String),
    #[error(
        "there is no nsys on {place}: `{program}` was not found; install Nsight Systems there (for a Jetson it is in JetPack's archive), \
         or give its path with --target-nsys"
    )]
    NoNsys { place: String, program: String },
    #[error(
        "there is no nsys here to export the profile: cannot start `{program}`: {source}; install Nsight Systems, give its path with --nsys, \
         or only fetch the profile with --fetch-only"
    )]
    NoLocalNsys { program: String, source: io::Error },
    #[error(
        "cannot parse the version of `{program}` on {place}: found {output:?}; check that it is Nsight Systems"
    )]
    NoVersion {
        place: String,
        program: String,
        output: String,
    },
    #[error(
        "the nsys of {place} is {version}, which writes another format, expected {MIN_VERSION} or newer; install a newer one there"
    )]
    TooOld { place: String, version: Version },
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
    #[error(
        "there is no `{program}` on {place}; install jetwatch there, or give its path with --program"
    )]
    NoProgram { place: String, program: String },
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
        "nsys {what} wrote no report on {place} (exit status {status}); output:{}",
        output(log)
    )]
    Nsys {
        place: String,
        what: &'static str,
        status: u8,
        log: String,
    },
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
        "nsys did not end on {place} within {seconds} s, and was stopped; give it more time with --export-timeout, or switch sampling off with --sampling off"
    )]
    Timeout { place: String, seconds: u64 },
    #[error("cannot attach on {place}: {why}")]
    NotAttachable { place: String, why: String },
    #[error("{} exists; choose another name with --output, or overwrite it with --force", .0.display())]
    Exists(PathBuf),
    #[error("cannot write {}: {source}; choose a writable folder with enough free space with --output", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}; name the configuration with --config", path.display())]
    Configuration { path: PathBuf, source: io::Error },
    #[error("cannot export {}: {output}; the profile itself was written", path.display())]
    Export { path: PathBuf, output: String },
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
