// SPDX-License-Identifier: Apache-2.0
//! The page: served for a double of the daemon, or by the real one, and requests to it.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use jetwatch_config::{Config, WebConfig, WebRole};
use jetwatch_web::{
    Backend, CameraJob, Hub, MediaContent, MediaLibrary, MediaPage, MediaPart, MediaQuery,
    MediaStream, NewCamera, ObjectLibrary, ObjectPage, ObjectQuery, PictureBoard, RuleEdit,
    RuleOutcome, RulesRequest, Scope, Users, WebServer,
};
use serde_json::{Value, json};

use super::daemon::{Setup, Signal, TEST_TIMEOUT, keeps, signal, start, wait_until_some};
use super::ports::free_port;

pub const PASSWORD: &str = "a long password";

/// A daemon without sources, whose recordings are in a folder.
pub struct Double {
    pub folder: PathBuf,
}

impl Backend for Double {
    fn info(&self) -> Value {
        json!({"device": "double"})
    }

    fn rules(&self, source: &str) -> Option<Value> {
        (source == "gate").then(|| json!({"zones": [], "lines": []}))
    }

    fn edit_rules(&self, _: &str, _: &RulesRequest, edit: RuleEdit) -> RuleOutcome {
        RuleOutcome {
            accepted: true,
            saved: edit == RuleEdit::Save,
            ..RuleOutcome::default()
        }
    }

    fn request_reload(&self) -> bool {
        true
    }

    fn start_checks(&self) -> Result<(), String> {
        Ok(())
    }

    fn checks(&self) -> Value {
        json!({"running": false})
    }

    fn start_camera_job(&self, _: CameraJob) -> Result<(), String> {
        Ok(())
    }

    fn cameras(&self) -> Value {
        json!({"running": null})
    }

    fn camera_picture(&self) -> Option<Arc<[u8]>> {
        Some(b"picture"[..].into())
    }

    fn add_camera(&self, _: &NewCamera) -> RuleOutcome {
        RuleOutcome::default()
    }

    fn support_bundle(&self) -> Value {
        json!({})
    }

    fn objects(&self) -> Option<&dyn ObjectLibrary> {
        Some(self)
    }

    fn media(&self) -> Option<&dyn MediaLibrary> {
        Some(self)
    }
}

impl ObjectLibrary for Double {
    fn objects(&self, query: &ObjectQuery) -> ObjectPage {
        ObjectPage {
            items: vec![json!({"id": "1", "before": query.before})],
            ..ObjectPage::default()
        }
    }

    fn facets(&self) -> Value {
        json!({"sources": [], "labels": [], "zones": []})
    }

    fn activity(&self, _: SystemTime, _: SystemTime, _: u32) -> Value {
        json!({})
    }

    fn picture(&self, _: &str) -> Option<bytes::Bytes> {
        Some(bytes::Bytes::from_static(b"picture"))
    }

    fn review(&self, ids: &[String], _: bool) -> Result<usize, String> {
        Ok(ids.len())
    }
}

impl MediaLibrary for Double {
    fn items(&self, query: &MediaQuery) -> MediaPage {
        MediaPage {
            items: vec![json!({"id": "clip-1", "before": query.before})],
            next: Some("clip-1".to_owned()),
        }
    }

    fn open(&self, id: &str, _: MediaPart) -> Option<MediaContent> {
        let file = fs::File::open(self.folder.join(id)).ok()?;
        let bytes = file.metadata().ok()?.len();
        let name = id.to_owned();
        Some(MediaContent { file, bytes, name })
    }

    fn pin(&self, _: &str, _: bool) -> Result<(), String> {
        Ok(())
    }

    fn export(&self, _: &str, _: SystemTime, _: SystemTime) -> Option<Box<dyn MediaStream>> {
        Some(Box::new(OnePiece(true)))
    }

    fn usage(&self) -> Value {
        Value::Null
    }
}

/// A file of five bytes.
struct OnePiece(bool);

impl MediaStream for OnePiece {
    fn next(&mut self) -> Option<bytes::Bytes> {
        std::mem::take(&mut self.0).then(|| b"video"[..].into())
    }
}

/// A running page with users and a token of each kind.
pub struct Page {
    pub server: WebServer,
    pub hub: Arc<Hub>,
    pub board: Arc<PictureBoard>,
    pub folder: tempfile::TempDir,
    pub tokens: [String; 3],
}

