// SPDX-License-Identifier: Apache-2.0
//! Downloads from servers that disconnect, send wrong data, hang and redirect; the file is complete and correct, or absent.

use crate::support::file_server;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use file_server::{Answer, FileServer, Tunnel};
use jetwatch_detect::model::ModelSpec;
use jetwatch_files::Sha256Digest;
use jetwatch_models::model_zoo::{
    self, Download, DownloadResult, FetchError, Progress, RetryPolicy, download,
};

/// Longer than the read buffers of client and server, and not a multiple of them.
const LEN: usize = 300_007;

fn file() -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..LEN).map(|_| next()).collect()
}

/// Waits that a test can afford.
fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        attempts: 3,
        first_wait: Duration::from_millis(1),
        max_wait: Duration::from_millis(4),
        connect: Duration::from_secs(5),
        stall: Duration::from_secs(60),
    }
}

/// A folder to fetch into.
struct Target {
    folder: tempfile::TempDir,
    waits: Vec<String>,
    retry: RetryPolicy,
}

impl Target {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            waits: Vec::new(),
            retry: retry_policy(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn fetch(
        &mut self,
        url: &str,
        bytes: Option<u64>,
        sha256: Option<Sha256Digest>,
    ) -> Result<DownloadResult, FetchError> {
        let path = self.path("net.onnx");
        let request = Download {
            url,
            bytes,
            sha256,
            path: &path,
        };
        download(&request, &self.retry, &mut |progress| {
            if let Progress::Waiting { reason, .. } = progress {
                self.waits.push(reason);
            }
        })
    }

    /// Fetches what the server has, of which only the hash is known.
    fn fetch_by_hash(&mut self, server: &FileServer) -> Result<DownloadResult, FetchError> {
        self.fetch(&server.url(), None, Some(Sha256Digest::of(&file())))
    }

    /// Fetches [`file`] with its length and hash.
    fn fetch_verified(&mut self, server: &FileServer) -> Result<DownloadResult, FetchError> {
        self.fetch(
            &server.url(),
            Some(LEN as u64),
            Some(Sha256Digest::of(&file())),
        )
    }

    /// The same, which gives the file and leaves nothing else.
    fn fetch_whole(&mut self, server: &FileServer) {
        self.fetch_verified(server)
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(self.has_only_file());
    }

    /// The same, which fails and gives no file.
    fn refusal(&mut self, server: &FileServer) -> String {
        let reason = reason(self.fetch_verified(server));
        assert!(self.has_no_file(), "{reason}");
        reason
    }

    /// Puts an unfinished file there, of this length and from this address and entity tag.
    fn write_part(&self, len: usize, url: &str, tag: &str) {
        fs::write(self.path("net.onnx.part"), vec![9; len]).expect("written");
        fs::write(self.path("net.onnx.part.from"), format!("{url}\n{tag}\n")).expect("written");
    }

    /// Whether the folder holds only the file.
    fn has_only_file(&self) -> bool {
        let names: Vec<_> = fs::read_dir(self.folder.path())
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names == ["net.onnx"] && fs::read(self.path("net.onnx")).expect("it is there") == file()
    }

    fn files(&self) -> usize {
        let files = fs::read_dir(self.folder.path());
        files.expect("it is there").count()
    }

    fn has_no_file(&self) -> bool {
        !self.path("net.onnx").exists()
    }

    fn part_len(&self) -> Option<u64> {
        fs::metadata(self.path("net.onnx.part"))
            .ok()
            .map(|metadata| metadata.len())
    }
}

/// Why a download fails.
fn reason(result: Result<DownloadResult, FetchError>) -> String {
    result.expect_err("it fails").to_string()
}

fn serve(answers: Vec<Answer>) -> FileServer {
    FileServer::start(file(), "\"v1\"", answers)
}

#[test]
fn a_file_is_fetched_verified_and_not_fetched_again() {
    let server = serve(vec![Answer::File]);
    let mut place = Target::new();
    let fetched = place.fetch_verified(&server).expect("all is well");
    let found = (fetched.sha256, fetched.was_present);
    assert_eq!(found, (Sha256Digest::of(&file()), false));
    assert!(place.has_only_file());
    assert!(
        place
            .fetch_verified(&server)
            .expect("it is there")
            .was_present
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn broken_download_is_resumed() {
    let server = serve(vec![
        Answer::CutAfter(100_000),
        Answer::CutAfter(50_000),
        Answer::File,
    ]);
    let mut place = Target::new();
    place.fetch_whole(&server);
    let requests = server.requests();
    assert!(!requests[0].contains("\nrange:"), "{}", requests[0]);
    assert_has!(requests[1] => "range: bytes=100000-", "if-range: \"v1\"");
    assert_has!(requests[2] => "range: bytes=150000-");
    assert_eq!(place.waits.len(), 2);
}

#[test]
fn later_call_resumes_partial_download() {
    let server = serve(vec![
        Answer::CutAfter(70_000),
        Answer::CutAfter(0),
        Answer::CutAfter(0),
        Answer::File,
    ]);
    let mut place = Target::new();
    let error = place.refusal(&server);
    assert_has!(error => "failed after 3 attempts", "70000 bytes are kept");
    assert_eq!(place.part_len(), Some(70_000));
    place.fetch_whole(&server);
    assert!(server.requests()[3].contains("range: bytes=70000-"));
}

#[test]
fn replaced_file_is_downloaded_again() {
    let mut place = Target::new();
    let old = FileServer::start(
        vec![1; LEN],
        "\"old\"",
        vec![Answer::CutAfter(90_000), Answer::CutAfter(0)],
    );
    place.fetch_verified(&old).expect_err("it breaks");
    assert_eq!(place.part_len(), Some(90_000));
    // The same address, as far as the unfinished file knows.
    let new = serve(vec![Answer::File]);
    fs::write(
        place.path("net.onnx.part.from"),
        format!("{}\n\"old\"\n", new.url()),
    )
    .expect("written");
    place.fetch_whole(&new);
    assert!(new.requests()[0].contains("if-range: \"old\""));
}

#[test]
fn stale_partial_files_are_discarded() {
    let server = serve(vec![Answer::File]);
    let mut place = Target::new();
    place.write_part(50_000, "http://elsewhere/", "");
    place.fetch_whole(&server);
    assert!(!server.requests()[0].contains("\nrange:"));

    let mut place = Target::new();
    place.write_part(50_000, &server.url(), "\"v1\"");
    place.fetch_whole(&server);
    assert_eq!(server.requests().len(), 3);

    let mut place = Target::new();
    place.write_part(LEN + 1, &server.url(), "\"v1\"");
    place.fetch_whole(&server);
}

#[test]
fn server_without_ranges_sends_full_file() {
    let server = serve(vec![Answer::CutAfter(100_000), Answer::Whole]);
    let mut place = Target::new();
    place.fetch_whole(&server);

    let server = serve(vec![
        Answer::CutAfter(100_000),
        Answer::WrongPart,
        Answer::File,
    ]);
    let mut place = Target::new();
    place.fetch_whole(&server);
    assert_has!(place.waits[1] => "another range");
}

#[test]
fn wrong_content_length_is_detected() {
    for announced in [LEN - 1, LEN + 1, 10 * LEN] {
        // A known length is compared before anything is written.
        let server = serve(vec![Answer::Announced(announced)]);
        let mut place = Target::new();
        let error = place.refusal(&server);
        let wanted = format!("found {announced} bytes, expected {LEN}");
        assert_has!(error => &wanted);
        assert_eq!((server.requests().len(), place.part_len()), (1, Some(0)));
    }
    // With nothing known but the hash: what is too long ends early each time, what is too short has another hash.
    for (announced, wanted) in [(LEN + 1, "failed after"), (LEN - 1, "found SHA-256")] {
        let server = serve(vec![Answer::Announced(announced)]);
        let mut place = Target::new();
        assert_has!(reason(place.fetch_by_hash(&server)) => wanted);
        assert!(place.has_no_file(), "{announced}");
    }
    // A missing length is not an error.
    let server = serve(vec![Answer::Unannounced]);
    let mut place = Target::new();
    place.fetch_by_hash(&server).expect("the hash is right");
    assert!(place.has_only_file());
}

#[test]
fn file_with_wrong_hash_is_discarded() {
    let server = serve(vec![Answer::Other]);
    let mut place = Target::new();
    let error = place.refusal(&server);
    let [found, wanted] = [vec![7; LEN], file()].map(|bytes| Sha256Digest::of(&bytes).to_string());
    assert_has!(error => &found, &wanted);
    assert_eq!(place.files(), 0);
    // Without a hash this is not detected; the caller gets the hash of the received file.
    let fetched = place
        .fetch(&server.url(), None, None)
        .expect("nothing is known");
    assert_eq!(fetched.sha256, Sha256Digest::of(&vec![7; LEN]));
}

#[test]
fn existing_file_survives_failed_download() {
    let server = serve(vec![Answer::Other]);
    let mut place = Target::new();
    fs::write(place.path("net.onnx"), "an older file").expect("written");
    place.fetch_verified(&server).expect_err("other bytes");
    let found = fs::read(place.path("net.onnx")).expect("it is there");
    assert_eq!(found, b"an older file");
}

#[test]
fn redirects_are_followed_up_to_limit() {
    let target = serve(vec![Answer::CutAfter(1000), Answer::File]);
    let server = serve(vec![Answer::Redirect(target.url())]);
    let mut place = Target::new();
    place.fetch_whole(&server);
    assert!(target.requests()[1].contains("range: bytes=1000-"));

    let circle = serve(vec![Answer::Redirect("/models/net.onnx".to_owned())]);
    let error = Target::new().refusal(&circle);
    assert_has!(error => "redirection loop");
}

#[test]
fn client_errors_are_permanent_and_server_errors_are_retried() {
    for (status, wanted) in [
        (404, "no longer exists"),
        (403, "access is denied"),
        (410, "no longer exists"),
    ] {
        let server = serve(vec![Answer::Status(status, "")]);
        let mut place = Target::new();
        let error = place.refusal(&server);
        assert_has!(error => &format!("returned {status}"), wanted);
        assert_eq!(server.requests().len(), 1);
    }
    for status in [500, 502, 503, 429, 408] {
        let server = serve(vec![
            Answer::Status(status, ""),
            Answer::Status(status, "retry-after: 0\r\n"),
            Answer::File,
        ]);
        let mut place = Target::new();
        place.fetch_whole(&server);
        assert!(
            place.waits[0].contains(&status.to_string()),
            "{:?}",
            place.waits
        );
    }
    let server = serve(vec![Answer::Status(503, "")]);
    let error = Target::new().refusal(&server);
    assert_has!(error => "failed after 3 attempts", "the server has an error");
    assert_once!(error => "http://");
}

#[test]
fn silent_server_times_out() {
    let server = serve(vec![
        Answer::Silent,
        Answer::SilentAfter(100_000),
        Answer::File,
    ]);
    let mut place = Target::new();
    place.retry.stall = Duration::from_secs(2);
    place.fetch_whole(&server);
    // What came is used.
    assert_has!(server.requests()[2] => "range: bytes=100000-");
    let wanted = ["the server does not respond", "the server stopped sending"];
    assert_eq!(place.waits, wanted);
}

/// An address of this machine where no server listens.
fn closed() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("it is bound"))
}

#[test]
fn unreachable_server_is_reported() {
    let error = reason(Target::new().fetch(&format!("{}/x", closed()), None, None));
    assert_has!(error.to_lowercase() => "failed after", "refused");
    let error = reason(Target::new().fetch("http://no-such-host.invalid/x", None, None));
    assert_has!(error => "name cannot be resolved", "HTTPS_PROXY");
    for url in ["", "x", "ftp://127.0.0.1/x"] {
        let error = reason(Target::new().fetch(url, None, None));
        assert!(!error.is_empty(), "{url}");
    }
}

#[test]
fn full_disk_and_invalid_folder_are_reported() {
    let server = serve(vec![Answer::File]);
    let mut place = Target::new();
    // `/dev/full` in place of a full disk.
    std::os::unix::fs::symlink("/dev/full", place.path("net.onnx.part")).expect("a link");
    let error = place.refusal(&server);
    assert_has!(error => "cannot write", "free disk space");

    let mut place = Target::new();
    fs::write(place.path("net.onnx"), "").expect("written");
    let path = place.path("net.onnx").join("below/net.onnx");
    let request = Download {
        url: &server.url(),
        bytes: None,
        sha256: None,
        path: &path,
    };
    let error = download(&request, &retry_policy(), &mut |_| {})
        .expect_err("a file is no folder")
        .to_string();
    assert_has!(error => "cannot write", "below");
    place.waits.clear();
}

#[test]
fn concurrent_downloads_do_not_interfere() {
    let server = serve(vec![Answer::SilentAfter(1000)]);
    let mut place = Target::new();
    let (url, path) = (server.url(), place.path("net.onnx"));
    let first = std::thread::spawn(move || {
        let request = Download {
            url: &url,
            bytes: None,
            sha256: None,
            path: &path,
        };
        let timeout = RetryPolicy {
            stall: Duration::from_secs(3),
            attempts: 1,
            ..retry_policy()
        };
        download(&request, &timeout, &mut |_| {}).expect_err("it falls silent")
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    while place.part_len() != Some(1000) {
        assert!(
            Instant::now() < deadline,
            "the first download does not begin"
        );
        std::thread::yield_now();
    }
    let error = place.fetch_verified(&server).expect_err("it is locked");
    assert!(matches!(error, FetchError::Busy { .. }), "{error}");
    first.join().expect("it does not panic");
}

#[test]
fn every_model_zoo_entry_gives_loadable_folder() {
    for entry in model_zoo::entries().expect("the manifests are right") {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let hash = Sha256Digest::from([0xaa; 32]);
        fs::write(folder.path().join("model.yaml"), entry.model_yaml(hash)).expect("written");
        fs::write(folder.path().join("labels.txt"), entry.labels).expect("written");
        let spec = ModelSpec::load(folder.path())
            .unwrap_or_else(|error| panic!("{}: {error}", entry.name));
        let found = (spec.name.as_str(), spec.labels.len());
        assert_eq!(found, (entry.name.as_str(), 80));
        assert_eq!(spec.files[0].path, folder.path().join(&entry.file));
        let found = (spec.files[0].sha256, spec.license.spdx.as_str());
        assert_eq!(found, (hash, entry.license.as_str()));
    }
}

/// `jetwatch model fetch` with the arguments, without proxies of the machine.
fn command(arguments: &[&str]) -> Command {
    let mut command = jetwatch();
    command.args(["model", "fetch"]).args(arguments);
    command
}

/// `jetwatch` without proxies of the machine.
fn jetwatch() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
    command.env_remove("RUST_LOG");
    for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command
}

#[test]
fn fetch_uses_mirror_through_proxy_and_verifies() {
    // The file of the mirror differs from the catalogue, which must be detected.
    let server = serve(vec![Answer::File]);
    let port = server
        .url()
        .split([':', '/'])
        .nth(4)
        .and_then(|port| port.parse().ok());
    let tunnel = Tunnel::start(port.expect("a port"));
    let place = Target::new();
    let folder = place.path("models/yolox_nano");
    let output = command(&[
        "yolox_nano",
        "--from",
        "http://mirror.invalid/yolox_nano.onnx",
        "--into",
    ])
    .arg(&folder)
    .env("HTTP_PROXY", tunnel.url())
    .output()
    .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && stderr.contains("found 300007 bytes, expected 3659407"),
        "{stderr}"
    );
    assert!(
        tunnel.connect_requests()[0].starts_with("CONNECT mirror.invalid:80"),
        "{:?}",
        tunnel.connect_requests()
    );
    assert_eq!(server.requests().len(), 1);
    assert!(!folder.join("yolox_nano.onnx").exists() && !folder.join("model.yaml").exists());
}

#[test]
fn fetch_lists_entries_and_keeps_other_folders() {
    let output = command(&["yolox_mega"]).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_has!(stderr => "`yolox_mega`", "yolox_nano, yolox_tiny");

    let place = Target::new();
    let model = include_str!("../support/yolox_nano.yaml");
    fs::write(
        place.path("model.yaml"),
        model.replace("yolox_nano.onnx", "other.onnx"),
    )
    .expect("written");
    let output = command(&["yolox_s", "--into"])
        .arg(place.folder.path())
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_has!(stderr => "describes another file", "--force");
    assert_eq!(place.files(), 1);
}

#[test]
fn demo_takes_a_network_of_this_machine_or_says_what_to_expect() {
    if Path::new("/usr/share/jetwatch/models").exists()
        || Path::new("/var/lib/jetwatch/models").exists()
    {
        eprintln!("skipped: jetwatch is installed on this machine, with networks");
        return;
    }
    let place = Target::new();
    // Every address is refused.
    let demo = || {
        let output = jetwatch()
            .args(["demo", "--source", "missing.mp4", "--duration", "1s"])
            .current_dir(place.folder.path())
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", place.folder.path())
            .env("HTTPS_PROXY", closed())
            .output()
            .expect("it runs");
        let [out, err] = [output.stdout, output.stderr]
            .map(|printed| String::from_utf8_lossy(&printed).into_owned());
        out + &err
    };
    let text = demo();
    assert_has!(text => "none could be fetched", "make picodet", "--model");

    fs::create_dir(place.path("models")).expect("created");
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/street-nano");
    symlink(&network, place.path("models/street-nano")).expect("a link");
    let text = demo();
    assert_has!(text => "street-nano is a test network for drawn scenes", "Detector: ONNX Runtime with models/street-nano.");

    // A complete folder of that name, whatever network it has.
    symlink(&network, place.path("models/picodet_s_lcnet")).expect("a link");
    let text = demo();
    assert!(!text.contains("fetched"), "{text}");
    assert_has!(text => "Detector: ONNX Runtime with models/picodet_s_lcnet.");
}

#[test]
fn names_of_models_are_looked_for_where_they_are_put() {
    let place = Target::new();
    let config = place.path("gate.yaml");
    let yaml = "sources: [{name: gate, uri: 'synthetic://traffic'}]\ndetector: {backend: onnx, model: picodet_s}\n";
    fs::write(&config, yaml).expect("written");
    let check = || {
        let output = jetwatch()
            .args(["check", "--models", "--config"])
            .arg(&config)
            .current_dir(place.folder.path())
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", place.folder.path())
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let hint = "fetch it: `jetwatch model fetch picodet_s`";
    assert_has!(check() => "cannot read", hint);
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/street-nano");
    for folder in [".cache/jetwatch/models", "models"] {
        fs::create_dir_all(place.path(folder)).expect("created");
        symlink(&network, place.path(folder).join("picodet_s")).expect("a link");
        let text = check();
        assert!(!text.contains("cannot read"), "{folder}: {text}");
        fs::remove_dir_all(place.path(folder)).expect("removed");
    }
    assert_has!(check() => hint);
}
