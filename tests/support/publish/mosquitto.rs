// SPDX-License-Identifier: Apache-2.0
//! A real mosquitto for one test: own port, own folder, killed at the end.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jetwatch_config::{Broker, MqttConfig, SpoolConfig, TlsConfig};
use tempfile::TempDir;

use super::records::wait_until;
use crate::support::daemon::Signal;
use crate::support::ports::free_port;

/// A running broker.
pub struct Mosquitto {
    folder: TempDir,
    port: u16,
    lines: String,
    child: Option<Child>,
}

impl Mosquitto {
    /// Starts a broker without access control.
    pub fn start() -> Self {
        Self::with_config(|_| "allow_anonymous true\n".to_owned())
    }

    /// Starts a broker with lines that may name files in the folder given to `lines`.
    pub fn with_config(lines: impl FnOnce(&Path) -> String) -> Self {
        let mut broker = Self::configured(lines);
        broker.restart();
        broker
    }

    /// A broker with its port chosen but not started yet.
    pub fn configured(lines: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let own = lines(folder.path());
        Self {
            folder,
            port: free_port(),
            lines: own,
            child: None,
        }
    }

    /// Starts it (again) on its port and returns when it accepts connections.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let path = self.folder.path().join("mosquitto.conf");
        // Started by root, mosquitto would become the user `mosquitto`, which may not read this folder. Without limits on
        // messages in flight, no acknowledged message waits inside the broker.
        let mut config = format!(
            "{}listener {} 127.0.0.1\npersistence false\nmax_inflight_messages 0\nmax_queued_messages 0\nlog_dest stderr\n{}",
            if is_root() { "user root\n" } else { "" },
            self.port,
            self.lines
        );
        // Versions before 2 speak TLS only where authorities are named, although nothing asks clients for certificates.
        let certificate = self
            .lines
            .lines()
            .find(|line| line.starts_with("certfile "));
        if let (Some(line), false) = (certificate, self.lines.contains("cafile ")) {
            config += &line.replace("certfile", "cafile");
            config.push('\n');
        }
        fs::write(&path, config).expect("the folder is writable");
        let log =
            File::create(self.folder.path().join("mosquitto.log")).expect("the folder is writable");
        let mut child = Command::new(program("mosquitto"))
            .arg("-c")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("mosquitto starts");
        // Its port opens before it has read its certificates, and closes again when it cannot read them.
        wait_until("mosquitto runs", || {
            let log =
                fs::read_to_string(self.folder.path().join("mosquitto.log")).unwrap_or_default();
            if let Some(status) = child.try_wait().expect("it is our child") {
                panic!("mosquitto ended with {status}: {log}");
            }
            // Versions before 2 do not say it.
            log.contains(" running")
                || (log.contains("mosquitto version 1.")
                    && TcpStream::connect(("127.0.0.1", self.port)).is_ok())
        });
        self.child = Some(child);
    }

    /// SIGKILL: no DISCONNECT, nothing saved.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it still runs");
            child.wait().expect("it can be waited for");
        }
    }

    /// It stops in the middle of its work; its connections stay open.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// It goes on after [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        crate::support::daemon::signal(child, signal);
    }

    /// TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A client configuration for this broker.
    pub fn client(&self) -> MqttConfig {
        client(self.port)
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.kill();
    }
}

/// No spool: its folders are not there.
pub fn memory_only() -> SpoolConfig {
    SpoolConfig {
        runtime_folder: Some("/nonexistent/spool".into()),
        state_folder: Some("/nonexistent/spool".into()),
        ..SpoolConfig::default()
    }
}

/// A client configuration for a broker on this port of the loopback interface.
pub fn client(port: u16) -> MqttConfig {
    MqttConfig {
        broker: Broker::Url {
            host: "127.0.0.1".to_owned(),
            port,
            tls: false,
        },
        alternatives: Vec::new(),
        listen_tls: None,
        states: None,
        prefix: "jetwatch".to_owned(),
        client_id: "jetwatch-dev".to_owned(),
        credentials: None,
        tls: TlsConfig::default(),
        protocol: None,
        keep_alive: std::time::Duration::from_secs(15),
        queue_messages: 10_000,
        spool: memory_only(),
        also: Vec::new(),
    }
}

/// Path of one of mosquitto's programs; fails the test with what to install when it is missing.
pub fn program(name: &str) -> PathBuf {
    let package = if name == "mosquitto_sub" {
        "mosquitto-clients"
    } else {
        "mosquitto"
    };
    ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("this test needs the program {name}: apt-get install {package}"))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
