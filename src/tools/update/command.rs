//! Programs of the system: run in the C locale, in a group of their own, so that a signal of the terminal does not reach a package
//! manager in the middle of its work.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::UpdateError;

/// Lines of the output that an error shows.
const MAX_LINES: usize = 6;

/// A command line.
#[derive(Debug)]
pub(crate) struct Tool {
    command: Command,
    what: String,
}

impl Tool {
    /// `program`, found as by a shell; `what` completes "cannot …".
    pub fn new(program: &str, what: &str) -> Self {
        let mut command = Command::new(program);
        command
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Maintainer scripts of the package leave the daemons to the updater.
            .env("JETWATCH_UPDATER", "1")
            .stdin(Stdio::null())
            .process_group(0);
        Self {
            command,
            what: what.to_owned(),
        }
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// Runs it in `folder`.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Its output, whatever its status.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn output(&mut self) -> Result<Output, UpdateError> {
        self.command
            .output()
            .map_err(|error| self.failed(format!("cannot be started: {error}")))
    }

    /// Its standard output.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub fn text(mut self) -> Result<String, UpdateError> {
        let output = self.output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(self.failed_with(&output)),
        }
    }

    /// The error that it ended with `output`.
    pub fn failed_with(&self, output: &Output) -> UpdateError {
        let text = both(output);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
        self.failed(format!("ended with {}: {}", output.status, last.join("; ")))
    }

    fn failed(&self, outcome: String) -> UpdateError {
        let program = self.command.get_program().to_string_lossy().into_owned();
        let last = self.command.get_args().last();
        let last = last.map(|arg| format!(" … {}", arg.to_string_lossy()));
        UpdateError::Command {
            what: self.what.clone(),
            command: program + &last.unwrap_or_default(),
            outcome,
        }
    }
}

/// Standard error after standard output.
pub(crate) fn both(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}
