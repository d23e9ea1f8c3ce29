// SPDX-License-Identifier: Apache-2.0
//! Exit codes, and the panic handler.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use jetwatch_config::ConfigError;
use jetwatch_detect::DetectError;
use jetwatch_detect::engines::EngineError;
use jetwatch_nsys::profile::ProfileError;
use jetwatch_pipeline::PipelineError;
use jetwatch_telemetry::{with_causes, with_error_prefix};

use super::CONFIG_FILE;

/// Printed below `--help`, and part of the README.
pub(super) const HELP: &str = "\
Exit codes:
  0    ended as requested, or by itself
  1    the pipeline failed: detector, publishing, or a thread that did not end; or the command failed
  2    the command line is wrong
  3    a source failed permanently
  4    no daemon runs (`jetwatch health`)
  78   the configuration or the model is wrong (systemd does not restart on it)
  128+N  ended at once by a second signal N; 141: broken pipe (SIGPIPE)";

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Ended as requested, or by itself.
    Success,
    /// The pipeline failed.
    Failure,
    /// A source failed permanently.
    SourceFailed,
    /// No daemon runs, or its health is not known.
    NoDaemon,
    /// The configuration or the model is wrong (`EX_CONFIG` of sysexits.h).
    Config,
}

impl Exit {
    /// Result of a command that runs checks.
    pub(super) fn from_checks(is_ok: bool) -> Self {
        if is_ok { Self::Success } else { Self::Failure }
    }

    /// Converts the exit status of a daemon that was started by another program.
    pub(super) fn from_daemon_status(status: u8) -> Self {
        match status {
            0 => Self::Success,
            3 => Self::SourceFailed,
            78 => Self::Config,
            _ => Self::Failure,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::SourceFailed => 3,
            Exit::NoDaemon => 4,
            Exit::Config => 78,
        })
    }
}

/// Prints an error with its causes and selects the exit code.
pub(super) fn report(error: &anyhow::Error) -> Exit {
    eprintln!(
        "{}",
        with_error_prefix(&format!(
            "jetwatch: {}{}",
            with_causes(error.as_ref()),
            hint(error)
        ))
    );
    if error.downcast_ref::<ConfigError>().is_some() {
        return Exit::Config;
    }
    if let Some(engine) = error.downcast_ref::<EngineError>() {
        return if engine.is_configuration() {
            Exit::Config
        } else {
            Exit::Failure
        };
    }
    if let Some(ProfileError::Daemon { status, .. }) = error.downcast_ref::<ProfileError>() {
        return Exit::from_daemon_status(*status);
    }
    let detect = match error.downcast_ref::<PipelineError>() {
        Some(
            PipelineError::Config(_)
            | PipelineError::SecondaryClass { .. }
            | PipelineError::SecondaryBatch { .. }
            | PipelineError::AppearanceLayout { .. }
            | PipelineError::UnusedEmbeddings { .. }
            | PipelineError::NoBoxes { .. },
        ) => return Exit::Config,
        Some(PipelineError::Secondary { cause, .. }) => Some(cause.as_ref()),
        Some(PipelineError::Detect(detect)) => Some(detect.as_ref()),
        Some(PipelineError::Image { cause, .. }) => Some(cause.as_ref()),
        _ => None,
    };
    if detect.is_some_and(DetectError::is_configuration) {
        Exit::Config
    } else {
        Exit::Failure
    }
}

/// What to do where the configuration that no one has named is not there.
fn hint(error: &anyhow::Error) -> &'static str {
    match error.downcast_ref::<ConfigError>() {
        Some(ConfigError::Unreadable { path, source })
            if path == Path::new(CONFIG_FILE) && source.kind() == io::ErrorKind::NotFound =>
        {
            "; name a configuration with --config, such as examples/minimal.yaml of a checkout, or run `jetwatch demo`"
        }
        _ => "",
    }
}

/// A panic is a bug: log thread and location, then abort so that systemd restarts the daemon.
pub(super) fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let location = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let text = format!(
            "bug: thread {} panicked at {location}: {}",
            thread.name().unwrap_or("unnamed"),
            panic.payload_as_str().unwrap_or("no message")
        );
        log::error!("{text}");
        log::logger().flush();
        eprintln!("{}", with_error_prefix(&format!("jetwatch: {text}")));
        std::process::abort();
    }));
}
