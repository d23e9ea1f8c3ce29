// SPDX-License-Identifier: Apache-2.0
//! Clients of the page that are slow, many or malicious: what they ask for is refused, they keep no one out, and cost the daemon no more
//! than its limits.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use jetwatch_config::WebRole;
use jetwatch_web::Users;

use crate::support::clips;
use crate::support::daemon::wait_until_some;
use crate::support::page::{
    Daemon, PASSWORD, Page, change, connect, exchange, get, header, login, post, status, status_of,
};
use crate::support::project::root;

/// Threads that the page may start: those that read files, hash passwords and wait for encoded streams.
const MAX_THREADS: u64 = 16;

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

/// A figure of `/proc/PID/status`.
fn figure(daemon: &Daemon, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no {key} in {text}"))
}

fn open_files(daemon: &Daemon) -> usize {
    let folder = format!("/proc/{}/fd", daemon.child.id());
    fs::read_dir(folder).expect("it runs").count()
}

/// A daemon that plays a video as a camera would send it, and keeps clips, so that there is an encoded stream.
fn daemon_with_stream(folder: &Path) -> Daemon {
    let video = clips::mp4(folder, "camera.mp4", 640, 360, 150);
    let model = root().join("models/street-nano");
    let media = folder.join("media");
    Daemon::with(|port| {
        format!(
            "device: test\nsources:\n  - {{name: gate, uri: {}, playback_fps: 30, loop: true}}\ndetector: {{model: {}}}\npublish: {{mqtt: off, stats_interval_s: 1}}\nrecord:\n  folder: {}\n  retention: {{min_free_bytes: 1MiB, min_free_percent: 0}}\n  clips: {{enabled: true}}\nweb: {{listen: '127.0.0.1:{port}'}}\n",
            video.display(),
            model.display(),
            media.display()
        )
    })
}

/// How many frames per second viewers cost is measured by `benches/scripts/media`.
#[test]
fn frames_go_on_beside_slow_viewers_and_memory_and_threads_are_bounded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let daemon = daemon_with_stream(folder.path());
    wait_until_some("the encoded stream", || {
        let info = get(daemon.address, "/api/info", "");
        info.contains("\"streams\":[\"gate\"]").then_some(())
    });
    // Opened first: viewers take all places of streams.
    let mut watch = daemon.watch();
    watch.next(1);
    let (rss, threads) = (figure(&daemon, "VmRSS:"), figure(&daemon, "Threads:"));
    let open = |path: &str| {
        let mut stream = connect(daemon.address);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", daemon.address);
        // Some are refused: each kind has its limit. None reads.
        let _ = stream.write_all(request.as_bytes());
        stream
    };
    let mut viewers = Vec::new();
    for path in [
        "/api/sources/gate/mjpeg",
        "/api/live",
        "/api/sources/gate/stream.mp4",
        "/api/pictures?source=gate",
    ] {
        viewers.extend((0..200).map(|_| open(path)));
        // What has come meanwhile, and more.
        let during = watch.next(4);
        let frames: Vec<_> = (during.iter())
            .map(|stats| stats["sources"][0]["frames"].as_u64())
            .collect();
        assert!(frames.is_sorted_by(|a, b| a < b), "{path}: {frames:?}");
        let grown = figure(&daemon, "VmRSS:").saturating_sub(rss);
        assert!(grown < 96 * 1024, "{path}: {grown} KiB more");
        let started = figure(&daemon, "Threads:").saturating_sub(threads);
        assert!(started <= MAX_THREADS, "{path}: {started} threads more");
        // Others are answered meanwhile.
        assert_eq!(status(&get(daemon.address, "/", "")), "200", "{path}");
    }
    drop(viewers);
    daemon.stop();
}

#[test]
fn clients_that_read_nothing_are_disconnected() {
    let daemon = Daemon::start("");
    let files = wait_until_some("statistics", || {
        (!daemon.stats(1).is_empty()).then(|| open_files(&daemon))
    });
    let rss = figure(&daemon, "VmRSS:");
    let mut clients: Vec<TcpStream> = (0..5).map(|_| connect(daemon.address)).collect();
    let request = format!("GET /api/info HTTP/1.1\r\nHost: {}\r\n\r\n", daemon.address);
    let many = request.repeat(200);
    for client in &mut clients {
        client.set_nonblocking(true).expect("set");
        // Until the server takes no more, since its answers are not read.
        for _ in 0..500 {
            if client.write_all(many.as_bytes()).is_err() {
                break;
            }
        }
    }
    let grown = figure(&daemon, "VmRSS:").saturating_sub(rss);
    assert!(grown < 64 * 1024, "{grown} KiB more");
    assert_eq!(status(&get(daemon.address, "/", "")), "200");
    // The limit of a client that takes no byte has its effect while the clients are there.
    wait_until_some("the end of the connections", || {
        (open_files(&daemon) <= files + 4).then_some(())
    });
    drop(clients);
    daemon.stop();
}

#[test]
fn connections_leave_nothing_behind() {
    let daemon = Daemon::start("");
    let files = open_files(&daemon) + 8;
    for _ in 0..1000 {
        let mut client = connect(daemon.address);
        client.write_all(b"GET / HT").expect("written");
    }
    wait_until_some("the files of before", || {
        (open_files(&daemon) <= files).then_some(())
    });
    daemon.stop();
}

