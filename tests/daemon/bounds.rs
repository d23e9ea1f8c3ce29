// SPDX-License-Identifier: Apache-2.0
//! What one client can cost the daemon: the most expensive input that each path of the page, the metrics and each command accept, as
//! often at a time as it is admitted. The processor time and the memory of the process are bounded, and others log in meanwhile.
//!
//! SECURITY.md has the table of what was measured; the bounds here hold for the program without optimization, on a busy machine.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jetwatch_web::endpoints;
use serde_json::{Value, json};

use crate::support::daemon::wait_until_some;
use crate::support::page::{
    Daemon, PASSWORD, body, connect, exchange, get, login, session, status, three_users,
};
use crate::support::ports::free_port;
use crate::support::publish::clients::publish_lines;

/// Longest body that the page accepts.
const MAX_BODY: usize = 64 * 1024;

/// Processor time of all requests of a row.
const MAX_CPU: Duration = Duration::from_secs(60);

/// Memory above that of before, in MiB; commands may add as many sources as a configuration may have.
const MAX_GROWTH: u64 = 96;
const MAX_GROWTH_OF_SOURCES: u64 = 320;

/// Time in which another client has its answer. On a quiet machine it is below 0.5 s.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Time in which a stream is read.
const READING: Duration = Duration::from_secs(2);

/// Clients at a time.
const CLIENTS: usize = 32;

/// Fields of each command.
const COMMANDS: [&str; 5] = [
    "add_source",
    "remove_source",
    "set_detection",
    "set_rule",
    "set_score_threshold",
];

/// Stands for four digits that are others in each request.
const COUNT: &str = "NEXT";

/// What one client does again and again.
enum Attack {
    /// Sends this request, and reads the whole answer.
    Request(String),
    /// Opens this stream, reads it for [`READING`], then no more of it.
    Stream(String),
    /// Publishes these lines.
    Publish(String),
}

/// A row of the table: which path, the most expensive input, how many clients send it how often, and the status of an answer that says that
/// it was done.
struct Row {
    path: String,
    input: &'static str,
    status: &'static str,
    attack: Attack,
    clients: usize,
    times: usize,
}

/// A daemon with a source that is drawn, kept pictures and clips, users, commands and metrics.
struct Target {
    daemon: Daemon,
    page: SocketAddr,
    metrics: SocketAddr,
    broker: u16,
    sessions: Vec<String>,
    clip: String,
    snapshot: String,
    /// All that is published, as JSON lines.
    events: PathBuf,
}

impl Target {
    fn start(folder: &Path) -> Self {
        three_users().save(&folder.join("users")).expect("written");
        let (metrics, broker) = (free_port(), free_port());
        let yaml = |port| {
            format!(
                "device: test
sources:
  - {{name: gate, uri: 'synthetic://traffic?seed=1&objects=8&width=320&height=180&fps=5'}}
source_templates:
  - name: more
    parameters: [{{name: n, min: 1, max: 4}}]
    source: {{uri: 'synthetic://traffic?seed={{n}}&objects=1&width=64&height=48&fps=1'}}
commands: {{enabled: true}}
detector: {{backend: scripted}}
record:
  folder: {0}/media
  retention: {{min_free_bytes: 1MiB, min_free_percent: 0}}
  snapshots: {{enabled: true}}
  clips: {{enabled: true, pre_roll_s: 1, post_roll_s: 1, max_s: 4}}
publish: {{stats_interval_s: 1, json_lines: {{path: {0}/events.jsonl}}, mqtt: {{listen: '127.0.0.1:{broker}'}}}}
metrics: {{listen: '127.0.0.1:{metrics}'}}
web: {{listen: '127.0.0.1:{port}', users_file: {0}/users, trusted_proxies: [127.0.0.1]}}
",
                folder.display()
            )
        };
        let state = folder.display().to_string();
        let mut daemon = Daemon::with_environment(yaml, &[("JETWATCH_STATE_DIR", state.as_str())]);
        // It writes more than a pipe holds, and would wait for a reader.
        let mut log = daemon.child.stderr.take().expect("stderr is piped");
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let page = daemon.address;
        let sessions: Vec<String> = ["anna", "otto"]
            .map(|user| session(&log_in(page, user).0))
            .into();
        let kept = |part: &str| {
            wait_until_some(part, || {
                let answer = get(page, "/api/media?limit=200", &sessions[0]);
                let page: Value = serde_json::from_str(body(&answer)).ok()?;
                let mut items = page["items"].as_array()?.iter();
                items.find_map(|item| Some(item[part].as_str()?.to_owned()))
            })
        };
        Self {
            clip: kept("clip"),
            snapshot: kept("snapshot"),
            events: folder.join("events.jsonl"),
            page,
            metrics: loopback(metrics),
            broker,
            sessions,
            daemon,
        }
    }

