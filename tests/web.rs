//! The page over real connections: who may do what, what is refused, clients that are slow or many, and the real daemon. What a browser
//! shows is tested by `make web-test`.

use crate::metrics::through_tls;
use crate::publish_access::authority;
use crate::support::daemon::{
    Setup, TEST_TIMEOUT, finish, start, stderr, wait_for_output, wait_until_some,
};

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use jetwatch_config::{Config, WebConfig, WebRole};
use jetwatch_web::{
    Backend, Hub, MediaContent, MediaLibrary, MediaPart, MediaQuery, Picture, PictureBoard,
    RuleEdit, RuleOutcome, RulesRequest, Scope, Users, WebError, WebServer,
};
use serde_json::{Value, json};

const PASSWORD: &str = "a long password";

/// A daemon without sources, whose recordings are in a folder.
struct Double {
    folder: PathBuf,
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

    fn support_bundle(&self) -> Value {
        json!({})
    }

    fn media(&self) -> Option<&dyn MediaLibrary> {
        Some(self)
    }
}

impl MediaLibrary for Double {
    fn items(&self, _: &MediaQuery) -> Vec<Value> {
        vec![json!({"id": "clip-1"})]
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

    fn usage(&self) -> Value {
        Value::Null
    }
}

/// A running page with users and a token of each kind.
struct Page {
    server: WebServer,
    hub: Arc<Hub>,
    board: Arc<PictureBoard>,
    folder: tempfile::TempDir,
    tokens: [String; 3],
}

impl Page {
    fn start(yaml: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut users = Users::default();
        for (name, role) in [
            ("anna", WebRole::Administrator),
            ("otto", WebRole::Operator),
            ("vera", WebRole::Viewer),
        ] {
            users.add(name, role, PASSWORD).expect("a new user");
        }
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

    fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Logs in; the `Cookie` header of the session.
    fn log_in(&self, user: &str) -> String {
        let answer = post(self.address(), "/api/login", &login(user, PASSWORD), "");
        assert_eq!(status(&answer), "204", "{answer}");
        let cookie = header(&answer, "set-cookie").expect("a session");
        for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        format!(
            "Cookie: {}\r\n",
            cookie.split(';').next().expect("a cookie")
        )
    }
}

fn web_config(yaml: &str) -> WebConfig {
    let text = format!(
        "sources: [{{name: a, uri: /v.mp4}}]\ndetector: {{model: /m}}\nweb: {{listen: '127.0.0.1:0', {yaml}}}\n"
    );
    let config = Config::from_str("f.yaml", &text);
    config.unwrap_or_else(|error| panic!("{error}")).web
}

fn serve(yaml: &str, folder: &Path) -> (WebServer, Arc<Hub>, Arc<PictureBoard>) {
    let config = web_config(yaml);
    let listen = config.listen.expect("an address");
    let (hub, board) = (Arc::new(Hub::default()), Arc::new(PictureBoard::default()));
    let backend = Arc::new(Double {
        folder: folder.to_owned(),
    });
    let server = WebServer::start(
        &config,
        listen,
        Arc::clone(&hub),
        Arc::clone(&board),
        backend,
    );
    (server.unwrap_or_else(|error| panic!("{error}")), hub, board)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a time");
    stream
}

/// The answer to `request`, which closes the connection, or what came of it.
fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    // The server may have answered and closed before it has read all.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    exchange(address, request.as_bytes())
}

fn change(method: &str, address: SocketAddr, path: &str, body: &str, headers: &str) -> String {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nOrigin: http://{address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    exchange(address, request.as_bytes())
}

fn post(address: SocketAddr, path: &str, body: &str, headers: &str) -> String {
    change("POST", address, path, body, headers)
}

fn login(user: &str, password: &str) -> String {
    json!({"user": user, "password": password}).to_string()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("no answer")
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next()?;
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

#[test]
fn roles_and_scopes_limit_what_is_answered() {
    let page = Page::start("");
    let address = page.address();
    page.board.add("gate").put(Picture {
        jpeg: b"picture"[..].into(),
        captured_at: SystemTime::now(),
        seq: 1,
    });
    let [pictures, read, control] = page
        .tokens
        .each_ref()
        .map(|token| format!("Authorization: Bearer {token}\r\n"));
    let sessions = ["vera", "otto", "anna"].map(|user| page.log_in(user));
    let rules = r#"{"zones": [], "lines": []}"#;
    let answers = |headers: &str| {
        [
            status(&get(address, "/api/events", headers)).to_owned(),
            status(&get(address, "/api/sources/gate/rules", headers)).to_owned(),
            status(&change(
                "PUT",
                address,
                "/api/sources/gate/rules",
                rules,
                headers,
            ))
            .to_owned(),
            status(&post(address, "/api/reload", "", headers)).to_owned(),
            status(&get(address, "/api/support", headers)).to_owned(),
        ]
        .join(" ")
    };
    for (who, headers, wanted) in [
        ("no one", "", "401 401 401 401 401"),
        (
            "a wrong token",
            "Authorization: Bearer jw_x\r\n",
            "401 401 401 401 401",
        ),
        (
            "a wrong session",
            "Cookie: jetwatch=0123\r\n",
            "401 401 401 401 401",
        ),
        ("pictures", pictures.as_str(), "403 403 403 403 403"),
        ("read", read.as_str(), "200 200 403 403 403"),
        ("control", control.as_str(), "200 200 200 204 403"),
        ("viewer", sessions[0].as_str(), "200 200 403 403 403"),
        ("operator", sessions[1].as_str(), "200 200 200 204 403"),
        ("administrator", sessions[2].as_str(), "200 200 200 204 200"),
    ] {
        assert_eq!(answers(headers), wanted, "{who}");
    }
    // The newest picture is there, so that the answer waits for a fresh one no longer than for the limit.
    let answer = get(address, "/api/sources/gate/picture.jpg", &pictures);
    assert!(answer.ends_with("picture"), "{answer}");
    assert_eq!(
        status(&post(address, "/api/logout", "", &sessions[2])),
        "204"
    );
    assert_eq!(status(&get(address, "/api/events", &sessions[2])), "401");
}

#[test]
fn changed_passwords_and_removed_users_end_sessions() {
    let page = Page::start("");
    let address = page.address();
    let path = page.folder.path().join("users");
    let [anna, otto] = ["anna", "otto"].map(|user| page.log_in(user));
    let mut users = Users::load(&path).expect("its file");
    users
        .set_password("anna", "another long password")
        .expect("there");
    users.remove("otto").expect("there");
    users.save(&path).expect("written");
    // The file is looked at once a second.
    wait_until_some("the end of the sessions", || {
        let ended = |session: &str| status(&get(address, "/api/events", session)) == "401";
        (ended(&anna) && ended(&otto)).then_some(())
    });
    let answer = post(address, "/api/login", &login("anna", PASSWORD), "");
    assert_eq!(status(&answer), "401");
}

#[test]
fn brute_force_is_limited() {
    let page = Page::start("");
    let address = page.address();
    let mut found = Vec::new();
    for attempt in 0..14 {
        let answer = post(
            address,
            "/api/login",
            &login("anna", &format!("wrong password {attempt}")),
            "",
        );
        found.push(status(&answer).to_owned());
    }
    assert_eq!(found[..10], ["401"; 10]);
    assert_eq!(found[10..], ["429"; 4]);
    // Also with the right password, which is not looked at.
    let answer = post(address, "/api/login", &login("anna", PASSWORD), "");
    assert_eq!(status(&answer), "429");
    let wait = header(&answer, "retry-after").and_then(|wait| wait.parse::<u64>().ok());
    assert!(
        wait.is_some_and(|wait| (200..=301).contains(&wait)),
        "{answer}"
    );
}

#[test]
fn other_hosts_and_origins_are_refused() {
    let page = Page::start("hosts: [box.example]");
    let address = page.address();
    let session = page.log_in("anna");
    let ask = |method: &str, path: &str, host: &str, headers: &str| {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 0\r\n{headers}{session}\r\n"
        );
        status(&exchange(address, request.as_bytes())).to_owned()
    };
    let own = address.to_string();
    for (host, wanted) in [
        (own.as_str(), "200"),
        ("localhost", "200"),
        ("box.example", "200"),
        ("evil.example", "421"),
        ("localhost.evil.example", "421"),
    ] {
        assert_eq!(ask("GET", "/api/events", host, ""), wanted, "{host}");
        assert_eq!(ask("GET", "/", host, ""), wanted, "{host}");
    }
    for (headers, wanted) in [
        (format!("Origin: http://{own}\r\n"), "204"),
        (String::new(), "403"),
        ("Origin: http://evil.example\r\n".to_owned(), "403"),
        ("Origin: null\r\n".to_owned(), "403"),
        (format!("Origin: https://{own}\r\n"), "403"),
        (
            format!("Origin: http://{own}\r\nSec-Fetch-Site: cross-site\r\n"),
            "403",
        ),
    ] {
        assert_eq!(
            ask("POST", "/api/reload", &own, &headers),
            wanted,
            "{headers}"
        );
    }
    let cross = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n";
    assert_eq!(ask("GET", "/api/sources/gate/mjpeg", &own, cross), "403");
}

#[test]
fn all_answers_have_the_headers_that_protect_the_page() {
    let page = Page::start("");
    let address = page.address();
    for path in ["/", "/app.js", "/api/session", "/nowhere", "/api/events"] {
        let answer = get(address, path, "");
        let policy = header(&answer, "content-security-policy").unwrap_or_default();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'self'"),
            "{path}: {answer}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(
            header(&answer, "x-content-type-options"),
            Some("nosniff"),
            "{path}"
        );
        assert_eq!(
            header(&answer, "referrer-policy"),
            Some("no-referrer"),
            "{path}"
        );
    }
    let answer = get(address, "/app.js", "");
    let tag = header(&answer, "etag").expect("a tag").to_owned();
    let again = get(address, "/app.js", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((status(&again), body(&again)), ("304", ""));
    assert_eq!(
        header(&get(address, "/api/session", ""), "cache-control"),
        Some("no-store")
    );
}

#[test]
fn paths_out_of_the_page_are_not_found() {
    let page = Page::start("");
    let session = page.log_in("anna");
    fs::write(page.folder.path().join("clip-1"), "video").expect("written");
    for path in [
        "/../users",
        "/%2e%2e/users",
        "/api/media/../users/clip.mp4",
        "/api/media/..%2fusers/clip.mp4",
        "/api/media/%2e%2e/clip.mp4",
        "/api/media/.users/clip.mp4",
        "/page/index.html",
        "//etc/passwd",
    ] {
        let answer = get(page.address(), path, &session);
        assert_eq!(status(&answer), "404", "{path}: {answer}");
    }
    let answer = get(page.address(), "/api/media/clip-1/clip.mp4", &session);
    assert!(answer.ends_with("\r\n\r\nvideo"), "{answer}");
    let part = get(
        page.address(),
        "/api/media/clip-1/clip.mp4",
        &format!("Range: bytes=1-3\r\n{session}"),
    );
    assert_eq!((status(&part), body(&part)), ("206", "ide"), "{part}");
    assert_eq!(header(&part, "content-range"), Some("bytes 1-3/5"));
    assert_eq!(
        status(&get(
            page.address(),
            "/api/media/clip-1/clip.mp4",
            &format!("Range: bytes=5-\r\n{session}")
        )),
        "416"
    );
}

#[test]
fn oversized_requests_are_refused() {
    let page = Page::start("");
    let address = page.address();
    let session = page.log_in("otto");
    let huge = "x".repeat(200_000);
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    for request in [
        format!("GET / HTTP/1.1\r\nHost: {address}\r\nX: {huge}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {address}\r\n{many}\r\n"),
        format!("GET /{huge} HTTP/1.1\r\nHost: {address}\r\n\r\n"),
        huge.clone(),
    ] {
        let answer = exchange(address, request.as_bytes());
        // The connection may be reset before the answer was read, since the request was not.
        assert!(
            ["431", "414", "400", "no answer"].contains(&status(&answer)),
            "{answer}"
        );
    }
    let answer = change("PUT", address, "/api/sources/gate/rules", &huge, &session);
    assert!(["413", "no answer"].contains(&status(&answer)), "{answer}");
    for (body, wanted) in [("{", "400"), ("{\"zones\": []}", "400"), ("[]", "400")] {
        let answer = change("PUT", address, "/api/sources/gate/rules", body, &session);
        assert_eq!(status(&answer), wanted, "{body}: {answer}");
    }
}

#[test]
fn slow_and_silent_clients_keep_no_one_out() {
    let page = Page::start("");
    let address = page.address();
    let mut silent: Vec<TcpStream> = (0..300).map(|_| connect(address)).collect();
    for (number, stream) in silent.iter_mut().enumerate() {
        // Those that came first may have been disconnected already.
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost:");
        }
    }
    for _ in 0..10 {
        assert_eq!(status(&get(address, "/", "")), "200");
    }
    // The head of a request has a time limit.
    let mut last = silent.pop().expect("one of them");
    let mut rest = Vec::new();
    let _ = last.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}

