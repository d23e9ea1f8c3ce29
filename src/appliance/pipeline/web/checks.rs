// SPDX-License-Identifier: Apache-2.0
//! Checks of the installation for the page: `jetwatch doctor` in a process of its own, one at a time, for a limited time, with a low
//! priority. What it prints is kept until the next run.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group, setpriority_process};
use serde_json::{Value, json};

use jetwatch_telemetry::{self as telemetry, thread_names};

/// Longest run.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Longest wait for the end of a run at the end of the daemon.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Priority of the process, as of `nice`: frames come first.
const NICE: i32 = 10;

/// Most lines that are kept, and most bytes that are read.
const MAX_LINES: usize = 500;
const MAX_BYTES: u64 = 256 * 1024;

/// States that a line may begin with.
const STATES: [&str; 4] = ["ok", "wrong", "unknown", "n/a"];

/// What begins the last line.
const VERDICT: &str = "verdict: ";

/// The checks, whether they run or not.
pub(super) struct Checks {
    command: Vec<OsString>,
    timeout: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Ends the run; `None` where there is none.
    running: Option<Run>,
    started: Option<SystemTime>,
    /// State and text of each line.
    lines: Vec<(String, String)>,
    verdict: Option<String>,
}

/// A run that goes on.
struct Run {
    stop: Sender<()>,
    /// Disconnected at its end.
    ended: Receiver<()>,
}

impl Checks {
    /// Checks by the program and arguments of `command`; empty: there are none.
    pub(super) fn new(command: &[OsString]) -> Self {
        Self {
            command: command.to_vec(),
            timeout: TIMEOUT,
            state: Arc::default(),
        }
    }

    /// Begins a run. Does not wait for its end.
    ///
    /// # Errors
    /// One runs already, or the process cannot be started.
    pub(super) fn start(&self) -> Result<(), String> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or("this run offers no checks; run `jetwatch doctor`")?;
        let mut state = self.state.lock();
        if state.running.is_some() {
            return Err("the checks are running already; wait for their end".to_owned());
        }
        let failed = |error| format!("cannot start the checks: {error}; run `jetwatch doctor`");
        let mut child = Command::new(program)
            .args(arguments)
            // Of the daemon alone.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // So that what it has started ends with it.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // Refused, it runs as the daemon does.
        let _ = setpriority_process(Some(Pid::from_child(&child)), NICE);
        let (stop, stopped) = bounded::<()>(1);
        let (end, ended) = bounded::<()>(0);
        let (shared, until) = (Arc::clone(&self.state), Instant::now() + self.timeout);
        let output = child.stdout.take();
        let watched = std::thread::Builder::new()
            .name(thread_names::WEB_CHECKS.to_owned())
            .spawn(move || {
                telemetry::name_thread(thread_names::WEB_CHECKS);
                let outcome = follow(&mut child, output, &shared, &stopped, until);
                let mut state = shared.lock();
                state.running = None;
                if let Some(outcome) = outcome {
                    state.verdict = Some(outcome);
                }
                drop(end);
            });
        watched.map_err(failed)?;
        *state = State {
            running: Some(Run { stop, ended }),
            started: Some(SystemTime::now()),
            ..State::default()
        };
        Ok(())
    }

    /// Ends the run, where there is one.
    pub(super) fn stop(&self) {
        let running = self.state.lock().running.take();
        if let Some(run) = running {
            let _ = run.stop.send(());
            // It sends nothing.
            let _ = run.ended.recv_timeout(STOP_TIMEOUT);
        }
    }

    /// What has been found so far.
    pub(super) fn to_json(&self) -> Value {
        let state = self.state.lock();
        let lines = state.lines.iter();
        let lines = lines.map(|(state, text)| json!({"state": state, "text": text}));
        let started = state
            .started
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        json!({
            "available": !self.command.is_empty(),
            "running": state.running.is_some(),
            "started_ms": started.map(|since| since.as_millis() as u64),
            "lines": lines.collect::<Vec<_>>(),
            "verdict": state.verdict,
        })
    }
}

