// SPDX-License-Identifier: Apache-2.0
//! Messages of the daemon to systemd (`sd_notify(3)`), received on a socket of the test: ready after the first frames,
//! watchdog messages, and stopping.

use crate::support;

use std::os::unix::net::UnixDatagram;
use std::process::Child;
use std::time::{Duration, Instant};

use support::daemon::{Setup, Signal, TEST_TIMEOUT, signal, start, wait_for_output};

const STREET: &str = "synthetic://traffic?seed=1&objects=4&width=320&height=180&fps=20";

/// A daemon whose service manager is the test.
struct Managed {
    socket: UnixDatagram,
    child: Child,
    received: Vec<String>,
    setup: Setup,
}

impl Managed {
    fn start(sources: &str, detector: &str, watchdog: Duration) -> Self {
        let setup = Setup::new(&format!(
            "device: test\nsources:\n{sources}detector: {detector}\npublish:\n  mqtt: off\n"
        ));
        let path = setup.path("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket in a temporary folder");
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("a time-out can be set");
        let mut command = setup.command("run");
        command
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", watchdog.as_micros().to_string());
        let child = start(&mut command);
        Self {
            socket,
            child,
            received: Vec::new(),
            setup,
        }
    }

    /// Receives until a message has this line; returns its lines.
    fn wait_for_line(&mut self, line: &str) -> Vec<String> {
        let started = Instant::now();
        let mut buffer = [0; 4096];
        while started.elapsed() < TEST_TIMEOUT {
            let Ok(length) = self.socket.recv(&mut buffer) else {
                continue;
            };
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let lines: Vec<_> = text.lines().map(str::to_owned).collect();
            self.received.push(text);
            if lines.iter().any(|found| found == line) {
                return lines;
            }
        }
        panic!("never received {line}, but {:?}", self.received);
    }

    fn config(&self) -> &std::path::Path {
        &self.setup.config
    }
}

/// The lines of the next message that has a line with this prefix.
fn next_message_with(managed: &mut Managed, line: &str, begin: &str) -> String {
    loop {
        let lines = managed.wait_for_line(line);
        if let Some(found) = lines.iter().find(|found| found.starts_with(begin)) {
            return found.clone();
        }
    }
}

#[test]
fn reload_is_notified_from_begin_to_end() {
    let source = format!("  - name: cam\n    uri: {STREET}\n");
    let mut managed = Managed::start(&source, "{ backend: scripted }", Duration::from_secs(60));
    managed.wait_for_line("READY=1");
    signal(&managed.child, Signal::HUP);
    managed.wait_for_line("RELOADING=1");
    let found = next_message_with(&mut managed, "READY=1", "STATUS=");
    assert_eq!(found, "STATUS=reloaded");
    let config = managed.config();
    std::fs::write(config, "device: test\nsources:\n  - name: cam\ndetector: { backend: scripted }\npublish:\n  mqtt: off\n").expect("writable");
    signal(&managed.child, Signal::HUP);
    let status = next_message_with(&mut managed, "READY=1", "STATUS=");
    assert_has!(status => "reload refused: ", ":3: sources[0].uri: missing");
    signal(&managed.child, Signal::TERM);
    managed.wait_for_line("STOPPING=1");
    let output = wait_for_output(managed.child);
    assert_eq!(output.status.code(), Some(0));
}

fn status(lines: &[String]) -> &str {
    lines
        .iter()
        .find_map(|line| line.strip_prefix("STATUS="))
        .expect("a status")
}

#[test]
fn run_notifies_ready_watchdog_and_stopping() {
    let sources = format!("  - name: street\n    uri: {STREET}\n");
    let mut daemon = Managed::start(&sources, "{backend: scripted}", Duration::from_secs(2));
    let ready = daemon.wait_for_line("READY=1");
    assert!(
        status(&ready).starts_with("1 of 1 sources online; "),
        "{ready:?}"
    );
    for _ in 0..3 {
        daemon.wait_for_line("WATCHDOG=1");
    }
    signal(&daemon.child, Signal::TERM);
    let stopping = daemon.wait_for_line("STOPPING=1");
    assert!(status(&stopping).starts_with("stopping"), "{stopping:?}");
    let output = wait_for_output(daemon.child);
    assert!(output.status.success());
}

#[test]
fn offline_camera_delays_readiness_until_timeout_without_stall() {
    let sources = format!(
        "  - name: street\n    uri: {STREET}\n  - name: gate\n    uri: rtsp://127.0.0.1:9/gate\n    stall_timeout_ms: 1500\n    reconnect_wait_ms: 100\n"
    );
    // A camera has no ground truth: this needs a network.
    needs_onnx_runtime!();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");
    let started = Instant::now();
    let mut daemon = Managed::start(
        &sources,
        &format!("{{backend: onnx, model: '{model}'}}"),
        // Half of it is longer than one image takes on a busy machine.
        Duration::from_secs(20),
    );
    let waiting = daemon.wait_for_line("EXTEND_TIMEOUT_USEC=30000000");
    assert!(
        status(&waiting).starts_with("waiting for the first frames: "),
        "{waiting:?}"
    );
    let ready = daemon.wait_for_line("READY=1");
    // The camera has its time-out for its first frame.
    assert!(started.elapsed() >= Duration::from_millis(1500));
    assert!(
        status(&ready).starts_with("1 of 2 sources online (without gate); "),
        "{ready:?}"
    );
    for _ in 0..3 {
        daemon.wait_for_line("WATCHDOG=1");
    }
    signal(&daemon.child, Signal::TERM);
    daemon.wait_for_line("STOPPING=1");
    assert!(wait_for_output(daemon.child).status.success());
}