#[test]
fn bodies_that_do_not_come_have_a_time_limit() {
    let page = Page::start("");
    let address = page.address();
    let session = page.log_in("otto");
    let origin = format!("Origin: http://{address}\r\n");
    // Without a right to it, a body is not waited for.
    let refused = format!(
        "PUT /api/sources/gate/rules HTTP/1.1\r\nHost: {address}\r\n{origin}Content-Length: 1000\r\n\r\n{{"
    );
    let mut client = connect(address);
    client.write_all(refused.as_bytes()).expect("written");
    let mut start = [0; 12];
    client.read_exact(&mut start).expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 401");
    let slow = refused.replace("\r\n\r\n{", &format!("\r\n{session}\r\n{{"));
    let mut clients: Vec<TcpStream> = (0..50).map(|_| connect(address)).collect();
    for client in &mut clients {
        client.write_all(slow.as_bytes()).expect("written");
    }
    assert_eq!(status(&get(address, "/api/events", &session)), "200");
    for client in &mut clients {
        client.read_exact(&mut start).expect("an answer");
        assert_eq!(&start, b"HTTP/1.1 408");
    }
}

#[test]
fn requests_that_two_servers_would_read_differently_are_refused() {
    let page = Page::start("");
    let address = page.address();
    let session = page.log_in("anna");
    let host = format!("Host: {address}\r\n");
    let hidden = format!("GET /api/support HTTP/1.1\r\n{host}{session}\r\n");
    #[rustfmt::skip]
    let cases = [
        ("two lengths", format!("POST /api/login HTTP/1.1\r\n{host}Content-Length: 0\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len())),
        ("a length that is none", format!("POST /api/login HTTP/1.1\r\n{host}Content-Length: +5\r\n\r\nhello")),
        ("an unknown coding", format!("POST /api/login HTTP/1.1\r\n{host}Transfer-Encoding: xchunked\r\n\r\n{hidden}")),
        ("a bad chunk", format!("POST /api/login HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\nzz\r\n{hidden}")),
        ("a space before the colon", format!("GET / HTTP/1.1\r\nHost : {address}\r\n\r\n")),
        ("a line break in a header", format!("GET / HTTP/1.1\r\n{host}X: a\r\n b: c\r\n\r\n")),
        ("a zero byte", format!("GET / HTTP/1.1\r\n{host}X: \0\r\n\r\n")),
        ("no host", "GET / HTTP/1.1\r\n\r\n".to_owned()),
        ("two hosts", format!("GET / HTTP/1.1\r\nHost: evil.example\r\n{host}\r\n")),
        ("another site", "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned()),
        ("a tunnel", format!("CONNECT evil.example:80 HTTP/1.1\r\n{host}\r\n")),
        ("a trace", format!("TRACE / HTTP/1.1\r\n{host}\r\n")),
        ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned()),
        ("TLS", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0".to_owned()),
    ];
    for (what, request) in cases {
        let mut client = connect(address);
        client.write_all(request.as_bytes()).expect("written");
        client.shutdown(std::net::Shutdown::Write).expect("open");
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let is_refused = answer.is_empty()
            || [
                "400", "401", "403", "404", "405", "413", "415", "421", "431", "505",
            ]
            .contains(&status(&answer));
        assert!(is_refused && !answer.contains("200 OK"), "{what}: {answer}");
    }
}

#[test]
fn floods_of_attempts_take_little_memory_and_keep_no_one_out() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("users");
    let mut users = Users::default();
    users
        .add("anna", WebRole::Administrator, PASSWORD)
        .expect("new");
    users.save(&path).expect("written");
    let daemon = Daemon::start(&format!("  users_file: {}\n", path.display()));
    let address = daemon.address;
    let answer = post(address, "/api/login", &login("anna", PASSWORD), "");
    let cookie = header(&answer, "set-cookie").expect("a session");
    let session = format!(
        "Cookie: {}\r\n",
        cookie.split(';').next().expect("a cookie")
    );
    // Sources and pools are there: what comes now is of the attempts.
    wait_until_some("statistics", || {
        let history = get(address, "/api/history", &session);
        history.contains("\"stages\":[[").then_some(())
    });
    let rss = figure(&daemon, "VmRSS:");
    let attackers: Vec<_> = (0..60)
        .map(|number| {
            std::thread::spawn(move || {
                let attempt = login(&format!("user-{number}"), "a wrong password");
                status(&post(address, "/api/login", &attempt, "")).to_owned()
            })
        })
        .collect();
    assert_eq!(status(&get(address, "/api/events", &session)), "200");
    for attacker in attackers {
        let found = attacker.join().expect("an answer");
        assert!(["401", "429"].contains(&found.as_str()), "{found}");
    }
    // One password is hashed at a time, in 19 MiB.
    let grown = figure(&daemon, "VmRSS:").saturating_sub(rss);
    assert!(grown < 48 * 1024, "{grown} KiB more");
    assert_eq!(
        status_of("GET", address, "/api/support", "", &session),
        "200"
    );
    daemon.stop();
}
