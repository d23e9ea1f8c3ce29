// SPDX-License-Identifier: Apache-2.0
//! A double of ONVIF cameras, which has what users of other clients reported.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc;

use serde_json::Value;

/// User and password of the double.
pub const LOGIN: (&str, &str) = ("admin", "p<&>ss");

/// A double of a camera, until it is dropped.
pub struct OnvifCamera {
    child: Child,
    input: ChildStdin,
    /// Scheme, where it is not that of HTTP, host and port.
    address: String,
    requests: mpsc::Receiver<String>,
}

impl OnvifCamera {
    pub fn start(options: &Value) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/onvif_camera.py");
        let mut child = Command::new("/usr/bin/python3")
            .arg(script)
            .arg(options.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("/usr/bin/python3 starts");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let port = lines.next().expect("it prints its port").expect("text");
        let scheme = options.get("certificate").map_or("", |_| "https://");
        let (sender, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self {
            input: child.stdin.take().expect("stdin is piped"),
            child,
            address: format!("{scheme}127.0.0.1:{port}"),
            requests,
        }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// It sees motion from now on (`true`), or none (`false`), or starts again (`reboot`).
    pub fn set(&mut self, what: &str) {
        writeln!(self.input, "{what}").expect("it runs");
    }

    /// What `jetwatch discover` prints of it, with these arguments and this password.
    pub fn discover(&self, arguments: &[&str], password: Option<&str>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        command.arg("discover").arg(self.address()).args(arguments);
        if password.is_some() {
            command.args(["--user", LOGIN.0]);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("jetwatch starts");
        let mut input = child.stdin.take().expect("stdin is piped");
        // Without a user nothing is read.
        let _ = writeln!(input, "{}", password.unwrap_or_default());
        drop(input);
        child.wait_with_output().expect("jetwatch ends")
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.try_iter().collect()
    }
}

impl Drop for OnvifCamera {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
