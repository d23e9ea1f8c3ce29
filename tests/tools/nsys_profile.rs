// SPDX-License-Identifier: Apache-2.0
//! `jetwatch profile` with the real nsys and a real sshd on the loopback with keys of its own: the real daemon is profiled
//! there, its report fetched, exported and read.
//!
//! Needs nsys and sshd (`make nsys-test` installs them); without them the tests are skipped with a message.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::daemon::{Setup, finish, start, stderr, wait_for_output, wait_until_some};

/// Frames of each of the two sources.
const FRAMES: u64 = 60;

const SSHD: &str = "/usr/sbin/sshd";

/// Lets one test at a time use nsys: starting several sessions at once, it sometimes fails by itself. Tests may be threads or
/// processes.
fn lock_nsys() -> fs::File {
    let path = std::env::temp_dir().join("jetwatch-nsys-test.lock");
    let file = fs::File::create(path).expect("a lock");
    file.lock().expect("locked");
    file
}

/// Whether something that the tests need is not installed.
fn is_missing() -> bool {
    if std::env::var_os("JETWATCH_TEST_NSYS").is_none() {
        eprintln!("skipped: `make nsys-test` asks for it");
        return true;
    }
    let nsys = Command::new("nsys")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let missing = [
        (nsys.is_ok_and(|status| status.success()), "nsys"),
        (Path::new(SSHD).exists(), SSHD),
    ];
    for (is_there, name) in missing {
        if !is_there {
            eprintln!("skipped: {name} is not installed");
            return true;
        }
    }
    false
}

/// A configuration with two sources that end after `frames`, or never.
fn daemon(frames: Option<u64>) -> Setup {
    let end = frames.map_or_else(String::new, |frames| {
        format!("&realtime=false&frames={frames}")
    });
    let mut yaml = "device: test\nsources:\n".to_owned();
    for seed in [1, 2] {
        yaml.push_str(&format!(
            "  - name: cam{seed}\n    uri: synthetic://traffic?seed={seed}&objects=3&width=160&height=120&fps=100{end}\n"
        ));
    }
    yaml.push_str("detector: {backend: scripted, workers: 2}\npublish: {mqtt: off, json_lines: {path: events.jsonl}}\n");
    let setup = Setup::new(&yaml);
    fs::create_dir(setup.path("target")).expect("created");
    setup
}

/// An sshd on the loopback interface that accepts its key.
struct Server {
    folder: tempfile::TempDir,
    port: u16,
    child: Child,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "id"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])
                .status()
                .expect("ssh-keygen starts");
            assert!(made.success());
        }
        fs::copy(path("id.pub"), path("authorized_keys")).expect("copied");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let host = fs::read_to_string(path("host.pub")).expect("a key");
        fs::write(path("known_hosts"), format!("[127.0.0.1]:{port} {host}")).expect("written");
        // The folder of keys is below one that every user may write, hence StrictModes.
        fs::write(
            path("sshd_config"),
            format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nPermitRootLogin prohibit-password\n",
                path("host"),
                path("authorized_keys")
            ),
        )
        .expect("written");
        // Root's sshd wants a folder that the system's start makes; another's does not.
        let _ = fs::create_dir_all("/run/sshd");
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-f", &path("sshd_config")])
            .stdin(Stdio::null())
            .stderr(fs::File::create(path("log")).expect("created"))
            .spawn()
            .expect("sshd starts");
        wait_until_some("sshd", || TcpStream::connect(("127.0.0.1", port)).ok());
        Self {
            folder,
            port,
            child,
        }
    }

    /// A file next to the server's keys.
    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The options of ssh for this server.
    fn options(&self) -> [String; 5] {
        [
            format!("Port={}", self.port),
            format!("IdentityFile={}", self.file("id")),
            format!("UserKnownHostsFile={}", self.file("known_hosts")),
            "IdentitiesOnly=yes".to_owned(),
            "BatchMode=yes".to_owned(),
        ]
    }

    /// `jetwatch profile` of `setup` on this server.
    fn profile(&self, setup: &Setup) -> Command {
        self.profile_with(setup, Path::new(env!("CARGO_BIN_EXE_jetwatch")))
    }

    /// The same with another program of the daemon's.
    fn profile_with(&self, setup: &Setup, program: &Path) -> Command {
        let mut command = profile_at(setup, &format!("{}@127.0.0.1", user()), program);
        for option in self.options() {
            command.args(["--ssh-option", &option]);
        }
        command.arg("--ssh-option=-Fnone");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `jetwatch profile` of `setup` on the machine that ssh knows as `host`.
fn profile_at(setup: &Setup, host: &str, program: &Path) -> Command {
    let mut command = setup.command("profile");
    command
        .args(["--host", host, "--program"])
        .arg(program)
        .arg("--target-folder")
        .arg(setup.path("target"))
        .arg("--output")
        .arg(setup.path("out"));
    command
}

/// The user's name.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id starts");
    let name = String::from_utf8(output.stdout).expect("a name");
    name.trim().to_owned()
}

