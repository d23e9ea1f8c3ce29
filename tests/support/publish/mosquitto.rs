//! A real mosquitto for one test: own port, own folder, killed at the end.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jetwatch::config::{Broker, MqttConfig, TlsConfig};
use tempfile::TempDir;

use super::records::eventually;

/// A running broker.
pub struct Mosquitto {
    folder: TempDir,
    port: u16,
    config: String,
    child: Option<Child>,
}

impl Mosquitto {
    /// Starts a broker that lets anybody in.
    pub fn start() -> Self {
        Self::with(|_| "allow_anonymous true\n".to_owned())
    }

    /// Starts a broker with lines that may name files in the folder given to `lines`.
    pub fn with(lines: impl FnOnce(&Path) -> String) -> Self {
        let mut broker = Self::stopped(lines);
        broker.restart();
        broker
    }

    /// A broker with its port chosen but not started yet.
    pub fn stopped(lines: impl FnOnce(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // mosquitto has no port 0. The port is free now, and the kernel hands it out again only after all others.
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("a free port")
            .port();
        let own = lines(folder.path());
        // Without limits on what is under way, nothing that was acknowledged waits inside the broker.
        let config = format!(
            "listener {port} 127.0.0.1\npersistence false\nmax_inflight_messages 0\nmax_queued_messages 0\nlog_dest none\n{own}"
        );
        Self {
            folder,
            port,
            config,
            child: None,
        }
    }

    /// Starts it (again) and returns when it accepts connections.
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let path = self.folder.path().join("mosquitto.conf");
        // Started by root, mosquitto would become the user `mosquitto`, who may not read this folder.
        let user = if run_by_root() { "user root\n" } else { "" };
        fs::write(&path, format!("{user}{}", self.config)).expect("the folder is writable");
        let child = Command::new(program("mosquitto"))
            .arg("-c")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mosquitto starts");
        self.child = Some(child);
        let port = self.port;
        eventually("mosquitto accepts connections", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }

    /// SIGKILL: no goodbye, nothing saved.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it still runs");
            child.wait().expect("it can be waited for");
        }
    }

    /// Its port on 127.0.0.1.
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

/// A client configuration for a broker on this port of the loopback interface.
pub fn client(port: u16) -> MqttConfig {
    MqttConfig {
        broker: Broker::Url {
            host: "127.0.0.1".to_owned(),
            port,
            tls: false,
        },
        prefix: "jetwatch".to_owned(),
        client_id: "jetwatch-dev".to_owned(),
        credentials: None,
        tls: TlsConfig::default(),
        keep_alive: std::time::Duration::from_secs(15),
        queue_messages: 10_000,
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

fn run_by_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
