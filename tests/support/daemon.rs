// SPDX-License-Identifier: Apache-2.0
//! The real binary with a configuration of the test.

use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Once;

use serde_json::Value;

use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};

pub use rustix::process::Signal;

/// Maximum time of any step in these tests on a busy machine: what lasts longer hangs.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(240);

/// A configuration file below a temporary folder.
pub struct Setup {
    pub folder: tempfile::TempDir,
    pub config: PathBuf,
}

impl Setup {
    /// Writes `yaml` to a file of its own.
    pub fn new(yaml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let config = folder.path().join("jetwatch.yaml");
        std::fs::write(&config, yaml).expect("the folder is writable");
        Self { folder, config }
    }

    /// A path below the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `jetwatch COMMAND --config FILE`, to which arguments can be added.
    pub fn command(&self, command: &str) -> Command {
        let mut built = jetwatch();
        built
            .arg(command)
            .arg("--config")
            .arg(&self.config)
            .env_remove("RUST_LOG")
            .env_remove("GST_DEBUG")
            // A wrong call into GLib or GStreamer ends the program.
            .env("G_DEBUG", "fatal-criticals");
        built
    }

    /// The messages that the daemon wrote to `events.jsonl`, as [`json_lines`].
    pub fn lines(&self) -> Vec<Value> {
        json_lines(&self.path("events.jsonl"))
    }

    /// Those of this kind.
    pub fn lines_of(&self, kind: &str) -> Vec<Value> {
        let lines = self.lines().into_iter();
        lines.filter(|line| line["kind"] == kind).collect()
    }

    /// Waits for a message that `is_it` accepts.
    pub fn wait_for(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        wait_until_some(what, || self.lines().into_iter().find(&is_it))
    }

    /// Waits for the message of this kind that comes after `before` others.
    pub fn wait_for_nth(&self, kind: &str, before: usize) -> Value {
        wait_until_some(kind, || self.lines_of(kind).into_iter().nth(before))
    }

    /// A file of the folder that holds JSON.
    pub fn json(&self, name: &str) -> Value {
        let text = std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_slice(&text).expect("JSON")
    }
}

/// The daemon with a configuration of its own. A test that fails kills it.
pub struct Running {
    pub setup: Setup,
    pub child: Child,
}

impl Running {
    pub fn start(yaml: &str) -> Self {
        let setup = Setup::new(yaml);
        let child = start(&mut setup.command("run"));
        Self { setup, child }
    }

    /// Writes `yaml` into the file, requests a reload, and returns its result.
    pub fn reload(&self, yaml: &str) -> Value {
        std::fs::write(&self.setup.config, yaml).expect("the folder is writable");
        let before = self.setup.lines_of("reload").len();
        signal(&self.child, Signal::HUP);
        self.setup.wait_for_nth("reload", before)
    }

    /// Stops it; returns its log.
    pub fn stop(self) -> (Setup, String) {
        let log = terminate(self.child);
        (self.setup, log)
    }
}

/// The messages of this kind among `lines`.
pub fn of_kind<'l>(lines: &'l [Value], kind: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["kind"] == kind).collect()
}

/// The program of this build, to which arguments can be added. It keeps nothing in the folders of an installed package.
pub fn jetwatch() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
    command
        .env("JETWATCH_RUNTIME_DIR", "/nonexistent/jetwatch")
        .env("JETWATCH_STATE_DIR", "/nonexistent/jetwatch");
    command
}

/// One source with the scripted detector and JSON lines into `events.jsonl`; no MQTT.
pub fn json_lines_config(source: &str) -> String {
    let mut yaml = String::new();
    write!(
        yaml,
        "device: test\nsources:\n  - name: cam\n{}\ndetector:\n  backend: scripted\n  workers: 2\npublish:\n  mqtt: off\n  detections: true\n  json_lines:\n    path: events.jsonl\n",
        source.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    )
    .expect("a string takes everything");
    yaml
}