/// Takes the lines of `child` until it ends, and ends it when it is stopped or late. Returns why it has no verdict of its own.
fn follow(
    child: &mut Child,
    output: Option<ChildStdout>,
    state: &Mutex<State>,
    stopped: &Receiver<()>,
    until: Instant,
) -> Option<String> {
    let (sender, lines) = bounded(16);
    // A thread that reads ends with the process, or with `lines`.
    let reader = std::thread::Builder::new()
        .name(thread_names::WEB_CHECKS.to_owned())
        .spawn(move || read(output, &sender));
    let mut outcome = None;
    if let Err(error) = reader {
        outcome = Some(format!("the checks cannot be read: {error}"));
    }
    while outcome.is_none() {
        let next = crossbeam_channel::select! {
            recv(lines) -> line => line.map_err(|_| RecvTimeoutError::Disconnected),
            recv(stopped) -> _ => {
                outcome = Some("stopped".to_owned());
                break;
            }
            default(until.saturating_duration_since(Instant::now())) => Err(RecvTimeoutError::Timeout),
        };
        match next {
            Ok(line) => take(&line, &mut state.lock()),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                outcome =
                    Some("not finished in time; run `jetwatch doctor` on the machine".to_owned());
            }
        }
    }
    // It may have closed its output and gone on.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
    let has_verdict = state.lock().verdict.is_some();
    outcome.or_else(|| (!has_verdict).then(|| "the checks ended without a verdict".to_owned()))
}

fn read(output: Option<ChildStdout>, lines: &Sender<String>) {
    let Some(output) = output else { return };
    for line in BufReader::new(output.take(MAX_BYTES)).lines() {
        let Ok(line) = line else { return };
        if lines.send(line).is_err() {
            return;
        }
    }
}

fn take(line: &str, state: &mut State) {
    if let Some(verdict) = line.strip_prefix(VERDICT) {
        state.verdict = Some(verdict.to_owned());
        return;
    }
    let (word, text) = line.split_once(' ').unwrap_or((line, ""));
    if state.lines.len() >= MAX_LINES {
        return;
    }
    if STATES.contains(&word) {
        let text = text.trim_start().to_owned();
        state.lines.push((word.to_owned(), text));
    } else if let Some((_, last)) = state.lines.last_mut() {
        // The text of the line before goes on.
        *last += "\n";
        *last += line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(script: &str) -> Checks {
        Checks::new(&["/bin/sh", "-c", script].map(OsString::from))
    }

    /// Waits for the end of the run.
    fn ended(checks: &Checks) -> Value {
        let ended = {
            let state = checks.state.lock();
            state.running.as_ref().map(|run| run.ended.clone())
        };
        if let Some(ended) = ended {
            let _ = ended.recv();
        }
        checks.to_json()
    }

    #[test]
    fn lines_are_kept_with_their_states() {
        let checks = checks(
            "echo 'ok     disk: free'; echo 'wrong  broker: gone'; echo 'more of it'; echo 'n/a    no GPU: a, b'; echo 'verdict: bad'",
        );
        checks.start().expect("a shell");
        let found = ended(&checks);
        assert_eq!(found["running"], json!(false));
        assert_eq!(found["verdict"], json!("bad"));
        let line = |state: &str, text: &str| json!({"state": state, "text": text});
        let wanted = json!([
            line("ok", "disk: free"),
            line("wrong", "broker: gone\nmore of it"),
            line("n/a", "no GPU: a, b"),
        ]);
        assert_eq!(found["lines"], wanted);
    }

    #[test]
    fn one_run_at_a_time_that_can_be_stopped() {
        let checks = checks("echo 'ok     a: b'; sleep 600");
        checks.start().expect("a shell");
        let again = checks.start().expect_err("it runs");
        assert!(again.contains("already"), "{again}");
        checks.stop();
        let found = ended(&checks);
        assert_eq!(found["running"], json!(false));
        checks.start().expect("the one before has ended");
        checks.stop();
    }

    #[test]
    fn late_and_failed_runs_are_told() {
        let mut late = checks("sleep 600");
        late.timeout = Duration::ZERO;
        late.start().expect("a shell");
        let verdict = ended(&late)["verdict"].to_string();
        assert!(verdict.contains("not finished in time"), "{verdict}");
        let failed = checks("exit 3");
        failed.start().expect("a shell");
        let verdict = ended(&failed)["verdict"].to_string();
        assert!(verdict.contains("without a verdict"), "{verdict}");
        let none = Checks::new(&[]).start().expect_err("no command");
        assert!(none.contains("jetwatch doctor"), "{none}");
    }
}