    /// A figure of `/proc/PID/status`, in MiB.
    fn memory(&self, key: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.daemon.child.id()));
        let text = text.expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        number.unwrap_or_else(|| panic!("no {key} in {text}")) >> 10
    }

    /// Processor time of the process, and of its children that have ended.
    fn cpu(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.daemon.child.id()));
        let text = text.expect("it runs");
        let (_, fields) = text.rsplit_once(") ").expect("a name in brackets");
        let ticks = fields
            .split(' ')
            .skip(11)
            .take(4)
            .map(|ticks| ticks.parse::<u64>().expect("a number"));
        Duration::from_millis(ticks.sum::<u64>() * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// A request of the page with `body`, filled up to its maximum length by a header; each comes from another address.
    fn request(&self, method: &str, path: &str, body: &str, session: usize) -> Attack {
        let (page, length) = (self.page, body.len());
        let cookie = self.sessions.get(session).map_or("", String::as_str);
        let filling = "x".repeat(10_000);
        Attack::Request(format!(
            "{method} {path} HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\nOrigin: http://{page}\r\nX-Forwarded-For: 2001:db8:1:{COUNT}::1\r\nX-Filling: {filling}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{cookie}\r\n{body}"
        ))
    }

    fn stream(&self, path: &str) -> Attack {
        let (page, cookie) = (self.page, &self.sessions[0]);
        Attack::Stream(format!(
            "GET {path} HTTP/1.1\r\nHost: {page}\r\n{cookie}\r\n"
        ))
    }

    /// Lets the clients of `row` do what they do, and logs in meanwhile. What it cost: processor time, memory in MiB, and the longest wait
    /// for the page and for a session.
    fn measure(&self, row: &Row) -> (Duration, u64, [Duration; 2]) {
        let is_done = AtomicBool::new(false);
        // The server has noticed that the streams of the row before were closed: they count for its limit.
        let until = Instant::now() + Duration::from_secs(60);
        while matches!(row.attack, Attack::Stream(_)) && self.send(&row.attack).1 == "503" {
            assert!(Instant::now() < until, "{}: still too many", row.path);
            thread::sleep(Duration::from_millis(200));
        }
        let before = self.memory("VmRSS:");
        // The maximum memory counts from now on.
        fs::write(format!("/proc/{}/clear_refs", self.daemon.child.id()), "5")
            .expect("its owner may");
        let (cpu, running) = (self.cpu(), AtomicUsize::new(row.clients));
        let mut waits = [Duration::ZERO; 2];
        thread::scope(|scope| {
            let clients: Vec<_> = (0..row.clients)
                .map(|_| {
                    scope.spawn(|| {
                        let mut streams = Vec::new();
                        for _ in 0..row.times {
                            let (stream, status) = self.send(&row.attack);
                            is_done.fetch_or(status == row.status, Ordering::AcqRel);
                            streams.extend(stream);
                        }
                        running.fetch_sub(1, Ordering::AcqRel);
                        streams
                    })
                })
                .collect();
            loop {
                let is_last = running.load(Ordering::Acquire) == 0;
                let started = Instant::now();
                let answer = get(self.page, "/", "");
                assert_eq!(status(&answer), "200", "{}: {answer}", row.path);
                let (_, wait) = log_in(self.page, "vera");
                for (longest, wait) in waits.iter_mut().zip([started.elapsed() - wait, wait]) {
                    *longest = wait.max(*longest);
                }
                // Streams are open while the last one logs in.
                if is_last {
                    break;
                }
            }
            drop(clients);
        });
        assert!(
            is_done.into_inner(),
            "{}: it was never {}",
            row.path,
            row.status
        );
        (
            self.cpu() - cpu,
            self.memory("VmHWM:").saturating_sub(before),
            waits,
        )
    }

    /// The stream that is open now, and the status of the answer.
    fn send(&self, attack: &Attack) -> (Option<TcpStream>, String) {
        static SENT: AtomicUsize = AtomicUsize::new(0);
        let sent = format!("{:04}", SENT.fetch_add(1, Ordering::Relaxed) % 10_000);
        let address = |text: &str| match text.contains(" /metrics ") {
            true => self.metrics,
            false => self.page,
        };
        match attack {
            Attack::Request(text) => {
                let answer = exchange(address(text), text.replace(COUNT, &sent).as_bytes());
                (None, status(&answer).to_owned())
            }
            Attack::Stream(text) => {
                let mut stream = connect(self.page);
                let _ = stream.write_all(text.as_bytes());
                let (mut start, mut buffer) = ([0; 12], vec![0; 64 * 1024]);
                let _ = stream.read_exact(&mut start);
                let until = Instant::now() + READING;
                let _ = stream.set_read_timeout(Some(READING));
                while Instant::now() < until && stream.read(&mut buffer).is_ok_and(|read| read > 0)
                {
                }
                (
                    Some(stream),
                    String::from_utf8_lossy(&start[9..]).into_owned(),
                )
            }
            Attack::Publish(lines) => {
                let lines = lines.replace(COUNT, &sent);
                let mut events = fs::File::open(&self.events).expect("the events");
                events.seek(SeekFrom::End(0)).expect("their end");
                publish_lines(self.broker, "jetwatch/test/command", &lines);
                // Only what is new: other commands make megabytes of replies.
                let (id, mut read) = (last_id(&lines), Vec::new());
                wait_until_some("the reply to the last command", || {
                    let known = read.len().saturating_sub(id.len());
                    events.read_to_end(&mut read).ok()?;
                    let added = String::from_utf8_lossy(&read[known..]);
                    added.contains(&id).then_some(())
                });
                (None, String::new())
            }
        }
    }

    /// A row for each path and command.
    fn rows(&self) -> Vec<Row> {
        let row = |path: &str, input, attack, [clients, times]: [usize; 2]| Row {
            path: path.to_owned(),
            input,
            status: match path {
                "POST /api/login" => "401",
                "POST /api/password" | "POST /api/first-user" => "403",
                // No stream was looked at, and no object has this identity.
                "GET /api/cameras/picture.jpg" | "GET /api/objects/{}/picture.jpg" => "404",
                "POST /api/logout" | "POST /api/reload" | "POST /api/share/revoke" => "204",
                command if COMMANDS.contains(&command) => "",
                _ => "200",
            },
            attack,
            clients,
            times,
        };
        let long = "y".repeat(3000);
        let names = "source=gate&".repeat(64);
        let query = format!(
            "limit=200&source=gate&label={long}&zone={long}&from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z"
        );
        let now = jiff::Timestamp::now();
        let hour = [
            ("from", now - jiff::SignedDuration::from_secs(3500)),
            ("to", now),
        ]
        .map(|(name, at)| format!("{name}={at:.0}"))
        .join("&");
        let half = "z".repeat(MAX_BODY / 2 - 40);
        let attempt = json!({"user": half, "password": half}).to_string();
        let change = json!({"old": half, "new": half}).to_string();
        let first = json!({"secret": half, "user": "anna", "password": half}).to_string();
        let pin = format!("{{\"pinned\": true{}}}", " ".repeat(MAX_BODY - 20));
        let ids: Vec<String> = (0..1000).map(|number| format!("{number:060}")).collect();
        let marks = json!({"ids": ids, "reviewed": true}).to_string();
        assert!(marks.len() < MAX_BODY, "{}", marks.len());
        let get = |path: &str| self.request("GET", path, "", 0);
        let often = [CLIENTS, 8];
        let plain = "all headers";
        let media = |id: &str, end: &str| format!("/api/media/{id}/{end}");
        let mut rows = Vec::new();
        for path in [
            "/",
            "/api/session",
            "/api/now",
            "/api/history",
            "/api/log",
            "/api/info",
            "/api/objects/facets",
            "/api/doctor",
            "/api/cameras",
            "/api/cameras/picture.jpg",
            "/api/support",
        ] {
            rows.push(row(&format!("GET {path}"), plain, get(path), often));
        }
        for path in ["/api/events", "/api/media", "/api/objects"] {
            let request = get(&format!("{path}?{query}"));
            rows.push(row(
                &format!("GET {path}"),
                "200 of all, long filters",
                request,
                often,
            ));
        }
        rows.push(row(
            "GET /api/objects",
            "200 of all",
            get("/api/objects?limit=200"),
            often,
        ));
        rows.push(row(
            "GET /api/activity",
            "all time in 288 parts",
            get("/api/activity?from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&parts=288"),
            often,
        ));
        #[rustfmt::skip]
        let cases = [
            ("/api/live", "48 streams", "/api/live".to_owned(), 48),
            ("/api/pictures", "48 streams of 64 names", format!("/api/pictures?marks=1&{names}"), 48),
            ("/api/sources/{}/mjpeg", "48 streams", "/api/sources/gate/mjpeg".to_owned(), 48),
            ("/api/sources/{}/stream.mp4", "8 streams", "/api/sources/gate/stream.mp4".to_owned(), 8),
        ];
        for (path, input, stream, clients) in cases {
            rows.push(row(
                &format!("GET {path}"),
                input,
                self.stream(&stream),
                [clients, 1],
            ));
        }
        #[rustfmt::skip]
        let cases = [
            ("/api/sources/{}/picture.jpg", plain, "/api/sources/gate/picture.jpg".to_owned(), 2),
            ("/api/sources/{}/rules", plain, "/api/sources/gate/rules".to_owned(), 8),
            ("/api/objects/{}/picture.jpg", plain, "/api/objects/1/picture.jpg".to_owned(), 8),
            ("/api/media/{}/snapshot.jpg", plain, media(&self.snapshot, "snapshot.jpg"), 8),
            ("/api/sources/{}/export.mp4", "an hour", format!("/api/sources/gate/export.mp4?{hour}"), 1),
            ("/api/media/{}/clip.mp4", "the whole clip", media(&self.clip, "clip.mp4"), 8),
        ];
        for (path, input, request, times) in cases {
            rows.push(row(
                &format!("GET {path}"),
                input,
                get(&request),
                [CLIENTS, times],
            ));
        }
        // Nothing listens there.
        let fill = |text: &str| format!("{text}{}", " ".repeat(MAX_BODY - text.len()));
        let search = fill(r#"{"find": {"address": "127.0.0.1:9"}}"#);
        let camera = fill(r#"{"name": "yard", "uri": "rtsp://127.0.0.1:9/1"}"#);
        let share =
            fill(&json!({"path": format!("media/{}/clip.mp4", self.clip), "hours": 1}).to_string());
        let pin_path = media(&self.clip, "pin");
        #[rustfmt::skip]
        let cases = [
            ("/api/login", "64 KiB, wrong", "/api/login", attempt.as_str(), 9, 4),
            ("/api/first-user", "64 KiB, wrong", "/api/first-user", &first, 9, 4),
            ("/api/password", "64 KiB, wrong", "/api/password", &change, 1, 2),
            ("/api/media/{}/pin", "64 KiB", &pin_path, &pin, 0, 8),
            ("/api/objects/reviewed", "1000 objects, 64 KiB", "/api/objects/reviewed", &marks, 0, 8),
            ("/api/doctor", "started again and again", "/api/doctor", "", 0, 8),
            ("/api/cameras", "64 KiB, started again and again", "/api/cameras", &search, 0, 8),
            ("/api/share", "64 KiB", "/api/share", &share, 0, 8),
            ("/api/share/revoke", plain, "/api/share/revoke", "", 0, 8),
            ("/api/reload", plain, "/api/reload", "", 0, 8),
        ];
        for (path, input, request, body, session, times) in cases {
            let request = self.request("POST", request, body, session);
            rows.push(row(
                &format!("POST {path}"),
                input,
                request,
                [CLIENTS, times],
            ));
        }
        rows.push(row("GET /metrics", "8 KiB", self.scrape(), often));
        for method in ["POST", "PUT"] {
            let request = self.request(method, "/api/sources/gate/rules", &strips(), 0);
            let path = format!("{method} /api/sources/{{}}/rules");
            rows.push(row(
                &path,
                "100 zones and lines, 64 KiB",
                request,
                [CLIENTS, 2],
            ));
        }
        rows.push(row(
            "PUT /api/cameras",
            "64 KiB, added again and again",
            self.request("PUT", "/api/cameras", &camera, 0),
            [CLIENTS, 2],
        ));
        for command in COMMANDS {
            rows.push(row(
                command,
                "500 of 4 KiB",
                Attack::Publish(commands(command)),
                [4, 1],
            ));
        }
        // The sessions end with it.
        rows.push(row(
            "POST /api/logout",
            "64 KiB",
            self.request("POST", "/api/logout", &half, 1),
            often,
        ));
        rows
    }

    fn scrape(&self) -> Attack {
        let (address, filling) = (self.metrics, "x".repeat(7000));
        Attack::Request(format!(
            "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nX-Filling: {filling}\r\n\r\n"
        ))
    }
}

/// Logs in from an address of its own; the time until a session was there, whether or not the page asked to wait.
fn log_in(page: SocketAddr, user: &str) -> (String, Duration) {
    let started = Instant::now();
    let attempt = login(user, PASSWORD);
    let length = attempt.len();
    let request = format!(
        "POST /api/login HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\nOrigin: http://{page}\r\nX-Forwarded-For: 203.0.113.7\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{attempt}"
    );
    let answer = wait_until_some("a session", || {
        let answer = exchange(page, request.as_bytes());
        assert!(["204", "429"].contains(&status(&answer)), "{answer}");
        (status(&answer) == "204").then_some(answer)
    });
    (answer, started.elapsed())
}

/// As many zones and lines as are accepted, with as many corners as the body has room for: thin strips, of which each is compared with
/// each other one, as the boxes around them overlap.
fn strips() -> String {
    let strip = |n: usize| -> Vec<[f64; 2]> {
        let side = |x: usize, width: f64| {
            let x = x as f64 / 12.0;
            let y = 0.3 * x + 0.006 * n as f64 + 0.02 + width;
            [x, y].map(|share| (share * 10_000.0).round() / 10_000.0)
        };
        let upper = (1..12).map(|x| side(x, 0.0));
        upper.chain((1..12).rev().map(|x| side(x, 0.003))).collect()
    };
    let name = |kind: char, n: usize| match n {
        0 => format!("{kind}{COUNT}"),
        n => format!("{kind}{n:050}"),
    };
    let zones: Vec<Value> = (0..100)
        .map(|n| json!({"name": name('z', n), "coordinates": strip(n)}))
        .collect();
    let lines: Vec<Value> = (0..100)
        .map(|n| json!({"name": name('l', n), "coordinates": [[0.1, 0.1], [0.9, 0.9]]}))
        .collect();
    let mut text = json!({"zones": zones, "lines": lines}).to_string();
    assert!(text.len() < MAX_BODY, "{}", text.len());
    text.extend(std::iter::repeat_n(' ', MAX_BODY - text.len()));
    text
}

/// The id of the last of `lines`.
fn last_id(lines: &str) -> String {
    let last = lines.lines().next_back().expect("a command");
    let command: Value = serde_json::from_str(last).expect("JSON");
    command["id"].as_str().expect("an id").to_owned()
}

/// 500 commands of the maximum length.
fn commands(command: &str) -> String {
    let mut lines = String::new();
    for number in 0..500 {
        let name = format!("n{number}");
        let mut sent = match command {
            "add_source" => {
                json!({"command": command, "name": name, "template": "more", "parameters": {"n": 1}})
            }
            "set_detection" => json!({"command": command, "name": "gate", "on": number % 2 == 1}),
            "set_rule" => json!({"command": command, "name": "gate", "rule": name, "on": true}),
            "set_score_threshold" => json!({"command": command, "name": "gate", "threshold": 0.1}),
            _ => json!({"command": command, "name": name}),
        };
        sent["id"] = json!(format!("{COUNT}{number:0124}"));
        let sent = sent.to_string();
        writeln!(lines, "{sent}{}", " ".repeat(4096 - sent.len())).expect("a string");
    }
    lines
}

#[test]
fn most_expensive_input_of_each_path_is_bounded_and_others_log_in() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let target = Target::start(folder.path());
    let rows = target.rows();
    let known: BTreeSet<&str> = rows.iter().map(|row| row.path.as_str()).collect();
    for endpoint in endpoints() {
        let path = format!("{} {}", endpoint.method, endpoint.path);
        assert!(known.contains(path.as_str()), "{path} has no row");
    }
    println!(
        "| path | input | clients × times | CPU, s | memory, MiB | GET /, s | log-in, s |\n|---|---|---|---|---|---|---|"
    );
    let mut beyond = Vec::new();
    for row in &rows {
        let (cpu, memory, waits) = target.measure(row);
        let [page, session] = waits.map(|wait| wait.as_secs_f64());
        let line = format!(
            "| `{}` | {} | {} × {} | {:.1} | {memory} | {page:.2} | {session:.2} |",
            row.path,
            row.input,
            row.clients,
            row.times,
            cpu.as_secs_f64()
        );
        println!("{line}");
        let max_growth = match row.path.ends_with("_source") {
            true => MAX_GROWTH_OF_SOURCES,
            false => MAX_GROWTH,
        };
        if cpu > MAX_CPU || memory > max_growth || waits.iter().any(|wait| *wait > MAX_WAIT) {
            beyond.push(line);
        }
    }
    assert!(beyond.is_empty(), "{}", beyond.join("\n"));
    target.daemon.stop();
}

/// Replaces the files below `folder` with these ends of their names by pipes without a writer; their number.
fn put_pipes(folder: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("readable").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            count += put_pipes(&path);
        } else if name.ends_with(".jpg") || name.ends_with(".mp4") {
            fs::remove_file(&path).expect("removed");
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, rustix::fs::Mode::RUSR, 0)
                .expect("made");
            count += 1;
        }
    }
    count
}

#[test]
fn pipes_in_place_of_kept_files_hold_no_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let target = Target::start(folder.path());
    assert!(put_pipes(&folder.path().join("media")) > 1);
    let files = ["snapshot.jpg", "clip.mp4"];
    for row in target.rows() {
        let Attack::Request(_) = &row.attack else {
            continue;
        };
        let started = Instant::now();
        let (_, status) = target.send(&row.attack);
        let is_file = files.iter().any(|end| row.path.ends_with(end));
        let wanted = if is_file { "404" } else { row.status };
        assert_eq!(status, wanted, "{}", row.path);
        let waited = started.elapsed();
        assert!(waited < MAX_WAIT, "{}: {waited:?}", row.path);
    }
    target.daemon.stop();
}