impl Page {
    pub fn start(yaml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut users = three_users();
        let tokens = Scope::ALL.map(|(name, scope)| users.add_token(name, scope).expect("new"));
        let path = folder.path().join("users");
        users.save(&path).expect("written");
        let (server, hub, board) = serve(
            &format!("users_file: {}, {yaml}", path.display()),
            folder.path(),
        );
        Self {
            server,
            hub,
            board,
            folder,
            tokens,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Logs in; the `Cookie` header of the session.
    pub fn log_in(&self, user: &str) -> String {
        let answer = post(self.address(), "/api/login", &login(user, PASSWORD), "");
        assert_eq!(status(&answer), "204", "{answer}");
        let cookie = header(&answer, "set-cookie").expect("a session");
        assert_has!(cookie => "HttpOnly", "SameSite=Strict", "Path=/");
        session(&answer)
    }
}

/// A user of each role.
pub fn three_users() -> Users {
    let mut users = Users::default();
    for (name, role) in [
        ("anna", WebRole::Administrator),
        ("otto", WebRole::Operator),
        ("vera", WebRole::Viewer),
    ] {
        users.add(name, role, PASSWORD).expect("a new user");
    }
    users
}

/// The `Cookie` header of the session that an answer begins.
pub fn session(answer: &str) -> String {
    let cookie = header(answer, "set-cookie").expect("a session");
    let cookie = cookie.split(';').next().expect("a cookie");
    format!("Cookie: {cookie}\r\n")
}

pub fn web_config(yaml: &str) -> WebConfig {
    let text = format!(
        "sources: [{{name: a, uri: /v.mp4}}]\ndetector: {{model: /m}}\nweb: {{listen: '127.0.0.1:0', {yaml}}}\n"
    );
    let config = Config::from_str("f.yaml", &text);
    config.unwrap_or_else(|error| panic!("{error}")).web
}

pub fn serve(yaml: &str, folder: &Path) -> (WebServer, Arc<Hub>, Arc<PictureBoard>) {
    let config = web_config(yaml);
    let listen = config.listen.expect("an address");
    let (hub, board) = (Arc::new(Hub::default()), Arc::new(PictureBoard::default()));
    let backend = Arc::new(Double {
        folder: folder.to_owned(),
    });
    let server = WebServer::start(
        &config,
        listen,
        &[],
        Some(folder),
        Arc::clone(&hub),
        Arc::clone(&board),
        backend,
    );
    (server.unwrap_or_else(|error| panic!("{error}")), hub, board)
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a time");
    stream
}

/// The answer to `request`, which closes the connection, or what came of it.
pub fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    // The server may have answered and closed before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    exchange(address, request.as_bytes())
}

pub fn change(method: &str, address: SocketAddr, path: &str, body: &str, headers: &str) -> String {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nOrigin: http://{address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    exchange(address, request.as_bytes())
}

/// The status of the answer, which may go on for ever.
pub fn status_of(
    method: &str,
    address: SocketAddr,
    path: &str,
    body: &str,
    headers: &str,
) -> String {
    let mut stream = connect(address);
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).expect("written");
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("an answer");
    String::from_utf8_lossy(&start[9..]).into_owned()
}

pub fn post(address: SocketAddr, path: &str, body: &str, headers: &str) -> String {
    change("POST", address, path, body, headers)
}

pub fn login(user: &str, password: &str) -> String {
    json!({"user": user, "password": password}).to_string()
}

pub fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("no answer")
}

pub fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next()?;
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

pub fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// The body as JSON.
pub fn body_json(answer: &str) -> Value {
    serde_json::from_str(body(answer)).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// A real daemon with a page.
pub struct Daemon {
    pub child: Child,
    pub address: SocketAddr,
    pub setup: Setup,
}

impl Daemon {
    /// With a source that is drawn, and these lines of the section `web`.
    pub fn start(web: &str) -> Self {
        Self::with(|port| {
            format!(
                "device: test\nsources:\n  - name: gate\n    uri: synthetic://traffic?seed=1&objects=4&width=640&height=360&fps=20\ndetector: {{backend: scripted}}\npublish:\n  mqtt: off\n  stats_interval_s: 1\nweb:\n  listen: 127.0.0.1:{port}\n{web}"
            )
        })
    }

    /// With the configuration that `yaml` makes for a port.
    pub fn with(yaml: impl FnOnce(u16) -> String) -> Self {
        Self::with_environment(yaml, &[])
    }

    /// The same with variables of the environment.
    pub fn with_environment(yaml: impl FnOnce(u16) -> String, variables: &[(&str, &str)]) -> Self {
        let port = free_port();
        let setup = Setup::new(&yaml(port));
        let mut command = setup.command("run");
        command.stdin(Stdio::null()).envs(variables.iter().copied());
        let mut child = start(&mut command);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until_some("the page", || {
            if let Some(status) = child.try_wait().expect("its child") {
                let mut text = String::new();
                let err = child.stderr.as_mut().expect("piped");
                let _ = err.read_to_string(&mut text);
                panic!("{status}: {text}");
            }
            TcpStream::connect(address).ok()
        });
        Self {
            child,
            address,
            setup,
        }
    }

    /// The next statistics, by the stream of messages.
    pub fn stats(&self, count: usize) -> Vec<Value> {
        self.watch().next(count)
    }

    /// A stream of messages that stays open.
    pub fn watch(&self) -> StatsWatch {
        let mut stream = connect(self.address);
        let request = format!("GET /api/live HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).expect("written");
        let text = String::new();
        StatsWatch { stream, text }
    }

    pub fn stop(mut self) -> String {
        // The page is there a moment before.
        wait_until_some("its signals", || {
            keeps(&self.child, Signal::TERM).then_some(())
        });
        signal(&self.child, Signal::TERM);
        let mut text = String::new();
        if let Some(mut err) = self.child.stderr.take() {
            let _ = err.read_to_string(&mut text);
        }
        assert!(self.child.wait().expect("it ends").success(), "{text}");
        text
    }
}

/// Reads statistics from a stream of messages.
pub struct StatsWatch {
    stream: TcpStream,
    /// What has been read of messages that were not complete.
    text: String,
}

impl StatsWatch {
    /// The next `count` statistics.
    pub fn next(&mut self, count: usize) -> Vec<Value> {
        let mut found = Vec::new();
        let mut buffer = [0; 16384];
        let started = Instant::now();
        loop {
            while let Some((line, rest)) = self.text.split_once('\n') {
                let message = line.strip_prefix("data: ");
                let message = message.and_then(|json| serde_json::from_str(json).ok());
                found.extend(message.filter(|message: &Value| message["kind"] == "stats"));
                self.text = rest.to_owned();
            }
            if found.len() >= count {
                return found;
            }
            assert!(started.elapsed() < TEST_TIMEOUT, "{}", self.text);
            let read = self.stream.read(&mut buffer).expect("within the time");
            assert!(read > 0, "the stream has ended: {}", self.text);
            self.text += &String::from_utf8_lossy(&buffer[..read]);
        }
    }
}
