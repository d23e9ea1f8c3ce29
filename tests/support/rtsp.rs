// SPDX-License-Identifier: Apache-2.0
//! A real RTSP server, gst-rtsp-server, as a child process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::daemon::Signal;

/// Serves a moving image until it is dropped.
pub struct RtspServer {
    child: Child,
    pub port: u16,
}

impl RtspServer {
    /// Starts it on `port` (0: a free one) with extra arguments.
    pub fn start(port: u16, extra: &[&str]) -> Self {
        let port = port.to_string();
        Self::start_script("rtsp_server.py", &[&["--port", &port], extra].concat())
    }

    /// Starts another script of this folder, which prints its port, too.
    pub fn start_script(script: &str, arguments: &[&str]) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/");
        let mut child = Command::new("/usr/bin/python3")
            .arg(format!("{folder}{script}"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("/usr/bin/python3 starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped"))
            .read_line(&mut line)
            .expect("the server speaks");
        let port = line
            .strip_prefix("ready ")
            .and_then(|port| port.trim().parse().ok())
            .unwrap_or_else(|| panic!("the RTSP server does not start (found {line:?}); install it with: apt-get install python3-gi gir1.2-gst-rtsp-server-1.0"));
        Self { child, port }
    }

    /// Its address.
    pub fn uri(&self) -> String {
        format!("rtsp://127.0.0.1:{}/video", self.port)
    }

    /// Sends a signal, such as STOP or CONT.
    pub fn signal(&self, signal: Signal) {
        super::daemon::signal(&self.child, signal);
    }
}

impl Drop for RtspServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