#[test]
fn streams_have_a_limit_and_messages_arrive() {
    let page = Page::start("");
    let address = page.address();
    let session = page.log_in("vera");
    page.hub.retain("gate", "source", br#"{"kind":"source"}"#);
    let open = || {
        let mut stream = connect(address);
        let request = format!("GET /api/live HTTP/1.1\r\nHost: {address}\r\n{session}\r\n");
        stream.write_all(request.as_bytes()).expect("written");
        stream
    };
    let read_until = |stream: &mut TcpStream, wanted: &str| {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        while !text.contains(wanted) {
            let count = stream.read(&mut buffer).expect("within the time");
            assert!(count > 0, "it ended before {wanted}: {text}");
            text += &String::from_utf8_lossy(&buffer[..count]);
        }
        text
    };
    let mut first = open();
    read_until(&mut first, "event: complete");
    page.hub.append(br#"{"kind":"analytics"}"#);
    read_until(&mut first, "data: {\"kind\":\"analytics\"}\n\n");
    let mut others: Vec<TcpStream> = (0..63).map(|_| open()).collect();
    for stream in &mut others {
        read_until(stream, "data: {\"kind\":\"source\"}\n\n");
    }
    let mut refused = open();
    assert!(read_until(&mut refused, "too many").starts_with("HTTP/1.1 503"));
    drop(others);
    wait_until_some("places of streams that have ended", || {
        let mut stream = open();
        let mut start = [0; 12];
        stream.read_exact(&mut start).expect("an answer");
        (&start == b"HTTP/1.1 200").then_some(())
    });
}

#[test]
fn pages_that_are_open_to_the_network_need_users_and_tls() {
    let config = web_config("");
    let backend = || -> Arc<dyn Backend> {
        Arc::new(Double {
            folder: PathBuf::new(),
        })
    };
    let open = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = WebServer::start(&config, open, Arc::default(), Arc::default(), backend());
    assert!(
        matches!(
            refused,
            Err(WebError::OpenToNetwork {
                missing: "users_file",
                ..
            })
        ),
        "{refused:?}"
    );
    let config = web_config("users_file: /nowhere/users");
    let refused = WebServer::start(&config, open, Arc::default(), Arc::default(), backend());
    assert!(
        matches!(refused, Err(WebError::OpenToNetwork { missing: "tls", .. })),
        "{refused:?}"
    );
    let local = config.listen.expect("an address");
    let refused = WebServer::start(&config, local, Arc::default(), Arc::default(), backend());
    assert!(matches!(refused, Err(WebError::Users(_))), "{refused:?}");
}

/// A real daemon with a page.
struct Daemon {
    child: Child,
    address: SocketAddr,
    _setup: Setup,
}

impl Daemon {
    fn start(web: &str) -> Self {
        let port = free_port();
        let setup = Setup::new(&format!(
            "device: test\nsources:\n  - name: gate\n    uri: synthetic://traffic?seed=1&objects=4&width=640&height=360&fps=20\ndetector: {{backend: scripted}}\npublish:\n  mqtt: off\n  stats_interval_s: 1\nweb:\n  listen: 127.0.0.1:{port}\n{web}"
        ));
        let mut command = setup.command("run");
        command.stdin(Stdio::null());
        let child = start(&mut command);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until_some("the page", || TcpStream::connect(address).ok());
        Self {
            child,
            address,
            _setup: setup,
        }
    }

    /// The newest statistics after those of `before`, by the stream of messages.
    fn stats(&self, count: usize) -> Vec<Value> {
        let mut stream = connect(self.address);
        let request = format!("GET /api/live HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).expect("written");
        let (mut text, mut buffer) = (String::new(), [0; 16384]);
        let started = Instant::now();
        loop {
            let found: Vec<Value> = text
                .lines()
                .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
                .filter(|message: &Value| message["kind"] == "stats")
                .collect();
            if found.len() >= count {
                return found;
            }
            assert!(started.elapsed() < TEST_TIMEOUT, "{text}");
            let read = stream.read(&mut buffer).expect("within the time");
            text += &String::from_utf8_lossy(&buffer[..read]);
        }
    }

    fn stop(mut self) -> String {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").arg(&pid).status().expect("kill runs");
        assert!(killed.success());
        let mut text = String::new();
        if let Some(mut err) = self.child.stderr.take() {
            let _ = err.read_to_string(&mut text);
        }
        assert!(self.child.wait().expect("it ends").success(), "{text}");
        text
    }
}

fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    socket.local_addr().expect("an address").port()
}

#[test]
fn slow_viewers_delay_no_frame_and_memory_is_bounded() {
    let daemon = Daemon::start("");
    let frames = |stats: &Value| stats["sources"][0]["frames"].as_u64().unwrap_or(0);
    let before = daemon.stats(3);
    let viewers: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = connect(daemon.address);
            let request = format!(
                "GET /api/sources/gate/mjpeg HTTP/1.1\r\nHost: {}\r\n\r\n",
                daemon.address
            );
            // Some are refused: there are 64 streams. None reads.
            let _ = stream.write_all(request.as_bytes());
            stream
        })
        .collect();
    let during = daemon.stats(6);
    let last = during.last().expect("statistics");
    let span = |from: &Value, to: &Value| {
        let ms = |stats: &Value| stats["uptime_ms"].as_f64().unwrap_or_default();
        (frames(to) - frames(from)) as f64 / (ms(to) - ms(from)) * 1000.0
    };
    // The source paces itself to 20 frames/s; on a busy machine both rates are lower.
    let (alone, watched) = (span(&before[0], &before[2]), span(&during[1], last));
    assert!(
        watched > 0.5 * alone,
        "{watched:.1} frames/s after {alone:.1}"
    );
    let dropped = last["sources"][0]["dropped_frames"].as_u64();
    let rss = |stats: &Value| stats["rss_bytes"].as_u64().unwrap_or(0);
    let grown = rss(last).saturating_sub(rss(&before[2]));
    assert!(grown < 64 << 20, "{grown} bytes more, {dropped:?} dropped");
    drop(viewers);
    daemon.stop();
}

