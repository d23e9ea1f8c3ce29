// SPDX-License-Identifier: Apache-2.0
//! The connection to the target: commands are sent line by line, replies are received.
//!
//! Works with a local shell and over ssh. Closing the connection stops all processes that were started on the target.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::Arc;
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
    connection: CancelHandle,
    replies: BufReader<ChildStdout>,
    stderr_thread: Option<JoinHandle<Vec<String>>>,
    /// The current operation, for errors.
    pub(super) operation: String,
}

/// Closes the connection from another thread, for example on a signal. Waits for the target then end. For one connection at a time.
#[derive(Debug, Clone, Default)]
pub struct CancelHandle(Arc<Mutex<Connection>>);

#[derive(Debug, Default)]
struct Connection {
    is_cancelled: bool,
    /// Standard input of the shell; the connection ends when it is closed.
    input: Option<ChildStdin>,
}

impl CancelHandle {
    /// Cancels the current operation and all later ones.
    pub fn cancel(&self) {
        let mut connection = self.0.lock();
        connection.is_cancelled = true;
        connection.input = None;
    }
}

/// One reply.
#[derive(Debug)]
pub(super) enum Reply {
    /// A line `name value`, or a text with its name.
    Value(String, String),
    /// A file with its name and its number of bytes, which follow.
    File(String, u64),
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
        let input = child.stdin.take();
        let mut connection = cancel.0.lock();
        connection.input = input.filter(|_| !connection.is_cancelled);
        drop(connection);
        let replies = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let errors = child.stderr.take().expect("standard error is piped");
        let output = thread::Builder::new()
            .name("target-errors".to_owned())
            .spawn(move || last_lines(errors))
            .map_err(|source| not_started("a thread".as_ref(), source))?;
        let mut shell = Self {
            place: host.clone(),
            child,
            connection: cancel.clone(),
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

    /// Sends a command with its value, and receives its replies.
    pub(super) fn run(&mut self, name: &str, value: &str) -> Result<Replies> {
        self.send_command(name, value)?;
        self.replies()
    }

    /// Sends bytes that a command announced.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        match self.write(bytes) {
            Ok(()) => Ok(()),
            // The script may have printed the reason before it ended.
            Err(_) => loop {
                self.replies()?;
            },
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self.connection.0.lock().input.as_mut() {
            Some(input) => input.write_all(bytes).and_then(|()| input.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Receives the next reply.
    fn reply(&mut self) -> Result<Reply> {
        let Ok(Some(line)) = self.line() else {
            return Err(self.connection_lost());
        };
        let (name, value) = line.split_once(' ').unwrap_or((&line, ""));
        match name {
            "ready" => Ok(Reply::Ready),
            "missing" => Ok(Reply::Missing),
            "error" => Err(self.remote_error(value)),
            "file" => {
                let size = value.rsplit_once(' ');
                let size = size.and_then(|(name, bytes)| Some((name, bytes.parse().ok()?)));
                match size {
                    Some((name, bytes)) => Ok(Reply::File(name.to_owned(), bytes)),
                    None => Err(self.unexpected(value, "a name and a number of bytes")),
                }
            }
            _ => Ok(Reply::Value(name.to_owned(), value.to_owned())),
        }
    }

    /// Receives the replies of a command; returns the values and texts.
    pub(super) fn replies(&mut self) -> Result<Replies> {
        let mut all = Vec::new();
        loop {
            match self.reply()? {
                Reply::Ready => return Ok(Replies(all)),
                Reply::Value(name, value) => all.push((name, value)),
                Reply::File(name, bytes) => all.push((name, self.read_text(bytes)?)),
                Reply::Missing => {}
            }
        }
    }

    fn read_text(&mut self, bytes: u64) -> Result<String> {
        let mut text = Vec::new();
        let mut replies = self.replies.by_ref().take(bytes.min(MAX_TEXT_BYTES));
        if replies.read_to_end(&mut text).ok() != usize::try_from(bytes).ok() {
            return Err(self.connection_lost());
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Fetches a file of the target's folder to `to`, which is replaced atomically. Returns whether the file exists.
    pub(super) fn fetch(&mut self, name: &str, to: &Path) -> Result<bool> {
        self.operation = format!("fetching {name}");
        self.send_command("fetch", name)?;
        let exists = match self.reply()? {
            Reply::File(_, bytes) => {
                let write = |source| ProfileError::Write(to.to_owned(), source);
                let mut pending = PendingFile::create(to).map_err(|error| write(error.source))?;
                let copied = io::copy(&mut self.replies.by_ref().take(bytes), pending.file());
                if copied.map_err(write)? != bytes {
                    return Err(self.connection_lost());
                }
                pending.commit().map_err(|error| write(error.source))?;
                true
            }
            Reply::Missing => false,
            Reply::Ready => return Err(self.unexpected("ready", "a file")),
            Reply::Value(name, _) => return Err(self.unexpected(&name, "a file")),
        };
        self.replies()?;
        Ok(exists)
    }

    /// Ends the script on the target, and waits until it has cleaned up.
    pub(super) fn end(mut self) -> Result<()> {
        self.operation = "cleaning up".to_owned();
        self.send_command("end", "")?;
        while !matches!(self.reply()?, Reply::Value(name, _) if name == "clean") {}
        Ok(())
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
        let (status, output) = match self.stderr_tail() {
            Ok(found) => found,
            Err(cancelled) => return cancelled,
        };
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
        match self.stderr_tail() {
            Err(cancelled) => cancelled,
            Ok((status, output)) => ProfileError::ConnectionLost(
                self.place.to_string(),
                self.operation.clone(),
                format!("{status}, {output}"),
            ),
        }
    }

    /// Waits until the script has cleaned up. Exit status and output of the local program; the error after a cancellation.
    fn stderr_tail(&mut self) -> Result<(ExitStatus, String)> {
        let is_cancelled = self.connection.0.lock().is_cancelled;
        self.connection.0.lock().input = None;
        // Drained, so that the target never blocks on its output.
        let _ = io::copy(&mut self.replies, &mut io::sink());
        let status = self.child.wait().unwrap_or_default();
        let thread = self.stderr_thread.take();
        let output = thread.and_then(|thread| thread.join().ok());
        let output = Some(output.unwrap_or_default().join(" "));
        let output = output.filter(|output| !output.is_empty());
        match is_cancelled {
            true => Err(ProfileError::Cancelled(self.place.to_string())),
            false => Ok((status, output.unwrap_or_else(|| "no output".to_owned()))),
        }
    }
}

impl Drop for RemoteShell {
    fn drop(&mut self) {
        // The script cleans up when the connection closes; wait for it, so that no process outlives this program.
        let _ = self.stderr_tail();
    }
}

/// The values and texts that a command was answered with, by name.
pub(super) struct Replies(Vec<(String, String)>);

impl Replies {
    #[cfg(test)]
    pub(super) fn new(replies: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self(replies.iter().map(owned).collect())
    }

    /// All of a name.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(key, _)| key == name);
        named.map(|(_, value)| value.as_str())
    }

    /// The first of a name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
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
