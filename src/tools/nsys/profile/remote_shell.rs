// SPDX-License-Identifier: Apache-2.0
//! The connection to the target: commands are sent line by line, replies are received.
//!
//! Works with a local shell and over ssh. Closing the connection stops all processes that were started on the target.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use jetwatch_files::PendingFile;

use super::host::User;
use super::{Host, ProfileError, Result};

/// The script that runs on the target.
const SCRIPT: &str = include_str!("target.sh");

/// The first line of the script's output.
const GREETING: &str = "jetwatch-profile 1";

/// Maximum number of lines of ssh's output in an error.
const MAX_STDERR_LINES: usize = 20;

/// Maximum length of a text reply, in bytes; reports are not texts.
const MAX_TEXT_BYTES: u64 = 8 << 20;

/// A running shell on the target.
pub(super) struct RemoteShell {
    place: Host,
    child: Child,
    input: Arc<StdinGuard>,
    replies: BufReader<ChildStdout>,
    stderr_thread: Option<JoinHandle<Vec<String>>>,
    /// The current operation, for errors.
    pub(super) operation: String,
}

/// Closes the connection from another thread, for example on a signal. Waits for the target then end.
#[derive(Debug, Clone, Default)]
pub struct CancelHandle(Arc<Mutex<CancelState>>);

#[derive(Debug, Default)]
struct CancelState {
    cancelled: bool,
    connection: Option<Arc<StdinGuard>>,
}

impl CancelHandle {
    /// Cancels the current operation and all later ones.
    pub fn cancel(&self) {
        let mut state = self.0.lock();
        state.cancelled = true;
        if let Some(connection) = state.connection.take() {
            connection.close();
        }
    }

    fn attach(&self, connection: &Arc<StdinGuard>) {
        let mut state = self.0.lock();
        if state.cancelled {
            connection.close();
        } else {
            state.connection = Some(Arc::clone(connection));
        }
    }
}

#[derive(Debug)]
struct StdinGuard {
    input: Mutex<Option<ChildStdin>>,
    was_stopped: AtomicBool,
}

impl StdinGuard {
    fn close(&self) {
        self.was_stopped.store(true, Ordering::SeqCst);
        drop(self.lock().take());
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<ChildStdin>> {
        self.input.lock()
    }
}

/// One reply.
#[derive(Debug)]
pub(super) enum Reply {
    /// A line `name value`, or a text with its name.
    Value(String, String),
    /// The requested file does not exist.
    Missing,
    /// The command is done.
    Ready,
}

impl RemoteShell {
    /// Starts the shell on `host` and waits for its greeting.
    pub(super) fn connect(host: &Host, cancel: &CancelHandle) -> Result<Self> {
        let mut command = host.shell(SCRIPT.len());
        let not_started = |program: &OsStr, source| {
            let program = program.to_string_lossy().into_owned();
            ProfileError::NotStarted(program, host.to_string(), source)
        };
        let child = command.spawn();
        let mut child = child.map_err(|source| not_started(command.get_program(), source))?;
        let input = Arc::new(StdinGuard {
            input: Mutex::new(child.stdin.take()),
            was_stopped: AtomicBool::new(false),
        });
        cancel.attach(&input);
        let replies = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let errors = child.stderr.take().expect("standard error is piped");
        let output = thread::Builder::new()
            .name("target-errors".to_owned())
            .spawn(move || last_lines(errors))
            .map_err(|source| not_started("a thread".as_ref(), source))?;
        let mut shell = Self {
            place: host.clone(),
            child,
            input,
            replies,
            stderr_thread: Some(output),
            operation: "connecting".to_owned(),
        };
        if shell.write(SCRIPT.as_bytes()).is_err() {
            return Err(shell.connect_error());
        }
        // Start-up files of a shell may print something first.
        loop {
            match shell.line() {
                Ok(Some(line)) if line == GREETING => return Ok(shell),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err(shell.connect_error()),
            }
        }
    }

    /// Sends a command with its value.
    pub(super) fn send_command(&mut self, name: &str, value: &str) -> Result<()> {
        if value.contains(['\n', '\r', '\0']) {
            return Err(ProfileError::LineBreak(value.to_owned()));
        }
        let separator = if value.is_empty() { "" } else { " " };
        self.send_bytes(format!("{name}{separator}{value}\n").as_bytes())
    }

