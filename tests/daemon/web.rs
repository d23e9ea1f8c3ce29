// SPDX-License-Identifier: Apache-2.0
//! The page over real connections: log-ins, lists, streams, what is refused, and the real daemon. Who may do what is tested in
//! `web_roles.rs`, clients that are slow, many or malicious in `web_clients.rs`; what a browser shows by `make web-test`.

use crate::metrics::through_tls;
use crate::publish_access::authority;
use crate::support::daemon::{Setup, exits, finish, stderr, wait_for_output, wait_until_some};
use crate::support::page::{
    Daemon, Double, PASSWORD, Page, body, body_json, change, connect, get, header, login, post,
    session, status, web_config,
};

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use jetwatch_config::{WebConfig, WebRole};
use jetwatch_pixels::decode;
use jetwatch_types::Size;
use jetwatch_web::{TrackStep, Users, WebError, WebServer};
use serde_json::{Value, json};

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
fn a_user_changes_its_own_password_and_its_sessions_end() {
    let page = Page::start("");
    let address = page.address();
    let [vera, elsewhere, otto] = ["vera", "vera", "otto"].map(|user| page.log_in(user));
    let change = |old: &str, new: &str, session: &str| {
        let body = json!({"old": old, "new": new}).to_string();
        post(address, "/api/password", &body, session)
    };
    let new = "another long password";
    for (old, new, wanted, reason) in [
        ("a wrong password", new, "403", "old password is wrong"),
        (PASSWORD, "short", "400", "too short"),
    ] {
        let answer = change(old, new, &vera);
        assert_eq!(status(&answer), wanted, "{answer}");
        assert!(body(&answer).contains(reason), "{answer}");
    }
    let mut stream = connect(address);
    let request = format!("GET /api/live HTTP/1.1\r\nHost: {address}\r\n{elsewhere}\r\n");
    stream.write_all(request.as_bytes()).expect("written");
    let mut start = [0; 12];
    stream.read_exact(&mut start).expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 200");
    let answer = change(PASSWORD, new, &vera);
    assert_eq!(status(&answer), "204", "{answer}");
    let fresh = session(&answer);
    let events = |session: &str| status(&get(address, "/api/events", session)).to_owned();
    assert_eq!(
        [&fresh, &otto, &vera, &elsewhere].map(|session| events(session)),
        ["200", "200", "401", "401"]
    );
    // A stream that is open ends with its session, and gives nothing more.
    page.hub
        .append(br#"{"kind":"analytics","after":"the change"}"#);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("its end");
    assert!(!String::from_utf8_lossy(&rest).contains("the change"));
    let log_in = |password: &str| {
        let answer = post(address, "/api/login", &login("vera", password), "");
        status(&answer).to_owned()
    };
    assert_eq!(
        (log_in(PASSWORD), log_in(new)),
        ("401".to_owned(), "204".to_owned())
    );
    // The others are in the file still.
    let users = Users::load(&page.folder.path().join("users")).expect("its file");
    assert_eq!((users.users().len(), users.tokens().len()), (3, 3));
}

#[test]
fn guesses_of_the_old_password_are_limited() {
    let page = Page::start("");
    let session = page.log_in("vera");
    let mut found = Vec::new();
    for guess in 0..12 {
        let body = json!({"old": format!("guess {guess}"), "new": "another long password"});
        let answer = post(page.address(), "/api/password", &body.to_string(), &session);
        found.push(status(&answer).to_owned());
    }
    assert_eq!(found[..10], ["403"; 10]);
    assert_eq!(found[10..], ["429"; 2]);
}

#[test]
fn a_file_of_users_that_cannot_be_written_is_told() {
    let page = Page::start("");
    let session = page.log_in("vera");
    // What others may read is not used; the session goes on meanwhile, since the file is looked at once a second only.
    let path = page.folder.path().join("users");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(&path, open).expect("set");
    let request = json!({"old": PASSWORD, "new": "another long password"}).to_string();
    let answer = post(page.address(), "/api/password", &request, &session);
    assert!(["409", "401"].contains(&status(&answer)), "{answer}");
    assert!(!answer.contains(&path.display().to_string()), "{answer}");
}

#[test]
fn events_come_in_pages_without_gap_or_repetition() {
    let page = Page::start("");
    let address = page.address();
    let session = page.log_in("vera");
    let event = |number: u64| {
        let label = ["car", "person"][(number % 2) as usize];
        let source = ["gate", "yard", "yard"][(number % 3) as usize];
        json!({"kind": "event", "id": format!("t{number}"), "source": source, "label": label, "track_id": number,
            "started_at": format!("2026-01-01T00:{:02}:{:02}.000Z", number / 60, number % 60)})
    };
    let publish = |number: u64| {
        let event = event(number);
        let source = event["source"].as_str().expect("a name");
        page.hub
            .track(source, number, TrackStep::New, event.to_string().as_bytes());
        if number.is_multiple_of(10) {
            let in_zone = json!({"kind": "analytics", "source": source, "name": "door", "track_id": number, "label": event["label"], "at": event["started_at"]});
            page.hub.append(in_zone.to_string().as_bytes());
        }
    };
    for number in 0..120 {
        publish(number);
    }
    let read = |query: &str| -> (Vec<String>, Value, Value) {
        let answer = get(address, &format!("/api/events?{query}"), &session);
        let found = body_json(&answer);
        let ids = found["events"].as_array().expect("a list").iter();
        let ids = ids.filter_map(|event| event["message"]["id"].as_str().map(str::to_owned));
        (
            ids.collect(),
            found["next"].clone(),
            found["oldest"].clone(),
        )
    };
    let pages = |filter: &str| {
        let (mut all, mut next) = (Vec::new(), Value::Null);
        for number in 200.. {
            let before = next
                .as_u64()
                .map_or_else(String::new, |next| format!("&before={next}"));
            let (ids, found, oldest) = read(&format!("limit=7{filter}{before}"));
            assert_eq!(oldest, "2026-01-01T00:00:00.000Z");
            all.extend(ids);
            next = found;
            if next.is_null() {
                break;
            }
            // What comes meanwhile moves nothing.
            publish(number);
        }
        all
    };
    let wanted = |admits: &dyn Fn(u64) -> bool| -> Vec<String> {
        let numbers = (0..120).rev().filter(|number| admits(*number));
        numbers.map(|number| format!("t{number}")).collect()
    };
    assert_eq!(
        pages("&source=gate&to=2026-01-01T00:02:00.000Z"),
        wanted(&|number| number.is_multiple_of(3))
    );
    assert_eq!(
        pages("&label=car&source=yard&to=2026-01-01T00:02:00.000Z"),
        wanted(&|number| number.is_multiple_of(2) && number % 3 != 0)
    );
    assert_eq!(
        pages("&zone=door&to=2026-01-01T00:02:00.000Z"),
        wanted(&|number| number.is_multiple_of(10))
    );
    let minute = "&from=2026-01-01T00:00:30.000Z&to=2026-01-01T00:01:00.000Z";
    assert_eq!(pages(minute), wanted(&|number| (30..60).contains(&number)));
    // Kept items have their own pages.
    let answer = get(address, "/api/media?before=clip-9", &session);
    let found = body_json(&answer);
    assert_eq!(
        (&found["items"][0]["before"], &found["next"]),
        (&json!("clip-9"), &json!("clip-1"))
    );
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
fn streams_have_a_limit_and_messages_arrive() {
    let page = Page::start("");
    let address = page.address();
    let [vera, otto] = ["vera", "otto"].map(|user| page.log_in(user));
    page.hub.retain("gate", "source", br#"{"kind":"source"}"#);
    let open = |session: &str| {
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
    let mut first = open(&vera);
    read_until(&mut first, "event: complete");
    page.hub.append(br#"{"kind":"analytics"}"#);
    read_until(&mut first, "data: {\"kind\":\"analytics\"}\n\n");
    let mut others = Vec::new();
    // A user leaves some of the 64 places to others.
    for (session, count) in [(&vera, 47), (&otto, 16)] {
        for _ in 0..count {
            let mut stream = open(session);
            read_until(&mut stream, "data: {\"kind\":\"source\"}\n\n");
            others.push(stream);
        }
        let mut refused = open(session);
        assert!(read_until(&mut refused, "too many").starts_with("HTTP/1.1 503"));
    }
    drop(others);
    wait_until_some("places of streams that have ended", || {
        let mut stream = open(&vera);
        let mut start = [0; 12];
        stream.read_exact(&mut start).expect("an answer");
        (&start == b"HTTP/1.1 200").then_some(())
    });
}

#[test]
fn pages_that_are_open_to_the_network_need_users_and_tls() {
    let config = web_config("");
    let start = |config: &WebConfig, listen| {
        let folder = PathBuf::new();
        let backend = Arc::new(Double { folder });
        let (hub, board) = (Arc::default(), Arc::default());
        WebServer::start(config, listen, &[], None, hub, board, backend)
    };
    let open = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = start(&config, open);
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
    let refused = start(&config, open);
    assert!(
        matches!(refused, Err(WebError::OpenToNetwork { missing: "tls", .. })),
        "{refused:?}"
    );
    let local = config.listen.expect("an address");
    let refused = start(&config, local);
    assert!(matches!(refused, Err(WebError::Users(_))), "{refused:?}");
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
    assert_eq!(
        decode(jpeg).expect("a JPEG image").size,
        Size::new(320, 180)
    );
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
    #[rustfmt::skip]
    let cases = [
        (vec!["add", "anna"], "a long password\n", "already"),
        (vec!["add", "bert"], "short\n", "too short"),
        (vec!["add", "bert"], "", "no password was given"),
        (vec!["add", "b/rt"], "a long password\n", "no name"),
        (vec!["password", "carl"], "a long password\n", "there is no user"),
        (vec!["remove", "carl"], "", "there is no user"),
    ];
    for (arguments, input, wanted) in cases {
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
    assert_has!(text => "anna", "operator", "ha", "pictures");
    assert!(!text.contains("argon2") && !text.contains(&token), "{text}");
}

#[test]
fn check_reports_what_run_would_refuse() {
    let setup = Setup::new(
        "sources: [{name: a, uri: 'synthetic://traffic'}]\ndetector: {backend: scripted}\npublish: {mqtt: off}\nweb: {listen: '127.0.0.1:0', users_file: users}\n",
    );
    assert_has!(exits(0, &mut setup.command("check")).out => "no user yet", "jetwatch page");
    let elsewhere = Setup::new(
        "sources: [{name: a, uri: 'synthetic://traffic'}]\ndetector: {backend: scripted}\npublish: {mqtt: off}\nweb: {listen: '127.0.0.1:0', users_file: missing/users}\n",
    );
    assert_has!(exits(1, &mut elsewhere.command("check")).out => "jetwatch user add");
    let mut users = Users::default();
    users.add("anna", WebRole::Viewer, PASSWORD).expect("new");
    users.save(&setup.path("users")).expect("written");
    let output = finish(&mut setup.command("check"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_has!(text => "1 users, 0 tokens");
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
