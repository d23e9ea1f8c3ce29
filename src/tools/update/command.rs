// SPDX-License-Identifier: Apache-2.0
//! Programs of the system: run in the C locale, in a group of their own, so that a signal of the terminal does not reach a package
//! manager in the middle of its work.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::UpdateError;
use super::process_tree::{Which, kill};

/// Longest time of a program that only reads or sets something.
const LIMIT: Duration = Duration::from_secs(600);

/// Time for a package manager to end, or for its next script, once the scripts that it waited for were killed.
const GRACE: Duration = Duration::from_secs(60);

/// Maximum number of times that scripts are killed.
const MAX_SCRIPTS: usize = 5;

/// Time for the output of a program that has ended: one that it has left behind may hold it open.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// How often a program is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Lines of the output that an error shows.
const MAX_LINES: usize = 6;

/// A command line.
#[derive(Debug)]
pub(crate) struct Tool {
    command: Command,
    what: String,
    limit: Duration,
    /// It was killed after the limit.
    is_overdue: bool,
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
            limit: LIMIT,
            is_overdue: false,
        }
    }

    /// Lets it run for this time at most.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
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

    /// Its output, whatever its status. Where it does not end in time, the scripts that dpkg runs are killed, with which dpkg can deal; and
    /// after a grace time all of it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn output(&mut self) -> Result<Output, UpdateError> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let cannot = |error| format!("cannot be started: {error}");
        let child = self.command.spawn();
        let mut child = child.map_err(|error| self.failed(cannot(error)))?;
        let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
        let status = self.wait(&mut child);
        let status = status.map_err(|error| self.failed(cannot(error)))?;
        let until = Instant::now() + OUTPUT_GRACE;
        Ok(Output {
            status,
            stdout: received(&out, until),
            stderr: received(&err, until),
        })
    }

    fn wait(&mut self, child: &mut Child) -> std::io::Result<ExitStatus> {
        if let Some(status) = wait_until(child, Instant::now() + self.limit)? {
            return Ok(status);
        }
        self.is_overdue = true;
        log::warn!(
            "`{}` has not ended within {} s; killing what it waits for",
            self.command.get_program().to_string_lossy(),
            self.limit.as_secs()
        );
        // A package may have several scripts that do not end. Those of the version that is installed again need their time.
        for _ in 0..MAX_SCRIPTS {
            if kill(child.id(), Which::BelowDpkg) == 0 {
                break;
            }
            if let Some(status) = wait_until(child, Instant::now() + GRACE)? {
                return Ok(status);
            }
        }
        kill(child.id(), Which::All);
        child.wait()
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
    pub(crate) fn failed_with(&self, output: &Output) -> UpdateError {
        let text = both(output);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
        let overdue = match self.is_overdue {
            true => format!(
                "did not end within {} s, was killed, and ",
                self.limit.as_secs()
            ),
            false => String::new(),
        };
        let (status, last) = (output.status, last.join("; "));
        self.failed(format!("{overdue}ended with {status}: {last}"))
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

/// The status of `child`; `None`: it has not ended until then.
fn wait_until(child: &mut Child, until: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= until {
            return Ok(status);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Reads `from` in a thread, in pieces, until its end.
fn collect(from: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    if let Some(from) = from {
        thread::spawn(move || forward(from, &sender));
    }
    receiver
}

fn forward(mut from: impl Read, to: &Sender<Vec<u8>>) {
    let mut buffer = [0; 8192];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        // An error: the output is not waited for any more.
        if to.send(buffer[..bytes].to_vec()).is_err() {
            return;
        }
    }
}

/// What was read until the end, or until this time.
fn received(from: &Receiver<Vec<u8>>, until: Instant) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(piece) => all.extend(piece),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Tool {
        Tool::new("sh", "run a script").args(["-c", script])
    }

    #[test]
    fn program_that_does_not_end_is_killed_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mark = folder.path().join("pid");
        // In a session of its own, as apt-get runs dpkg.
        let script = format!(
            "echo begun; setsid sh -c 'echo $$ >{}; sleep 1000' & wait",
            mark.display()
        );
        let mut tool = shell(&script).limit(Duration::ZERO);
        let child = tool.command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("a shell");
        let out = collect(child.stdout.take());
        let pid = loop {
            match std::fs::read_to_string(&mark) {
                Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
                _ => thread::sleep(POLL_INTERVAL),
            }
        };
        let status = tool.wait(&mut child).expect("its status");
        let stdout = out.iter().flatten().collect();
        let error = tool
            .failed_with(&Output {
                status,
                stdout,
                stderr: Vec::new(),
            })
            .to_string();
        for part in ["did not end within 0 s, was killed", "begun"] {
            assert!(error.contains(part), "{error}");
        }
        // It ends, or is a process that no parent has asked for yet: a signal needs its time.
        let stat = format!("/proc/{pid}/stat");
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            thread::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn output_is_whole_and_does_not_wait_for_what_a_program_leaves_behind() {
        let output = shell("seq 100000; seq 100000 >&2")
            .output()
            .expect("it runs");
        assert_eq!(
            (output.stdout.len(), output.stderr.len()),
            (588_895, 588_895)
        );
        let output = shell("echo done; sleep 30 &").output().expect("it runs");
        assert_eq!(output.stdout, b"done\n");
    }
}