/// Starts with nothing to read and with its output piped. A test that fails kills what it has started so.
pub fn start(command: &mut Command) -> Child {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    kill_at_panic(&child);
    child
}

fn kill_at_panic(child: &Child) {
    thread_local! {
        static STARTED: RefCell<Vec<OwnedFd>> = const { RefCell::new(Vec::new()) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            STARTED.with_borrow(|started| {
                for child in started {
                    let _ = pidfd_send_signal(child, Signal::KILL);
                }
            });
        }));
    });
    let child = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("it was started");
    STARTED.with_borrow_mut(|started| started.push(child));
}

/// Runs to the end, within [`TEST_TIMEOUT`].
pub fn finish(command: &mut Command) -> Output {
    wait_for_output(start(command))
}

/// What a program has printed.
pub struct Printed {
    pub out: String,
    pub err: String,
}

/// Runs to the end, with this exit code. The failure names the command and shows its configuration.
#[track_caller]
pub fn exits(code: i32, command: &mut Command) -> Printed {
    let output = finish(command);
    let (out, err) = (stdout(&output), stderr(&output));
    let files = command
        .get_args()
        .skip_while(|argument| *argument != "--config");
    let yaml = files
        .skip(1)
        .take(1)
        .filter_map(|path| std::fs::read_to_string(path).ok());
    let yaml: String = yaml.collect();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{command:?}\n{yaml}\n{out}{err}"
    );
    Printed { out, err }
}

/// Waits for the end of a child whose output is piped; kills and fails it when it takes too long.
pub fn wait_for_output(mut child: Child) -> Output {
    let (mut out, mut err) = (
        child.stdout.take().expect("stdout is piped"),
        child.stderr.take().expect("stderr is piped"),
    );
    let reading_out = std::thread::spawn(move || {
        let mut text = Vec::new();
        out.read_to_end(&mut text).map(|_| text)
    });
    let reading_err = std::thread::spawn(move || {
        let mut text = Vec::new();
        err.read_to_end(&mut text).map(|_| text)
    });
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            break Some(status);
        }
        if started.elapsed() > TEST_TIMEOUT {
            child.kill().expect("the child can be killed");
            child.wait().expect("the child can be waited for");
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let stdout = reading_out
        .join()
        .expect("the reader does not panic")
        .expect("stdout can be read");
    let stderr = reading_err
        .join()
        .expect("the reader does not panic")
        .expect("stderr can be read");
    let status = status.unwrap_or_else(|| {
        panic!(
            "not ended after {TEST_TIMEOUT:?}:\n{}",
            String::from_utf8_lossy(&stderr)
        )
    });
    Output {
        status,
        stdout,
        stderr,
    }
}

/// Sends a signal to a child.
pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// Whether a signal no longer ends the child at once: it handles or blocks it.
pub fn keeps(child: &Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let status = status.expect("it runs");
    ["SigCgt:", "SigBlk:"].iter().any(|name| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = u64::from_str_radix(mask.expect("a mask").trim(), 16);
        mask.expect("hexadecimal") >> (signal.as_raw() - 1) & 1 == 1
    })
}

/// Sends SIGTERM, and returns the log of the child, which ends with status 0.
pub fn terminate(child: Child) -> String {
    signal(&child, Signal::TERM);
    let output = wait_for_output(child);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stderr(&output)
}

/// Standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard output of a command that succeeds.
pub fn success(output: &Output) -> String {
    let error = stderr(output);
    assert!(output.status.success(), "{}\n{error}", output.status);
    stdout(output)
}

/// Standard error of a command that fails with status 1 and writes nothing to standard output.
pub fn failure(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    assert_eq!(stdout(output), "");
    stderr(output)
}

/// Polls until `found` returns something; fails after [`TEST_TIMEOUT`].
pub fn wait_until_some<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(
            started.elapsed() < TEST_TIMEOUT,
            "not within {TEST_TIMEOUT:?}: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The JSON objects of a JSON-lines file; none while it does not exist. An incomplete line is skipped.
pub fn json_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