/// Number of ranges by name in an export.
fn ranges(export: &Path) -> BTreeMap<String, u64> {
    let database = Connection::open(export).expect("an export");
    let mut query = database
        .prepare(
            "SELECT coalesce(NVTX_EVENTS.text, StringIds.value), count(*) FROM NVTX_EVENTS LEFT JOIN StringIds ON StringIds.id = textId \
             WHERE eventType = 59 AND end IS NOT NULL GROUP BY 1",
        )
        .expect("a table of ranges");
    query
        .query_map([], |row| {
            let count: i64 = row.get(1)?;
            Ok((row.get(0)?, count.unsigned_abs()))
        })
        .and_then(Iterator::collect)
        .expect("ranges")
}

/// The ranges of `out.sqlite` are as many as the daemon counted.
fn assert_exact(setup: &Setup, frames: u64) {
    let stats = fs::read(setup.path("out.stats.json")).expect("statistics");
    let stats: Value = serde_json::from_slice(&stats).expect("JSON");
    assert_eq!(stats["frames"], frames);
    let ranges = ranges(&setup.path("out.sqlite"));
    for stage in ["source", "track", "publish"] {
        assert_eq!(ranges[stage], frames, "{stage}: {ranges:?}");
    }
    for stage in stats["stages"].as_array().expect("stages") {
        let name = stage["stage"].as_str().expect("a name");
        // What did not happen has no row.
        let counted = ranges.get(name).copied().unwrap_or(0);
        // Statistics leave out the last wait of each of the two detectors, which ended without a frame.
        let ended_empty = if name == "batch" { 2 } else { 0 };
        assert_eq!(stage["count"], counted - ended_empty, "{name}: {ranges:?}");
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("readable").next().is_none()
}

/// Processes that `matches` accepts, by their command lines.
fn processes(matches: impl Fn(&str) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("readable").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        matches(&String::from_utf8_lossy(&line).replace('\0', " "))
    })
    .collect()
}

#[test]
fn ranges_of_a_profile_over_ssh_equal_frames_and_batches() {
    if is_missing() {
        return;
    }
    let _alone = lock_nsys();
    let setup = daemon(Some(FRAMES));
    // An older export with this name must not be taken for the new one.
    fs::write(setup.path("out.sqlite"), b"stale").expect("written");
    let server = Server::start();
    let output = finish(
        server
            .profile(&setup)
            .args(["--duration", "300s", "--force"]),
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_exact(&setup, 2 * FRAMES);
    let report = String::from_utf8_lossy(&output.stdout);
    assert_has!(report => "Verdict", "jetwatch:infer");
    assert!(is_empty(&setup.path("target")));
}

#[test]
fn profile_as_other_user_works_with_sudo_and_cleans_up() {
    if is_missing() {
        return;
    }
    let allowed = Command::new("sudo")
        .args(["-n", "-u", "nobody", "--", "true"])
        .stderr(Stdio::null())
        .status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: sudo without a password is not allowed here");
        return;
    }
    let _alone = lock_nsys();
    let setup = daemon(Some(FRAMES));
    // The other user needs access to the program, the folder and the output.
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    };
    let program = setup.path("program");
    fs::copy(env!("CARGO_BIN_EXE_jetwatch"), &program).expect("copied");
    set_mode(&program, 0o755);
    set_mode(&setup.path(""), 0o755);
    set_mode(&setup.path("target"), 0o1777);
    let server = Server::start();
    let output =
        finish(
            server
                .profile_with(&setup, &program)
                .args(["--duration", "300s", "--sudo=nobody"]),
        );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_exact(&setup, 2 * FRAMES);
    assert!(is_empty(&setup.path("target")));
}

