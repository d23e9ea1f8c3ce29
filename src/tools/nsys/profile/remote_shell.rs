//! The connection to the target: commands go out line by line, answers come back.
//!
//! The same for this machine's shell and for one behind ssh. Closing the connection is enough to stop everything there.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use jetwatch_files::PendingFile;

use super::host::User;
use super::{Host, ProfileError};

/// The target's side.
const SCRIPT: &str = include_str!("target.sh");

/// Its first line.
const GREETING: &str = "jetwatch-profile 1";

/// Most lines of ssh's output that an error contains.
const MAX_STDERR_LINES: usize = 20;

/// Longest text that a target may answer with, in bytes; reports are not texts.
const MAX_TEXT_BYTES: u64 = 8 << 20;

/// A running shell at the target.
pub(super) struct RemoteShell {
    place: Host,
    child: Child,
    input: Arc<StdinGuard>,
    replies: BufReader<ChildStdout>,
    stderr_thread: Option<JoinHandle<Vec<String>>>,
    /// The current operation, for errors.
    pub(super) operation: String,
}

/// Closes the connection from another thread, as on a signal. Whatever waits for the target then ends.
#[derive(Debug, Clone, Default)]
pub struct CancelHandle(Arc<Mutex<CancelState>>);

#[derive(Debug, Default)]
struct CancelState {
    cancelled: bool,
    connection: Option<Arc<StdinGuard>>,
}

impl CancelHandle {
    /// Stops what is going on, and whatever begins later.
    pub fn cancel(&self) {
        let mut asked = self.0.lock();
        asked.cancelled = true;
        if let Some(connection) = asked.connection.take() {
            connection.close();
        }
    }