    /// Sends bytes that a command announced.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        match self.write(bytes) {
            Ok(()) => Ok(()),
            // The script may have printed the reason before it ended.
            Err(_) => loop {
                self.reply()?;
            },
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self.input.lock().as_mut() {
            Some(input) => input.write_all(bytes).and_then(|()| input.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Receives the next reply.
    pub(super) fn reply(&mut self) -> Result<Reply> {
        let Ok(Some(line)) = self.line() else {
            return Err(self.connection_lost());
        };
        let (name, value) = line.split_once(' ').unwrap_or((&line, ""));
        match name {
            "ready" => Ok(Reply::Ready),
            "missing" => Ok(Reply::Missing),
            "error" => Err(self.remote_error(value)),
            "file" => {
                let (name, bytes) = self.parse_size(value)?;
                let mut text = Vec::new();
                let mut replies = self.replies.by_ref().take(bytes.min(MAX_TEXT_BYTES));
                if replies.read_to_end(&mut text).ok() != usize::try_from(bytes).ok() {
                    return Err(self.connection_lost());
                }
                let text = String::from_utf8_lossy(&text).into_owned();
                Ok(Reply::Value(name, text))
            }
            _ => Ok(Reply::Value(name.to_owned(), value.to_owned())),
        }
    }

    /// Receives the replies of a command; returns the values and texts.
    pub(super) fn replies(&mut self) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        loop {
            match self.reply()? {
                Reply::Ready => return Ok(all),
                Reply::Value(name, value) => all.push((name, value)),
                Reply::Missing => {}
            }
        }
    }

    /// Fetches a file of the target's folder to `to`, which is replaced atomically. Returns whether the file exists.
    pub(super) fn fetch(&mut self, name: &str, to: &Path) -> Result<bool> {
        self.operation = format!("fetching {name}");
        self.send_command("fetch", name)?;
        let Ok(Some(line)) = self.line() else {
            return Err(self.connection_lost());
        };
        let exists = match line.split_once(' ') {
            Some(("file", value)) => {
                let (_, bytes) = self.parse_size(value)?;
                let write = |source| ProfileError::Write(to.to_owned(), source);
                let mut pending = PendingFile::create(to).map_err(|error| write(error.source))?;
                let copied = io::copy(&mut self.replies.by_ref().take(bytes), pending.file());
                if copied.map_err(write)? != bytes {
                    return Err(self.connection_lost());
                }
                pending.commit().map_err(|error| write(error.source))?;
                true
            }
            Some(("missing", _)) => false,
            Some(("error", value)) => return Err(self.remote_error(value)),
            _ => return Err(self.unexpected(&line, "a file")),
        };
        self.replies()?;
        Ok(exists)
    }

    /// Ends the script on the target, and waits until it has cleaned up.
    pub(super) fn end(mut self) -> Result<()> {
        self.operation = "cleaning up".to_owned();
        self.send_command("end", "")?;
        loop {
            match self.reply()? {
                Reply::Value(name, _) if name == "clean" => return Ok(()),
                _ => {}
            }
        }
    }

    /// The error for an unexpected reply.
    pub(super) fn unexpected(&self, found: &str, expected: &'static str) -> ProfileError {
        ProfileError::UnexpectedReply {
            place: self.place.to_string(),
            doing: self.operation.clone(),
            found: found.to_owned(),
            expected,
        }
    }

    /// `NAME BYTES`.
    fn parse_size(&self, value: &str) -> Result<(String, u64)> {
        value
            .rsplit_once(' ')
            .and_then(|(name, bytes)| Some((name.to_owned(), bytes.parse().ok()?)))
            .ok_or_else(|| self.unexpected(value, "a name and a number of bytes"))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let mut replies = self.replies.by_ref().take(1 << 16);
        replies.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }

    /// The error that the script reported.
    fn remote_error(&self, value: &str) -> ProfileError {
        let place = self.place.to_string();
        let (kind, text) = value.split_once(' ').unwrap_or((value, ""));
        match kind {
            "folder" => ProfileError::NoFolder(place, text.to_owned()),
            "program" => ProfileError::NoProgram(place, text.to_owned()),
            "late" => ProfileError::Timeout(place, 0),
            _ => self.unexpected(value, "that it works"),
        }
    }

    fn connect_error(&mut self) -> ProfileError {
        if self.input.was_stopped.load(Ordering::SeqCst) {
            return self.cancelled();
        }
        let (status, output) = self.stderr_tail();
        let advice = match (&self.place.user, status.code()) {
            (_, Some(255)) if !self.place.is_local() => {
                "check that `ssh` with the same options logs in without a prompt (--ssh-option Port=…, IdentityFile=…, ProxyJump=…)"
            }
            (User::Other(_), _) => {
                "--sudo needs the right to sudo without a password there; give that right, log in as that user, or omit --sudo"
            }
            (User::Current, _) => "it must have a POSIX shell and `head -c`",
        };
        ProfileError::ConnectFailed {
            place: self.place.to_string(),
            status: status.to_string(),
            output,
            advice,
        }
    }

    fn connection_lost(&mut self) -> ProfileError {
        if self.input.was_stopped.load(Ordering::SeqCst) {
            return self.cancelled();
        }
        let (status, output) = self.stderr_tail();
        let (place, doing) = (self.place.to_string(), self.operation.clone());
        ProfileError::ConnectionLost(place, doing, format!("{status}, {output}"))
    }

    /// Waits until the script has cleaned up.
    fn cancelled(&mut self) -> ProfileError {
        self.stderr_tail();
        ProfileError::Cancelled(self.place.to_string())
    }

    /// Exit status and output of the local program.
    fn stderr_tail(&mut self) -> (std::process::ExitStatus, String) {
        drop(self.input.lock().take());
        // Drained, so that the target never blocks on its output.
        let _ = io::copy(&mut self.replies, &mut io::sink());
        let status = self.child.wait().unwrap_or_default();
        let thread = self.stderr_thread.take();
        let output = thread.and_then(|thread| thread.join().ok());
        let output = output.unwrap_or_default().join(" ");
        let is_silent = output.is_empty();
        (
            status,
            if is_silent {
                "no output".to_owned()
            } else {
                output
            },
        )
    }
}

impl Drop for RemoteShell {
    fn drop(&mut self) {
        // The script cleans up when the connection closes; wait for it, so that no process outlives this program.
        self.stderr_tail();
    }
}

/// Reads to the end and keeps the last lines.
fn last_lines(from: impl Read) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        if lines.len() == MAX_STDERR_LINES {
            lines.remove(0);
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_commands_lose_no_bytes_to_cancel_watcher() {
        let mut shell =
            RemoteShell::connect(&Host::default(), &CancelHandle::default()).expect("a shell");
        shell.send_command("folder", "-").expect("sent");
        // The script stops its watcher just before the next command.
        for round in 0..100 {
            shell.send_command("hold", "0").expect("sent");
            shell
                .replies()
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        shell.end().expect("every command was accepted");
    }
}