#[test]
fn pictures_are_made_only_while_someone_looks() {
    let daemon = Daemon::start("  preview: {max_fps: 10, max_width: 320}\n");
    let picture = || {
        let answer = get_bytes(daemon.address, "/api/sources/gate/picture.jpg");
        let at = answer
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .expect("a head");
        let head = String::from_utf8_lossy(&answer[..at]).into_owned();
        assert_eq!(status(&head), "200", "{head}");
        let captured: u64 = header(&head, "x-captured-ms")
            .and_then(|at| at.parse().ok())
            .expect("a time");
        (captured, answer[at + 4..].to_vec())
    };
    let (first, jpeg) = wait_until_some("a picture", || {
        let head = get(daemon.address, "/api/sources/gate/picture.jpg", "");
        (status(&head) == "200").then(picture)
    });
    let image = image::load_from_memory(&jpeg).expect("a JPEG image");
    assert_eq!((image.width(), image.height()), (320, 180));
    let (second, _) = picture();
    assert!(second > first, "{second} after {first}");
    daemon.stop();
}

fn get_bytes(address: SocketAddr, path: &str) -> Vec<u8> {
    let mut stream = connect(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn without_users_no_one_changes_anything_unless_it_is_configured() {
    let rules = r#"{"zones": [{"name": "door", "coordinates": [[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]]}], "lines": []}"#;
    let daemon = Daemon::start("");
    wait_until_some("the source", || {
        let answer = get(daemon.address, "/api/sources/gate/rules", "");
        (status(&answer) == "200").then_some(())
    });
    let put = |daemon: &Daemon| change("PUT", daemon.address, "/api/sources/gate/rules", rules, "");
    assert_eq!(status(&put(&daemon)), "403");
    assert_eq!(
        status(&post(daemon.address, "/api/login", &login("a", "b"), "")),
        "409"
    );
    daemon.stop();
    let daemon = Daemon::start("  without_users: operator\n");
    wait_until_some("the source", || {
        let answer = get(daemon.address, "/api/sources/gate/rules", "");
        (status(&answer) == "200").then_some(())
    });
    let answer = put(&daemon);
    assert!(body(&answer).contains("\"saved\":true"), "{answer}");
    wait_until_some("the zone", || {
        get(daemon.address, "/api/sources/gate/rules", "")
            .contains("door")
            .then_some(())
    });
    daemon.stop();
}

#[test]
fn users_are_added_and_listed_by_the_program() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("users");
    let user = |arguments: &[&str], input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetwatch"));
        command
            .arg("user")
            .args(arguments)
            .arg("--users-file")
            .arg(&path);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stdin = child.stdin.take().expect("piped");
        // It may have ended without reading.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        wait_for_output(child)
    };
    let added = user(&["add", "anna", "--role", "operator"], "a long password\n");
    assert!(added.status.success(), "{}", stderr(&added));
    for (arguments, input, wanted) in [
        (vec!["add", "anna"], "a long password\n", "already"),
        (vec!["add", "bert"], "short\n", "too short"),
        (vec!["add", "bert"], "", "no password was given"),
        (vec!["add", "b/rt"], "a long password\n", "no name"),
        (
            vec!["passwd", "carl"],
            "a long password\n",
            "there is no user",
        ),
        (vec!["remove", "carl"], "", "there is no user"),
    ] {
        let refused = user(&arguments, input);
        assert!(!refused.status.success(), "{arguments:?}");
        let text = stderr(&refused);
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
    let token = user(&["token", "add", "ha", "--scope", "pictures"], "");
    let token = String::from_utf8_lossy(&token.stdout).trim().to_owned();
    assert!(token.starts_with("jw_") && token.len() == 67, "{token}");
    let listed = user(&["list"], "");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(
        text.contains("anna")
            && text.contains("operator")
            && text.contains("ha")
            && text.contains("pictures"),
        "{text}"
    );
    assert!(!text.contains("argon2") && !text.contains(&token), "{text}");
}

#[test]
fn check_reports_what_run_would_refuse() {
    let setup = Setup::new(
        "sources: [{name: a, uri: 'synthetic://traffic'}]\ndetector: {backend: scripted}\npublish: {mqtt: off}\nweb: {listen: '127.0.0.1:0', users_file: users}\n",
    );
    let output = finish(&mut setup.command("check"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        !output.status.success() && text.contains("jetwatch user add"),
        "{text}"
    );
    let mut users = Users::default();
    users.add("anna", WebRole::Viewer, PASSWORD).expect("new");
    users.save(&setup.path("users")).expect("written");
    let output = finish(&mut setup.command("check"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("1 users, 0 tokens"), "{text}");
}

#[test]
fn over_tls_the_cookie_is_bound_to_this_host() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    authority(folder.path(), "t");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let page = Page::start(&format!(
        "tls: {{cert_file: {}, key_file: {}}}",
        file("t-server.pem"),
        file("t-server.key")
    ));
    let address = page.address();
    let body = login("anna", PASSWORD);
    let request = format!(
        "POST /api/login HTTP/1.1\r\nHost: localhost:{0}\r\nOrigin: https://localhost:{0}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {1}\r\n\r\n{body}",
        address.port(),
        body.len()
    );
    let answer = through_tls(address, folder.path(), &request);
    assert_eq!(status(&answer), "204", "{answer}");
    let cookie = header(&answer, "set-cookie").expect("a session");
    assert!(
        cookie.starts_with("__Host-jetwatch=") && cookie.contains("; Secure"),
        "{cookie}"
    );
    assert!(
        header(&answer, "strict-transport-security").is_some(),
        "{answer}"
    );
    let session = cookie.split(';').next().expect("a cookie");
    let request = format!(
        "GET /api/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: {session}\r\n\r\n"
    );
    assert_eq!(
        status(&through_tls(address, folder.path(), &request)),
        "200"
    );
    // In clear text, nothing is answered.
    assert!(!get(address, "/", "").contains("HTTP/1.1 200"));
}