    fn attach(&self, connection: &Arc<StdinGuard>) {
        let mut asked = self.0.lock();
        if asked.cancelled {
            connection.close();
        } else {
            asked.connection = Some(Arc::clone(connection));
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

/// One answer.
#[derive(Debug)]
pub(super) enum Reply {
    /// A line `name value`.
    Value(String, String),
    /// A text.
    Text(String, String),
    /// A file that was asked for is not there.
    Missing,
    /// The command is done.
    Ready,
}

impl RemoteShell {
    /// Starts the shell at `host` and waits for its greeting.
    pub(super) fn connect(host: &Host, cancel: &CancelHandle) -> Result<Self, ProfileError> {
        let mut command = host.shell(SCRIPT.len());
        let mut child = command.spawn().map_err(|source| ProfileError::NotStarted {
            program: command.get_program().to_string_lossy().into_owned(),
            place: host.to_string(),
            source,
        })?;
        let input = Arc::new(StdinGuard {
            input: Mutex::new(child.stdin.take()),
            was_stopped: AtomicBool::new(false),
        });
        cancel.attach(&input);
        let answers = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let errors = child.stderr.take().expect("standard error is piped");
        let output = thread::Builder::new()
            .name("target-errors".to_owned())
            .spawn(move || last_lines(errors))
            .map_err(|source| ProfileError::NotStarted {
                program: "a thread".to_owned(),
                place: host.to_string(),
                source,
            })?;
        let mut hand = Self {
            place: host.clone(),
            child,
            input,
            replies: answers,
            stderr_thread: Some(output),
            operation: "connecting".to_owned(),
        };
        if hand.write(SCRIPT.as_bytes()).is_err() {
            return Err(hand.connect_error());
        }
        // Start-up files of a shell may print something first.
        loop {
            match hand.line() {
                Ok(Some(line)) if line == GREETING => return Ok(hand),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err(hand.connect_error()),
            }
        }
    }

    /// Sends a command with its value.
    pub(super) fn send_command(&mut self, name: &str, value: &str) -> Result<(), ProfileError> {
        if value.contains(['\n', '\r', '\0']) {
            return Err(ProfileError::LineBreak(value.to_owned()));
        }
        let line = if value.is_empty() {
            format!("{name}\n")
        } else {
            format!("{name} {value}\n")
        };
        self.send_bytes(line.as_bytes())
    }

    /// Sends bytes that a command announced.
    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ProfileError> {
        match self.write(bytes) {
            Ok(()) => Ok(()),
            // It may have printed the reason before it ended.
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

    /// The next answer.
    pub(super) fn reply(&mut self) -> Result<Reply, ProfileError> {
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
                let taken = self
                    .replies
                    .by_ref()
                    .take(bytes.min(MAX_TEXT_BYTES))
                    .read_to_end(&mut text);
                if taken.ok() != usize::try_from(bytes).ok() {
                    return Err(self.connection_lost());
                }
                Ok(Reply::Text(
                    name,
                    String::from_utf8_lossy(&text).into_owned(),
                ))
            }
            _ => Ok(Reply::Value(name.to_owned(), value.to_owned())),
        }
    }

    /// Answers until the order is done; those that are words or texts.
    pub(super) fn replies(&mut self) -> Result<Vec<(String, String)>, ProfileError> {
        let mut all = Vec::new();
        loop {
            match self.reply()? {
                Reply::Ready => return Ok(all),
                Reply::Value(name, value) | Reply::Text(name, value) => all.push((name, value)),
                Reply::Missing => {}
            }
        }
    }

    /// Fetches a file of the target's folder to `to`, which appears only when it is whole. Gives whether there is one.
    pub(super) fn fetch(&mut self, name: &str, to: &Path) -> Result<bool, ProfileError> {
        self.operation = format!("fetching {name}");
        self.send_command("fetch", name)?;
        let Ok(Some(line)) = self.line() else {
            return Err(self.connection_lost());
        };
        let is_there = match line.split_once(' ') {
            Some(("file", value)) => {
                let (_, bytes) = self.parse_size(value)?;
                let write = |source| ProfileError::Write {
                    path: to.to_owned(),
                    source,
                };
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
        Ok(is_there)
    }

    /// Ends the target's side, and waits until it has cleaned up.
    pub(super) fn end(mut self) -> Result<(), ProfileError> {
        self.operation = "cleaning up".to_owned();
        self.send_command("end", "")?;
        loop {
            match self.reply()? {
                Reply::Value(name, _) if name == "clean" => return Ok(()),
                _ => {}
            }
        }
    }

    /// An error about an answer that makes no sense.
    pub(super) fn unexpected(&self, found: &str, expected: &'static str) -> ProfileError {
        ProfileError::UnexpectedReply {
            place: self.place.to_string(),
            doing: self.operation.clone(),
            found: found.to_owned(),
            expected,
        }
    }

    /// `NAME BYTES`.
    fn parse_size(&self, value: &str) -> Result<(String, u64), ProfileError> {
        value
            .rsplit_once(' ')
            .and_then(|(name, bytes)| Some((name.to_owned(), bytes.parse().ok()?)))
            .ok_or_else(|| self.unexpected(value, "a name and a number of bytes"))
    }

    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        self.replies
            .by_ref()
            .take(1 << 16)
            .read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }

    /// What the target's side gave up for.
    fn remote_error(&self, value: &str) -> ProfileError {
        let place = self.place.to_string();
        let (kind, text) = value.split_once(' ').unwrap_or((value, ""));
        match kind {
            "folder" => ProfileError::NoFolder {
                place,
                output: text.to_owned(),
            },
            "program" => ProfileError::NoProgram {
                place,
                program: text.to_owned(),
            },
            "late" => ProfileError::Timeout { place, seconds: 0 },
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
                "check that `ssh` with the same options gets in without a question (--ssh-option Port=…, IdentityFile=…, ProxyJump=…)"
            }
            (User::Other(_), _) => {
                "--sudo needs the right to sudo without a password there; give that right, log in as that user, or leave --sudo out"
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
        ProfileError::ConnectionLost {
            place: self.place.to_string(),
            doing: self.operation.clone(),
            output: format!("{status}, {output}"),
        }
    }

    /// Waits until the target's side has cleaned up.
    fn cancelled(&mut self) -> ProfileError {
        self.stderr_tail();
        ProfileError::Cancelled {
            place: self.place.to_string(),
        }
    }

    /// How the program that leads there ended, and its output.
    fn stderr_tail(&mut self) -> (std::process::ExitStatus, String) {
        drop(self.input.lock().take());
        // It is drained, so that the other side never waits for a reader.
        let _ = io::copy(&mut self.replies, &mut io::sink());
        let status = self.child.wait().unwrap_or_default();
        let output = self
            .stderr_thread
            .take()
            .and_then(|thread| thread.join().ok());
        let output = output.unwrap_or_default().join(" ");
        let output = if output.is_empty() {
            "it gave no output".to_owned()
        } else {
            output
        };
        (status, output)
    }
}

impl Drop for RemoteShell {
    fn drop(&mut self) {
        // Without a reader at this end the other side cleans up; nothing of it may outlive this program unseen.
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
        let mut hand =
            RemoteShell::connect(&Host::default(), &CancelHandle::default()).expect("a shell");
        hand.send_command("folder", "-").expect("sent");
        // The watch is taken back a moment before the next order comes.
        for round in 0..100 {
            hand.send_command("hold", "0").expect("sent");
            hand.replies()
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        hand.end().expect("every command was accepted");
    }
}