#[test]
fn lost_connection_leaves_no_remote_files() {
    if is_missing() {
        return;
    }
    let _alone = lock_nsys();
    let setup = daemon(None);
    let server = Server::start();
    let target = setup.path("target").display().to_string();
    let child = start(server.profile(&setup).args(["--duration", "500s"]));
    let there = || processes(|line| line.contains(&format!("--config={target}")));
    // The daemon runs: its own numbers come at the end, its events at once.
    wait_until_some("the daemon", || (there().len() >= 2).then_some(()));
    let port = format!("Port={}", server.port);
    let clients = processes(|line| line.starts_with("ssh ") && line.contains(&port));
    assert_eq!(clients.len(), 1);
    let client = i32::try_from(clients[0]).ok().and_then(Pid::from_raw);
    kill_process(client.expect("a process"), Signal::KILL).expect("it runs");
    let output = wait_for_output(child);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("ended while profiling"), "{text}");
    wait_until_some("a clean target", || {
        let is_clean = is_empty(&setup.path("target"))
            && processes(|line| line.contains(&target) && !line.contains("--target-folder"))
                .is_empty();
        is_clean.then_some(())
    });
    assert!(!setup.path("out.nsys-rep").exists());
}

/// The service as `systemd/drop-ins/profiling.conf` starts it.
struct Service {
    session: String,
}

impl Service {
    fn start(setup: &Setup) -> Self {
        let session = format!("test-{}", std::process::id());
        let log = fs::File::create(setup.path("log")).expect("created");
        let mut launch = Command::new("nsys");
        launch
            .args(["launch", "--trace=nvtx,osrt"])
            .arg(format!("--session-new={session}"))
            .arg(env!("CARGO_BIN_EXE_jetwatch"))
            .args(["run", "--config"])
            .arg(&setup.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0);
        // It stays as long as the daemon does, and ends with the session.
        drop(launch.spawn().expect("nsys starts"));
        Self { session }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = Command::new("nsys")
            .args(["shutdown", "--kill=sigterm"])
            .arg(format!("--session={}", self.session))
            .output();
    }
}

#[test]
fn running_service_is_profiled_and_continues() {
    if is_missing() {
        return;
    }
    let _alone = lock_nsys();
    let setup = daemon(None);
    let service = Service::start(&setup);
    let events: PathBuf = setup.path("events.jsonl");
    let bytes = || fs::metadata(&events).map_or(0, |file| file.len());
    wait_until_some("events", || (bytes() > 0).then_some(()));
    for name in ["first", "second"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        let output = finish(
            command
                .args([
                    "profile",
                    "--attach",
                    "--duration",
                    "1s",
                    "--session",
                    &service.session,
                    "--target-folder",
                ])
                .arg(setup.path("target"))
                .arg("--output")
                .arg(setup.path(name)),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let ranges = ranges(&setup.path(&format!("{name}.sqlite")));
        assert!(ranges["track"] > 10, "{ranges:?}");
    }
    let before = bytes();
    wait_until_some("more events", || (bytes() > before).then_some(()));
    assert!(is_empty(&setup.path("target")));
}
